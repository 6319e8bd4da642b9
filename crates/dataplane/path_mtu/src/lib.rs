//! What becomes of a packet that is longer than the next link takes.
//!
//! 1. [`too_long`] reads a frame and says what is to be done: nothing fits a link by itself.
//! 2. An IPv4 packet that may be fragmented becomes [`Remedy::Fragments`] (RFC 791, sections 2.3 and 3.2).
//! 3. Of any other the sender is told by [`Remedy::Answer`]: "fragmentation needed" (RFC 792, RFC 1191
//!    section 4) or "packet too big" (RFC 4443, section 3.2), to be sent back where the packet came from.
//! 4. About what no answer may be sent (RFC 1122 section 3.2.2, RFC 4443 section 2.4(e)), and what is not IP,
//!    it is [`Remedy::None`].
//!
//! An answer has the packet's addresses, of Ethernet and of IP, exchanged: what stands on a wire without an
//! address of its own speaks for the destination, whose way it is. VLAN tags stay. How many answers are sent
//! is the caller's business (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4(f)).
//!
//! All of these are functions of copied bytes. Limits: IPv6 packets are not fragmented (RFC 8200, section 5);
//! the MTU of an answer about IPv6 is 1,280 at least.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod answer;
mod fragment;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
pub use fragment::fragments;
use packet::ethernet::{self, ethertype};

/// What is to be done about a packet that is too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// These frames are sent in its place, in order.
    Fragments(Vec<Vec<u8>>),
    /// This frame is sent back.
    Answer(Vec<u8>),
    /// Nothing.
    None,
}

/// What is to be done about a frame whose IP packet is longer than `mtu` bytes. Its checksums are complete.
pub fn too_long(frame: &[u8], mtu: u32) -> Remedy {
    let Ok(link) = ethernet::View::new(frame) else { return Remedy::None };
    let at = link.header_length();
    let remedy = match link.ethertype() {
        ethertype::IPV4 => match fragment::fragments(frame, at, mtu) {
            Some(fragments) => Some(Remedy::Fragments(fragments)),
            None => answer::v4(frame, at, mtu).map(Remedy::Answer),
        },
        ethertype::IPV6 => answer::v6(frame, at, mtu).map(Remedy::Answer),
        _ => None,
    };
    remedy.unwrap_or(Remedy::None)
}
