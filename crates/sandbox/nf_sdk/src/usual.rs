//! The usual packet, which fast paths read with a few fixed loads: Ethernet without tags, IPv4 without
//! options, whole, TCP or UDP. [`dissect`](crate::headers::dissect) reads every other one.
//!
//! 1. [`start`] tells whether a packet is of that form, [`read`] also whether its total length can be right.
//! 2. [`rewrite`] gives one of its ends another address and port, by differences of checksums (RFC 1624).
//!
//! All of it is inlined: a function that is small enough to be short of a call has it in its own loop.

use crate::wire::{Address, Port, TCP, UDP, correct, half, put_half, put_word, updated, word};
use crate::{Packet, Verdict, offload};
use wide::bytemuck::cast;
use wide::u8x16;

/// Bytes that every usual packet has at least in its buffer: Ethernet, IPv4 without options, TCP without
/// options. UDP has them too where frames are padded to 60 bytes (IEEE 802.3).
pub const LENGTH: usize = 54;
/// What the bytes from the EtherType on have in common: EtherType, version and header length, no fragment.
const BITS: u8x16 = u8x16::new([0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
/// Which of their bits that concerns.
const MASK: u8x16 = u8x16::new([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0x3f, 0xff, 0, 0, 0, 0, 0, 0]);
/// Where in them the total length and the protocol are, each as a little-endian word; 255 stands for a zero.
/// The sandbox has no instruction that turns bytes round, but one that takes them in any order.
const LENGTH_AND_PROTOCOL: u8x16 =
    u8x16::new([5, 4, 255, 255, 11, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]);

/// Where the parts of a usual packet are, in bytes from its first one.
pub mod at {
    /// The Internet header's checksum.
    pub const HEADER_CHECKSUM: usize = 24;
    /// The source address.
    pub const SOURCE: usize = 26;
    /// The destination address.
    pub const DESTINATION: usize = 30;
    /// The source port, and behind it the destination port.
    pub const PORTS: usize = 34;
    /// TCP's flags.
    pub const FLAGS: usize = 47;
}

/// The beginning of a packet that is Ethernet without tags and IPv4 without options, and no fragment; its
/// total length and its protocol. Neither of these is looked at.
#[inline(always)]
pub fn start(packet: &[u8]) -> Option<(&[u8; LENGTH], u32, u32)> {
    let bytes: &[u8; LENGTH] = packet.first_chunk()?;
    let start = u8x16::new(*bytes[12..].first_chunk()?);
    if !(start & MASK).simd_eq(BITS).all() {
        return None;
    }
    let [total, protocol, ..]: [u32; 4] = cast(start.shuffle_zeroing(LENGTH_AND_PROTOCOL));
    Some((bytes, total, protocol))
}

/// A usual packet: its beginning, and whether it is TCP, else it is UDP. Its total length has room for the
/// transport header, and the packet for the total length.
#[inline(always)]
pub fn read(packet: &[u8]) -> Option<(&[u8; LENGTH], bool)> {
    let (bytes, total, protocol) = start(packet)?;
    let is_tcp = protocol == u32::from(TCP);
    if !is_tcp && protocol != u32::from(UDP) {
        return None;
    }
    let least = if is_tcp { 40 } else { 28 };
    (total >= least && total as usize <= packet.len() - 14).then_some((bytes, is_tcp))
}

/// Source, destination, and both ports, as a usual packet has them.
#[inline(always)]
pub fn ends(bytes: &[u8; LENGTH]) -> Option<(Address, Address, u32)> {
    Some((word(bytes, at::SOURCE)?, word(bytes, at::DESTINATION)?, word(bytes, at::PORTS)?))
}

/// Verdict of a packet that goes on, by the interface (0 or 1) that it came in by: to the other one.
#[inline(always)]
pub fn onward(ingress: u32) -> u32 {
    const OUTWARD: u32 = Verdict::Interface(1).encode();
    const CHANGE: u32 = OUTWARD ^ Verdict::Interface(0).encode();
    OUTWARD ^ (ingress * CHANGE)
}

/// Whether the transport checksum is that of the pseudo header alone. With the usual packet no other header
/// can be meant.
#[inline(always)]
pub fn is_partial(packet: &Packet<'_>) -> bool {
    let record = packet.record();
    record.offload_flags & offload::NEEDS_CHECKSUM != 0 && usize::from(record.csum_start) == at::PORTS
}

/// Which end of a usual packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// What an end becomes, and what checksums' sums gain by it ([`wire::gain`](crate::wire::gain)): that of the
/// Internet header, and that of TCP or UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replacement {
    /// The address.
    pub address: Address,
    /// The port; `None`: as it was.
    pub port: Option<Port>,
    /// Gain of the Internet header's sum.
    pub network: u16,
    /// Gain of the transport header's sum, whose pseudo header has the address.
    pub transport: u16,
}

/// Gives one end of a usual packet another address and port, and corrects its checksums. `partial`: see
/// [`is_partial`].
#[inline(always)]
pub fn rewrite(bytes: &mut [u8; LENGTH], end: End, new: Replacement, is_tcp: bool, partial: bool) {
    let (address_at, port_at) = match end {
        End::Source => (at::SOURCE, at::PORTS),
        End::Destination => (at::DESTINATION, at::PORTS + 2),
    };
    put_word(bytes, address_at, new.address);
    if let Some(port) = new.port {
        put_half(bytes, port_at, port);
    }
    let header = half(bytes, at::HEADER_CHECKSUM).unwrap_or(0);
    put_half(bytes, at::HEADER_CHECKSUM, updated(header, new.network));
    if is_tcp && !partial {
        let checksum = half(bytes, at::PORTS + 16).unwrap_or(0);
        put_half(bytes, at::PORTS + 16, updated(checksum, new.transport));
    } else {
        let (place, protocol) = if is_tcp { (16, TCP) } else { (6, UDP) };
        // The addresses' part and the ports' part are one here, but for a partial checksum.
        let (addresses, ports) = if partial { (new.network, 0) } else { (0, new.transport) };
        correct(bytes, at::PORTS + place, protocol, addresses, ports, partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::{dissect, protocol};
    use crate::native::frames::{flags, packet, tagged, tcp, udp};
    use crate::wire::{gain, gain_half, wire_v4};
    use alloc::vec::Vec;
    use core::net::IpAddr;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn what_is_usual() {
        let is_tcp = |frame: &[u8]| read(frame).map(|(_, is_tcp)| is_tcp);
        let mut frame = tcp([("10.0.0.1", 1), ("10.0.0.2", 2)], flags::ACK, 1, 1, 4);
        assert_eq!(is_tcp(&frame), Some(true));
        assert_eq!(is_tcp(&tagged(&frame, &[7])), None);
        // Longer than it is; a fragment; options.
        assert_eq!(is_tcp(&frame[..frame.len() - 1]), None);
        frame[20] = 0x20;
        assert_eq!(is_tcp(&frame), None);
        frame[20] = 0x40;
        assert_eq!(is_tcp(&frame), Some(true), "not to be fragmented");
        frame[14] = 0x46;
        assert_eq!(is_tcp(&frame), None);
        let mut frame = udp("10.0.0.1", 1, "10.0.0.2", 2);
        assert_eq!(is_tcp(&frame), Some(false));
        frame[17] = 27;
        assert_eq!(is_tcp(&frame), None, "no room for its header");
        assert_eq!(is_tcp(&udp("2001:db8::1", 1, "2001:db8::2", 2)), None);
        assert_eq!(is_tcp(&packet("10.0.0.1", "10.0.0.2", protocol::ICMPV4, &[8; 40])), None);
        assert_eq!((onward(0), onward(1)), (Verdict::Interface(1).encode(), Verdict::Interface(0).encode()));
    }

    fn ends_of(frame: &[u8]) -> [(IpAddr, u16); 2] {
        let found = dissect(frame).expect("sound").network.expect("IP");
        let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        [(found.source, port(at::PORTS)), (found.destination, port(at::PORTS + 2))]
    }

    proptest! {
        /// A rewritten packet is the one that was made with the other end, checksums included.
        #[test]
        fn ends_are_rewritten(is_tcp: bool, is_source: bool, old: (u32, u16), new: (u32, u16), keeps_port: bool) {
            let make = |(address, port): (u32, u16)| -> Vec<u8> {
                let (own, other) = (core::net::Ipv4Addr::from_bits(address).to_string(), "192.0.2.1");
                let (from, to) = if is_source { ((&*own, port), (other, 53)) } else { ((other, 53), (&*own, port)) };
                if is_tcp { tcp([from, to], flags::ACK, 5, 6, 7) } else { udp(from.0, from.1, to.0, to.1) }
            };
            let new = (new.0, if keeps_port { old.1 } else { new.1 });
            let mut frame = make(old);
            let network = gain(wire_v4(old.0), wire_v4(new.0));
            let ports = gain_half(old.1.swap_bytes(), new.1.swap_bytes());
            let replacement = Replacement {
                address: wire_v4(new.0),
                port: (!keeps_port).then_some(new.1.swap_bytes()),
                network,
                transport: crate::wire::folded(u32::from(network) + u32::from(ports)),
            };
            let end = if is_source { End::Source } else { End::Destination };
            rewrite(frame.first_chunk_mut().expect("long"), end, replacement, is_tcp, false);
            prop_assert_eq!(ends_of(&frame), ends_of(&make(new)));
            let mut sealed = frame.clone();
            crate::native::frames::seal(&mut sealed);
            prop_assert_eq!(frame, sealed);
        }
    }
}
