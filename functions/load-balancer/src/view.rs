//! What is read from a packet that is not usual, and writing of its ends.

use crate::balancer::Segment;
use crate::ends::{Words, kind, words};
use crate::metrics::Reason;
use nf_sdk::headers::{Dissection, Fragment, Network, checksum, icmpv4, icmpv6, ipv4, ipv6, protocol};
use nf_sdk::wire::{
    ICMP, ICMPV6, TCP, UDP, correct, folded, gain, gain_half, half, put_half, put_word, transport_checksum,
    updated, word,
};

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// TCP or UDP: ports.
    Ports,
    /// An ICMP error: the packet that it is about.
    Error,
    /// A later fragment: addresses alone.
    Later,
    /// Anything else.
    Other,
}

/// An IP packet.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Where the IP header begins.
    pub l3: usize,
    /// Where the transport header begins.
    pub l4: usize,
    /// Where the packet ends.
    pub end: usize,
    /// Its addresses are of IPv6.
    pub is_v6: bool,
    /// Source address.
    pub source: Words,
    /// Destination address.
    pub destination: Words,
    /// The protocol.
    pub protocol: u8,
    /// As packets have them: source port in the lower half, destination port in the upper.
    pub ports: u32,
    /// Of TCP.
    pub segment: Segment,
    /// What it carries.
    pub part: Part,
    /// Which fragment it is.
    pub fragment: Fragment,
}

/// The end that is written into a packet: an address, and a port as packets have it, where that changes.
pub type NewEnd = (Words, Option<u16>);

impl View {
    /// Reads a packet.
    ///
    /// # Errors
    /// [`Reason::Malformed`].
    pub fn new(frame: &[u8], dissection: &Dissection, network: &Network) -> Result<View, Reason> {
        let mut view = View {
            l3: dissection.l3_offset,
            l4: network.l4_offset,
            end: network.end,
            is_v6: network.source.is_ipv6(),
            source: words(network.source),
            destination: words(network.destination),
            protocol: network.protocol,
            ports: 0,
            segment: Segment::default(),
            part: Part::Other,
            fragment: network.fragment,
        };
        if view.end > frame.len() || view.l4 > view.end {
            return Err(Reason::Malformed);
        }
        if matches!(network.fragment, Fragment::Later { .. }) {
            view.part = Part::Later;
            return Ok(view);
        }
        let header = frame.get(view.l4..view.end).ok_or(Reason::Malformed)?;
        // A first fragment with a part of its transport header is a way around filters (RFC 1858).
        let least = match view.protocol {
            TCP => 20,
            UDP => 8,
            ICMP if !view.is_v6 => 8,
            ICMPV6 if view.is_v6 => 8,
            _ => return Ok(view),
        };
        if header.len() < least {
            return Err(Reason::Malformed);
        }
        let first = header.first().copied().unwrap_or(0);
        let is_error = match view.protocol {
            ICMP => icmpv4::is_error(first) && first != icmpv4::kind::REDIRECT,
            ICMPV6 => icmpv6::is_error(first),
            _ => {
                view.part = Part::Ports;
                view.ports = word(header, 0).unwrap_or(0);
                if view.protocol == TCP {
                    view.segment = segment(header);
                }
                false
            }
        };
        if is_error && view.fragment == Fragment::Whole {
            view.part = Part::Error;
        }
        Ok(view)
    }

    /// Protocol and version of IP.
    pub fn kind(&self) -> u32 {
        kind(self.protocol, self.is_v6)
    }

    /// The source's port, as packets have it.
    pub fn source_port(&self) -> u16 {
        self.ports as u16
    }

    /// The destination's port, as packets have it.
    pub fn destination_port(&self) -> u16 {
        (self.ports >> 16) as u16
    }

    /// Of a packet of TCP.
    pub fn tcp(&self) -> Option<Segment> {
        (self.protocol == TCP).then_some(self.segment)
    }

    /// Writes one end of the packet, and what checksums make of that. `partial`: the transport checksum is
    /// that of the pseudo header alone, and is completed later.
    pub fn set_end(&mut self, frame: &mut [u8], at_source: bool, (address, port): NewEnd, partial: bool) {
        let network = self.set_address(frame, at_source, address);
        let Some(checksum_at) = transport_checksum(self.protocol).filter(|_| self.part == Part::Ports) else {
            return;
        };
        let mut ports = 0;
        if let Some(port) = port {
            let place = if at_source { self.l4 } else { self.l4 + 2 };
            ports = gain_half(half(frame, place).unwrap_or(0), port);
            put_half(frame, place, port);
            let shift = if at_source { 0 } else { 16 };
            self.ports = self.ports & !(0xffff << shift) | u32::from(port) << shift;
        }
        correct(frame, self.l4 + checksum_at, self.protocol, network, ports, partial);
    }

