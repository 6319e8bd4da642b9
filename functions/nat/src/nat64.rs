//! NAT64: hosts of IPv6 reach remote ends of IPv4 (RFC 6146). A remote IPv4 address stands in an IPv6 prefix
//! (RFC 6052); headers are translated as RFC 7915 has it.
//!
//! A session's inside end is of IPv6, its outside and remote ends are of IPv4: sessions, mappings, ports and
//! limits are those of the other packets. What has no counterpart in the other version is dropped
//! ([`Reason::Untranslatable`]).

use crate::binding::Target;
use crate::metrics::Reason;
use crate::session::{InsideEnds, OutsideEnds};
use crate::translator::Translator;
use crate::view::{Part, View, query, vlans};
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::Packet;
use nf_sdk::headers::checksum::{self, Sum};
use nf_sdk::headers::{Dissection, Fragment, Network};
use nf_sdk::later_fragments::Datagram;
use nf_sdk::wire::{
    Address, ICMP, ICMPV6, Port, TCP, UDP, folded, gain, gain_half, half, host_v4, put_half,
    transport_checksum, word,
};

/// Bytes of an IPv4 header without options, of an IPv6 header, and of a fragment header.
const V4: usize = 20;
const V6: usize = 40;
const FRAGMENT: usize = 8;
/// What an IPv6 header says that a fragment header follows.
const IN_FRAGMENTS: u8 = 44;
/// Bytes of an ICMP header.
const MESSAGE: usize = 8;
/// Longest IPv4 packet that may still be fragmented on its way (RFC 7915 section 5.1).
const MAY_FRAGMENT: usize = 1260;
/// Most bytes of an ICMPv6 error (RFC 4443 section 2.4), of an ICMP error (RFC 1812 section 4.3.2.3).
const LONGEST_V6: usize = 1280;
const LONGEST_V4: usize = 576;

/// Networks in which no remote host is: the first 32 bits in host order, and the length.
const NO_HOSTS: [(u32, u8); 5] =
    [(0x0000_0000, 8), (0x7f00_0000, 8), (0xa9fe_0000, 16), (0xe000_0000, 4), (0xffff_ffff, 32)];
/// The prefix of the whole internet, and networks that mean something else in each place, which it does not
/// stand for (RFC 6052 section 3.1, RFC 6890). Those of documentation are not among these: they lead nowhere.
const WELL_KNOWN: [u8; 16] = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const NOT_GLOBAL: [(u32, u8); 7] = [
    (0xf000_0000, 4),
    (0x0a00_0000, 8),
    (0x6440_0000, 10),
    (0xac10_0000, 12),
    (0xc000_0000, 24),
    (0xc0a8_0000, 16),
    (0xc612_0000, 15),
];

/// A prefix that stands for the IPv4 internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    bytes: [u8; 16],
    /// Bytes of the prefix: 4 to 8, or 12.
    length: usize,
}

impl Prefix {
    /// A prefix of 32, 40, 48, 56, 64 or 96 bits (RFC 6052 section 2.2).
    pub fn new(address: IpAddr, bits: u8) -> Option<Prefix> {
        let IpAddr::V6(address) = address else { return None };
        matches!(bits, 32 | 40 | 48 | 56 | 64 | 96).then(|| {
            let mut bytes = [0; 16];
            let length = usize::from(bits / 8);
            bytes[..length].copy_from_slice(&address.octets()[..length]);
            Prefix { bytes, length }
        })
    }

    /// Where the four bytes of an IPv4 address are; the ninth byte is none of them.
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        (self.length..16).filter(|place| *place != 8).take(4)
    }

    /// The IPv6 address that stands for an IPv4 address, in words.
    pub fn embed(&self, address: Address) -> [u32; 4] {
        let mut bytes = self.bytes;
        for (place, byte) in self.places().zip(address.to_le_bytes()) {
            bytes[place] = byte;
        }
        words(&bytes)
    }

    /// The IPv4 address that an IPv6 address stands for.
    pub fn extract(&self, address: [u32; 4]) -> Option<Address> {
        let mut bytes = [0; 16];
        for (four, word) in bytes.chunks_exact_mut(4).zip(address) {
            four.copy_from_slice(&word.to_le_bytes());
        }
        if bytes[..self.length] != self.bytes[..self.length] {
            return None;
        }
        let mut found = [0; 4];
        for (place, byte) in self.places().zip(&mut found) {
            *byte = bytes[place];
        }
        Some(Address::from_le_bytes(found))
    }

    /// Whether it stands for a remote host of this address.
    pub fn stands_for(&self, address: Address) -> bool {
        let address = host_v4(address);
        let is_in = |(network, length): &(u32, u8)| (address ^ network) >> (32 - length) == 0;
        let is_well_known = self.length == 12 && self.bytes == WELL_KNOWN;
        !(NO_HOSTS.iter().any(is_in) || (is_well_known && NOT_GLOBAL.iter().any(is_in)))
    }
}

