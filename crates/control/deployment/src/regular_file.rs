//! Files that an operator names, read without waiting for anything: regular ones alone, and bounded.

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes that are compared at a time.
const PART: usize = 64 << 10;

/// Opens a file without waiting, and looks at it before it is read: to open a FIFO waits for a writer, and a
/// device may have no end.
fn opened(path: &Path) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let told = |error: rustix::io::Errno| std::io::Error::from(error).to_string();
    let file = open(path, flags, Mode::empty()).map_err(told)?;
    let kind = FileType::from_raw_mode(fstat(&file).map_err(told)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(format!("found {}; allowed: a regular file", called(kind)));
    }
    Ok(File::from(file))
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// What the system says, that it is no regular file, or that it is larger.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = opened(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match bytes.len() as u64 > most {
        true => Err(format!("larger than allowed: at most {most} bytes")),
        false => Ok(bytes),
    }
}

/// Whether something else is in a file than this. However long the file is, no more of it is read than that,
/// and a part of it at a time.
///
/// # Errors
/// What the system says, or that it is no regular file.
pub(crate) fn differs(path: &Path, was: &[u8]) -> Result<bool, String> {
    let mut file = opened(path)?;
    let (mut rest, mut part) = (was, vec![0; PART]);
    loop {
        let read = match file.read(&mut part) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.map_err(|error| error.to_string())?,
        };
        match rest.strip_prefix(&part[..read]) {
            None => return Ok(true),
            Some(left) if read == 0 => return Ok(!left.is_empty()),
            Some(left) => rest = left,
        }
    }
}

fn called(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_files_alone_are_read_and_no_more_than_is_allowed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, fifo, link) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
        std::fs::write(&file, "12345").expect("written");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("made");
        std::os::unix::fs::symlink(&fifo, &link).expect("linked");
        assert_eq!(read(&file, 5).as_deref(), Ok(b"12345".as_slice()));
        assert!(read(&file, 4).expect_err("larger").contains("at most 4 bytes"));
        // To open it as others do would wait for ever.
        for path in [&fifo, &link] {
            assert_eq!(read(path, 5).expect_err("no file"), "found a FIFO; allowed: a regular file");
        }
        assert!(read(folder.path(), 5).expect_err("no file").starts_with("found a directory"));
        assert!(read(Path::new("/dev/zero"), 5).expect_err("no file").starts_with("found a device"));
        assert!(read(&folder.path().join("d"), 5).expect_err("absent").contains("No such file"));
    }

    #[test]
    fn a_file_is_compared_with_what_was_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a");
        for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART] {
            let was: Vec<u8> = (0..length).map(|n| n as u8).collect();
            std::fs::write(&file, &was).expect("written");
            assert_eq!(differs(&file, &was), Ok(false), "{length}");
            let longer = [&was[..], b"x"].concat();
            assert_eq!(differs(&file, &longer), Ok(true), "{length}: it is shorter");
            std::fs::write(&file, &longer).expect("written");
            assert_eq!(differs(&file, &was), Ok(true), "{length}: it is longer");
            let mut other = longer.clone();
            other[length] = b'y';
            assert_eq!(differs(&file, &other), Ok(true), "{length}: its last byte is another");
        }
        // One that has grown without an end is read no further than what it is compared with.
        File::options().write(true).open(&file).and_then(|file| file.set_len(1 << 40)).expect("a long file");
        assert_eq!(differs(&file, b"12345"), Ok(true));
        assert!(differs(Path::new("/dev/zero"), b"").expect_err("no file").starts_with("found a device"));
        assert!(differs(&folder.path().join("d"), b"").expect_err("absent").contains("No such file"));
    }
}
