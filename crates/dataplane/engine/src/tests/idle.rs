//! A worker with nothing to do sleeps, and whatever gives it something to do wakes it.

use super::stream::Rig;
use super::*;
use port::Bell;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A port that has a packet whenever its descriptor was written to.
struct Knocking {
    fd: Arc<OwnedFd>,
    counters: PortCounters,
}

impl Port for Knocking {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let mut count = [0; 8];
        if budget == 0 || rustix::io::read(&self.fd, &mut count).is_err() {
            return;
        }
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, &[1; 14]).expect("it fits");
        self.counters.ledger.received += 1;
        out.push(packet);
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }
    fn wake(&self) -> Wake<'_> {
        Wake { readable: Some(self.fd.as_fd()), ..Wake::default() }
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

fn knocking() -> (Box<Knocking>, Arc<OwnedFd>) {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let fd = Arc::new(eventfd(0, flags).expect("an event descriptor"));
    (Box::new(Knocking { fd: fd.clone(), counters: PortCounters::default() }), fd)
}

fn knock(fd: &OwnedFd) {
    rustix::io::write(fd, &1u64.to_ne_bytes()).expect("an event");
}

/// Part of their time that workers slept between two accounts, the least of all workers.
fn asleep(before: &Account, after: &Account) -> f64 {
    let span = after.at.cycles.since(before.at.cycles).0 as f64;
    let of = |(before, after): (&WorkerTime, &WorkerTime)| after.asleep.since(before.asleep).0 as f64 / span;
    before.workers.iter().zip(&after.workers).map(of).fold(1.0, f64::min)
}

/// Whether all workers sleep for nearly all of the time.
fn sleeps(rig: &Rig, what: &str) {
    let before = rig.balanced();
    rig.pass(Nanos::from_millis(100));
    let part = asleep(&before, &rig.balanced());
    assert!(part > 0.9, "{what}: asleep for {part} of the time");
}

#[test]
fn workers_with_nothing_to_do_sleep() {
    let rig = Rig::simulated(2);
    let (port, fd) = knocking();
    let left = rig.fleet.add_port(0, "knocking", rig.pools[0].1, port).expect("a worker");
    let (right, sent) = rig.script(1, 0, vec![]);
    rig.chain((left, right), &[rig.wire(0), rig.wire(1), rig.wire(0), rig.wire(1)]);
    sleeps(&rig, "nothing to do");
    knock(&fd);
    sleeps(&rig, "one packet");
    assert_eq!(sent.lock().expect("not poisoned").len(), 1);
    rig.stop();
}

/// Time stands: what is slept through is slept through for ever.
#[test]
fn what_comes_by_a_port_wakes_all_workers_on_its_way() {
    let rig = Rig::standing(2);
    let (port, fd) = knocking();
    let left = rig.fleet.add_port(0, "knocking", rig.pools[0].1, port).expect("a worker");
    let (right, sent) = rig.script(1, 0, vec![]);
    rig.chain((left, right), &[rig.wire(0), rig.wire(1), rig.wire(0), rig.wire(1)]);
    rig.start();
    for n in 1..=50 {
        knock(&fd);
        rig.wait_asleep("a packet", || sent.lock().expect("not poisoned").len() == n);
    }
    rig.stop();
}

#[test]
fn relays_that_are_not_emptied_keep_no_worker_awake() {
    let rig = Rig::simulated(2);
    let (left, right) = (rig.stream(0, 0, 0, u64::MAX, u64::MAX), rig.stream(1, 0, 1, 0, 0));
    // Wired straight to the other worker's function: what it cannot take waits outside.
    let f = rig.wire(1);
    rig.chain((left, right), &[f]);
    rig.fleet.pause(f).expect("it has not stopped");
    rig.pass(Nanos::from_millis(100));
    assert!(rig.balanced().in_flight >= port::relay::RELAY_PACKETS as u64 - 64, "the wire is full");
    sleeps(&rig, "the taker is paused");
    rig.fleet.resume(f).expect("it has not stopped");
    rig.pass(Nanos::from_millis(10));
    assert_eq!(rig.stop().ledger.dropped[DropReason::QueueFull], 0, "the port was not polled meanwhile");
}

#[test]
fn a_sender_whose_wire_is_full_is_woken_when_it_is_not() {
    let rig = Rig::standing(2);
    let (left, right) = (rig.stream(0, 0, 0, u64::MAX, u64::MAX), rig.stream(1, 0, 1, 0, 0));
    let f = rig.wire(1);
    rig.chain((left, right), &[f]);
    rig.start();
    rig.wait_asleep("the sender", || rig.flows.arrived(0) > 100_000);
    assert_eq!(rig.stop().ledger.dropped[DropReason::QueueFull], 0);
}

#[test]
fn a_timer_wakes() {
    let rig = Rig::simulated(1);
    let (_, seen) = rig.add(0, 0, Manner { every: Some(Nanos::from_millis(10)), ..Manner::wire() });
    rig.pass(Nanos::from_millis(205));
    assert_eq!(seen.calls(), [scripted::Call::Timer; 21]);
    let account = rig.stop();
    assert!(account.workers[0].asleep > account.workers[0].overhead);
}

#[test]
fn a_message_wakes() {
    let rig = Rig::standing(1);
    rig.wire(0);
    rig.start();
    let answered = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..20).for_each(|_| drop(rig.balanced()));
            answered.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        rig.wait_asleep("a message", || answered.load(std::sync::atomic::Ordering::SeqCst));
    });
    rig.stop();
}

#[test]
fn a_bell_that_rang_before_sleep_is_heard() {
    let bell = Bell::new().expect("an event descriptor");
    bell.ring_if_asleep();
    let rung = |wait| {
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(bell.fd(), rustix::event::PollFlags::IN)];
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: wait };
        rustix::event::poll(&mut fds, Some(&wait)).expect("poll") > 0
    };
    assert!(!rung(0), "the worker does not sleep");
    bell.will_sleep();
    bell.ring_if_asleep();
    assert!(rung(0));
    bell.awake();
    assert!(!rung(0), "what rang is forgotten");
    bell.ring();
    bell.will_sleep();
    assert!(rung(0), "a message keeps it from sleeping");
}

/// A port that is not what it was.
struct Changed([OwnedFd; 2], PortCounters);

impl Port for Changed {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        pool.free_batch(packets.drain(..));
    }
    fn wake(&self) -> Wake<'_> {
        let Changed([readable, news], _) = self;
        Wake { readable: Some(readable.as_fd()), news: Some(news.as_fd()), at: None }
    }
    fn counters(&self) -> &PortCounters {
        &self.1
    }
}

#[test]
fn what_comes_may_wait_and_what_a_port_has_to_tell_of_itself_may_not() {
    let bell = || eventfd(0, EventfdFlags::CLOEXEC).expect("an event descriptor");
    let (port, mut bench) = (Changed([bell(), bell()], PortCounters::default()), Bench::new(&[16]));
    let [readable, news] = port.0.each_ref().map(AsRawFd::as_raw_fd);
    let (left, (right, _)) = (bench.add_port(0, Box::new(port)), bench.port(0, vec![]));
    bench.worker.lead(left, right).expect("a free wire");
    let interval = Nanos(100_000);
    let awaited = |bench: &Bench| {
        let (wake_at, fds) = bench.worker.next_wakeup(Nanos(7));
        (wake_at <= Nanos(7).saturating_add(interval), fds.iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>())
    };
    assert_eq!(awaited(&bench), (false, vec![readable]));
    bench.worker.parking.moderation.begin(interval);
    assert_eq!(awaited(&bench), (true, vec![news]));
}
