// UNSAFETY: packets are copied between memory that a peer writes to at any time and buffers of the pool.
// Neither is ever a reference: bytes are copied between raw pointers, within bounds that were checked here.
// Miri knows no mappings of files; the tests of this crate run it against a peer that writes into every word.
#![allow(unsafe_code)]
//! Copying bytes of packets between shared memory and the pool.

use native_ring::SharedMemory;
use packet_memory::{Packet, Pool};
use std::ops::Range;

/// Appends bytes of the memory to a packet, if they fit.
///
/// # Panics
/// When the bytes do not lie in the memory: a defect of the caller, which has checked it.
#[inline]
#[must_use]
pub(crate) fn append(pool: &Pool, packet: &mut Packet, memory: &SharedMemory, from: Range<usize>) -> bool {
    assert!(from.start <= from.end && from.end <= memory.len(), "bytes outside of the memory");
    let at = packet.length() as usize;
    if pool.set_length(packet, at + from.len()).is_err() {
        return false;
    }
    // SAFETY: the bytes were just checked to lie in the mapping, and those of the packet from `at` to its new
    // end lie in its buffer, which is of another mapping.
    unsafe {
        let source = memory.base().as_ptr().add(from.start);
        pool.data(packet).add(at).copy_from_nonoverlapping(source, from.len());
    }
    true
}

/// Copies bytes of a packet, from its byte `at` on, into the memory.
///
/// # Panics
/// When they do not lie in the packet or have no room in the memory: a defect of the caller.
#[inline]
pub(crate) fn put(pool: &Pool, packet: &Packet, at: usize, memory: &SharedMemory, to: Range<usize>) {
    assert!(to.start <= to.end && to.end <= memory.len(), "bytes outside of the memory");
    assert!(at + to.len() <= packet.length() as usize, "bytes outside of the packet");
    // SAFETY: both ranges were just checked; they are of different mappings.
    unsafe {
        let target = memory.base().as_ptr().add(to.start);
        target.copy_from_nonoverlapping(pool.data(packet).add(at), to.len());
    }
}
