//! What is on disk about a guest that runs, so that a launcher that is started again finds it.

use crate::request::Start;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const FILE: &str = "record.json";

/// Most bytes of it: some times those of a request.
const LONGEST: u64 = 1 << 20;

/// Written before anything is started, and again when its process is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) start: Start,
    /// Its unpacked image.
    pub(crate) root: Option<PathBuf>,
    /// Its first process, and when the kernel started it.
    pub(crate) process: Option<(u32, u64)>,
}

impl Record {
    /// Writes it, whole or not at all.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let unfinished = folder.join("record.new");
        let mut options = OpenOptions::new();
        let mut file = local_file::open_with(&unfinished, options.write(true).create(true).truncate(true))?;
        file.write_all(&serde_json::to_vec(self).map_err(io::Error::other)?)?;
        fs::rename(unfinished, folder.join(FILE))
    }

    pub(crate) fn read(folder: &Path) -> io::Result<Record> {
        serde_json::from_slice(&local_file::read(&folder.join(FILE), LONGEST)?).map_err(io::Error::other)
    }

    /// Holds its process, if that is still the one.
    pub(crate) fn hold(&self) -> Option<OwnedFd> {
        let (number, began) = self.process?;
        let held = hold(number).ok()?;
        (start_time(number)? == began).then_some(held)
    }
}

/// The number that the runtime wrote into a file.
pub(crate) fn number(file: &Path) -> io::Result<u32> {
    let text = local_file::read(file, 64)?;
    let text = std::str::from_utf8(&text).map_err(io::Error::other)?;
    text.trim().parse().map_err(io::Error::other)
}

/// A pidfd of a process.
pub(crate) fn hold(number: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("no process has this number"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// When the kernel started a process, in clock ticks since the host's start (proc(5), `starttime`).
pub(crate) fn start_time(number: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name before may have anything in it.
    let (_, behind) = text.rsplit_once(')')?;
    behind.split_whitespace().nth(19)?.parse().ok()
}
