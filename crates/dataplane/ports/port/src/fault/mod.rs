//! Faults between a port and the functions: loss, delay, reordering, duplicates, cut and flipped bits, a
//! rate. For either direction by itself, and the same again for the same seed and the same packets.
//!
//! 1. [`FaultPort::new`] stands before any other port.
//! 2. `receive` takes what the port has, decides about each packet by its number ([`dice`]), does what was
//!    decided, and holds it until its time ([`line`]). What is due is given; `transmit` does the same on the
//!    other way.
//! 3. `wake` says when the next packet is due, in either direction; `receive` sends what has become due to go
//!    out.
//! 4. `close` drops what is still held, as `held-at-stop`.
//!
//! Limits: a port with faults holds at most [`Config::held`] packets in each direction, and needs as many
//! buffers; what comes beyond is dropped as `port-full`. What is lost on purpose is dropped as
//! `injected-fault`, a duplicate is counted as copied. A delay is never shorter than asked for; how much
//! longer depends on when the worker looks.

mod config;
mod dice;
mod line;
mod spoil;
#[cfg(test)]
mod tests;

pub use config::{Config, Direction, MOST_OVERTAKING, SCHEMA};

use crate::{Port, PortCounters, PortEvent, PortStatus, Wake};
use dice::Dice;
use line::{Happened, Line};
use packet_memory::{Packet, Pool};
use telemetry::clock::Nanos;

/// A port whose packets are spoiled. See the module's documentation.
pub struct FaultPort {
    inner: Box<dyn Port>,
    receive: Line,
    transmit: Line,
    /// Packets between the inner port and a line, never for longer than a call.
    passing: Vec<Packet>,
    /// Of the inner port and both directions.
    counters: PortCounters,
}

impl FaultPort {
    /// Stands before a port.
    pub fn new(inner: Box<dyn Port>, config: Config) -> FaultPort {
        let line = |direction, number| Line::new(direction, config.held, Dice::new(config.seed, number));
        let mut port = FaultPort {
            receive: line(config.receive, 0),
            transmit: line(config.transmit, 1),
            passing: Vec::new(),
            counters: PortCounters::default(),
            inner,
        };
        port.count();
        port
    }

    /// Hands out what has become due, if anything has.
    fn flush(&mut self, pool: &Pool, now: Nanos) -> bool {
        self.transmit.take(now, usize::MAX, &mut self.passing);
        let is_due = !self.passing.is_empty();
        if is_due {
            self.inner.transmit(pool, now, &mut self.passing);
        }
        is_due
    }

    fn count(&mut self) {
        self.counters.clone_from(self.inner.counters());
        for line in [&self.receive, &self.transmit] {
            self.counters.ledger.merge(&line.ledger);
        }
    }

    fn held(&self) -> usize {
        self.receive.held() + self.transmit.held()
    }
}

impl Port for FaultPort {
    delegate_to_inner!();

    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if self.flush(pool, now) {
            // The worker has handed out nothing in this turn, and would wake nothing at its end.
            self.inner.signal();
        }
        self.inner.receive(pool, now, budget, &mut self.passing);
        for packet in self.passing.drain(..) {
            self.receive.put(pool, now, packet);
        }
        self.receive.take(now, budget, out);
        self.count();
    }

    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        for packet in packets.drain(..) {
            self.transmit.put(pool, now, packet);
        }
        self.flush(pool, now);
        self.count();
    }

    fn wake(&self) -> Wake<'_> {
        let inner = self.inner.wake();
        let at = [inner.at, self.receive.next(), self.transmit.next()].into_iter().flatten().min();
        Wake { at, ..inner }
    }

    fn status(&self) -> PortStatus {
        match self.inner.status() {
            // There is more to come, from here.
            PortStatus::Finished if self.held() > 0 => PortStatus::Up,
            other => other,
        }
    }

    fn maintain(&mut self, now: Nanos) -> Vec<PortEvent> {
        let events = self.inner.maintain(now);
        self.count();
        events
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let mut details = self.inner.details();
        let names = [
            [
                "receive_lost",
                "receive_duplicated",
                "receive_not_duplicated",
                "receive_truncated",
                "receive_bit_flipped",
                "receive_reordered",
                "receive_overflowed",
            ],
            [
                "transmit_lost",
                "transmit_duplicated",
                "transmit_not_duplicated",
                "transmit_truncated",
                "transmit_bit_flipped",
                "transmit_reordered",
                "transmit_overflowed",
            ],
        ];
        for (names, line) in names.into_iter().zip([&self.receive, &self.transmit]) {
            let Happened { lost, duplicated, not_duplicated, truncated, flipped, reordered, overflowed } =
                line.happened;
            let counts = [lost, duplicated, not_duplicated, truncated, flipped, reordered, overflowed];
            details.extend(names.into_iter().zip(counts));
        }
        details
    }

    fn in_flight(&self) -> u64 {
        self.inner.in_flight() + self.held() as u64
    }

    fn close(&mut self, pool: &Pool) -> Result<(), String> {
        self.receive.clear(pool);
        self.transmit.clear(pool);
        let closed = self.inner.close(pool);
        self.count();
        closed
    }
}
