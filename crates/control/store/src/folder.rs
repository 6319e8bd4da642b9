//! A store's folder: whose it is, and what is in it.
//!
//! | file | |
//! |---|---|
//! | `lock` | empty; the process that has it locked has the store |
//! | `store.db` | the table of objects, as far as the log was carried over |
//! | `store.db-wal` | the log of commits |
//! | `store.db-shm` | where what is in the log; made anew when the store is opened |
//! | `durable` | up to which revision the store was durable ([`mark`](crate::mark)) |
//! | `store.new` | a store that is being made; removed if that was interrupted |

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::OpenError;

/// A folder that is locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    lock: File,
    /// Files that must stay what they are while the store is open: device and inode of each.
    files: Vec<(PathBuf, (u64, u64))>,
}

/// For so long an opening waits for a lock: a process that was just started by the one that was killed has
/// it, too, until it runs a program of its own.
const LOCK_WAIT: Duration = Duration::from_millis(200);

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> OpenError + '_ {
    move |source| OpenError::Io { path: path.to_owned(), source }
}

impl Folder {
    /// Locks `path`, which is made if need be, readable by its owner alone.
    pub fn lock(path: &Path) -> Result<Self, OpenError> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error(path))?;
        let name = path.join("lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&name)
            .map_err(io_error(&name))?;
        let begin = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { path: path.to_owned(), lock, files: Vec::new() }),
                Err(TryLockError::WouldBlock) if begin.elapsed() < LOCK_WAIT => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { folder: path.to_owned() }),
                Err(TryLockError::Error(source)) => return Err(OpenError::Io { path: name, source }),
            }
        }
    }

    /// Notes which files are the store's.
    pub fn note_files(&mut self) -> Result<(), OpenError> {
        for path in [self.path.join("lock"), self.table(), self.log()] {
            let id = id(&path).map_err(io_error(&path))?;
            self.files.push((path, id));
        }
        Ok(())
    }

    /// Which of the store's files is not there any more, or is another one by now.
    pub fn removed(&self) -> Option<String> {
        self.files.iter().find_map(|(path, before)| match id(path) {
            Ok(now) if now == *before => None,
            Ok(_) => Some(format!("{}: the file was replaced while the store is open", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some(format!("{}: the file was removed while the store is open", path.display()))
            }
            // What cannot be looked at now may be there all the same.
            Err(_) => None,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn table(&self) -> PathBuf {
        table_in(&self.path)
    }

    pub fn log(&self) -> PathBuf {
        self.path.join("store.db-wal")
    }

    pub fn unfinished(&self) -> PathBuf {
        self.path.join("store.new")
    }

    pub fn mark(&self) -> PathBuf {
        mark_in(&self.path)
    }
}

fn id(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Drop for Folder {
    fn drop(&mut self) {
        // To close the file is not enough while a process that is just being started has it, too. If it
        // fails, closing remains.
        let _ = self.lock.unlock();
    }
}

pub(crate) fn table_in(folder: &Path) -> PathBuf {
    folder.join("store.db")
}

pub(crate) fn mark_in(folder: &Path) -> PathBuf {
    folder.join("durable")
}

/// Writes a folder's entries to disk.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
