//! Two sides of something that comes and goes.

use super::{BypassPort, Bypasses, WAITING};
use crate::testing::{NOW, Particular, assert_particular, packets, pool, receive_all};
use crate::{Port, PortCounters, PortEvent, PortStatus, Wake};
use packet_memory::{Packet, Pool};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// A port that is down when it is told to, and notices when it is used or maintained.
struct Inner {
    gone: Arc<AtomicBool>,
    down: bool,
    counters: PortCounters,
}

impl Port for Inner {
    fn receive(&mut self, _: &Pool, _: Nanos, _: usize, _: &mut Vec<Packet>) {}

    fn transmit(&mut self, pool: &Pool, _: Nanos, packets: &mut Vec<Packet>) {
        if !self.gone.load(Relaxed) {
            return self.counters.deliver(pool, packets);
        }
        self.down = true;
        self.counters.ledger.dropped[DropReason::PortDown] += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }

    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }

    fn status(&self) -> PortStatus {
        if self.down { PortStatus::Down("it is gone".to_owned()) } else { PortStatus::Up }
    }

    fn maintain(&mut self, _: Nanos) -> Vec<PortEvent> {
        self.down = self.gone.load(Relaxed);
        Vec::new()
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

struct Two {
    pool: Pool,
    gone: Arc<AtomicBool>,
    ports: [BypassPort; 2],
    /// Packets that were made here and handed to each.
    handed: [u64; 2],
}

fn two() -> Two {
    let (bypasses, gone) = (Bypasses::default(), Arc::new(AtomicBool::new(false)));
    let port = |second| {
        let inner = Inner { gone: gone.clone(), down: false, counters: PortCounters::default() };
        bypasses.join("ids", second, Box::new(inner)).expect("descriptors")
    };
    let ports = [port(false), port(true)];
    Two { pool: pool(2 * WAITING as u32), gone, ports, handed: [0; 2] }
}

impl Two {
    fn send(&mut self, by: usize, count: usize) {
        let mut packets = packets(&self.pool, (0..count).map(|_| &[7_u8; 60][..]));
        self.handed[by] += count as u64;
        self.ports[by].transmit(&self.pool, NOW, &mut packets);
        assert!(packets.is_empty());
    }

    /// Takes all that comes in, and gives it back.
    fn take(&mut self, by: usize) -> usize {
        let taken = receive_all(&mut self.ports[by], &self.pool, NOW);
        let count = taken.len();
        self.pool.free_batch(taken);
        count
    }

    fn maintain(&mut self) {
        self.ports.iter_mut().for_each(|port| drop(port.maintain(NOW)));
    }

    fn set_gone(&mut self, gone: bool) {
        self.gone.store(gone, Relaxed);
        self.maintain();
    }

    fn dropped(&self, by: usize, reason: DropReason) -> u64 {
        self.ports[by].counters().ledger.dropped[reason]
    }

    fn is_readable(&self, by: usize) -> bool {
        let wake = self.ports[by].wake();
        let fd = wake.readable.expect("it has one");
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&none)).expect("a poll") > 0
    }

    /// What each was handed and took in has ended, and every buffer is back.
    fn check(&mut self, taken: [u64; 2]) {
        for (by, taken) in taken.into_iter().enumerate() {
            let mut ledger = self.ports[by].counters().ledger.clone();
            ledger.generated += self.handed[by];
            ledger.consumed += taken;
            assert_eq!(ledger.balance(0), Ok(()), "side {by}");
        }
        assert_eq!(self.pool.available(), self.pool.config().buffers as usize);
    }
}

#[test]
fn while_it_is_there_nothing_passes_by() {
    let mut two = two();
    two.send(0, 5);
    two.send(1, 3);
    assert_eq!((two.take(0), two.take(1), two.is_readable(0)), (0, 0, false));
    assert_eq!(two.ports[0].counters().ledger.delivered, 5);
    assert_eq!(two.ports[0].details(), []);
    two.check([0, 0]);
}

#[test]
fn while_it_is_gone_what_goes_to_one_side_comes_in_by_the_other() {
    let mut two = two();
    two.set_gone(true);
    two.send(0, 5);
    assert!(two.is_readable(1) && !two.is_readable(0), "the other side's worker is woken");
    assert_eq!((two.take(0), two.take(1)), (0, 5));
    assert!(!two.is_readable(1));
    two.send(1, 2);
    assert_eq!((two.take(1), two.take(0)), (0, 2));
    let counters = two.ports[1].counters();
    assert_eq!((counters.ledger.received, counters.received_bytes, counters.ledger.delivered), (5, 300, 2));
    assert_eq!(two.ports[0].details(), [("passed_by", 5)]);
    two.check([2, 5]);
    two.set_gone(false);
    two.send(0, 4);
    assert_eq!(two.take(1), 0);
    two.check([2, 5]);
}

#[test]
fn what_is_lost_until_that_is_noticed_is_counted_and_no_more() {
    let mut two = two();
    two.gone.store(true, Relaxed);
    two.send(0, 3);
    assert_eq!(two.dropped(0, DropReason::PortDown), 3);
    two.send(0, 3);
    assert_eq!((two.dropped(0, DropReason::PortDown), two.take(1)), (3, 3));
    two.check([0, 3]);
}

#[test]
fn a_side_that_is_not_emptied_has_bounds_and_gives_back_what_it_has() {
    let mut two = two();
    two.set_gone(true);
    for _ in 0..WAITING / 32 + 4 {
        two.send(0, 32);
    }
    assert_eq!(two.dropped(0, DropReason::PortFull), 4 * 32);
    two.ports[1].close(&two.pool).expect("closed");
    assert_eq!(two.dropped(1, DropReason::HeldAtStop), WAITING as u64);
    // Without another side there is nowhere to pass to.
    two.send(0, 1);
    assert_eq!(two.dropped(0, DropReason::PortDown), 1);
    two.check([0, 0]);
}

#[test]
fn two_programs_have_nothing_of_each_other() {
    let mut one = two();
    let mut other = two();
    one.set_gone(true);
    other.set_gone(true);
    one.send(0, 2);
    assert_eq!((other.take(1), one.take(1)), (0, 2));
}

proptest! {
    #[test]
    fn nothing_is_lost_or_kept_whatever_happens(steps in prop::collection::vec((0..6_u8, 1..40_usize), 1..200)) {
        let mut two = two();
        let mut taken = [0_u64; 2];
        for (what, count) in steps {
            match what {
                by @ 0..=1 => two.send(usize::from(by), count),
                by @ 2..=3 => taken[usize::from(by) - 2] += two.take(usize::from(by) - 2) as u64,
                4 => two.gone.store(count % 2 == 0, Relaxed),
                _ => two.maintain(),
            }
        }
        for (by, taken) in taken.iter_mut().enumerate() {
            *taken += two.take(by) as u64;
            assert!(!two.is_readable(by));
        }
        let passed: Vec<u64> = two.ports.iter().map(|port| port.own.ledger.delivered).collect();
        assert_eq!(taken, [passed[1], passed[0]]);
        two.check(taken);
    }
}

#[test]
fn what_the_port_says_of_itself_stays() {
    let inner = Particular::default();
    let (signals, wants) = (inner.signals.clone(), inner.wants.clone());
    let mut port = Bypasses::default().join("ids", false, Box::new(inner)).expect("descriptors");
    assert_particular(&mut port, &signals, &wants);
}
