//! Packets that are not common: each is read completely, forwarded, answered, or dropped for a reason that
//! its sender may be told.

use crate::Router;
use crate::header::{ETHERNET, flow4, flow6, forward4, forward6, is_source};
use crate::hops::{Hop, Way};
use crate::icmp::{self, Fault};
use crate::metrics::{
    ANSWERED, FORWARDED, FRAGMENTED, FRAGMENTS, HELD, ICMP_LIMITED, ICMP_SENT, ICMP_UNSENT, Reason,
};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use nf_sdk::devices::{Link, Sent};
use nf_sdk::{Host, Nanos, Packet, Verdict};
use packet::checksum::{self, Endpoints};
use packet::{Fragment, Network, Transport, arp, dissect, ethernet, icmpv4, icmpv6, ipv4, protocol};

/// Bytes of the longest IPv4 datagram.
const LONGEST_DATAGRAM: usize = 65_535;
/// Options of IPv4 that say where the packet is to go by: loose and strict.
const SOURCE_ROUTES: [u8; 2] = [131, 137];

impl Router {
    /// What becomes of the packet.
    #[inline(never)]
    pub(crate) fn closely(&mut self, packet: &mut Packet<'_>, host: &mut Host, now: Nanos) -> u32 {
        let ingress = packet.ingress();
        let interface = self.links.interfaces.get(usize::from(ingress));
        let Some(mac) = interface.filter(|one| one.is_there).and_then(|one| one.mac) else {
            return self.tally.drop(Reason::NotForRouter);
        };
        let bytes = packet.bytes();
        let (Ok(frame), Some(to)) = (dissect(bytes), bytes.first_chunk::<6>()) else {
            return self.tally.drop(Reason::Malformed);
        };
        let to_us = *to == mac;
        if frame.l3_offset != ETHERNET {
            return self.tally.drop(Reason::NotIp);
        }
        if frame.ethertype == ethernet::ethertype::ARP {
            return self.arp(packet, ingress, mac);
        }
        let Some(network) = frame.network else { return self.tally.drop(Reason::NotIp) };
        if to[0] & 1 != 0 {
            return self.for_a_group(packet, &network, host);
        }
        if !to_us {
            return self.tally.drop(Reason::NotForRouter);
        }
        if let Some(reason) = unacceptable(bytes, &network) {
            return self.tally.drop(reason);
        }
        let complaint = match self.hop(bytes, network.destination) {
            None => (Fault::NoRoute, Reason::NoRoute),
            Some(Hop::Local(_)) => return self.local(packet, &network, host),
            Some(Hop::Drop(why)) => return self.tally.drop(why.reason()),
            Some(Hop::Reject) => (Fault::Rejected, Reason::Rejected),
            // What is one link's own stays there (RFC 4291 section 2.5.6).
            _ if matches!(network.source, IpAddr::V6(source) if source.is_unicast_link_local()) => {
                return self.tally.drop(Reason::MartianSource);
            }
            _ if hops_left(bytes) <= 1 => (Fault::HopsExceeded, Reason::HopsExceeded),
            Some(Hop::Via(out, next)) => return self.onward(packet, &network, (out, next), host, now),
            Some(Hop::Connected(out)) => {
                return self.onward(packet, &network, (out, network.destination), host, now);
            }
        };
        self.complain(packet, &network, complaint, host, now)
    }

    /// Where packets to an address go; by a device's router where no route says so.
    fn hop(&self, bytes: &[u8], address: IpAddr) -> Option<Hop> {
        let hash = || if address.is_ipv4() { flow4(bytes) } else { flow6(bytes) };
        if let Some(own) = &self.own
            && let set = own.table.lookup(address)
            && set != 0
        {
            return own.hops.hop(own.hops.choose(set, hash));
        }
        let found = self.main.hops.hop(self.main.hops.choose(self.main.table.lookup(address), hash));
        found.or_else(|| {
            let interfaces = self.next.devices().interfaces().iter().zip(&self.links.interfaces);
            let there = (0..).zip(interfaces).filter(|(_, (_, interface))| interface.is_there);
            let mut gateways = there.flat_map(|(number, (device, _))| {
                device.gateways.iter().map(move |gateway| (number, *gateway))
            });
            let (number, gateway) = gateways.find(|(_, gateway)| gateway.is_ipv4() == address.is_ipv4())?;
            Some(Hop::Via(number, gateway))
        })
    }

