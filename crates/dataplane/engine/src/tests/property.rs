//! Whatever is connected to whatever on whatever worker, and however it is moved and paused meanwhile: every
//! packet is accounted for at any moment, and every buffer is back at the end.

use super::stream::Rig;
use super::*;
use proptest::prelude::*;
use virtual_device::{Balance, Device, DeviceSettings, Mode, Opener, PortDevices, Share};
use virtual_switch::{Switch, SwitchPort, SwitchSettings};

/// What is done between turns. Numbers are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
enum Step {
    Turn(usize),
    MoveInstance(usize, usize),
    MovePort(usize, usize),
    MoveAll(usize),
    Pause(usize),
    Resume(usize),
    Observe(usize, usize),
    Serve(u16, usize),
    Report,
    Link(usize, usize, bool),
    Unlink(usize, usize),
    Unserve(u16),
    Unobserve(usize, usize),
    /// The same at any port, interface or plug.
    Watch(usize, usize, u8),
    Unwatch(usize, usize, u8),
    ReplaceInstance(usize, usize),
    ReplacePort(usize, usize),
    ReplaceSwitch(usize),
    /// Another program for a device, or for the devices at a port.
    Reprogram(usize, u8),
    TakeOver(usize, u8),
    /// The work of a start is done, or called off.
    Start(usize, bool),
    /// No more work is taken in, or it is again.
    Refuse(bool),
    /// Takes a guest out, or puts back one that was.
    Detach(usize),
    Attach(usize),
    /// Loses a guest that was taken out.
    Lose(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = || 0usize..32;
    prop_oneof![
        8 => any().prop_map(Step::Turn),
        2 => (any(), any()).prop_map(|(part, to)| Step::MoveInstance(part, to)),
        2 => (any(), any()).prop_map(|(part, to)| Step::MovePort(part, to)),
        1 => any().prop_map(Step::MoveAll),
        1 => any().prop_map(Step::Pause),
        1 => any().prop_map(Step::Resume),
        1 => (any(), any()).prop_map(|(one, other)| Step::Observe(one, other)),
        1 => (0u16..3, any()).prop_map(|(service, end)| Step::Serve(service, end)),
        1 => Just(Step::Report),
        3 => (any(), any(), proptest::arbitrary::any::<bool>()).prop_map(|(a, b, both)| Step::Link(a, b, both)),
        2 => (any(), any()).prop_map(|(a, b)| Step::Unlink(a, b)),
        1 => (0u16..3).prop_map(Step::Unserve),
        1 => (any(), any()).prop_map(|(one, other)| Step::Unobserve(one, other)),
        2 => (any(), any(), proptest::arbitrary::any::<u8>()).prop_map(|(one, end, seed)| Step::Watch(one, end, seed)),
        1 => (any(), any(), proptest::arbitrary::any::<u8>()).prop_map(|(one, end, seed)| Step::Unwatch(one, end, seed)),
        1 => (any(), any()).prop_map(|(which, worker)| Step::ReplaceInstance(which, worker)),
        1 => (any(), any()).prop_map(|(which, worker)| Step::ReplacePort(which, worker)),
        1 => any().prop_map(Step::ReplaceSwitch),
        2 => (any(), proptest::arbitrary::any::<u8>()).prop_map(|(which, seed)| Step::Reprogram(which, seed)),
        2 => (any(), proptest::arbitrary::any::<u8>()).prop_map(|(which, seed)| Step::TakeOver(which, seed)),
        3 => (any(), proptest::bool::weighted(0.8)).prop_map(|(which, done)| Step::Start(which, done)),
        1 => proptest::arbitrary::any::<bool>().prop_map(Step::Refuse),
        2 => any().prop_map(Step::Detach),
        2 => any().prop_map(Step::Attach),
        1 => any().prop_map(Step::Lose),
    ]
}

/// A device of any mode with three ports at most, whose plugs are from 0 on, and openers at those from 3 on.
fn device(seed: u8, before: Option<&Device>) -> Device {
    let seed = usize::from(seed);
    let balances =
        [Balance::RoundRobin, Balance::Flow, Balance::Flowlet { gap: Nanos(1000) }, Balance::ActiveBackup];
    let mode = [Mode::Direct, Mode::Bridge, Mode::Rootless, Mode::Bond(balances[seed / 4 % 4])][seed % 4];
    let share = [Share::Single, Share::Duplicate, Share::Balance][seed % 3];
    let opener = |n: usize| Opener {
        plug: SwitchPort(3 + n as u16),
        side: (seed % 5 == n).then_some(n),
        receives: seed % 7 != n,
    };
    let ports = (0..seed % 8 / 2).map(|n| SwitchPort(n as u16)).collect();
    Device::new(DeviceSettings::new(mode, share, ports, (0..3).map(opener).collect()), before)
}

/// The devices at a port, whose plug is 0, at plugs 1 and 2.
fn port_devices(seed: u8, before: Option<&PortDevices>) -> PortDevices {
    let rule = |n: u8, filter: &str| {
        let filter = (!filter.is_empty()).then(|| capture::Filter::parse(filter).expect("a filter"));
        let observes = seed >> (2 + n) & 1 == 1;
        (classifier::Rule { filter, priority: 1, class: 0, observes }, SwitchPort(u16::from(n)))
    };
    // Even destinations are stations, odd ones groups.
    let rules = vec![rule(1, ["", "ether dst 04:00:00:00:00:00"][usize::from(seed % 2)]), rule(2, "")];
    PortDevices::new(SwitchPort(0), rules, before)
}

/// Where an observer stands that is shown what passes an end, and what of that.
fn watched(end: End, seed: u8) -> (Place, View) {
    let at = match end {
        End::Instance(instance, interface) => Place::Interface(instance, interface),
        End::Port(port) => Place::Port(port),
        End::Switch(switch, plug) => Place::Switch(switch, seed.is_multiple_of(2).then_some(plug)),
    };
    let filter =
        seed.is_multiple_of(3).then(|| capture::Filter::parse("ether dst 04:00:00:00:00:00").expect("one"));
    (at, View { filter: filter.map(Arc::new), one_of: u32::from(seed / 64) })
}

/// Decisions of all kinds, by chance.
fn manner(seed: u8, suspend: u32) -> Manner {
    let decide = move |byte: u8, ingress: u16| match byte.wrapping_mul(37).wrapping_add(seed) % 24 {
        0 => Action::Give(Verdict::Drop(0)),
        1 => Action::Give(Verdict::None),
        2 => Action::Give(Verdict::Consume),
        3 => Action::Give(Verdict::Interface(u16::from(byte))),
        4..=6 => Action::Give(Verdict::Service(u16::from(byte % 4))),
        7 => Action::Give(Verdict::Hold(u16::from(byte % 8))),
        8 if byte.is_multiple_of(5) => Action::Fault,
        9..=11 => Action::Give(Verdict::Interface(ingress)),
        _ => Action::Give(Verdict::Interface(1 - ingress)),
    };
    let every = (seed.is_multiple_of(3)).then_some(Nanos(20_000));
    let hold = Nanos(50_000);
    let (overdue, start_fails) = (seed.is_multiple_of(7), seed.is_multiple_of(2));
    Manner { hold, suspend, every, overdue, start_fails, emit_at_report: true, ..Manner::deciding(decide) }
}

/// A port, which has a meter of its own if its number is even.
fn metered(rig: &Rig, number: usize, port: FleetPort) -> FleetPort {
    if number.is_multiple_of(2) {
        let meter = Arc::new(cpu_share::Meter::new(rig.clock.cycles(cpu_share::meter::BURST)));
        let done = rig.fleet.change(move |change| change.set_meter(port, meter, false));
        done.expect("it has not stopped").expect("it is there");
    }
    port
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn every_packet_is_accounted_for_whatever_moves_comes_and_goes(
        workers in 1usize..4,
        homes in prop::collection::vec(prop::option::of(0usize..4), 0..3),
        devices in prop::collection::vec((any::<bool>(), any::<u8>(), prop::option::weighted(0.2, 0usize..4)), 0..4),
        ports in prop::collection::vec((0usize..4, 0usize..2, prop::collection::vec(any::<u8>(), 0..200)), 1..6),
        functions in prop::collection::vec((0usize..4, 0usize..2, any::<u8>(), 0u32..3, 1usize..200), 1..7),
        wires in prop::collection::vec((0usize..64, 0usize..64, any::<bool>()), 0..16),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut rig = Rig::new(workers, 2);
        let mut ends = Vec::new();
        let mut ports: Vec<_> = ports
            .into_iter()
            .map(|(worker, pool, offers)| metered(&rig, worker, rig.script(worker % workers, pool, offers).0))
            .collect();
        ends.extend(ports.iter().map(|port| End::Port(*port)));
        let (mut instances, mut pool_of) = (Vec::new(), Vec::new());
        for (worker, pool, seed, suspend, queue) in functions {
            rig.queue = queue;
            let (f, _) = rig.add(worker % workers, pool, manner(seed, suspend));
            ends.extend([End::Instance(f, 0), End::Instance(f, 1)]);
            instances.push(f);
            pool_of.push(pool);
        }
        for home in homes {
            let table = Arc::new(Switch::new(SwitchSettings::default()).expect("good settings"));
            let id = rig.fleet.add_switch("switch", table.clone(), home.map(|home| home % workers)).expect("few switches");
            ends.extend((0..3).map(|_| End::Switch(id, table.attach().expect("few ports"))));
        }
        let mut programs: Vec<(SwitchId, Forwarding)> = Vec::new();
        for (at_port, seed, home) in devices {
            let (forwarding, plugs) = match at_port {
                true => (Forwarding::from(Arc::new(port_devices(seed, None))), 3),
                false => (Forwarding::from(Arc::new(device(seed, None))), 6),
            };
            let home = home.map(|home| home % workers);
            let id = rig.fleet.add_switch("device", forwarding.clone(), home).expect("few devices");
            ends.extend((0..plugs).map(|plug| End::Switch(id, SwitchPort(plug))));
            programs.push((id, forwarding));
        }
        let wire = |rig: &Rig, a: End, b: End, both_ways: bool| {
            // Those that cannot be are refused.
            let _ = if both_ways { rig.fleet.link(a, b) } else { rig.fleet.lead(a, b) };
        };
        for (a, b, both_ways) in wires {
            wire(&rig, ends[a % ends.len()], ends[b % ends.len()], both_ways);
            rig.balanced();
            prop_assert_eq!(rig.fleet.wrong_consumers(), Vec::<String>::new());
        }
        let mut detached: Vec<(FleetInstance, Detached)> = Vec::new();
        for step in steps {
            let end = |number: usize| ends[number % ends.len()];
            let instance = |number: usize| instances[number % instances.len()];
            match step {
                Step::Turn(worker) => {
                    rig.fleet.turn(worker % workers);
                }
                Step::MoveInstance(part, to) => {
                    match rig.fleet.move_to(&[End::Instance(instance(part), 0)], to % workers) {
                        Ok(_) | Err(FleetError::Suspended { .. }) => {}
                        Err(other) => prop_assert!(false, "{other}"),
                    }
                }
                Step::MovePort(part, to) => {
                    let part = End::Port(ports[part % ports.len()]);
                    prop_assert!(rig.fleet.move_to(&[part], to % workers).expect("a port moves").parts <= 1);
                }
                Step::MoveAll(to) => {
                    let _ = rig.fleet.move_to(&ends, to % workers);
                }
                Step::Pause(which) => rig.fleet.pause(instance(which)).expect("it has not stopped"),
                Step::Resume(which) => rig.fleet.resume(instance(which)).expect("it has not stopped"),
                Step::Observe(one, other) => {
                    if one % instances.len() != other % instances.len() {
                        let _ = rig.fleet.observe(instance(one), instance(other), None);
                    }
                }
                // What ports observe is elsewhere than at ports: two could observe each other.
                Step::Watch(one, at, seed) if seed & 16 != 0 && !matches!(end(at), End::Port(_)) => {
                    let (one, (at, view)) = (ports[one % ports.len()], watched(end(at), seed));
                    let begun = rig.fleet.change(move |change| change.observe(one, at, view));
                    begun.expect("it has not stopped").expect("both are there");
                }
                Step::Unwatch(one, at, seed) if seed & 16 != 0 => {
                    let (one, (at, _)) = (ports[one % ports.len()], watched(end(at), seed));
                    let _ = rig.fleet.change(move |change| change.unobserve(one, at));
                }
                Step::Watch(one, at, seed) => {
                    let (one, (at, view)) = (instance(one), watched(end(at), seed));
                    if !matches!(at, Place::Interface(at, _) if at == one) {
                        let _ = rig.fleet.change(move |change| change.observe(one, at, view));
                    }
                }
                Step::Unwatch(one, at, seed) => {
                    let (one, (at, _)) = (instance(one), watched(end(at), seed));
                    let _ = rig.fleet.change(move |change| change.unobserve(one, at));
                }
                Step::Serve(number, to) => rig.fleet.serve(service(number), end(to)).expect("it is there"),
                Step::Report => {
                    rig.fleet.account(true).expect("it has not stopped").balance().expect("balanced");
                }
                Step::Link(a, b, both_ways) => wire(&rig, end(a), end(b), both_ways),
                Step::Unlink(a, b) => {
                    let (a, b) = (end(a), end(b));
                    let _ = rig.fleet.change(move |change| change.unlink(a, b)).expect("it has not stopped");
                }
                Step::Unserve(number) => {
                    rig.fleet.change(move |change| change.unserve(service(number))).expect("it has not stopped");
                }
                Step::Unobserve(one, other) => {
                    let (one, other) = (instance(one), instance(other));
                    let ended = rig.fleet.change(move |change| change.unobserve(one, Place::Instance(other, None)));
                    let _ = ended.expect("it has not stopped");
                }
                Step::ReplaceInstance(which, worker) => {
                    let which = which % instances.len();
                    let old = instances[which];
                    let removed = rig.fleet.change(move |change| change.remove_instance(old));
                    let removed = removed.expect("it has not stopped").expect("it is there");
                    prop_assert_eq!(removed.account.in_flight, 0, "what it had is counted as lost");
                    rig.balanced();
                    let again = rig.fleet.change(move |change| change.remove_instance(old).is_err());
                    prop_assert!(again.expect("it has not stopped"), "it is gone");
                    let new = rig.add(worker % workers, which % 2, manner(worker as u8, 0)).0;
                    instances[which] = new;
                    pool_of[which] = which % 2;
                    for end in &mut ends {
                        if let End::Instance(of, _) = end && *of == old {
                            *of = new;
                        }
                    }
                }
                Step::ReplacePort(which, worker) => {
                    let which = which % ports.len();
                    let old = ports[which];
                    let removed = rig.fleet.change(move |change| change.remove_port(old));
                    let removed = removed.expect("it has not stopped").expect("it is there");
                    prop_assert_eq!(removed.account.in_flight, 0);
                    rig.balanced();
                    let new = rig.script(worker % workers, which % 2, vec![worker as u8; 50]).0;
                    let new = metered(&rig, worker, new);
                    ports[which] = new;
                    for end in &mut ends {
                        if *end == End::Port(old) {
                            *end = End::Port(new);
                        }
                    }
                }
                Step::TakeOver(which, seed) => {
                    let which = which % instances.len();
                    let (id, pool) = (instances[which], &rig.pools[pool_of[which]]);
                    let (setup, guest) =
                        super::instance(pool, cpu_share::TenantId(0), manner(seed, 0), &Seen::default(), rig.clock);
                    let new = crate::GuestSetup {
                        guest: (seed % 5 > 0).then_some(guest as Box<dyn Guest>),
                        factory: setup.factory,
                        drop_reasons: vec!["mine".into(), format!("theirs-{seed}")],
                        counters: Vec::new(),
                        flow_hash: seed % 2 == 0,
                    };
                    match rig.fleet.change(move |change| change.swap_guest(id, new)).expect("not stopped") {
                        Ok(old) if seed % 3 == 0 => {
                            rig.turn(2);
                            let back = rig.fleet.change(move |change| change.swap_guest(id, old).map(|_| ()));
                            prop_assert!(back.expect("not stopped").is_ok(), "it takes over again");
                        }
                        Ok(_) | Err(crate::TakeoverError::Suspended(_) | crate::TakeoverError::Detached(_)) => {}
                        Err(other) => prop_assert!(false, "{other}"),
                    }
                }
                Step::Reprogram(which, seed) if !programs.is_empty() => {
                    let which = which % programs.len();
                    let (id, forwarding) = &mut programs[which];
                    let next = match &*forwarding {
                        Forwarding::Device(before) => Arc::new(device(seed, Some(before))).into(),
                        Forwarding::Ports(before) => Arc::new(port_devices(seed, Some(before))).into(),
                        Forwarding::Learning(_) => unreachable!("no device"),
                    };
                    *forwarding = next;
                    let (id, next) = (*id, forwarding.clone());
                    match rig.fleet.change(move |change| change.set_forwarding(id, next)).expect("not stopped") {
                        // A switch may have come in its place.
                        Ok(()) | Err(FleetError::Wire(WireError::AnotherKind)) => {}
                        Err(other) => prop_assert!(false, "{other}"),
                    }
                }
                Step::Reprogram(..) => {}
                Step::Start(which, done) => rig.later.end(which, done),
                Step::Refuse(refuses) => rig.later.refuse(refuses),
                Step::Detach(which) => {
                    let which = instance(which);
                    match rig.fleet.change(move |change| change.detach(which)).expect("it has not stopped") {
                        Ok(guest) => detached.push((which, guest)),
                        Err(
                            TakeoverError::Suspended(_) | TakeoverError::Detached(_) | TakeoverError::Down(..),
                        ) => {}
                        Err(other) => prop_assert!(false, "{other}"),
                    }
                }
                Step::Attach(which) if !detached.is_empty() => {
                    let (of, guest) = detached.swap_remove(which % detached.len());
                    let there = instances.contains(&of);
                    let back = rig.fleet.change(move |change| change.attach(of, guest)).expect("it has not stopped");
                    prop_assert_eq!(back.is_ok(), there, "it goes back unless its instance has ended");
                }
                Step::Lose(which) if !detached.is_empty() => {
                    let (of, guest) = detached.swap_remove(which % detached.len());
                    if instances.contains(&of) {
                        detached.push((of, guest));
                    } else {
                        drop(guest);
                    }
                }
                Step::Attach(_) | Step::Lose(_) => {}
                Step::ReplaceSwitch(which) => {
                    let switches = ends.iter().filter_map(|end| match end {
                        End::Switch(id, _) => Some(*id),
                        _ => None,
                    });
                    let switches: Vec<_> = switches.collect();
                    if !switches.is_empty() {
                        let id = switches[which % switches.len()];
                        let table = Arc::new(Switch::new(SwitchSettings::default()).expect("good settings"));
                        (0..3).for_each(|_| assert!(table.attach().is_ok()));
                        let again = rig.fleet.change(move |change| {
                            change.remove_switch(id);
                            change.add_switch("again", table, None)
                        });
                        let again = again.expect("it has not stopped").expect("few switches");
                        prop_assert_eq!(again, id, "its place is free");
                    }
                }
            }
            rig.balanced();
            prop_assert_eq!(rig.fleet.wrong_consumers(), Vec::<String>::new());
        }
        for (of, guest) in detached {
            let _ = rig.fleet.change(move |change| change.attach(of, guest)).expect("it has not stopped");
        }
        rig.stop();
    }
}
