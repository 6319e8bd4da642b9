//! Interleavings of the two ends of a ring, and of a side that falls asleep, under loom: the files that both
//! sides run are compiled here once more, over loom's atomics.

use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;

#[allow(dead_code, clippy::duplicate_mod)]
#[path = "ring.rs"]
mod ring;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "sleep.rs"]
mod sleep;
#[path = "interleavings/sync.rs"]
mod sync;

use ring::{Consuming, Entries, OutOfStep, Producing};
use sync::{AtomicU32, AtomicU64, Relaxed};

/// The memory of a ring of two or four places, and which side sleeps.
#[derive(Default)]
struct Memory {
    size: u32,
    tail: AtomicU32,
    head: AtomicU32,
    words: [AtomicU64; 8],
    reader_sleeps: AtomicU32,
    writer_sleeps: AtomicU32,
    reader: Waker,
    writer: Waker,
}

/// Stands for the socket by which a side is woken.
#[derive(Default)]
struct Waker {
    messages: Mutex<u32>,
    changed: Condvar,
}

impl Waker {
    fn wake(&self) {
        *self.messages.lock().expect("no panic") += 1;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut messages = self.messages.lock().expect("no panic");
        while *messages == 0 {
            messages = self.changed.wait(messages).expect("no panic");
        }
        *messages = 0;
    }
}

impl Entries<2> for Arc<Memory> {
    fn size(&self) -> u32 {
        self.size
    }
    fn tail(&self) -> &AtomicU32 {
        &self.tail
    }
    fn head(&self) -> &AtomicU32 {
        &self.head
    }
    fn words(&self, place: u32) -> [&AtomicU64; 2] {
        let place = place as usize * 2;
        [&self.words[place], &self.words[place + 1]]
    }
}

/// All interleavings with at most so many preemptions. One in which a thread waits for ever fails.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Passes entries 1 to `last`, each end asleep whenever it can do nothing, until all have arrived whole and
/// in order.
fn pass(preemptions: usize, size: u32, last: u64) {
    bounded(preemptions, move || {
        let memory = Arc::new(Memory { size, ..Memory::default() });
        let theirs = memory.clone();
        let writer = thread::spawn(move || {
            let mut ring = Producing::new(theirs.clone());
            let mut next = 1;
            while next <= last {
                if ring.room().expect("the reader is honest") == 0 {
                    sleep::will_sleep(&theirs.writer_sleeps);
                    if ring.room().expect("the reader is honest") == 0 {
                        theirs.writer.wait();
                    }
                    sleep::awake(&theirs.writer_sleeps);
                    continue;
                }
                while next <= last && ring.push([next, next * 3]) {
                    next += 1;
                }
                ring.publish();
                if sleep::should_wake(&theirs.reader_sleeps) {
                    theirs.reader.wake();
                }
            }
        });
        let mut ring = Consuming::new(memory.clone());
        let mut seen = 0;
        while seen < last {
            if ring.available().expect("the writer is honest") == 0 {
                sleep::will_sleep(&memory.reader_sleeps);
                if ring.waiting().expect("the writer is honest") == 0 {
                    memory.reader.wait();
                }
                sleep::awake(&memory.reader_sleeps);
                continue;
            }
            while let Some([first, second]) = ring.pop() {
                seen += 1;
                assert_eq!((first, second), (seen, seen * 3), "an entry is whole");
            }
            if ring.release() && sleep::should_wake(&memory.writer_sleeps) {
                memory.writer.wake();
            }
        }
        writer.join().expect("no panic");
    });
}

#[test]
fn entries_arrive_whole_and_a_reader_that_falls_asleep_is_woken() {
    pass(3, 2, 2);
}

#[test]
fn a_writer_that_waits_for_room_is_woken() {
    pass(2, 2, 3);
    pass(2, 4, 5);
}

/// A writer that publishes any count at any time moves nothing but what it has to lose.
#[test]
fn impossible_counts_are_found_and_possible_ones_stay_in_the_ring() {
    bounded(3, || {
        let memory = Arc::new(Memory { size: 2, ..Memory::default() });
        let theirs = memory.clone();
        let hostile = thread::spawn(move || {
            for count in [2, u32::MAX, 1] {
                theirs.tail.store(count, Relaxed);
            }
        });
        let mut ring = Consuming::new(memory);
        let mut taken = 0;
        for _ in 0..2 {
            match ring.available() {
                Ok(_) => taken += std::iter::from_fn(|| ring.pop()).count(),
                Err(OutOfStep) => assert_eq!(ring.pop(), None, "nothing is taken on an impossible count"),
            }
        }
        assert!(taken <= 2, "{taken}");
        hostile.join().expect("no panic");
    });
}
