//! Instances and ports that are paused, resumed and moved while packets are on their way.

use super::stream::Rig;
use super::*;

#[test]
fn instances_move_back_and_forth_under_load_and_nothing_is_lost_or_overtaken() {
    let rig = Rig::new(2, 1);
    let (_, functions) = rig.both_ways(&[0, 0, 1], u64::MAX);
    rig.start();
    for n in 0..200 {
        let moved = rig.fleet.move_to(&[End::Instance(functions[1], 0)], n % 2).expect("it moves");
        assert_eq!(moved.parts, usize::from(n > 0), "it was on the first worker");
        rig.balanced();
        let (before, back) = (rig.flows.arrived(0), rig.flows.arrived(1));
        if n % 10 == 0 {
            rig.wait("packets arrive between moves", || {
                rig.flows.arrived(0) > before + 100 && rig.flows.arrived(1) > back + 100
            });
        }
    }
    let account = rig.stop();
    assert_eq!(account.ledger.dropped.total(), account.ledger.dropped[DropReason::HeldAtStop]);
    assert_eq!(account.ledger.dropped.total(), 0, "all went out");
}

#[test]
fn ports_and_whole_chains_move_back_and_forth_under_load() {
    let rig = Rig::new(3, 1);
    let (ports, functions) = rig.both_ways(&[0, 1], u64::MAX);
    let all = [
        End::Port(ports[0]),
        End::Port(ports[1]),
        End::Instance(functions[0], 0),
        End::Instance(functions[1], 0),
    ];
    rig.start();
    for n in 0..200 {
        let parts = if n % 5 == 0 { &all[..] } else { &all[n % 4..][..1] };
        rig.fleet.move_to(parts, n % 3).expect("it moves");
        rig.balanced();
        let before = rig.flows.arrived(0);
        if n % 20 == 0 {
            rig.wait("packets arrive between moves", || rig.flows.arrived(0) > before + 100);
        }
    }
    let account = rig.stop();
    assert_eq!(account.ledger.dropped.total(), 0);
}

#[test]
fn an_observer_moves_along_and_services_lead_to_where_it_is() {
    let rig = Rig::new(3, 1);
    let (sink, sent) = rig.script(0, 0, vec![]);
    let (serving, _) = rig.add(0, 0, Manner::wire());
    rig.link(End::Instance(serving, 1), End::Port(sink));
    let (eye, saw) = rig.add(0, 0, Manner::deciding(|_, _| Action::Fault));
    rig.fleet.observe(eye, serving, Some(0)).expect("both are there");
    rig.fleet.serve(service(1), End::Instance(serving, 0)).expect("it is there");
    let (asking, _) = rig.add(1, 0, Manner::deciding(|_, _| Action::Give(Verdict::Service(1))));
    let mut expected = Vec::new();
    for n in 0..12u8 {
        let (port, _) = rig.script(usize::from(n) % 3, 0, vec![n; 5]);
        let (asking, _) = match n {
            0 => (asking, Seen::default()),
            _ => rig.add(usize::from(n) % 2, 0, Manner::deciding(|_, _| Action::Give(Verdict::Service(1)))),
        };
        rig.link(End::Port(port), End::Instance(asking, 0));
        rig.turn(1);
        let moved = rig.fleet.move_to(&[End::Instance(eye, 0)], usize::from(n) % 3).expect("it moves");
        assert_eq!(moved.parts, if n == 0 { 0 } else { 2 }, "both or none");
        rig.turn(4);
        expected.extend([n; 5]);
        assert_eq!(*sent.lock().expect("not poisoned"), expected);
        assert_eq!(saw.bytes(), expected);
    }
    rig.stop();
}

#[test]
fn what_is_paused_keeps_its_packets_and_delivers_them_when_resumed() {
    let rig = Rig::new(2, 1);
    let (left, _) = rig.script(0, 0, vec![5; 200]);
    let (right, sent) = rig.script(1, 0, vec![]);
    let functions = [rig.wire(0), rig.wire(1)];
    rig.chain((left, right), &functions);
    rig.fleet.pause(functions[1]).expect("it has not stopped");
    rig.turn(20);
    let account = rig.balanced();
    assert!(account.instances[1].paused && sent.lock().expect("not poisoned").is_empty());
    assert_eq!(account.in_flight, 200, "they wait");
    rig.fleet.resume(functions[1]).expect("it has not stopped");
    rig.turn(20);
    assert_eq!(sent.lock().expect("not poisoned").len(), 200);
    rig.stop();
}

