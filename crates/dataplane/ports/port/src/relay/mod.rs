//! A wire from one worker to another: a rootless device, that is, a queue with a port at either end.
//!
//! 1. [`one_way`] makes both ends. Each belongs to one worker, and all of its packets to one pool.
//! 2. `transmit` puts a batch as a whole into the ring to the other end and wakes the other worker if it is
//!    seen to sleep. A batch that finds no room is dropped as `queue-full`; [`Port::room`] says how much
//!    there is at least.
//! 3. `receive` takes the oldest batch out, as it was put in: nothing is classified or counted again. One
//!    that is longer than what is asked for comes in parts.
//! 4. A sender that finds no room and has nothing else to do asks to be woken ([`Port::want_room`]) when half
//!    of the ring is free again.
//! 5. [`Port::signal`] follows at the end of the worker's turn and does not miss a receiver that was just
//!    falling asleep. To look that closely with each batch would cost more than the batch: all stores would
//!    have to reach the other core first.
//! 6. [`RelayPort::drain`] empties the ring when the wire is taken away.
//!
//! What a batch costs is one pointer in a ring, not its packets; the packets' records follow it from one
//! core's cache to the other's. What is counted does not follow with each batch: each end writes a count of
//! its own, and looks at the other's when it has to.
//!
//! Limits: one direction, so that two make a wire; 1,024 packets, as in the rings of VALE (HyperNF, section
//! 4). Packets in the ring are counted by the end that will receive them.

mod direction;
#[cfg(test)]
mod tests;

use crate::{Bell, Port, PortCounters, Wake, sync};
use direction::{Receiving, Sending, direction};
use packet_memory::{Packet, Pool};
use std::sync::Arc;
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// Most packets on their way in one direction.
pub const RELAY_PACKETS: usize = 1024;

/// One end. See the module's documentation.
pub struct RelayPort {
    end: End,
    counters: PortCounters,
}

enum End {
    Sending(Sending<Packet, RELAY_PACKETS>),
    Receiving(Receiving<Packet, RELAY_PACKETS>),
}

/// Both ends of a wire from the worker that hears the first bell to the one that hears the second: first the
/// sending end, then the receiving one.
pub fn one_way(from: Arc<Bell>, to: Arc<Bell>) -> (RelayPort, RelayPort) {
    let (sending, receiving) = direction(from, to);
    let port = |end| RelayPort { end, counters: PortCounters::default() };
    (port(End::Sending(sending)), port(End::Receiving(receiving)))
}

impl RelayPort {
    /// Takes out what is on its way to this end.
    pub fn drain(&mut self, out: &mut Vec<Packet>) {
        if let End::Receiving(receiving) = &mut self.end {
            receiving.drain(out);
        }
    }
}

impl Port for RelayPort {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let End::Receiving(receiving) = &mut self.end else { return };
        receiving.receive(budget, out);
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        if let End::Sending(sending) = &mut self.end
            && (packets.is_empty() || sending.send(packets))
        {
            return;
        }
        self.counters.ledger.dropped[DropReason::QueueFull] += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }

    fn room(&self) -> usize {
        if let End::Sending(sending) = &self.end { sending.room() } else { 0 }
    }

    fn relay(&mut self) -> Option<&mut RelayPort> {
        Some(self)
    }

    fn want_room(&self) {
        if let End::Sending(sending) = &self.end {
            sending.want_room();
        }
    }

    fn signal(&mut self) {
        match &self.end {
            End::Sending(sending) => sending.signal(),
            End::Receiving(receiving) => receiving.signal(),
        }
    }

    fn wake(&self) -> Wake<'_> {
        match &self.end {
            End::Receiving(receiving) if !receiving.is_empty() => Wake::NOW,
            _ => Wake::default(),
        }
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn backlog(&self) -> usize {
        usize::MAX
    }

    fn waits_outside(&self) -> bool {
        false
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn in_flight(&self) -> u64 {
        if let End::Receiving(receiving) = &self.end { receiving.waiting() as u64 } else { 0 }
    }

    fn close(&mut self, pool: &Pool) -> Result<(), String> {
        let mut held = Vec::new();
        self.drain(&mut held);
        self.counters.ledger.dropped[DropReason::HeldAtStop] += held.len() as u64;
        pool.free_batch(held);
        Ok(())
    }
}

impl std::fmt::Debug for RelayPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayPort").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
