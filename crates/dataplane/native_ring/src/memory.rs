// UNSAFETY: memory that another process writes to at any time is mapped here, and read and written through
// atomics alone. Miri knows no mappings of files; the tests below and `port_native` run it, and loom the
// protocol over it.
#![allow(unsafe_code)]
//! Memory that two processes share.

use crate::ring::Entries;
use native_abi::Ring;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Where a memfd of ordinary pages lies (statfs(2), `TMPFS_MAGIC`).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;
/// Where one of huge pages lies (`HUGETLBFS_MAGIC`).
const HUGETLBFS: rustix::fs::FsWord = 0x9584_58f6;

/// A mapping of a memory file that cannot shrink under it.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: plain memory that belongs to this value until it is dropped, reached through atomics or raw
// pointers.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes a memory file of `length` bytes, zeroed and sealed against another size, and maps it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn create(name: &str, length: usize) -> io::Result<(SharedMemory, OwnedFd)> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, length as u64)?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((SharedMemory::map(&file, length, true)?, file))
    }

    /// Maps the first `length` bytes of a memory file of a process that is not believed.
    ///
    /// Such a file has to consist of ordinary pages, which the kernel makes again when the peer gives them
    /// back. One of huge pages does not: with its pages punched out and none free in the machine, reading it
    /// ends this process with SIGBUS, and no seal forbids that (fcntl(2), `F_SEAL_SHRINK`).
    ///
    /// # Errors
    /// As [`SharedMemory::map`], and a file that lies in no tmpfs.
    pub fn map_of_peer(file: impl AsFd, length: usize, write: bool) -> io::Result<SharedMemory> {
        let kind = fstatfs(&file)?.f_type;
        if kind != TMPFS {
            return Err(io::Error::other(format!(
                "found: a memory file in a file system of type {kind:#x}{}; allowed: ordinary pages of a memfd, type {TMPFS:#x}",
                if kind == HUGETLBFS { " (huge pages)" } else { "" },
            )));
        }
        SharedMemory::map(file, length, write)
    }

    /// Maps the first `length` bytes of a memory file of this process or of one that it believes.
    ///
    /// # Errors
    /// The file is shorter, may become so, or is refused by the kernel: for writing, say.
    pub fn map(file: impl AsFd, length: usize, write: bool) -> io::Result<SharedMemory> {
        let size = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if length == 0 || size < length as u64 {
            return Err(io::Error::other(format!("the memory file has {size} bytes; needed: {length}")));
        }
        if !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("the memory file is not sealed against shrinking"));
        }
        let protection = if write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &file, 0)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(SharedMemory { base, length })
    }

    /// The first byte. Valid for [`SharedMemory::len`] bytes as long as this value lives.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never: a mapping has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The word of 16 bits at an offset.
    ///
    /// # Panics
    /// When it does not lie in the memory, or not at a multiple of two: a defect of the caller.
    #[inline]
    pub fn half(&self, offset: usize) -> &AtomicU16 {
        assert!(offset.is_multiple_of(2) && offset + 2 <= self.length, "a word outside of the memory");
        // SAFETY: as in `word`.
        unsafe { self.base.add(offset).cast::<AtomicU16>().as_ref() }
    }

    /// The word of 32 bits at an offset.
    ///
    /// # Panics
    /// When it does not lie in the memory, or not at a multiple of four: a defect of the caller.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.length, "a word outside of the memory");
        // SAFETY: the word was just checked to lie in the mapping, which is aligned to pages and outlives the
        // reference; atomics may change at any time.
        unsafe { self.base.add(offset).cast::<AtomicU32>().as_ref() }
    }

    /// Words of 64 bits from an offset on.
    ///
    /// # Panics
    /// When they do not lie in the memory, or not at a multiple of eight.
    #[inline]
    pub fn longs<const W: usize>(&self, offset: usize) -> [&AtomicU64; W] {
        let fits = offset.checked_add(W * 8).is_some_and(|end| end <= self.length);
        assert!(offset.is_multiple_of(8) && fits, "words outside of the memory");
        // SAFETY: as in `word`, of all of them.
        std::array::from_fn(|word| unsafe { self.base.add(offset + word * 8).cast::<AtomicU64>().as_ref() })
    }

    /// Has the processor fetch the line of an offset, to be written or to be read.
    #[inline]
    pub fn fetch(&self, offset: usize, writes: bool) {
        let line = self.base.as_ptr().wrapping_add(offset);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch neither reads nor faults, wherever the address points. Processors of this
        // architecture that know no `prefetchw` do nothing there.
        unsafe {
            use std::arch::asm;
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            if writes {
                asm!("prefetchw [{at}]", at = in(reg) line, options(readonly, nostack, preserves_flags));
            } else {
                _mm_prefetch::<_MM_HINT_T0>(line.cast_const().cast());
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (line, writes);
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, unmapped once. A failure leaves it mapped, which harms nothing.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// A ring in shared memory.
#[derive(Clone, Debug)]
pub struct Place {
    memory: Arc<SharedMemory>,
    ring: Ring,
}

impl Place {
    /// The ring at its place in the memory.
    ///
    /// # Panics
    /// When it does not lie in the memory, or its size is no power of two.
    pub fn new(memory: &Arc<SharedMemory>, ring: Ring) -> Place {
        assert!(ring.size.is_power_of_two(), "a ring of another size");
        assert!(
            ring.entries + ring.size as usize * ring.words * 8 <= memory.len(),
            "a ring outside of its memory"
        );
        Place { memory: memory.clone(), ring }
    }
}

impl<const W: usize> Entries<W> for Place {
    #[inline]
    fn size(&self) -> u32 {
        self.ring.size
    }

    #[inline]
    fn tail(&self) -> &AtomicU32 {
        self.memory.word(self.ring.tail)
    }

    #[inline]
    fn head(&self) -> &AtomicU32 {
        self.memory.word(self.ring.head)
    }

    #[inline]
    fn words(&self, place: u32) -> [&AtomicU64; W] {
        self.memory.longs(self.ring.entries + place as usize * W * 8)
    }

    #[inline]
    fn fetch(&self, place: u32, writes: bool) {
        self.memory.fetch(self.ring.entries + place as usize * W * 8, writes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Consuming, OutOfStep, Producing};
    use native_abi::Layout;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn two_mappings_of_one_file_are_one_ring() {
        let layout = Layout::new(64, 64).expect("allowed");
        let (memory, file) = SharedMemory::create("ring", layout.bytes()).expect("memory");
        let other = Arc::new(SharedMemory::map(&file, layout.bytes(), true).expect("mapped"));
        let mut writer = Producing::<_, 4>::new(Place::new(&Arc::new(memory), layout.sent()));
        let mut reader = Consuming::<_, 4>::new(Place::new(&other, layout.sent()));
        for round in 0..10u64 {
            assert_eq!(writer.room(), Ok(64));
            for n in 0..64 {
                assert!(writer.push([round, n, 2, 3]));
            }
            assert!(!writer.push([0; 4]), "it is full");
            assert_eq!(reader.available(), Ok(0), "nothing was published");
            writer.publish();
            assert_eq!((reader.available(), writer.room()), (Ok(64), Ok(0)));
            for n in 0..64 {
                assert_eq!(reader.pop(), Some([round, n, 2, 3]));
            }
            assert_eq!(reader.pop(), None);
            assert!(reader.release(), "a writer may wait for room");
        }
        other.word(layout.sent().tail).store(u32::MAX / 2, Relaxed);
        other.word(layout.sent().head).store(u32::MAX / 2, Relaxed);
        assert_eq!((reader.available(), writer.room()), (Err(OutOfStep), Err(OutOfStep)));
    }

    #[test]
    fn a_file_that_is_shorter_or_may_shrink_is_refused() {
        let (_, file) = SharedMemory::create("short", 4096).expect("memory");
        let refused = SharedMemory::map(&file, 4097, true).expect_err("too short");
        assert!(refused.to_string().contains("needed: 4097"), "{refused}");
        let unsealed = memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).expect("memory");
        ftruncate(&unsealed, 4096).expect("a size");
        assert!(SharedMemory::map(&unsealed, 4096, true).is_err());
    }

    /// Sealed, with its pages punched out and none free, such a file ends its reader by SIGBUS. Making one
    /// takes no page.
    #[test]
    fn huge_pages_of_a_peer_are_refused_though_they_are_sealed() {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let huge = memfd_create("huge", flags).expect("a memory file of huge pages");
        ftruncate(&huge, 2 << 20).expect("a size");
        fcntl_add_seals(&huge, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).expect("sealed");
        let refused = SharedMemory::map_of_peer(&huge, 2 << 20, true).expect_err("huge pages");
        assert!(refused.to_string().contains("(huge pages)"), "{refused}");
        let (_, ordinary) = SharedMemory::create("ordinary", 4096).expect("memory");
        SharedMemory::map_of_peer(&ordinary, 4096, true).expect("ordinary pages are allowed");
    }
}