/// The words of an IPv6 address.
pub fn words(bytes: &[u8]) -> [u32; 4] {
    core::array::from_fn(|number| word(bytes, number * 4).unwrap_or(0))
}

/// An IPv6 packet from inside.
#[derive(Clone, Copy, Debug)]
pub struct View6 {
    /// Where the IPv6 header begins.
    pub l3: usize,
    /// Where the transport header begins, or the bytes of a later fragment.
    pub l4: usize,
    /// Where the packet ends.
    pub end: usize,
    /// Source, in words.
    pub source: [u32; 4],
    /// Destination, in words.
    pub destination: [u32; 4],
    /// Protocol and VLANs; ICMPv6 is ICMP here, as in sessions.
    pub kind: u32,
    /// As in [`View::ports`].
    pub ports: u32,
    /// TCP flags.
    pub flags: u8,
    /// What of it is translated.
    pub part: Part,
    /// Which fragment it is.
    pub fragment: Fragment,
}

impl View6 {
    /// Reads an IPv6 packet. Extension headers other than that of fragments are left out of what is
    /// translated (RFC 7915 section 5.1).
    ///
    /// # Errors
    /// Why it is dropped.
    pub fn new(frame: &[u8], dissection: &Dissection, network: &Network) -> Result<View6, Reason> {
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (network.source, network.destination) else {
            return Err(Reason::Malformed);
        };
        if network.end > frame.len() {
            return Err(Reason::Malformed);
        }
        let protocol = match network.protocol {
            ICMPV6 => ICMP,
            TCP => TCP,
            UDP => UDP,
            _ => return Err(Reason::Protocol),
        };
        let mut view = View6 {
            l3: dissection.l3_offset,
            l4: network.l4_offset,
            end: network.end,
            source: words(&source.octets()),
            destination: words(&destination.octets()),
            kind: u32::from(protocol) | vlans(dissection),
            ports: 0,
            flags: 0,
            part: Part::Later,
            fragment: network.fragment,
        };
        if matches!(network.fragment, Fragment::Later { .. }) {
            return Ok(view);
        }
        let least = if protocol == TCP { 20 } else { 8 };
        let header = frame.get(view.l4..view.end).filter(|rest| rest.len() >= least);
        let header = header.ok_or(Reason::Malformed)?;
        view.part = Part::Ports;
        view.ports = word(header, 0).unwrap_or(0);
        if protocol == TCP {
            view.flags = header.get(13).copied().unwrap_or(0);
        } else if protocol == ICMP {
            view.part = match header.first() {
                Some(128) => Part::Request,
                Some(129) => Part::Reply,
                Some(1..=4) => Part::Error,
                _ => return Err(Reason::Untranslatable),
            };
            let identifier = u32::from(half(header, 4).unwrap_or(0));
            view.ports = identifier | identifier << 16;
        }
        Ok(view)
    }

    fn protocol(&self) -> u8 {
        self.kind as u8
    }

    /// What all fragments of its datagram have in common, if it is one.
    pub fn datagram(&self) -> Option<Datagram> {
        let (Fragment::First { identification } | Fragment::Later { identification, .. }) = self.fragment
        else {
            return None;
        };
        let mut addresses = [0; 8];
        addresses[..4].copy_from_slice(&self.source);
        addresses[4..].copy_from_slice(&self.destination);
        // A later fragment may not know the protocol.
        Some(Datagram { addresses, identification, kind: self.kind & !0xff | u32::from(ICMPV6), ingress: 0 })
    }
}

