//! The counts of a split ring's two sides, which wrap, and how each says from where on it wants to be woken
//! (Virtio 1.2, sections 2.7.6 to 2.7.10).
//!
//! Of the guest's count one thing is believed: that it is not further away than the ring is long.

use super::sync::{Acquire, AtomicU16, Relaxed, Release, SeqCst, fence};

/// In the flags of the used part: this side needs no kicks.
pub const NO_NOTIFY: u16 = 1;
/// In the flags of the available part: the guest needs no calls.
pub const NO_INTERRUPT: u16 = 1;

/// Chains that the guest has made available from this side's position on; `None` is a count that cannot be.
#[inline]
pub fn waiting(size: u16, position: u16, theirs: &AtomicU16) -> Option<u16> {
    Some(theirs.load(Acquire).wrapping_sub(position)).filter(|waiting| *waiting <= size)
}

/// Shows the guest what was used.
#[inline]
pub fn show(own: &AtomicU16, position: u16) {
    own.store(position, Release);
}

/// Whether the guest is to be called, after what it has from `old` to `position` was shown: by its event
/// index, or else by its flags.
#[inline]
pub fn should_call(old: u16, position: u16, event: Option<&AtomicU16>, flags: &AtomicU16) -> bool {
    fence(SeqCst);
    match event {
        None => flags.load(Relaxed) & NO_INTERRUPT == 0,
        Some(event) => {
            let event = event.load(Relaxed);
            position.wrapping_sub(event).wrapping_sub(1) < position.wrapping_sub(old)
        }
    }
}

/// This side sleeps from now on, and wants kicks: for what comes at its position, or by its flags. It looks
/// at the ring once more before it does.
pub fn will_sleep(position: u16, event: Option<&AtomicU16>, flags: &AtomicU16) {
    match event {
        None => flags.store(0, Relaxed),
        Some(event) => event.store(position, Relaxed),
    }
    fence(SeqCst);
}
