//! Which frames are of interest: the question for each frame that a device carries, so that only these are
//! copied.

use packet::ethernet::{self, ethertype};
use packet::{icmpv4, icmpv6, ipv4, ipv6, protocol, udp};
use std::net::IpAddr;

/// What a frame is to the neighbours of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// ARP.
    Arp,
    /// Neighbour discovery: solicitations, advertisements, redirects.
    Discovery,
    /// IGMP or MLD.
    Groups,
    /// An answer of a DHCP server to a client.
    Dhcp,
    /// An echo request to this address. It is of interest when the address is the device's.
    Echo(IpAddr),
}

/// What a frame is, by its first bytes; none when it is of no interest. Tagged frames are not.
pub fn classify(frame: &[u8]) -> Option<Protocol> {
    let view = ethernet::View::new(frame).ok()?;
    if view.tags().count() > 0 {
        return None;
    }
    match view.ethertype() {
        ethertype::ARP => Some(Protocol::Arp),
        ethertype::IPV4 => {
            let packet = ipv4::View::new(view.payload()).ok()?;
            if packet.fragment_offset() > 0 || packet.more_fragments() {
                return None;
            }
            match packet.protocol() {
                protocol::IGMP => Some(Protocol::Groups),
                protocol::UDP => {
                    let datagram = udp::View::new(packet.payload()).ok()?;
                    (datagram.source_port() == 67 && datagram.destination_port() == 68)
                        .then_some(Protocol::Dhcp)
                }
                protocol::ICMPV4 => {
                    let message = icmpv4::View::new(packet.payload()).ok()?;
                    (message.kind() == icmpv4::kind::ECHO_REQUEST)
                        .then(|| Protocol::Echo(packet.destination().into()))
                }
                _ => None,
            }
        }
        ethertype::IPV6 => {
            let packet = ipv6::View::new(view.payload()).ok()?;
            let upper = packet.upper().ok()?;
            if upper.protocol != protocol::ICMPV6 || upper.fragment.is_some() {
                return None;
            }
            let message = icmpv6::View::new(packet.payload().get(upper.offset..)?).ok()?;
            match message.kind() {
                icmpv6::kind::ROUTER_SOLICITATION..=icmpv6::kind::REDIRECT => Some(Protocol::Discovery),
                icmpv6::kind::LISTENER_QUERY..=icmpv6::kind::LISTENER_DONE
                | icmpv6::kind::LISTENER_REPORT_V2 => Some(Protocol::Groups),
                icmpv6::kind::ECHO_REQUEST => Some(Protocol::Echo(packet.destination().into())),
                _ => None,
            }
        }
        _ => None,
    }
}