#[test]
fn time_goes_on_for_the_port_of_a_paused_instance() {
    let rig = Rig::simulated(1);
    let config = port::generator::Config {
        schedule: vec![
            port::generator::Load { from: 0, to: 1, rate: 0, flows: None },
            port::generator::Load { from: 1, to: 9, rate: 1000, flows: None },
        ],
        ..port::generator::Config::default()
    };
    let generator = Box::new(port::generator::GeneratorPort::new(config).expect("a schedule"));
    let source = rig.fleet.add_port(0, "generator", rig.pools[0].1, generator).expect("a worker");
    let (sink, sent) = rig.script(0, 0, vec![]);
    let function = rig.wire(0);
    rig.chain((source, sink), &[function]);
    rig.fleet.pause(function).expect("it has not stopped");
    rig.turn(1);
    pass(&rig.clock, Cycles(1_050_000_000));
    rig.fleet.resume(function).expect("it has not stopped");
    rig.turn(5);
    assert!(!sent.lock().expect("not poisoned").is_empty(), "the silent first second was over in the pause");
    rig.stop();
}

#[test]
fn a_paused_queue_is_bounded_and_what_finds_no_room_is_its_loss() {
    let mut bench = Bench::new(&[512]);
    bench.queue = 40;
    let ((left, _), (right, sent)) = (bench.port(0, vec![1; 200]), bench.port(0, vec![]));
    let (a, b) = (bench.wire(0), bench.wire(0));
    bench.chain((left, right), &[a, b]);
    bench.worker.pause(b);
    bench.turn(20);
    let account = bench.worker.account(false);
    assert_eq!((account.instances[1].queue, account.instances[1].calls), (40, 0));
    assert!(account.instances[1].ledger.dropped[DropReason::QueueFull] > 0);
    bench.worker.resume_instance(b).expect("it is not frozen");
    let (account, _) = bench.finish();
    assert_eq!(sent.lock().expect("not poisoned").len() as u64, account.ledger.delivered);
    assert!(account.ledger.delivered >= 40);
}

#[test]
fn a_timer_that_falls_due_in_a_pause_runs_afterwards() {
    let mut bench = Bench::new(&[16]);
    let (f, seen) = bench.add(0, Manner { every: Some(Nanos::from_millis(1)), ..Manner::wire() });
    bench.worker.pause(f);
    pass(&bench.worker.time.clock, Cycles(5_000_000));
    bench.turn(50);
    assert_eq!(seen.calls(), [], "its time stands still");
    bench.worker.resume_instance(f).expect("it is not frozen");
    bench.turn(5);
    assert!(seen.calls().contains(&Call::Timer), "late, and not lost");
    bench.finish();
}

#[test]
fn a_timer_goes_along_to_another_worker() {
    let rig = Rig::simulated(2);
    let (f, seen) = rig.add(0, 0, Manner { every: Some(Nanos::from_millis(1)), ..Manner::wire() });
    rig.turn(2);
    rig.fleet.move_to(&[End::Instance(f, 0)], 1).expect("it moves");
    let before = seen.calls().len();
    pass(&rig.clock, Cycles(3_000_000));
    rig.turn(3);
    assert!(seen.calls().len() > before);
    rig.stop();
}

#[test]
fn an_instance_in_the_middle_of_a_call_does_not_move() {
    let rig = Rig::new(2, 1);
    let ((left, _), (right, sent)) = (rig.script(0, 0, vec![1]), rig.script(0, 0, vec![]));
    let (f, seen) = rig.add(0, 0, Manner { suspend: 20, burn: Cycles(2_000_000), ..Manner::wire() });
    rig.chain((left, right), &[f]);
    rig.fleet.pause(f).expect("it has not stopped");
    rig.turn(2);
    rig.fleet.resume(f).expect("it has not stopped");
    rig.turn(1);
    let part = [End::Instance(f, 0)];
    let refused = rig.fleet.move_to(&part, 1).map_err(|error| error.to_string());
    let text = "`function` is in the middle of a call; it can be moved when that has ended";
    assert_eq!(refused, Err(text.to_owned()), "{:?}", seen.calls());
    rig.turn(60);
    assert_eq!(rig.fleet.move_to(&part, 1).expect("the call has ended").parts, 1);
    assert_eq!(*sent.lock().expect("not poisoned"), [1]);
    rig.stop();
}

#[test]
fn deadlines_that_come_nearer_at_every_call_do_not_pile_up() {
    let mut bench = Bench::new(&[16]);
    let f = bench.wire(0);
    for n in 0..100_000 {
        bench.worker.schedule(f.index(), Nanos(u64::MAX / 2 - n));
    }
    assert_eq!(bench.worker.timers.due.len(), 1);
    assert_eq!(bench.worker.timers.next(), Nanos(u64::MAX / 2 - 99_999));
    bench.finish();
}

