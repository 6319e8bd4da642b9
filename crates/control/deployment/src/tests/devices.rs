//! Devices come, change and go, and packets find their way.

use super::*;

pub(super) fn device(name: &str, spec: Value) -> ObjectChange {
    put(Kind::Device, name, spec)
}

/// A function that sends back what it gets, by the interface that it got it by.
pub(super) fn reflector(device: &str) -> Value {
    json!({"image": "forwarder", "max_call": "10s", "config": {"reflect": true}, "attach": {"left": device}})
}

/// A host with a source and a sink, and one more of each.
fn rig(workers: usize) -> Rig {
    let mut rig = Rig::new(workers);
    let mut changes = chain();
    changes.pop();
    changes.push(put(Kind::Port, "source2", json!({"type": "generator", "rate": "50kpps", "flows": 10})));
    changes.push(put(Kind::Port, "out2", json!({"type": "sink"})));
    rig.apply(&changes);
    rig
}

pub(super) fn delivered(rig: &Rig, port: &str) -> u64 {
    let account = rig.account();
    let port = account.ports.iter().find(|account| account.name == port);
    port.map_or(0, |port| port.counters.ledger.delivered)
}

/// Waits until a port has got more packets.
pub(super) fn arrive(rig: &Rig, port: &str) {
    let before = delivered(rig, port);
    wait(&format!("packets arrive at {port}"), || delivered(rig, port) > before + 100);
}

