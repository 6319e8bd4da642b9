//! Tunnels: the headers that a device takes off what comes in by a port, and puts on what leaves by one.
//!
//! What was taken off is kept in host memory ([`Pool::keep`]) and put back when the packet leaves by another
//! port whose packets have the same layers; otherwise the port's own headers are put on. Headers are made of
//! copied bytes: a guest that changes the packet meanwhile changes nothing in front of it.

use crate::forwarding::Forwarding;
use crate::ids::{Holder, Plug, SwitchId, Target};
use crate::path::classify::flow_of;
use crate::worker::Worker;
use encapsulation::{
    Front, Headers, LayerKind, MAX_BYTES, PLAIN, Plain, Reason, TakenOff, datagram, take_off, take_plain_off,
};
use nf_abi::offload::{CHECKSUM_VALID, GSO_NONE, NEEDS_CHECKSUM};
use packet::checksum::Sum;
use packet::ethernet::is_tag;
use packet_memory::{Kept, Packet, Pool};
use telemetry::DropReason;
use virtio_net::is_whole;
use virtual_device::{Device, Tunnels};
use virtual_switch::SwitchPort;

/// Bytes that the headers are taken off: as long as they may be, and what follows them.
const TAKEN: usize = MAX_BYTES + 64;
/// Bytes of a packet that say what headers in front of it say, and of which flow it is if it is plain.
const SHOWN: usize = 64;
const FLOW: usize = 48;

/// The device of a switch, and the headers around packets outside of one of its ports.
pub(crate) fn tunnels_at(forwarding: &Forwarding, plug: SwitchPort) -> Option<(&Device, &Tunnels)> {
    let device = forwarding.device()?;
    Some((device, device.tunnels(plug)?))
}

impl Worker {
    /// Takes off what comes in by a plug the headers that it has there.
    pub(crate) fn decapsulate(&mut self, source: Holder, (id, from): Plug, batch: &mut Vec<Packet>) {
        let Some((_, tunnels)) = tunnels_at(&self.switches[id.index()].forwarding, from) else { return };
        let (pool, by) = (&*self.pools[usize::from(self.pool_of(source).0)], number(id, from));
        let (layers, with_flow_hash) = (&tunnels.decapsulate[..], self.polling.flow_hash);
        // As long as all are plain, nothing is looked after but these.
        let is_vxlan = layers == [LayerKind::Vxlan];
        let is_other = |it: &mut Packet| !is_vxlan || !take_vxlan(pool, it, by, with_flow_hash);
        let Some(first) = batch.iter_mut().position(is_other).filter(|_| !layers.is_empty()) else { return };
        let mut refused = self.batches.spare();
        refused.extend(batch.extract_if(first.., |it| !decapsulate(pool, it, layers, by, with_flow_hash)));
        self.drop_batch(source, refused, DropReason::BadTunnel);
    }

    /// Whether all of these packets get headers where they are: none is cut, none copied before.
    pub(crate) fn encapsulates_in_place(&self, source: Holder, target: Target, batch: &[Packet]) -> bool {
        let here = self.pool_of(source);
        let stays = self.only_end(target).is_some_and(|end| self.pool_of(end) == here);
        stays && !batch.iter().any(is_whole)
    }

