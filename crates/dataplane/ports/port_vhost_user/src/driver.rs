//! The port itself: copying packets into and out of the guest's rings.

use crate::Settings;
use crate::attendant;
use crate::config::QUEUES_MAX;
use crate::cutting::Cutting;
use crate::desk::{Desk, Rings};
use crate::features::{GUEST_CSUM, GUEST_ECN, GUEST_TSO4, GUEST_TSO6};
use crate::receive::Taken;
use crate::ring::{BATCH, OutOfStep, Queue};
use crate::transmit::Unsent;
use local_socket::{Attendant, OpenError, check_path};
use nf_abi::{PacketRecord, offload};
use packet_memory::{Packet, Pool};
use port::{Condition, Port, PortCounters, PortEvent, PortStatus, Wake};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::{VnetHeader, finish_checksum, is_whole, split, split_in_tunnels};

/// Packets that may gather outside: half of the rings that QEMU and DPDK make without being told.
const BACKLOG: usize = 128;

/// Senders are throttled when fewer than half of so many packets find room: rings that QEMU and DPDK make
/// without being told have so many places.
const CAPACITY: usize = 256;

/// A vhost-user port. See the crate's documentation.
#[derive(Debug)]
pub struct VhostUserPort {
    settings: Settings,
    attendant: Option<Attendant<Desk>>,
    /// That of a port that was closed. Its thread is waited for when the port is dropped, not by the worker.
    ended: Option<Attendant<Desk>>,
    desk: Arc<Desk>,
    counters: PortCounters,
    /// Front ends that were connected.
    peers: u64,
    condition: Condition,
    /// The worker may have slept: the guest may have woken it.
    slept: Cell<bool>,
    /// The ring that is taken from first.
    turn: usize,
    cutting: Cutting,
    /// What room was known when packets were last given: to look is to fetch what the guest writes.
    room: Cell<usize>,
}

impl Settings {
    /// What a schema cannot say of them.
    ///
    /// # Errors
    /// [`OpenError::Setting`].
    pub fn check(&self) -> Result<(), OpenError> {
        check_path(&self.socket)?;
        if !(1..=QUEUES_MAX as u32).contains(&self.queues) {
            return Err(OpenError::setting("queues", self.queues, "1 to 16"));
        }
        Ok(())
    }
}

