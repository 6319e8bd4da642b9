//! The virtio-net header: how the kernel, and other programs that speak virtio, say that a frame's checksum
//! is still to be completed and that it is still to be cut into segments.
//!
//! The life of a header:
//! 1. A port reads it in front of a frame: [`VnetHeader::from_bytes`].
//! 2. [`VnetHeader::admit`] puts what it says into the packet's record, where functions and the next port
//!    find it. A checksum that is to be written anywhere but into a transport header is written at once, or
//!    packets would become others behind what has looked at them ([`settle`]).
//! 3. Functions leave that state as it is; code that moves a packet's first byte moves the checksum's place
//!    along.
//! 4. A port writes it in front of the packet again: [`VnetHeader::of`], [`VnetHeader::to_bytes`].
//! 5. A port whose outside takes no such header computes the checksum instead: [`complete_checksum`].
//! 6. A frame that is longer than a buffer is cut where it comes in, into pieces that fit: [`Cut`].
//! 7. A packet whose way takes no such state on is cut into one packet for each segment: [`split`].
//!
//! Limits: what a header says of segments is not checked when it comes, because only the kernel that it is
//! given to can say what it takes; in a packet that is to be cut, in a tunnel of a kind that is unknown here,
//! a checksum may be written anywhere behind the headers that are known. Only what is too long for a
//! buffer is cut where it comes in; the port that sends it on cuts the rest.

#![forbid(unsafe_code)]

mod checksum;
mod header;
mod segments;
mod split;
#[cfg(test)]
mod tests;
mod tunnel;

pub use checksum::{complete_checksum, finish_checksum, settle};
pub use header::VnetHeader;
pub use segments::{Cut, Piece};
pub use split::{Split, is_whole, longest_segment, split, split_in_tunnels};