/// The identification of an IPv4 packet that may be fragmented.
pub fn fragmentable(frame: &[u8], l3: usize) -> Option<u32> {
    let may_not = half(frame, l3 + 6)?.swap_bytes() & 0x4000 != 0;
    half(frame, l3 + 4).filter(|_| !may_not).map(|number| u32::from(number.swap_bytes()))
}

/// The frames that one becomes whose IPv6 packet is longer than `mtu` bytes and was an IPv4 packet that may
/// be fragmented: no router after this one can do that (RFC 7915 section 4). None where it is not longer.
/// They have this identification, or that of the fragment which the packet is.
pub fn cut(frame: &[u8], l3: usize, mtu: usize, identification: u32) -> Vec<Vec<u8>> {
    parts(frame, l3, mtu, identification).unwrap_or_default()
}

fn parts(frame: &[u8], l3: usize, mtu: usize, identification: u32) -> Option<Vec<Vec<u8>>> {
    let (link, packet) = frame.split_at_checked(l3)?;
    let (header, rest) = packet.split_at_checked(V6).filter(|_| packet.len() > mtu)?;
    let (protocol, field, identification, data) = match *header.get(6)? {
        IN_FRAGMENTS => {
            let field = half(rest, 2)?.swap_bytes();
            (*rest.first()?, field, word(rest, 4)?.swap_bytes(), rest.get(FRAGMENT..)?)
        }
        protocol => (protocol, 0, identification, rest),
    };
    let (begin, room) = (usize::from(field & !7), (mtu - V6 - FRAGMENT) & !7);
    let mut parts = Vec::new();
    for (number, part) in data.chunks(room).enumerate() {
        let done = number * room;
        let more = u16::from(done + part.len() < data.len()) | field & 1;
        let mut out = Vec::with_capacity(l3 + V6 + FRAGMENT + part.len());
        out.extend_from_slice(link);
        out.extend_from_slice(header.get(..4)?);
        out.extend_from_slice(&((FRAGMENT + part.len()) as u16).to_be_bytes());
        out.extend_from_slice(&[IN_FRAGMENTS, *header.get(7)?]);
        out.extend_from_slice(header.get(8..)?);
        out.extend_from_slice(&[protocol, 0]);
        out.extend_from_slice(&(u16::try_from(begin + done).ok()? | more).to_be_bytes());
        out.extend_from_slice(&identification.to_be_bytes());
        out.extend_from_slice(part);
        parts.push(out);
    }
    Some(parts)
}

/// Traffic class or type of service, and hop limit or time to live.
struct Hop {
    class: u8,
    limit: u8,
}

impl Hop {
    fn of_v6(header: &[u8]) -> Option<Hop> {
        let class = u16::from_be_bytes([*header.first()?, *header.get(1)?]) >> 4;
        Some(Hop { class: class as u8, limit: *header.get(7)? })
    }

    fn of_v4(header: &[u8]) -> Option<Hop> {
        Some(Hop { class: *header.get(1)?, limit: *header.get(8)? })
    }

    /// One hop further (RFC 7915 sections 4.1 and 5.1).
    fn on(self) -> Result<Hop, Reason> {
        let limit = self.limit.checked_sub(1).filter(|limit| *limit > 0).ok_or(Reason::Untranslatable)?;
        Ok(Hop { limit, ..self })
    }
}

/// Appends an IPv4 header for `length` bytes behind it. A whole packet that may be fragmented on its way has
/// the identification `number`.
fn put_v4(
    out: &mut Vec<u8>,
    ends: [Address; 2],
    (protocol, number): (u8, u16),
    hop: &Hop,
    fragment: Fragment,
    length: usize,
) {
    let total = V4 + length;
    let (identification, field) = match fragment {
        Fragment::Whole if total > MAY_FRAGMENT => (0, 0x4000),
        Fragment::Whole => (number, 0),
        Fragment::First { identification } => (identification as u16, 0x2000),
        Fragment::Later { identification, offset, more } => {
            (identification as u16, (offset / 8) | (u16::from(more) << 13))
        }
    };
    let begin = out.len();
    out.extend_from_slice(&[0x45, hop.class]);
    out.extend_from_slice(&(total as u16).to_be_bytes());
    out.extend_from_slice(&identification.to_be_bytes());
    out.extend_from_slice(&field.to_be_bytes());
    out.extend_from_slice(&[hop.limit, protocol, 0, 0]);
    out.extend(ends.iter().flat_map(|end| end.to_le_bytes()));
    let sum = checksum::of(out.get(begin..).unwrap_or_default());
    put_half(out, begin + 10, sum.swap_bytes());
}

