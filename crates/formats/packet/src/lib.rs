//! Packet headers: views of bytes as they came, and representations to write bytes from.
//!
//! The life of a header, the same in every module ([`ethernet`], [`arp`], [`ipv4`], [`ipv6`], [`tcp`],
//! [`udp`], [`icmpv4`], [`icmpv6`]):
//! 1. `View::new` checks the lengths and the fields that say lengths, once; after that every accessor is
//!    safe.
//! 2. Accessors read single fields; `payload` is what comes after, as far as the header's own length field
//!    goes.
//! 3. `Repr::parse` takes all fields out of a view; `Repr::emit` writes them, checksum included.
//! 4. Code that changes a header in place writes to the ranges in `field` and corrects the checksum with
//!    [`checksum::update`].
//!
//! [`dissect`] runs through all layers of a frame at once, [`tunnel::Tunnels`] goes on with what is inside of
//! its packet, and [`symmetric_flow_hash`] is what the classifier calls for each packet.
//!
//! Limits: no I/O, no clock, no allocation, no `unsafe`, no dependency but `wide`, so that functions can use
//! it as well. Bytes are hostile: nothing here panics on any of them. At most sixteen VLAN tags, 184 IPv6
//! extension headers, sixteen MPLS labels and four tunnels are looked behind; jumbograms (RFC 2675) are not
//! understood.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod arp;
pub mod checksum;
mod dissection;
pub mod ecn;
mod error;
pub mod ethernet;
mod field_access;
mod flow_hash;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod protocol;
pub mod tcp;
pub mod tunnel;
pub mod udp;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tunnel_model;
#[cfg(test)]
mod tunnel_tests;

pub use dissection::{Dissection, FlowKey, Fragment, Network, Transport, dissect};
pub use error::{EmitError, Layer, ParseError};
pub use flow_hash::{outer_vlan, plain_flow_hash, symmetric_flow_hash};
