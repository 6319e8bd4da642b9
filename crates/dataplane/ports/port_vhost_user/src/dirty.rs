//! The log of pages that were written to, by which memory is moved to another host while a guest runs.

use crate::guest_memory::Mapping;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of guest memory that one bit is for (the vhost-user protocol, "Migration").
const PAGE: u64 = 4096;

/// A bitmap in memory of the peer's: one bit for each page of 4 KiB, from the guest's address zero on.
#[derive(Debug)]
pub struct DirtyLog {
    map: Mapping,
    length: u64,
}

impl DirtyLog {
    /// Maps a bitmap of `length` bytes.
    ///
    /// # Errors
    /// As for memory of the guest; more bytes than `most`.
    pub fn map(file: &OwnedFd, offset: u64, length: u64, most: u64) -> io::Result<DirtyLog> {
        if length > most {
            return Err(io::Error::other(format!("found: a log of {length} bytes; allowed: {most}")));
        }
        Ok(DirtyLog { map: Mapping::new(file, offset, length)?, length })
    }

    /// Notes that bytes at a guest's address were written. Pages that the bitmap does not reach are passed
    /// over.
    #[inline]
    pub fn note(&self, guest: u64, length: u64) {
        if length == 0 {
            return;
        }
        for page in guest / PAGE..=guest.saturating_add(length - 1) / PAGE {
            if page / 8 >= self.length {
                return;
            }
            self.map.byte((page / 8) as usize).fetch_or(1 << (page % 8), Relaxed);
        }
    }

    /// Whether its memory was taken away.
    pub fn is_lost(&self) -> bool {
        self.map.is_lost()
    }
}
