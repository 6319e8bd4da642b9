//! Interleavings of the two ends of a ring, and of a receiver that falls asleep, under loom: the file that
//! both ends run is compiled here once more, over loom's atomics.

use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;

#[allow(dead_code, clippy::duplicate_mod)]
#[path = "counts.rs"]
mod counts;
#[path = "interleavings/sync.rs"]
mod sync;

use sync::{AtomicU16, AtomicU32, Relaxed};

const SIZE: u16 = 2;

/// Whose buffers a ring has: the slave's, which sends or receives.
#[derive(Clone, Copy, PartialEq)]
enum Buffers {
    Senders,
    Receivers,
}

/// The memory of a ring, with a word for the bytes of each buffer.
#[derive(Default)]
struct Memory {
    head: AtomicU16,
    tail: AtomicU16,
    flags: AtomicU16,
    words: [AtomicU32; SIZE as usize],
    /// The interrupt's descriptor.
    interrupt: Bell,
}

/// Stands for an event's descriptor.
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

impl Memory {
    fn word(&self, count: u16) -> &AtomicU32 {
        &self.words[usize::from(count % SIZE)]
    }

    /// Buffers that the sender may fill, as `Sender::room` has it.
    fn room(&self, buffers: Buffers, position: u16) -> Option<u16> {
        match buffers {
            Buffers::Senders => counts::free(SIZE, position, &self.tail),
            Buffers::Receivers => counts::offered(SIZE, position, &self.head),
        }
    }

    /// The counts of sender and receiver.
    fn own(&self, buffers: Buffers) -> (&AtomicU16, &AtomicU16) {
        match buffers {
            Buffers::Senders => (&self.head, &self.tail),
            Buffers::Receivers => (&self.tail, &self.head),
        }
    }
}

/// All interleavings with at most so many preemptions. One in which a thread waits for ever fails.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Shows the sender what the receiver has taken, up to a position.
fn release(memory: &Memory, buffers: Buffers, position: u16) {
    let ahead = if buffers == Buffers::Receivers { SIZE } else { 0 };
    counts::show(memory.own(buffers).1, position.wrapping_add(ahead));
}

/// A ring whose counts begin at `from`.
fn ring(buffers: Buffers, from: u16) -> Arc<Memory> {
    let memory = Arc::new(Memory::default());
    memory.own(buffers).0.store(from, Relaxed);
    release(&memory, buffers, from);
    counts::poll(&memory.flags);
    memory
}

/// Fills a ring whose counts begin at `from`, the receiver asleep whenever there is nothing.
fn pass(preemptions: usize, buffers: Buffers, from: u16) {
    bounded(preemptions, move || {
        let memory = ring(buffers, from);
        let theirs = memory.clone();
        let sender = thread::spawn(move || {
            for next in 0..SIZE {
                let position = from.wrapping_add(next);
                assert!(theirs.room(buffers, position).expect("the receiver is honest") > 0);
                theirs.word(position).store(u32::from(next) + 1, Relaxed);
                counts::show(theirs.own(buffers).0, position.wrapping_add(1));
                if counts::should_wake(&theirs.flags) {
                    theirs.interrupt.ring();
                }
            }
        });
        let (mut position, mut seen) = (from, 0);
        while seen < u32::from(SIZE) {
            let sent = memory.own(buffers).0;
            let available = || counts::offered(SIZE, position, sent).expect("the sender is honest");
            if available() == 0 {
                counts::will_sleep(&memory.flags);
                if available() == 0 {
                    memory.interrupt.wait();
                }
                counts::poll(&memory.flags);
                continue;
            }
            seen += 1;
            assert_eq!(memory.word(position).load(Relaxed), seen, "a buffer is whole, and nothing is lost");
            position = position.wrapping_add(1);
            release(&memory, buffers, position);
        }
        sender.join().expect("no panic");
    });
}

/// The ring is full: a buffer is filled again when it was taken, and not before.
fn fill_again(preemptions: usize, buffers: Buffers, from: u16) {
    bounded(preemptions, move || {
        let memory = ring(buffers, from);
        memory.words.iter().for_each(|word| word.store(1, Relaxed));
        let full = from.wrapping_add(SIZE);
        counts::show(memory.own(buffers).0, full);
        let theirs = memory.clone();
        let sender = thread::spawn(move || {
            let room = theirs.room(buffers, full).expect("the receiver is honest");
            (0..room).for_each(|n| theirs.word(full.wrapping_add(n)).store(2, Relaxed));
        });
        for n in 0..SIZE {
            let position = from.wrapping_add(n);
            assert_eq!(memory.word(position).load(Relaxed), 1, "it was not taken yet");
            release(&memory, buffers, position.wrapping_add(1));
        }
        sender.join().expect("no panic");
    });
}

#[test]
fn packets_arrive_whole_and_a_receiver_that_falls_asleep_is_woken() {
    for buffers in [Buffers::Senders, Buffers::Receivers] {
        pass(3, buffers, 0);
        pass(2, buffers, u16::MAX);
    }
}

#[test]
fn a_buffer_is_filled_again_when_it_was_taken_and_not_before() {
    for buffers in [Buffers::Senders, Buffers::Receivers] {
        fill_again(3, buffers, 0);
        fill_again(3, buffers, u16::MAX);
    }
}

/// A peer that writes any count at any time has nothing outside of the ring read or filled.
#[test]
fn impossible_counts_are_found_and_possible_ones_stay_in_the_ring() {
    for buffers in [Buffers::Senders, Buffers::Receivers] {
        bounded(3, move || {
            let memory = ring(buffers, 0);
            let theirs = memory.clone();
            let hostile = thread::spawn(move || {
                for count in [2, u16::MAX, 1] {
                    theirs.head.store(count, Relaxed);
                }
            });
            let available = counts::offered(SIZE, 0, &memory.head);
            assert!(available.is_none_or(|available| available <= SIZE));
            let room = counts::free(SIZE, available.unwrap_or(0), &memory.head);
            assert!(room.is_none_or(|room| room <= SIZE));
            hostile.join().expect("no panic");
        });
    }
}
