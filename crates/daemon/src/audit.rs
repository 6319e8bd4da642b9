//! Who changed what: one JSON object a line, appended, in files of bounded size.

use crate::error::BindError;
use crate::log::{Severity, log};
use crate::settings;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The audit log. Lines are in the system's hands when [`write`](Audit::write) returns: they survive the process.
#[derive(Debug)]
pub(crate) struct Audit {
    settings: settings::Audit,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    bytes: u64,
    trouble: Option<String>,
    /// Refusals that were written in the present second, and those that were left out since the last.
    refusals: (Option<Instant>, u32, u64),
}

/// Refusals of those without rights that are written in a second: nobody fills the log by being refused.
const REFUSALS: u32 = 20;

impl Audit {
    /// Opens the log, or makes it, readable for its owner alone. A last line that was cut off by a crash gets its end, so
    /// that the next one stands by itself.
    pub fn open(settings: &settings::Audit) -> Result<Audit, BindError> {
        let error = |source| BindError::File {
            path: settings.file.clone(),
            what: "cannot open the audit log",
            source,
        };
        let (mut file, mut bytes) = open(&settings.file).map_err(error)?;
        if bytes > 0 && last_byte(&settings.file, bytes).map_err(error)? != b'\n' {
            file.write_all(b"\n").map_err(error)?;
            bytes += 1;
        }
        let state = Mutex::new(State { file, bytes, trouble: None, refusals: (None, 0, 0) });
        Ok(Audit { settings: settings.clone(), state })
    }

    /// Writes one line. A change that was made cannot be undone for want of a line: what cannot be written is told in
    /// the daemon's log, and shows in its health until a later line could be written.
    pub fn write(&self, record: &serde_json::Value) {
        // A record is a map with keys of text, which can always be written.
        let mut line = serde_json::to_vec(record).unwrap_or_default();
        line.push(b'\n');
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.rotate(&mut state).and_then(|()| state.file.write_all(&line));
        match written {
            Ok(()) => {
                state.bytes += line.len() as u64;
                state.trouble = None;
            }
            Err(error) => {
                let what =
                    format!("{}: the audit log cannot be written: {error}", self.settings.file.display());
                log(Severity::Error, &what, &[("lost", record.clone())]);
                state.trouble = Some(what);
            }
        }
    }

    /// Writes the line of a refusal to somebody who is no administrator; of many in a second some, and then how many were left out.
    pub fn write_refusal(&self, mut record: serde_json::Value) {
        let left_out = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let (second, written, left_out) = &mut state.refusals;
            if second.is_none_or(|second| second.elapsed() >= Duration::from_secs(1)) {
                (*second, *written) = (Some(Instant::now()), 0);
            }
            if *written >= REFUSALS {
                *left_out += 1;
                return;
            }
            *written += 1;
            std::mem::take(left_out)
        };
        if left_out > 0 {
            record["left_out"] = left_out.into();
        }
        self.write(&record);
    }

    /// Why the last line could not be written.
    pub fn trouble(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).trouble.clone()
    }

    fn rotate(&self, state: &mut State) -> io::Result<()> {
        if state.bytes < self.settings.bytes {
            return Ok(());
        }
        let older = |n: u32| match n {
            0 => self.settings.file.clone(),
            n => {
                let mut name: OsString = self.settings.file.clone().into();
                name.push(format!(".{n}"));
                PathBuf::from(name)
            }
        };
        for n in (0..self.settings.kept).rev() {
            match std::fs::rename(older(n), older(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.settings.kept == 0 {
            std::fs::remove_file(&self.settings.file)?;
        }
        (state.file, state.bytes) = open(&self.settings.file)?;
        Ok(())
    }
}

fn open(path: &std::path::Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

fn last_byte(path: &std::path::Path, bytes: u64) -> io::Result<u8> {
    use std::os::unix::fs::FileExt;
    let mut last = [0];
    File::open(path)?.read_exact_at(&mut last, bytes - 1)?;
    Ok(last[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(path: &std::path::Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("each line is whole")).collect()
    }

    #[test]
    fn old_files_are_kept_up_to_a_number_and_no_line_is_torn() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let audit = Audit::open(&settings::Audit { file: file.clone(), bytes: 100, kept: 2 }).expect("opens");
        for n in 0..100 {
            audit.write(&json!({"number": n, "text": "x".repeat(20)}));
        }
        let mut files: Vec<_> = std::fs::read_dir(folder.path())
            .expect("reads")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        files.sort();
        assert_eq!(files, ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]);
        let all: Vec<_> = ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"]
            .iter()
            .flat_map(|name| lines(&folder.path().join(name)))
            .collect();
        let numbers: Vec<_> = all.iter().filter_map(|line| line["number"].as_u64()).collect();
        let first = numbers[0];
        assert_eq!(numbers, (first..100).collect::<Vec<_>>(), "the newest lines, in order, without a gap");
    }

    #[test]
    fn a_line_that_a_crash_cut_off_does_not_spoil_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        std::fs::write(&file, "{\"a\":1}\n{\"b").expect("writes");
        let audit =
            Audit::open(&settings::Audit { file: file.clone(), bytes: 1000, kept: 2 }).expect("opens");
        audit.write(&json!({"c": 3}));
        assert_eq!(std::fs::read_to_string(&file).expect("reads"), "{\"a\":1}\n{\"b\n{\"c\":3}\n");
    }

    #[test]
    fn many_refusals_in_a_second_are_counted_and_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let audit =
            Audit::open(&settings::Audit { file: file.clone(), bytes: 1 << 20, kept: 0 }).expect("opens");
        for n in 0..1000 {
            audit.write_refusal(json!({"number": n}));
        }
        audit.state.lock().expect("no panic").refusals.0 = None;
        audit.write_refusal(json!({"number": 1000}));
        let all = lines(&file);
        let left_out: u64 = all.iter().filter_map(|line| line["left_out"].as_u64()).sum();
        assert!(all.len() < 200, "{}", all.len());
        assert_eq!(all.len() as u64 + left_out, 1001, "each is written or counted");
    }

    #[test]
    fn a_log_that_cannot_be_written_shows() {
        let settings = settings::Audit { file: "/dev/full".into(), bytes: 1000, kept: 0 };
        let audit = Audit::open(&settings).expect("opens");
        audit.write(&json!({"c": 3}));
        assert!(audit.trouble().is_some_and(|trouble| trouble.contains("/dev/full")));
    }
}
