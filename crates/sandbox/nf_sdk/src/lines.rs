//! Large tables whose entries keep to cache lines.
// UNSAFETY: zeroed memory straight from the allocator, so that a table of tens of MiB is not written before
// it is used: in the sandbox it is fresh pages that cost nothing until touched.
#![allow(unsafe_code)]

use alloc::alloc::{Layout, alloc_zeroed};
use alloc::boxed::Box;

/// A cache line: 64 bytes at an address divisible by 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u32; 16]);

/// Half a cache line: 32 bytes at an address divisible by 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct HalfLine(pub [u32; 8]);

/// A quarter of a cache line: 16 bytes at an address divisible by 16, one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct QuarterLine(pub [u8; 16]);

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Line {}
    impl Sealed for super::HalfLine {}
    impl Sealed for super::QuarterLine {}
}

/// What a [`zeroed_table`] can be made of: types that all-zero bytes are a value of.
pub trait TableEntry: Copy + sealed::Sealed {}
impl TableEntry for Line {}
impl TableEntry for HalfLine {}
impl TableEntry for QuarterLine {}

/// `count` entries of zeros; `None` when there is no memory for them.
pub fn zeroed_table<T: TableEntry>(count: usize) -> Option<Box<[T]>> {
    if count == 0 {
        return Some(Box::default());
    }
    let layout = Layout::array::<T>(count).ok()?;
    // SAFETY: the layout is not empty.
    let first = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if first.is_null() {
        return None;
    }
    // SAFETY: `first` was allocated by the global allocator with the layout of `count` entries, which is what
    // the box frees; the trait is sealed and its types are arrays of integers, of which all-zero bytes are a
    // value.
    Some(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(first, count)) })
}
