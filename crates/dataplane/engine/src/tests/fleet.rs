//! Many workers: what goes from one to another arrives, in order, and is counted at any moment.

use super::stream::Rig;
use super::*;

#[test]
fn a_chain_over_many_workers_delivers_in_order_both_ways() {
    for places in [&[0, 1][..], &[0, 1, 2], &[0, 1, 0, 1, 2, 0]] {
        let rig = Rig::new(places.iter().max().expect("some") + 1, 1);
        rig.both_ways(places, 20_000);
        rig.start();
        rig.arrive(&[0, 1], 20_000);
        let account = rig.stop();
        assert_eq!(account.ledger.delivered, 40_000);
        assert_eq!(account.ledger.dropped.total(), 0);
        assert_eq!(account.instances.len(), places.len());
        for (instance, &place) in account.instances.iter().zip(places) {
            assert_eq!((instance.packets, usize::from(instance.worker)), (40_000, place));
        }
        assert_eq!(account.ports.len(), 2, "relays are not shown");
    }
}

#[test]
fn ports_of_two_workers_may_be_wired_to_each_other() {
    let rig = Rig::new(2, 2);
    let (left, right) = (rig.stream(0, 0, 0, 20_000, 400), rig.stream(1, 1, 1, 20_000, 400));
    rig.link(End::Port(left), End::Port(right));
    rig.start();
    rig.arrive(&[0, 1], 20_000);
    let account = rig.stop();
    assert_eq!(
        (account.ledger.delivered, account.ledger.copied),
        (40_000, 40_000),
        "between pools they are copied"
    );
}

#[test]
fn services_are_reached_from_every_worker() {
    let rig = Rig::new(3, 1);
    let (sink, sent) = rig.script(2, 0, vec![]);
    let (serving, _) = rig.add(1, 0, Manner::wire());
    rig.link(End::Instance(serving, 1), End::Port(sink));
    rig.fleet.serve(service(7), End::Instance(serving, 0)).expect("it is there");
    for worker in 0..3 {
        let (port, _) = rig.script(worker, 0, vec![worker as u8; 10]);
        let (asking, _) = rig.add(worker, 0, Manner::deciding(|_, _| Action::Give(Verdict::Service(7))));
        rig.link(End::Port(port), End::Instance(asking, 0));
    }
    rig.turn(20);
    let mut bytes = sent.lock().expect("not poisoned").clone();
    bytes.sort_unstable();
    assert_eq!(bytes, [[0; 10], [1; 10], [2; 10]].concat());
    assert_eq!(
        rig.fleet.serve(service(8), End::Instance(serving, 2)).map_err(|error| error.to_string()),
        Err("the instance has 2 interfaces, there is no interface 2".to_owned())
    );
    rig.stop();
}

#[test]
fn an_observer_is_brought_to_what_it_observes() {
    let rig = Rig::new(2, 1);
    let ((left, _), (right, sent)) = (rig.script(0, 0, (0..100).collect()), rig.script(0, 0, vec![]));
    let f = rig.wire(1);
    rig.chain((left, right), &[f]);
    let (eye, saw) = rig.add(0, 0, Manner::deciding(|_, _| Action::Fault));
    rig.fleet.observe(eye, f, None).expect("both are there");
    rig.turn(10);
    let offers: Vec<u8> = (0..100).collect();
    assert_eq!((saw.bytes(), &*sent.lock().expect("not poisoned")), (offers.clone(), &offers));
    let account = rig.stop();
    assert_eq!(account.instances[1].worker, 1);
}

#[test]
fn the_flow_hash_is_computed_for_readers_on_other_workers() {
    let rig = Rig::new(2, 1);
    let (port, _) = rig.script(0, 0, vec![]);
    let (mut setup, guest) =
        instance(&rig.pools[0], cpu_share::TenantId(0), Manner::wire(), &Seen::default(), rig.clock);
    setup.flow_hash = true;
    let reader = rig.fleet.add_instance(1, setup, guest).expect("a worker");
    rig.link(End::Port(port), End::Instance(reader, 0));
    assert!(rig.fleet.computes_flow_hash(0), "where the packets come in");
    rig.stop();
}

#[test]
fn a_batch_longer_than_the_receiver_takes_at_once_arrives_all_the_same() {
    let small = WorkerSettings { batch: 7, ..patient() };
    let rig = Rig::with(&[patient(), small], 1);
    rig.both_ways(&[0, 1], 1000);
    rig.start();
    rig.arrive(&[0, 1], 1000);
    rig.stop();
}

#[test]
fn what_a_report_sends_is_in_the_account() {
    let rig = Rig::new(2, 1);
    let ((left, _), (right, sent)) = (rig.script(0, 0, vec![1]), rig.script(0, 0, vec![]));
    let holding = Manner {
        emit_at_report: true,
        hold: Nanos::from_millis(10_000),
        ..Manner::deciding(|_, _| Action::Give(Verdict::Hold(0)))
    };
    let (f, _) = rig.add(1, 0, holding);
    rig.chain((left, right), &[f]);
    rig.turn(5);
    let account = rig.fleet.account(true).expect("it has not stopped");
    account.balance().expect("balanced");
    rig.turn(5);
    assert_eq!(*sent.lock().expect("not poisoned"), [1]);
    assert_eq!(account.instances[0].report.as_deref(), Some("{}"));
    rig.stop();
}

