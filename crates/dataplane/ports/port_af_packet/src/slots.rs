// UNSAFETY: rings of slots are memory shared with the kernel. Its other side is the kernel, so neither loom
// nor Miri can run it; what is here is only where a slot is and whose it is.
#![allow(unsafe_code)]
//! The memory of a ring: slots of one size that pass between the kernel and us, one owner at a time.

use std::ffi::c_uint;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Bytes in a block, in which the kernel allocates; slots do not cross its borders.
pub(crate) const BLOCK: usize = 256 << 10;

/// Bytes in a slot: an Ethernet frame of 1,518 bytes and what stands in front of it, and an odd number of
/// cache lines, so that slots spread over all sets of a cache.
pub(crate) const SLOT: usize = 29 * 64;

/// Slots in a block.
pub(crate) const PER_BLOCK: usize = BLOCK / SLOT;

/// What the kernel is asked for.
pub(crate) fn request(blocks: usize) -> libc::tpacket_req {
    libc::tpacket_req {
        tp_block_size: BLOCK as c_uint,
        tp_block_nr: blocks as c_uint,
        tp_frame_size: SLOT as c_uint,
        tp_frame_nr: (blocks * PER_BLOCK) as c_uint,
    }
}

/// The mapped slots of one ring.
#[derive(Debug)]
pub(crate) struct Slots {
    base: NonNull<u8>,
    blocks: usize,
}

// SAFETY: the mapping belongs to this value until it is dropped and has no tie to a thread.
unsafe impl Send for Slots {}

impl Slots {
    /// Maps the one ring, of `blocks` blocks, that the socket was given.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn map(socket: BorrowedFd<'_>, blocks: usize) -> io::Result<Slots> {
        // SAFETY: a new shared mapping at an address of the kernel's choice, of exactly the ring's size.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * BLOCK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Slots { base, blocks })
    }

    /// How many slots there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.blocks * PER_BLOCK
    }

    /// The slot after this one.
    #[inline]
    pub fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.count() { 0 } else { slot + 1 }
    }

    /// The first byte of a slot, good for [`SLOT`] bytes and as long as the mapping.
    ///
    /// # Panics
    /// When there is no such slot.
    #[inline]
    pub fn start(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.count(), "slot {slot} of {}", self.count());
        // SAFETY: the slot is one of the mapping's.
        unsafe { self.base.as_ptr().add(slot / PER_BLOCK * BLOCK + slot % PER_BLOCK * SLOT) }
    }

    /// Whose the slot is: the first word of its header.
    #[inline]
    pub fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: the word lies in the slot, is aligned (blocks are page-aligned, slots whole cache lines),
        // lives as long as the mapping, and is only accessed as an atomic by both sides while it may change.
        unsafe { AtomicU32::from_ptr(self.start(slot).cast()) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`, unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.blocks * BLOCK) };
    }
}
