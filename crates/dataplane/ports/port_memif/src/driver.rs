//! The port itself: copying packets into and out of the rings.

use crate::attendant;
use crate::config::QUEUES_MAX;
use crate::desk::{Desk, Session};
use crate::ends::{OutOfStep, Receiver, Unsent};
use crate::handshake::Joined;
use crate::regions::BYTES_MAX;
use crate::{Peers, Role, Settings};
use local_socket::{Attendant, OpenError, check_path};
use packet_memory::{Packet, PageKind, Pool};
use port::{Condition, Port, PortCounters, PortEvent, PortStatus, Wake};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::{finish_checksum, is_whole, split};

/// A memif port. See the crate's documentation.
#[derive(Debug)]
pub struct MemifPort {
    settings: Settings,
    attendant: Option<Attendant<Desk>>,
    /// That of a port that was closed. Its thread is waited for when the port is dropped, not by the worker.
    ended: Option<Attendant<Desk>>,
    session: Option<Session>,
    counters: PortCounters,
    /// Peers that were connected.
    peers: u64,
    condition: Condition,
    /// The worker may have slept: the peer may have woken it.
    slept: Cell<bool>,
    /// The ring that is taken from first.
    turn: usize,
}

impl Settings {
    /// What a schema cannot say of them.
    ///
    /// # Errors
    /// [`OpenError::Setting`].
    pub fn check(&self) -> Result<(), OpenError> {
        let refused = |key, found: u32, allowed| Err(OpenError::setting(key, found, allowed));
        check_path(&self.socket)?;
        if !self.ring.is_power_of_two() || !(64..=4096).contains(&self.ring) {
            return refused("ring", self.ring, "a power of two from 64 to 4096");
        }
        if !(256..=16_384).contains(&self.buffer) {
            return refused("buffer", self.buffer, "256 to 16384 bytes");
        }
        if !(1..=QUEUES_MAX as u32).contains(&self.queues) {
            return refused("queues", self.queues, "1 to 16");
        }
        let bytes = u64::from(self.ring) * u64::from(self.buffer) * 2 * u64::from(self.queues);
        if self.role == Role::Slave && bytes > BYTES_MAX {
            let allowed = "with `ring` and `buffer` at most 256 MiB, both ways together";
            return refused("queues", self.queues, allowed);
        }
        if self.write && self.role == Role::Master {
            let allowed = "false of a master, whose peer makes the memory";
            return Err(OpenError::Setting("write", "true".into(), allowed));
        }
        if self.secret.as_ref().is_some_and(|secret| secret.len() > 24) {
            return Err(OpenError::Setting("secret", "a longer one".into(), "at most 24 bytes"));
        }
        Ok(())
    }
}

