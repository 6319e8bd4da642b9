// UNSAFETY: an allocator is asked for memory by address. It hands on what another one gives, and its test
// runs what it does beside that.
#![allow(unsafe_code)]
//! Large allocations on huge pages, where the host has them: functions that run natively beside their
//! sandboxes have their tables there, as sandboxes have.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};

/// What a huge page has, and the least that lies on some.
const HUGE: usize = 2 << 20;

/// The usual allocator, which gives large pieces on pages of 2 MiB.
pub(crate) struct HugeTables;

/// The layout by which a piece is really allocated.
fn of(layout: Layout) -> Layout {
    if layout.size() < HUGE { layout } else { layout.align_to(HUGE).unwrap_or(layout) }
}

/// Has a large piece lie on huge pages. Advice only: a kernel without any refuses it.
fn advise(memory: *mut u8, layout: Layout) {
    if layout.size() >= HUGE && !memory.is_null() {
        let whole = layout.size() / HUGE * HUGE;
        // SAFETY: advice for memory that was just allocated; it changes no byte.
        unsafe { libc::madvise(memory.cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

// SAFETY: memory comes from and goes back to one allocator, under one layout, which is made of the caller's
// alone and asks for no less.
unsafe impl GlobalAlloc for HugeTables {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise; the layout has the same size.
        let memory = unsafe { MiMalloc.alloc(of(layout)) };
        advise(memory, layout);
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe { MiMalloc.alloc_zeroed(of(layout)) };
        advise(memory, layout);
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above: it was allocated by the same layout.
        unsafe { MiMalloc.dealloc(memory, of(layout)) }
    }
}

#[cfg(test)]
mod tests {
    use super::HUGE;

    #[test]
    fn large_tables_begin_on_huge_pages_and_grow() {
        let mut table = vec![0u8; HUGE + 1];
        assert!((table.as_ptr() as usize).is_multiple_of(HUGE));
        table[HUGE] = 7;
        table.resize(3 * HUGE, 1);
        assert!((table.as_ptr() as usize).is_multiple_of(HUGE));
        assert_eq!((table[HUGE], table[HUGE + 1]), (7, 1));
    }
}
