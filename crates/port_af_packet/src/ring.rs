// UNSAFETY: the receive ring is memory shared with the kernel. Its other side is the kernel, so neither loom nor Miri
// can run it; what is here is only the hand-over of whole blocks, everything inside a block is parsed safely.
#![allow(unsafe_code)]
//! The receive ring: blocks that pass between the kernel and us, one owner at a time.

use crate::block;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes in a block. A block holds at least one frame whole, hence more than 64 KiB; four times that wastes at most a
/// quarter on frames that do not fit at a block's end.
pub(crate) const BLOCK: usize = 256 << 10;

/// A mapped receive ring.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    blocks: usize,
    current: usize,
}

// SAFETY: the mapping belongs to this value until it is dropped and has no tie to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of `blocks` blocks that the socket was given.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn map(socket: BorrowedFd<'_>, blocks: usize) -> io::Result<Ring> {
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
        Ok(Ring { base, blocks, current: 0 })
    }

    /// The oldest block, if the kernel has given it over.
    #[inline]
    pub fn current(&self) -> Option<&[u8]> {
        // Pairs with the kernel's barrier before it stores the status (af_packet.c, prb_close_block).
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the block lies in the mapping (`current < blocks`). While its status says USER the kernel does not
        // write to it, and we give it back only by `release`, which cannot be called while this borrow lives.
        Some(unsafe { std::slice::from_raw_parts(self.block(), BLOCK) })
    }

    /// Gives the current block back to the kernel and goes on to the next.
    #[inline]
    pub fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.current = (self.current + 1) % self.blocks;
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    fn block(&self) -> *mut u8 {
        // SAFETY: `current < blocks`, so the result lies in the mapping.
        unsafe { self.base.as_ptr().add(self.current * BLOCK) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word lies in the block, is aligned (blocks are page-aligned, the offset is a multiple of four),
        // lives as long as the mapping, and is only accessed as an atomic by both sides while it may change.
        unsafe { AtomicU32::from_ptr(self.block().add(block::STATUS_OFFSET).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`, unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.blocks * BLOCK) };
    }
}
