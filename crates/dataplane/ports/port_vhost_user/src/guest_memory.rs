// UNSAFETY: memory that a peer writes to at any time is mapped here, and copied to and from buffers of the
// pool. It is never a reference but to atomics: bytes are copied between raw pointers, within bounds that are
// checked here each time. Miri knows no mappings of files; the tests of this crate run it against a peer that
// writes into every word.
#![allow(unsafe_code)]
//! The memory that a peer shares: up to eight regions of files, by the addresses that the guest has for them.

use crate::dirty::DirtyLog;
use crate::fault::Guarded;
use crate::message::Region;
use packet_memory::{Packet, Pool, prefetch, prefetch_to_write};
use rustix::fs::{fstat, fstatfs};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// Where memory files of ordinary pages lie (statfs(2), `TMPFS_MAGIC`).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;
/// Where those of huge pages lie (`HUGETLBFS_MAGIC`).
const HUGETLBFS: rustix::fs::FsWord = 0x9584_58f6;
/// Bytes of a short packet but one, the last of which may lie in the next line.
const SHORTEST: usize = 59;
/// Largest page. Larger ones would have this process zero as much at one access.
const PAGE_MAX: u64 = 2 << 20;

/// A part of a peer's file that is mapped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
    /// Where the part that was asked for begins.
    skip: usize,
    /// `None` only while it is dropped.
    guarded: Option<Guarded>,
}

// SAFETY: plain memory that belongs to this value until it is dropped, reached through atomics or raw
// pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of a file from `offset` on. What becomes of the file later ends nothing: see
    /// [`crate::fault`].
    ///
    /// # Errors
    /// A file in no file system of memory, of larger pages than 2 MiB, shorter than this, or refused by the
    /// kernel.
    pub fn new(file: impl AsFd, offset: u64, length: u64) -> io::Result<Mapping> {
        let kind = fstatfs(&file)?;
        if kind.f_type != TMPFS && kind.f_type != HUGETLBFS {
            // One of a file system of the peer's own could make an access wait for ever.
            return Err(io::Error::other(format!(
                "found: a file in a file system of type {:#x}; allowed: memory, types {TMPFS:#x} and {HUGETLBFS:#x}",
                kind.f_type
            )));
        }
        let page = u64::try_from(kind.f_bsize).unwrap_or(0);
        if !page.is_power_of_two() || page > PAGE_MAX {
            return Err(io::Error::other(format!(
                "found: memory in pages of {page} bytes; allowed: at most {PAGE_MAX}"
            )));
        }
        let size = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        let end = offset.checked_add(length).filter(|end| length > 0 && *end <= size);
        let Some(end) = end.and_then(|end| end.checked_next_multiple_of(page)) else {
            return Err(io::Error::other(format!(
                "found: {length} bytes from {offset} on; allowed: some of the {size} of the file"
            )));
        };
        let first = offset / page * page;
        let bytes = usize::try_from(end - first).map_err(io::Error::other)?;
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, &file, first)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        let mut mapping = Mapping { base, length: bytes, skip: (offset - first) as usize, guarded: None };
        mapping.guarded = Some(Guarded::new(base, bytes)?);
        Ok(mapping)
    }

    /// Bytes from the part that was asked for on.
    fn len(&self) -> usize {
        self.length - self.skip
    }

    /// Where `length` bytes from `offset` on lie.
    ///
    /// # Panics
    /// When they do not lie in the part: a defect of the caller.
    #[inline]
    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset <= self.len() && length <= self.len() - offset, "bytes outside of the memory");
        // SAFETY: just checked to lie in the mapping.
        unsafe { self.base.as_ptr().add(self.skip + offset) }
    }

    /// The byte at an offset.
    ///
    /// # Panics
    /// When it does not lie in the part.
    #[inline]
    pub fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: the byte was just checked to lie in the mapping, which outlives the reference; atomics may
        // change at any time.
        unsafe { AtomicU8::from_ptr(self.at(offset, 1)) }
    }

    /// Whether its owner took it away.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.guarded.as_ref().is_none_or(Guarded::is_lost)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Before the place may become another's.
        self.guarded = None;
        // SAFETY: the mapping made in `new`, unmapped once. A failure leaves it mapped, which harms nothing.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// A region, mapped.
