//! From the VLAN side into VXLAN.

use crate::endpoints::{Mac, Place};
use crate::metrics::{Extra, Outcome, Reason};
use crate::outer::{self, Partial};
use crate::{Gateway, VLAN, is_reserved, is_source};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::devices::Sent;
use nf_sdk::{Host, Nanos, Packet, Verdict, offload};
use packet::ethernet::{self, ethertype};
use packet::{checksum, dissect, protocol};
use path_mtu::{Remedy, too_long};

/// What is known of a frame on its way into a network.
#[derive(Clone, Copy, Debug)]
struct Frame {
    network: u16,
    vni: u32,
    /// Bytes of the tag that names the VLAN, which is taken off.
    tag: usize,
    hash: u32,
    ecn: u8,
}

impl Gateway {
    /// A frame from a VLAN.
    pub(crate) fn encapsulate(&mut self, packet: &mut Packet<'_>, host: &mut Host, now: Nanos) {
        let Ok(view) = ethernet::View::new(packet.bytes()) else {
            return self.drop(packet, Reason::Malformed);
        };
        let (source, destination) = (view.source(), view.destination());
        if !is_source(source) {
            return self.drop(packet, Reason::Malformed);
        }
        let tags = view.tags();
        let (vlan, tag) = match tags.as_slice().first() {
            // Without an identifier it says a priority alone (IEEE 802.1Q section 9.6).
            Some(tag) if tag.tpid == ethertype::VLAN => (tag.id(), ethernet::TAG_LENGTH),
            Some(_) => return self.drop(packet, Reason::UnknownVlan),
            None => (0, 0),
        };
        let Some(network) = self.networks.of_vlan(vlan) else {
            return self.drop(packet, Reason::UnknownVlan);
        };
        let inner_tags = tags.count() - usize::from(tag != 0);
        if inner_tags > 0 && !self.keeps_tags {
            return self.drop_in(network, packet, Reason::Tagged);
        }
        if is_reserved(destination) {
            return self.drop_in(network, packet, Reason::Reserved);
        }
        self.learn(network, source, Place::Local, now);
        let vni = self.networks.get(network).map_or(0, |network| network.vni);
        let bytes = packet.bytes();
        let frame = Frame { network, vni, tag, hash: flow(bytes, source, destination), ecn: ecn(bytes) };
        let to = match self.find(network, destination, now) {
            Some(Place::Local) => return self.drop_in(network, packet, Reason::Filtered),
            Some(Place::Remote(remote)) => Some(remote),
            None => None,
        };
        let local = self.underlay.settings().local;
        let most = self.underlay.mtu().saturating_sub(outer::length(local) - ethernet::HEADER_LENGTH);
        if longest(packet) - tag > most {
            return self.too_long(packet, frame, to, most, host, now);
        }
        match to {
            Some(remote) => {
                let passed = self.put_on(packet, frame, remote, host, now);
                self.passed(network, packet, passed, Outcome::Encapsulated);
            }
            None => self.flood(packet, frame, host, now),
        }
    }

    /// Where the destination is; `None` when the frame is for all.
    fn find(&mut self, network: u16, destination: Mac, now: Nanos) -> Option<Place> {
        if destination[0] & 1 != 0 {
            return None;
        }
        self.endpoints.toward(network, destination, Place::Local, now)
    }

    /// Counts a packet by what became of it.
    fn passed(
        &mut self,
        network: u16,
        packet: &mut Packet<'_>,
        sent: Result<Sent, Reason>,
        outcome: Outcome,
    ) {
        match sent {
            Ok(Sent::Sent) => {
                let traffic = self.networks.count(network);
                match outcome {
                    Outcome::Flooded => traffic.flooded += 1,
                    _ => traffic.encapsulated += 1,
                }
                self.tally.passed(outcome);
            }
            Ok(Sent::Held) => self.tally.passed(Outcome::Held),
            Ok(Sent::Dropped) => self.drop_in(network, packet, Reason::NoNeighbour),
            Err(reason) => self.drop_in(network, packet, reason),
        }
    }