    /// Writes one address, and of IPv4 the header's checksum; what the sum of a pseudo header gains.
    pub fn set_address(&mut self, frame: &mut [u8], at_source: bool, address: Words) -> u16 {
        let field = match (self.is_v6, at_source) {
            (false, true) => ipv4::field::SOURCE,
            (false, false) => ipv4::field::DESTINATION,
            (true, true) => ipv6::field::SOURCE,
            (true, false) => ipv6::field::DESTINATION,
        };
        let old = if at_source { &mut self.source } else { &mut self.destination };
        let count = if self.is_v6 { 4 } else { 1 };
        let mut sum = 0;
        for (number, (old, new)) in old.iter().zip(address).enumerate().take(count) {
            sum += u32::from(gain(*old, new));
            put_word(frame, self.l3 + field.start + 4 * number, new);
        }
        *old = address;
        let gained = folded(sum);
        if !self.is_v6 {
            let at = self.l3 + ipv4::field::CHECKSUM.start;
            put_half(frame, at, updated(half(frame, at).unwrap_or(0), gained));
        }
        gained
    }

    /// The packet that an ICMP error is about; its offsets are those of the frame.
    ///
    /// # Errors
    /// The error's checksum is wrong, or that of the header in it; or it is about nothing that has ports.
    pub fn carried(&self, frame: &[u8]) -> Result<View, Reason> {
        let message = frame.get(self.l4..self.end).ok_or(Reason::Malformed)?;
        if !self.is_sound(message) {
            return Err(Reason::Malformed);
        }
        let l3 = self.l4 + icmpv4::HEADER_LENGTH;
        let inner = frame.get(l3..self.end).ok_or(Reason::Malformed)?;
        let (length, source, destination, protocol) = if self.is_v6 {
            let header = inner.get(..ipv6::HEADER_LENGTH).filter(|header| header[0] >> 4 == 6);
            let header = header.ok_or(Reason::Malformed)?;
            let rest = inner.get(ipv6::HEADER_LENGTH..).unwrap_or_default();
            let upper = ipv6::walk(header[ipv6::field::NEXT_HEADER], rest).map_err(|_| Reason::Malformed)?;
            if upper.fragment.is_some_and(|fragment| fragment.offset != 0) {
                return Err(Reason::NoConnection);
            }
            let words = |at: usize| core::array::from_fn(|n| word(header, at + 4 * n).unwrap_or(0));
            let (source, destination) = (ipv6::field::SOURCE.start, ipv6::field::DESTINATION.start);
            (ipv6::HEADER_LENGTH + upper.offset, words(source), words(destination), upper.protocol)
        } else {
            let first = inner.first().copied().unwrap_or(0);
            let length = usize::from(first & 15) * 4;
            let header = inner.get(..length).filter(|_| first >> 4 == 4 && length >= ipv4::HEADER_LENGTH);
            let header = header.ok_or(Reason::Malformed)?;
            if !checksum::verify(header) {
                return Err(Reason::Malformed);
            }
            let offset = half(header, ipv4::field::FRAGMENT.start).unwrap_or(0).swap_bytes() & 0x1fff;
            if offset != 0 {
                return Err(Reason::NoConnection);
            }
            let words = |at: usize| [word(header, at).unwrap_or(0), 0, 0, 0];
            let (source, destination) = (ipv4::field::SOURCE.start, ipv4::field::DESTINATION.start);
            (length, words(source), words(destination), header[ipv4::field::PROTOCOL])
        };
        if !matches!(protocol, TCP | UDP) {
            return Err(Reason::NoConnection);
        }
        Ok(View {
            l3,
            l4: l3 + length,
            end: self.end,
            is_v6: self.is_v6,
            source,
            destination,
            protocol,
            ports: word(inner, length).ok_or(Reason::Malformed)?,
            segment: Segment::default(),
            part: Part::Ports,
            fragment: Fragment::Whole,
        })
    }

    fn is_sound(&self, message: &[u8]) -> bool {
        if !self.is_v6 {
            return checksum::verify(message);
        }
        self.pseudo_header(message).folded() == 0xffff
    }

    fn pseudo_header(&self, message: &[u8]) -> checksum::Sum {
        let sum = self
            .source
            .iter()
            .chain(&self.destination)
            .fold(checksum::Sum::ZERO, |sum, word| sum.add_u32(word.swap_bytes()));
        sum.add_u32(message.len() as u32).add_u16(u16::from(protocol::ICMPV6)).add_bytes(message)
    }

    /// Makes the checksum of an ICMP message right, after what it carries was changed.
    pub fn seal(&self, frame: &mut [u8]) {
        let place = self.l4 + icmpv4::field::CHECKSUM.start;
        put_half(frame, place, 0);
        let Some(message) = frame.get(self.l4..self.end) else { return };
        let sum = if self.is_v6 { self.pseudo_header(message).checksum() } else { checksum::of(message) };
        put_half(frame, place, sum.swap_bytes());
    }
}

fn segment(header: &[u8]) -> Segment {
    let number = |at: usize| word(header, at).unwrap_or(0).swap_bytes();
    Segment { flags: header.get(13).copied().unwrap_or(0), sequence: number(4), acknowledgment: number(8) }
}
