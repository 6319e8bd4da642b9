//! A port without an outside: takes every packet, and gives none unless told to supply.
//!
//! 1. `transmit` counts packets as delivered and frees them.
//! 2. `receive` gives nothing; with `supply`, it gives as many packets of one length as it is asked for and
//!    the pool has buffers. Nothing is written to them, so that nothing but the engine is measured.
//!
//! Limits: supplied packets have arbitrary bytes, of the same tenant's earlier packets. A supplying port is
//! always ready to be received from, so its worker never sleeps.

mod config;
#[cfg(test)]
mod tests;

pub use config::{Config, SCHEMA};

use crate::unfit::Unfit;
use crate::{Port, PortCounters, PortEvent, Wake};
use packet_memory::{Packet, Pool};
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// A port without an outside. See the module's documentation.
#[derive(Debug)]
pub struct NullPort {
    config: Config,
    counters: PortCounters,
    unfit: Unfit,
}

impl NullPort {
    /// Opens the port.
    pub fn new(config: Config) -> NullPort {
        NullPort { config, counters: PortCounters::default(), unfit: Unfit::default() }
    }
}

impl Port for NullPort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if !self.config.supply {
            return;
        }
        let first = out.len();
        let offered = if self.unfit.applies(pool, self.config.size) {
            self.counters.ledger.dropped[DropReason::TooLong] += budget as u64;
            budget
        } else {
            pool.allocate_batch(budget, out)
        } as u64;
        for packet in &mut out[first..] {
            // Cannot fail: the length was just compared with the pool's.
            let _ = pool.set_length(packet, self.config.size as usize);
            packet.edit(|record| record.timestamp = now.0);
        }
        self.counters.ledger.received += offered;
        self.counters.received_bytes += offered * u64::from(self.config.size);
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.deliver(pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        if self.config.supply { Wake::NOW } else { Wake::default() }
    }

    fn maintain(&mut self, _now: Nanos) -> Vec<PortEvent> {
        self.unfit.take().into_iter().collect()
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
