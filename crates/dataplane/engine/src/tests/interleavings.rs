//! Interleavings of a worker's thread, which works, sleeps and ends, with threads that want its worker, under
//! loom: the slot and the bell are compiled here once more, over loom's locks and atomics.
//!
//! The worker is a number here, which a thread that has it may change. loom has no time: nothing polls before
//! it waits, and a wait with a bound is one whose time is up.

use loom::sync::Arc;
use loom::thread;
use std::time::Instant;

#[allow(dead_code, clippy::duplicate_mod)]
#[path = "../../../ports/port/src/bell.rs"]
mod bell;
#[path = "../../../ports/port/src/interleavings/event.rs"]
mod event;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "../parking/slot.rs"]
mod slot;

/// Stands for what the files above take from their `super`.
mod sync {
    pub use super::event::Event;
    pub use loom::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed, Ordering::SeqCst, fence};
    pub use loom::sync::{Condvar, Mutex, MutexGuard};

    pub fn poll_for<T>(mut found: impl FnMut() -> Option<T>) -> Option<T> {
        found()
    }
}

use bell::Bell;
use slot::{Asked, Slot};

/// All interleavings in which no more than three times a thread is stopped amidst its work. One in which a
/// thread waits for ever fails.
fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// What a worker's thread and the others share.
struct Shared {
    slot: Slot<u32>,
    bell: Bell,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { slot: Slot::default(), bell: Bell::new().expect("it asks no kernel") })
    }

    /// What the thread of a worker with nothing to do does until it is told to end; returns the worker.
    fn work(&self, mut worker: u32, parked: bool) -> u32 {
        loop {
            match self.slot.asked() {
                Asked::Stop => break,
                Asked::Worker => worker = self.slot.lend(worker),
                Asked::Nothing => {
                    self.bell.will_sleep();
                    if parked {
                        worker = self.slot.sleep_parked(worker, || self.bell.wait());
                    } else {
                        self.slot.sleep_unparked(|| self.bell.wait());
                    }
                    self.bell.awake();
                }
            }
        }
        self.slot.end();
        worker
    }

    fn ask(&self, asked: Asked) {
        self.slot.ask(asked);
        self.bell.ring_if_asleep();
    }

    /// Takes the worker, changes it, and brings it back with something to do for it, as a change does.
    fn change(&self) {
        let worker = self.slot.take().or_else(|| {
            self.ask(Asked::Worker);
            self.slot.take_when_here()
        });
        self.give_back(worker.expect("its thread has not been told to end") + 1);
    }

    fn give_back(&self, worker: u32) {
        let (_, lends) = self.slot.put_back(worker);
        if !lends {
            self.bell.ring();
        }
    }
}

/// Runs a worker's thread beside `others`, and ends it; the worker is as it was last.
fn beside(parked: bool, others: fn(&Arc<Shared>), changes: u32) {
    bounded(move || {
        let shared = Shared::new();
        let theirs = shared.clone();
        let thread = thread::spawn(move || theirs.work(0, parked));
        others(&shared);
        shared.ask(Asked::Stop);
        assert_eq!(thread.join().expect("no panic"), changes);
    });
}

#[test]
fn a_worker_is_had_by_one_thread_at_a_time_and_no_thread_waits_for_ever() {
    for parked in [true, false] {
        let twice = |shared: &Arc<Shared>| {
            shared.change();
            shared.change();
        };
        beside(parked, twice, 2);
    }
}

#[test]
fn a_thread_that_is_told_to_end_ends_wherever_it_is() {
    for parked in [true, false] {
        beside(parked, |_| {}, 0);
    }
}

#[test]
fn what_gives_up_waiting_leaves_the_worker_to_its_thread() {
    for parked in [true, false] {
        let gives_up = |shared: &Arc<Shared>| {
            shared.ask(Asked::Worker);
            // The time is up at once: the thread may be about to lend it.
            match shared.slot.take_until(Instant::now()) {
                Some(worker) => shared.give_back(worker),
                None => assert_eq!(shared.slot.asked(), Asked::Nothing, "it is not waited for any more"),
            }
            shared.change();
        };
        beside(parked, gives_up, 1);
    }
}

#[test]
fn a_thread_that_is_to_see_a_change_has_woken_since() {
    let seen = |shared: &Arc<Shared>| {
        shared.ask(Asked::Worker);
        let worker = shared.slot.take_when_here().expect("its thread has not been told to end");
        let (wakeups, lends) = shared.slot.put_back(worker + 1);
        if !lends {
            shared.bell.ring();
        }
        shared.slot.wait_for_wakeup(wakeups);
    };
    for parked in [true, false] {
        beside(parked, seen, 1);
    }
}

/// An observer takes the worker only when its thread has left it, and asks for nothing.
#[test]
fn a_worker_that_is_taken_without_asking_comes_back_to_a_thread_that_wakes_meanwhile() {
    for parked in [true, false] {
        let look = |shared: &Arc<Shared>| {
            if let Some(worker) = shared.slot.take() {
                // Whatever wakes the thread, a packet for instance.
                shared.bell.ring();
                shared.give_back(worker);
            }
        };
        beside(parked, look, 0);
    }
}
