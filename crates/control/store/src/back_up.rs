//! A copy of a store while it runs.

use std::path::Path;

use crate::error::BackUpError;
use crate::folder::{mark_in, sync_folder, table_in};
use crate::mark::{Mark, MarkFile};
use crate::object::Revision;
use crate::store::Store;
use crate::table::{Table, WriteFailure};

impl Store {
    /// Writes a copy of the store as it is now to the folder `to`, which must be empty or not exist. Commits
    /// go on meanwhile and are not in it. The copy is read back and checked, and on disk when this returns;
    /// it is a store that can be opened, or that replaces another by being copied as it is. Returns the
    /// revision that it shows.
    ///
    /// # Errors
    /// [`BackUpError`]; what was begun is removed.
    pub fn back_up(&self, to: &Path) -> Result<Revision, BackUpError> {
        let io_error = |source| BackUpError::Io { path: to.to_owned(), source };
        let existed = to.try_exists().map_err(io_error)?;
        if existed && std::fs::read_dir(to).map_err(io_error)?.next().is_some() {
            return Err(BackUpError::NotEmpty(to.to_owned()));
        }
        if !existed {
            use std::os::unix::fs::DirBuilderExt as _;
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(to).map_err(io_error)?;
        }
        let copied = self.copy(to);
        if copied.is_err() {
            for file in ["store.db", "store.db-journal", "store.db-wal", "store.db-shm", "durable"] {
                // Whatever cannot be removed now was not made, or shows that the back-up is not whole: it has
                // no mark.
                let _ = std::fs::remove_file(to.join(file));
            }
            if !existed {
                let _ = std::fs::remove_dir(to);
            }
        }
        copied
    }

    fn copy(&self, to: &Path) -> Result<Revision, BackUpError> {
        let file = table_in(to);
        let name = file.to_str().ok_or_else(|| BackUpError::NotUtf8(to.to_owned()))?;
        let io_error = |source| BackUpError::Io { path: to.to_owned(), source };
        let copied = match self.removed() {
            true => self.copy_with_writer(name),
            // A connection of its own: it reads one state while commits go on.
            false => Table::open(&table_in(self.folder()))?.copy_to(name),
        };
        let folder = to.to_owned();
        copied.map_err(|failure| match failure {
            WriteFailure::DiskFull(what) => BackUpError::DiskFull { folder, what },
            WriteFailure::Other(what) => BackUpError::Copy { folder, what },
        })?;
        let (_, total, _) = Table::open(&file)?.load(self.settings().max_bytes)?;
        for left in ["store.db-wal", "store.db-shm"] {
            // Made by reading the copy, and empty.
            let _ = std::fs::remove_file(to.join(left));
        }
        // Revisions that follow in the running store are left out when the copy is opened.
        let mark = Mark { durable: total.revision, closed: false };
        MarkFile::open(&mark_in(to), mark).map_err(io_error)?;
        sync_folder(to).map_err(io_error)?;
        if let Some(parent) = to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_folder(parent).map_err(io_error)?;
        }
        Ok(total.revision)
    }
}