#[derive(Debug)]
struct Mapped {
    region: Region,
    mapping: Mapping,
}

/// Bytes of a peer's memory that follow each other, checked to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the region.
    region: u32,
    /// Bytes.
    pub length: u32,
    /// Where they begin in the region.
    offset: u64,
}

impl Piece {
    /// The bytes behind the first ones.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    #[must_use]
    pub fn behind(self, first: u32) -> Piece {
        assert!(first <= self.length, "no so many bytes");
        Piece { length: self.length - first, offset: self.offset + u64::from(first), ..self }
    }

    /// The first ones of the bytes, at most all.
    #[inline]
    #[must_use]
    pub fn first(self, count: u32) -> Piece {
        Piece { length: self.length.min(count), ..self }
    }
}

/// All regions of a peer. See the module's documentation.
#[derive(Debug)]
pub struct GuestMemory {
    regions: Vec<Mapped>,
}

impl GuestMemory {
    /// Maps what a peer shares, at most `most` bytes in all.
    ///
    /// # Errors
    /// Regions that reach beyond the highest address or over each other, too many bytes, or a file that is
    /// refused.
    pub fn map(regions: &[Region], files: Vec<OwnedFd>, most: u64) -> Result<GuestMemory, String> {
        if regions.len() != files.len() {
            return Err(format!(
                "found: {} regions and {} files; allowed: one for each",
                regions.len(),
                files.len()
            ));
        }
        let (mut mapped, mut sum) = (Vec::with_capacity(regions.len()), 0u64);
        for (n, (region, file)) in regions.iter().zip(files).enumerate() {
            let told = |what: String| format!("region {n}: {what}");
            let ends = [region.guest, region.user, region.offset].map(|start| start.checked_add(region.size));
            if region.size == 0 || ends.contains(&None) {
                return Err(told(format!(
                    "found: {} bytes; allowed: some, below the highest address",
                    region.size
                )));
            }
            let over = |other: &Region| {
                region.guest < other.guest + other.size && other.guest < region.guest + region.size
            };
            if regions[..n].iter().any(over) {
                return Err(told("found: guest addresses of another region; allowed: each once".into()));
            }
            sum = sum.saturating_add(region.size);
            if sum > most {
                return Err(told(format!("found: {sum} bytes so far; allowed: {most}, the port's `memory`")));
            }
            let mapping =
                Mapping::new(&file, region.offset, region.size).map_err(|error| told(error.to_string()))?;
            mapped.push(Mapped { region: *region, mapping });
        }
        Ok(GuestMemory { regions: mapped })
    }

