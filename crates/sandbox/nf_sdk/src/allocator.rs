//! The sandbox's memory: small pieces from dlmalloc, tables straight from the end of memory.
// UNSAFETY: an allocator hands out raw memory. The sandbox has one thread, which is why the spans need no
// lock.
#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::memory_grow;
use core::cell::UnsafeCell;
use dlmalloc::GlobalDlmalloc;

/// Pieces of this size and above come in whole pages. Fresh pages are zero (WebAssembly core, memory.grow),
/// so that a zeroed table costs nothing until it is touched; dlmalloc would write all of it.
const LARGE: usize = 1 << 18;
const PAGE: usize = 1 << 16;
/// Freed tables that are remembered for reuse; a function frees few.
const REMEMBERED: usize = 16;

#[derive(Clone, Copy)]
struct Span {
    address: usize,
    size: usize,
}

struct Memory {
    freed: UnsafeCell<[Span; REMEMBERED]>,
}

// SAFETY: wasm32-unknown-unknown without threads.
unsafe impl Sync for Memory {}

#[global_allocator]
static MEMORY: Memory = Memory { freed: UnsafeCell::new([Span { address: 0, size: 0 }; REMEMBERED]) };

impl Memory {
    /// Takes whole pages; true when they are zero.
    fn take(&self, size: usize) -> (*mut u8, bool) {
        let pages = size.div_ceil(PAGE);
        let size = pages * PAGE;
        // SAFETY: one thread, and no reference outlives this function.
        let freed = unsafe { &mut *self.freed.get() };
        let fitting = freed.iter_mut().filter(|span| span.size >= size).min_by_key(|span| span.size);
        if let Some(span) = fitting {
            let address = span.address;
            span.address += size;
            span.size -= size;
            return (address as *mut u8, false);
        }
        match memory_grow::<0>(pages) {
            usize::MAX => (core::ptr::null_mut(), false),
            first => ((first * PAGE) as *mut u8, true),
        }
    }

    fn give_back(&self, address: *mut u8, size: usize) {
        let (mut address, mut size) = (address as usize, size.div_ceil(PAGE) * PAGE);
        // SAFETY: as in `take`.
        let freed = unsafe { &mut *self.freed.get() };
        for span in freed.iter_mut().filter(|span| span.size > 0) {
            if span.address + span.size == address || address + size == span.address {
                address = address.min(span.address);
                size += span.size;
                span.size = 0;
            }
        }
        // The smallest is forgotten when there is no room: memory that is lost, not memory that is shared.
        if let Some(room) = freed.iter_mut().min_by_key(|span| span.size).filter(|room| room.size < size) {
            *room = Span { address, size };
        }
    }
}

// SAFETY: every piece is disjoint from every other: dlmalloc's by its own word, large ones because they are
// taken whole from fresh or given back pages; page alignment serves every layout up to 64 KiB, and larger
// ones are refused.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            core::ptr::null_mut()
        } else if layout.size() >= LARGE {
            self.take(layout.size()).0
        } else {
            // SAFETY: the caller's promise.
            unsafe { GlobalDlmalloc.alloc(layout) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            core::ptr::null_mut()
        } else if layout.size() >= LARGE {
            let (address, zero) = self.take(layout.size());
            if !zero && !address.is_null() {
                // SAFETY: the piece is this caller's from now on and at least this large.
                unsafe { address.write_bytes(0, layout.size()) };
            }
            address
        } else {
            // SAFETY: the caller's promise.
            unsafe { GlobalDlmalloc.alloc_zeroed(layout) }
        }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        if layout.size() >= LARGE {
            self.give_back(address, layout.size());
        } else {
            // SAFETY: the caller's promise; the size says whose it was.
            unsafe { GlobalDlmalloc.dealloc(address, layout) }
        }
    }
}
