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
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::OpenError;

/// A folder that is locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    lock: File,
    /// Files that must stay what they are while the store is open: device and inode of each.
    files: Vec<(PathBuf, (u64, u64))>,
    /// The folder as it was when all of them were there. What is taken out of a folder, or put into it,
    /// changes the time of its last change: one look at it tells that they still are.
    whole: Mutex<Option<Look>>,
}

/// What tells a folder's states apart: device, inode, and when it was changed, since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    id: (u64, u64),
    changed: Duration,
}

/// Kernels count the time of changes in ticks: of a folder that was changed less than this ago, another
/// change may bear the same time.
const SETTLED: Duration = Duration::from_millis(100);

impl Look {
    fn at(path: &Path) -> io::Result<Look> {
        let metadata = std::fs::symlink_metadata(path)?;
        let seconds = u64::try_from(metadata.ctime()).unwrap_or(u64::MAX);
        let changed = Duration::new(seconds, u32::try_from(metadata.ctime_nsec()).unwrap_or(0));
        Ok(Look { id: (metadata.dev(), metadata.ino()), changed })
    }

    /// Whether the next change of the folder shows.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(self.changed) > SETTLED
    }
}

/// For so long an opening waits for a lock: a process that was killed has it until its memory is given back,
/// which on a busy machine takes longer than to start the next one, and a process that was just started by it
/// has it, too, until it runs a program of its own.
const LOCK_WAIT: Duration = Duration::from_secs(2);

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> OpenError + '_ {
    move |source| OpenError::Io { path: path.to_owned(), source }
}

impl Folder {
    /// Locks `path`, which is made if need be, readable by its owner alone.
    pub fn lock(path: &Path) -> Result<Self, OpenError> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error(path))?;
        let name = path.join("lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = local_file::open_with(&name, &mut options).map_err(io_error(&name))?;
        let begin = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    let path = path.to_owned();
                    return Ok(Self { path, lock, files: Vec::new(), whole: Mutex::default() });
                }
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
        // The folder first: what happens after this look shows in the next one.
        let look = Look::at(&self.path).ok();
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if look.is_some() && look == *whole {
            return None;
        }
        let removed = self.look_at_files();
        *whole = look.filter(|look| removed.is_none() && look.is_settled());
        removed
    }

    fn look_at_files(&self) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with its files, looked at until one look tells that all are there.
    fn settled() -> (tempfile::TempDir, Folder) {
        let scratch = tempfile::tempdir().expect("a folder");
        let mut folder = Folder::lock(&scratch.path().join("store")).expect("the lock");
        for path in [folder.table(), folder.log()] {
            std::fs::write(path, "x").expect("a file");
        }
        folder.note_files().expect("they are there");
        let begun = Instant::now();
        while folder.removed().is_none() && folder.whole.lock().expect("whole").is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it never settles");
            std::thread::sleep(Duration::from_millis(5));
        }
        (scratch, folder)
    }

    #[test]
    fn a_look_at_the_folder_tells_whatever_happens_to_its_files() {
        let acts: [fn(&Folder); 6] = [
            |folder| std::fs::remove_file(folder.log()).expect("goes"),
            |folder| std::fs::rename(folder.table(), folder.path.join("away")).expect("goes"),
            |folder| std::fs::rename(folder.log(), folder.table()).expect("is replaced"),
            |folder| std::fs::remove_dir_all(&folder.path).expect("goes"),
            |folder| std::fs::rename(&folder.path, folder.path.with_extension("away")).expect("goes"),
            |folder| {
                std::fs::rename(&folder.path, folder.path.with_extension("away")).expect("goes");
                std::fs::create_dir(&folder.path).expect("another one");
            },
        ];
        for act in acts {
            let (_scratch, folder) = settled();
            assert_eq!(folder.removed(), None);
            act(&folder);
            assert!(folder.removed().is_some());
            assert!(folder.removed().is_some(), "and stays so");
        }
    }

    #[test]
    fn other_files_in_the_folder_have_its_files_looked_at_again() {
        let (_scratch, folder) = settled();
        let before = *folder.whole.lock().expect("whole");
        std::fs::write(folder.mark(), "x").expect("a file");
        assert_eq!(folder.removed(), None);
        assert_ne!(*folder.whole.lock().expect("whole"), before);
    }
}