    /// Whether any of it was taken away.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.regions.iter().any(|mapped| mapped.mapping.is_lost())
    }

    /// The first bytes at a guest's address, as many of `length` as one region has. `near` is the region that
    /// was last found, which is looked at first.
    #[inline]
    pub fn find(&self, guest: u64, length: u32, near: &mut u32) -> Option<Piece> {
        let within = |number: u32| {
            let Region { guest: start, size, .. } = self.regions.get(number as usize)?.region;
            let offset = guest.wrapping_sub(start);
            let left = size.checked_sub(offset).filter(|left| *left > 0)?;
            let length = u64::from(length).min(left) as u32;
            Some(Piece { region: number, length, offset })
        };
        if let Some(piece) = within(*near) {
            return Some(piece);
        }
        let piece = (0..self.regions.len() as u32).find_map(within)?;
        *near = piece.region;
        Some(piece)
    }

    /// The guest's address of `length` bytes at an address of the peer's process, which one region has.
    pub fn guest_of(&self, user: u64, length: u64) -> Option<u64> {
        self.regions.iter().find_map(|Mapped { region, .. }| {
            let offset = user.wrapping_sub(region.user);
            let left = region.size.checked_sub(offset)?;
            (length <= left).then(|| region.guest + offset)
        })
    }

    #[inline]
    fn start(&self, piece: Piece, at: usize, length: usize) -> *mut u8 {
        self.regions[piece.region as usize].mapping.at(piece.offset as usize + at, length)
    }

    /// Copies the first bytes of a piece; `None` when it has not so many.
    #[inline]
    pub fn read<const N: usize>(&self, piece: Piece) -> Option<[u8; N]> {
        if (piece.length as usize) < N {
            return None;
        }
        // SAFETY: `N` bytes were just checked to lie in the mapping.
        Some(unsafe { self.start(piece, 0, N).cast::<[u8; N]>().read_unaligned() })
    }

    /// Copies bytes out of a piece, as many as there are in the shorter of both.
    #[inline]
    pub fn read_into(&self, piece: Piece, into: &mut [u8]) -> usize {
        let count = into.len().min(piece.length as usize);
        // SAFETY: so many bytes lie in the mapping and in `into`, which is elsewhere.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(self.start(piece, 0, count), count) };
        count
    }

    /// Copies bytes into a piece, as many as there are in the shorter of both.
    #[inline]
    pub fn write(&self, piece: Piece, bytes: &[u8]) -> usize {
        let count = bytes.len().min(piece.length as usize);
        // SAFETY: as in `read_into`.
        unsafe { self.start(piece, 0, count).copy_from_nonoverlapping(bytes.as_ptr(), count) };
        count
    }

    /// Appends a piece to a packet, if it fits.
    #[inline]
    #[must_use]
    pub fn append(&self, piece: Piece, pool: &Pool, packet: &mut Packet) -> bool {
        let (at, count) = (packet.length() as usize, piece.length as usize);
        let from = self.start(piece, 0, count);
        if pool.set_length(packet, at + count).is_err() {
            return false;
        }
        // SAFETY: the bytes were checked to lie in the mapping, and those of the packet from `at` to its new
        // end lie in its buffer, which is of another mapping.
        unsafe { copy(from, pool.data(packet).add(at), count) };
        true
    }

    /// Copies bytes of a packet, from its byte `at` on, into a piece, as many as there are in the shorter of
    /// both.
    #[inline]
    pub fn put(&self, piece: Piece, pool: &Pool, packet: &Packet, at: usize) -> usize {
        let left = (packet.length() as usize).saturating_sub(at);
        let count = left.min(piece.length as usize);
        let to = self.start(piece, 0, count);
        // SAFETY: so many bytes lie in the packet from `at` on, and in the mapping, which is another one.
        unsafe { copy(pool.data(packet).wrapping_add(at), to, count) };
        count
    }

    /// Copies bytes into a piece of at least so many, unless they are there already: most headers are like
    /// those before, and a line that is not written to stays in the caches of both processors.
    ///
    /// # Panics
    /// When the piece is shorter.
    #[inline]
    pub fn change<const N: usize>(&self, piece: Piece, bytes: &[u8; N]) -> usize {
        assert!(piece.length as usize >= N, "a piece without room for a header");
        let start = self.start(piece, 0, N).cast::<[u8; N]>();
        // SAFETY: `N` bytes were just checked to lie in the mapping.
        unsafe {
            if start.read_unaligned() != *bytes {
                start.write_unaligned(*bytes);
            }
        }
        N
    }

    /// Has the processor fetch the first lines, to be read.
    #[inline]
    pub fn prefetch(&self, piece: Piece) {
        let start = self.start(piece, 0, 0).cast_const();
        prefetch(start);
        prefetch(start.wrapping_add(SHORTEST));
    }

    /// Has the processor fetch the line of the first byte, which may be a header's of so many bytes, and the
    /// first lines behind that to be written to.
    #[inline]
    pub fn prefetch_to_write(&self, piece: Piece, header: u32) {
        let start = self.start(piece, 0, 0).cast_const();
        if header > 0 {
            prefetch(start);
        }
        if piece.length > header {
            let packet = start.wrapping_add(header as usize);
            prefetch_to_write(packet);
            prefetch_to_write(packet.wrapping_add(SHORTEST));
        }
    }

    /// Notes in the log that a piece was written to.
    #[inline]
    pub fn note(&self, piece: Piece, log: &DirtyLog) {
        if let Some(mapped) = self.regions.get(piece.region as usize) {
            log.note(mapped.region.guest + piece.offset, u64::from(piece.length));
        }
    }
}

