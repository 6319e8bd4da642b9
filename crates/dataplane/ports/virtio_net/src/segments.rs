//! Cuts a frame that the kernel left whole for segmentation (TSO, GRO, UDP GSO) into pieces that fit a
//! buffer.
//!
//! 1. [`Cut::new`] reads the frame's headers and says whether it can be cut: TCP or UDP over IPv4 or IPv6, in
//!    the form that the virtio-net header claims.
//! 2. [`Cut::next`] gives one piece after the other: the headers as they are to be for it, and which bytes of
//!    the frame follow. A piece has as many segments as fit, so that their number stays small; one of several
//!    segments is left for the port that sends it to segment.
//! 3. The piece's checksum is left partial, as the kernel leaves it:
//!    [`complete_checksum`](crate::complete_checksum), or a port that takes virtio-net headers, completes it.
//!
//! What changes from piece to piece is what Linux changes (`net/ipv4/tcp_offload.c`, `udp_offload.c`,
//! `inet_gso_segment`): lengths, the IPv4 identification and checksum, TCP's sequence number (RFC 9293), FIN
//! and PSH on the last piece alone, CWR on the first alone (RFC 3168, section 6.1.2).
//!
//! A frame in a tunnel has outer headers in front ([`tunnel`](crate::tunnel)), of which each piece gets its
//! own.
//!
//! Limits: headers of up to 256 bytes, outer ones among them; neither IPv4 fragments, nor UFO, nor datagrams
//! of more than 64 KiB.

use crate::VnetHeader;
use crate::checksum::{folded, sum};
use crate::tunnel::Outer;
use nf_abi::offload;
use packet::protocol::{DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING, SCTP, TCP, UDP};
use std::ops::Range;

/// Most extension headers of IPv6.
const EXTENSIONS: usize = 8;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Most bytes of headers.
pub(crate) const HEADERS: usize = 256;

/// A frame that is being cut.
#[derive(Clone, Debug)]
pub struct Cut {
    headers: [u8; HEADERS],
    /// Bytes of all headers together.
    header_length: usize,
    /// The headers in front, outermost first.
    outer: Vec<Outer>,
    network: usize,
    transport: usize,
    is_v4: bool,
    protocol: u8,
    gso: VnetHeader,
    /// The pseudo-header's share of the checksum without the length; `None`: the sender computed no checksum.
    pseudo: Option<u64>,
    payload: usize,
    /// Payload of one piece.
    step: usize,
    at: usize,
    /// The headers of the piece that was given last.
    shown: [u8; HEADERS],
}

/// One piece of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its headers, from the Ethernet header on.
    pub headers: &'a [u8],
    /// The frame's bytes behind them.
    pub payload: Range<usize>,
    /// What is to be noted in its record.
    pub vnet: VnetHeader,
}

/// Where the headers lie of a frame that is to be cut.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The headers in front, outermost first.
    outer: Vec<Outer>,
    network: usize,
    transport: usize,
    is_v4: bool,
    protocol: u8,
    /// Bytes of all headers together.
    pub(crate) header_length: usize,
}

impl Layout {
    /// That of a frame of `length` bytes, of which the headers suffice; `None` when they have not the form
    /// that the virtio-net header claims.
    pub(crate) fn of(frame: &[u8], length: usize, vnet: &VnetHeader) -> Option<Layout> {
        let protocol = match vnet.gso_type & !offload::GSO_ECN {
            offload::GSO_TCPV4 | offload::GSO_TCPV6 => TCP,
            offload::GSO_UDP_L4 => UDP,
            _ => return None,
        };
        let partial = (vnet.flags & offload::NEEDS_CHECKSUM != 0).then(|| usize::from(vnet.csum_start));
        let (outer, network) = Outer::of(frame, partial)?;
        let ip = frame.get(network..)?;
        let (is_v4, length) = (ip.first()? >> 4 == 4, length.checked_sub(network)?);
        let transport = match is_v4 {
            true => network + v4_header(ip, length, protocol)?,
            false => network + v6_header(ip, length, protocol)?,
        };
        let claims_v4 = vnet.gso_type & !offload::GSO_ECN == offload::GSO_TCPV4;
        let agrees = protocol == UDP || claims_v4 == is_v4;
        if !agrees || partial.is_some_and(|start| start != transport) {
            return None;
        }
        let segment = frame.get(transport..)?;
        let (own, least) = match protocol {
            TCP => (usize::from(segment.get(12)? >> 4) * 4, 20),
            _ => (8, 8),
        };
        let header_length = transport + own;
        let fits = own >= least && header_length <= HEADERS;
        fits.then_some(Layout { outer, network, transport, is_v4, protocol, header_length })
    }
}

