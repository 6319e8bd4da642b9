//! From VXLAN to the VLAN side.

use crate::endpoints::Place;
use crate::metrics::{Outcome, Reason};
use crate::outer;
use crate::{Gateway, VLAN, is_reserved, is_source};
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::{Host, Nanos, Packet, Verdict, offload};
use packet::checksum::{self, Endpoints};
use packet::ethernet::{self, ethertype};
use packet::{Fragment, Network, Transport, dissect, ecn, ipv4, protocol, udp};

/// A frame in a packet.
#[derive(Clone, Copy, Debug)]
struct Inner {
    /// The endpoint that it comes from.
    remote: IpAddr,
    /// Where the packet goes: to this endpoint, or a group.
    to: IpAddr,
    vni: u32,
    /// Where it begins and ends.
    at: usize,
    end: usize,
    /// What the outer header says of congestion.
    ecn: u8,
}

impl Gateway {
    /// A packet from the network of the tunnels.
    pub(crate) fn decapsulate(&mut self, packet: &mut Packet<'_>, host: &mut Host, now: Nanos) {
        let inner = match self.read(packet) {
            Ok(inner) => inner,
            Err(reason) => return self.drop(packet, reason),
        };
        let Some(number) = self.networks.of_vni(inner.vni) else {
            return self.drop(packet, Reason::UnknownVni);
        };
        let Some(network) = self.networks.get(number) else { return self.drop(packet, Reason::UnknownVni) };
        let local = self.underlay.settings().local;
        let is_listed =
            inner.remote != local && (!network.is_closed || network.flood.contains(&inner.remote));
        let is_its = inner.to == local || network.group == Some(inner.to);
        if !is_listed || !is_its {
            return self.drop_in(number, packet, Reason::UnknownPeer);
        }
        let vlan = network.vlan;
        let frame = packet.bytes().get(inner.at..inner.end).unwrap_or_default();
        let Ok(view) = ethernet::View::new(frame) else {
            return self.drop_in(number, packet, Reason::Malformed);
        };
        let (source, destination) = (view.source(), view.destination());
        if !is_source(source) {
            return self.drop_in(number, packet, Reason::Malformed);
        }
        if view.tags().count() > 0 && !self.keeps_tags {
            return self.drop_in(number, packet, Reason::Tagged);
        }
        if is_reserved(destination) {
            return self.drop_in(number, packet, Reason::Reserved);
        }
        let Some(congestion) = congestion(&view, inner.ecn) else {
            return self.drop_in(number, packet, Reason::Congestion);
        };
        let at = inner.at + view.header_length();
        let place = Place::Remote(inner.remote);
        self.learn(number, source, place, now);
        // Split horizon: what came from an endpoint goes to none.
        if destination[0] & 1 == 0
            && let Some(Place::Remote(_)) = self.endpoints.toward(number, destination, place, now)
        {
            return self.drop_in(number, packet, Reason::Filtered);
        }
        mark(packet, at, congestion);
        match take_off(packet, inner, vlan, host) {
            Ok(()) => {
                self.networks.count(number).decapsulated += 1;
                self.tally.passed(Outcome::Decapsulated);
            }
            Err(reason) => self.drop_in(number, packet, reason),
        }
    }

    /// Reads and checks what is around the frame.
    fn read(&self, packet: &Packet<'_>) -> Result<Inner, Reason> {
        let bytes = packet.bytes();
        let outer = dissect(bytes).map_err(|_| Reason::Malformed)?;
        let settings = self.underlay.settings();
        let Some(network) = outer.network else { return Err(Reason::NotVxlan) };
        let to = network.destination;
        let is_ours = to == settings.local || to.is_multicast();
        let to_mac = bytes.first_chunk::<6>().copied();
        let is_to_mac = to_mac.is_some_and(|mac| mac[0] & 1 != 0 || Some(mac) == self.underlay.mac());
        let ethernet::HEADER_LENGTH = outer.l3_offset else { return Err(Reason::NotVxlan) };
        if !is_ours || !is_to_mac || network.protocol != protocol::UDP {
            return Err(Reason::NotVxlan);
        }
        if network.fragment != Fragment::Whole {
            return Err(Reason::Fragment);
        }
        if !matches!(network.transport, Transport::Ports { destination, .. } if destination == settings.port)
        {
            return Err(Reason::NotVxlan);
        }
        if network.end > bytes.len() || network.source.is_multicast() || network.source.is_unspecified() {
            return Err(Reason::Malformed);
        }
        let ip = bytes.get(outer.l3_offset..).unwrap_or_default();
        let ecn = match network.source {
            IpAddr::V4(_) => {
                let header = ipv4::View::new(ip).map_err(|_| Reason::Malformed)?;
                if !header.verify_checksum() {
                    return Err(Reason::BadChecksum);
                }
                header.traffic_class() & 3
            }
            IpAddr::V6(_) => ip.get(1).map_or(0, |second| second >> 4 & 3),
        };
        let datagram = bytes.get(network.l4_offset..network.end).unwrap_or_default();
        let view = udp::View::new(datagram).map_err(|_| Reason::Malformed)?;
        let payload = view.payload();
        let header = payload.first_chunk::<{ outer::VXLAN }>().ok_or(Reason::Malformed)?;
        if view.is_cut() || payload.len() < outer::VXLAN + ethernet::HEADER_LENGTH {
            return Err(Reason::Malformed);
        }
        self.verify(packet, &network, &view)?;
        // RFC 7348 section 5: what is reserved is ignored.
        if header[0] & outer::VALID_VNI == 0 {
            return Err(Reason::NoVni);
        }
        let at = network.l4_offset + udp::HEADER_LENGTH + outer::VXLAN;
        Ok(Inner {
            remote: network.source,
            to,
            vni: u32::from_be_bytes([0, header[4], header[5], header[6]]),
            at,
            end: network.l4_offset + usize::from(view.length()),
            ecn,
        })
    }

