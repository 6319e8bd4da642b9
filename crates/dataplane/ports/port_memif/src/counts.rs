//! The counts of a ring's two sides, which wrap, and how the receiver says that it sleeps.
//!
//! A side writes its own count for the other and never reads it back. Of the other's one thing is believed:
//! that it is not further away than the ring is long; `None` is a count that cannot be.

use super::sync::{Acquire, AtomicU16, Relaxed, Release, SeqCst, fence};

/// In a ring's flags: its receiver polls, and wants no interrupts.
pub const MASK_INTERRUPTS: u16 = 1;

/// Buffers of this side's own that are free: the peer has taken those up to its count.
#[inline]
pub fn free(size: u16, position: u16, theirs: &AtomicU16) -> Option<u16> {
    size.checked_sub(position.wrapping_sub(theirs.load(Acquire)))
}

/// Buffers that the peer has put there, filled or to be filled, from this side's position on.
#[inline]
pub fn offered(size: u16, position: u16, theirs: &AtomicU16) -> Option<u16> {
    Some(theirs.load(Acquire).wrapping_sub(position)).filter(|offered| *offered <= size)
}

/// Shows the peer what was put there, or taken.
#[inline]
pub fn show(own: &AtomicU16, count: u16) {
    own.store(count, Release);
}

/// Whether the receiver wants to be woken, after something was shown.
#[inline]
pub fn should_wake(flags: &AtomicU16) -> bool {
    fence(SeqCst);
    flags.load(Relaxed) & MASK_INTERRUPTS == 0
}

/// The receiver sleeps from now on. It looks at the ring once more before it does.
pub fn will_sleep(flags: &AtomicU16) {
    flags.store(0, Relaxed);
    fence(SeqCst);
}

/// The receiver polls.
pub fn poll(flags: &AtomicU16) {
    flags.store(MASK_INTERRUPTS, Relaxed);
}
