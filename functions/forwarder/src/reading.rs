// UNSAFETY: the readers are C code, called as `tests/header.c` declares it. Miri runs no foreign code; the
// fuzz target runs all of this with an address sanitizer instead.
#![allow(unsafe_code)]
//! What the readers of configurations in `include/superfluid.h` say of a key.

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    fn header_read(bytes: *const u8, length: u32, key: *const c_char, out: *mut Reading);
}

/// What a key of a configuration is, by every reader that takes it.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// -1: the bytes are no configuration as far as the key; 0: it has no such key; 1: what follows counts.
    pub found: i32,
    /// A bit for each reader that took it: boolean, unsigned, integer, text, bytes, MAC address, list, map.
    pub kinds: u32,
    /// As an integer.
    pub integer: i64,
    /// As an unsigned integer.
    pub number: u64,
    /// Where text or bytes begin, from the configuration's first byte.
    pub start: u32,
    /// How many bytes they are.
    pub length: u32,
    /// Items of a list.
    pub items: u64,
    /// The sum of its integers.
    pub sum: i64,
    /// As a boolean.
    pub truth: u8,
    /// As a MAC address.
    pub mac: [u8; 6],
    /// How the list ended: -1 where it breaks, 0 behind its last item.
    pub ended: i32,
}

impl Reading {
    /// Reads a configuration of less than 4 GiB.
    pub fn of(config: &[u8], key: &CStr) -> Reading {
        let mut reading = Reading::default();
        // SAFETY: so many bytes are readable, the key ends with a zero, and there is room for the reading.
        unsafe { header_read(config.as_ptr(), config.len() as u32, key.as_ptr(), &mut reading) };
        reading
    }
}