    /// Puts the headers in front of the packet itself, and sends it.
    fn put_on(
        &mut self,
        packet: &mut Packet<'_>,
        frame: Frame,
        remote: IpAddr,
        host: &mut Host,
        now: Nanos,
    ) -> Result<Sent, Reason> {
        let partial = partial(packet).map(|at| Partial { start: at.start.saturating_sub(frame.tag), ..at });
        if frame.tag > 0 {
            packet.bytes_mut().copy_within(..12, frame.tag);
            packet.adjust_head(frame.tag as i32);
        }
        if !packet.adjust_head(-(outer::length(remote) as i32)) {
            return Err(Reason::NoRoom);
        }
        let outer = self.underlay.outer(remote, frame.vni, frame.hash, frame.ecn);
        outer.write(packet.bytes_mut(), partial).ok_or(Reason::TooLong)?;
        Ok(self.underlay.send(host, packet, remote, now))
    }

    /// Sends a copy to each endpoint of the network, the packet itself to the last one.
    fn flood(&mut self, packet: &mut Packet<'_>, frame: Frame, host: &mut Host, now: Nanos) {
        let all = self.networks.get(frame.network).map_or(&[][..], |network| &network.flood);
        let Some((last, others)) = all.split_last().map(|(last, others)| (*last, others.to_vec())) else {
            return self.drop_in(frame.network, packet, Reason::UnknownPeer);
        };
        // What is still to be segmented cannot be copied by a function: the host would not know that it is.
        let copy = (!others.is_empty() && packet.record().gso_type == 0).then(|| completed(packet));
        for remote in others {
            let is_sent =
                copy.as_deref().is_some_and(|copy| self.copy(copy, frame, remote, host, now).is_ok());
            self.tally.add(if is_sent { Extra::Copies } else { Extra::CopiesLost }, 1);
        }
        let passed = self.put_on(packet, frame, last, host, now);
        self.passed(frame.network, packet, passed, Outcome::Flooded);
    }

    /// Sends a frame of the function's own to an endpoint, or keeps it until its next hop is known.
    ///
    /// # Errors
    /// Why it was lost: there was no buffer or no way.
    fn copy(
        &mut self,
        bytes: &[u8],
        frame: Frame,
        remote: IpAddr,
        host: &mut Host,
        now: Nanos,
    ) -> Result<(), Reason> {
        let (Some(addresses), Some(rest)) = (bytes.get(..12), bytes.get(12 + frame.tag..)) else {
            return Err(Reason::Malformed);
        };
        let mut made = vec![0; outer::length(remote)];
        made.extend(addresses);
        made.extend(rest);
        let outer = self.underlay.outer(remote, frame.vni, frame.hash, frame.ecn);
        outer.write(&mut made, None).ok_or(Reason::TooLong)?;
        let slot = host.packet_new(&made).map_err(|_| Reason::NoRoom)?;
        match self.underlay.send_own(host, slot, remote, now) {
            Sent::Sent | Sent::Held => Ok(()),
            Sent::Dropped => Err(Reason::NoNeighbour),
        }
    }

