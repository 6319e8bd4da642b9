//! The port itself: giving packets to the process, and taking back what it sends and returns.

use crate::attendant::{self, Desk};
use crate::belief::believe;
use crate::custody::{Batch, Lent};
use crate::session::Session;
use crate::{DeviceTable, Processes, Settings};
use local_socket::{Attendant, OpenError, check_path};
use native_abi::{Descriptor, Layout, SIZE_MAX, SIZE_MIN, flags};
use native_ring::{OutOfStep, sleep};
use packet_memory::{Buffer, Packet, Pool, prefetch};
use port::{Condition, Port, PortCounters, PortEvent, PortStatus, Wake};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// Returned buffers, and buffers that were asked for, that one poll deals with at most.
const BURST: u32 = 256;

/// A port of a native process. See the crate's documentation.
#[derive(Debug)]
pub struct NativePort {
    settings: Settings,
    attendant: Option<Attendant<Desk>>,
    /// That of a port that was closed. Its thread is waited for when the port is dropped, not by the worker.
    ended: Option<Attendant<Desk>>,
    session: Option<Session>,
    counters: PortCounters,
    /// Descriptors that named what the process does not have.
    faults: u64,
    /// Processes that were attached.
    attached: u64,
    condition: Condition,
    /// The worker may have slept: the process may have sent something to wake it.
    slept: Cell<bool>,
    /// Buffers on their way back to the pool.
    freed: Vec<Buffer>,
    /// Packets were given in this turn, for which the process is woken at its end: it would else take the
    /// processor for the first of many.
    published: Cell<bool>,
}

impl Settings {
    /// What a schema cannot say of them.
    ///
    /// # Errors
    /// [`OpenError::Setting`].
    pub fn check(&self) -> Result<(), OpenError> {
        check_path(&self.socket)?;
        Layout::new(self.ring, SIZE_MIN).map(drop).ok_or_else(|| self.no_ring())
    }

    fn no_ring(&self) -> OpenError {
        OpenError::setting("ring", self.ring, "a power of two from 64 to 4096")
    }
}

