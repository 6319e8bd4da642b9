//! Both ends in one thread, and in two.

use super::*;
use packet_memory::{PageKind, PoolConfig};

fn pool() -> Pool {
    let config = PoolConfig { buffers: 2048, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    Pool::new("relay", config).expect("a small pool")
}

fn bell() -> Arc<Bell> {
    Arc::new(Bell::new().expect("an event descriptor"))
}

#[test]
fn a_batch_arrives_whole_and_what_finds_no_room_is_counted() {
    let pool = pool();
    let (mut here, mut there) = one_way(bell(), bell());
    let mut batch = Vec::new();
    for n in 0..RELAY_PACKETS / 32 + 1 {
        assert_eq!(here.room(), RELAY_PACKETS - (n * 32).min(RELAY_PACKETS));
        pool.allocate_batch(32, &mut batch);
        batch[0].edit(|record| record.mark = n as u64);
        here.transmit(&pool, Nanos(0), &mut batch);
        assert!(batch.is_empty());
    }
    assert_eq!(here.counters().ledger.dropped[DropReason::QueueFull], 32);
    assert_eq!((here.in_flight(), there.in_flight()), (0, RELAY_PACKETS as u64));
    assert_eq!(there.wake().at, Some(Nanos(0)));
    for n in 0..RELAY_PACKETS / 32 {
        there.receive(&pool, Nanos(0), 32, &mut batch);
        assert_eq!((batch.len(), batch[0].record().mark), (32, n as u64));
        pool.free_batch(batch.drain(..));
    }
    there.receive(&pool, Nanos(0), 32, &mut batch);
    assert!(batch.is_empty() && there.wake().at.is_none());
    assert_eq!(pool.available(), 2048);
}

#[test]
fn short_batches_are_put_together_and_closing_counts_the_rest() {
    let pool = pool();
    let (mut here, mut there) = one_way(bell(), bell());
    for size in [5, 20, 8] {
        let mut batch = Vec::new();
        pool.allocate_batch(size, &mut batch);
        here.transmit(&pool, Nanos(0), &mut batch);
    }
    let mut batch = Vec::new();
    there.receive(&pool, Nanos(0), 32, &mut batch);
    assert_eq!(batch.len(), 25, "the third would be too many");
    pool.free_batch(batch.drain(..));
    there.close(&pool).expect("nothing to fail");
    assert_eq!(there.counters().ledger.dropped[DropReason::HeldAtStop], 8);
    assert_eq!((there.in_flight(), pool.available()), (0, 2048));
}

#[test]
fn another_thread_receives_everything_in_order_and_is_woken() {
    const PACKETS: u64 = 200_000;
    let (pool, bell) = (Arc::new(pool()), self::bell());
    let (mut here, mut there) = one_way(self::bell(), bell.clone());
    let theirs = pool.clone();
    let receiver = std::thread::spawn(move || {
        let (mut batch, mut next) = (Vec::new(), 0);
        while next < PACKETS {
            there.receive(&theirs, Nanos(0), 32, &mut batch);
            if batch.is_empty() {
                bell.will_sleep();
                if there.wake().at.is_none() {
                    let mut fds =
                        [rustix::event::PollFd::from_borrowed_fd(bell.fd(), rustix::event::PollFlags::IN)];
                    let patience = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
                    let woken = rustix::event::poll(&mut fds, Some(&patience)).expect("poll");
                    assert!(woken > 0, "slept through a ring");
                }
                bell.awake();
            }
            for packet in batch.drain(..) {
                assert_eq!(packet.record().mark, next);
                next += 1;
                theirs.free(packet);
            }
        }
    });
    let (mut sent, mut batch) = (0, Vec::new());
    while sent < PACKETS {
        if here.room() < 32 || pool.allocate_batch(((PACKETS - sent) as usize).min(17), &mut batch) == 0 {
            std::thread::yield_now();
            continue;
        }
        for packet in &mut batch {
            packet.edit(|record| record.mark = sent);
            sent += 1;
        }
        here.transmit(&pool, Nanos(0), &mut batch);
    }
    receiver.join().expect("no panic");
    assert_eq!(pool.available(), 2048);
}

#[test]
fn a_sender_that_waits_for_room_is_woken_when_half_is_free() {
    let (pool, sender) = (pool(), bell());
    let (mut here, mut there) = one_way(sender.clone(), bell());
    let mut batch = Vec::new();
    while here.room() > 0 {
        pool.allocate_batch(32, &mut batch);
        here.transmit(&pool, Nanos(0), &mut batch);
    }
    sender.will_sleep();
    here.want_room();
    let rung = || {
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(sender.fd(), rustix::event::PollFlags::IN)];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&at_once)).expect("poll") > 0
    };
    while here.room() < RELAY_PACKETS / 2 {
        assert!(!rung(), "woken for too little");
        there.receive(&pool, Nanos(0), 32, &mut batch);
        pool.free_batch(batch.drain(..));
    }
    assert!(rung());
}

#[test]
fn a_batch_that_is_longer_than_what_is_asked_for_comes_in_parts_and_in_order() {
    let pool = pool();
    let (mut here, mut there) = one_way(bell(), bell());
    for first in [0, 100] {
        let mut batch = Vec::new();
        pool.allocate_batch(100, &mut batch);
        for (n, packet) in (first..).zip(&mut batch) {
            packet.edit(|record| record.mark = n);
        }
        here.transmit(&pool, Nanos(0), &mut batch);
    }
    let (mut batch, mut marks) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        there.receive(&pool, Nanos(0), 0, &mut batch);
        assert!(batch.is_empty(), "nothing was asked for");
        there.receive(&pool, Nanos(0), 32, &mut batch);
        assert!(batch.len() <= 32);
        marks.extend(batch.iter().map(|packet| packet.record().mark));
        assert_eq!(there.in_flight(), 200 - marks.len() as u64);
        pool.free_batch(batch.drain(..));
    }
    assert!(there.wake().at.is_some(), "there is more");
    there.drain(&mut batch);
    marks.extend(batch.iter().map(|packet| packet.record().mark));
    pool.free_batch(batch.drain(..));
    assert_eq!(marks, (0..200).collect::<Vec<_>>());
    assert!(there.wake().at.is_none());
    assert_eq!((there.in_flight(), pool.available()), (0, 2048));
    assert!(here.room() >= RELAY_PACKETS - 200, "what was taken out is noticed when it matters");
}
