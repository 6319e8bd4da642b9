//! Files and folders of this host that a path names: opened without waiting, and known again.
//!
//! A path may lead to anything. To open a FIFO waits until another process opens its other end, and a device
//! may have no end, or do something when it is opened. [`open`] and [`open_with`] open regular files alone,
//! by whatever links lead there, and refuse all else in words for the user; [`read`] reads no more than is
//! allowed. [`open_given`] is for what the user of a command names: the output of another process, as shells
//! hand it over (`<(COMMAND)`, `/dev/stdin`), is taken, too; [`open_log`] is for what is appended to, and may
//! go to another process, and [`create`] for what is written anew.
//!
//! A [`Place`] is a path, and what it led to: it tells when that was removed or replaced.
//!
//! Limits: a regular file of a file system that does not answer is waited for.

mod place;

pub use place::Place;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The kernel's file system of pipes that have no name (`linux/magic.h`).
const PIPEFS: i64 = 0x5049_5045;

/// Opens a regular file for reading.
///
/// # Errors
/// What the system says, or that it is no regular file.
pub fn open(path: &Path) -> Result<File> {
    open_with(path, OpenOptions::new().read(true))
}

/// Opens a regular file as the options say, which may make it. They have no flags of their own.
///
/// # Errors
/// What the system says, or that it is no regular file.
pub fn open_with(path: &Path, options: &mut OpenOptions) -> Result<File> {
    // A look before: some devices do something when they are opened. What cannot be looked at cannot be
    // opened either, and that says why; or it is made.
    if let Ok(found) = std::fs::metadata(path) {
        is_regular(&found)?;
    }
    let file = without_waiting(path, options)?;
    is_regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens what the user of a command names, for reading: a regular file, or a pipe without a name, in which
/// another process of the user's writes.
///
/// # Errors
/// What the system says, or that it is neither.
pub fn open_given(path: &Path) -> Result<File> {
    let found = std::fs::metadata(path)?;
    if kind(&found) != FileType::Fifo {
        return open(path);
    }
    let file = without_waiting(path, OpenOptions::new().read(true))?;
    let has_no_name = rustix::fs::fstatfs(&file)?.f_type as i64 == PIPEFS;
    if !has_no_name {
        is_regular(&file.metadata()?)?;
    }
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// Opens a log for appending, which is made, for its owner alone, if it is not there: a regular file, a
/// device, or a FIFO that another process reads.
///
/// # Errors
/// What the system says, or that no process reads it.
pub fn open_log(path: &Path) -> Result<File> {
    let file = to_write(path, OpenOptions::new().create(true).append(true).mode(0o600))?;
    // To write to it may wait, as to any.
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

/// Opens what is written from its beginning: a regular file, which is made or emptied, a device, or a FIFO
/// that another process reads.
///
/// # Errors
/// What the system says, or that no process reads it.
pub fn create(path: &Path) -> Result<File> {
    let file = to_write(path, OpenOptions::new().create(true).write(true).truncate(true))?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

fn to_write(path: &Path, options: &mut OpenOptions) -> Result<File> {
    without_waiting(path, options).map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NXIO) => {
            Error::new(ErrorKind::InvalidInput, "found a FIFO that no process reads; allowed: a regular file")
        }
        _ => error,
    })
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// What the system says, that it is no regular file, or that it is larger.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => {
            Err(Error::new(ErrorKind::FileTooLarge, format!("larger than allowed: at most {most} bytes")))
        }
        false => Ok(bytes),
    }
}

fn without_waiting(path: &Path, options: &mut OpenOptions) -> Result<File> {
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32).open(path)
}

fn kind(found: &Metadata) -> FileType {
    FileType::from_raw_mode(found.mode())
}

fn is_regular(found: &Metadata) -> Result<()> {
    let called = match kind(found) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("found {called}; allowed: a regular file")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mknodat};
    use std::io::Write;
    use std::os::fd::AsRawFd;

    fn refused(path: &Path) -> String {
        let told = open(path).expect_err("refused").to_string();
        assert_eq!(open_with(path, OpenOptions::new().append(true)).expect_err("refused").to_string(), told);
        assert_eq!(open_given(path).expect_err("refused").to_string(), told);
        told
    }

    #[test]
    fn regular_files_alone_are_opened_and_no_more_than_is_allowed_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "12345").expect("written");
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
        std::os::unix::fs::symlink("fifo", at("link")).expect("linked");
        std::os::unix::fs::symlink("file", at("to-file")).expect("linked");
        assert_eq!(read(&at("to-file"), 5).expect("read"), b"12345");
        assert!(read(&at("file"), 4).expect_err("larger").to_string().contains("at most 4 bytes"));
        // To open it as others do would wait for ever.
        for name in ["fifo", "link"] {
            assert_eq!(refused(&at(name)), "found a FIFO; allowed: a regular file");
        }
        assert_eq!(refused(folder.path()), "found a directory; allowed: a regular file");
        assert_eq!(refused(&at("socket")), "found a socket; allowed: a regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "found a device; allowed: a regular file");
        assert_eq!(read(&at("none"), 5).expect_err("absent").kind(), ErrorKind::NotFound);
        let mut made = open_with(&at("none"), OpenOptions::new().create(true).append(true)).expect("made");
        made.write_all(b"1").expect("written");
        assert_eq!(read(&at("none"), 1).expect("read"), b"1");
    }

    #[test]
    fn a_log_goes_to_a_file_or_to_a_process_that_reads_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for line in [b"1", b"2"] {
            open_log(&at("file")).expect("opened").write_all(line).expect("written");
        }
        assert_eq!(read(&at("file"), 9).expect("read"), b"12");
        assert_eq!(std::fs::metadata(at("file")).expect("made").mode() & 0o777, 0o600);
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        let told = open_log(&at("fifo")).expect_err("none reads it").to_string();
        assert_eq!(told, "found a FIFO that no process reads; allowed: a regular file");
        let reader = without_waiting(&at("fifo"), OpenOptions::new().read(true)).expect("a reader");
        let mut log = open_log(&at("fifo")).expect("opened");
        assert!(!rustix::fs::fcntl_getfl(&log).expect("flags").contains(OFlags::NONBLOCK));
        log.write_all(b"3").expect("written");
        let mut bytes = [0; 2];
        assert_eq!((&reader).read(&mut bytes).expect("read"), 1);
        open_log(Path::new("/dev/null")).expect("opened");
        // What is written anew goes where a log goes.
        create(&at("file")).expect("opened").write_all(b"4").expect("written");
        assert_eq!(read(&at("file"), 9).expect("read"), b"4");
        let mut capture = create(&at("fifo")).expect("opened");
        assert!(!rustix::fs::fcntl_getfl(&capture).expect("flags").contains(OFlags::NONBLOCK));
        capture.write_all(b"5").expect("written");
        drop(reader);
        assert_eq!(create(&at("fifo")).expect_err("none reads it").to_string(), told);
        create(Path::new("/dev/null")).expect("opened");
    }

    #[test]
    fn a_pipe_of_another_process_is_read_to_its_end_where_a_user_names_it() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let mut given = open_given(Path::new(&path)).expect("it is taken");
        open(Path::new(&path)).expect_err("it is no regular file");
        drop(reader);
        let writing = std::thread::spawn(move || {
            // More than a pipe holds: the writer waits for the reader, and the reader for the writer.
            (0..64).try_for_each(|_| writer.write_all(&[7; 4096]))
        });
        let mut bytes = Vec::new();
        given.read_to_end(&mut bytes).expect("read");
        writing.join().expect("joined").expect("written");
        assert_eq!(bytes, vec![7; 64 * 4096]);
    }
}
