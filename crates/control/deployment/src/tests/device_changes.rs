//! What devices are changes while packets pass: their modes, what is taken off and put on; and what stands
//! around their openers fails.

use super::devices::{arrive, delivered, device, reflector};
use super::*;
use image::{Image, Names};
use telemetry::DropReason;

/// A host whose `source` is shared by a device of a test's and whose `source2` and `out` by another one,
/// which nothing changes: what that gets and sends is to be complete.
fn shared(workers: usize) -> Rig {
    let mut rig = Rig::new(workers);
    let source = |source: &str| json!({"type": "generator", "rate": "30kpps", "flows": 10, "source": source});
    rig.apply(&[
        put(Kind::Tenant, "default", json!({"pool": {"buffers": 4096, "pages": "ordinary"}})),
        put(Kind::Port, "source", source("198.18.0.0/24")),
        put(Kind::Port, "source2", source("198.18.1.0/24")),
        put(Kind::Port, "out", json!({"type": "sink"})),
        put(Kind::Port, "out2", json!({"type": "sink"})),
        device("other", json!({"mode": "bridge", "over": {"source2": {}, "out": {"receive": "net 198.18.1.0/24"}}})),
        function("g", json!({"image": "forwarder", "max_call": "10s", "worker": workers - 1, "config": {"reflect": true},
            "attach": {"left": "other"}})),
    ]);
    rig
}

/// What ports and functions have lost, by reason.
fn losses(rig: &Rig, names: &[&str]) -> Vec<(String, DropReason, u64)> {
    let account = rig.account();
    let ports = account.ports.iter().map(|port| (&port.name, &port.counters.ledger));
    let instances = account.instances.iter().map(|instance| (&instance.name, &instance.ledger));
    let of = ports.chain(instances).filter(|(name, _)| names.contains(&name.as_str()));
    of.flat_map(|(name, ledger)| {
        let lost =
            DropReason::ALL.iter().copied().map(|reason| (name.clone(), reason, ledger.dropped[reason]));
        lost.filter(|(_, _, count)| *count > 0).collect::<Vec<_>>()
    })
    .collect()
}

/// A device's mode, and what its ports take off and put on, come and go under its opener, which is not made
/// anew. What it may lose is what has not the headers that are to be taken off; others at the same ports lose
/// nothing.
#[test]
fn modes_and_tunnels_of_a_device_change_while_packets_pass() {
    let ends = json!({"local": "192.0.2.1", "remote": "192.0.2.2", "local_mac": "02:00:00:00:00:01", "remote_mac": "02:00:00:00:00:02"});
    let vxlan = |vni: u32| {
        let mut vxlan = ends.clone();
        vxlan["vni"] = json!(vni);
        json!([{"vxlan": vxlan}])
    };
    let vlan = json!([{"vlan": {"id": 7}}]);
    let over = |receive: &Value, out: Value, out2: Value| {
        let mut source = receive.clone();
        source["receive"] = json!("net 198.18.0.0/24");
        json!({"source": source, "out": out, "out2": out2})
    };
    let plain = json!({});
    for workers in [1, 2] {
        let mut rig = shared(workers);
        let of = |mode: &str, over: Value| {
            let mut spec = json!({"mode": mode, "over": over, "share": "duplicate"});
            match mode {
                "bond" => spec["balance"] = json!("round-robin"),
                // Two ports: one of three sends nothing back to where a destination was heard.
                "bridge" => {
                    spec["over"].as_object_mut().expect("ports").remove("out2");
                }
                _ => {}
            }
            device("d", spec)
        };
        rig.apply(&[of("bridge", over(&plain, plain.clone(), plain.clone())), function("f", reflector("d"))]);
        rig.host.start().expect("threads");
        rig.moves("f");
        rig.moves("g");
        let id = rig.host.function("f");
        for n in 0..12 {
            // Each with the bytes that its headers are.
            for (put_on, longer) in [(vlan.clone(), 4), (vxlan(n), 50), (vxlan(n + 100), 50)] {
                let tunnelled = json!({"encapsulate": put_on});
                rig.apply(&[of("bridge", over(&plain, tunnelled.clone(), tunnelled.clone()))]);
                rig.moves("f");
                rig.apply(&[of("bond", over(&plain, tunnelled.clone(), tunnelled.clone()))]);
                let before = bytes(&rig, "out2");
                arrive(&rig, "out2");
                let (packets, length) = bytes(&rig, "out2");
                assert_eq!(
                    (length - before.1) / (packets - before.0),
                    64 + longer,
                    "{workers} workers: {put_on}"
                );
                // The link has them now, and what comes from it: of what is plain nothing passes.
                let both = json!({"encapsulate": put_on, "decapsulate": if longer == 4 { json!(["vlan"]) } else { json!(["vxlan"]) }});
                rig.apply(&[of("bridge", over(&both, both.clone(), both.clone()))]);
                wait("plain packets are dropped", || {
                    losses(&rig, &["source"]).iter().any(|(_, reason, _)| *reason == DropReason::BadTunnel)
                });
                rig.apply(&[of("bond", over(&plain, both.clone(), both))]);
                arrive(&rig, "out2");
                rig.apply(&[of("bridge", over(&plain, plain.clone(), plain.clone()))]);
                rig.moves("f");
            }
            let direct = json!({"source": {"receive": "net 198.18.0.0/24"}});
            rig.apply(&[of("direct", direct)]);
            arrive(&rig, "source");
        }
        assert_eq!(rig.host.function("f"), id, "the same one");
        rig.moves("g");
        assert_eq!(losses(&rig, &["source2", "out", "g"]), [], "{workers} workers: the others' packets");
        let lost = losses(&rig, &["source", "out2", "f"]);
        assert!(
            lost.iter().all(|(_, reason, _)| *reason == DropReason::BadTunnel),
            "{workers} workers: {lost:?}"
        );
        let account = rig.account();
        let source2 = account.ports.iter().find(|port| port.name == "source2").expect("it is there");
        assert!(source2.counters.ledger.generated > 0 && delivered(&rig, "out") > 0);
        rig.host.stop().expect("it ran").balance().expect("balanced");
    }
}

