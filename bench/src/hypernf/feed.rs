//! Where packets come from and go to in the experiments: ports that cost as little as a NIC's rings would.

use crate::frames::Frame;
use clock::Nanos;
use packet_memory::{Packet, Pool};
use port::{Port, PortCounters, Wake};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Frames to send, in turn.
#[derive(Clone, Debug)]
pub(crate) enum Frames {
    /// The first bytes of each; what follows, up to the size, is whatever the buffer holds.
    Heads {
        /// All different.
        heads: Arc<Vec<Frame>>,
        /// Bytes of each frame.
        size: usize,
    },
    /// Whole frames, for functions that read all of them.
    Whole(Arc<Vec<Vec<u8>>>),
}

impl Frames {
    /// Writes a frame into a packet; returns which one is next.
    #[inline]
    pub(crate) fn write(&self, pool: &Pool, packet: &mut Packet, number: usize) -> usize {
        let number = number % self.count().max(1);
        let written = match self {
            Frames::Heads { heads, size } => {
                pool.write(packet, &heads[number]).and_then(|()| pool.set_length(packet, *size))
            }
            Frames::Whole(frames) => pool.write(packet, &frames[number]),
        };
        debug_assert!(written.is_ok(), "a frame fits into a buffer");
        if number + 1 == self.count() { 0 } else { number + 1 }
    }

    fn count(&self) -> usize {
        match self {
            Frames::Heads { heads, .. } => heads.len(),
            Frames::Whole(frames) => frames.len(),
        }
    }
}

/// A source that always has a packet, as long as its gate is open.
pub(crate) struct Feed {
    frames: Frames,
    next: usize,
    open: Arc<AtomicBool>,
    counters: PortCounters,
}

impl Feed {
    /// Begins at frame `first`; whoever shares frames begins elsewhere.
    pub(crate) fn new(frames: Frames, first: usize, open: Arc<AtomicBool>) -> Feed {
        let next = first % frames.count().max(1);
        Feed { frames, next, open, counters: PortCounters::default() }
    }
}

impl Port for Feed {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if !self.open.load(Relaxed) {
            return;
        }
        let first = out.len();
        let count = pool.allocate_batch(budget, out);
        for packet in &mut out[first..] {
            self.next = self.frames.write(pool, packet, self.next);
        }
        self.counters.ledger.generated += count as u64;
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }

    fn wake(&self) -> Wake<'_> {
        if self.open.load(Relaxed) { Wake::NOW } else { Wake::default() }
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn patience(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// An end that counts where others can see it.
pub(crate) struct Counter {
    delivered: Arc<AtomicU64>,
    counters: PortCounters,
}

impl Counter {
    pub(crate) fn new(delivered: Arc<AtomicU64>) -> Counter {
        Counter { delivered, counters: PortCounters::default() }
    }
}

impl Port for Counter {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        let count = packets.len() as u64;
        self.counters.ledger.delivered += count;
        // One writer: the worker that the port is on.
        self.delivered.store(self.delivered.load(Relaxed) + count, Relaxed);
        pool.free_batch(packets.drain(..));
    }

    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn patience(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}