/// A part of a ring, which lies in one region: words at multiples of their size.
#[derive(Debug)]
pub struct Part {
    /// Keeps the place mapped.
    _memory: Arc<GuestMemory>,
    base: NonNull<u8>,
    length: usize,
    /// What the first byte's address is a multiple of.
    align: usize,
}

// SAFETY: a place in memory that it keeps mapped, reached through atomics.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    /// The part at a piece; `None` when it does not begin at a multiple of `align`, a power of two.
    pub fn new(memory: &Arc<GuestMemory>, piece: Piece, align: usize) -> Option<Part> {
        let length = piece.length as usize;
        let base = NonNull::new(memory.start(piece, 0, length))?;
        let fits = align.is_power_of_two() && base.as_ptr().addr().is_multiple_of(align);
        fits.then(|| Part { _memory: memory.clone(), base, length, align })
    }

    #[inline]
    fn place<const N: usize>(&self, at: usize) -> *mut u8 {
        assert!(at <= self.length && N <= self.length - at, "a word outside of the part");
        assert!(N <= self.align && at.is_multiple_of(N), "a word that is not aligned");
        // SAFETY: just checked to lie in the part, which lies in the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// The word of 16 bits at a byte.
    ///
    /// # Panics
    /// When it does not lie in the part, or not at a multiple of its size: a defect of the caller.
    #[inline]
    pub fn half(&self, at: usize) -> &AtomicU16 {
        // SAFETY: the word lies in the mapping at a multiple of its size; the mapping outlives the reference,
        // and atomics may change at any time.
        unsafe { AtomicU16::from_ptr(self.place::<2>(at).cast()) }
    }

    /// The word of 32 bits at a byte.
    ///
    /// # Panics
    /// As [`Part::half`].
    #[inline]
    pub fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as in `half`.
        unsafe { AtomicU32::from_ptr(self.place::<4>(at).cast()) }
    }

    /// The word of 64 bits at a byte.
    ///
    /// # Panics
    /// As [`Part::half`].
    #[inline]
    pub fn long(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as in `half`.
        unsafe { AtomicU64::from_ptr(self.place::<8>(at).cast()) }
    }

    /// Has the processor fetch the line of a byte.
    ///
    /// # Panics
    /// As [`Part::half`].
    #[inline]
    pub fn prefetch(&self, at: usize) {
        prefetch(self.place::<1>(at));
    }
}

/// Copies bytes; short ones without a call.
///
/// # Safety
/// Both are good for so many bytes, and do not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: the caller's promise; of 16 to 64 bytes the last 16 are copied twice where needed.
    unsafe {
        match count {
            16..=64 => {
                let mut at = 0;
                while at + 16 < count {
                    to.add(at)
                        .cast::<[u8; 16]>()
                        .write_unaligned(from.add(at).cast::<[u8; 16]>().read_unaligned());
                    at += 16;
                }
                let last = count - 16;
                to.add(last)
                    .cast::<[u8; 16]>()
                    .write_unaligned(from.add(last).cast::<[u8; 16]>().read_unaligned());
            }
            _ => to.copy_from_nonoverlapping(from, count),
        }
    }
}