#[test]
fn what_the_last_reports_send_is_held_at_stop() {
    let rig = Rig::new(2, 1);
    let ((left, _), (right, _)) = (rig.script(0, 0, vec![1]), rig.script(0, 0, vec![]));
    let (f, seen) = rig.add(
        1,
        0,
        Manner {
            emit_at_report: true,
            hold: Nanos::from_millis(10_000),
            ..Manner::deciding(|_, _| Action::Give(Verdict::Hold(0)))
        },
    );
    rig.chain((left, right), &[f]);
    rig.turn(5);
    let account = rig.stop();
    assert_eq!(account.ledger.dropped[DropReason::HeldAtStop], 1);
    let reports = seen.calls().iter().filter(|call| **call == Call::Report).count();
    assert_eq!(reports, 1, "it is asked once");
}

#[test]
fn stopping_while_wires_are_full_loses_nothing_that_can_go_out() {
    let drain = Nanos::from_millis(10_000);
    let settings = WorkerSettings { drain, spin: Nanos(0), ..WorkerSettings::default() };
    let mut rig = Rig::with(&[settings; 3], 1);
    // A slow function in the middle, to which few packets are shown at once.
    let slow = Manner { burn_each: rig.clock.cycles(Nanos(40_000)), ..Manner::wire() };
    let ports = (rig.stream(0, 0, 0, u64::MAX, 1000), rig.stream(2, 0, 1, 0, 0));
    rig.queue = 100;
    let middle = rig.add(1, 0, slow).0;
    rig.queue = 1024;
    let functions = [rig.wire(0), middle, rig.wire(2)];
    rig.chain(ports, &functions);
    rig.start();
    rig.arrive(&[0], 500);
    let account = rig.stop();
    assert_eq!(account.ledger.dropped.total(), 0);
    assert_eq!(account.ledger.received, account.ledger.delivered);
    assert_eq!(rig.fleet.account(false).err().map(|error| error.to_string()), Some(Stopped.to_string()));
}

#[test]
fn a_fleet_of_one_has_finished_when_nothing_is_left_and_is_asked_until_it_has_stopped() {
    let rig = Rig::with(&[patient()], 1);
    let ((left, _), (right, sent)) = (rig.script(0, 0, vec![1, 2, 3]), rig.script(0, 0, vec![]));
    let f = rig.wire(0);
    rig.chain((left, right), &[f]);
    rig.start();
    rig.wait("it finishes", || {
        rig.fleet.account(true).expect("it runs").balance().expect("balanced");
        // Before the first turn nothing says that this port has more.
        let all_sent = sent.lock().expect("not poisoned").len() == 3;
        all_sent && rig.fleet.finished().expect("it runs")
    });
    let account = rig.stop();
    assert_eq!(account.ledger.delivered, 3);
    assert_eq!(*sent.lock().expect("not poisoned"), [1, 2, 3]);
    assert!(matches!(rig.fleet.account(false), Err(FleetError::Stopped(Stopped))));
}

#[test]
fn a_fleet_that_was_never_started_stops_and_counts_what_is_held() {
    let rig = Rig::new(2, 1);
    let ((left, _), (right, sent)) = (rig.script(0, 0, vec![3; 50]), rig.script(1, 0, vec![]));
    let functions = [rig.wire(0), rig.wire(1)];
    rig.chain((left, right), &functions);
    rig.fleet.pause(functions[1]).expect("it has not stopped");
    rig.turn(3);
    let account = rig.stop();
    assert_eq!(account.ledger.dropped[DropReason::HeldAtStop], 50);
    assert!(sent.lock().expect("not poisoned").is_empty());
    assert!(rig.fleet.stop().is_err(), "twice");
    rig.start();
    assert!(rig.fleet.account(false).is_err(), "what has stopped is not started again");
}

#[test]
fn workers_that_are_not_there_are_refused() {
    let rig = Rig::new(2, 1);
    let f = rig.wire(0);
    let text = "there is no worker 2; allowed: 0 to 1";
    let refused = rig.fleet.move_to(&[End::Instance(f, 0)], 2).map_err(|error| error.to_string());
    assert_eq!(refused, Err(text.to_owned()));
    let (port, _) = Script::boxed(vec![]);
    let refused = rig.fleet.add_port(2, "port", rig.pools[0].1, port).map_err(|error| error.to_string());
    assert_eq!(refused, Err(text.to_owned()));
    let absent = rig.fleet.move_to(&[End::Instance(FleetInstance(9), 0)], 1);
    assert!(matches!(absent, Err(FleetError::Wire(WireError::Absent))));
    rig.stop();
}