    /// Puts headers on packets that leave by a plug.
    pub(crate) fn encapsulate_all(&mut self, source: Holder, (id, plug): Plug, batch: &mut Vec<Packet>) {
        let Some((device, tunnels)) = tunnels_at(&self.switches[id.index()].forwarding, plug) else { return };
        let pool = &self.pools[usize::from(self.pool_of(source).0)];
        let (here, identification) = (number(id, plug), &mut self.batches.identification);
        let (longest, mut reasons) = (device.longest(plug), Vec::new());
        // As long as all are plain, nothing is looked after but these.
        let next_hop = tunnels.next_hop.as_ref().map(|it| it.get());
        let own = tunnels.encapsulate.as_ref().filter(|_| next_hop != Some(None));
        let own = own.map(|own| own.for_flow(0, 0, next_hop.flatten()));
        let plain = own.and_then(|(headers, fresh)| headers.plain(Some(fresh)));
        let is_other = |packet: &mut Packet| {
            *identification = identification.wrapping_add(1);
            plain.as_ref().is_none_or(|own| !put_on_plainly(pool, packet, own, *identification, longest))
        };
        let Some(first) = batch.iter_mut().position(is_other) else { return };
        let refused = batch.extract_if(first.., |packet| {
            *identification = identification.wrapping_add(1);
            let done = encapsulate(pool, packet, tunnels, here, *identification, longest);
            done.map_err(|refused| reasons.push(refused)).is_err()
        });
        for (packet, refused) in refused.collect::<Vec<_>>().into_iter().zip(reasons) {
            match refused {
                Refused::Lost(reason) => self.drop_batch(source, vec![packet], reason),
                Refused::TooLong { headers } => self.leave_oversized(source, id, plug, packet, headers),
            }
        }
    }

    /// Puts headers on packets that leave by a plug, in the pool of the port that they leave by, cut if they
    /// are still to be cut, and hands them on.
    pub(crate) fn leave_encapsulated(
        &mut self,
        source: Holder,
        (id, plug): Plug,
        target: Target,
        mut batch: Vec<Packet>,
    ) {
        let Some(end @ Holder::Port(_)) = self.only_end(target) else {
            return self.drop_batch(source, batch, DropReason::NoRoute);
        };
        let mut source = source;
        if self.pool_of(end) != self.pool_of(source) {
            self.copy_to_pool(source, end, &mut batch);
            // From here on they are the port's.
            source = end;
        }
        let mut packets = self.batches.spare();
        for packet in batch.drain(..) {
            self.segments(source, packet, &mut packets);
        }
        self.batches.recycle(batch);
        self.encapsulate_all(source, (id, plug), &mut packets);
        self.hand_on(source, target, packets);
    }
}

/// The number of a plug of a device, for what is kept.
fn number(id: SwitchId, plug: SwitchPort) -> u64 {
    (id.index() as u64) << 16 | u64::from(plug.0)
}

/// Why a packet does not leave with headers in front.
#[derive(Clone, Copy)]
enum Refused {
    /// It is lost.
    Lost(DropReason),
    /// With headers of so many bytes it is longer than the port's link takes.
    TooLong { headers: u32 },
}

/// Takes layers off a packet and fills its record. False when it does not have them; it is to be dropped
/// then.
#[inline(never)]
fn decapsulate(pool: &Pool, packet: &mut Packet, layers: &[LayerKind], by: u64, hashed: bool) -> bool {
    layers == [LayerKind::Vxlan] && take_vxlan(pool, packet, by, hashed)
        || take_layers(pool, packet, layers, by).is_some_and(|taken| note(pool, packet, &taken, hashed))
}

/// Says in a packet's record what was taken off it, and of which flow it is if that is read.
#[inline(always)]
fn note(pool: &Pool, packet: &mut Packet, taken: &TakenOff, hashed: bool) -> bool {
    let is_known = !hashed && !is_tag(taken.kind);
    let (flow_hash, vlan) = if is_known { (0, 0) } else { flow_inside(pool, packet, hashed) };
    packet.edit(|record| {
        (record.flow_hash, record.vlan) = (flow_hash, if taken.vlan == 0 { vlan } else { taken.vlan });
        if let Some(kind) = taken.tunnel {
            (record.tunnel_type, record.tunnel_key) = (kind.tunnel_type(), taken.key);
            // What was verified is a checksum of the headers that are gone.
            record.offload_flags &= !CHECKSUM_VALID;
        }
    });
    true
}