/// Appends an IPv6 header for `length` bytes behind it and the fragment header, if there is one.
fn put_v6(
    out: &mut Vec<u8>,
    ends: [[u32; 4]; 2],
    protocol: u8,
    hop: &Hop,
    fragment: Fragment,
    length: usize,
) {
    let field = match fragment {
        Fragment::Whole => None,
        Fragment::First { identification } => Some((identification, 1)),
        Fragment::Later { identification, offset, more } => {
            Some((identification, offset & !7 | u16::from(more)))
        }
    };
    let length = length + if field.is_some() { FRAGMENT } else { 0 };
    out.extend_from_slice(&[0x60 | hop.class >> 4, hop.class << 4, 0, 0]);
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(&[if field.is_some() { IN_FRAGMENTS } else { protocol }, hop.limit]);
    out.extend(ends.iter().flatten().flat_map(|word| word.to_le_bytes()));
    if let Some((identification, field)) = field {
        out.extend_from_slice(&[protocol, 0]);
        out.extend_from_slice(&field.to_be_bytes());
        out.extend_from_slice(&identification.to_be_bytes());
    }
}

/// What the sum of a pseudo header gains when its addresses change.
fn addresses_gain(old: &[u32], new: &[u32]) -> u16 {
    let removed = old.iter().fold(0u32, |sum, word| u32::from(folded(sum + u32::from(gain(*word, 0)))));
    let added = new.iter().fold(0u32, |sum, word| u32::from(folded(sum + (word & 0xffff) + (word >> 16))));
    folded(removed + added)
}

/// Changes a port and the transport checksum of a message that begins with its transport header.
fn set_port(message: &mut [u8], protocol: u8, at_source: bool, port: Port, addresses: u16, partial: bool) {
    let place = match protocol {
        ICMP => 4,
        _ if at_source => 0,
        _ => 2,
    };
    let ports = gain_half(half(message, place).unwrap_or(0), port);
    put_half(message, place, port);
    if let Some(at) = transport_checksum(protocol).filter(|_| protocol != ICMP) {
        nf_sdk::wire::correct(message, at, protocol, addresses, ports, partial);
    }
}

/// The checksum of an ICMP message, of ICMPv6 with these ends.
fn seal(message: &mut [u8], ends: Option<[[u32; 4]; 2]>) {
    put_half(message, 2, 0);
    let mut sum = Sum::ZERO.add_bytes(message);
    if let Some(ends) = ends {
        for word in ends.iter().flatten() {
            sum = sum.add_bytes(&word.to_le_bytes());
        }
        sum = sum.add_u32(message.len() as u32).add_u16(u16::from(ICMPV6));
    }
    put_half(message, 2, sum.checksum().swap_bytes());
}

/// The message of a query in the other version.
fn query_to(message: &mut [u8], kind: u8, ends: Option<[[u32; 4]; 2]>) {
    if let Some(first) = message.first_mut() {
        *first = kind;
    }
    seal(message, ends);
}

/// Gives a frame another network header: all bytes up to its tags stay, `header` follows with the EtherType
/// before it, then the bytes from `l4` to `end`.
///
/// # Errors
/// [`Reason::Untranslatable`]: there is no room in front of the packet.
pub fn replace(
    packet: &mut Packet<'_>,
    l3: usize,
    l4: usize,
    end: usize,
    header: &[u8],
) -> Result<(), Reason> {
    let frame = packet.bytes();
    let mut front = Vec::with_capacity(l3 + header.len());
    front.extend_from_slice(frame.get(..l3 - 2).ok_or(Reason::Malformed)?);
    front.extend_from_slice(ethertype(header));
    front.extend_from_slice(header);
    if !packet.trim(end) || !packet.adjust_head(l4 as i32 - front.len() as i32) {
        return Err(Reason::Untranslatable);
    }
    let place = packet.bytes_mut().get_mut(..front.len()).ok_or(Reason::Untranslatable)?;
    place.copy_from_slice(&front);
    Ok(())
}

