//! What passes without a rule, because no address is of any use without it: ARP, neighbour and router
//! discovery, and DHCP. From inside it passes as far as it claims what is the device's: not another's
//! address, and not to be a router or a DHCP server.

use crate::identity::{Identity, inside};
use crate::metrics::Reason;
use core::net::{IpAddr, Ipv4Addr};
use nf_sdk::headers::ethernet::{self, ethertype};
use packet_filter::header::{Class, Header};
use packet_filter::rule::UDP;

/// Bytes of an ARP packet of IPv4 over Ethernet (RFC 826), and how it begins: both kinds of addresses, their
/// lengths.
const ARP: usize = 28;
const ARP_KINDS: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// What it asks or says.
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];

/// ICMPv6 type of a multicast router's question (RFC 2710 section 3, RFC 3810 section 5.1).
const LISTENER_QUERY: u8 = 130;
/// ICMPv6 types of RFC 4861 section 4, of which a host sends two kinds of solicitation and advertisements of
/// itself.
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
/// Options with a link-layer address, of the source and the target.
const LINK_LAYER_ADDRESSES: [u8; 2] = [1, 2];

/// UDP ports of DHCP's server and client (RFC 2131 section 4.1).
const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// The same of DHCPv6 (RFC 8415 section 7.2).
const SERVER6: u16 = 547;
const CLIENT6: u16 = 546;
/// The ports of what a DHCP server sends to a client, as an IPv4 packet has them.
pub const FROM_SERVER: [u8; 4] = [0, SERVER as u8, 0, CLIENT as u8];

/// Whether a frame has a VLAN tag, even one that is cut short.
pub fn is_tagged(packet: &[u8]) -> bool {
    let ethertype = packet.get(12..).and_then(|rest| rest.first_chunk()).map(|two| u16::from_be_bytes(*two));
    matches!(ethertype, Some(ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN))
}

/// A frame that is not IP.
pub fn arp(identity: &Identity, packet: &[u8], is_from_inside: bool) -> Result<(), Reason> {
    let view = ethernet::View::new(packet).map_err(|_| Reason::Malformed)?;
    if view.ethertype() != ethertype::ARP {
        return Err(Reason::NonIp);
    }
    let body: &[u8; ARP] =
        packet.get(view.header_length()..).and_then(|rest| rest.first_chunk()).ok_or(Reason::Malformed)?;
    let operation = [body[6], body[7]];
    if body[..6] != ARP_KINDS || (operation != REQUEST && operation != REPLY) {
        return Err(Reason::Malformed);
    }
    if !is_from_inside {
        return Ok(());
    }
    let is_mac = identity.mac().is_none_or(|mac| body[8..14] == mac);
    let sender = [body[14], body[15], body[16], body[17]];
    // Whether an address is free is asked without one (RFC 5227). Asked for another's, it would keep that
    // from its address.
    let target = [body[24], body[25], body[26], body[27]];
    let is_probe = sender == [0; 4] && operation == REQUEST && identity.has_ipv4(target);
    if is_mac && (is_probe || identity.has_ipv4(sender)) { Ok(()) } else { Err(Reason::Spoofed) }
}

/// Discovery or MLD from inside.
pub fn discovery(identity: &Identity, header: &Header, packet: &[u8]) -> Result<(), Reason> {
    let source = inside(header);
    let is_unspecified = source.is_unspecified();
    let is_own = matches!(source, IpAddr::V6(six) if identity.has_ipv6(six.octets()));
    if !is_own && !is_unspecified {
        return Err(Reason::Spoofed);
    }
    let message = packet.get(usize::from(header.message)..).ok_or(Reason::Malformed)?;
    let honest = match message.first() {
        Some(&LISTENER_QUERY | &ROUTER_ADVERTISEMENT | &REDIRECT) => false,
        Some(&NEIGHBOUR_ADVERTISEMENT) => {
            let target = message.get(8..).and_then(|rest| rest.first_chunk()).ok_or(Reason::Malformed)?;
            is_own && identity.has_ipv6(*target) && options(identity, message.get(24..))?
        }
        Some(&NEIGHBOUR_SOLICITATION) => {
            let target = message.get(8..).and_then(|rest| rest.first_chunk()).ok_or(Reason::Malformed)?;
            // As a probe of ARP: duplicate address detection (RFC 4862 section 5.4.3).
            (is_own || identity.has_ipv6(*target)) && options(identity, message.get(24..))?
        }
        Some(&ROUTER_SOLICITATION) => options(identity, message.get(8..))?,
        _ => true,
    };
    if honest { Ok(()) } else { Err(Reason::Spoofed) }
}

