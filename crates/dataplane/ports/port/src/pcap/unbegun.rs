//! A file that a port is to write and has not begun to.

use super::writer::Writer;
use super::{OpenError, open_file};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// It is as it was found; one that was made for the port goes with it.
#[derive(Debug)]
pub(super) struct Unbegun {
    path: PathBuf,
    file: Option<File>,
    made: bool,
}

impl Unbegun {
    /// Opens a file, or makes it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn open(path: PathBuf) -> Result<(Unbegun, Metadata), OpenError> {
        let there = match open_file(&path, OpenOptions::new().write(true)) {
            Err(OpenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        let made = there.is_none();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let (file, metadata) = there.map_or_else(|| open_file(&path, &options), Ok)?;
        Ok((Unbegun { path, file: Some(file), made }, metadata))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Empties the file and writes its headers.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn begin(mut self) -> io::Result<Writer> {
        let mut file = self.file.take().ok_or(io::ErrorKind::NotFound)?;
        if file.metadata()?.nlink() == 0 {
            // It was made for another port, which was never used.
            file = OpenOptions::new().write(true).create_new(true).open(&self.path)?;
        }
        file.set_len(0)?;
        Writer::new(Box::new(file))
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        let is_empty = |file: &File| file.metadata().is_ok_and(|found| found.len() == 0);
        // Another port may have begun to write into it.
        if self.made && self.file.as_ref().is_some_and(is_empty) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
