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
    Fresh, Front, Headers, LayerKind, MAX_BYTES, PLAIN, Reason, TakenOff, datagram, take_off, take_plain_off,
};
use nf_abi::offload::{CHECKSUM_VALID, GSO_NONE, NEEDS_CHECKSUM};
use packet::checksum::Sum;
use packet_memory::{Kept, Packet, Pool};
use telemetry::DropReason;
use virtio_net::is_whole;
use virtual_device::{Device, Tunnels};
use virtual_switch::SwitchPort;

/// Bytes that the headers are taken off: as long as they may be, and what follows them.
const TAKEN: usize = MAX_BYTES + 64;
/// Bytes of a packet that say what headers in front of it say.
const SHOWN: usize = 64;

/// The device of a switch, and the headers around packets outside of one of its ports.
pub(crate) fn tunnels_at(forwarding: &Forwarding, plug: SwitchPort) -> Option<(&Device, &Tunnels)> {
    let device = forwarding.device()?;
    Some((device, device.tunnels(plug)?))
}

impl Worker {
    /// Takes off what comes in by a plug the headers that it has there.
    pub(crate) fn decapsulate(&mut self, source: Holder, (id, from): Plug, batch: &mut Vec<Packet>) {
        let Some((_, tunnels)) = tunnels_at(&self.switches[id.index()].forwarding, from) else { return };
        let (pool, with_flow_hash) =
            (&self.pools[usize::from(self.pool_of(source).0)], self.polling.flow_hash);
        let mut refused = self.batches.spare();
        let by = number(id, from);
        let other =
            |packet: &mut Packet| !decapsulate(pool, packet, &tunnels.decapsulate, by, with_flow_hash);
        refused.extend(batch.extract_if(.., other));
        self.drop_batch(source, refused, DropReason::BadTunnel);
    }

    /// Whether all of these packets get headers where they are: none is cut, none copied before, none too
    /// long.
    pub(crate) fn encapsulates_in_place(
        &self,
        source: Holder,
        (id, plug): Plug,
        target: Target,
        batch: &[Packet],
    ) -> bool {
        let here = self.pool_of(source);
        let stays = self.only_end(target).is_some_and(|end| self.pool_of(end) == here);
        let Some((device, tunnels)) = tunnels_at(&self.switch(id).forwarding, plug) else { return false };
        let (longest, pool) = (device.longest(plug), &self.pools[usize::from(here.0)]);
        let own = tunnels.encapsulate.map_or(0, |own| own.overhead());
        let headers = |packet: &Packet| {
            pool.kept(packet).map_or(own, |kept| kept.headers.bytes().len().max(own)) as u32
        };
        stays && batch.iter().all(|it| it.length().saturating_add(headers(it)) <= longest && !is_whole(it))
    }

    /// Puts headers on packets that leave by a plug.
    pub(crate) fn encapsulate_all(&mut self, source: Holder, (id, plug): Plug, batch: &mut Vec<Packet>) {
        let Some((device, tunnels)) = tunnels_at(&self.switches[id.index()].forwarding, plug) else { return };
        let pool = &self.pools[usize::from(self.pool_of(source).0)];
        let (here, identification) = (number(id, plug), &mut self.batches.identification);
        let (longest, mut reasons) = (device.longest(plug), Vec::new());
        let refused = batch.extract_if(.., |packet| {
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
#[inline]
fn decapsulate(
    pool: &Pool,
    packet: &mut Packet,
    layers: &[LayerKind],
    by: u64,
    with_flow_hash: bool,
) -> bool {
    let plain = match layers {
        [] => return true,
        [LayerKind::Vxlan] => take_vxlan(pool, packet, by),
        _ => None,
    };
    let Some(taken) = plain.or_else(|| take_layers(pool, packet, layers, by)) else { return false };
    let (flow_hash, vlan) = flow_of(pool, packet, with_flow_hash);
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

/// Takes VXLAN off a packet that has nothing else in front.
#[inline]
fn take_vxlan(pool: &Pool, packet: &mut Packet, by: u64) -> Option<TakenOff> {
    let (head, offset, length) = (pool.head(packet).0, packet.offset() + PLAIN as u32, packet.length());
    let is_finished = packet.record().offload_flags & NEEDS_CHECKSUM == 0;
    let place = pool.keep(packet).filter(|_| is_finished)?;
    place.by = by;
    let taken = take_plain_off(&head, length, &mut place.headers)?;
    packet.set_extent(offset, taken.length, pool.buffer_size()).then_some(taken)
}

/// Takes any layers off a packet.
#[inline(never)]
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

/// Puts on a packet the headers that it has outside of a port: those that were taken off it by another port
/// with the same layers, else the port's own.
#[inline]
fn encapsulate(
    pool: &Pool,
    packet: &mut Packet,
    tunnels: &Tunnels,
    here: u64,
    identification: u16,
    longest: u32,
) -> Result<(), Refused> {
    let (length, layers) = (packet.length(), tunnels.decapsulate.iter().copied());
    // Once for both: its flow, and what the headers say of it.
    let (head, count) = pool.head(packet);
    let same = |kept: &&Kept| kept.by != here && layers.len() > 0 && kept.headers.layers().eq(layers.clone());
    let kept = pool.kept(packet).filter(same);
    let (headers, fresh) = match (kept, &tunnels.encapsulate) {
        (Some(kept), _) => (&kept.headers, None),
        (None, Some(own)) => {
            let next_hop = tunnels.next_hop.as_ref().map(|it| it.get());
            if next_hop == Some(None) {
                return Err(Refused::Lost(DropReason::NoNeighbour));
            }
            let plain = || packet::plain_flow_hash(&head).filter(|_| count == head.len());
            let hash = match packet.record().flow_hash {
                0 => plain().unwrap_or_else(|| flow_of(pool, packet, true)).0,
                known => known,
            };
            let (headers, fresh) = own.for_flow(hash, identification, next_hop.flatten());
            (headers, Some(fresh))
        }
        (None, None) if tunnels.decapsulate.is_empty() => return Ok(()),
        (None, None) => return Err(Refused::Lost(DropReason::NoEncapsulation)),
    };
    let fits = length.saturating_add(PLAIN as u32) <= longest;
    let plain = head.first_chunk().and_then(|first| headers.plain(*first, length, fresh));
    if let Some(made) = plain.filter(|_| fits) {
        pool.forget_kept(packet);
        return pool.replace_front(packet, 0, &made).map_err(|_| Refused::Lost(DropReason::TooLong));
    }
    let mut front = Front::NONE;
    make_front(pool, packet, headers, fresh, longest, &mut front)?;
    pool.forget_kept(packet);
    let done = pool.replace_front(packet, front.removes(), front.bytes());
    done.map_err(|_| Refused::Lost(DropReason::TooLong))
}

/// Makes any headers for a packet.
#[inline(never)]
fn make_front(
    pool: &Pool,
    packet: &Packet,
    headers: &Headers,
    fresh: Option<Fresh>,
    longest: u32,
    front: &mut Front,
) -> Result<(), Refused> {
    let ((head, count), length) = (pool.head::<SHOWN>(packet), packet.length());
    headers.put_on(&head[..count], length, fresh, front).map_err(|mismatch| match mismatch.reason {
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
    Ok(())
}