impl VhostUserPort {
    /// Opens the port. A socket that cannot be made or reached yet is tried again; the port is down until a
    /// guest has started its device.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(settings: Settings) -> Result<VhostUserPort, OpenError> {
        settings.check()?;
        let attendant =
            attendant::start(&settings).map_err(|error| OpenError::System(settings.socket.clone(), error))?;
        let desk = attendant.desk().clone();
        Ok(VhostUserPort { attendant: Some(attendant), ..VhostUserPort::at(settings, desk) })
    }

    /// A port at a desk at which no attendant stands.
    pub(crate) fn at(settings: Settings, desk: Arc<Desk>) -> VhostUserPort {
        let condition = Condition::new(PortStatus::Down(desk.told().words));
        VhostUserPort {
            settings,
            attendant: None,
            ended: None,
            desk,
            counters: PortCounters::default(),
            peers: 0,
            condition,
            slept: Cell::new(false),
            turn: 0,
            cutting: Cutting::default(),
            room: Cell::new(0),
        }
    }

    /// Takes note of what the attendant has told.
    #[inline]
    fn refresh(&mut self) {
        if let Some(told) = self.desk.news() {
            self.peers = told.peers;
            self.room.set(0);
            match told.up {
                true => self.condition.up(&told.words),
                false => self.condition.down(told.words),
            }
        }
    }

    /// After a sleep: what woke it is forgotten, and it polls.
    #[inline]
    fn awake(&self, rings: &Rings) {
        if self.slept.take() {
            self.desk.bells.clear();
            let queues = rings.from_guest.iter().filter_map(|n| rings.queues[usize::from(*n)].as_ref());
            queues.for_each(Queue::poll);
        }
    }

    /// The peer has written what cannot be, or taken memory away: it is not talked to any more.
    #[cold]
    fn hang_up(&mut self, rings: &mut Rings) {
        if let Some(line) = &rings.line {
            line.cut_off.store(true, Release);
            line.hang_up();
        }
        // They stay the attendant's to end, and are not looked at meanwhile.
        (rings.to_guest, rings.from_guest) = (Vec::new(), Vec::new());
        self.condition.down("the front end was cut off: its rings or its memory were impossible".into());
    }

    /// Copies packets out of the rings, in their turns: each gets its part of the budget, and what others
    /// leave of theirs.
    #[inline]
    fn take(
        &mut self,
        rings: &mut Rings,
        pool: &Pool,
        now: Nanos,
        mut budget: usize,
        out: &mut Vec<Packet>,
    ) -> Result<(), OutOfStep> {
        let count = rings.from_guest.len();
        self.turn = if self.turn + 1 < count { self.turn + 1 } else { 0 };
        let mut sleepers = 0u32;
        for n in 0..count {
            let index = rings.from_guest[(self.turn + n) % count];
            let Some(queue) = &mut rings.queues[usize::from(index)] else { continue };
            let share = budget.div_ceil(count - n);
            let mut left = share;
            while left > 0 && !self.cutting.is_under_way() {
                let taken = self.take_batch(queue, pool, now, &mut left, out);
                if queue.publish() {
                    sleepers |= 1 << index;
                }
                if taken? < BATCH {
                    break;
                }
            }
            if queue.is_lost() {
                return Err(OutOfStep);
            }
            budget -= share - left;
        }
        if sleepers != 0 {
            self.desk.bells.wake_peer(sleepers);
        }
        Ok(())
    }

    /// Takes the frames of some chains; returns how many there were.
    #[inline]
    fn take_batch(
        &mut self,
        queue: &mut Queue,
        pool: &Pool,
        now: Nanos,
        left: &mut usize,
        out: &mut Vec<Packet>,
    ) -> Result<usize, OutOfStep> {
        queue.begin();
        let count = queue.fetch(BATCH.min(*left))?;
        if count == 0 {
            return Ok(0);
        }
        let (mut kept, mut bytes, before) = (out.len(), 0, queue.next);
        pool.allocate_batch(count, out);
        for n in 1..=count {
            let Some(chain) = queue.chains.get(queue.next).copied() else { break };
            let taken =
                queue.take(&chain, pool, out.get_mut(kept), self.settings.offload, &mut self.cutting.bytes);
            queue.give_back(0);
            *left = left.saturating_sub(1);
            bytes += u64::from(chain.bytes.saturating_sub(queue.header_length));
            match taken {
                Taken::Packet => {
                    out[kept].edit(|record| record.timestamp = now.0);
                    kept += 1;
                }
                Taken::Lost(reason) => self.counters.lose(reason, pool, kept, out),
                Taken::Long(vnet) => {
                    // What it is cut into follows the packets before it.
                    pool.free_batch(out.drain(kept..));
                    let is_enough = self.cut_long(&vnet, pool, now, left, out);
                    kept = out.len();
                    if is_enough {
                        break;
                    }
                    pool.allocate_batch(count - n, out);
                }
            }
        }
        self.counters.ledger.received += (queue.next - before) as u64;
        self.counters.received_bytes += bytes;
        if kept < out.len() {
            pool.free_batch(out.drain(kept..));
        }
        Ok(count)
    }

    /// Makes packets of a long frame; true when there is more of it, or no room for others.
    #[cold]
    fn cut_long(
        &mut self,
        vnet: &VnetHeader,
        pool: &Pool,
        now: Nanos,
        left: &mut usize,
        out: &mut Vec<Packet>,
    ) -> bool {
        if !self.cutting.begin(vnet, pool) {
            self.counters.ledger.dropped[DropReason::TooLong] += 1;
            return false;
        }
        // Its first piece has the place of the frame.
        let pieces = self.cutting.go_on(pool, now, *left + 1, &mut self.counters, out);
        *left = (*left + 1).saturating_sub(pieces);
        self.cutting.is_under_way() || *left == 0
    }

    /// Copies packets into the rings, each into that of its flow, as many as there is room for, and wakes the
    /// guest where it sleeps. All packets end here.
    #[inline]
    fn give(&mut self, rings: &mut Rings, pool: &Pool, packets: &mut Vec<Packet>) -> Result<(), OutOfStep> {
        let count = rings.to_guest.len();
        let checksums = rings.features & GUEST_CSUM != 0;
        let (mut begun, mut used, mut failed, mut delivered, mut bytes) = (0u32, 0u32, false, 0, 0);
        let mut left = packets.len();
        for packet in packets.iter_mut() {
            if !checksums {
                finish_checksum(pool, packet);
            }
            let index = rings.to_guest[queue_of(packet.record().flow_hash, count)];
            let given = match &mut rings.queues[usize::from(index)] {
                _ if failed => Err(DropReason::PortDown),
                _ if !takes(rings.features, packet) => Err(DropReason::PortRefused),
                None => Err(DropReason::PortDown),
                Some(queue) => {
                    if begun >> index & 1 == 0 {
                        begun |= 1 << index;
                        queue.begin();
                        failed = queue.fetch(BATCH.min(left)).is_err();
                    }
                    let vnet = header_of(packet.record());
                    let given = if failed { Err(Unsent::OutOfStep) } else { queue.give(pool, packet, vnet) };
                    used |= 1 << index;
                    given.map_err(|unsent| match unsent {
                        Unsent::Lost(reason) => reason,
                        Unsent::OutOfStep => {
                            failed = true;
                            DropReason::PortDown
                        }
                    })
                }
            };
            match given {
                Ok(()) => {
                    delivered += 1;
                    bytes += u64::from(packet.length());
                }
                Err(reason) => self.counters.ledger.dropped[reason] += 1,
            }
            left -= 1;
        }
        pool.free_batch(packets.drain(..));
        self.counters.ledger.delivered += delivered;
        self.counters.delivered_bytes += bytes;
        let mut sleepers = 0;
        for index in rings.to_guest.iter().filter(|index| used >> **index & 1 == 1) {
            let Some(queue) = &mut rings.queues[usize::from(*index)] else { continue };
            if queue.publish() {
                sleepers |= 1 << index;
            }
            failed |= queue.is_lost();
        }
        if sleepers != 0 {
            self.desk.bells.wake_peer(sleepers);
        }
        self.room.set(room_of(rings, false));
        if failed { Err(OutOfStep) } else { Ok(()) }
    }

    /// Puts its segments in the place of each packet that is still to be cut and that the guest does not take
    /// so.
    #[cold]
    fn cut(&mut self, features: u64, pool: &Pool, packets: &mut Vec<Packet>) {
        self.counters.note_split(split_in_tunnels(pool, packets));
        if packets.iter().all(|packet| takes(features, packet)) {
            return;
        }
        for packet in std::mem::take(packets) {
            if takes(features, &packet) {
                packets.push(packet);
                continue;
            }
            match split(pool, packet, pool.room() as usize, packets) {
                Ok(split) => self.counters.note_split(split),
                Err(packet) => packets.push(packet),
            }
        }
    }
}

