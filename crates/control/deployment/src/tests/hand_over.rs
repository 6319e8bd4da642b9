//! Functions that hand over to others with another configuration or image, and those that cannot.

use super::*;
use engine::InstanceAccount;
use image::Names;
use wiring::Instance;

/// A function whose configuration has a number. It keeps what it was handed, and what it did when it handed
/// out or was handed something; `export` and `import` are what it does then.
fn hostile(rig: &Rig, name: &str, export: &str, import: &str) {
    hostile_with(rig, name, "", export, import);
}

/// The same, with more in its manifest.
fn hostile_with(rig: &Rig, name: &str, more: &str, export: &str, import: &str) {
    let manifest = "name: hostile\nversion: 1.0.0\nabi: 1\nsummary: Hands over badly.\nlanguage: c\naccess: read\ninterfaces: [left, right]\n\
                    memory_limit: 4MiB\nconfig:\n  n: {type: integer, min: 0, max: 9, default: 0, help: A number.}\n";
    let manifest = format!("{manifest}{more}");
    let wat = format!(
        r#"(module
            (import "superfluid_v1" "read" (func $read (param i32 i32 i32 i32) (result i32)))
            (import "superfluid_v1" "write" (func $write (param i32 i32 i32) (result i32)))
            (memory (export "memory") 2)
            (global $calls (mut i32) (i32.const 0))
            (data (i32.const 65536) "what it knows")
            (func (export "sf_batch") (result i32) (i32.const 1024))
            (func (export "sf_init") (result i32) (i32.const 0))
            (func (export "sf_process") (param i32 i64))
            (func $touch
              (global.set $calls (i32.const 7))
              (i64.store (i32.const 65536) (i64.const -1))
              (i64.store (i32.const 131000) (i64.const -1)))
            (func (export "sf_export_state") (result i32) {export})
            (func (export "sf_import_state") (result i32) {import}))"#
    );
    let wasm = wat::parse_str(wat).expect("sound");
    let (image, _) = image::assemble(&wasm, &manifest, Names::Dropped).expect("it keeps the contract");
    rig.catalog.learn(name, image);
}

/// How a function is at this moment.
fn exact(rig: &Rig, name: &str) -> InstanceAccount {
    let mut instances = rig.account().instances.into_iter();
    instances.find(|instance| instance.name == name).expect("it is there")
}

fn of(image: &str, n: u64) -> Value {
    json!({"image": image, "config": {"n": n}, "max_call": "10s"})
}

/// Eight bytes of nothing, as state: an entry with an empty key and an empty value.
const GIVES: &str = "(call $write (i32.const 1) (i32.const 512) (i32.const 8))";
const TAKES: &str =
    "(drop (call $read (i32.const 1) (i32.const 0) (i32.const 66000) (i32.const 8))) (i32.const 0)";
const LOOPS: &str = "(call $touch) (loop $on (br $on)) (i32.const 0)";
const TRAPS: &str = "(call $touch) (unreachable)";
const REFUSES: &str = "(i32.const 1)";

/// A host with a forwarder at work, and a hostile function beside it on the same worker.
fn beside(export: &str, import: &str) -> Rig {
    let mut rig = Rig::new(1);
    hostile(&rig, "./hostile.wasm", export, import);
    rig.apply(&chain());
    rig.apply(&[function("h", of("./hostile.wasm", 0))]);
    rig.host.start().expect("threads");
    rig.moves("f");
    rig
}

fn hand_over(rig: &mut Rig, change: ObjectChange, allow_restart: bool) -> Result<Vec<String>, String> {
    let plan = rig.check(std::slice::from_ref(&change)).expect("right");
    assert!(plan.add_instances.is_empty() && plan.remove_instances.is_empty(), "{plan:?}");
    let mut prepared =
        rig.host.prepare(plan, HashMap::new(), &rig.catalog).map_err(|error| error.to_string())?;
    prepared.hand_over(allow_restart).map_err(|error| error.to_string())?;
    let anew = prepared.began_anew();
    assert_eq!(rig.host.carry_out(prepared).expect("it has not stopped").troubles, [""; 0]);
    rig.desired.take_over([change]);
    Ok(anew)
}

