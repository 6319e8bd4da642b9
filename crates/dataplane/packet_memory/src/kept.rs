// UNSAFETY: what is kept for a buffer is written by the one owner of its packet, without a lock. That there
// is one owner is a matter of `Packet`'s type; `tests/ownership.rs` holds the pool to a model.
#![allow(unsafe_code)]
//! Headers that were taken off packets, in host memory beside the buffers, where no guest reads or writes
//! them.
//!
//! There is a place for each buffer of a pool, from the moment on when something takes headers off
//! ([`Pool::keep_headers`]). What is there belongs to a packet only if the packet says so, so that a buffer
//! that is used again has nothing of the packet before.

use crate::{Packet, Pool};
use encapsulation::Headers;
use std::cell::UnsafeCell;
use std::sync::OnceLock;

/// Headers that were taken off a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The headers.
    pub headers: Headers,
    /// What took them off, by a number of its own.
    pub by: u64,
}

/// A place for each buffer, or none.
#[derive(Default)]
pub(crate) struct KeptHeaders(OnceLock<Box<[UnsafeCell<Kept>]>>);

// SAFETY: a place is reached with a borrow of the packet that owns its buffer alone: no two threads have one
// at the same time, and one that has it later was handed the packet.
unsafe impl Sync for KeptHeaders {}

impl std::fmt::Debug for KeptHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeptHeaders({})", self.0.get().map_or(0, |places| places.len()))
    }
}

impl Pool {
    /// Makes places for headers that are taken off packets, if there are none yet: memory for all buffers.
    pub fn keep_headers(&self) {
        let place = || UnsafeCell::new(Kept { headers: Headers::NONE, by: 0 });
        self.kept.0.get_or_init(|| (0..self.config().buffers).map(|_| place()).collect());
    }

    /// The headers that were taken off a packet, if any are kept.
    ///
    /// # Panics
    /// When the packet is of another pool and says that some are.
    #[inline]
    pub fn kept<'a>(&'a self, packet: &'a Packet) -> Option<&'a Kept> {
        let place = packet.has_kept().then(|| self.place(packet)).flatten()?;
        // SAFETY: the packet owns the place, and is borrowed for as long as this is.
        Some(unsafe { &*place.get() })
    }

    /// A place for headers that are taken off a packet, which says from now on that it has some; `None` when
    /// the pool keeps none.
    ///
    /// # Panics
    /// When the packet is of another pool.
    #[inline]
    pub fn keep<'a>(&'a self, packet: &'a mut Packet) -> Option<&'a mut Kept> {
        let place = self.place(packet)?;
        packet.set_kept(true);
        // SAFETY: the packet owns the place, and is borrowed mutably for as long as this is.
        Some(unsafe { &mut *place.get() })
    }

    /// Forgets headers that were taken off a packet.
    #[inline]
    pub fn forget_kept(&self, packet: &mut Packet) {
        packet.set_kept(false);
    }

    /// Keeps for a copy what is kept for the packet of another pool.
    #[inline]
    pub(crate) fn keep_the_same(&self, other: &Pool, packet: &Packet, copy: &mut Packet) {
        if let Some(headers) = other.kept(packet)
            && let Some(place) = self.keep(copy)
        {
            *place = *headers;
        }
    }

    #[inline]
    fn place(&self, packet: &Packet) -> Option<&UnsafeCell<Kept>> {
        let start = self.locate(packet);
        self.kept.0.get()?.get(start >> self.buffer_size().trailing_zeros())
    }
}
