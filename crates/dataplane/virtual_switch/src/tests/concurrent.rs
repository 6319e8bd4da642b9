//! Threads that share a switch.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Stations, each of which is only ever at the port of its number: many more than the table has room for.
const STATIONS: u32 = 64;

#[test]
fn whatever_is_found_is_right_while_others_learn_and_detach() {
    let switch = Arc::new(with_ports(8, STATIONS as u16));
    let done = Arc::new(AtomicBool::new(false));
    let worker = |seed: u32| {
        let switch = Arc::clone(&switch);
        move || {
            let (mut found, mut n) = (0u32, seed);
            for _ in 0..100_000 {
                n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (from, to) = (n >> 8 & (STATIONS - 1), n >> 16 & (STATIONS - 1));
                let head = frame(station(to), station(from), 0);
                let right = if from == to { Route::Filter } else { Route::To(SwitchPort(to as u16)) };
                let route = switch.decide(SwitchPort(from as u16), &head, START);
                assert!(route == Route::Flood || route == right, "{from} to {to}: {route:?}");
                found += u32::from(route == right);
            }
            found
        }
    };
    let workers = [1, 2, 3].map(|seed| thread::spawn(worker(seed)));
    let control = {
        let (switch, done) = (Arc::clone(&switch), Arc::clone(&done));
        thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                switch.detach(SwitchPort(5));
                assert!(switch.table(START).all(|entry| station(entry.port.0.into()) == entry.address));
                assert_eq!(switch.attach(), Ok(SwitchPort(5)));
                switch.sweep(START);
                thread::yield_now();
            }
        })
    };
    let found: u32 = workers.map(|worker| worker.join().unwrap()).iter().sum();
    done.store(true, Ordering::Relaxed);
    control.join().unwrap();
    assert!(found > 1000, "{found}");
    assert_account(&switch, START);
}

#[test]
fn a_port_that_is_gone_stays_forgotten_whichever_worker_learns() {
    let switch = Arc::new(with_ports(8, 2));
    for _ in 0..200 {
        let sender = Arc::clone(&switch);
        let sender = thread::spawn(move || {
            for n in 0..100 {
                sender.decide(SwitchPort(1), &frame(BROADCAST, station(n), 0), START);
            }
        });
        switch.detach(SwitchPort(1));
        assert_eq!(switch.table(START).count(), 0);
        sender.join().unwrap();
        assert_eq!(switch.table(START).count(), 0);
        assert_eq!(switch.attach(), Ok(SwitchPort(1)));
    }
    assert_account(&switch, START);
}

#[test]
fn numbers_are_given_once() {
    let switch = Arc::new(switch(8));
    let threads = [(); 4].map(|()| {
        let switch = Arc::clone(&switch);
        thread::spawn(move || (0..500).map(|_| switch.attach().unwrap()).collect::<Vec<_>>())
    });
    let mut all: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..2000).map(SwitchPort).collect::<Vec<_>>());
}