/// The same of a frame that is only bytes.
pub fn replaced(frame: &[u8], l3: usize, l4: usize, end: usize, header: &[u8]) -> Option<Vec<u8>> {
    let mut out = frame.get(..l3.checked_sub(2)?)?.to_vec();
    out.extend_from_slice(ethertype(header));
    out.extend_from_slice(header);
    out.extend_from_slice(frame.get(l4..end)?);
    Some(out)
}

fn ethertype(header: &[u8]) -> &'static [u8] {
    if header.first().is_some_and(|first| first >> 4 == 6) { &[0x86, 0xdd] } else { &[0x08, 0x00] }
}

/// Gives a frame another network header and another message behind it.
fn rebuild(packet: &mut Packet<'_>, l3: usize, header: &[u8], message: &[u8]) -> Result<(), Reason> {
    let mut out = packet.bytes().get(..l3 - 2).ok_or(Reason::Malformed)?.to_vec();
    out.extend_from_slice(ethertype(header));
    out.extend_from_slice(header);
    out.extend_from_slice(message);
    let missing = out.len().saturating_sub(packet.len());
    if !packet.adjust_head(-(missing as i32)) || !packet.trim(out.len()) {
        return Err(Reason::Untranslatable);
    }
    packet.bytes_mut().copy_from_slice(&out);
    Ok(())
}

/// The IPv4 header of a later fragment whose datagram has these ends.
///
/// # Errors
/// Why it is dropped.
pub fn header_v4(frame: &[u8], view: &View6, protocol: u8, ends: [Address; 2]) -> Result<Vec<u8>, Reason> {
    // It has an identification of its own.
    numbered_v4(frame, view, (protocol, 0), ends)
}

/// The IPv4 header of a packet or fragment; `number` is as in [`put_v4`].
fn numbered_v4(
    frame: &[u8],
    view: &View6,
    (protocol, number): (u8, u16),
    ends: [Address; 2],
) -> Result<Vec<u8>, Reason> {
    let hop = hop_on(frame, view)?;
    let mut header = Vec::with_capacity(V4);
    put_v4(&mut header, ends, (protocol, number), &hop, view.fragment, view.end - view.l4);
    Ok(header)
}

fn hop_on(frame: &[u8], view: &View6) -> Result<Hop, Reason> {
    frame.get(view.l3..).and_then(Hop::of_v6).ok_or(Reason::Malformed)?.on()
}

/// The IPv6 header of a packet or fragment with these ends.
pub fn header_v6(frame: &[u8], view: &View, ends: [[u32; 4]; 2]) -> Result<Vec<u8>, Reason> {
    let hop = frame.get(view.l3..).and_then(Hop::of_v4).ok_or(Reason::Malformed)?.on()?;
    let protocol = if view.protocol() == ICMP { ICMPV6 } else { view.protocol() };
    let mut header = Vec::with_capacity(V6 + FRAGMENT);
    put_v6(&mut header, ends, protocol, &hop, view.fragment, view.end - view.l4);
    Ok(header)
}

/// Translates a packet from inside to the remote end `remote`.
///
/// # Errors
/// Why it is dropped.
pub fn outward(
    translator: &mut Translator,
    packet: &mut Packet<'_>,
    view: &View6,
    remote: Address,
    partial: bool,
    mac: [u32; 2],
) -> Result<(), Reason> {
    if view.part == Part::Error {
        return error_outward(translator, packet, view, remote);
    }
    let [a, b, c, last] = view.source;
    let protocol = view.protocol();
    let ports = if protocol == ICMP { view.ports & 0xffff } else { view.ports };
    let ends = InsideEnds { upper: [a, b, c], inside: last, remote, ports, kind: view.kind, is_v6: true };
    // A header that cannot be made begins no session.
    hop_on(packet.bytes(), view)?;
    if protocol == ICMP && view.fragment != Fragment::Whole {
        return Err(Reason::Untranslatable);
    }
    let number = translator.outward(&ends, view.flags, view.part == Part::Request, mac)?;
    let outside = translator.sessions.outside_ends(number);
    let old: [u32; 8] =
        core::array::from_fn(|n| if n < 4 { view.source[n] } else { view.destination[n - 4] });
    let gained = addresses_gain(&old, &[outside.outside, remote]);
    let message = packet.bytes_mut().get_mut(view.l4..view.end).ok_or(Reason::Malformed)?;
    set_port(message, protocol, true, outside.ports as Port, gained, partial);
    if protocol == ICMP {
        query_to(message, if view.part == Part::Request { 8 } else { 0 }, None);
    }
    let number = translator.next_identification();
    let header = numbered_v4(packet.bytes(), view, (protocol, number), [outside.outside, remote])?;
    replace(packet, view.l3, view.l4, view.end, &header)
}