/// Not compiled into loops over packets of which it is not asked.
#[inline(never)]
fn flow_inside(pool: &Pool, packet: &Packet, hashed: bool) -> (u32, u16) {
    flow_of(pool, packet, hashed)
}

/// Takes VXLAN off a packet that has nothing else in front, and fills its record. False where there is more
/// to it.
#[inline(always)]
fn take_vxlan(pool: &Pool, packet: &mut Packet, by: u64, hashed: bool) -> bool {
    let (offset, length) = (packet.offset() + PLAIN as u32, packet.length());
    let is_finished = packet.record().offload_flags & NEEDS_CHECKSUM == 0;
    let Some(head) = pool.first(packet).filter(|_| is_finished) else { return false };
    let Some(place) = pool.keep(packet) else { return false };
    let Some(taken) = take_plain_off(&head, length, &mut place.headers) else { return false };
    place.by = by;
    packet.set_extent(offset, taken.length, pool.buffer_size()) && note(pool, packet, &taken, hashed)
}

/// Takes any layers off a packet.
fn take_layers(pool: &Pool, packet: &mut Packet, layers: &[LayerKind], by: u64) -> Option<TakenOff> {
    let (head, length) = pool.head::<TAKEN>(packet);
    let (head, whole) = (&head[..length], packet.length());
    let (mut front, mut lost) = (Front::NONE, None);
    let kept = match pool.keep(packet) {
        Some(place) => {
            place.by = by;
            &mut place.headers
        }
        None => lost.insert(Headers::NONE),
    };
    let taken = take_off(head, whole, layers, &mut front, kept).ok()?;
    if taken.sums.iter().any(|at| *at > 0) && !sums_are_right(pool, packet, head, &taken.sums) {
        return None;
    }
    let record = packet.record();
    if record.offload_flags & NEEDS_CHECKSUM != 0 && usize::from(record.csum_start) < front.removes() {
        if record.gso_type != GSO_NONE {
            // Several packets of the tunnel in one.
            return None;
        }
        // The checksum of the outer headers, which are not sent on.
        packet.edit(|record| record.offload_flags &= !NEEDS_CHECKSUM);
    }
    pool.replace_front(packet, front.removes(), front.bytes()).ok()?;
    pool.set_length(packet, taken.length as usize).ok()?;
    Some(taken)
}

/// Whether the checksums of UDP are right around what a tunnel carries, in a frame with this beginning. Those
/// that the kernel or a NIC has verified, or has yet to complete, are.
#[cold]
fn sums_are_right(pool: &Pool, packet: &Packet, head: &[u8], places: &[u8]) -> bool {
    let record = packet.record();
    let is_right = |at: &u8| {
        datagram(head, *at).is_some_and(|(pseudo, range)| {
            let is_unfinished =
                record.offload_flags & NEEDS_CHECKSUM != 0 && usize::from(record.csum_start) <= range.start;
            let sum = || pseudo.add_u16(sum(pool, packet, range.start, range.end).folded()).folded();
            is_unfinished || sum() == 0xffff
        })
    };
    let is_known = record.offload_flags & CHECKSUM_VALID != 0 || record.gso_type != GSO_NONE;
    is_known || places.iter().filter(|at| **at > 0).all(is_right)
}

/// The sum of bytes of a packet from an even place on, in which a checksum that is yet to be completed counts
/// as if it were: what it is over comes to the complement of what its field has (`Documentation/networking/
/// checksum-offloads.rst` of Linux, local checksum offload).
fn sum(pool: &Pool, packet: &Packet, from: usize, to: usize) -> Sum {
    let record = packet.record();
    let (start, mut field, mut chunk) = (usize::from(record.csum_start), [0; 2], [0; 2048]);
    let is_unfinished = record.offload_flags & NEEDS_CHECKSUM != 0
        && (from..to).contains(&start)
        && pool.read(packet, start + usize::from(record.csum_offset), &mut field) == field.len();
    let end = if is_unfinished { start } else { to };
    let (mut sum, mut at) = (Sum::ZERO, from);
    while at < end {
        let wanted = chunk.len().min(end - at);
        pool.read(packet, at, &mut chunk[..wanted]);
        (sum, at) = (sum.add_bytes(&chunk[..wanted]), at + wanted);
    }
    sum.add_u16(if is_unfinished { !u16::from_be_bytes(field) } else { 0 })
}

