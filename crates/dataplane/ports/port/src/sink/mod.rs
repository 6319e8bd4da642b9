//! A port where packets end: counted as delivered, checked if wanted, freed.
//!
//! 1. `transmit` takes all packets; with `check`, headers and checksums are looked at.
//! 2. `maintain` tells the first packet that is not right, how many there were, and the rate if wanted.
//!
//! Limits: nothing ever comes from it. A check costs time in proportion to the packets' length.

mod check;
mod config;
#[cfg(test)]
mod tests;

pub use config::{Check, Config, SCHEMA};

use crate::{Port, PortCounters, PortEvent, Wake};
use check::Checker;
use packet_memory::{Packet, Pool};
use telemetry::clock::Nanos;

/// A port where packets end. See the module's documentation.
#[derive(Debug)]
pub struct SinkPort {
    config: Config,
    counters: PortCounters,
    checker: Checker,
    /// The first wrong packet since the start.
    first_wrong: Option<PortEvent>,
    told_wrong: bool,
    /// When the rate was last told, and what was counted then: packets and bytes.
    reported: Option<(Nanos, u64, u64)>,
}

impl SinkPort {
    /// Opens the port.
    pub fn new(config: Config) -> SinkPort {
        SinkPort {
            config,
            counters: PortCounters::default(),
            checker: Checker::default(),
            first_wrong: None,
            told_wrong: false,
            reported: None,
        }
    }

    fn check(&mut self, pool: &Pool, packets: &[Packet]) {
        for packet in packets {
            if let Some(what) = self.checker.look_at(pool, packet)
                && !self.told_wrong
            {
                let number = self.checker.findings.checked;
                let length = packet.length();
                self.told_wrong = true;
                self.first_wrong = Some(PortEvent::Notice(format!(
                    "packet {number}, {length} bytes long, is not right: {what}; further ones are only counted"
                )));
            }
        }
    }

    /// Packets and bits per second since the last report, when it is time for one.
    fn report(&mut self, now: Nanos) -> Option<PortEvent> {
        let interval = self.config.report?;
        let (packets, bytes) = (self.counters.ledger.delivered, self.counters.delivered_bytes);
        let (since, packets_then, bytes_then) = *self.reported.get_or_insert((now, packets, bytes));
        let elapsed = now.since(since);
        if elapsed < interval {
            return None;
        }
        self.reported = Some((now, packets, bytes));
        let rate = |count: u64| count as f64 / elapsed.as_secs_f64() / 1e6;
        let (mpps, mbps) = (rate(packets - packets_then), rate((bytes - bytes_then) * 8));
        Some(PortEvent::Notice(format!("{mpps:.3} Mpps, {mbps:.1} Mbit/s")))
    }
}

impl Port for SinkPort {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        if self.config.check != Check::None {
            self.check(pool, packets);
        }
        self.counters.deliver(pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }

    fn maintain(&mut self, now: Nanos) -> Vec<PortEvent> {
        self.first_wrong.take().into_iter().chain(self.report(now)).collect()
    }

    fn backlog(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        if self.config.check == Check::None {
            return Vec::new();
        }
        let check::Findings { checked, not_ip, malformed, wrong_checksum } = self.checker.findings;
        vec![
            ("checked", checked),
            ("not_ip", not_ip),
            ("malformed", malformed),
            ("wrong_checksum", wrong_checksum),
        ]
    }
}
