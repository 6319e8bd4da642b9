//! Files of a folder, by the folder's descriptor: no links are followed, nothing but a regular file is
//! opened.

use crate::FolderError;
use local_file::Place;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, fsync, openat, renameat, unlinkat};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A folder that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    fd: OwnedFd,
    place: Place,
    shown: String,
}

impl Opened {
    /// Opens a folder, or one that a link of the operator's leads to.
    pub(crate) fn new(path: &Path) -> Result<Opened, FolderError> {
        let shown = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
        match opened.and_then(|fd| Ok((fd, Place::of(path)?))) {
            Ok((fd, place)) => Ok(Opened { fd, place, shown }),
            Err(source) => Err(FolderError::Io { file: shown, source }),
        }
    }

    /// That the folder is not there any more under its name, or another one is.
    pub(crate) fn removed(&self) -> Option<String> {
        self.place.removed()
    }

    /// What a file's name leads to now.
    pub(crate) fn place(&self, name: &str) -> Result<Place, FolderError> {
        Place::of(Path::new(&self.shown(name))).map_err(|error| self.failed(name, error))
    }

    /// A file's name as errors tell it.
    pub(crate) fn shown(&self, name: &str) -> String {
        format!("{}/{name}", self.shown)
    }

    fn failed(&self, name: &str, source: impl Into<io::Error>) -> FolderError {
        FolderError::Io { file: self.shown(name), source: source.into() }
    }

    /// Opens a regular file of at most so many bytes; `None` when there is none of this name.
    pub(crate) fn open(&self, name: &str, most: u64) -> Result<Option<(File, u64)>, FolderError> {
        // A pipe without a writer opens at once with NONBLOCK, and is refused below.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP) => {
                return Err(FolderError::NoFile { file: self.shown(name), found: "a link" });
            }
            Err(error) => return Err(self.failed(name, error)),
        };
        let stat = fstat(&fd).map_err(|error| self.failed(name, error))?;
        let found = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => None,
            FileType::Directory => Some("a folder"),
            FileType::Fifo => Some("a pipe"),
            _ => Some("a device or socket"),
        };
        if let Some(found) = found {
            return Err(FolderError::NoFile { file: self.shown(name), found });
        }
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > most {
            return Err(FolderError::Large { file: self.shown(name), found: size, allowed: most });
        }
        Ok(Some((File::from(fd), size)))
    }

    /// Writes a file for its owner alone, which is on disk under its name when this returns. `part` is its
    /// name until then.
    pub(crate) fn replace(
        &self,
        name: &str,
        part: &str,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), FolderError> {
        let written = (|| {
            // One that was left behind, or put there.
            self.remove(part)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file =
                File::from(openat(&self.fd, part, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?);
            write(&mut file)?;
            file.sync_all()?;
            renameat(&self.fd, part, &self.fd, name).map_err(io::Error::from)?;
            fsync(&self.fd).map_err(io::Error::from)
        })();
        written.map_err(|error: io::Error| {
            // What is left of it is removed at the next start, if it cannot be now.
            let _ = self.remove(part);
            self.failed(name, error)
        })
    }

    /// Removes a file; says whether it was there.
    pub(crate) fn remove(&self, name: &str) -> io::Result<bool> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Names of all that is in it, as far as they are text.
    pub(crate) fn names(&self) -> Result<Vec<String>, FolderError> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(|error| self.failed("", error))? {
            let entry = entry.map_err(|error| self.failed("", error))?;
            names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        names.sort_unstable();
        Ok(names)
    }
}