/// Translates a packet to the pool whose host is of IPv6.
///
/// # Errors
/// Why it is dropped.
pub fn inward(
    translator: &Translator,
    packet: &mut Packet<'_>,
    view: &View,
    target: &Target,
    partial: bool,
) -> Result<[u32; 8], Reason> {
    let prefix = translator.settings.nat64.ok_or(Reason::NoMapping)?;
    let source = prefix.embed(view.source);
    let ends = [source, target.address];
    let flat: [u32; 8] = core::array::from_fn(|n| if n < 4 { source[n] } else { target.address[n - 4] });
    if view.part == Part::Error {
        return error_inward(translator, packet, view, target, ends).map(|()| flat);
    }
    let protocol = view.protocol();
    let header = header_v6(packet.bytes(), view, ends)?;
    let gained = addresses_gain(&[view.source, view.destination], &flat);
    let is_whole = view.fragment == Fragment::Whole;
    if protocol == ICMP && !is_whole {
        return Err(Reason::Untranslatable);
    }
    let message = packet.bytes_mut().get_mut(view.l4..view.end).ok_or(Reason::Malformed)?;
    // IPv6 knows no UDP without a checksum (RFC 7915 section 4.5).
    let lacks_checksum = protocol == UDP && half(message, 6) == Some(0) && !partial;
    if lacks_checksum && !is_whole {
        return Err(Reason::Untranslatable);
    }
    set_port(message, protocol, false, target.port, gained, partial);
    match view.part {
        Part::Request => query_to(message, 128, Some(ends)),
        Part::Reply => query_to(message, 129, Some(ends)),
        _ if lacks_checksum => {
            let mut sum = Sum::ZERO.add_bytes(message);
            for word in flat {
                sum = sum.add_bytes(&word.to_le_bytes());
            }
            sum = sum.add_u32(message.len() as u32).add_u16(u16::from(UDP));
            put_half(message, 6, checksum::udp_wire(sum.checksum()).swap_bytes());
        }
        _ => {}
    }
    replace(packet, view.l3, view.l4, view.end, &header)?;
    Ok(flat)
}

/// Type, code and the word behind the checksum of an ICMPv6 error in ICMP (RFC 7915 section 5.2).
fn error_to_v4(kind: u8, code: u8, rest: u32) -> Option<(u8, u8, u32)> {
    Some(match (kind, code) {
        (1, 0 | 2 | 3) => (3, 1, 0),
        (1, 1) => (3, 10, 0),
        (1, 4) => (3, 3, 0),
        (2, _) => (3, 4, rest.saturating_sub(20).min(0xffff)),
        (3, _) => (11, code, 0),
        (4, 0) => {
            let pointer = match rest {
                0 | 1 => rest,
                4 | 5 => 2,
                6 => 9,
                7 => 8,
                8..=23 => 12,
                24..=39 => 16,
                _ => return None,
            };
            (12, 0, pointer << 24)
        }
        (4, 1) => (3, 2, 0),
        _ => return None,
    })
}

/// The same the other way (RFC 7915 section 4.2).
fn error_to_v6(kind: u8, code: u8, rest: u32) -> Option<(u8, u8, u32)> {
    Some(match (kind, code) {
        (3, 0 | 1 | 5 | 6 | 7 | 8 | 11 | 12) => (1, 0, 0),
        (3, 2) => (4, 1, 6),
        (3, 3) => (1, 4, 0),
        // A router that does not say how much fits: the least that does (RFC 1191 section 7).
        (3, 4) if rest & 0xffff == 0 => (2, 0, LONGEST_V6 as u32),
        (3, 4) => (2, 0, ((rest & 0xffff) + 20).max(LONGEST_V6 as u32)),
        (3, 9 | 10 | 13 | 15) => (1, 1, 0),
        (11, _) => (3, code, 0),
        (12, 0 | 2) => {
            let pointer = match rest >> 24 {
                pointer @ (0 | 1) => pointer,
                2 | 3 => 4,
                8 => 7,
                9 => 6,
                12..=15 => 8,
                16..=19 => 24,
                _ => return None,
            };
            (4, 0, pointer)
        }
        _ => return None,
    })
}

