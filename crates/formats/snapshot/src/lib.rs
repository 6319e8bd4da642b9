//! A saved function: everything that one instance is between two calls, and the format in which that is kept.
//!
//! The life of a snapshot:
//! 1. The runtime of the instance (`guest_wasm`) fills a [`Saved`]: touched memory, mutable globals, what the
//!    host keeps for it, its packets. The engine adds the packets that wait for it and its own tallies.
//! 2. [`Saved::encode`] makes one string of bytes of it, [`Saved::parts`] the same without copying the
//!    memory.
//! 3. The bytes travel or lie on a disk; they may come back damaged, from a newer version, or from an enemy.
//! 4. [`Saved::decode`] reads them, checks everything, and borrows the memory from them.
//! 5. The runtime restores one instance from it, or many.
//!
//! What is trusted: nothing. A snapshot that passes is within [`limits`] and consistent in itself, and what
//! it says of memory and globals is what a function could have made of them. That it is a snapshot of the
//! right image, and that interfaces, counters and globals are those of that image, is for the code that
//! restores it to check.
//!
//! The format, in little-endian integers (see [`format`](mod@format) for how versions live together):
//!
//! ```text
//! header     magic 8 | major u16 | minor u16 | sections u32 | bytes of the whole u64
//! table      each section: kind u16 | flags u16 | zero u32 | length u64 | xxh3-64 of its bytes u64
//!            xxh3-64 of header and table u64
//! sections   in the table's order, one right behind the other
//! ```
//!
//! Limits: those in [`limits`]; the checksums find damage, not forgery.

#![forbid(unsafe_code)]

mod error;
pub mod format;
pub mod limits;
mod memory;
mod parts;
mod saved;
mod sections;
mod wire;

pub use error::{ContentError, DecodeError};
pub use memory::{LINE, Memory, PAGE, Page};
pub use parts::Parts;
pub use saved::{Global, HostState, Identity, Line, PacketState, Saved, SavedPacket, Tally, Value};
