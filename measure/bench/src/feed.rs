//! Where packets come from and go to in the benches: ports that cost as little as a NIC's rings would. A feed
//! is compiled for its kind of frames, so that one kind costs another nothing.

use crate::BenchError;
use crate::chain::numbered;
use crate::frames::{DISTINCT, Frame};
use engine::Worker;
use packet_memory::{Packet, Pool};
use port::{Port, PortCounters, Wake};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use telemetry::clock::Nanos;

/// Frames that are sent in turn.
pub(crate) trait Supply: Send {
    /// How many there are.
    fn count(&self) -> usize;

    /// Writes the frame of this number, which is below [`Supply::count`], into a packet.
    fn fill(&self, pool: &Pool, packet: &mut Packet, now: Nanos, number: usize);

    /// Writes a frame into a packet; returns which one is next.
    #[inline]
    fn write(&self, pool: &Pool, packet: &mut Packet, now: Nanos, number: usize) -> usize {
        let number = if number < self.count() { number } else { 0 };
        self.fill(pool, packet, now, number);
        number + 1
    }
}

/// Frames of the same few bytes.
impl Supply for Arc<Vec<Frame>> {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn fill(&self, pool: &Pool, packet: &mut Packet, _now: Nanos, number: usize) {
        let written = pool.write(packet, &self[number]);
        debug_assert!(written.is_ok(), "a frame fits into a buffer");
    }
}

/// Frames of any size.
#[derive(Clone, Debug)]
pub(crate) enum Frames {
    /// The frames of [`numbered`], made when they are sent: kept in memory, they would take the second-level
    /// cache from functions, which a NIC does not do. What follows their heads, up to the size, is whatever
    /// the buffer holds.
    Computed {
        /// Bytes of each frame.
        size: usize,
    },
    /// Whole frames, for functions that read all of them.
    Whole(Arc<Vec<Vec<u8>>>),
}

impl Supply for Frames {
    fn count(&self) -> usize {
        match self {
            Frames::Computed { .. } => DISTINCT,
            Frames::Whole(frames) => frames.len(),
        }
    }

    #[inline]
    fn fill(&self, pool: &Pool, packet: &mut Packet, _now: Nanos, number: usize) {
        let written = match self {
            Frames::Computed { size } => {
                pool.write(packet, &numbered(number)).and_then(|()| pool.set_length(packet, *size))
            }
            Frames::Whole(frames) => pool.write(packet, &frames[number]),
        };
        debug_assert!(written.is_ok(), "a frame fits into a buffer");
    }
}

/// Frames with the time at which they are received, as the peers' capture ports give them.
pub(crate) struct Stamped(pub(crate) Vec<peers::frames::Frame>);

impl Supply for Stamped {
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn fill(&self, pool: &Pool, packet: &mut Packet, now: Nanos, number: usize) {
        let written = pool.write(packet, &self.0[number]);
        debug_assert!(written.is_ok(), "a frame fits into a buffer");
        packet.edit(|record| record.timestamp = now.0);
    }
}

/// Frames of which the first ones are sent once, and the others over and over.
pub(crate) struct Opened {
    /// Sent once.
    pub(crate) opening: Vec<peers::frames::Frame>,
    /// Sent over and over.
    pub(crate) established: Stamped,
}

impl Supply for Opened {
    fn count(&self) -> usize {
        self.opening.len() + self.established.count()
    }

    #[inline]
    fn fill(&self, pool: &Pool, packet: &mut Packet, now: Nanos, number: usize) {
        match self.opening.get(number) {
            None => self.established.fill(pool, packet, now, number - self.opening.len()),
            Some(frame) => {
                let written = pool.write(packet, frame);
                debug_assert!(written.is_ok(), "a frame fits into a buffer");
                packet.edit(|record| record.timestamp = now.0);
            }
        }
    }

    #[inline]
    fn write(&self, pool: &Pool, packet: &mut Packet, now: Nanos, number: usize) -> usize {
        let number = if number < self.count() { number } else { self.opening.len() };
        self.fill(pool, packet, now, number);
        number + 1
    }
}