fn error_header(message: &[u8]) -> Option<(u8, u8, u32)> {
    Some((*message.first()?, *message.get(1)?, word(message, 4)?.swap_bytes()))
}

/// An ICMPv6 error from inside, about a packet that was translated on its way in.
fn error_outward(
    translator: &mut Translator,
    packet: &mut Packet<'_>,
    view: &View6,
    remote: Address,
) -> Result<(), Reason> {
    let prefix = translator.settings.nat64.ok_or(Reason::Protocol)?;
    let frame = packet.bytes();
    let message = frame.get(view.l4..view.end).ok_or(Reason::Malformed)?;
    let mut sum = Sum::ZERO.add_bytes(message);
    for word in view.source.iter().chain(&view.destination) {
        sum = sum.add_bytes(&word.to_le_bytes());
    }
    if sum.add_u32(message.len() as u32).add_u16(u16::from(ICMPV6)).folded() != 0xffff {
        return Err(Reason::Malformed);
    }
    let (kind, code, rest) = error_header(message).ok_or(Reason::Malformed)?;
    let (kind, code, rest) = error_to_v4(kind, code, rest).ok_or(Reason::Untranslatable)?;
    let inner = message.get(MESSAGE..).ok_or(Reason::Malformed)?;
    let header = inner.get(..V6).filter(|header| header[0] >> 4 == 6).ok_or(Reason::Malformed)?;
    let (source, destination) = (words(&header[8..24]), words(&header[24..40]));
    let (next, fragment, l4) = match header[6] {
        IN_FRAGMENTS => {
            let fields = inner.get(V6..V6 + FRAGMENT).ok_or(Reason::Malformed)?;
            if half(fields, 2).unwrap_or(0).swap_bytes() & !7 != 0 {
                return Err(Reason::NoSession);
            }
            let identification = word(fields, 4).unwrap_or(0).swap_bytes();
            (fields[0], Fragment::First { identification }, V6 + FRAGMENT)
        }
        next => (next, Fragment::Whole, V6),
    };
    let protocol = match next {
        ICMPV6 => ICMP,
        protocol @ (TCP | UDP) => protocol,
        _ => return Err(Reason::Untranslatable),
    };
    let carried = inner.get(l4..).filter(|rest| rest.len() >= 8).ok_or(Reason::Malformed)?;
    let far = prefix.extract(source).filter(|far| *far == remote).ok_or(Reason::NoSession)?;
    let ports = match protocol {
        ICMP => u32::from(half(carried, 4).unwrap_or(0)),
        _ => word(carried, 0).unwrap_or(0).rotate_left(16),
    };
    let ends = InsideEnds {
        upper: [destination[0], destination[1], destination[2]],
        inside: destination[3],
        remote: far,
        ports,
        kind: u32::from(protocol) | view.kind & !0xff,
        is_v6: true,
    };
    let known = translator.known_inside(&ends).map(|number| {
        let ends = translator.sessions.outside_ends(number);
        (ends.outside, ends.ports as Port)
    });
    let mapped = || translator.bindings.find(&ends).map(|mapping| translator.bindings.outside_end(mapping));
    let (address, port) = known.or_else(mapped).ok_or(Reason::NoSession)?;
    let mut carried = carried.to_vec();
    carried.truncate(LONGEST_V4 - 2 * V4 - MESSAGE);
    let old: [u32; 8] = core::array::from_fn(|n| if n < 4 { source[n] } else { destination[n - 4] });
    set_port(&mut carried, protocol, false, port, addresses_gain(&old, &[far, address]), false);
    if protocol == ICMP {
        let kind = if carried.first() == Some(&128) { 8 } else { 0 };
        carried_query(&mut carried, kind);
    }
    let payload = usize::from(half(header, 4).unwrap_or(0).swap_bytes()).saturating_sub(l4 - V6);
    let hop = Hop::of_v6(header).ok_or(Reason::Malformed)?;
    let mut out = Vec::with_capacity(MESSAGE + V4 + carried.len());
    out.extend_from_slice(&[kind, code, 0, 0]);
    out.extend_from_slice(&rest.to_be_bytes());
    // Which one it had on the other side is not known.
    put_v4(&mut out, [far, address], (protocol, 0), &hop, fragment, payload);
    out.extend_from_slice(&carried);
    seal(&mut out, None);
    let hop = hop_on(frame, view)?;
    let mut outer = Vec::with_capacity(V4);
    let number = translator.next_identification();
    put_v4(&mut outer, [address, far], (ICMP, number), &hop, Fragment::Whole, out.len());
    rebuild(packet, view.l3, &outer, &out)
}

