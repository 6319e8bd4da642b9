//! All layers of a frame at once, from its first bytes.

use crate::error::{Layer, ParseError, ensure};
use crate::field_access::{clipped, u8_at, u16_at};
use crate::{ethernet, icmpv4, icmpv6, ipv4, ipv6, protocol};
use core::net::IpAddr;

/// What [`dissect`] found. Offsets are in bytes from the frame's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dissection {
    /// EtherType behind the VLAN tags.
    pub ethertype: u16,
    /// The outermost VLAN tags.
    pub tags: ethernet::Tags,
    /// Where the network header begins.
    pub l3_offset: usize,
    /// The IP header, when there is one.
    pub network: Option<Network>,
}

/// An IP header and the beginning of what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Transport protocol, behind IPv6 extension headers. In a later IPv6 fragment it may be an extension
    /// header's number, see [`ipv6::Upper::protocol`].
    pub protocol: u8,
    /// Whether it is a fragment.
    pub fragment: Fragment,
    /// Ports or type and code.
    pub transport: Transport,
    /// Where the transport header begins, or the bytes of a later fragment.
    pub l4_offset: usize,
    /// Where the packet ends according to its own header. A frame that is shorter was cut; one that is longer
    /// is padded. An IPv4 length of 0, as [`ipv4::View::captured`] has it, is the frame's.
    pub end: usize,
}

/// Whether a packet is a fragment, and which. A packet in one piece may carry a fragment header in IPv6 (RFC
/// 6946).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// In one piece.
    Whole,
    /// The first one: it has the transport header.
    First {
        /// What all fragments of the packet have in common.
        identification: u32,
    },
    /// Another one: it has no transport header, hence no ports.
    Later {
        /// What all fragments of the packet have in common.
        identification: u32,
        /// Where its bytes belong, in bytes.
        offset: u16,
        /// Whether further fragments follow.
        more: bool,
    },
}

/// The part of a transport header that flows are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP, UDP, UDP-Lite, SCTP, DCCP.
    Ports {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// ICMP over IPv4 or ICMPv6 over IPv6.
    Icmp {
        /// Type of message.
        kind: u8,
        /// Code within the type.
        code: u8,
        /// Identifier of an echo request or reply, else 0.
        identifier: u16,
    },
    /// Another protocol, or a later fragment.
    Opaque,
}

/// The 5-tuple. Ports are 0 where the packet has none (other protocols, later fragments).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Transport protocol.
    pub protocol: u8,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

impl FlowKey {
    /// The key of packets in the other direction.
    #[must_use]
    pub const fn reversed(self) -> FlowKey {
        FlowKey {
            source: self.destination,
            destination: self.source,
            protocol: self.protocol,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }
}

impl Dissection {
    /// Control information of the outermost VLAN tag, 0 when there is none.
    pub fn vlan(&self) -> u16 {
        self.tags.outer_tci()
    }

    /// The 5-tuple, when it is an IP packet.
    pub fn flow_key(&self) -> Option<FlowKey> {
        self.network.as_ref().map(Network::flow_key)
    }
}

impl Network {
    /// Whether an ICMP error may be sent about it, as far as its headers tell (RFC 1122 section 3.2.2, RFC
    /// 4443 section 2.4(e)): not about errors, nor about fragments other than the first. That its addresses
    /// are one host's each is for the caller to see to.
    pub fn may_be_answered(&self) -> bool {
        if matches!(self.fragment, Fragment::Later { .. }) {
            return false;
        }
        match (self.protocol, self.transport) {
            (protocol::ICMPV4, Transport::Icmp { kind, .. }) if self.source.is_ipv4() => {
                !icmpv4::is_error(kind)
            }
            (protocol::ICMPV6, Transport::Icmp { kind, .. }) if self.source.is_ipv6() => {
                !icmpv6::is_error(kind) && kind != icmpv6::kind::REDIRECT
            }
            // A message that is cut before its type may be one.
            (protocol::ICMPV4, _) => self.source.is_ipv6(),
            (protocol::ICMPV6, _) => self.source.is_ipv4(),
            _ => true,
        }
    }