    /// The way back to an address; the next hop is asked for where it is not known.
    fn way_back(&self, host: &mut Host, address: IpAddr) -> Option<Way> {
        let (interface, next) = match self.hop(&[], address)? {
            Hop::Via(interface, next) => (interface, next),
            Hop::Connected(interface) => (interface, address),
            Hop::Local(_) | Hop::Drop(_) | Hop::Reject => return None,
        };
        let way = self.links.way(self.next.devices(), interface, next);
        if way.is_none() {
            // One that cannot be asked for now is asked for with the next packet.
            let _ = host.ask(interface, next);
        }
        way
    }

    /// Forwards it by an interface to an address on its link, in fragments if need be.
    fn onward(
        &mut self,
        packet: &mut Packet<'_>,
        network: &Network,
        (out, next): (u16, IpAddr),
        host: &mut Host,
        now: Nanos,
    ) -> u32 {
        let mtu = self.links.mtu(out);
        let way = self.links.way(self.next.devices(), out, next);
        if longest(packet, network) > mtu as usize {
            if !may_be_fragmented(packet, network) {
                return self.complain(packet, network, (Fault::TooBig(mtu), Reason::TooBig), host, now);
            }
            if let Some(way) = way {
                return self.fragment(packet, network, &way, host);
            }
            // Fragments do not wait; the next datagram finds an answer.
            let _ = host.ask(out, next);
            return self.complain(packet, network, (Fault::NoNeighbour, Reason::NoNeighbour), host, now);
        }
        let waits = way.is_none();
        let way = way.unwrap_or(Way { addresses: [0; 12], verdict: 0, mtu });
        if waits && self.next.devices().link(out, next) != Link::Unknown {
            return self.complain(packet, network, (Fault::NoNeighbour, Reason::NoNeighbour), host, now);
        }
        if network.source.is_ipv4() {
            forward4(packet.bytes_mut(), &way);
        } else {
            forward6(packet.bytes_mut(), &way);
        }
        if !waits {
            self.tally.count(FORWARDED);
            return way.verdict;
        }
        match self.next.send(host, packet, out, next, now) {
            Sent::Sent => self.tally.count(FORWARDED),
            Sent::Held => self.tally.count(HELD),
            Sent::Dropped => return self.tally.drop(Reason::NoNeighbour),
        }
        packet.record().verdict
    }

    /// Sends it in fragments (RFC 791 section 3.2).
    fn fragment(&mut self, packet: &mut Packet<'_>, network: &Network, way: &Way, host: &mut Host) -> u32 {
        let record = *packet.record();
        if record.offload_flags & nf_sdk::offload::NEEDS_CHECKSUM != 0 {
            complete_checksum(packet.bytes_mut(), record.csum_start, record.csum_offset, network.end);
        }
        forward4(packet.bytes_mut(), way);
        let Some(bytes) = packet.bytes().get(..network.end) else {
            return self.tally.drop(Reason::Malformed);
        };
        let place = usize::from(u16::from_be_bytes([bytes[20], bytes[21]]) & 0x1fff) * 8;
        // Behind the end of what a datagram can be, no place is left to say: it would be that of a first
        // fragment, with a header of the sender's that no filter before this one has seen.
        if place + network.end - ETHERNET > LONGEST_DATAGRAM {
            return self.tally.drop(Reason::Malformed);
        }
        let Some(fragments) = path_mtu::fragments(bytes, ETHERNET, way.mtu) else {
            return self.tally.drop(Reason::Malformed);
        };
        let mut made = Vec::with_capacity(fragments.len());
        for frame in fragments {
            match host.packet_new(&frame) {
                Ok(slot) => made.push(slot),
                Err(_) => {
                    // A datagram of which a fragment is missing is of no use.
                    for slot in made {
                        let _ = host.emit(slot, Verdict::Drop(Reason::NoRoom as u16), 0);
                    }
                    return self.tally.drop(Reason::NoRoom);
                }
            }
        }
        let verdict = Verdict::decode(way.verdict).unwrap_or(Verdict::Drop(Reason::NoRoute as u16));
        for slot in made {
            if host.emit(slot, verdict, packet.mark()).is_ok() {
                self.tally.count(FRAGMENTS);
            }
        }
        self.tally.count(FRAGMENTED);
        Verdict::Consume.encode()
    }