/// A query that an error carries. Its checksum covers what the error may not have, and is left to be what it
/// was but for the type.
fn carried_query(message: &mut [u8], kind: u8) {
    let old = half(message, 0).unwrap_or(0);
    if let Some(first) = message.first_mut() {
        *first = kind;
    }
    let gain = gain_half(old, half(message, 0).unwrap_or(0));
    let checksum = half(message, 2).unwrap_or(0);
    put_half(message, 2, nf_sdk::wire::updated(checksum, gain));
}

/// An ICMP error from outside, about a packet that was translated on its way out.
fn error_inward(
    translator: &Translator,
    packet: &mut Packet<'_>,
    view: &View,
    target: &Target,
    ends: [[u32; 4]; 2],
) -> Result<(), Reason> {
    let prefix = translator.settings.nat64.ok_or(Reason::NoMapping)?;
    let frame = packet.bytes();
    let message = frame.get(view.l4..view.end).ok_or(Reason::Malformed)?;
    let (kind, code, rest) = error_header(message).ok_or(Reason::Malformed)?;
    let (kind, code, rest) = error_to_v6(kind, code, rest).ok_or(Reason::Untranslatable)?;
    // It was read before: the header is whole and there are ports.
    let inner = message.get(MESSAGE..).ok_or(Reason::Malformed)?;
    let length = usize::from(*inner.first().ok_or(Reason::Malformed)? & 15) * 4;
    let (header, carried) = inner.split_at_checked(length).ok_or(Reason::Malformed)?;
    let (near, far) = (word(header, 12).unwrap_or(0), word(header, 16).unwrap_or(0));
    let protocol = header.get(9).copied().unwrap_or(0);
    let inner_ends = [target.address, prefix.embed(far)];
    let mut carried = carried.to_vec();
    carried.truncate(LONGEST_V6 - 2 * V6 - MESSAGE);
    let new: Vec<u32> = inner_ends.iter().flatten().copied().collect();
    set_port(&mut carried, protocol, true, target.port, addresses_gain(&[near, far], &new), false);
    let next = if protocol == ICMP {
        let kind = if carried.first().copied().and_then(query) == Some(Part::Request) { 128 } else { 129 };
        carried_query(&mut carried, kind);
        ICMPV6
    } else {
        protocol
    };
    let total = usize::from(half(header, 2).unwrap_or(0).swap_bytes());
    let hop = Hop::of_v4(header).ok_or(Reason::Malformed)?;
    let mut out = Vec::with_capacity(MESSAGE + V6 + carried.len());
    out.extend_from_slice(&[kind, code, 0, 0]);
    out.extend_from_slice(&rest.to_be_bytes());
    put_v6(&mut out, inner_ends, next, &hop, Fragment::Whole, total.saturating_sub(length));
    out.extend_from_slice(&carried);
    seal(&mut out, Some(ends));
    let hop = frame.get(view.l3..).and_then(Hop::of_v4).ok_or(Reason::Malformed)?.on()?;
    let mut outer = Vec::with_capacity(V6);
    put_v6(&mut outer, ends, ICMPV6, &hop, Fragment::Whole, out.len());
    rebuild(packet, view.l3, &outer, &out)
}

/// The ends of a session as an IPv4 packet to the pool has them.
pub fn outside_ends(view: &View) -> OutsideEnds {
    OutsideEnds {
        outside: view.destination,
        remote: view.source,
        ports: view.ports_of(false),
        kind: view.kind,
    }
}
