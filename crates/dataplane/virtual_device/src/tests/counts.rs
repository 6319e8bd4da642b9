//! What several workers count at once, while programs take over from each other.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn rootless(openers: usize, before: Option<&Device>) -> Arc<Device> {
    Arc::new(Device::new(settings(Mode::Rootless, Share::Single, 0, &vec![None; openers]), before))
}

fn from_openers(packets: u64, bytes: u64) -> DeviceCounters {
    DeviceCounters { from_openers: packets, bytes_from_openers: bytes, ..DeviceCounters::default() }
}

#[test]
fn what_a_worker_counted_stays_when_it_goes() {
    let device = rootless(2, None);
    let (one, other) = (device.counts(), device.counts());
    one.enter(opener(0), false, 3, 300);
    other.enter(opener(1), false, 4, 400);
    assert_eq!(device.counters(), from_openers(7, 700));
    drop(one);
    assert_eq!(device.counters(), from_openers(7, 700));
    other.enter(opener(1), false, 1, 100);
    let after = rootless(3, Some(&device));
    let next = after.counts();
    next.enter(opener(2), false, 5, 500);
    // The one before may still be in use, and counts on.
    other.enter(opener(0), false, 1, 100);
    drop(other);
    for device in [&device, &after] {
        assert_eq!(device.counters(), from_openers(14, 1400));
        let by = [0, 1, 2].map(|n| device.entered(opener(n)).packets);
        assert_eq!(by, [4, 5, 5]);
    }
    drop(next);
    let fewer = rootless(1, Some(&after));
    assert_eq!(fewer.counters(), from_openers(14, 1400), "of plugs that are no more as well");
    let counts = fewer.counts();
    counts.enter(SwitchPort(7000), false, 1, 1);
    assert_eq!(fewer.counters(), from_openers(15, 1401), "of a plug that it does not have");
}

/// Workers count and are given one program after another; a reader sees no count go back, and all in the end.
#[test]
fn nothing_is_lost_and_nothing_goes_back_while_workers_count() {
    const ROUNDS: u64 = 200;
    const BATCHES: u64 = 100;
    let (first, done) = (rootless(2, None), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let count = |number: usize| {
            let mut device = first.clone();
            for _ in 0..ROUNDS {
                device = rootless(2, Some(&device));
                let counts = device.counts();
                (0..BATCHES).for_each(|_| counts.enter(opener(number), false, 2, 20));
            }
        };
        let workers = [0, 1].map(|number| scope.spawn(move || count(number)));
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(Relaxed) {
                let now = first.counters().from_openers;
                assert!(now >= seen, "{now} after {seen}");
                seen = now;
            }
        });
        let counted = workers.map(|worker| worker.join());
        done.store(true, Relaxed);
        counted.into_iter().for_each(|worker| worker.expect("no panic"));
        reader.join().expect("no panic");
    });
    let each = 2 * ROUNDS * BATCHES;
    assert_eq!(first.counters(), from_openers(2 * each, 20 * each));
    assert_eq!(first.entered(opener(0)), Entered { packets: each, bytes: 10 * each });
}