/// Puts a port's own headers on a packet of which none are kept, where they are plain. False where there is
/// more to them.
#[inline(always)]
fn put_on_plainly(pool: &Pool, packet: &mut Packet, own: &Plain, id: u16, longest: u32) -> bool {
    let (length, known) = (packet.length(), packet.record().flow_hash);
    if length > longest.saturating_sub(PLAIN as u32) || pool.kept(packet).is_some() {
        return false;
    }
    let Some(head) = pool.first::<FLOW>(packet) else { return false };
    let plain = || packet::plain_flow_hash(&head).unwrap_or_else(|| flow_inside(pool, packet, true)).0;
    let hash = if known == 0 { plain() } else { known };
    let made = head.first_chunk().and_then(|first| own.front(*first, length, (hash, id)));
    made.is_some_and(|made| pool.replace_front(packet, 0, &made).is_ok())
}

/// Puts on a packet the headers that it has outside of a port: those that were taken off it by another port
/// with the same layers, else the port's own.
#[inline(never)]
fn encapsulate(
    pool: &Pool,
    packet: &mut Packet,
    tunnels: &Tunnels,
    here: u64,
    identification: u16,
    longest: u32,
) -> Result<(), Refused> {
    let ((head, count), length) = (pool.head::<SHOWN>(packet), packet.length());
    let layers = tunnels.decapsulate.iter().copied();
    let same = |kept: &&Kept| kept.by != here && layers.len() > 0 && kept.headers.layers().eq(layers.clone());
    let (headers, fresh, hash) = match (pool.kept(packet).filter(same), &tunnels.encapsulate) {
        (Some(kept), _) => (&kept.headers, None, 0),
        (None, Some(own)) => {
            let next_hop = tunnels.next_hop.as_ref().map(|it| it.get());
            if next_hop == Some(None) {
                return Err(Refused::Lost(DropReason::NoNeighbour));
            }
            let known = packet.record().flow_hash;
            let hash = if known == 0 { flow_inside(pool, packet, true).0 } else { known };
            let (headers, fresh) = own.for_flow(hash, identification, next_hop.flatten());
            (headers, Some(fresh), hash)
        }
        (None, None) if tunnels.decapsulate.is_empty() => return Ok(()),
        (None, None) => return Err(Refused::Lost(DropReason::NoEncapsulation)),
    };
    let lost = |_| Refused::Lost(DropReason::TooLong);
    let plain = headers.plain(fresh).filter(|_| length.saturating_add(PLAIN as u32) <= longest);
    let first = head.first_chunk().zip(plain);
    if let Some(made) = first.and_then(|(first, it)| it.front(*first, length, (hash, identification))) {
        pool.forget_kept(packet);
        return pool.replace_front(packet, 0, &made).map_err(lost);
    }
    let mut front = Front::NONE;
    headers.put_on(&head[..count], length, fresh, &mut front).map_err(|mismatch| match mismatch.reason {
        Reason::TooLong => Refused::Lost(DropReason::TooLong),
        _ => Refused::Lost(DropReason::NoEncapsulation),
    })?;
    let headers = front.bytes().len().saturating_sub(front.removes()) as u32;
    if length.saturating_add(headers) > longest {
        return Err(Refused::TooLong { headers });
    }
    if front.is_incomplete() {
        front.complete(sum(pool, packet, front.removes(), length as usize));
    }
    pool.forget_kept(packet);
    pool.replace_front(packet, front.removes(), front.bytes()).map_err(lost)
}