    /// Verifies UDP's checksum, where there is one that is complete and was not verified before.
    fn verify(&self, packet: &Packet<'_>, network: &Network, datagram: &udp::View<'_>) -> Result<(), Reason> {
        let record = packet.record();
        if datagram.checksum() == 0 {
            let may_be_none = network.source.is_ipv4() || self.underlay.settings().zero_checksum;
            return if may_be_none { Ok(()) } else { Err(Reason::BadChecksum) };
        }
        let is_open = record.gso_type == 0
            && record.offload_flags & (offload::NEEDS_CHECKSUM | offload::CHECKSUM_VALID) == 0;
        let Some(ends) = Endpoints::new(network.source, network.destination) else {
            return Err(Reason::Malformed);
        };
        if is_open && !datagram.verify_checksum(&ends) { Err(Reason::BadChecksum) } else { Ok(()) }
    }
}

/// What the traffic class of the packet in a frame becomes by the congestion that the outer packet met (RFC
/// 6040); `Some(None)` where it stays, `None` where the packet is to be dropped.
fn congestion(view: &ethernet::View<'_>, outer: u8) -> Option<Option<u8>> {
    let class = match (view.ethertype(), view.payload()) {
        (ethertype::IPV4, [_, class, ..]) => *class,
        (ethertype::IPV6, [first, second, ..]) => first << 4 | second >> 4,
        _ => return Some(None),
    };
    let marked = class & !3 | ecn::taken_off(outer, class)?;
    Some((marked != class).then_some(marked))
}

/// Writes the traffic class of the IP packet that begins at `at`.
fn mark(packet: &mut Packet<'_>, at: usize, class: Option<u8>) {
    let (Some(class), Some(header)) = (class, packet.bytes_mut().get_mut(at..)) else { return };
    let Some(first) = header.first_chunk_mut::<2>() else { return };
    let before = u16::from_be_bytes(*first);
    if before >> 12 != 4 {
        *first = (before & 0xf00f | u16::from(class) << 4).to_be_bytes();
        return;
    }
    let after = before & 0xff00 | u16::from(class);
    *first = after.to_be_bytes();
    if let Some(Ok(field)) = header.get_mut(ipv4::field::CHECKSUM).map(<&mut [u8; 2]>::try_from) {
        *field = checksum::update_u16(u16::from_be_bytes(*field), before, after).to_be_bytes();
    }
}

/// Takes the headers off, puts the VLAN's tag on, and sends the frame there.
fn take_off(packet: &mut Packet<'_>, inner: Inner, vlan: u16, host: &mut Host) -> Result<(), Reason> {
    let record = packet.record();
    let tag = if vlan == 0 { 0 } else { ethernet::TAG_LENGTH };
    if record.offload_flags & offload::NEEDS_CHECKSUM != 0 && usize::from(record.csum_start) < inner.at {
        if record.gso_type != 0 {
            return Err(Reason::Unsegmented);
        }
        // The checksum that is to be completed goes with the headers, and only the host could say so of this
        // packet.
        let frame = packet.bytes().get(inner.at..inner.end).unwrap_or_default();
        let (addresses, rest) = frame.split_at_checked(12).ok_or(Reason::Malformed)?;
        let mut made = Vec::with_capacity(frame.len() + tag);
        made.extend(addresses);
        if tag != 0 {
            made.extend(ethertype::VLAN.to_be_bytes());
            made.extend(vlan.to_be_bytes());
        }
        made.extend(rest);
        let mark = packet.mark();
        host.packet_new(&made)
            .and_then(|slot| host.emit(slot, Verdict::Interface(VLAN), mark))
            .map_err(|_| Reason::NoRoom)?;
        packet.verdict(Verdict::Consume);
        return Ok(());
    }
    let begin = inner.at - tag;
    if !packet.trim(inner.end) || !packet.adjust_head(begin as i32) {
        return Err(Reason::Malformed);
    }
    if tag != 0 {
        let bytes = packet.bytes_mut();
        bytes.copy_within(tag..tag + 12, 0);
        if let Some(place) = bytes.get_mut(12..16) {
            place[..2].copy_from_slice(&ethertype::VLAN.to_be_bytes());
            place[2..].copy_from_slice(&vlan.to_be_bytes());
        }
    }
    packet.verdict(Verdict::Interface(VLAN));
    Ok(())
}