impl NativePort {
    /// Opens the port. A socket that cannot be made yet is tried again; the port is down until a process
    /// attaches.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(settings: Settings, pool: Arc<Pool>, processes: &Processes) -> Result<NativePort, OpenError> {
        NativePort::open_at_device(settings, pool, processes, &Arc::default())
    }

    /// The same of one whose processes are told of the device behind it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_at_device(
        settings: Settings,
        pool: Arc<Pool>,
        processes: &Processes,
        table: &Arc<DeviceTable>,
    ) -> Result<NativePort, OpenError> {
        settings.check()?;
        // A process never has more buffers than there are: giving them back finds room.
        let returned = pool.config().buffers.clamp(SIZE_MIN, SIZE_MAX).next_power_of_two();
        let Some(layout) = Layout::new(settings.ring, returned) else { return Err(settings.no_ring()) };
        let attendant = attendant::start(&settings, layout, &pool, processes, table)
            .map_err(|error| OpenError::System(settings.socket.clone(), error))?;
        let condition = Condition::new(PortStatus::Down(attendant.desk().reason()));
        Ok(NativePort {
            settings,
            attendant: Some(attendant),
            ended: None,
            session: None,
            counters: PortCounters::default(),
            faults: 0,
            attached: 0,
            condition,
            slept: Cell::new(false),
            freed: Vec::new(),
            published: Cell::new(false),
        })
    }

    /// The memory of the rings, for tests that write there as a process may.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> &native_ring::SharedMemory {
        &self.session.as_ref().expect("a process is attached").line.memory
    }

    /// Wakes the process if it sleeps over packets that it was given.
    #[inline]
    fn wake_process(&self) {
        if self.published.take()
            && let Some(session) = &self.session
        {
            session.wake();
        }
    }

    /// Takes up what the attendant has left.
    #[inline]
    fn refresh(&mut self) {
        let Some(attendant) = &self.attendant else { return };
        if self.slept.take() {
            attendant.desk().bells.clear();
            if let Some(session) = &self.session {
                sleep::awake(session.engine_sleeps());
                session.line.drain();
            }
        }
        if attendant.desk().bells.has_news() {
            self.take_news();
        }
    }

    #[cold]
    fn take_news(&mut self) {
        let Some(attendant) = &self.attendant else { return };
        let was_up = self.condition.is_up();
        // The end of one before the beginning of the next, however close together.
        if self.session.as_ref().is_some_and(|session| session.line.has_ended()) {
            self.session = None;
        }
        let has_come = attendant.desk().take_session().is_some_and(|session| {
            self.session = Some(session);
            self.attached += 1;
            true
        });
        match &self.session {
            Some(session) if session.line.has_ended() => self.session = None,
            _ => {}
        }
        match &self.session {
            Some(session) if !session.line.hung.load(Acquire) => {
                let pid = session.line.process.pid;
                if was_up && has_come {
                    self.condition.notice(format!("process {pid} has taken over"));
                }
                self.condition.up(&format!("process {pid} is attached"));
            }
            _ => self.condition.down(attendant.desk().reason()),
        }
    }

    /// The process has written what cannot be: it is not talked to any more.
    #[cold]
    fn hang_up(&mut self) {
        if let Some(session) = self.session.take() {
            session.line.cut_off.store(true, Release);
            session.line.hang_up();
            let pid = session.line.process.pid;
            self.condition.down(format!("process {pid} was cut off: {OutOfStep}"));
        }
    }

    /// Takes back what the process returns, and gives it empty buffers that it asked for.
    #[inline]
    fn exchange(&mut self, pool: &Pool) -> Result<(), OutOfStep> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let returned = session.returned.available()?.min(BURST);
        session.asked = session.wanted();
        let wanted = session.asked.wrapping_sub(session.given);
        if returned == 0 && wanted == 0 {
            return Ok(());
        }
        let process = session.line.process.clone();
        let mut custody = process.custody();
        let (ended, mut had) = (custody.has_ended(), custody.batch());
        session.returned.pop_each(returned, |[number]| {
            match u32::try_from(number).ok().and_then(|number| had.take_back(number)) {
                Some(lent) => self.freed.push(lent.buffer),
                None => self.faults += u64::from(!ended),
            }
        });
        drop(had);
        if returned > 0 {
            session.returned.release();
        }
        if wanted > 0 && self.settings.write {
            let room = session.packets.room()?.min(BURST).min(wanted) as usize;
            let mut empty = Vec::new();
            pool.allocate_batch(room.min(custody.room()), &mut empty);
            session.given = session.given.wrapping_add(empty.len() as u32);
            session.packets.push_all(empty.into_iter().filter_map(|packet| {
                let number = number_of(pool, &packet);
                let (offset, length) = (packet.offset(), pool.room());
                let descriptor = Descriptor {
                    buffer: number,
                    offset,
                    length,
                    flags: flags::EMPTY,
                    ..Descriptor::default()
                };
                lend(&mut custody.batch(), Lent::of(packet, pool), &descriptor, &mut self.freed)
            }));
            session.packets.publish();
            session.wake();
        }
        drop(custody);
        if !self.freed.is_empty() {
            pool.return_buffers(self.freed.drain(..));
        }
        Ok(())
    }

    /// Takes packets that the process sends.
    #[inline]
    fn take_sent(
        &mut self,
        pool: &Pool,
        now: Nanos,
        budget: usize,
        out: &mut Vec<Packet>,
    ) -> Result<(), OutOfStep> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let available = session.sent.available()?;
        if available == 0 || budget == 0 {
            return Ok(());
        }
        let process = session.line.process.clone();
        let (mut custody, write) = (process.custody(), self.settings.write);
        let (mut received, mut bytes, ended) = (0, 0, custody.has_ended());
        let mut had = custody.batch();
        session.sent.pop_each(available.min(u32::try_from(budget).unwrap_or(u32::MAX)), |words| {
            let descriptor = Descriptor::from_words(words);
            let Some(lent) = had.take_back(descriptor.buffer) else {
                self.faults += u64::from(!ended);
                return;
            };
            received += 1;
            if let Err(buffer) = believe(lent, &descriptor, pool, write, now, out) {
                self.counters.ledger.dropped[DropReason::Malformed] += 1;
                self.freed.push(buffer);
            } else if let Some(packet) = out.last() {
                bytes += u64::from(packet.length());
                // The process has written there; it is classified when all have been taken.
                prefetch(pool.data(packet));
            }
        });
        drop(had);
        self.counters.ledger.received += received;
        self.counters.received_bytes += bytes;
        if session.sent.release() {
            session.line.wake_sender();
        }
        drop(custody);
        if !self.freed.is_empty() {
            pool.return_buffers(self.freed.drain(..));
        }
        Ok(())
    }

    /// Gives packets to the process, as many as there is room for; the others stay.
    #[inline]
    fn give_packets(&mut self, pool: &Pool, packets: &mut Vec<Packet>) -> Result<(), OutOfStep> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let room = session.packets.room_for(packets.len() as u32)? as usize;
        let process = session.line.process.clone();
        let mut custody = process.custody();
        let count = packets.len().min(room).min(custody.room());
        let (mut bytes, mut lending) = (0, custody.batch());
        session.packets.push_all(packets.drain(..count).filter_map(|packet| {
            let descriptor = describe(pool, &packet);
            bytes += u64::from(packet.length());
            lend(&mut lending, Lent::of(packet, pool), &descriptor, &mut self.freed)
        }));
        drop(lending);
        self.counters.delivered_bytes += bytes;
        drop(custody);
        self.counters.ledger.delivered += (count - self.freed.len()) as u64;
        // A buffer that is lent twice would be a defect of the engine.
        self.counters.ledger.dropped[DropReason::PortRefused] += self.freed.len() as u64;
        pool.return_buffers(self.freed.drain(..));
        session.packets.publish();
        self.published.set(true);
        Ok(())
    }
}