#[test]
fn what_hands_over_badly_goes_on_as_it_was_and_costs_others_nothing() {
    let cases = [
        (LOOPS, TAKES, "handing over took longer than 2 s in all"),
        (TRAPS, TAKES, "it goes on as it was: trapped"),
        (
            GIVES,
            LOOPS,
            "does not take the state that the one before hands over: handing over took longer than 2 s in all",
        ),
        (GIVES, TRAPS, "does not take the state that the one before hands over: trapped"),
        (GIVES, REFUSES, "does not take the state"),
        (REFUSES, TAKES, "hands no state over"),
    ];
    for (export, import, says) in cases {
        let mut rig = beside(export, import);
        let before = rig.host.save("h").expect("it can be saved");
        let known = rig.host.instance("h");
        let (id, packets) = (rig.host.function("h"), rig.packets("f"));
        let error = hand_over(&mut rig, function("h", of("./hostile.wasm", 1)), false).expect_err(says);
        assert!(error.starts_with("function `h`: ") && error.contains(says), "{error}");
        if export == LOOPS || import == LOOPS {
            // It had two seconds; a worker that waits for it would have forwarded nothing.
            let meanwhile = rig.packets("f") - packets;
            assert!(meanwhile > 1000, "{says}: the neighbour got {meanwhile} packets meanwhile");
        }
        let after = rig.host.save("h").expect("it can be saved");
        assert_eq!((&after.memory, &after.globals), (&before.memory, &before.globals), "{says}");
        assert_eq!((rig.host.instance("h"), rig.host.function("h")), (known, id));
        assert!(exact(&rig, "h").down.is_none());
        rig.moves("f");
        assert_eq!(rig.account().ledger.dropped.total(), 0);
        rig.host.stop().expect("it ran").balance().expect("balanced");
    }
}

