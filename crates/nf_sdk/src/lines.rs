//! Large tables in cache lines.
// UNSAFETY: zeroed memory straight from the allocator, so that a table of tens of MiB is not written before it is used:
// in the sandbox it is fresh pages that cost nothing until touched.
#![allow(unsafe_code)]

use alloc::alloc::{Layout, alloc_zeroed};
use alloc::boxed::Box;

/// One cache line: 64 bytes at an address divisible by 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u32; 16]);

/// `count` lines of zeros; `None` when there is no memory for them.
pub fn zeroed_lines(count: usize) -> Option<Box<[Line]>> {
    if count == 0 {
        return Some(Box::default());
    }
    let layout = Layout::array::<Line>(count).ok()?;
    // SAFETY: the layout is not empty.
    let first = unsafe { alloc_zeroed(layout) }.cast::<Line>();
    if first.is_null() {
        return None;
    }
    // SAFETY: `first` was allocated by the global allocator with the layout of `count` lines, which is what the box
    // frees; all-zero bytes are a valid `Line`.
    Some(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(first, count)) })
}
