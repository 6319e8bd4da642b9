//! Frames to show to a function.

use crate::headers::checksum::{self, Endpoints};
use crate::headers::{Fragment, dissect, ipv4, protocol};
use std::net::IpAddr;
use std::vec;
use std::vec::Vec;

/// An IP packet of this protocol behind an Ethernet header, with right checksums.
///
/// # Panics
/// When an address is none, or they are not of one family.
pub fn packet(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let ip = |text: &str| match text.parse::<IpAddr>() {
        Ok(address) => address,
        Err(error) => panic!("`{text}`: {error}"),
    };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (ip(source), ip(destination)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend(((20 + payload.len()) as u16).to_be_bytes());
            frame.extend([0, 7, 0, 0, 64, protocol, 0, 0]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((payload.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        (source, destination) => panic!("{source} and {destination}: addresses of one family are wanted"),
    }
    frame.extend(payload);
    seal(&mut frame);
    frame
}

/// A UDP packet with twelve bytes of data.
///
/// # Panics
/// As [`packet`].
pub fn udp(source: &str, source_port: u16, destination: &str, destination_port: u16) -> Vec<u8> {
    let mut payload = vec![];
    payload.extend(source_port.to_be_bytes());
    payload.extend(destination_port.to_be_bytes());
    payload.extend([0, 20, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    packet(source, destination, protocol::UDP, &payload)
}

/// TCP flags (RFC 9293 section 3.1).
#[allow(missing_docs)]
pub mod flags {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const ACK: u8 = 16;
}

/// A TCP segment from the first end to the second, of these flags, sequence and acknowledgement number, with
/// `data` bytes.
///
/// # Panics
/// As [`packet`].
pub fn tcp(ends: [(&str, u16); 2], flags: u8, seq: u32, ack: u32, data: usize) -> Vec<u8> {
    let mut payload = vec![];
    payload.extend(ends[0].1.to_be_bytes());
    payload.extend(ends[1].1.to_be_bytes());
    payload.extend(seq.to_be_bytes());
    payload.extend(ack.to_be_bytes());
    payload.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    payload.extend(std::iter::repeat_n(7, data));
    packet(ends[0].0, ends[1].0, protocol::TCP, &payload)
}

/// An ICMP or ICMPv6 message: type, code, the four bytes behind the checksum, and what follows.
///
/// # Panics
/// As [`packet`].
pub fn icmp(source: &str, destination: &str, kind: [u8; 2], rest: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut payload = vec![kind[0], kind[1], 0, 0];
    payload.extend(rest);
    payload.extend(body);
    let family = if source.contains(':') { protocol::ICMPV6 } else { protocol::ICMPV4 };
    packet(source, destination, family, &payload)
}

/// Puts right checksums into a frame that was changed: of IPv4, TCP, UDP, ICMP and ICMPv6, as far as it is
/// one of these.
pub fn seal(frame: &mut [u8]) {
    let Ok(Some((l3, network))) =
        dissect(frame).map(|found| found.network.map(|network| (found.l3_offset, network)))
    else {
        return;
    };
    if network.source.is_ipv4()
        && let Some(header) = frame.get_mut(l3..network.l4_offset)
    {
        header[ipv4::field::CHECKSUM].fill(0);
        let sum = checksum::of(header);
        header[ipv4::field::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    }
    let at = match network.protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        protocol::ICMPV4 | protocol::ICMPV6 => 2,
        _ => return,
    };
    let (Some(ends), Some(segment)) =
        (Endpoints::new(network.source, network.destination), frame.get_mut(network.l4_offset..network.end))
    else {
        return;
    };
    if network.fragment != Fragment::Whole || segment.len() < at + 2 {
        return;
    }
    segment[at..at + 2].fill(0);
    let sum = match network.protocol {
        protocol::ICMPV4 => checksum::of(segment),
        protocol::UDP => checksum::udp_wire(ends.sum(protocol::UDP, segment).checksum()),
        other => ends.sum(other, segment).checksum(),
    };
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// A frame that is nearly right: bytes of it replaced where it has such a place, then cut.
pub fn damaged(mut frame: Vec<u8>, changes: &[(usize, u8)], cut: Option<usize>) -> Vec<u8> {
    for (place, byte) in changes {
        if let Some(place) = frame.get_mut(*place) {
            *place = *byte;
        }
    }
    frame.truncate(cut.unwrap_or(frame.len()));
    frame
}

/// Puts VLAN tags behind the addresses of a frame, the outermost first, all of the customers' type (0x8100).
///
/// # Panics
/// When the frame is shorter than its addresses.
pub fn tagged(frame: &[u8], vlans: &[u16]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12);
    let mut out = addresses.to_vec();
    for vlan in vlans {
        out.extend([0x81, 0x00]);
        out.extend(vlan.to_be_bytes());
    }
    out.extend(rest);
    out
}