/// The address that a message of discovery from inside claims which is not the device's: what it probes for,
/// what it announces of itself, or where it asks from. Not with another's link-layer address.
pub fn claimed(identity: &Identity, header: &Header, packet: &[u8]) -> Option<[u8; 16]> {
    let IpAddr::V6(source) = inside(header) else { return None };
    let message = packet.get(usize::from(header.message)..)?;
    let target: [u8; 16] = *message.get(8..)?.first_chunk()?;
    let own = match *message.first()? {
        NEIGHBOUR_SOLICITATION if source.is_unspecified() => target,
        NEIGHBOUR_SOLICITATION => source.octets(),
        NEIGHBOUR_ADVERTISEMENT if target == source.octets() => target,
        _ => return None,
    };
    options(identity, message.get(24..)).ok()?.then_some(own)
}

/// Whether link-layer addresses in the options (RFC 4861 section 4.6) are the device's, as far as that is
/// known.
fn options(identity: &Identity, options: Option<&[u8]>) -> Result<bool, Reason> {
    let mut rest = options.ok_or(Reason::Malformed)?;
    while let [kind, length, ..] = *rest {
        let (option, behind) = rest
            .split_at_checked(usize::from(length) * 8)
            .filter(|_| length != 0)
            .ok_or(Reason::Malformed)?;
        let claims = LINK_LAYER_ADDRESSES.contains(&kind);
        if claims && identity.mac().is_some_and(|mac| option.get(2..8) != Some(&mac)) {
            return Ok(false);
        }
        rest = behind;
    }
    Ok(true)
}

/// DHCP (RFC 2131): `None` where the rules are asked. A client's broadcasts leave, answers to one come in; a
/// renewal, which goes to a server's own address, is for the rules: it could go anywhere. What a server sends
/// does not leave, not even in fragments, whose first one would open the way for the rest; all else of
/// fragments is for the rules.
pub fn dhcp(identity: &Identity, header: &Header, packet: &[u8]) -> Option<Result<(), Reason>> {
    let is_from_inside = header.ingress() == 0;
    let ports = ((header.ports >> 16) as u16, header.ports as u16);
    if header.protocol() != UDP || !matches!(header.class, Class::Flow4 | Class::Flow6) {
        return None;
    }
    match (header.class, ports) {
        (Class::Flow4, (SERVER, CLIENT)) | (Class::Flow6, (SERVER6, CLIENT6)) if is_from_inside => {
            Some(Err(Reason::Spoofed))
        }
        (Class::Flow6, _) => None,
        _ if header.fragment.is_fragment => None,
        (_, (CLIENT, SERVER)) if is_from_inside && header.key[1] == u32::MAX => {
            let is_client = inside(header) == IpAddr::V4(Ipv4Addr::UNSPECIFIED) || identity.has(header);
            Some(if is_client { Ok(()) } else { Err(Reason::Spoofed) })
        }
        // The address may be the one that is being given.
        (_, (SERVER, CLIENT)) if is_sent_to(identity, packet) => Some(Ok(())),
        _ => None,
    }
}

/// Whether a frame is for the device, or for all.
fn is_sent_to(identity: &Identity, packet: &[u8]) -> bool {
    let destination = packet.first_chunk::<6>();
    destination == Some(&[0xff; 6]) || identity.mac().is_none_or(|mac| destination == Some(&mac))
}
