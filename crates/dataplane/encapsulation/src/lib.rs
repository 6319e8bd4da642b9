//! Taking the headers of tunnels off a packet, and putting them on.
//!
//! 1. [`take_off`] reads a packet's first bytes, checks that the layers are there that a port has, outermost
//!    first, and says which bytes go ([`Front`]). [`TakenOff::kept`] is what was there: 128 bytes at most,
//!    for host memory.
//! 2. [`put_back`] makes the headers again from what was kept, with new lengths and checksums, for a packet
//!    that has changed meanwhile.
//! 3. [`Encapsulation`] is made once for each port from [`LayerSettings`]; [`Encapsulation::put_on`] makes
//!    the headers for a packet.
//! 4. [`take_plain_off`] and [`Plain`] do the same, several times as fast, for VXLAN over IPv4 and
//!    nothing else; where they say that there is more to it, the others are asked.
//!
//! All of them are functions of copied bytes: they neither read nor write a packet's buffer, which a guest
//! may be writing. Their caller takes [`Front::removes`] bytes from the packet's beginning and puts
//! [`Front::bytes`] there.
//!
//! | layer | is | carries |
//! |---|---|---|
//! | `vlan` | one tag, IEEE 802.1Q or 802.1ad | the frame's own EtherType |
//! | `mpls` | one label, RFC 3032 | IP behind the bottom label, or a frame behind a control word (RFC 4448) |
//! | `gre` | RFC 2784, RFC 2890 | by its type: a frame, IP, MPLS |
//! | `nvgre` | RFC 7637 | a frame |
//! | `vxlan` | RFC 7348 | a frame |
//! | `geneve` | RFC 8926 | by its type: a frame, IP |
//! | `ipip` | RFC 2003, RFC 2473, RFC 4213 | IP |
//!
//! What is carried without Ethernet keeps the addresses of the frame around it, as functions see frames
//! alone.
//!
//! **Congestion** (RFC 6040): outer headers get the packet's ECN field (normal mode). What the outer headers
//! say is brought into the packet when they are taken off; a packet that was marked on its way and cannot say
//! so is refused.
//!
//! **Checksums.** The checksum of an outer IPv4 header is verified and computed. UDP has one if the settings
//! say so ([`Outer::checksum`]): RFC 7348 wants zero over IPv4, and over IPv6 zero is allowed where both ends
//! agree on it (RFC 6935, RFC 6936). What had none when it was taken off has none when it is put back, and
//! what had one gets one. As it is over all of the packet, the caller sums that ([`Front::complete`]), and
//! verifies with [`datagram`] what came in ([`TakenOff::sums`]).
//!
//! Limits: at most [`MAX_LAYERS`] layers and [`MAX_BYTES`] bytes of headers. Fragments, IPv4 options, IPv6
//! extension headers, GRE's checksum and routing, and Geneve's critical options are refused ([`Mismatch`]),
//! as are lengths that contradict each other. Whether a tunnel's addresses are this host's is the caller's
//! business.
//!
//! Taking VXLAN off and putting it on: `cargo test --release -p encapsulation -- --ignored --nocapture cost`.

#![forbid(unsafe_code)]

mod emit;
mod fields;
mod front;
mod kind;
mod mismatch;
mod plain;
mod settings;
mod take;
#[cfg(test)]
mod tests;
mod udp;

pub use emit::{Fresh, Headers, put_back};
pub use front::Front;
pub use kind::LayerKind;
pub use mismatch::{Mismatch, Reason};
pub use plain::{PLAIN, PLAIN_FRAME, Plain, take_plain_off};
pub use settings::{Encapsulation, LayerSettings, Outer, SettingsError};
pub use take::{TakenOff, take_off};
pub use udp::datagram;

/// Layers of one packet that are taken off or put on.
pub const MAX_LAYERS: usize = 4;
/// Bytes of their headers together.
pub const MAX_BYTES: usize = 128;