impl MemifPort {
    /// Opens the port. A socket that cannot be made or reached yet is tried again; the port is down until
    /// there is a peer.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(settings: Settings) -> Result<MemifPort, OpenError> {
        settings.check()?;
        if settings.write {
            return Err(OpenError::Setting("write", "true".into(), "a port of a tenant with a pool"));
        }
        MemifPort::start(settings, None)
    }

    /// The same of a port of a tenant with this pool, which its peer gets if `write` is set.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_over(settings: Settings, pool: &Arc<Pool>, peers: &Peers) -> Result<MemifPort, OpenError> {
        settings.check()?;
        let shared = settings.write.then(|| (pool.clone(), peers.clone()));
        if settings.write && pool.memory().pages() == PageKind::Huge {
            let allowed = "with a pool of ordinary pages: a peer could give huge ones back";
            return Err(OpenError::Setting("write", "true".into(), allowed));
        }
        if settings.write && settings.ring * settings.queues > pool.config().buffers / 4 {
            let allowed = "at most a quarter of the pool's buffers in all rings of a direction, with `write`";
            return Err(OpenError::setting("ring", settings.ring, allowed));
        }
        MemifPort::start(settings, shared)
    }

    fn start(settings: Settings, shared: Option<(Arc<Pool>, Peers)>) -> Result<MemifPort, OpenError> {
        let attendant = attendant::start(&settings, shared)
            .map_err(|error| OpenError::System(settings.socket.clone(), error))?;
        let condition = Condition::new(PortStatus::Down(attendant.desk().reason()));
        Ok(MemifPort {
            settings,
            attendant: Some(attendant),
            ended: None,
            session: None,
            counters: PortCounters::default(),
            peers: 0,
            condition,
            slept: Cell::new(false),
            turn: 0,
        })
    }

    /// Buffers that can be filled now in the fullest ring towards the peer; none without a peer. What is sent
    /// beyond is lost (`port-full`), so that a sender that may lose nothing asks.
    pub fn room_in_rings(&self) -> usize {
        let rooms = self.session.iter().flat_map(|session| &session.joined.senders);
        rooms.map(|sender| sender.room().map_or(0, usize::from)).min().unwrap_or(0)
    }

    /// Takes up what the attendant has left.
    #[inline]
    fn refresh(&mut self) {
        let Some(attendant) = &self.attendant else { return };
        if self.slept.take() {
            attendant.desk().bells.clear();
            if let Some(session) = &self.session {
                session.joined.receivers.iter().for_each(Receiver::poll);
            }
        }
        if attendant.desk().bells.has_news() {
            self.take_news();
        }
    }

    #[cold]
    fn take_news(&mut self) {
        let Some(attendant) = &self.attendant else { return };
        // The end of one before the beginning of the next, however close together.
        let has_ended = |session: &Session| session.line.ended.load(Acquire);
        self.session.take_if(|session| has_ended(session));
        if let Some(session) = attendant.desk().take_session() {
            self.session = Some(session).filter(|session| !has_ended(session));
            self.peers += 1;
        }
        match &self.session {
            Some(session) => {
                let Joined { senders, receivers, .. } = &session.joined;
                let (to, from) = (senders.len(), receivers.len());
                self.condition.up(&format!("a peer is connected; rings: {to} to it, {from} from it"));
            }
            None => self.condition.down(attendant.desk().reason()),
        }
    }

    /// The peer has written what cannot be: it is not talked to any more.
    #[cold]
    fn hang_up(&mut self) {
        if let Some(session) = self.session.take() {
            session.line.cut_off.store(true, Release);
            session.line.hang_up();
            self.condition.down(format!("the peer was cut off: {OutOfStep}"));
        }
    }

    /// Copies packets out of the rings, in their turns: each gets its part of the budget, and what others
    /// leave of theirs.
    #[inline]
    fn take(
        &mut self,
        pool: &Pool,
        now: Nanos,
        mut budget: usize,
        out: &mut Vec<Packet>,
    ) -> Result<(), OutOfStep> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let receivers = &mut session.joined.receivers;
        self.turn = if self.turn + 1 < receivers.len() { self.turn + 1 } else { 0 };
        let (before, from) = receivers.split_at_mut(self.turn);
        let mut others = before.len() + from.len();
        for receiver in from.iter_mut().chain(before) {
            let share = if others > 1 { budget.div_ceil(others) } else { budget };
            others -= 1;
            let mut available = receiver.available()?;
            if available == 0 || share == 0 {
                continue;
            }
            let mut left = share;
            let (most, mut kept, mut bytes) = (left.min(usize::from(available)), out.len(), 0);
            receiver.fetch(most);
            pool.allocate_batch(most, out);
            while available > 0 && left > 0 {
                let (used, taken) = receiver.take(pool, available, out.get_mut(kept));
                available -= used;
                left -= 1;
                match taken {
                    Ok(length) => {
                        out[kept].edit(|record| record.timestamp = now.0);
                        bytes += u64::from(length);
                        kept += 1;
                    }
                    Err(reason) => self.counters.lose(reason, pool, kept, out),
                }
            }
            self.counters.ledger.received += (share - left) as u64;
            self.counters.received_bytes += bytes;
            budget -= share - left;
            receiver.release();
            // What several buffers made one packet of, and what was lost.
            pool.free_batch(out.drain(kept..));
        }
        Ok(())
    }

    /// Copies packets into the rings, each into that of its flow, as many as there is room for, and wakes the
    /// peer where it sleeps. All packets end here.
    #[inline]
    fn give(&mut self, pool: &Pool, packets: &mut Vec<Packet>) -> Result<(), OutOfStep> {
        let (Some(session), Some(attendant)) = (&mut self.session, &self.attendant) else { return Ok(()) };
        let senders = &mut session.joined.senders;
        let (mut delivered, mut bytes, mut begun, mut used_queues, mut failed) = (0, 0, 0u32, 0u32, false);
        let mut left = packets.len();
        for packet in packets.iter_mut() {
            finish_checksum(pool, packet);
            let queue = queue_of(packet.record().flow_hash, senders.len());
            let mut length = 0;
            let put = if failed {
                Err(DropReason::PortDown)
            } else if is_whole(packet) {
                Err(DropReason::PortRefused)
            } else {
                let sender = &mut senders[queue];
                if begun >> queue & 1 == 0 {
                    begun |= 1 << queue;
                    sender.fetch(left);
                }
                length = packet.length();
                sender.put(pool, packet).map_err(|unsent| {
                    failed = unsent == Unsent::OutOfStep;
                    if failed { DropReason::PortDown } else { DropReason::PortFull }
                })
            };
            left -= 1;
            match put {
                Ok(()) => {
                    used_queues |= 1 << queue;
                    delivered += 1;
                    bytes += u64::from(length);
                }
                Err(reason) => self.counters.ledger.dropped[reason] += 1,
            }
        }
        pool.free_batch(packets.drain(..));
        self.counters.ledger.delivered += delivered;
        self.counters.delivered_bytes += bytes;
        let mut sleepers = 0;
        for (queue, sender) in senders.iter().enumerate().filter(|(queue, _)| used_queues >> queue & 1 == 1) {
            sender.publish();
            sleepers |= u32::from(sender.should_wake()) << queue;
        }
        if sleepers != 0 {
            attendant.desk().bells.wake_peer(sleepers);
        }
        if failed { Err(OutOfStep) } else { Ok(()) }
    }

    /// Puts its segments in the place of each packet that is still to be cut: the interface carries no such
    /// state.
    #[cold]
    fn cut(&mut self, pool: &Pool, packets: &mut Vec<Packet>) {
        for packet in std::mem::take(packets) {
            match split(pool, packet, pool.room() as usize, packets) {
                Ok(split) => self.counters.note_split(split),
                Err(packet) => packets.push(packet),
            }
        }
    }
}