#[test]
fn a_move_between_tenants_loses_nothing_to_a_short_queue() {
    let mut rig = Rig::new(2, 2);
    let (left, _) = rig.script(0, 0, vec![1; 500]);
    let (right, sent) = rig.script(1, 1, vec![]);
    let (a, _) = rig.add(0, 0, Manner::wire());
    rig.queue = 50;
    let (b, _) = rig.add(1, 1, Manner::wire());
    rig.chain((left, right), &[a, b]);
    for _ in 0..20 {
        rig.fleet.turn(0);
    }
    assert_eq!(rig.balanced().in_flight, 500, "on their way to the other worker");
    rig.fleet.move_to(&[End::Instance(b, 0)], 0).expect("it moves");
    rig.turn(40);
    assert_eq!(sent.lock().expect("not poisoned").len(), 500);
    assert_eq!(rig.stop().ledger.dropped.total(), 0);
}

#[test]
fn pairs_at_a_switch_move_under_load_and_nothing_is_lost_or_overtaken() {
    use virtual_switch::{Switch, SwitchSettings};
    for home in [None, Some(2)] {
        let rig = Rig::new(3, 1);
        let table = Arc::new(Switch::new(SwitchSettings::default()).expect("good settings"));
        let id = rig.fleet.add_switch("switch", table.clone(), home).expect("few switches");
        let mut parts = Vec::new();
        for flow in 0..4u8 {
            let stream = rig.stream(usize::from(flow) % 3, 0, flow, u64::MAX, 100);
            let f = rig.wire(usize::from(flow) % 2);
            let plug = End::Switch(id, table.attach().expect("few ports"));
            rig.link(End::Port(stream), End::Instance(f, 0));
            rig.link(End::Instance(f, 1), plug);
            parts.extend([End::Port(stream), End::Instance(f, 0)]);
        }
        rig.start();
        for n in 0..100 {
            rig.fleet.move_to(&[parts[n * 5 % 8]], n % 3).expect("it moves");
            rig.balanced();
            let before: Vec<_> = (0..4).map(|flow| rig.flows.arrived(flow)).collect();
            if n % 10 == 0 {
                rig.wait("packets arrive between moves", || {
                    (0..4u8).all(|flow| rig.flows.arrived(flow) > before[usize::from(flow)] + 50)
                });
            }
        }
        assert_eq!(rig.stop().ledger.dropped.total(), 0);
    }
}

#[test]
fn an_observer_sees_in_order_what_it_saw_late_and_at_once() {
    let mut bench = Bench::new(&[512]);
    let offers: Vec<u8> = (0..200).collect();
    let ((left, _), (right, _)) = (bench.port(0, offers.clone()), bench.port(0, vec![]));
    let f = bench.wire(0);
    bench.chain((left, right), &[f]);
    let (eye, saw) = bench.function(0, |_, _| Action::Fault);
    let at = Target::Instance(f, 0);
    bench.worker.observe(eye, at, View::default()).expect("both are there");
    bench.worker.pause(eye);
    // One hop, whose packets are kept for it.
    bench.worker.receive();
    bench.worker.hop(f.index());
    bench.worker.resume_instance(eye).expect("it is not frozen");
    bench.worker.hop(f.index());
    bench.turn(10);
    assert_eq!(saw.bytes(), offers);
    bench.finish();
}

#[test]
fn an_instance_about_to_run_does_not_when_it_is_paused() {
    let mut bench = Bench::new(&[16]);
    let ((left, _), (right, sent)) = (bench.port(0, vec![1]), bench.port(0, vec![]));
    let f = bench.wire(0);
    bench.chain((left, right), &[f]);
    bench.worker.receive();
    bench.worker.pause(f);
    bench.turn(3);
    assert!(sent.lock().expect("not poisoned").is_empty());
    bench.worker.resume_instance(f).expect("it is not frozen");
    bench.turn(1);
    assert_eq!(*sent.lock().expect("not poisoned"), [1]);
    bench.finish();
}

#[test]
fn others_that_lead_to_the_same_end_still_do_when_one_moves() {
    let rig = Rig::new(3, 1);
    let ((one, _), (other, _)) = (rig.script(0, 0, vec![1]), rig.script(0, 0, vec![2; 200]));
    let (sink, sent) = rig.script(1, 0, vec![]);
    for from in [one, other] {
        rig.fleet.lead(End::Port(from), End::Port(sink)).expect("a free wire");
    }
    rig.fleet.move_to(&[End::Port(one)], 2).expect("it moves");
    rig.turn(8);
    let mut bytes = sent.lock().expect("not poisoned").clone();
    bytes.sort_unstable();
    assert_eq!(bytes, [&[1][..], &[2; 200]].concat());
    rig.stop();
}
