//! What the ports' tests share.

use crate::{Port, PortCounters, Wake};
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use telemetry::clock::Nanos;

/// Some time of the day.
pub(crate) const NOW: Nanos = Nanos(1_700_000_000_000_000_000);

/// A pool of 2 KiB buffers on ordinary pages.
pub(crate) fn pool(buffers: u32) -> Pool {
    let pages = Some(PageKind::Ordinary);
    Pool::new("test", PoolConfig { buffers, buffer_size: BufferSize::DEFAULT, headroom: 128, pages })
        .expect("a pool")
}

/// Packets with these bytes.
pub(crate) fn packets<'a>(pool: &Pool, contents: impl IntoIterator<Item = &'a [u8]>) -> Vec<Packet> {
    let fill = |bytes| {
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, bytes).expect("room");
        packet
    };
    contents.into_iter().map(fill).collect()
}

/// A port that says of itself what no other does, and counts how often it is told that a turn is over, and
/// how often to wake for room.
#[derive(Default)]
pub(crate) struct Particular {
    pub(crate) signals: Arc<AtomicUsize>,
    pub(crate) wants: Arc<AtomicUsize>,
    counters: PortCounters,
}

impl Port for Particular {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.deliver(pool, packets);
    }
    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }
    fn mtu(&self) -> Option<u32> {
        Some(1499)
    }
    fn needs_maintenance(&self) -> bool {
        false
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
    fn reads_flow_hash(&self) -> bool {
        true
    }
    fn backlog(&self) -> usize {
        7
    }
    fn waits_outside(&self) -> bool {
        false
    }
    fn capacity(&self) -> Option<usize> {
        Some(9)
    }
    fn room(&self) -> usize {
        3
    }
    fn want_room(&self) {
        self.wants.fetch_add(1, Relaxed);
    }
    fn signal(&mut self) {
        self.signals.fetch_add(1, Relaxed);
    }
}

/// Checks that what stands before a [`Particular`] port says what that says, and tells it what it is told.
pub(crate) fn assert_particular(port: &mut dyn Port, signals: &AtomicUsize, wants: &AtomicUsize) {
    assert_eq!((port.mtu(), port.capacity(), port.room()), (Some(1499), Some(9), 3));
    assert_eq!((port.backlog(), port.waits_outside()), (7, false));
    assert_eq!((port.needs_maintenance(), port.reads_flow_hash()), (false, true));
    let before = (signals.load(Relaxed), wants.load(Relaxed));
    port.signal();
    port.want_room();
    assert_eq!((signals.load(Relaxed), wants.load(Relaxed)), (before.0 + 1, before.1 + 1));
}

/// Everything that the port gives at this time, in batches of 32.
pub(crate) fn receive_all(port: &mut dyn Port, pool: &Pool, now: Nanos) -> Vec<Packet> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        port.receive(pool, now, 32, &mut all);
        if all.len() == before {
            return all;
        }
    }
}

/// Checks the account: nothing is lost, of packets or of buffers. `outside` packets were made by the test for
/// the port, and `held` are in the test's hands.
pub(crate) fn assert_conserved(port: &dyn Port, pool: &Pool, outside: u64, held: usize) {
    let mut ledger = port.counters().ledger.clone();
    ledger.generated += outside;
    assert_eq!(ledger.balance(port.in_flight() + held as u64), Ok(()));
    assert_eq!(pool.available() + held, pool.config().buffers as usize);
}