#[test]
fn all_is_finished_when_no_worker_has_anything_left() {
    let rig = Rig::new(2, 1);
    let (left, _) = rig.script(0, 0, vec![1; 10]);
    let (right, _) = rig.script(1, 0, vec![]);
    let functions = [rig.wire(0), rig.wire(1)];
    rig.chain((left, right), &functions);
    rig.fleet.turn(0);
    assert!(!rig.fleet.finished().expect("it runs"), "they are on their way to the other worker");
    rig.turn(5);
    assert!(rig.fleet.finished().expect("it runs"));
    rig.stop();
}

/// How often workers were woken while they were asked a thousand times how they are.
fn wakeups_for_questions(rig: &Rig) -> u64 {
    let (before, _) = rig.fleet.wakeups();
    for _ in 0..1_000 {
        rig.fleet.account(false).expect("it runs").balance().expect("balanced");
    }
    rig.fleet.wakeups().0 - before
}

#[test]
fn questions_wake_no_sleeping_worker_and_what_is_left_for_one_is_done() {
    let rig = Rig::new(2, 1);
    let (left, _) = rig.script(0, 0, vec![]);
    let (right, sent) = rig.script(1, 0, vec![]);
    let functions = [rig.wire(0), rig.wire(1)];
    rig.chain((left, right), &functions);
    rig.start();
    // Those that have just begun are not left for others yet; that another thread asks for them changes it.
    let awake = wakeups_for_questions(&rig);
    assert!(awake < 500, "{awake} wakeups for 1,000 questions to two workers that have begun to work");
    rig.wait("all workers are parked", || rig.fleet.wakeups().1);
    let asleep = wakeups_for_questions(&rig);
    assert!(asleep < 500, "{asleep} wakeups for 1,000 questions to two workers that slept");
    // Something to do wakes the worker that it concerns.
    let pool = rig.pools[0].0.clone();
    let mut packet = pool.allocate().expect("one is free");
    pool.write(&mut packet, &[7]).expect("it fits");
    classify(&pool, std::slice::from_mut(&mut packet), true);
    let id = functions[0];
    let left_over = rig.fleet.change(move |change| change.put_into_queue(id, vec![packet])).expect("it runs");
    assert!(left_over.is_empty());
    rig.wait("it arrives", || sent.lock().expect("not poisoned").len() == 1);
    // And so does a port that goes: its thread does not wait for it any more when it has gone.
    rig.fleet.change(move |change| change.remove_port(right)).expect("it runs").expect("it is there");
    rig.stop();
}

/// Has something beside its worker, which ends with it.
struct Attended {
    _attendant: Arc<()>,
    counters: PortCounters,
}

impl Port for Attended {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        pool.free_batch(packets.drain(..));
    }
    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

#[test]
fn what_a_port_has_that_goes_is_not_waited_for_by_the_workers() {
    let rig = Rig::new(1, 1);
    let attendant = Arc::new(());
    let port = Attended { _attendant: attendant.clone(), counters: PortCounters::default() };
    let port = rig.fleet.add_port(0, "attended", rig.pools[0].1, Box::new(port)).expect("a worker");
    rig.start();
    let there = attendant.clone();
    let removed = rig.fleet.change(move |change| {
        let removed = change.remove_port(port).expect("it is there");
        (removed, Arc::strong_count(&there))
    });
    let (removed, while_workers_stood_still) = removed.expect("it has not stopped");
    assert_eq!((while_workers_stood_still, Arc::strong_count(&attendant)), (3, 2));
    drop(removed);
    assert_eq!(Arc::strong_count(&attendant), 1, "it ends with what is left of the port");
    rig.stop();
}

#[test]
fn only_workers_that_a_change_concerns_are_taken_into_hand() {
    let rig = Rig::new(3, 1);
    let table = Arc::new(virtual_switch::Switch::new(Default::default()).expect("the usual settings"));
    let hall = rig.fleet.add_switch("hall", table.clone(), None).expect("few");
    let (here, there) = (rig.wire(0), rig.wire(2));
    rig.start();
    let plug = || End::Switch(hall, table.attach().expect("few"));
    let (first, second) = (plug(), plug());
    let link = |instance, plug| {
        rig.fleet.touched(move |change| change.link(End::Instance(instance, 0), plug).expect("both are free"))
    };
    assert_eq!(link(here, first), [0], "no other worker uses the switch");
    assert_eq!(link(there, second), [0, 2], "worker 1 does not use it");
    let account = rig.fleet.touched(|change| drop(change.account_of(there).expect("it is there")));
    assert_eq!(account, [2]);
    let pause = rig.fleet.touched(|change| change.set_paused(here, true).expect("it is there"));
    assert_eq!(pause, [0]);
    let gone = rig.fleet.touched(|change| drop(change.remove_instance(there).expect("it is there")));
    assert_eq!(gone, [0, 2], "the worker that sends there stands still");
    let gone = rig.fleet.touched(|change| drop(change.remove_instance(here).expect("it is there")));
    assert_eq!(gone, [0, 2], "there is a way from the other still");
    rig.stop();
}
