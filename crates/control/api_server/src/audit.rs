//! The audit log: one JSON object a line for each change and its client, appended, in files of bounded size.
//!
//! Room for the next lines is reserved on the disk ([`Audit::admit`]) before a change is made, so that a
//! change that is made can be logged. Where the log is required, a change for which there is no room is
//! refused; else it is made, and what could not be logged is counted, shows in the daemon's health, and is
//! told by the next line that can be written.

use crate::audit_rate::{Free, Group, Rate};
use crate::error::BindError;
use crate::log::{Severity, log};
use crate::{settings, time};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The audit log. Lines are in the system's hands when [`write`](Audit::write) returns: they survive the
/// process.
#[derive(Debug)]
pub(crate) struct Audit {
    settings: settings::Audit,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// None: it could not be opened.
    file: Option<File>,
    bytes: u64,
    /// The file's room on the disk reaches at least up to here.
    reserved: u64,
    /// The last line was cut off, by a crash or by a full disk.
    torn: bool,
    trouble: Option<String>,
    /// Lines lost since the last one that was written, and since the start.
    lost: (u64, u64),
    /// Lines that cost a client nothing.
    free: Rate,
}

/// Bytes for which there is room before any change is made, and what is reserved at a time.
const ROOM: u64 = 64 << 10;

impl Audit {
    /// Opens the log, or makes it, readable for its owner alone. A last line that was cut off by a crash gets
    /// its end before the next one is written. Where the disk has no room, or may not be written, the log is
    /// opened later: packets do not wait for it.
    pub fn open(settings: &settings::Audit) -> Result<Audit, BindError> {
        let audit = Audit { settings: settings.clone(), state: Mutex::default() };
        let mut state = audit.state();
        if let Err(source) = audit.reserve(&mut state, ROOM) {
            if !matches!(
                source.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
            ) {
                let path = settings.file.clone();
                return Err(BindError::File { path, what: "cannot open the audit log", source });
            }
            audit.fails(&mut state, &source);
        }
        drop(state);
        Ok(audit)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a file that was removed: what is written to it is gone with the process. One that only has
    /// another name is written to until it is [opened anew](Audit::reopen).
    fn leave_removed(&self, state: &mut State) {
        if state.file.as_ref().is_some_and(is_removed) {
            let what =
                format!("{}: the audit log was removed; a new one begins", self.settings.file.display());
            log(Severity::Error, &what, &[]);
            state.file = None;
        }
    }

    /// Opens the file, if it is not open.
    fn reach<'a>(&self, state: &'a mut State) -> io::Result<&'a mut File> {
        if state.file.is_none() {
            let (file, bytes) = open(&self.settings.file)?;
            let torn = bytes > 0 && last_byte(&self.settings.file, bytes)? != b'\n';
            (state.bytes, state.reserved, state.torn) = (bytes, bytes, torn);
            state.file = Some(file);
        }
        state.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Opens the file anew: another program has given it another name.
    pub fn reopen(&self) {
        let mut state = self.state();
        let before = state.file.take();
        if let Err(error) = self.reach(&mut state) {
            self.fails(&mut state, &error);
            state.file = before;
        }
    }

    fn fails(&self, state: &mut State, error: &io::Error) {
        let what = format!("{}: the audit log cannot be written: {error}", self.settings.file.display());
        if state.trouble.as_ref() != Some(&what) {
            log(Severity::Error, &what, &[]);
        }
        state.trouble = Some(what);
    }

