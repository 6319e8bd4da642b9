//! Guests' control groups: ending all that is in one, and what it uses (cgroups(7), both versions).

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Attempts to end what is in a group and forks meanwhile.
const ROUNDS: u32 = 500;

/// Where guests' control groups are.
#[derive(Debug)]
pub(crate) struct Cgroups {
    /// Where the hierarchies are mounted.
    pub(crate) root: PathBuf,
    /// The group that guests' are below, in the root of each hierarchy.
    pub(crate) parent: String,
}

impl Cgroups {
    /// Folders that may have guests' groups in them: of version 2, and of each controller of version 1.
    fn parents(&self) -> Vec<PathBuf> {
        let hierarchies = fs::read_dir(&self.root).into_iter().flatten().flatten().map(|entry| entry.path());
        std::iter::once(self.root.clone()).chain(hierarchies).map(|it| it.join(&self.parent)).collect()
    }

    /// The control groups of this name, one in each hierarchy that has it.
    fn groups(&self, name: &str) -> Vec<PathBuf> {
        let groups = self.parents().into_iter().map(|parent| parent.join(name));
        groups.filter(|group| group.join("cgroup.procs").exists()).collect()
    }

    /// Names of the groups that there are.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let parents = self.parents();
        let entries = parents.iter().flat_map(|parent| fs::read_dir(parent).into_iter().flatten().flatten());
        let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Kills all processes of a group; `false` if some are left.
    pub(crate) fn kill(&self, name: &str) -> bool {
        for _ in 0..ROUNDS {
            let mut empty = true;
            for group in &self.groups(name) {
                // Version 2 has it since Linux 5.14.
                let _ = OpenOptions::new()
                    .write(true)
                    .open(group.join("cgroup.kill"))
                    .and_then(|mut file| file.write_all(b"1"));
                for process in processes(group) {
                    empty = false;
                    let Some(pid) = Pid::from_raw(process) else { continue };
                    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
                    // What is held is still the process that was listed: its number may have become
                    // another's.
                    if processes(group).contains(&process) {
                        let _ = pidfd_send_signal(&held, Signal::KILL);
                    }
                }
            }
            if empty {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Kills one process, if it is in a group of this name.
    pub(crate) fn kill_one(&self, name: &str, process: i32) {
        let Some(held) = Pid::from_raw(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return;
        };
        // What is held is the one that is listed now: its number may have become another's.
        if self.groups(name).iter().any(|group| processes(group).contains(&process)) {
            let _ = pidfd_send_signal(&held, Signal::KILL);
        }
    }

    /// Removes a group, which is empty, from all hierarchies. One that is not stays for the next start to
    /// find.
    pub(crate) fn remove(&self, name: &str) {
        self.groups(name).iter().for_each(|group| drop(fs::remove_dir(group)));
    }

    /// Removes the parent where no group is left in it.
    pub(crate) fn remove_parent(&self) {
        self.parents().iter().for_each(|parent| drop(fs::remove_dir(parent)));
    }

    /// Bytes of memory, and microseconds of processor time.
    pub(crate) fn usage(&self, name: &str) -> (Option<u64>, Option<u64>) {
        let read = |path: PathBuf| fs::read_to_string(path).ok();
        let number = |path: PathBuf| read(path)?.trim().parse::<u64>().ok();
        let group = |hierarchy: &str| self.root.join(hierarchy).join(&self.parent).join(name);
        let own = self.root.join(&self.parent).join(name);
        let memory = number(own.join("memory.current"))
            .or_else(|| number(group("memory").join("memory.usage_in_bytes")));
        let of_stat = || {
            let text = read(own.join("cpu.stat"))?;
            text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse().ok()
        };
        let nanoseconds = || {
            let hierarchies = ["cpuacct", "cpu,cpuacct"];
            hierarchies.iter().find_map(|it| number(group(it).join("cpuacct.usage"))).map(|ns| ns / 1000)
        };
        (memory, of_stat().or_else(nanoseconds))
    }
}

fn processes(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}
