//! What the translator reads from a packet that is not usual, and writing of ends and checksums.

use crate::metrics::Reason;
use core::net::IpAddr;
use nf_sdk::headers::{Dissection, Fragment, Network};
use nf_sdk::wire::{
    Address, ICMP, Port, TCP, UDP, correct, gain, gain_half, half, put_half, put_word, transport_checksum,
    updated, wire_v4, word,
};

/// What of a packet is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// TCP or UDP: ports.
    Ports,
    /// An ICMP query: its identifier.
    Request,
    /// The reply to one.
    Reply,
    /// An ICMP error: the packet that it carries.
    Error,
    /// A later fragment: addresses alone.
    Later,
}

/// An IPv4 packet.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Where the IPv4 header begins.
    pub l3: usize,
    /// Where the transport header begins.
    pub l4: usize,
    /// Where the packet ends.
    pub end: usize,
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Protocol and the identifiers of two VLANs.
    pub kind: u32,
    /// Source port in the lower half, destination port in the upper; the identifier of an ICMP query in both.
    pub ports: u32,
    /// TCP flags.
    pub flags: u8,
    /// What of it is translated.
    pub part: Part,
    /// Which fragment it is.
    pub fragment: Fragment,
}

/// Identifiers of the outermost two VLAN tags, as in [`View::kind`].
pub fn vlans(dissection: &Dissection) -> u32 {
    let tags = dissection.tags.as_slice().iter();
    tags.zip([8, 20]).fold(0, |vlans, (tag, place)| vlans | u32::from(tag.id()) << place)
}

/// ICMP types of queries whose identifier is translated: echo and timestamp (RFC 792).
pub fn query(kind: u8) -> Option<Part> {
    match kind {
        8 | 13 => Some(Part::Request),
        0 | 14 => Some(Part::Reply),
        _ => None,
    }
}

/// ICMP types that carry a packet: unreachable, source quench, time exceeded, parameter problem. A redirect
/// is of the link that it came by.
fn is_error(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 11 | 12)
}

/// Bytes of the transport header that have to be there, by protocol.
pub fn least(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(20),
        UDP | ICMP => Some(8),
        _ => None,
    }
}

impl View {
    /// Reads an IPv4 packet.
    ///
    /// # Errors
    /// [`Reason::Malformed`], [`Reason::Protocol`].
    pub fn new(frame: &[u8], dissection: &Dissection, network: &Network) -> Result<View, Reason> {
        let protocol = network.protocol;
        let least = least(protocol).ok_or(Reason::Protocol)?;
        let mut view = View::addresses(dissection, network);
        if network.end > frame.len() {
            return Err(Reason::Malformed);
        }
        if matches!(network.fragment, Fragment::Later { .. }) {
            return Ok(view);
        }
        // A first fragment with a part of its transport header is a way around filters (RFC 1858).
        let header = frame.get(view.l4..network.end).filter(|rest| rest.len() >= least);
        let header = header.ok_or(Reason::Malformed)?;
        view.part = Part::Ports;
        view.ports = word(header, 0).unwrap_or(0);
        if protocol == TCP {
            view.flags = header.get(13).copied().unwrap_or(0);
        } else if protocol == ICMP {
            let kind = header.first().copied().unwrap_or(0);
            view.part = match query(kind) {
                Some(part) => part,
                None if is_error(kind) => Part::Error,
                None => return Err(Reason::Protocol),
            };
            let identifier = u32::from(half(header, 4).unwrap_or(0));
            view.ports = identifier | identifier << 16;
        }
        Ok(view)
    }

    /// The addresses of an IPv4 packet of any protocol.
    pub fn addresses(dissection: &Dissection, network: &Network) -> View {
        let wire = |address: IpAddr| match address {
            IpAddr::V4(address) => wire_v4(address.to_bits()),
            IpAddr::V6(_) => 0,
        };
        View {
            l3: dissection.l3_offset,
            l4: network.l4_offset,
            end: network.end,
            source: wire(network.source),
            destination: wire(network.destination),
            kind: u32::from(network.protocol) | vlans(dissection),
            ports: 0,
            flags: 0,
            part: Part::Later,
            fragment: network.fragment,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> u8 {
        self.kind as u8
    }

    /// The ports of a session: own port in the lower half, remote port in the upper. An ICMP query has no
    /// remote port.
    pub fn ports_of(&self, from_inside: bool) -> u32 {
        match self.protocol() {
            ICMP => self.ports & 0xffff,
            _ if from_inside => self.ports,
            _ => self.ports.rotate_left(16),
        }
    }

    /// Writes one end of the packet: address, port, and what checksums make of it. `partial`: the transport
    /// checksum is that of the pseudo header alone, and is completed later.
    pub fn set_end(
        &mut self,
        frame: &mut [u8],
        at_source: bool,
        address: Address,
        port: Port,
        partial: bool,
    ) {
        let network = self.set_address(frame, at_source, address);
        let protocol = self.protocol();
        let Some(checksum_at) = transport_checksum(protocol) else { return };
        if self.part == Part::Later {
            return;
        }
        let place = match protocol {
            ICMP => self.l4 + 4,
            _ if at_source => self.l4,
            _ => self.l4 + 2,
        };
        let ports = gain_half(half(frame, place).unwrap_or(0), port);
        put_half(frame, place, port);
        let shift = if at_source { 0 } else { 16 };
        self.ports = self.ports & !(0xffff << shift) | u32::from(port) << shift;
        correct(frame, self.l4 + checksum_at, protocol, network, ports, partial);
    }

    /// Writes one address and the checksum of the IPv4 header; what the sum of a pseudo header gains.
    pub fn set_address(&mut self, frame: &mut [u8], at_source: bool, address: Address) -> u16 {
        let (place, old) = if at_source { (12, &mut self.source) } else { (16, &mut self.destination) };
        let gain = gain(*old, address);
        *old = address;
        put_word(frame, self.l3 + place, address);
        let at = self.l3 + 10;
        put_half(frame, at, updated(half(frame, at).unwrap_or(0), gain));
        gain
    }
}
