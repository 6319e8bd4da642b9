//! Ports that take the time: of one packet after another, or of each packet of a steady load.

use crate::feed::{Frames, Supply, deliver};
use packet_memory::{Packet, Pool};
use port::{Port, PortCounters, Wake};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use telemetry::clock::{Clock, Nanos};

/// What source and sink share.
#[derive(Debug)]
pub(crate) struct Timing {
    clock: Clock,
    /// Times between being due and coming out, in nanoseconds.
    times: Mutex<Vec<u64>>,
    /// The packet that was sent has come out.
    back: AtomicBool,
}

impl Timing {
    pub(crate) fn new(clock: Clock) -> Arc<Timing> {
        Arc::new(Timing { clock, times: Mutex::default(), back: AtomicBool::new(true) })
    }

    /// Takes out what was taken so far.
    pub(crate) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A sink that looks how long each packet took from the time in its record.
pub(crate) struct Echo {
    timing: Arc<Timing>,
    counters: PortCounters,
}

impl Echo {
    pub(crate) fn new(timing: Arc<Timing>) -> Echo {
        Echo { timing, counters: PortCounters::default() }
    }
}

/// A source of one packet at a time.
pub(crate) struct Pinger {
    timing: Arc<Timing>,
    counters: PortCounters,
    sent: u32,
}

impl Pinger {
    pub(crate) fn new(timing: Arc<Timing>) -> Pinger {
        Pinger { timing, counters: PortCounters::default(), sent: 0 }
    }
}

/// Frames at a rate.
#[derive(Clone)]
pub(crate) struct Pace {
    pub(crate) frames: Frames,
    /// Packets a second.
    pub(crate) rate: f64,
    pub(crate) clock: Clock,
}

/// A source at a steady rate; each packet's record says when it was due.
pub(crate) struct Paced {
    pace: Pace,
    next: usize,
    began: Option<Nanos>,
    sent: u64,
    counters: PortCounters,
}

impl Paced {
    pub(crate) fn new(pace: Pace, first: usize) -> Paced {
        let next = first % pace.frames.count().max(1);
        Paced { pace, next, began: None, sent: 0, counters: PortCounters::default() }
    }

    /// When a packet is due, from the beginning.
    fn due(&self, number: u64) -> Nanos {
        Nanos((number as f64 * 1e9 / self.pace.rate) as u64)
    }
}

impl Port for Paced {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let now = self.pace.clock.now();
        let began = *self.began.get_or_insert(now);
        let elapsed = now.since(began).0 as f64;
        let due = (elapsed * self.pace.rate / 1e9) as u64 + 1;
        let wanted = due.saturating_sub(self.sent).min(budget as u64) as usize;
        if wanted == 0 {
            return;
        }
        let first = out.len();
        let count = pool.allocate_batch(wanted, out);
        for packet in &mut out[first..] {
            self.next = self.pace.frames.write(pool, packet, now, self.next);
            let at = began.saturating_add(self.due(self.sent));
            packet.edit(|record| record.timestamp = at.0);
            self.sent += 1;
        }
        self.counters.ledger.generated += count as u64;
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        deliver(&mut self.counters, pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        match self.began {
            Some(began) => Wake::at(began.saturating_add(self.due(self.sent))),
            None => Wake::NOW,
        }
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn backlog(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

impl Port for Pinger {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if budget == 0 || !self.timing.back.swap(false, Relaxed) {
            return;
        }
        let Some(mut packet) = pool.allocate() else {
            self.timing.back.store(true, Relaxed);
            return;
        };
        let mut numbers = crate::frames::Numbers(u64::from(self.sent));
        let frame = crate::chain::last_rule_flow(&mut numbers).frame(0, self.sent);
        self.sent += 1;
        let written = pool.write(&mut packet, &frame).and_then(|()| pool.set_length(&mut packet, 256));
        debug_assert!(written.is_ok(), "a frame fits into a buffer");
        let now = self.timing.clock.now();
        packet.edit(|record| record.timestamp = now.0);
        out.push(packet);
        self.counters.ledger.generated += 1;
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        deliver(&mut self.counters, pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        if self.timing.back.load(Relaxed) { Wake::NOW } else { Wake::default() }
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn backlog(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

impl Port for Echo {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        let now = self.timing.clock.now();
        {
            let mut times = self.timing.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.extend(packets.iter().map(|packet| now.since(Nanos(packet.record().timestamp)).0));
        }
        deliver(&mut self.counters, pool, packets);
        self.timing.back.store(true, Relaxed);
    }

    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn backlog(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}