impl Port for VhostUserPort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.refresh();
        let pieces = self.cutting.go_on(pool, now, budget, &mut self.counters, out);
        let desk = self.desk.clone();
        let Some(mut rings) = desk.try_rings() else { return };
        self.awake(&rings);
        if self.take(&mut rings, pool, now, budget - pieces, out).is_err() {
            self.hang_up(&mut rings);
        }
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.refresh();
        let desk = self.desk.clone();
        if let Some(mut rings) = desk.try_rings()
            && !rings.to_guest.is_empty()
        {
            if packets.iter().any(is_whole) {
                self.cut(rings.features, pool, packets);
            }
            if self.give(&mut rings, pool, packets).is_err() {
                self.hang_up(&mut rings);
            }
        }
        if !packets.is_empty() {
            self.counters.ledger.dropped[DropReason::PortDown] += packets.len() as u64;
            pool.free_batch(packets.drain(..));
        }
    }

    fn wake(&self) -> Wake<'_> {
        if self.attendant.is_none() {
            return Wake::default();
        }
        self.slept.set(true);
        let Some(rings) = self.desk.try_rings() else { return Wake::NOW };
        let mut queues = rings.from_guest.iter().filter_map(|n| rings.queues[usize::from(*n)].as_ref());
        let idle = queues.all(|queue| {
            queue.will_sleep();
            queue.waiting() == Ok(0)
        });
        if !idle || self.desk.bells.has_unread() || self.cutting.is_under_way() {
            return Wake::NOW;
        }
        Wake { readable: Some(self.desk.bells.readable()), news: Some(self.desk.bells.news()), at: None }
    }

    fn status(&self) -> PortStatus {
        self.condition.status().clone()
    }

    fn maintain(&mut self, _now: Nanos) -> Vec<PortEvent> {
        self.refresh();
        self.condition.take_events()
    }

    fn backlog(&self) -> usize {
        BACKLOG
    }

    fn capacity(&self) -> Option<usize> {
        Some(CAPACITY)
    }

    fn room(&self) -> usize {
        if !self.condition.is_up() {
            return usize::MAX;
        }
        if self.room.get() < CAPACITY / 2
            && let Some(rings) = self.desk.try_rings()
        {
            self.room.set(room_of(&rings, true));
        }
        self.room.get()
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn reads_flow_hash(&self) -> bool {
        self.settings.queues > 1
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        vec![("peers", self.peers), ("peers_refused", self.desk.refused.load(Relaxed))]
    }

    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        // What the guest has filled and the port has not taken was never received.
        self.ended = self.attendant.take().inspect(Attendant::end);
        self.cutting.give_up(&mut self.counters);
        self.condition.down(format!("socket `{}` was closed", self.settings.socket));
        self.condition.take_events();
        Ok(())
    }
}