    /// Tells the sender, if that is allowed, and drops the packet.
    fn complain(
        &mut self,
        packet: &Packet<'_>,
        network: &Network,
        (fault, reason): (Fault, Reason),
        host: &mut Host,
        now: Nanos,
    ) -> u32 {
        if network.may_be_answered() {
            let counter = match self.error(packet, network, fault, host) {
                None => ICMP_UNSENT,
                Some(_) if !self.limiter.take(now) => ICMP_LIMITED,
                Some((frame, verdict)) => {
                    let sent = host.packet_new(&frame).and_then(|slot| host.emit(slot, verdict, 0));
                    if sent.is_ok() { ICMP_SENT } else { ICMP_UNSENT }
                }
            };
            self.tally.count(counter);
        }
        self.tally.drop(reason)
    }

    /// The frame that tells the sender, and where it goes.
    fn error(
        &self,
        packet: &Packet<'_>,
        network: &Network,
        fault: Fault,
        host: &mut Host,
    ) -> Option<(Vec<u8>, Verdict)> {
        let way = self.way_back(host, network.source)?;
        let own = self.own_address(packet.ingress(), network.source)?;
        let quoted = packet.bytes().get(ETHERNET..network.end.min(packet.len()))?;
        let mut frame = icmp::error(own, network.source, fault, quoted)?;
        frame.get_mut(..12)?.copy_from_slice(&way.addresses);
        Some((frame, Verdict::decode(way.verdict)?))
    }

    /// An address of the router's, of the family of `other`: one of the interface's, else of another one's.
    fn own_address(&self, interface: u16, other: IpAddr) -> Option<IpAddr> {
        let fits = |address: &IpAddr| match address {
            IpAddr::V4(_) => other.is_ipv4(),
            IpAddr::V6(address) => other.is_ipv6() && !address.is_unicast_link_local(),
        };
        self.links.addresses(interface).find(fits)
    }

    /// A packet for one of the router's addresses.
    fn local(&mut self, packet: &mut Packet<'_>, network: &Network, host: &mut Host) -> u32 {
        let kind = match network.transport {
            Transport::Icmp { kind, code: 0, .. } if network.fragment == Fragment::Whole => kind,
            _ => return self.tally.drop(Reason::ForRouter),
        };
        if !self.echo {
            return self.tally.drop(Reason::ForRouter);
        }
        match (network.destination, kind) {
            (IpAddr::V4(_), icmpv4::kind::ECHO_REQUEST) if network.l4_offset == 34 => {
                self.echo(packet, network, host)
            }
            (IpAddr::V6(_), icmpv6::kind::ECHO_REQUEST) if network.l4_offset == 54 => {
                self.echo(packet, network, host)
            }
            (IpAddr::V6(_), icmpv6::kind::NEIGHBOUR_SOLICITATION) => self.solicited(packet, network, host),
            _ => self.tally.drop(Reason::ForRouter),
        }
    }