    /// Reserves room for the line of a change that names objects in so many bytes, before it is made.
    ///
    /// # Errors
    /// Why it cannot be logged, in words for the client. Where the log is not required there are none.
    pub fn admit(&self, names: u64) -> Result<(), String> {
        let mut state = self.state();
        let wanted = ROOM + names;
        match self.reserve(&mut state, wanted) {
            Ok(()) => {
                state.trouble = None;
                Ok(())
            }
            Err(error) => {
                self.fails(&mut state, &error);
                match (&state.trouble, self.settings.required) {
                    (Some(trouble), true) => Err(format!("{trouble}; nothing is changed until it can be")),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Whether there is room for such a line already: the disk need not be asked.
    pub fn has_room(&self, names: u64) -> bool {
        let state = self.state();
        let room = state.bytes + ROOM + names <= state.reserved;
        room && state.trouble.is_none() && state.file.as_ref().is_some_and(|file| !is_removed(file))
    }

    fn reserve(&self, state: &mut State, wanted: u64) -> io::Result<()> {
        self.leave_removed(state);
        self.reach(state)?;
        if state.bytes + wanted <= state.reserved {
            return Ok(());
        }
        let file = self.reach(state)?.try_clone()?;
        match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, state.bytes, wanted + ROOM) {
            Ok(()) => state.reserved = state.bytes + wanted + ROOM,
            // Not every file system can; what stands in the way is found when the line is written.
            Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::SPIPE | Errno::INVAL) => {
                if state.lost.0 > 0 {
                    self.append(state, None)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Lines that were lost since the start.
    pub fn lost(&self) -> u64 {
        self.state().lost.1
    }

    /// Writes one line. A change that was made cannot be undone for want of a line: what cannot be written is
    /// told in the daemon's log, and shows in its health until a later line could be written.
    pub fn write(&self, record: &serde_json::Value) {
        self.write_text(&record.to_string());
    }

    /// The same of a record that is JSON's text already.
    pub fn write_text(&self, record: &str) {
        let mut state = self.state();
        match self.append(&mut state, Some(record)) {
            Ok(()) => state.trouble = None,
            Err(error) => {
                self.fails(&mut state, &error);
                let lost = serde_json::from_str(record).unwrap_or_else(|_| record.into());
                log(Severity::Error, "a line of the audit log is lost", &[("lost", lost)]);
                state.lost = (state.lost.0 + 1, state.lost.1 + 1);
            }
        }
    }

    /// Appends a line, and before it how many are missing; or leaves the file as it was.
    fn append(&self, state: &mut State, record: Option<&str>) -> io::Result<()> {
        self.leave_removed(state);
        self.rotate(state)?;
        let (lost, mut line) = (state.lost.0, Vec::new());
        self.reach(state)?;
        if state.torn {
            line.push(b'\n');
        }
        if lost > 0 {
            line.extend_from_slice(
                format!("{{\"time\":\"{}\",\"lost_lines\":{lost}}}\n", time::now()).as_bytes(),
            );
        }
        if let Some(record) = record {
            line.extend_from_slice(printable::json(record).as_bytes());
            line.push(b'\n');
        }
        let before = state.bytes;
        let file = self.reach(state)?;
        let written = file.write_all(&line);
        // A part of a line is worse than none; what cannot be cut off gets its end before the next one.
        let uncut = written.is_err() && file.set_len(before).is_err();
        state.torn = if written.is_ok() { false } else { state.torn || uncut };
        written?;
        state.lost.0 = 0;
        state.bytes += line.len() as u64;
        Ok(())
    }

    /// Writes a line of a client that is no administrator and changed nothing; of many some, and then how
    /// many were left out.
    pub fn write_free(&self, group: Group, kind: Free, mut record: serde_json::Value) {
        let Some(left_out) = self.state().free.admit(group, kind, Instant::now()) else { return };
        if left_out > 0 {
            record["left_out"] = left_out.into();
        }
        self.write(&record);
    }

    /// Why the next line cannot be written; what stood in the way may be gone by now.
    pub fn trouble(&self) -> Option<String> {
        let mut state = self.state();
        if state.trouble.is_some() && self.reserve(&mut state, ROOM).is_ok() {
            state.trouble = None;
        }
        state.trouble.clone()
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
        state.file = None;
        self.reach(state).map(drop)
    }
}

fn open(path: &std::path::Path) -> io::Result<(File, u64)> {
    let file = local_file::open_log(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// Whether no name leads to a file any more.
fn is_removed(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
}

fn last_byte(path: &std::path::Path, bytes: u64) -> io::Result<u8> {
    use std::os::unix::fs::FileExt;
    let mut last = [0];
    local_file::open(path)?.read_exact_at(&mut last, bytes - 1)?;
    Ok(last[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn lines(path: &std::path::Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("each line is whole")).collect()
    }

    fn settings(file: &std::path::Path, bytes: u64, kept: u32) -> settings::Audit {
        settings::Audit { file: file.to_owned(), bytes, kept, required: true }
    }

    #[test]
    fn old_files_are_kept_up_to_a_number_and_no_line_is_torn() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let audit = Audit::open(&settings(&file, 100, 2)).expect("opens");
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
    fn hidden_characters_are_escaped() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let audit = Audit::open(&settings(&file, 1000, 2)).expect("opens");
        let record = json!({"detail": "a\u{202e}b\u{2028}c\u{feff}\u{9b}"});
        audit.write(&record);
        let told = std::fs::read_to_string(&file).expect("reads");
        assert_eq!(told, "{\"detail\":\"a\\u202eb\\u2028c\\ufeff\\u009b\"}\n");
        assert_eq!(lines(&file), [record], "it means the same");
    }

    #[test]
    fn a_line_that_a_crash_cut_off_does_not_spoil_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        std::fs::write(&file, "{\"a\":1}\n{\"b").expect("writes");
        let audit = Audit::open(&settings(&file, 1000, 2)).expect("opens");
        audit.write(&json!({"c": 3}));
        assert_eq!(std::fs::read_to_string(&file).expect("reads"), "{\"a\":1}\n{\"b\n{\"c\":3}\n");
    }

    #[test]
    fn many_refusals_in_a_second_are_counted_and_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let audit = Audit::open(&settings(&file, 1 << 20, 0)).expect("opens");
        let red = || Group::Tenant("red".to_owned());
        for n in 0..1000 {
            audit.write_free(red(), Free::Refusal, json!({"number": n}));
        }
        std::thread::sleep(Duration::from_millis(600));
        audit.write_free(red(), Free::Refusal, json!({"number": 1000}));
        let all = lines(&file);
        let left_out: u64 = all.iter().filter_map(|line| line["left_out"].as_u64()).sum();
        assert!(all.len() < 200, "{}", all.len());
        assert_eq!(all.len() as u64 + left_out, 1001, "each is written or counted");
        audit.write_free(Group::Unknown, Free::Refusal, json!({"another": 1}));
        assert_eq!(lines(&file).last().map(|line| &line["another"]), Some(&1.into()), "each has its own");
    }

    #[test]
    fn a_log_that_cannot_be_written_shows() {
        for required in [true, false] {
            let settings =
                settings::Audit { required, ..settings(std::path::Path::new("/dev/full"), 1000, 0) };
            let audit = Audit::open(&settings).expect("opens");
            audit.write(&json!({"c": 3}));
            audit.write(&json!({"c": 4}));
            assert!(audit.trouble().is_some_and(|trouble| trouble.contains("/dev/full")));
            assert_eq!((audit.lost(), audit.admit(1).is_err()), (2, required));
        }
    }

    #[test]
    fn room_is_reserved_beyond_the_end_and_the_file_is_no_longer_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let audit = Audit::open(&settings(&file, 1 << 20, 2)).expect("opens");
        audit.admit(10).expect("there is room");
        assert_eq!(std::fs::metadata(&file).expect("there").len(), 0);
        audit.write(&json!({"a": 1}));
        assert_eq!(std::fs::read_to_string(&file).expect("reads"), "{\"a\":1}\n");
    }

    #[test]
    fn a_file_with_another_name_is_left_and_a_new_one_begun() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, other) = (folder.path().join("audit.jsonl"), folder.path().join("rotated"));
        let audit = Audit::open(&settings(&file, 1 << 20, 2)).expect("opens");
        audit.write(&json!({"a": 1}));
        std::fs::rename(&file, &other).expect("renamed");
        audit.write(&json!({"a": 2}));
        audit.reopen();
        audit.write(&json!({"a": 3}));
        assert_eq!((lines(&other).len(), lines(&file).len()), (2, 1));
    }

    #[test]
    fn a_file_that_was_removed_is_begun_anew_or_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("below");
        std::fs::create_dir(&below).expect("made");
        let file = below.join("audit.jsonl");
        let audit = Audit::open(&settings(&file, 1 << 20, 2)).expect("opens");
        audit.admit(10).expect("there is room");
        audit.write(&json!({"a": 1}));
        std::fs::remove_file(&file).expect("removed");
        assert!(!audit.has_room(10), "the room went with the file");
        audit.admit(10).expect("there is room");
        audit.write(&json!({"a": 2}));
        assert_eq!(lines(&file), [json!({"a": 2})]);
        // Between the room and the line.
        std::fs::remove_file(&file).expect("removed");
        audit.write(&json!({"a": 3}));
        assert_eq!(lines(&file), [json!({"a": 3})]);
        // Where no file can be made the change is refused, and health says why.
        std::fs::remove_dir_all(&below).expect("removed");
        assert!(audit.admit(10).is_err_and(|why| why.contains("audit.jsonl")));
        assert!(audit.trouble().is_some());
    }
}