#[test]
fn what_an_opener_sends_leaves_by_the_devices_mode() {
    let mut rig = rig(2);
    rig.host.start().expect("threads");
    // Back out of the one port.
    rig.apply(&[device("d", json!({"mode": "direct", "over": ["source"]})), function("f", reflector("d"))]);
    arrive(&rig, "source");
    // Out of the other one.
    rig.apply(&[device("d", json!({"mode": "bridge", "over": ["source", "out"]}))]);
    arrive(&rig, "out");
    // Through what opens each side.
    rig.apply(&[function("f", forwarder(json!({"left": "d:source", "right": "d:out"})))]);
    arrive(&rig, "out");
    // Over several links.
    rig.apply(&[
        device("d", json!({"mode": "direct", "over": ["source"]})),
        device("b", json!({"mode": "bond", "balance": "round-robin", "over": ["out", "out2"]})),
        function("f", forwarder(json!({"left": "d", "right": "b"}))),
    ]);
    arrive(&rig, "out");
    arrive(&rig, "out2");
    // To the other openers.
    rig.apply(&[
        device("r", json!({"mode": "rootless"})),
        function("f", forwarder(json!({"left": "d", "right": "r"}))),
        function("g", forwarder(json!({"left": "r", "right": "b"}))),
    ]);
    rig.moves("g");
    arrive(&rig, "out");
    rig.apply(&[
        device("r", json!({"mode": "rootless", "share": "duplicate"})),
        function("h", forwarder(json!({"left": "r"}))),
    ]);
    rig.moves("g");
    rig.moves("h");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn a_port_is_shared_by_devices_that_want_different_packets() {
    let mut rig = rig(2);
    rig.host.start().expect("threads");
    let over = |receive: &str, priority: u32| json!({"source": {"receive": receive, "priority": priority}});
    rig.apply(&[
        device("udp", json!({"mode": "bond", "over": over("udp", 2)})),
        function("f", reflector("udp")),
        device("tcp", json!({"mode": "bond", "over": over("tcp", 1)})),
        function("g", reflector("tcp")),
    ]);
    rig.moves("f");
    assert_eq!(rig.packets("g"), 0, "the generator makes UDP");
    rig.apply(&[device("tcp", json!({"mode": "bond", "over": over("udp", 1)}))]);
    rig.moves("g");
    rig.apply(&[device("tcp", json!({"mode": "bond", "over": over("udp", 3)}))]);
    rig.moves("f");
    // None wants them: they are counted where they came.
    let no_device = |rig: &Rig| {
        let account = rig.account();
        let source = account.ports.iter().find(|port| port.name == "source").expect("it is there");
        source.counters.ledger.dropped[telemetry::DropReason::NoDevice]
    };
    assert_eq!(no_device(&rig), 0);
    rig.apply(&[delete(Kind::Function, "f"), delete(Kind::Device, "udp"), delete(Kind::Function, "g")]);
    wait("packets that no device wants", || no_device(&rig) > 0);
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn changes_of_devices_lose_no_packet_of_others() {
    for workers in [1, 2] {
        let mut rig = rig(workers);
        rig.apply(&[
            device("d", json!({"mode": "bridge", "over": ["source", "out"]})),
            function("f", reflector("d")),
            put(Kind::Chain, "beside", json!(["source2", "h", "out2"])),
            function("h", json!({"image": "forwarder", "max_call": "10s", "worker": workers - 1})),
        ]);
        rig.host.start().expect("threads");
        let id = rig.host.function("f");
        for n in 0..40 {
            let over = json!({"source": {"receive": "udp", "priority": n % 3}, "out": {}});
            rig.apply(&[device("d", json!({"mode": "bridge", "over": over, "share": "duplicate"}))]);
            // A second device at the port, which wants nothing that comes.
            let tcp = json!({"source": {"receive": "tcp"}});
            rig.apply(&[
                device("e", json!({"mode": "bond", "over": tcp, "share": "balance"})),
                function("e1", reflector("e")),
            ]);
            // A second opener, on another worker perhaps, that gets copies.
            let spy = json!({"image": "monitor", "worker": n % workers, "attach": {"left": {"to": "d", "order": 9}}});
            rig.apply(&[function("spy", spy), put(Kind::Service, "7", json!("d"))]);
            rig.moves("f");
            rig.apply(&[delete(Kind::Function, "spy"), delete(Kind::Service, "7")]);
            rig.apply(&[delete(Kind::Function, "e1"), delete(Kind::Device, "e")]);
            rig.apply(&[device("d", json!({"mode": "bridge", "over": ["source", "out"]}))]);
        }
        assert_eq!(rig.host.function("f"), id, "the same one");
        let account = rig.account();
        for port in &account.ports {
            assert_eq!(port.counters.ledger.dropped.total(), 0, "{workers} workers: {port:?}");
        }
        for instance in account.instances.iter().filter(|instance| instance.name != "spy") {
            assert_eq!(instance.ledger.dropped.total(), 0, "{workers} workers: {instance:?}");
        }
        let laid = (account.devices.len(), account.port_devices.len());
        assert_eq!(laid, (1, 0), "the device alone: {:?} {:?}", account.devices, account.port_devices);
        rig.host.stop().expect("it ran").balance().expect("balanced");
    }
}

#[test]
fn what_is_laid_for_devices_goes_with_them() {
    let mut rig = rig(2);
    let bare = rig.picture();
    rig.apply(&[
        device("d", json!({"mode": "bridge", "over": {"source": {"receive": "udp"}, "out": {}}})),
        device("e", json!({"mode": "direct", "over": ["source"], "share": "balance"})),
        function("f", reflector("d")),
        function("g", reflector("e")),
        function("h", reflector("e")),
        put(Kind::Service, "7", json!("d:out")),
    ]);
    let account = rig.account();
    assert_eq!((account.devices.len(), account.port_devices.len()), (2, 1));
    rig.apply(&[
        delete(Kind::Service, "7"),
        delete(Kind::Function, "f"),
        delete(Kind::Function, "g"),
        delete(Kind::Function, "h"),
        delete(Kind::Device, "d"),
        delete(Kind::Device, "e"),
    ]);
    assert_eq!(rig.picture(), bare);
}

#[test]
fn a_service_that_moves_between_devices_takes_no_ones_place() {
    let mut rig = rig(2);
    rig.apply(&[
        device("a", json!({"mode": "bridge", "over": ["source", "out"]})),
        function("f", reflector("a")),
        device("b", json!({"mode": "bridge", "over": ["source2", "out2"]})),
        function("g", reflector("b")),
    ]);
    rig.host.start().expect("threads");
    for n in 0..30 {
        rig.apply(&[put(Kind::Service, "7", json!(["a", "b"][n % 2]))]);
        arrive(&rig, "out");
        arrive(&rig, "out2");
    }
    rig.apply(&[delete(Kind::Service, "7")]);
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn an_opener_that_comes_to_observe_gets_nothing_by_the_device_and_another_may_have_it() {
    let mut rig = rig(1);
    let spy = json!({"image": "monitor", "attach": {"export": "d"}});
    rig.apply(&[
        device("d", json!({"mode": "bridge", "over": ["source", "out"]})),
        function("spy", spy.clone()),
    ]);
    rig.host.start().expect("threads");
    rig.moves("spy");
    rig.apply(&[put(Kind::Observer, "spy", json!({"at": ["f"]})), function("f", reflector("d"))]);
    rig.moves("f");
    arrive(&rig, "out");
    rig.moves("spy");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

/// What an observer of a name was shown, and missed.
fn seen(rig: &Rig, name: &str) -> u64 {
    let account = rig.account();
    let instance = account.instances.iter().find(|instance| instance.name == name).expect("it is there");
    instance.packets + instance.missed
}

#[test]
fn observers_come_and_go_at_ports_devices_sides_and_wires_and_nothing_else_is_lost() {
    for workers in [1, 2] {
        let mut rig = rig(workers);
        let spy = |worker: usize| json!({"image": "monitor", "worker": worker});
        rig.apply(&[
            device("d", json!({"mode": "bridge", "over": ["source", "out"]})),
            function("f", reflector("d")),
            function("near", spy(0)),
            function("far", spy(workers - 1)),
            put(Kind::Chain, "beside", json!(["source2", "h", "out2"])),
            function("h", forwarder(json!({}))),
        ]);
        rig.host.start().expect("threads");
        let f = rig.host.function("f");
        let places = ["source", "out", "d", "d:source", "d:out", "d~f:left", "f", "source2~h:left", "h:left"];
        for place in places {
            let observer = |name: &str| put(Kind::Observer, name, json!({"at": [place]}));
            rig.apply(&[observer("near")]);
            // On a worker of its own it cannot be beside a function that is on another.
            let both = !matches!(place, "f" | "h:left");
            if both {
                rig.apply(&[observer("far")]);
            }
            for name in ["near", "far"].into_iter().take(1 + usize::from(both)) {
                let before = seen(&rig, name);
                wait(&format!("{name} sees what passes {place}"), || seen(&rig, name) > before + 100);
            }
            // A device gets an observer and loses it, and is changed meanwhile.
            rig.apply(&[device(
                "d",
                json!({"mode": "bridge", "over": ["source", "out"], "share": "duplicate"}),
            )]);
            let before = seen(&rig, "near");
            wait(&format!("it still sees {place}"), || seen(&rig, "near") > before + 100);
            let at = |filter: &str| {
                put(Kind::Observer, "near", json!({"at": [place], "filter": filter, "sample": "1/2"}))
            };
            rig.apply(&[at("udp")]);
            let before = seen(&rig, "near");
            wait(&format!("it sees some of {place}"), || seen(&rig, "near") > before + 100);
            rig.apply(&[at("tcp")]);
            // Copies that were on their way come yet.
            arrive(&rig, "out");
            arrive(&rig, "out2");
            let before = seen(&rig, "near");
            arrive(&rig, "out");
            arrive(&rig, "out2");
            assert_eq!(seen(&rig, "near"), before, "{place}: the generator makes UDP");
            rig.apply(&[delete(Kind::Observer, "near")]);
            if both {
                rig.apply(&[delete(Kind::Observer, "far")]);
            }
            rig.apply(&[device("d", json!({"mode": "bridge", "over": ["source", "out"]}))]);
        }
        assert_eq!(rig.host.function("f"), f, "the same one");
        let account = rig.account();
        for port in &account.ports {
            assert_eq!(port.counters.ledger.dropped.total(), 0, "{workers} workers: {port:?}");
        }
        for instance in
            account.instances.iter().filter(|instance| !["near", "far"].contains(&&*instance.name))
        {
            assert_eq!(instance.ledger.dropped.total(), 0, "{workers} workers: {instance:?}");
        }
        rig.host.stop().expect("it ran").balance().expect("balanced");
    }
}

#[test]
fn a_device_that_only_observers_are_at_sees_what_another_takes() {
    let mut rig = rig(2);
    rig.host.start().expect("threads");
    let over = |receive: &str| json!({"source": {"receive": receive}});
    rig.apply(&[
        device("taken", json!({"mode": "direct", "over": over("udp")})),
        function("f", reflector("taken")),
        function("spy", json!({"image": "monitor"})),
        device("seen", json!({"mode": "direct", "over": over("udp")})),
        put(Kind::Observer, "spy", json!({"at": ["seen"]})),
    ]);
    rig.moves("f");
    wait("the observer sees what the other device takes", || seen(&rig, "spy") > 100);
    rig.moves("f");
    let lost = |rig: &Rig| {
        let account = rig.account();
        account.ports.iter().map(|port| port.counters.ledger.dropped.total()).sum::<u64>()
    };
    assert_eq!(lost(&rig), 0);
    // What is seen and taken by none is no loss.
    rig.apply(&[delete(Kind::Function, "f"), delete(Kind::Device, "taken")]);
    let before = seen(&rig, "spy");
    wait("it is seen all the same", || seen(&rig, "spy") > before + 100);
    assert_eq!(lost(&rig), 0);
    // A device that nothing opens and no observer is at takes what it wants, and drops it.
    rig.apply(&[delete(Kind::Observer, "spy")]);
    wait("packets that nothing receives", || lost(&rig) > 0);
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn what_passes_a_device_is_counted_by_port_and_opener() {
    let mut rig = rig(2);
    let over = |receive: &str| json!({"source": {"receive": receive}, "out": {}});
    let bridge =
        |receive: &str| device("d", json!({"mode": "bridge", "over": over(receive), "share": "duplicate"}));
    rig.apply(&[bridge("udp"), function("f", reflector("d")), function("g", reflector("d"))]);
    rig.host.start().expect("threads");
    rig.moves("f");
    rig.moves("g");
    // Nothing comes any more: what was counted stays.
    rig.apply(&[bridge("tcp")]);
    let reading = |rig: &Rig| rig.host.device("d").expect("it is there");
    wait("all has passed", || {
        let sent = reading(&rig).sides[1].sent.expect("it is the device's alone").packets;
        let openers = reading(&rig).openers;
        sent > 0 && sent == openers.iter().map(|opener| opener.sent.expect("counted").packets).sum::<u64>()
    });
    let now = reading(&rig);
    let came = now.sides[0].received.expect("counted");
    assert!(came.packets > 100 && came.bytes == came.packets * (came.bytes / came.packets), "{came:?}");
    for opener in &now.openers {
        assert_eq!(opener.received, Some(came), "each gets all");
    }
    assert_eq!(now.copied, came.packets);
    assert_eq!(now.openers[0].sent.expect("counted").packets, rig.packets("f"));
    // Another opener in the place of one that is gone has sent nothing yet.
    rig.apply(&[delete(Kind::Function, "g")]);
    rig.apply(&[function("h", reflector("d"))]);
    let now = reading(&rig);
    assert_eq!(now.openers[1].sent.map(|sent| sent.packets), Some(0), "{:?}", now.openers);
    assert_eq!(now.sides[0].received, Some(came));
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn what_is_no_more_than_a_wire_is_counted() {
    let mut rig = rig(1);
    rig.apply(&[
        device("d", json!({"mode": "bond", "over": ["source", "source2"]})),
        function("f", forwarder(json!({"left": "d:source", "right": "d:source2"}))),
        device("r", json!({"mode": "rootless"})),
    ]);
    rig.host.start().expect("threads");
    rig.moves("f");
    let account = rig.host.stop().expect("it ran");
    let reading = rig.host.devices(&account);
    let d = &reading["d"];
    let all = d.sides.iter().map(|side| side.received.expect("counted").packets).sum::<u64>();
    let generated = account.ports.iter().map(|port| port.counters.ledger.generated).sum::<u64>();
    assert_eq!(all, generated);
    assert_eq!(d.openers[0].received, d.sides[0].received);
    // One that nothing opens counts nothing.
    let of = |name: &str| account.devices.iter().find(|device| device.name == name);
    assert_eq!(of("d").map(|device| (device.counters.from_ports, device.openers)), Some((generated, 2)));
    assert_eq!(reading["r"].openers, []);
}

#[test]
fn policies_that_get_nothing_are_known_until_they_get_something() {
    let mut rig = rig(1);
    let direct = |name: &str, receive: &str, priority: u32| {
        let over = json!({"source": {"receive": receive, "priority": priority}});
        device(name, json!({"mode": "direct", "over": over}))
    };
    let told = |rig: &Rig, name: &str| -> Vec<String> {
        let shadowed = rig.host.device(name).expect("it is there").shadowed;
        shadowed.iter().map(|found| found.told(&found.first, &found.second)).collect()
    };
    rig.apply(&[direct("a", "udp", 1), function("f", reflector("a"))]);
    assert_eq!(told(&rig, "a"), [""; 0]);
    rig.apply(&[direct("b", "udp port 53", 2), function("g", reflector("b"))]);
    let never = ["b never gets a packet of `source`: a takes all that it wants"];
    assert_eq!(
        (told(&rig, "a"), told(&rig, "b")),
        (never.map(str::to_owned).into(), never.map(str::to_owned).into())
    );
    // A change elsewhere leaves what is known, one of the policy ends it.
    rig.apply(&[device("r", json!({"mode": "rootless"}))]);
    assert_eq!(told(&rig, "b").len(), 1);
    rig.apply(&[direct("a", "tcp", 1)]);
    assert_eq!((told(&rig, "a"), told(&rig, "b")), (vec![], vec![]));
    // The first one that takes all of it is told, and the next one when the first goes.
    rig.apply(&[direct("a", "udp", 0), direct("c", "udp", 1)]);
    let by = |first: &str| format!("b never gets a packet of `source`: {first} takes all that it wants");
    assert_eq!(told(&rig, "b"), [by("a")]);
    rig.apply(&[delete(Kind::Function, "f"), delete(Kind::Device, "a")]);
    assert_eq!(told(&rig, "b"), [by("c")]);
}

#[test]
fn a_striped_bond_keeps_its_numbers_through_changes_and_goes_with_all_that_it_has() {
    for workers in [1, 2] {
        let mut rig = rig(workers);
        rig.host.start().expect("threads");
        let bond = |over: Value, share: &str, ether_type: u32| {
            let spec = json!({"mode": "bond", "balance": "stripe", "over": over, "share": share, "ether_type": ether_type});
            device("b", spec)
        };
        rig.apply(&[
            device("d", json!({"mode": "direct", "over": ["source"]})),
            bond(json!(["out", "out2"]), "single", 0x88b5),
            function("f", forwarder(json!({"left": "d", "right": "b"}))),
        ]);
        arrive(&rig, "out");
        arrive(&rig, "out2");
        let pair = rig.host.port("b/outside");
        assert!(pair.is_some());
        // Other links, and other openers.
        rig.apply(&[bond(json!(["out2"]), "duplicate", 0x88b5)]);
        arrive(&rig, "out2");
        assert_eq!(rig.host.port("b/outside"), pair, "the same one");
        rig.apply(&[bond(json!(["out", "out2"]), "duplicate", 0x88b6)]);
        arrive(&rig, "out");
        assert_ne!(rig.host.port("b/outside"), pair, "another header");
        // What others send by a link has no number.
        rig.apply(&[
            device("s", json!({"mode": "bond", "balance": "stripe", "over": ["source2"]})),
            function("g", reflector("s")),
        ]);
        let refused = |rig: &Rig| {
            let account = rig.account();
            let port = account.ports.iter().find(|port| port.name == "s/outside").expect("it is there");
            port.counters.ledger.dropped[telemetry::DropReason::NoSequence]
        };
        wait("frames without a number", || refused(&rig) > 100);
        rig.apply(&[
            delete(Kind::Function, "f"),
            delete(Kind::Device, "b"),
            delete(Kind::Function, "g"),
            delete(Kind::Device, "s"),
        ]);
        assert_eq!((rig.host.port("b/inside"), rig.host.port("s/outside")), (None, None));
        rig.apply(&[bond(json!(["out"]), "single", 0x88b5), function("f", reflector("b"))]);
        let account = rig.host.stop().expect("it ran");
        account.balance().expect("balanced");
        for (name, free, all) in &account.pools {
            assert_eq!(free, all, "{workers} workers: buffers of {name}");
        }
    }
}

#[test]
fn what_a_guests_interface_is_on_a_link_changes_while_the_device_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rig = Rig::new(1);
    rig.catalog = Catalog::new(folder.path()).with_guest_sockets(folder.path());
    let socket = folder.path().join("lan.sock").display().to_string();
    let program = |address: &str| {
        let interfaces = json!({"in": {"as": "library"}, "other": {"as": "memif"}});
        let attach = json!({"in": {"to": "d", "addresses": [address]}});
        let command = json!(["/usr/bin/p"]);
        json!({"guest": "program", "command": command, "memory": "16MiB", "interfaces": interfaces, "attach": attach})
    };
    let mut changes = chain();
    changes.truncate(1);
    changes.extend([
        put(Kind::Port, "lan", json!({"type": "memif", "role": "master", "socket": socket})),
        device("d", json!({"mode": "direct", "over": ["lan"]})),
        function("p", program("192.0.2.8/24")),
    ]);
    rig.apply(&changes);
    let own = |rig: &Rig| {
        let shown = rig.host.neighbours("d", None, None, 1);
        let addresses = shown.stations.iter().flat_map(|station| &station.addresses);
        addresses.map(|(own, _)| own.prefix.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(own(&rig), ["192.0.2.8/24"]);
    rig.apply(&[function("p", program("192.0.2.9/24"))]);
    assert_eq!(own(&rig), ["192.0.2.9/24"]);
    // A process at the port is told of it, by what the port was opened with.
    rig.host.start().expect("threads");
    let table = rig.host.stations.table("p:in");
    let is_told = || {
        let entries = table.entries();
        let (entries, _) = entries.as_chunks::<{ nf_abi::DEVICE_ENTRY }>();
        let mut entries = entries.iter().filter_map(nf_abi::DeviceEntry::decode);
        entries.any(|entry| matches!(entry, nf_abi::DeviceEntry::Address { interface: 0, prefix: 24, .. }))
    };
    wait("it is told of its address, which is its own after some seconds", is_told);
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn a_device_that_gets_no_place_at_a_port_takes_nothing_and_the_others_there_go_on() {
    let mut rig = rig(1);
    rig.host.start().expect("threads");
    let over = |receive: &str, priority: u32| json!({"mode": "bond", "over": {"source": {"receive": receive, "priority": priority}}});
    rig.apply(&[
        device("udp", over("udp", 3)),
        function("f", reflector("udp")),
        device("tcp", over("tcp", 2)),
        function("g", reflector("tcp")),
    ]);
    rig.moves("f");
    rig.host.deployed().devices.use_up_plugs("source");
    let change = |rig: &mut Rig, changes: &[ObjectChange]| {
        let plan = rig.check(changes).expect("right");
        let prepared = rig.host.prepare(plan, HashMap::new(), &rig.catalog).expect("it can be made");
        let troubles = rig.host.carry_out(prepared).expect("it has not stopped").troubles;
        rig.desired.take_over(changes.iter().cloned());
        troubles
    };
    // One comes for which there is no place, with a change of another.
    let late =
        [device("late", over("tcp", 1)), function("h", reflector("late")), device("tcp", over("udp", 2))];
    let troubles = change(&mut rig, &late);
    assert!(!troubles.is_empty() && troubles.iter().all(|trouble| trouble.contains("late")), "{troubles:?}");
    rig.moves("g");
    // What it wants is dropped, with its reason, and comes to no other device.
    change(&mut rig, &[device("late", over("udp", 1))]);
    let no_device = |rig: &Rig| {
        let account = rig.account();
        let source = account.ports.iter().find(|port| port.name == "source").expect("it is there");
        source.counters.ledger.dropped[telemetry::DropReason::NoDevice]
    };
    wait("packets that it wants are dropped", || no_device(&rig) > 0);
    assert_eq!(rig.packets("h"), 0);
    // When it goes, they come to the next one.
    change(&mut rig, &[delete(Kind::Function, "h"), delete(Kind::Device, "late")]);
    rig.moves("g");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}
