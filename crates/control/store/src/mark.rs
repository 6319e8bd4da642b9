//! The mark: up to which revision a store was durable, and whether it was closed in order.
//!
//! A log that was cut off looks like a log whose last commits never reached the disk before a crash. Only a
//! record of how far the disk had come can tell one from the other: after each group of commits reached the
//! disk, the mark is written over in place, without waiting for the disk. So it is never ahead of the store,
//! and behind it by one group at most, unless the whole machine crashed.
//!
//! Layout, 32 bytes, little-endian: `"SFDURABL"`, the revision (8), 1 if the store was closed in order (8),
//! XXH3 of the 24 bytes before (8).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use twox_hash::XxHash3_64;

use crate::object::Revision;

const MAGIC: [u8; 8] = *b"SFDURABL";
const SIZE: usize = 32;
/// Most bytes that are read of what may be none.
const LARGEST: u64 = 4096;

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// This revision was on disk, and all before it.
    pub durable: Revision,
    /// Nothing was committed after it.
    pub closed: bool,
}

impl Mark {
    fn to_bytes(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.durable.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&u64::from(self.closed).to_le_bytes());
        let checksum = XxHash3_64::oneshot(&bytes[..24]);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads what [`Mark::to_bytes`] wrote; nothing else is accepted.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.try_into().ok()?;
        let durable = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        let mark = Self { durable: Revision(durable), closed: bytes[16] == 1 };
        (mark.to_bytes() == *bytes).then_some(mark)
    }

    /// The mark in a file: none if there is no file, and an error in words if there is something else in it.
    pub fn read(path: &Path) -> io::Result<Option<Result<Self, String>>> {
        match local_file::read(path, LARGEST) {
            Ok(bytes) => Ok(Some(Self::from_bytes(&bytes).ok_or_else(|| {
                format!(
                    "{} bytes that are no mark, where {SIZE} with a right checksum should be",
                    bytes.len()
                )
            }))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The file with the mark, open for writing.
#[derive(Debug)]
pub(crate) struct MarkFile(File);

impl MarkFile {
    /// Opens or makes the file, writes `mark` and waits until it is on disk.
    pub fn open(path: &Path, mark: Mark) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = local_file::open_with(path, options.write(true).create(true).truncate(false).mode(0o600))?;
        let file = Self(file);
        file.write(mark)?;
        file.0.set_len(SIZE as u64)?;
        file.0.sync_all()?;
        Ok(file)
    }

    /// Writes the mark over in place; the disk gets it some time.
    pub fn write(&self, mark: Mark) -> io::Result<()> {
        self.0.write_all_at(&mark.to_bytes(), 0)
    }

    /// Waits until the mark is on disk.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