/// Takes packets out, and counts them.
pub(crate) fn deliver(counters: &mut PortCounters, pool: &Pool, packets: &mut Vec<Packet>) {
    counters.ledger.delivered += packets.len() as u64;
    pool.free_batch(packets.drain(..));
}

/// A source that always has a packet, as long as its gate is open.
pub(crate) struct Feed<F> {
    frames: F,
    next: usize,
    open: Arc<AtomicBool>,
    /// Most packets of one batch.
    most: usize,
    /// Packets that are still to come.
    left: usize,
    counters: PortCounters,
}

impl<F: Supply> Feed<F> {
    /// Begins at frame `first`; feeds that share frames begin at different ones.
    pub(crate) fn new(frames: F, first: usize, open: Arc<AtomicBool>) -> Feed<F> {
        let next = first % frames.count().max(1);
        Feed { frames, next, open, most: usize::MAX, left: usize::MAX, counters: PortCounters::default() }
    }

    /// One whose gate is never closed.
    pub(crate) fn open(frames: F) -> Feed<F> {
        Feed::new(frames, 0, Arc::new(AtomicBool::new(true)))
    }

    /// Gives so many packets at once at the most.
    pub(crate) fn at_most(self, most: usize) -> Feed<F> {
        Feed { most, ..self }
    }

    /// Gives so many packets and then no more.
    pub(crate) fn in_all(self, left: usize) -> Feed<F> {
        Feed { left, ..self }
    }
}

impl<F: Supply> Port for Feed<F> {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if !self.open.load(Relaxed) {
            return;
        }
        let first = out.len();
        let count = pool.allocate_batch(budget.min(self.most).min(self.left), out);
        self.left -= count;
        for packet in &mut out[first..] {
            self.next = self.frames.write(pool, packet, now, self.next);
        }
        self.counters.ledger.generated += count as u64;
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        deliver(&mut self.counters, pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        if self.open.load(Relaxed) && self.left > 0 { Wake::NOW } else { Wake::default() }
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
        // One writer: the worker that the port is on.
        self.delivered.store(self.delivered.load(Relaxed) + packets.len() as u64, Relaxed);
        deliver(&mut self.counters, pool, packets);
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

/// Turns a worker until so many packets more have come out; nanoseconds a packet.
pub(crate) fn drive(worker: &mut Worker, delivered: &AtomicU64, packets: usize) -> Result<f64, BenchError> {
    let before = delivered.load(Relaxed);
    let began = Instant::now();
    let mut turns = 0;
    while delivered.load(Relaxed) - before < packets as u64 {
        worker.turn();
        turns += 1;
        if turns > packets {
            return Err(BenchError::Invalid("what is measured does not deliver".into()));
        }
    }
    Ok(began.elapsed().as_nanos() as f64 / (delivered.load(Relaxed) - before) as f64)
}

/// Slots of a [`MemoryPort`]'s ring.
const SLOTS: usize = 256;

/// An end that costs what a device in memory does: it copies every packet into a ring of slots. No kernel
/// works in it, so what it takes of one function depends on no other.
pub(crate) struct MemoryPort {
    ring: Vec<u8>,
    slot: usize,
    /// Bytes of a slot.
    size: usize,
    end: Counter,
}

impl MemoryPort {
    /// For packets of so many bytes at the most.
    pub(crate) fn new(size: u32, delivered: Arc<AtomicU64>) -> MemoryPort {
        let size = size as usize;
        MemoryPort { ring: vec![0; SLOTS * size], slot: 0, size, end: Counter::new(delivered) }
    }
}

impl Port for MemoryPort {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}

    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        for packet in packets.iter() {
            if let Some(slot) = self.ring.chunks_exact_mut(self.size).nth(self.slot) {
                pool.read(packet, 0, slot);
            }
            self.slot = (self.slot + 1) % SLOTS;
        }
        self.end.transmit(pool, now, packets);
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
        self.end.counters()
    }
}
