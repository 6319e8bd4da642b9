//! A port that gives frames from memory again and again, as the peers' capture ports do, and takes everything.

use clock::Nanos;
use packet_memory::{Packet, Pool};
use peers::frames::Frame;
use port::{Port, PortCounters, Wake};

/// See the module's documentation.
pub(super) struct Feed {
    frames: Vec<Frame>,
    next: usize,
    counters: PortCounters,
}

impl Feed {
    /// Gives these frames, of which there is one at least.
    pub(super) fn new(frames: Vec<Frame>) -> Feed {
        Feed { frames, next: 0, counters: PortCounters::default() }
    }
}

impl Port for Feed {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let first = out.len();
        let count = pool.allocate_batch(budget, out);
        for packet in &mut out[first..] {
            let written = pool.write(packet, &self.frames[self.next]);
            debug_assert!(written.is_ok(), "a frame fits into a buffer");
            packet.edit(|record| record.timestamp = now.0);
            self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
        }
        self.counters.ledger.generated += count as u64;
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }

    fn wake(&self) -> Wake<'_> {
        Wake::NOW
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}
