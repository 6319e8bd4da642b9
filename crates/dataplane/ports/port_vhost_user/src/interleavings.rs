//! Interleavings of this side of a split ring with a guest's driver, each asleep whenever it can do nothing,
//! under loom: the file that this side runs is compiled here once more, over loom's atomics. The driver does
//! what Virtio 1.2, sections 2.7.13 and 2.7.14, says.

use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;

#[allow(dead_code, clippy::duplicate_mod)]
#[path = "counts.rs"]
mod counts;
#[path = "interleavings/sync.rs"]
mod sync;

use counts::{NO_INTERRUPT, NO_NOTIFY};
use sync::{Acquire, AtomicU16, AtomicU32, Relaxed, Release, SeqCst, fence};

const SIZE: u16 = 2;

/// A part of a ring: its flags, its count, and the event index of the other side.
#[derive(Default)]
struct Part {
    flags: AtomicU16,
    count: AtomicU16,
    event: AtomicU16,
    words: [AtomicU32; SIZE as usize],
}

impl Part {
    fn word(&self, count: u16) -> &AtomicU32 {
        &self.words[usize::from(count % SIZE)]
    }
}

/// A kick's or a call's descriptor.
#[derive(Default)]
struct Bell {
    rings: Mutex<u32>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rings.lock().expect("no panic") += 1;
        self.rung.notify_all();
    }

    fn wait(&self) {
        let mut rings = self.rings.lock().expect("no panic");
        while *rings == 0 {
            rings = self.rung.wait(rings).expect("no panic");
        }
        *rings = 0;
    }
}

/// The memory of a ring.
#[derive(Default)]
struct Ring {
    available: Part,
    used: Part,
    kick: Bell,
    call: Bell,
    /// Whether the sides count by events.
    by_events: bool,
}

impl Ring {
    fn event<'a>(&self, part: &'a Part) -> Option<&'a AtomicU16> {
        self.by_events.then_some(&part.event)
    }
}

/// `vring_need_event` of the specification.
fn needs_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// All interleavings with at most so many preemptions. One in which a thread waits for ever fails.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// The driver: makes chains 1 to `last` available, and waits for what is used of them where there is no room
/// and at the end.
fn drive(ring: &Ring, from: u16, last: u32) {
    let (mut made, mut seen, mut next) = (from, from, 1);
    let mut back = 0;
    while back < last {
        let used = ring.used.count.load(Acquire);
        while seen != used {
            back += 1;
            assert_eq!(ring.used.word(seen).load(Relaxed), back, "what was used is whole, and in order");
            seen = seen.wrapping_add(1);
        }
        if next <= last && made.wrapping_sub(seen) < SIZE {
            ring.available.word(made).store(next, Relaxed);
            let old = made;
            (made, next) = (made.wrapping_add(1), next + 1);
            ring.available.count.store(made, Release);
            fence(SeqCst);
            let kicks = match ring.by_events {
                true => needs_event(ring.used.event.load(Relaxed), made, old),
                false => ring.used.flags.load(Relaxed) & NO_NOTIFY == 0,
            };
            if kicks {
                ring.kick.ring();
            }
        } else if back < last {
            // It wants to be called for the next one.
            match ring.by_events {
                true => ring.available.event.store(seen, Relaxed),
                false => ring.available.flags.store(0, Relaxed),
            }
            fence(SeqCst);
            if ring.used.count.load(Acquire) == seen {
                ring.call.wait();
            }
            ring.available.flags.store(NO_INTERRUPT, Relaxed);
        }
    }
}

/// Passes chains through a ring whose counts begin at `from`, each side asleep whenever it can do nothing.
fn pass(preemptions: usize, by_events: bool, from: u16, last: u32) {
    bounded(preemptions, move || {
        let ring = Arc::new(Ring { by_events, ..Ring::default() });
        for part in [&ring.available, &ring.used] {
            part.count.store(from, Relaxed);
            // Nothing is asked for yet.
            part.event.store(from.wrapping_sub(1), Relaxed);
            part.flags.store(NO_NOTIFY, Relaxed);
        }
        let theirs = ring.clone();
        let guest = thread::spawn(move || drive(&theirs, from, last));
        let (mut position, mut taken) = (from, 0);
        while taken < last {
            let waiting = || {
                counts::waiting(SIZE, position, &ring.available.count).expect("the driver keeps to the rules")
            };
            let count = waiting();
            if count == 0 {
                counts::will_sleep(position, ring.event(&ring.used), &ring.used.flags);
                if waiting() == 0 {
                    ring.kick.wait();
                }
                ring.used.flags.store(NO_NOTIFY, Relaxed);
                continue;
            }
            let old = position;
            for _ in 0..count {
                taken += 1;
                let chain = ring.available.word(position).load(Relaxed);
                assert_eq!(chain, taken, "a chain is whole, and none is lost");
                ring.used.word(position).store(chain, Relaxed);
                position = position.wrapping_add(1);
            }
            counts::show(&ring.used.count, position);
            let event = ring.event(&ring.available);
            if counts::should_call(old, position, event, &ring.available.flags) {
                ring.call.ring();
            }
        }
        guest.join().expect("no panic");
    });
}

#[test]
fn chains_pass_and_both_sides_are_woken_by_flags() {
    pass(2, false, 0, 2);
    pass(1, false, u16::MAX, 3);
}

#[test]
fn chains_pass_and_both_sides_are_woken_by_events() {
    pass(2, true, 0, 2);
    pass(1, true, u16::MAX, 3);
}

/// A guest that writes any count at any time has no more read than the ring holds.
#[test]
fn impossible_counts_are_found_and_possible_ones_stay_in_the_ring() {
    bounded(3, || {
        let ring = Arc::new(Ring { by_events: true, ..Ring::default() });
        let theirs = ring.clone();
        let hostile = thread::spawn(move || {
            for count in [2, u16::MAX, 1] {
                theirs.available.count.store(count, Relaxed);
            }
        });
        let mut position = 0;
        for _ in 0..2 {
            let waiting = counts::waiting(SIZE, position, &ring.available.count);
            assert!(waiting.is_none_or(|waiting| waiting <= SIZE));
            let old = position;
            position = position.wrapping_add(waiting.unwrap_or(0));
            // Any event is one that may be waited for.
            let _ = counts::should_call(old, position, Some(&ring.available.count), &ring.available.flags);
        }
        hostile.join().expect("no panic");
    });
}