/// Notes that the process has a packet's buffer; the descriptor, for the ring.
#[inline(always)]
fn lend(
    custody: &mut Batch<'_>,
    lent: Lent,
    descriptor: &Descriptor,
    refused: &mut Vec<Buffer>,
) -> Option<[u64; 4]> {
    match custody.lend(descriptor.buffer, lent) {
        Ok(()) => Some(descriptor.to_words()),
        Err(lent) => {
            refused.push(lent.buffer);
            None
        }
    }
}

/// The number of a packet's buffer in its pool.
#[inline]
fn number_of(pool: &Pool, packet: &Packet) -> u32 {
    packet.buffer().wrapping_sub(nf_abi::WINDOW_BASE) >> pool.buffer_size().trailing_zeros()
}

/// What the process is told of a packet.
#[inline(always)]
fn describe(pool: &Pool, packet: &Packet) -> Descriptor {
    let record = packet.record();
    Descriptor {
        buffer: number_of(pool, packet),
        offset: packet.offset(),
        length: packet.length(),
        flow_hash: record.flow_hash,
        mark: record.mark,
        flags: record.offload_flags & (flags::NEEDS_CHECKSUM | flags::CHECKSUM_VALID),
        gso_type: record.gso_type,
        gso_size: record.gso_size,
        csum_start: record.csum_start,
        csum_offset: record.csum_offset,
    }
}

impl Port for NativePort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.refresh();
        // What a port around this one sent by itself ends with no turn.
        self.wake_process();
        if self.exchange(pool).and_then(|()| self.take_sent(pool, now, budget, out)).is_err() {
            self.hang_up();
            pool.return_buffers(self.freed.drain(..));
        }
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.refresh();
        let mut reason = DropReason::PortDown;
        if self.condition.is_up() {
            reason = DropReason::PortFull;
            if self.give_packets(pool, packets).is_err() {
                self.hang_up();
                reason = DropReason::PortDown;
            }
        }
        self.counters.ledger.dropped[reason] += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }

    fn wake(&self) -> Wake<'_> {
        let Some(attendant) = &self.attendant else { return Wake::default() };
        self.wake_process();
        self.slept.set(true);
        let idle = self.session.as_ref().is_none_or(|session| {
            sleep::will_sleep(session.engine_sleeps());
            session.is_idle()
        });
        if !idle || attendant.desk().bells.has_unread() {
            return Wake::NOW;
        }
        let bells = &attendant.desk().bells;
        Wake { readable: Some(bells.readable()), news: Some(bells.news()), at: None }
    }

    fn signal(&mut self) {
        self.wake_process();
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

    fn room(&self) -> usize {
        let Some(session) = self.session.as_ref().filter(|_| self.condition.is_up()) else {
            return usize::MAX;
        };
        // The next packets find out that the process is out of step.
        session.packets.free().map_or(usize::MAX, |places| places as usize)
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let of_desk = |count: fn(&Desk) -> &AtomicU64| {
            self.attendant.as_ref().map_or(0, |attendant| count(attendant.desk()).load(Relaxed))
        };
        let waiting = self.session.as_ref().map_or(0, |session| session.packets.ahead());
        let held = self.session.as_ref().map_or(0, |session| session.line.process.custody().len());
        vec![
            ("processes", self.attached),
            ("processes_attached", u64::from(self.session.is_some())),
            ("processes_refused", of_desk(|desk| &desk.refused)),
            ("processes_standby", of_desk(|desk| &desk.standby)),
            ("takeovers", of_desk(|desk| &desk.takeovers)),
            ("buffers_held", held as u64),
            ("packets_waiting", u64::from(waiting.min(self.settings.ring))),
            ("buffers_given_back", of_desk(|desk| &desk.given_back)),
            ("descriptor_faults", self.faults),
            ("asks", of_desk(|desk| &desk.asks)),
            ("message_faults", of_desk(|desk| &desk.message_faults)),
        ]
    }

    fn close(&mut self, pool: &Pool) -> Result<(), String> {
        // What the process has sent and the port has not taken was never received; its buffers are the
        // process's.
        let _ = self.exchange(pool);
        self.session = None;
        self.ended = self.attendant.take().inspect(Attendant::end);
        self.condition.down(format!("socket `{}` was closed", self.settings.socket));
        self.condition.take_events();
        Ok(())
    }
}