    /// Answers an echo request with the packet itself.
    fn echo(&mut self, packet: &mut Packet<'_>, network: &Network, host: &mut Host) -> u32 {
        let (source, destination) = (network.source, network.destination);
        let right = packet.bytes().get(network.l4_offset..network.end).is_some_and(|message| {
            match Endpoints::new(source, destination) {
                Some(ends) if source.is_ipv6() => ends.verify(protocol::ICMPV6, message),
                _ => checksum::verify(message),
            }
        });
        if !right {
            return self.tally.drop(Reason::Malformed);
        }
        let Some(way) = self.way_back(host, source) else { return self.tally.drop(Reason::NoNeighbour) };
        let bytes = packet.bytes_mut();
        bytes[..12].copy_from_slice(&way.addresses);
        let (from, to, reply) = match (source, destination) {
            (IpAddr::V4(_), _) => (26..30, 30..34, icmpv4::kind::ECHO_REPLY),
            (IpAddr::V6(_), _) => (22..38, 38..54, icmpv6::kind::ECHO_REPLY),
        };
        // The addresses change places: no sum over both changes.
        let old: Vec<u8> = bytes[from.clone()].to_vec();
        bytes.copy_within(to.clone(), from.start);
        bytes[to].copy_from_slice(&old);
        if source.is_ipv4() {
            bytes[22] = 64;
            bytes[24..26].fill(0);
            let sum = checksum::of(&bytes[ETHERNET..34]);
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        } else {
            bytes[21] = 64;
        }
        let at = network.l4_offset;
        let request = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let sum = u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]);
        bytes[at] = reply;
        let sum = checksum::update_u16(sum, request, u16::from_be_bytes([reply, bytes[at + 1]]));
        bytes[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
        self.tally.count(ANSWERED);
        way.verdict
    }

    /// Answers who has an address of the interface's, with the packet itself.
    fn arp(&mut self, packet: &mut Packet<'_>, ingress: u16, mac: [u8; 6]) -> u32 {
        let asked = packet.bytes().get(ETHERNET..).and_then(|rest| arp::View::new(rest).ok());
        let Some(asked) = asked else { return self.tally.drop(Reason::Malformed) };
        let own = self.links.has(ingress, IpAddr::V4(asked.target()));
        if !(self.echo && own && asked.operation() == arp::REQUEST) {
            return self.tally.drop(Reason::NotIp);
        }
        let (to, sender, target) = (asked.sender_mac(), asked.sender(), asked.target());
        let bytes = packet.bytes_mut();
        bytes[..6].copy_from_slice(&to);
        bytes[6..12].copy_from_slice(&mac);
        let reply = arp::Repr {
            operation: arp::REPLY,
            sender_mac: mac,
            sender: target,
            target_mac: to,
            target: sender,
        };
        if reply.emit(&mut bytes[ETHERNET..]).is_err() {
            return self.tally.drop(Reason::Malformed);
        }
        self.tally.count(ANSWERED);
        Verdict::Interface(ingress).encode()
    }

    /// A frame to a group of Ethernet addresses: nothing of it is forwarded.
    fn for_a_group(&mut self, packet: &Packet<'_>, network: &Network, host: &mut Host) -> u32 {
        match network.transport {
            Transport::Icmp { kind: icmpv6::kind::NEIGHBOUR_SOLICITATION, .. }
                if network.destination.is_ipv6() && self.echo =>
            {
                self.solicited(packet, network, host)
            }
            _ if network.destination.is_multicast() => self.tally.drop(Reason::Multicast),
            _ => self.tally.drop(Reason::Broadcast),
        }
    }

    /// Answers a neighbour solicitation for an address of the interface's (RFC 4861 section 7.2.4).
    fn solicited(&mut self, packet: &Packet<'_>, network: &Network, host: &mut Host) -> u32 {
        let (IpAddr::V6(source), IpAddr::V6(_)) = (network.source, network.destination) else {
            return self.tally.drop(Reason::Malformed);
        };
        let bytes = packet.bytes();
        let message = bytes.get(network.l4_offset..network.end).unwrap_or_default();
        let ends = Endpoints::new(network.source, network.destination);
        let right = network.l4_offset == 54
            && bytes.get(21) == Some(&255)
            && ends.is_some_and(|ends| ends.verify(protocol::ICMPV6, message));
        let (Some(target), true) =
            (message.get(8..24).and_then(|target| <[u8; 16]>::try_from(target).ok()), right)
        else {
            return self.tally.drop(Reason::Malformed);
        };
        let target = Ipv6Addr::from(target);
        let ingress = packet.ingress();
        let mac = self.links.interfaces.get(usize::from(ingress)).and_then(|interface| interface.mac);
        let (Some(mac), Some(asking), true) =
            (mac, bytes.get(6..12), self.links.has(ingress, IpAddr::V6(target)))
        else {
            return self.tally.drop(Reason::Multicast);
        };
        // Router, solicited where there is one that asks for itself, override.
        let (flags, to) = if source.is_unspecified() {
            (0xa0, Ipv6Addr::from_bits(0xff02 << 112 | 1))
        } else {
            (0xe0, source)
        };
        let mut answer = Vec::from([icmpv6::kind::NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
        answer.extend(target.octets());
        answer.extend([2, 1]);
        answer.extend(mac);
        let mut frame = icmp::frame6(target, to, 255, answer);
        if source.is_unspecified() {
            frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
        } else {
            frame[..6].copy_from_slice(asking);
        }
        frame[6..12].copy_from_slice(&mac);
        let sent = host.packet_new(&frame).and_then(|slot| host.emit(slot, Verdict::Interface(ingress), 0));
        if sent.is_err() {
            return self.tally.drop(Reason::NoRoom);
        }
        self.tally.count(ANSWERED);
        Verdict::Consume.encode()
    }
}

/// Hops that the packet has left.
fn hops_left(bytes: &[u8]) -> u8 {
    let place = if bytes.get(ETHERNET).is_some_and(|first| first >> 4 == 4) { 22 } else { 21 };
    bytes.get(place).copied().unwrap_or(0)
}

/// Why a packet is neither forwarded nor answered, whatever its destination.
fn unacceptable(bytes: &[u8], network: &Network) -> Option<Reason> {
    if network.end > bytes.len() {
        return Some(Reason::Malformed);
    }
    match network.source {
        IpAddr::V4(source) => {
            let Ok(header) = ipv4::View::captured(bytes.get(ETHERNET..)?) else {
                return Some(Reason::Malformed);
            };
            if !header.verify_checksum() {
                return Some(Reason::BadChecksum);
            }
            if !is_source(source.octets()[0]) {
                return Some(Reason::MartianSource);
            }
            let routed = header
                .options()
                .any(|option| option.map_or(true, |option| SOURCE_ROUTES.contains(&option.kind)));
            routed.then_some(Reason::SourceRouted)
        }
        IpAddr::V6(source) => {
            let martian = source.is_unspecified() || source.is_loopback() || source.is_multicast();
            martian.then_some(Reason::MartianSource)
        }
    }
}

/// Bytes of the longest packet behind an Ethernet header that this one becomes: it may be yet to be
/// segmented.
fn longest(packet: &Packet<'_>, network: &Network) -> usize {
    let (record, whole) = (packet.record(), network.end.saturating_sub(ETHERNET));
    if record.gso_type == 0 || record.gso_size == 0 {
        return whole;
    }
    let transport = match network.protocol {
        protocol::TCP => {
            packet.bytes().get(network.l4_offset + 12).map_or(20, |offset| usize::from(offset >> 4) * 4)
        }
        _ => 8,
    };
    whole.min(network.l4_offset - ETHERNET + transport + usize::from(record.gso_size))
}

/// Whether an IPv4 packet may be sent in fragments: nothing forbids it, and it is one packet.
fn may_be_fragmented(packet: &Packet<'_>, network: &Network) -> bool {
    let bytes = packet.bytes();
    network.source.is_ipv4()
        && packet.record().gso_type == 0
        && bytes.get(20).is_some_and(|flags| flags & 0x40 == 0)
}

/// Completes a checksum that a network card would have: its field has the sum of the pseudo header.
fn complete_checksum(bytes: &mut [u8], start: u16, offset: u16, end: usize) {
    let start = usize::from(start);
    let place = start + usize::from(offset);
    let Some(sum) = bytes.get(start..end).map(checksum::of) else { return };
    if let Some(field) = bytes.get_mut(place..place + 2) {
        field.copy_from_slice(&checksum::udp_wire(sum).to_be_bytes());
    }
}
