//! Rings of descriptors between the engine and a native process, in memory that both have mapped.
//!
//! The life of an entry:
//! 1. The writer asks for room ([`Producing::room`]), puts entries in ([`Producing::push`]) and publishes
//!    them together.
//! 2. It wakes the reader if that sleeps ([`sleep::should_wake`]).
//! 3. The reader learns how many there are ([`Consuming::available`]), copies each out once
//!    ([`Consuming::pop`]), and gives their places back together.
//!
//! Each end keeps its own count to itself and writes it for the other; it reads the other's count alone. So a
//! hostile other side can say that there is more or less than there is, which [`OutOfStep`] or its own loss
//! comes of, and can never move this side's count, or have a place outside of the ring read or written.
//!
//! Limits: one writer and one reader of each ring; at most 32,768 entries of one or four words of 64 bits.
//! Entries are whatever the other side wrote last, so that they are checked after they were copied out, never
//! before.

mod memory;
mod ring;
pub mod sleep;
mod sync;

#[cfg(test)]
mod interleavings;

pub use memory::{Place, SharedMemory};
pub use ring::{Consuming, Entries, OutOfStep, Producing};
pub use std::sync::atomic::{AtomicU32, AtomicU64};
