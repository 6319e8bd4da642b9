//! Pauses, new beginnings, other images, snapshots.

use super::*;
use crate::lives::Around;
use wiring::Instance;

/// A firewall between a source and a sink, at work.
fn firewall() -> Rig {
    let mut rig = Rig::new(2);
    let mut changes = chain();
    changes[3] = function("f", filter(json!({"default_action": "accept"})));
    rig.apply(&changes);
    rig.host.start().expect("threads");
    rig.moves("f");
    rig
}

fn filter(config: Value) -> Value {
    json!({
        "image": "firewall", "config": config, "max_call": "10s",
        "attach": {"inside": "source", "outside": "out"},
    })
}

/// What a change makes of `f`.
fn wanted(rig: &Rig, spec: Value) -> Instance {
    let plan = rig.check(&[function("f", spec)]).expect("right");
    plan.change_instances["f"].clone()
}

#[test]
fn paused_it_stands_still_and_resumed_it_goes_on() {
    let rig = firewall();
    assert!(rig.host.set_paused("f", true).expect("it runs"));
    let still = rig.packets("f");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(rig.packets("f"), still);
    assert!(rig.host.set_paused("f", false).expect("it runs"));
    rig.moves("f");
    assert!(!rig.host.set_paused("absent", true).expect("it runs"));
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn started_anew_it_keeps_its_place_and_its_counts() {
    let rig = firewall();
    let (id, before) = (rig.host.function("f"), rig.packets("f"));
    rig.host.restart("f", &rig.catalog).expect("it starts");
    rig.moves("f");
    assert_eq!(rig.host.function("f"), id);
    assert!(rig.packets("f") > before);
    assert!(rig.host.restart("absent", &rig.catalog).is_err());
    assert_eq!(rig.account().ledger.dropped.total(), 0);
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

/// A function that never comes to the end of a batch.
fn learn_endless(rig: &Rig, name: &str) {
    let manifest = "name: endless\nversion: 1.0.0\nabi: 1\nsummary: Loops.\nlanguage: c\naccess: read\n\
                    interfaces: [left, right]\nmemory_limit: 4MiB\n";
    let wat = r#"(module
        (memory (export "memory") 1)
        (func (export "sf_batch") (result i32) (i32.const 4096))
        (func (export "sf_init") (result i32) (i32.const 0))
        (func (export "sf_process") (param i32 i64) (loop $again (br $again))))"#;
    let wasm = wat::parse_str(wat).expect("sound");
    let (image, _) = image::assemble(&wasm, manifest, image::Names::Dropped).expect("it keeps the contract");
    rig.catalog.learn(name, image);
}

#[test]
fn a_function_that_held_its_worker_is_switched_out_from_its_next_life_on() {
    let mut rig = Rig::new(1);
    learn_endless(&rig, "./endless.wasm");
    let mut changes = chain();
    changes[3] = function(
        "f",
        json!({
            "image": "./endless.wasm", "max_call": "10ms", "restart": {"first_delay": "10ms"},
            "attach": {"left": "source", "right": "out"},
        }),
    );
    rig.apply(&changes);
    rig.host.start().expect("threads");
    let of = |rig: &Rig| rig.host.account_of("f").expect("it is there");
    wait("it is stopped a second time", || of(&rig).faults >= 2);
    // In its first life it held the worker for all of its longest call. Each later one is in pieces of a
    // slice of 0.1 ms.
    let account = of(&rig);
    assert!(account.suspensions > 0, "{account:?}");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn another_configuration_takes_over_and_is_rolled_back() {
    let rig = firewall();
    let before = rig.host.instance("f").expect("it is there");
    let next = wanted(&rig, filter(json!({"default_action": "accept", "max_flows": 5000})));
    let taken = rig.take_over(&next).expect("it takes over");
    assert_eq!(taken.how, Succession::Carried);
    assert_eq!(rig.host.instance("f"), Some(next.clone()));
    rig.moves("f");
    rig.host.roll_back(taken).expect("it takes over again");
    assert_eq!(rig.host.instance("f"), Some(before.clone()));
    rig.moves("f");
    // One that does not start, or does not take the state, changes nothing.
    let mut other = before.clone();
    other.image = "monitor".to_owned();
    for instance in [other, Instance { image: "./no/such.wasm".to_owned(), ..before.clone() }] {
        assert!(rig.take_over(&instance).is_err());
        assert_eq!(rig.host.instance("f"), Some(before.clone()));
    }
    let fewer = Instance { interfaces: 1, ..before };
    let error = rig.take_over(&fewer).err().expect("refused").to_string();
    assert!(error.contains("1 interfaces; allowed: 2"), "{error}");
    rig.moves("f");
    let account = rig.account();
    assert_eq!(account.ledger.dropped.total(), 0, "no packet is lost: {:?}", account.ledger);
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn an_image_that_lays_out_its_memory_alike_goes_on_with_it_as_it_is() {
    let rig = firewall();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("other.wasm");
    let mut wasm = rig.catalog.load("firewall").expect("it is there").wasm().to_vec();
    // A name that is never read makes it another image.
    wasm.extend(b"\x00\x09\x04name\x00\x02\x01n");
    std::fs::write(&path, wasm).expect("room");
    let before = rig.host.instance("f").expect("it is there");
    let other = Instance { image: path.display().to_string(), ..before.clone() };
    rig.moves("f");
    let counted = || rig.host.account_of("f").expect("it is there").counters;
    for _ in 0..3 {
        let first = counted();
        let taken = rig.take_over(&other).expect("it takes over");
        assert_eq!(taken.how, Succession::Moved);
        rig.moves("f");
        rig.host.roll_back(taken).expect("it takes over again");
        assert_eq!(rig.host.instance("f"), Some(before.clone()));
        rig.moves("f");
        let then = counted();
        assert!(first.iter().zip(&then).all(|((_, first), (_, then))| first <= then), "{first:?} {then:?}");
    }
    let taken = rig.take_over(&other).expect("it takes over");
    assert_eq!(taken.how, Succession::Moved);
    drop(taken);
    rig.moves("f");
    assert_eq!(rig.account().ledger.dropped.total(), 0, "no packet is lost");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn one_that_goes_on_with_the_memory_of_another_has_no_pages_of_its_own_until_then() {
    let rig = firewall();
    let before = rig.host.instance("f").expect("it is there");
    let id = rig.host.function("f").expect("it is there");
    let pages = |next: &Instance| {
        let around = Around::of(&rig.host.deployed(), "f", next).expect("it has a pool");
        let successor = rig.host.successor("f", id, (before.clone(), next), &rig.catalog, around);
        let mut started = successor.expect("it starts").starting.started().expect("it is started");
        let (place, bytes) = started.memory();
        let own = guest_wasm::resident(place, bytes);
        // What is started after a fault has all pages again, as at any start.
        let mut again = started.taking_over().factory.start().expect("it starts");
        let (place, bytes) = (again.memory_place(), again.memory());
        assert_eq!(guest_wasm::resident(place, bytes), bytes as u64);
        (own, bytes as u64)
    };
    // Its configuration differs: it takes state, and is populated for that.
    let other = wanted(&rig, filter(json!({"default_action": "accept", "max_flows": 60_000})));
    let (own, bytes) = pages(&other);
    assert_eq!(own, bytes);
    let (own, bytes) = pages(&before);
    assert!(own < bytes / 2, "{own} of {bytes} bytes would be given back with the worker in hand");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn it_goes_on_from_what_was_saved_of_it() {
    let mut rig = firewall();
    rig.host.set_paused("f", true).expect("it runs");
    let saved = rig.host.save("f").expect("it can be saved");
    let known = saved.memory.footprint();
    assert!(known > 4096, "{known}");
    rig.host.set_paused("f", false).expect("it runs");
    rig.moves("f");
    let id = rig.host.function("f");
    // In its own place, and standing still.
    let spec = filter(json!({"default_action": "accept"}));
    let beginning = Beginning { paused: true, saved: Some(saved.clone()) };
    rig.apply_with(&[function("f", spec.clone())], [("f".to_owned(), beginning)].into());
    assert_ne!(rig.host.function("f"), id, "another one, though nothing about it has changed");
    let again = rig.host.save("f").expect("it can be saved");
    assert_eq!((again.identity, again.memory), (saved.identity.clone(), saved.memory.clone()));
    rig.host.set_paused("f", false).expect("it runs");
    rig.moves("f");
    // As another one beside it.
    let mut other = spec;
    other["attach"] = json!({});
    let beginning = Beginning { paused: true, saved: Some(saved.clone()) };
    rig.apply_with(&[function("twin", other)], [("twin".to_owned(), beginning)].into());
    assert_eq!(rig.host.save("twin").expect("it can be saved").memory, saved.memory);
    // Of another image it is none.
    let beginning = Beginning { paused: false, saved: Some(saved) };
    let plan = rig.check(&[function("odd", forwarder(json!({})))]).expect("right");
    let refused =
        rig.host.prepare(plan, [("odd".to_owned(), beginning)].into(), &rig.catalog).err().expect("refused");
    assert!(refused.to_string().starts_with("function `odd`: "), "{refused}");
    assert!(rig.host.function("odd").is_none());
    rig.moves("f");
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn what_is_asked_of_a_function_that_is_being_frozen_waits_until_it_is() {
    type Asked = fn(&Host, &Catalog, &Instance) -> Result<(), PrepareError>;
    let rig = firewall();
    let id = rig.host.function("f").expect("it is there");
    let fleet = rig.host.fleet();
    let other = wanted(&rig, filter(json!({"default_action": "drop"})));
    let all: [(&str, Asked); 3] = [
        ("save", |host, _, _| host.save("f").map(drop)),
        ("restart", |host, catalog, _| host.restart("f", catalog)),
        ("take over", |host, catalog, other| host.take_over("f", other, catalog).map(drop)),
    ];
    for (what, ask) in all {
        // As a freeze does.
        let away = fleet.change(|change| change.detach(id)).expect("it works").expect("it is in no call");
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&rig.host, &rig.catalog, &other));
            // What does not wait has been refused by then.
            std::thread::sleep(Duration::from_millis(100));
            assert!(!asked.is_finished(), "{what}: {:?}", asked.join());
            fleet.change(|change| change.attach(id, away)).expect("it works").expect("it is there");
            asked.join().expect("no panic").unwrap_or_else(|error| panic!("{what}: {error}"));
        });
    }
    rig.host.stop().expect("it ran").balance().expect("balanced");
}
