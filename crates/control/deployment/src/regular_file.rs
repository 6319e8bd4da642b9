//! Files that an operator names, read without waiting for anything: regular ones alone, and bounded.

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads a file of at most `most` bytes.
///
/// It is opened without waiting and looked at before it is read: to open a FIFO waits for a writer, and a
/// device may have no end.
///
/// # Errors
/// What the system says, that it is no regular file, or that it is larger.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let told = |error: rustix::io::Errno| std::io::Error::from(error).to_string();
    let file = open(path, flags, Mode::empty()).map_err(told)?;
    let kind = FileType::from_raw_mode(fstat(&file).map_err(told)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(format!("found {}; allowed: a regular file", called(kind)));
    }
    let mut bytes = Vec::new();
    let read = File::from(file).take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match bytes.len() as u64 > most {
        true => Err(format!("larger than allowed: at most {most} bytes")),
        false => Ok(bytes),
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
}