    /// A frame that is too long with its headers: it goes in fragments, or its sender is told.
    fn too_long(
        &mut self,
        packet: &mut Packet<'_>,
        frame: Frame,
        to: Option<IpAddr>,
        most: usize,
        host: &mut Host,
        now: Nanos,
    ) {
        let whole = completed(packet);
        // What precedes the IP packet in the frame, without the tag that is taken off.
        let link = ethernet::View::new(&whole).map_or(0, |view| view.header_length() - frame.tag);
        let mtu = most.saturating_sub(link) as u32;
        match too_long(&whole, mtu) {
            Remedy::Fragments(fragments) if packet.record().gso_type == 0 => {
                let all = self.networks.get(frame.network).map_or(&[][..], |network| &network.flood);
                let remotes: Vec<IpAddr> = to.map_or_else(|| all.to_vec(), |remote| vec![remote]);
                // Of what is lost whole, the last reason is the packet's.
                let (mut any_sent, mut lost) = (false, Reason::UnknownPeer);
                for fragment in fragments {
                    for remote in &remotes {
                        let sent = self.copy(&fragment, frame, *remote, host, now);
                        self.tally.add(if sent.is_ok() { Extra::Copies } else { Extra::CopiesLost }, 1);
                        any_sent |= sent.is_ok();
                        lost = sent.err().unwrap_or(lost);
                    }
                }
                if !any_sent {
                    return self.drop_in(frame.network, packet, lost);
                }
                self.tally.passed(Outcome::Fragmented);
                return packet.verdict(Verdict::Consume);
            }
            Remedy::Answer(answer) if self.limiter.take(now) => {
                let sent =
                    host.packet_new(&answer).and_then(|slot| host.emit(slot, Verdict::Interface(VLAN), 0));
                if sent.is_ok() {
                    self.tally.add(Extra::IcmpSent, 1);
                }
            }
            Remedy::Answer(_) => self.tally.add(Extra::IcmpLimited, 1),
            Remedy::Fragments(_) | Remedy::None => {}
        }
        self.drop_in(frame.network, packet, Reason::TooLong);
    }
}

/// A hash of the flow in a frame: of its IP packet, else of its Ethernet addresses.
fn flow(frame: &[u8], source: Mac, destination: Mac) -> u32 {
    let (hash, _) = packet::symmetric_flow_hash(frame);
    if hash != 0 {
        return hash;
    }
    let word = |mac: Mac| mac.into_iter().fold(0u64, |word, byte| word << 8 | u64::from(byte));
    let mixed = (word(source) ^ word(destination).rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

/// ECN of the IP packet in a frame; 0 where there is none.
fn ecn(frame: &[u8]) -> u8 {
    let Ok(view) = ethernet::View::new(frame) else { return 0 };
    match (view.ethertype(), view.payload()) {
        (ethertype::IPV4, [_, class, ..]) => class & 3,
        (ethertype::IPV6, [_, second, ..]) => second >> 4 & 3,
        _ => 0,
    }
}

/// The checksum of a packet that is still to be completed.
fn partial(packet: &Packet<'_>) -> Option<Partial> {
    let record = packet.record();
    (record.offload_flags & offload::NEEDS_CHECKSUM != 0)
        .then(|| Partial { start: record.csum_start.into(), offset: record.csum_offset.into() })
}

/// Bytes of the longest frame that a packet becomes: it may be yet to be segmented.
fn longest(packet: &Packet<'_>) -> usize {
    let (record, whole) = (packet.record(), packet.len());
    if record.gso_type == 0 || record.gso_size == 0 {
        return whole;
    }
    let found = dissect(packet.bytes()).ok().and_then(|found| found.network);
    let Some(network) = found else { return whole };
    let transport = match network.protocol {
        protocol::TCP => {
            packet.bytes().get(network.l4_offset + 12).map_or(20, |offset| usize::from(offset >> 4) * 4)
        }
        _ => 8,
    };
    whole.min(network.l4_offset + transport + usize::from(record.gso_size))
}

/// A packet's bytes with a complete checksum.
fn completed(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = packet.bytes().to_vec();
    let Some(Partial { start, offset }) = partial(packet) else { return bytes };
    let end = dissect(&bytes).ok().and_then(|found| found.network).map_or(bytes.len(), |network| network.end);
    let sum = bytes.get(start..end.min(bytes.len())).map(checksum::of);
    if let (Some(sum), Some(field)) = (sum, bytes.get_mut(start + offset..start + offset + 2)) {
        field.copy_from_slice(&checksum::udp_wire(sum).to_be_bytes());
    }
    bytes
}
