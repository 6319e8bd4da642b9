// UNSAFETY: slots of the receive ring are lent as slices while the kernel has given them over. Its other side
// is the kernel, so neither loom nor Miri can run it; what is in a slot is parsed safely.
#![allow(unsafe_code)]
//! The receive ring: slots that the kernel fills, one frame each, and that we give back.

use crate::slots::{SLOT, Slots};
use packet_memory::prefetch;
use std::sync::atomic::Ordering;

/// A mapped receive ring.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    slots: Slots,
    current: usize,
}

impl ReceiveRing {
    /// Begins at the first slot, as the kernel does.
    pub fn new(slots: Slots) -> ReceiveRing {
        ReceiveRing { slots, current: 0 }
    }

    /// How many frames are there, of up to `limit`; what will be read of them is on its way from memory
    /// meanwhile.
    #[inline]
    pub fn ready(&self, limit: usize) -> usize {
        let (mut slot, mut ready) = (self.current, 0);
        while ready < limit.min(self.slots.count()) && self.is_ours(slot) {
            fetch(self.slots.start(slot));
            slot = self.slots.after(slot);
            ready += 1;
        }
        ready
    }

    /// Lets the next slots come from memory, when they are likely to have frames already.
    #[inline]
    pub fn fetch_ahead(&self, slots: usize) {
        let mut slot = self.current;
        for _ in 0..slots.min(self.slots.count()) {
            fetch(self.slots.start(slot));
            slot = self.slots.after(slot);
        }
    }

    /// The slot with the oldest frame, if there is one.
    #[inline]
    pub fn current(&self) -> Option<&[u8]> {
        if !self.is_ours(self.current) {
            return None;
        }
        // SAFETY: the slot lies in the mapping. While its status says USER the kernel does not write to it,
        // and we give it back only by `release`, which cannot be called while this borrow lives.
        Some(unsafe { std::slice::from_raw_parts(self.slots.start(self.current), SLOT) })
    }

    /// Gives the current slot back to the kernel and goes on to the next.
    #[inline]
    pub fn release(&mut self) {
        self.slots.status(self.current).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.current = self.slots.after(self.current);
    }

    /// How many slots there are.
    pub fn count(&self) -> usize {
        self.slots.count()
    }

    /// Pairs with the kernel's barrier before it stores the status (af_packet.c, `__packet_set_status`).
    #[inline]
    fn is_ours(&self, slot: usize) -> bool {
        self.slots.status(slot).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }
}

/// Asks for the first three cache lines of a slot, in which a frame of up to 116 bytes lies.
#[inline]
fn fetch(slot: *const u8) {
    [0, 64, 128].into_iter().for_each(|line| prefetch(slot.wrapping_add(line)));
}
