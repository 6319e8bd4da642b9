//! The events of one tenant's functions on disk: a file of lines, appended to, written anew when most of it
//! is out of date.
//!
//! A line is an event, the number up to which numbers may have been given, or that a function is gone. A line
//! that was cut off, or that is damaged, is passed over and the others count.

use super::ring::{Entry, What};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Most bytes of a file that are read; older lines are passed over.
const READ: u64 = 64 << 20;

/// The largest number that an event has in a file: one in a microsecond gets there in 142 years. What is
/// larger is damage, behind which there would be no numbers left to give.
const LARGEST: u64 = 1 << 52;

/// One line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    /// An event of a function.
    Event { function: String, number: u64, time: u64, what: What, text: String },
    /// Numbers up to this one may have been given.
    Reserved { function: String, reserved: u64 },
    /// The function was deleted: what stands before is of another one.
    Gone { function: String, gone: bool },
}

impl Line {
    pub(super) fn of(function: &str, entry: &Entry) -> Line {
        Line::Event {
            function: function.to_owned(),
            number: entry.number,
            time: entry.time,
            what: entry.what,
            text: entry.text.to_string(),
        }
    }

    /// The line, if its numbers can have been given.
    fn credible(self) -> Option<Line> {
        match self {
            Line::Event { number, .. } | Line::Reserved { reserved: number, .. } if number > LARGEST => None,
            line => Some(line),
        }
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        // Text and numbers can always be written.
        if serde_json::to_writer(&mut *to, self).is_ok() {
            to.push(b'\n');
        }
    }
}

/// Reads a file; how many lines could not be read.
///
/// # Errors
/// The system's.
pub(super) fn read(path: &Path, mut take: impl FnMut(Line)) -> io::Result<u64> {
    let mut file = local_file::open(path)?;
    let skipped = file.metadata()?.len().saturating_sub(READ);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(READ).read_to_end(&mut bytes)?;
    let mut unreadable = 0;
    for (n, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        // The first line of a part was cut off by it.
        if line.is_empty() || (n == 0 && skipped > 0) {
            continue;
        }
        match serde_json::from_slice(line).ok().and_then(Line::credible) {
            Some(line) => take(line),
            None => unreadable += 1,
        }
    }
    Ok(unreadable)
}

/// The most events, in their order, whose numbers grow: in a damaged file a number may be larger than those
/// of all that come behind it, which are no less true for that.
pub(super) fn rising(entries: Vec<Entry>) -> Vec<Entry> {
    if entries.is_sorted_by(|one, next| one.number < next.number) {
        return entries;
    }
    // Of runs of each length, where the one ends that ends with the smallest number.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; entries.len()];
    for (at, entry) in entries.iter().enumerate() {
        let shorter = ends.partition_point(|end| entries[*end].number < entry.number);
        before[at] = shorter.checked_sub(1).map(|last| ends[last]);
        match ends.get_mut(shorter) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut is_in = vec![false; entries.len()];
    let mut last = ends.last().copied();
    while let Some(at) = last {
        is_in[at] = true;
        last = before[at];
    }
    entries.into_iter().zip(is_in).filter_map(|(entry, is_in)| is_in.then_some(entry)).collect()
}

/// Appends lines, all of them or, where there is no room, none; the file's length then. `torn` says that the
/// last line has no end.
///
/// # Errors
/// The system's.
pub(super) fn append(path: &Path, lines: &[u8]) -> io::Result<u64> {
    let mut options = OpenOptions::new();
    append_to(local_file::open_with(path, options.create(true).read(true).append(true).mode(0o600))?, lines)
}

fn append_to(mut file: File, lines: &[u8]) -> io::Result<u64> {
    let before = file.metadata()?.len();
    let torn = before > 0 && {
        use std::os::unix::fs::FileExt;
        let mut last = [0];
        file.read_exact_at(&mut last, before - 1)?;
        last != *b"\n"
    };
    let written = if torn { file.write_all(b"\n") } else { Ok(()) };
    match written.and_then(|()| file.write_all(lines)) {
        Ok(()) => Ok(before + u64::from(torn) + lines.len() as u64),
        Err(error) => {
            // A part of a line would be passed over when it is read, but it takes room.
            let _ = file.set_len(before);
            Err(error)
        }
    }
}

/// Replaces a file by these lines, as a whole.
///
/// # Errors
/// The system's; the file is as it was then.
pub(super) fn replace(path: &Path, lines: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let write = || {
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        let mut file = local_file::open_with(&new, &mut options)?;
        file.write_all(lines)?;
        file.sync_data()?;
        std::fs::rename(&new, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> Line {
        Line::Event { function: "f".into(), number, time: 1, what: What::Alert, text: "{\"a\":1}".into() }
    }

    fn bytes(lines: &[Line]) -> Vec<u8> {
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| line.write(&mut bytes));
        bytes
    }

    #[test]
    fn lines_are_read_as_they_were_written_and_a_torn_one_spoils_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("red.jsonl");
        let all = [
            event(1),
            Line::Reserved { function: "f".into(), reserved: 9 },
            Line::Gone { function: "f".into(), gone: true },
        ];
        append(&path, &bytes(&all)).expect("written");
        let whole = std::fs::read(&path).expect("there");
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            append(&path, &bytes(&[event(7)])).expect("written");
            let mut seen = Vec::new();
            let unreadable = read(&path, |line| seen.push(line)).expect("readable");
            assert_eq!(seen.last(), Some(&event(7)), "cut at {cut}");
            assert!(unreadable <= 1 && seen[..seen.len() - 1].iter().zip(&all).all(|(a, b)| a == b));
        }
    }

    #[test]
    fn a_full_disk_leaves_the_file_as_it_was() {
        let full = OpenOptions::new().read(true).append(true).open("/dev/full").expect("a device");
        let error = append_to(full, b"{}\n").expect_err("it is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    /// A pipe takes 64 KiB, and then waits for its reader.
    #[test]
    fn nothing_is_written_to_what_is_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("red.jsonl");
        let make = |path: &Path| {
            let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo");
            assert!(made.success());
        };
        let told = "found a FIFO; allowed: a regular file";
        make(&path);
        assert_eq!(append(&path, b"{}\n").expect_err("refused").to_string(), told);
        make(&path.with_extension("new"));
        assert_eq!(replace(&path, b"{}\n").expect_err("refused").to_string(), told);
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.jsonl");
        let whole = bytes(&[event(1), event(2), event(3)]);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            std::fs::write(&path, &damaged).expect("written");
            let mut seen = 0;
            read(&path, |_| seen += 1).expect("readable");
            assert!(seen >= 1, "damaged at {at}");
        }
    }
}
