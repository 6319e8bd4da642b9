//! What it costs that a worker is asked for between two turns, beside a fair lock that each turn takes and
//! releases: `cargo test --release -p engine -- --ignored --nocapture quiescing`. A thread of its own for
//! each, and a third that has something to do to the worker now and then.

use crate::parking::slot::{Asked, Slot};
use parking_lot::{Mutex, MutexGuard};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long each is looked at.
const SPAN: Duration = Duration::from_millis(300);
/// How often each is, in turns.
const ROUNDS: usize = 5;

/// A worker as far as this is concerned: it counts its turns.
type Toy = Box<u64>;

/// A turn with nothing in it, or one that takes a while.
fn turn(toy: &mut Toy, length: Duration) {
    **toy += 1;
    if !length.is_zero() {
        let began = Instant::now();
        while began.elapsed() < length {
            spin_loop();
        }
    }
}

/// How many turns there were, and how long each request took.
type Outcome = (u64, Vec<Duration>);

/// Makes requests until the time is over, each so long after the one before.
fn requests(every: Option<Duration>, mut request: impl FnMut()) -> Vec<Duration> {
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < SPAN {
        std::thread::sleep(every.unwrap_or(SPAN));
        if every.is_some() {
            let asked = Instant::now();
            request();
            took.push(asked.elapsed());
        }
    }
    took
}

fn by_slot(length: Duration, every: Option<Duration>) -> Outcome {
    let slot = Slot::<Toy>::default();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut toy = Toy::default();
            loop {
                match slot.asked() {
                    Asked::Nothing => turn(&mut toy, length),
                    Asked::Worker => toy = slot.lend(toy),
                    Asked::Stop => return *toy,
                }
            }
        });
        let took = requests(every, || {
            slot.ask(Asked::Worker);
            let toy = slot.take_when_here().expect("its thread goes on");
            slot.put_back(black_box(toy));
        });
        slot.ask(Asked::Stop);
        (worker.join().expect("no panic"), took)
    })
}

fn by_lock(length: Duration, every: Option<Duration>) -> Outcome {
    let (lock, stop) = (Mutex::new(Toy::default()), AtomicBool::new(false));
    let took = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let mut toy = lock.lock();
                turn(&mut toy, length);
                MutexGuard::unlock_fair(toy);
            }
        });
        let took = requests(every, || {
            let toy = lock.lock();
            black_box(&*toy);
            MutexGuard::unlock_fair(toy);
        });
        stop.store(true, Relaxed);
        took
    });
    (*lock.into_inner(), took)
}

fn median<T: Copy + PartialOrd>(mut all: Vec<T>) -> T {
    all.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    all[all.len() / 2]
}

#[test]
#[ignore = "prints what quiescing costs; for a quiet machine with two processors"]
fn quiescing_by_slot_and_by_lock() {
    let us = |span: Duration| span.as_secs_f64() * 1e6;
    for (what, length, every) in [
        ("turns with nothing in them, no request", Duration::ZERO, None),
        ("turns of 5 us, a request each ms", Duration::from_micros(5), Some(Duration::from_millis(1))),
        ("turns of 50 us, a request each ms", Duration::from_micros(50), Some(Duration::from_millis(1))),
    ] {
        for (way, run) in [("slot", by_slot as fn(_, _) -> Outcome), ("lock", by_lock)] {
            let rounds: Vec<Outcome> = (0..ROUNDS).map(|_| run(length, every)).collect();
            let each = median(rounds.iter().map(|(turns, _)| us(SPAN) * 1e3 / *turns as f64).collect());
            let mut took: Vec<Duration> = rounds.into_iter().flat_map(|(_, took)| took).collect();
            took.sort();
            let waits = match took.len() {
                0 => String::new(),
                count => format!(
                    "; a request took {:.1} us, one in ten {:.1}, one in a hundred {:.1}",
                    us(took[count / 2]),
                    us(took[count * 9 / 10]),
                    us(took[count * 99 / 100])
                ),
            };
            println!("{what}, by {way}: {each:.1} ns a turn{waits}");
        }
    }
}