/// Packets and bytes that a port was sent.
fn bytes(rig: &Rig, port: &str) -> (u64, u64) {
    let account = rig.account();
    let port = account.ports.iter().find(|account| account.name == port).expect("it is there");
    (port.counters.ledger.delivered, port.counters.delivered_bytes)
}

/// Another program under the name of the one that checks security groups: it never comes to the end of a
/// batch.
fn endless_groups() -> Image {
    let manifest = include_str!("../../../../../functions/security-groups/function.yaml");
    let wat = r#"(module
        (memory (export "memory") 1)
        (func (export "sf_batch") (result i32) (i32.const 4096))
        (func (export "sf_init") (result i32) (i32.const 0))
        (func (export "sf_process") (param i32 i64) (loop $again (br $again))))"#;
    let wasm = wat::parse_str(wat).expect("sound");
    image::assemble(&wasm, manifest, Names::Dropped).expect("it keeps the contract").0
}

/// A guard that faults lets nothing pass, beside an opener that `fail: open` lets packets pass by.
#[test]
fn a_guard_that_fails_is_closed_whatever_its_opener_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("link.sock");
    let memif = |role: &str| json!({"type": "memif", "role": role, "socket": socket});
    let mut rig = Rig::new(1);
    rig.catalog.learn("security-groups", endless_groups());
    rig.apply(&[
        put(Kind::Tenant, "default", json!({"pool": {"buffers": 4096, "pages": "ordinary"}})),
        put(Kind::Tenant, "red", json!({"pool": {"buffers": 2048, "pages": "ordinary"}})),
        put(
            Kind::Port,
            "source",
            json!({"type": "generator", "rate": "5kpps", "destination": "192.0.2.9/32"}),
        ),
        put(Kind::Port, "here", memif("master")),
        put(Kind::Port, "there", memif("slave")),
        put(Kind::Port, "out", json!({"type": "sink", "tenant": "red"})),
        function("feed", forwarder(json!({"left": "source", "right": "there"}))),
        put(
            Kind::Group,
            "all",
            json!({"tenant": "red", "rules": [{"direction": "in"}, {"direction": "out"}]}),
        ),
        device(
            "d",
            json!({"mode": "direct", "over": ["here"], "tenant": "red", "groups": ["all"], "zone": 7}),
        ),
        function(
            "f",
            json!({"image": "forwarder", "tenant": "red", "max_call": "10s", "fail": "open",
                "attach": {"left": {"to": "d", "addresses": ["192.0.2.9/24"]}, "right": "out"}}),
        ),
    ]);
    let guard = "groups@d~f:0";
    rig.host.start().expect("threads");
    let faults = |rig: &Rig| rig.host.account_of(guard).expect("it is there").faults;
    wait("it fails again and again", || faults(&rig) >= 3);
    let lost = losses(&rig, &[guard]);
    assert!(lost.iter().any(|(_, reason, _)| *reason == DropReason::FunctionDown), "{lost:?}");
    assert_eq!((rig.packets("f"), delivered(&rig, "out")), (0, 0));
    rig.catalog.retain(|name| name != "security-groups");
    rig.host.restart(guard, &rig.catalog).expect("it starts");
    arrive(&rig, "out");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}