#[test]
fn one_whose_memory_cannot_be_moved_after_all_takes_state_and_has_its_pages() {
    let mut rig = beside(GIVES, TAKES);
    hostile_with(&rig, "./plain.wasm", "memory_layout: 1\n", GIVES, TAKES);
    hostile_with(&rig, "./counting.wasm", "memory_layout: 1\ncounters: [seen]\n", GIVES, TAKES);
    rig.apply(&[function("z", of("./plain.wasm", 0))]);
    let before = rig.host.instance("z").expect("it is there");
    // Code, layout and configuration are the same; its counters differ.
    let next = Instance { image: "./counting.wasm".to_owned(), resident: Some(128 << 10), ..before };
    let taken = rig.host.take_over("z", &next, &rig.catalog).expect("it takes over");
    assert_eq!(taken.how, Succession::Carried);
    let account = exact(&rig, "z");
    assert_eq!(guest_wasm::resident(account.memory_place, account.memory as usize), 128 << 10);
    rig.host.roll_back(taken).expect("it takes over again");
    rig.moves("f");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn one_that_hands_nothing_over_begins_anew_only_if_it_may() {
    let mut rig = beside(REFUSES, TAKES);
    let change = || function("h", of("./hostile.wasm", 1));
    let mut prepared = {
        let plan = rig.check(&[change()]).expect("right");
        rig.host.prepare(plan, HashMap::new(), &rig.catalog).expect("it starts")
    };
    assert_eq!(prepared.would_begin_anew(), ["h"]);
    drop(prepared);
    hand_over(&mut rig, change(), false).expect_err("it may not");
    assert_eq!(hand_over(&mut rig, change(), true).expect("it may"), ["h"]);
    // What bounds it needs no other guest.
    let mut bounded = of("./hostile.wasm", 1);
    (bounded["max_call"], bounded["fail"], bounded["longest_hold"]) =
        ("9s".into(), "open".into(), "5s".into());
    let id = rig.host.function("h");
    assert_eq!(hand_over(&mut rig, function("h", bounded), false).expect("nothing is handed over"), [""; 0]);
    assert_eq!(rig.host.function("h"), id);
    assert_eq!(
        rig.host.instance("h").expect("it is there").max_call,
        telemetry::clock::Nanos::from_millis(9000)
    );
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn of_several_all_hand_over_or_none() {
    let mut rig = beside(GIVES, TAKES);
    hostile(&rig, "./refusing.wasm", GIVES, REFUSES);
    rig.apply(&[function("z", of("./refusing.wasm", 0))]);
    let known = |rig: &Rig| ["h", "z"].map(|name| rig.host.instance(name).expect("it is there"));
    let before = known(&rig);
    let both = [function("h", of("./hostile.wasm", 1)), function("z", of("./refusing.wasm", 1))];
    let plan = rig.check(&both).expect("right");
    assert_eq!(plan.change_instances.len(), 2);
    let mut prepared = rig.host.prepare(plan, HashMap::new(), &rig.catalog).expect("they start");
    let error = prepared.hand_over(false).expect_err("one refuses").to_string();
    assert!(error.starts_with("function `z`: "), "{error}");
    drop(prepared);
    assert_eq!(known(&rig), before, "the other one is taken back");
    // The one that can does, and is taken back when the change is given up.
    let plan = rig.check(&both[..1]).expect("right");
    let mut prepared = rig.host.prepare(plan, HashMap::new(), &rig.catalog).expect("it starts");
    assert_eq!(prepared.would_begin_anew(), [""; 0]);
    prepared.hand_over(false).expect("it hands over");
    assert_eq!(prepared.taken_over().len(), 1);
    // Until the change is carried out, other changes find the function as it was, and this one comes to the
    // same.
    assert_eq!(known(&rig), before);
    let other = rig.check(&[put(Kind::Tenant, "other", json!({}))]).expect("right");
    assert!(other.change_instances.is_empty() && other.remove_instances.is_empty(), "{other:?}");
    let again = rig.check(&both[..1]).expect("right");
    assert!(rig.host.fits(&prepared, &again));
    assert!(!rig.host.fits(&prepared, &rig.check(&both).expect("right")), "another plan");
    drop(prepared);
    rig.moves("f");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn paused_and_frozen_functions_hand_over_and_stay_paused() {
    let mut rig = beside(GIVES, TAKES);
    let paused = |rig: &Rig| exact(rig, "h").paused;
    for (n, frozen) in [(1, false), (2, true)] {
        assert!(rig.host.set_paused("h", true).expect("it runs"));
        if frozen {
            assert_eq!(rig.host.freeze_paused(Duration::ZERO, 10), 1);
            assert!(exact(&rig, "h").frozen);
        }
        hand_over(&mut rig, function("h", of("./hostile.wasm", n)), false).expect("it hands over");
        assert!(paused(&rig));
        assert!(rig.host.set_paused("h", false).expect("it runs"));
        assert!(!paused(&rig));
    }
    // Frozen, it is thawed before it goes on.
    assert!(rig.host.set_paused("f", true).expect("it runs"));
    assert_eq!(rig.host.freeze_paused(Duration::ZERO, 10), 1);
    let still = rig.packets("f");
    assert!(rig.host.set_paused("f", false).expect("it runs"));
    assert!(!exact(&rig, "f").frozen);
    wait("packets pass", || rig.packets("f") > still + 100);
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn another_configuration_goes_with_other_wires_in_one_change() {
    let mut rig = beside(GIVES, TAKES);
    let id = rig.host.function("f");
    let before: Instance = rig.host.instance("f").expect("it is there");
    let more = put(Kind::Port, "more", json!({"type": "sink"}));
    let spec = json!({
        "image": "forwarder", "max_call": "10s", "config": {"mode": "rewrite", "source": "02:00:00:00:00:01",
        "destination": "02:00:00:00:00:02"}, "attach": {"left": "source", "right": "more"},
    });
    rig.apply(&[more, function("f", spec), delete(Kind::Port, "out")]);
    assert_eq!(rig.host.function("f"), id, "it is the same one to its neighbours");
    assert_ne!(rig.host.instance("f"), Some(before));
    let delivered =
        |rig: &Rig| rig.host.account_of_port("more").expect("it is there").counters.ledger.delivered;
    wait("packets go the other way", || delivered(&rig) > 100);
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn connections_outlive_what_does_not_deny_them_and_end_with_what_does() {
    let mut rig = Rig::new(1);
    let firewall = |rule: &Value, more: &Value| {
        let mut spec = json!({
            "image": "firewall", "config": {"rules": [rule]}, "max_call": "10s",
            "attach": {"inside": "source", "outside": "out"},
        });
        more.as_object().expect("keys").iter().for_each(|(key, value)| spec[key] = value.clone());
        function("f", spec)
    };
    let mut changes = chain();
    let rule = json!({"action": "accept", "name": "one", "from": "inside"});
    changes[3] = firewall(&rule, &json!({}));
    rig.apply(&changes);
    rig.host.start().expect("threads");
    let counted = |rig: &Rig, name: &str| {
        let counters = exact(rig, "f").counters;
        counters.into_iter().find(|(counter, _)| counter == name).expect("it counts that").1
    };
    wait("ten connections", || counted(&rig, "flows-opened") == 10);
    let renamed = json!({"action": "accept", "name": "another", "from": "inside", "protocol": "udp"});
    for more in [
        json!({}),
        json!({"memory": "400MiB"}),
        json!({"restart": {"first_delay": "20ms", "longest_delay": "5s"}}),
        json!({"fail": "open"}),
        json!({"max_call": "9s"}),
        json!({"longest_hold": "5s"}),
    ] {
        rig.apply(&[firewall(&renamed, &more)]);
        rig.moves("f");
        assert_eq!(counted(&rig, "flows-opened"), 10, "none begins again: {more}");
        assert_eq!((counted(&rig, "denied"), counted(&rig, "no-flow")), (0, 0), "{more}");
    }
    rig.apply(&[firewall(&json!({"action": "accept", "name": "another", "from": "outside"}), &json!({}))]);
    rig.moves("f");
    assert!(counted(&rig, "denied") > 0, "what the rules deny ends");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}