impl Cut {
    /// How a frame is cut into pieces of at most `room` bytes; `None` when it cannot be.
    pub fn new(frame: &[u8], vnet: &VnetHeader, room: usize) -> Option<Cut> {
        if vnet.has_too_many_segments(frame.len()) {
            return None;
        }
        let Layout { outer, network, transport, is_v4, protocol, header_length } =
            Layout::of(frame, frame.len(), vnet)?;
        let partial = vnet.flags & offload::NEEDS_CHECKSUM != 0;
        let ip = frame.get(network..)?;
        let size = usize::from(vnet.gso_size);
        if header_length >= frame.len() || size == 0 {
            return None;
        }
        let step = room.checked_sub(header_length)? / size * size;
        if step == 0 {
            return None;
        }
        let field = transport + checksum_at(protocol);
        let there = word(frame, field)?;
        let length = frame.len() - transport;
        let pseudo = match (partial, protocol, is_v4) {
            // Its share of the length goes out, one's complement.
            (true, ..) => Some(u64::from(there) + u64::from(!u16::try_from(length).ok()?)),
            (false, UDP, _) if there == 0 => None,
            (false, _, true) => Some(sum(ip.get(12..20)?) + u64::from(protocol)),
            (false, _, false) => Some(sum(ip.get(8..40)?) + u64::from(protocol)),
        };
        let mut headers = [0; HEADERS];
        headers[..header_length].copy_from_slice(frame.get(..header_length)?);
        let payload = frame.len() - header_length;
        let gso = *vnet;
        Some(Cut {
            headers,
            header_length,
            outer,
            network,
            transport,
            is_v4,
            protocol,
            gso,
            pseudo,
            payload,
            step,
            at: 0,
            shown: [0; HEADERS],
        })
    }

    /// The same with one segment in each piece.
    #[must_use]
    pub fn singly(mut self) -> Cut {
        self.step = usize::from(self.gso.gso_size);
        self
    }

    /// How many pieces there are to come.
    pub fn left(&self) -> usize {
        (self.payload - self.at).div_ceil(self.step)
    }

