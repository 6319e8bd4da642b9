//! Interleavings of readers and writers of a set, and the orders in which their loads may see stores, under
//! loom.

use crate::frame::{Key, keys};
use crate::place::{Place, SwitchPort, Tick};
use loom::sync::Arc;
use loom::thread;
use set::{Set, Ways};
use sync::AtomicU64;
use telemetry::clock::Nanos;

#[allow(dead_code, clippy::duplicate_mod)]
#[path = "../set.rs"]
mod set;

/// The same over loom's types, for a reader of less patience.
mod sync {
    pub(super) use loom::sync::atomic::AtomicU64;
    pub(super) use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    pub(super) use loom::thread::yield_now;

    pub(super) const ATTEMPTS: usize = 2;
}

#[derive(Default)]
struct Owned<const N: usize> {
    generation: AtomicU64,
    ways: Ways<N>,
}

impl<const N: usize> Owned<N> {
    fn set(&self) -> Set<'_, N> {
        Set { generation: &self.generation, ways: &self.ways }
    }
}

/// All interleavings in which no more than three times a thread is stopped amidst its work.
fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Station `n`, whose place is always port `n`.
fn key(n: u16) -> Key {
    keys(&super::frame([0xff; 6], super::station(n.into()), 0)).0
}

fn place(n: u16, seconds: u64) -> Place {
    Place::new(SwitchPort(n), Tick::of(Nanos(seconds * super::SECOND)))
}

fn write<const N: usize>(set: &Set<'_, N>, way: usize, n: u16, seconds: u64) -> bool {
    let locked = set.try_lock().map(|mut locked| locked.replace(way, Some((key(n), place(n, seconds)))));
    locked.is_some()
}

/// A reader of each of some stations finds it at its port or not at all.
fn read<const N: usize>(set: &Set<'_, N>, stations: &[u16]) {
    for n in stations {
        if let Some(found) = set.find(key(*n), 0) {
            assert_eq!(found.port(), SwitchPort(*n));
        }
    }
}

fn read_entry<const N: usize>(set: &Set<'_, N>) {
    if let Some((found, place)) = set.entry(0) {
        assert_eq!(found, key(place.port().0));
    }
}

#[test]
fn a_reader_sees_no_torn_entry_while_it_is_replaced_twice() {
    bounded(|| {
        let owned = Arc::new(Owned::<1>::default());
        assert!(write(&owned.set(), 0, 1, 1));
        let writer = Arc::clone(&owned);
        let writer = thread::spawn(move || {
            assert!(write(&writer.set(), 0, 2, 1));
            assert!(write(&writer.set(), 0, 1, 2));
        });
        read(&owned.set(), &[1]);
        writer.join().unwrap();
        assert_eq!(owned.set().find(key(1), 0), Some(place(1, 2)));
        assert_eq!(owned.set().find(key(2), 0), None);
    });
}

#[test]
fn a_reader_of_the_new_entry_sees_no_part_of_the_old_one() {
    loom::model(|| {
        let owned = Arc::new(Owned::<1>::default());
        assert!(write(&owned.set(), 0, 1, 1));
        let writer = Arc::clone(&owned);
        let writer = thread::spawn(move || assert!(write(&writer.set(), 0, 2, 1)));
        read(&owned.set(), &[2]);
        writer.join().unwrap();
    });
}

#[test]
fn a_display_sees_no_torn_entry() {
    loom::model(|| {
        let owned = Arc::new(Owned::<1>::default());
        assert!(write(&owned.set(), 0, 1, 1));
        let writer = Arc::clone(&owned);
        let writer = thread::spawn(move || assert!(write(&writer.set(), 0, 2, 1)));
        read_entry(&owned.set());
        writer.join().unwrap();
    });
}

#[test]
fn an_entry_beside_one_that_is_replaced_is_always_found() {
    loom::model(|| {
        let owned = Arc::new(Owned::<2>::default());
        assert!(write(&owned.set(), 0, 1, 1));
        assert!(write(&owned.set(), 1, 2, 1));
        let writer = Arc::clone(&owned);
        let writer = thread::spawn(move || assert!(write(&writer.set(), 0, 3, 1)));
        assert_eq!(owned.set().find(key(2), 0), Some(place(2, 1)));
        writer.join().unwrap();
    });
}

#[test]
fn of_two_writers_one_at_a_time_writes() {
    bounded(|| {
        let owned = Arc::new(Owned::<1>::default());
        let writers = [1, 2].map(|n| {
            let writer = Arc::clone(&owned);
            // A writer that does not get the lock must leave it as it is.
            thread::spawn(move || [1, 2].map(|time| write(&writer.set(), 0, n, time)).contains(&true))
        });
        let wrote = writers.map(|writer| writer.join().unwrap());
        assert!(wrote.contains(&true));
        let (found, place) = owned.set().entry(0).unwrap();
        assert_eq!(found, key(place.port().0));
    });
}