impl Port for MemifPort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.refresh();
        if self.take(pool, now, budget, out).is_err() {
            self.hang_up();
        }
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.refresh();
        if self.condition.is_up() {
            if packets.iter().any(is_whole) {
                self.cut(pool, packets);
            }
            if self.give(pool, packets).is_err() {
                self.hang_up();
            }
        }
        self.counters.ledger.dropped[DropReason::PortDown] += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }

    fn wake(&self) -> Wake<'_> {
        let Some(attendant) = &self.attendant else { return Wake::default() };
        self.slept.set(true);
        let idle = self.session.as_ref().is_none_or(|session| {
            session.joined.receivers.iter().all(|receiver| {
                receiver.will_sleep();
                receiver.available() == Ok(0)
            })
        });
        if !idle || attendant.desk().bells.has_unread() {
            return Wake::NOW;
        }
        let bells = &attendant.desk().bells;
        Wake { readable: Some(bells.readable()), news: Some(bells.news()), at: None }
    }

    fn status(&self) -> PortStatus {
        self.condition.status().clone()
    }

    fn maintain(&mut self, _now: Nanos) -> Vec<PortEvent> {
        if self.attendant.as_ref().is_some_and(|attendant| attendant.desk().bells.has_news()) {
            self.take_news();
        }
        self.condition.take_events()
    }

    fn backlog(&self) -> usize {
        self.settings.ring as usize / 2
    }

    fn capacity(&self) -> Option<usize> {
        Some(self.settings.ring as usize)
    }

    /// Of the fullest ring, in the measure of the port's own: a peer decides how long rings are, and may
    /// never offer all of their buffers.
    fn room(&self) -> usize {
        let all = self.settings.ring as usize;
        let rooms = self.session.iter().flat_map(|session| &session.joined.senders).map(|sender| {
            let room = sender.free().map_or(usize::MAX, usize::from);
            room.saturating_mul(all) / sender.most_room().max(1)
        });
        rooms.min().unwrap_or(usize::MAX)
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn reads_flow_hash(&self) -> bool {
        self.settings.queues > 1
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let refused = self.attendant.as_ref().map_or(0, |attendant| attendant.desk().refused.load(Relaxed));
        vec![("peers", self.peers), ("peers_refused", refused)]
    }

    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        // What the peer has filled and the port has not taken was never received.
        self.session = None;
        self.ended = self.attendant.take().inspect(Attendant::end);
        self.condition.down(format!("socket `{}` was closed", self.settings.socket));
        self.condition.take_events();
        Ok(())
    }
}

/// The ring of a flow among so many.
#[inline]
pub(crate) fn queue_of(flow_hash: u32, queues: usize) -> usize {
    ((u64::from(flow_hash) * queues as u64) >> 32) as usize
}