    /// The next piece, if there is one.
    #[allow(clippy::should_implement_trait, reason = "what it returns borrows it")]
    pub fn next(&mut self) -> Option<Piece<'_>> {
        if self.at >= self.payload {
            return None;
        }
        let (first, step) = (self.at == 0, self.step.min(self.payload - self.at));
        let last = self.at + step == self.payload;
        let size = usize::from(self.gso.gso_size);
        // Each from the one before: the first is the frame's own.
        if !first {
            self.advance();
        }
        let mut headers = self.headers;
        let (network, transport) = (self.network, self.transport);
        let total = self.header_length + step - network;
        if self.is_v4 {
            put(&mut headers, network + 2, total);
            put(&mut headers, network + 10, 0);
            let checksum = !folded(sum(&headers[network..network + v4_length(headers[network])]));
            put(&mut headers, network + 10, usize::from(checksum));
        } else {
            put(&mut headers, network + 4, total - 40);
        }
        let length = self.header_length + step - transport;
        if self.protocol == TCP {
            let flags = &mut headers[transport + 13];
            *flags &= !((if last { 0 } else { 0x09 }) | (if first { 0 } else { 0x80 }));
        } else {
            put(&mut headers, transport + 4, length);
        }
        if let Some(pseudo) = self.pseudo {
            put(
                &mut headers,
                transport + checksum_at(self.protocol),
                usize::from(folded(pseudo + length as u64)),
            );
        }
        let end = self.header_length + step;
        self.outer.iter().rev().for_each(|outer| outer.write(&mut headers, end, transport, self.protocol));
        let several = step > size;
        let kind = if first { self.gso.gso_type } else { self.gso.gso_type & !offload::GSO_ECN };
        let needs = self.pseudo.is_some();
        let vnet = VnetHeader {
            flags: if needs { offload::NEEDS_CHECKSUM } else { 0 },
            gso_type: if several { kind } else { offload::GSO_NONE },
            header_length: 0,
            gso_size: if several { self.gso.gso_size } else { 0 },
            csum_start: if needs { transport as u16 } else { 0 },
            csum_offset: if needs { checksum_at(self.protocol) as u16 } else { 0 },
        };
        let from = self.header_length + self.at;
        self.at += step;
        self.shown = headers;
        Some(Piece { headers: &self.shown[..self.header_length], payload: from..from + step, vnet })
    }

    /// Sequence number and identification of the next piece.
    fn advance(&mut self) {
        let size = usize::from(self.gso.gso_size);
        let own = self.is_v4.then_some(self.network);
        for network in self.outer.iter().filter_map(Outer::v4).chain(own) {
            let id = word(&self.headers, network + 4).unwrap_or(0);
            put(&mut self.headers, network + 4, usize::from(id.wrapping_add((self.step / size) as u16)));
        }
        if self.protocol == TCP {
            let at = self.transport + 4;
            let mut number = [0; 4];
            number.copy_from_slice(&self.headers[at..at + 4]);
            let number = u32::from_be_bytes(number).wrapping_add(self.step as u32);
            self.headers[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
    }
}

/// Where the checksum stands in a transport header.
pub(crate) fn checksum_at(protocol: u8) -> usize {
    if protocol == TCP { 16 } else { 6 }
}

pub(crate) fn v4_length(first: u8) -> usize {
    usize::from(first & 0x0f) * 4
}

/// Bytes of the IPv4 header of a whole datagram of this protocol.
fn v4_header(ip: &[u8], whole: usize, protocol: u8) -> Option<usize> {
    let length = v4_length(*ip.first()?);
    let is_whole = usize::from(word(ip, 2)?) == whole && word(ip, 6)? & 0x3fff == 0;
    (length >= 20 && length < whole && is_whole && *ip.get(9)? == protocol).then_some(length)
}

/// The same of IPv6, with its extension headers.
fn v6_header(ip: &[u8], whole: usize, protocol: u8) -> Option<usize> {
    let is_whole = *ip.first()? >> 4 == 6 && usize::from(word(ip, 4)?) + 40 == whole;
    let (behind, found) = v6_transport(ip)?;
    (is_whole && behind < whole && found == protocol).then_some(behind)
}

/// Where the transport header of an IPv6 packet begins that is no fragment, and its protocol.
fn v6_transport(ip: &[u8]) -> Option<(usize, u8)> {
    let (mut protocol, mut at) = (*ip.get(6)?, 40);
    for _ in 0..=EXTENSIONS {
        if !matches!(protocol, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
            return Some((at, protocol));
        }
        (protocol, at) = (*ip.get(at)?, at + 8 + 8 * usize::from(*ip.get(at + 1)?));
    }
    None
}

/// Whether a checksum that covers everything from `start` on, and stands so far behind that, is one of TCP,
/// UDP or SCTP: of the frame's packet, or of that in its tunnel.
pub(crate) fn is_of_transport(frame: &[u8], start: usize, offset: usize) -> bool {
    let found = || {
        let (_, network) = Outer::of(frame, Some(start))?;
        let ip = frame.get(network..)?;
        let (behind, protocol) = match *ip.first()? >> 4 {
            4 if word(ip, 6)? & 0x3fff == 0 && v4_length(ip[0]) >= 20 => (v4_length(ip[0]), *ip.get(9)?),
            6 => v6_transport(ip)?,
            _ => return None,
        };
        Some((network + behind, protocol))
    };
    found().is_some_and(|(transport, protocol)| {
        let field = match protocol {
            TCP | UDP => Some(checksum_at(protocol)),
            // A CRC: kernels leave it to each other like a checksum, which it would be wrong to write.
            SCTP => Some(8),
            _ => None,
        };
        transport == start && field == Some(offset)
    })
}

/// Whether checksumming starts behind all that is known of a frame's headers: in a tunnel of a kind that is
/// not known here.
pub(crate) fn is_beyond(frame: &[u8], start: usize) -> bool {
    let Some((_, network)) = Outer::of(frame, Some(start)) else { return start >= ETHERNET };
    let behind = || {
        let ip = frame.get(network..)?;
        let (behind, protocol) = match *ip.first()? >> 4 {
            4 => (v4_length(ip[0]), *ip.get(9)?),
            _ => v6_transport(ip)?,
        };
        (protocol != TCP).then_some(network + behind + if protocol == UDP { 8 } else { 0 })
    };
    behind().is_some_and(|behind| start >= behind)
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Stores the low 16 bits of a value.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: usize) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&(value as u16).to_be_bytes());
    }
}