    /// The 5-tuple.
    pub fn flow_key(&self) -> FlowKey {
        let (source_port, destination_port) = match self.transport {
            Transport::Ports { source, destination } => (source, destination),
            Transport::Icmp { .. } | Transport::Opaque => (0, 0),
        };
        let Network { source, destination, protocol, .. } = *self;
        FlowKey { source, destination, protocol, source_port, destination_port }
    }
}

/// Takes a frame apart: Ethernet, VLAN tags, IPv4 or IPv6 with extension headers, ports or ICMP type and
/// code.
///
/// `frame` may be only the first bytes of a frame: what lies beyond the headers is not looked at, and
/// [`Network::end`] says where the packet should end. Bytes behind that end are never taken for a header.
///
/// # Errors
/// [`ParseError`] when a header is cut or impossible. A packet that is no IP is no error.
pub fn dissect(frame: &[u8]) -> Result<Dissection, ParseError> {
    dissect_at(frame, 0)
}

/// The same for a frame that begins `at` bytes behind the first that offsets count from.
#[inline]
pub(crate) fn dissect_at(frame: &[u8], at: usize) -> Result<Dissection, ParseError> {
    let link = ethernet::View::new(frame)?;
    let l3_offset = at + link.header_length();
    let network = network(link.ethertype(), link.payload(), l3_offset)?;
    Ok(Dissection { ethertype: link.ethertype(), tags: link.tags(), l3_offset, network })
}

/// The packet of an EtherType, when it is IP.
#[inline]
pub(crate) fn network(ethertype: u16, bytes: &[u8], l3_offset: usize) -> Result<Option<Network>, ParseError> {
    Ok(match ethertype {
        ethernet::ethertype::IPV4 => Some(dissect_v4(bytes, l3_offset)?),
        ethernet::ethertype::IPV6 => Some(dissect_v6(bytes, l3_offset)?),
        _ => None,
    })
}

fn dissect_v4(bytes: &[u8], l3_offset: usize) -> Result<Network, ParseError> {
    let view = ipv4::View::captured(bytes)?;
    let identification = u32::from(view.identification());
    let fragment = match (view.fragment_offset(), view.more_fragments()) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First { identification },
        (offset, more) => Fragment::Later { identification, offset, more },
    };
    let protocol = view.protocol();
    Ok(Network {
        source: view.source().into(),
        destination: view.destination().into(),
        protocol,
        fragment,
        transport: transport(protocol, protocol::ICMPV4, fragment, view.payload())?,
        l4_offset: l3_offset + view.header_length(),
        end: l3_offset + view.length(),
    })
}

fn dissect_v6(bytes: &[u8], l3_offset: usize) -> Result<Network, ParseError> {
    let view = ipv6::View::new(bytes)?;
    let payload = view.payload();
    let upper = view.upper()?;
    let fragment = match upper.fragment {
        None | Some(ipv6::FragmentHeader { offset: 0, more: false, .. }) => Fragment::Whole,
        Some(ipv6::FragmentHeader { identification, offset: 0, more: true }) => {
            Fragment::First { identification }
        }
        Some(ipv6::FragmentHeader { identification, offset, more }) => {
            Fragment::Later { identification, offset, more }
        }
    };
    let segment = clipped(payload, upper.offset, payload.len());
    Ok(Network {
        source: view.source().into(),
        destination: view.destination().into(),
        protocol: upper.protocol,
        fragment,
        transport: transport(upper.protocol, protocol::ICMPV6, fragment, segment)?,
        l4_offset: l3_offset + ipv6::HEADER_LENGTH + upper.offset,
        end: l3_offset + ipv6::HEADER_LENGTH + usize::from(view.payload_length()),
    })
}

/// `icmp` is the protocol number of ICMP in this family: the other family's is opaque.
fn transport(protocol: u8, icmp: u8, fragment: Fragment, segment: &[u8]) -> Result<Transport, ParseError> {
    if matches!(fragment, Fragment::Later { .. }) {
        return Ok(Transport::Opaque);
    }
    if protocol::has_ports(protocol) {
        let layer = match protocol {
            protocol::TCP => Layer::Tcp,
            protocol::UDP => Layer::Udp,
            _ => Layer::Transport,
        };
        ensure(layer, segment, 4)?;
        return Ok(Transport::Ports { source: u16_at(segment, 0..2), destination: u16_at(segment, 2..4) });
    }
    if protocol == icmp {
        let v4 = icmp == protocol::ICMPV4;
        let layer = if v4 { Layer::Icmpv4 } else { Layer::Icmpv6 };
        ensure(layer, segment, 4)?;
        let (kind, code) = (u8_at(segment, 0), u8_at(segment, 1));
        let echo = if v4 { icmpv4::is_echo(kind) } else { icmpv6::is_echo(kind) };
        if echo {
            ensure(layer, segment, 8)?;
        }
        let identifier = if echo { u16_at(segment, 4..6) } else { 0 };
        return Ok(Transport::Icmp { kind, code, identifier });
    }
    Ok(Transport::Opaque)
}
