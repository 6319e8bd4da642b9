//! Interleavings of the two ends of a relay, and of a worker that falls asleep with what wakes it, under
//! loom: the files that workers run are compiled here once more, over loom's atomics.
//!
//! What cannot be compiled so has a stand-in: the kernel's event descriptor, and the ring of `rtrb`, whose
//! orderings are the ones that its documentation promises (a push is seen with all that came before it, and a
//! pop likewise).

use loom::thread;
use std::sync::Arc;

#[allow(dead_code, clippy::duplicate_mod)]
#[path = "bell.rs"]
mod bell;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "relay/direction.rs"]
mod direction;
mod event;
mod sync;

use bell::Bell;
use direction::direction;
use sync::{AtomicBool, Relaxed};

/// All interleavings in which no more than so many times a thread is stopped amidst its work. One in which a
/// thread waits for ever fails.
fn bounded(stops: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(stops);
    builder.check(model);
}

fn bell() -> Arc<Bell> {
    Arc::new(Bell::new().expect("it asks no kernel"))
}

#[test]
fn nothing_that_is_left_before_a_ring_is_slept_through() {
    bounded(3, || {
        let (bell, left) = (bell(), Arc::new(AtomicBool::new(false)));
        let theirs = (bell.clone(), left.clone());
        let other = thread::spawn(move || {
            let (bell, left) = theirs;
            left.store(true, Relaxed);
            bell.ring_if_asleep();
        });
        while !left.load(Relaxed) {
            bell.will_sleep();
            if !left.load(Relaxed) {
                bell.wait();
            }
            bell.awake();
        }
        other.join().expect("no panic");
    });
}

/// The sender's and the receiver's turns as workers take them, until everything has arrived in order.
fn pass<const N: usize>(stops: usize, batches: &'static [usize], budget: usize) {
    bounded(stops, move || {
        let (here, there) = (bell(), bell());
        let (mut sending, mut receiving) = direction::<usize, N>(here.clone(), there.clone());
        let total = batches.iter().sum::<usize>();
        let sender = thread::spawn(move || {
            let mut next = 0;
            for size in batches {
                let mut batch: Vec<usize> = (next..next + size).collect();
                next += size;
                loop {
                    let room = sending.room();
                    if sending.send(&mut batch) {
                        break;
                    }
                    assert!(room < *size, "what there is room for is refused");
                    sending.signal();
                    here.will_sleep();
                    sending.want_room();
                    if sending.room() < *size {
                        here.wait();
                    }
                    here.awake();
                }
                assert!(batch.is_empty());
            }
            sending.signal();
        });
        let (mut arrived, mut out) = (Vec::new(), Vec::new());
        while arrived.len() < total {
            assert!(receiving.waiting() <= N, "{}", receiving.waiting());
            receiving.receive(budget, &mut out);
            receiving.signal();
            if out.is_empty() {
                there.will_sleep();
                if receiving.is_empty() {
                    there.wait();
                }
                there.awake();
            }
            arrived.append(&mut out);
        }
        sender.join().expect("no panic");
        assert_eq!(arrived, (0..total).collect::<Vec<_>>());
        assert_eq!(receiving.waiting(), 0);
    });
}

#[test]
fn batches_arrive_in_order_and_a_receiver_that_falls_asleep_is_woken() {
    pass::<4>(3, &[1, 1], 2);
}

#[test]
fn a_sender_that_waits_for_room_is_woken() {
    pass::<2>(2, &[1, 1, 1], 2);
}

#[test]
fn a_batch_that_is_taken_in_parts_frees_its_room() {
    pass::<2>(3, &[2, 1], 1);
}