/// Packets that find room in the fullest ring to the guest.
#[inline]
fn room_of(rings: &Rings, anew: bool) -> usize {
    let queues = rings.to_guest.iter().filter_map(|n| rings.queues[usize::from(*n)].as_ref());
    queues.map(|queue| queue.room(CAPACITY, anew)).min().unwrap_or(usize::MAX)
}

/// Whether the guest takes a packet as it is.
#[inline]
fn takes(features: u64, packet: &Packet) -> bool {
    if !is_whole(packet) {
        return true;
    }
    let kind = packet.record().gso_type;
    let needed = match kind & !offload::GSO_ECN {
        offload::GSO_TCPV4 => GUEST_CSUM | GUEST_TSO4,
        offload::GSO_TCPV6 => GUEST_CSUM | GUEST_TSO6,
        _ => return false,
    };
    let needed = needed | if kind & offload::GSO_ECN != 0 { GUEST_ECN } else { 0 };
    features & needed == needed
}

/// What the guest is to be told about a packet: without a checksum to be completed no place of one.
#[inline]
fn header_of(record: &PacketRecord) -> VnetHeader {
    match record.offload_flags & offload::NEEDS_CHECKSUM {
        0 => VnetHeader { csum_start: 0, csum_offset: 0, ..VnetHeader::of(record) },
        _ => VnetHeader::of(record),
    }
}

/// The ring of a flow among so many.
#[inline]
pub(crate) fn queue_of(flow_hash: u32, queues: usize) -> usize {
    ((u64::from(flow_hash) * queues as u64) >> 32) as usize
}
