//! A part of the objects looked at alone comes to what all of them come to.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(Path::new(".")));

/// Ends of wires, some of which are there.
fn end() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec!["source", "out", "hall", "dev", "dev:source", "other", "nowhere"])
        .prop_map(str::to_owned);
    let interfaces = (name(), prop::sample::select(vec!["left", "right", "0", "1", "7"]))
        .prop_map(|(name, interface)| format!("{name}:{interface}"));
    prop_oneof![names, interfaces]
}

/// Functions, and now and then what something else is called.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(vec!["f", "g", "h"]),
        1 => prop::sample::select(vec!["source", "hall", "dev", "1bad"]),
    ]
    .prop_map(str::to_owned)
}

fn spec() -> impl Strategy<Value = Value> {
    let attach = prop::collection::btree_map(
        prop::sample::select(vec!["left", "right", "1", "up"]).prop_map(str::to_owned),
        end(),
        0..3,
    );
    let image = prop_oneof![
        16 => Just("forwarder"),
        3 => Just("monitor"),
        1 => Just("forwader"),
    ];
    let more = prop_oneof![
        5 => Just(json!({})),
        1 => Just(json!({"tenant": "guests"})),
        1 => Just(json!({"tenant": "gests"})),
        1 => Just(json!({"cpu": {"reserve": "60%"}})),
        1 => Just(json!({"worker": 1})),
        1 => Just(json!({"worker": 9})),
        1 => Just(json!({"config": {"reflect": "so"}})),
        1 => Just(json!({"pool": "own"})),
    ];
    (image, attach, more).prop_map(|(image, attach, mut spec)| {
        spec["image"] = json!(image);
        if !attach.is_empty() {
            spec["attach"] = json!(attach);
        }
        spec
    })
}

fn change() -> impl Strategy<Value = ObjectChange> {
    let function = (name(), prop::option::weighted(0.7, spec())).prop_map(|(name, spec)| ObjectChange {
        kind: Kind::Function,
        name,
        spec,
    });
    let port = (
        prop::sample::select(vec!["source", "out", "f", "other", "dev"]),
        prop::option::weighted(
            0.7,
            prop::sample::select(vec![
                json!({"type": "null"}),
                json!({"type": "sink"}),
                json!({"type": "sink", "tenant": "guests"}),
                json!({"type": "sink", "io": "thread"}),
                json!({"type": "snik"}),
            ]),
        ),
    );
    let switch = (
        prop::sample::select(vec!["hall", "other", "g", "dev"]),
        prop::option::weighted(0.7, prop::sample::select(vec![64, 128, 100])),
    );
    let device = prop::option::weighted(
        0.7,
        prop::sample::select(vec![
            json!({"mode": "rootless"}),
            json!({"mode": "direct", "over": ["source"]}),
            json!({"mode": "bridge", "over": ["source", "other"], "share": "duplicate"}),
            json!({"mode": "bond", "over": {"source": {"receive": "udp"}}, "open_to": [{"tenant": "guests"}]}),
            json!({"mode": "bond", "over": {"source": {"receive": "utp"}}, "tenant": "guests"}),
        ]),
    );
    // Whatever the wire is called that the daemon has: the same two ends are one wire.
    let wire = |a: &str, b: &str| if a < b { format!("{a}~{b}") } else { format!("{b}~{a}") };
    let wire = (end(), end(), prop::bool::weighted(0.7)).prop_map(move |(a, b, there)| match there {
        true => put(Kind::Wire, &wire(&a, &b), json!([a, b])),
        false => delete(Kind::Wire, &wire(&a, &b)),
    });
    let other = prop_oneof![
        end().prop_map(|end| put(Kind::Service, "7", json!(end))),
        Just(delete(Kind::Service, "7")),
        name().prop_map(|at| put(Kind::Observer, "h", json!({"at": [format!("{at}:left")]}))),
        Just(delete(Kind::Observer, "h")),
        (name(), end()).prop_map(|(a, b)| put(Kind::Chain, "c", json!(["source", a, b]))),
        Just(delete(Kind::Chain, "c")),
    ];
    prop_oneof![
        8 => function,
        3 => port.prop_map(|(name, spec)| ObjectChange { kind: Kind::Port, name: name.to_owned(), spec }),
        2 => switch.prop_map(|(name, entries)| ObjectChange {
            kind: Kind::Switch,
            name: name.to_owned(),
            spec: entries.map(|entries| json!({ "entries": entries })),
        }),
        2 => device.prop_map(|spec| ObjectChange { kind: Kind::Device, name: "dev".to_owned(), spec }),
        4 => wire,
        2 => other,
    ]
}

/// Some at a time, each of another object.
fn together() -> impl Strategy<Value = Vec<ObjectChange>> {
    prop::collection::vec(change(), 1..4).prop_map(|mut changes| {
        let mut seen = std::collections::HashSet::new();
        changes.retain(|change| seen.insert((change.kind, change.name.clone())));
        changes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_part_and_the_whole_come_to_the_same(changes in prop::collection::vec(together(), 1..12)) {
        let pool: Value = json!({"pool": {"buffers": 64, "pages": "ordinary"}});
        let mut rig = Rig::new(2);
        let home = put(Kind::Tenant, "default", pool.clone());
        rig.apply(&[
            home.clone(),
            put(Kind::Tenant, "guests", pool),
            put(Kind::Port, "source", json!({"type": "null"})),
            put(Kind::Port, "out", json!({"type": "sink"})),
            put(Kind::Switch, "hall", json!({"entries": 64})),
        ]);
        for changes in changes {
            let part = rig.check(&changes);
            // With another one that changes nothing, all is looked at.
            let whole = rig.check(&[changes.as_slice(), std::slice::from_ref(&home)].concat());
            prop_assert_eq!(&part, &whole, "{:?}", changes);
            let Ok(plan) = part else { continue };
            match rig.host.prepare(plan, HashMap::new(), &CATALOG) {
                Ok(prepared) => {
                    let done = rig.host.carry_out(prepared).expect("it has not stopped");
                    prop_assert_eq!(done.troubles, Vec::<String>::new(), "{:?}", changes);
                    rig.desired.take_over(changes);
                }
                Err(error) => prop_assert!(false, "{error}: {changes:?}"),
            }
        }
        rig.account();
    }
}

/// What is beside a change is not even looked at: here it could not be read.
#[test]
fn a_change_is_checked_with_what_it_touches() {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    let broken = function("broken", json!({"image": "no-such-image"}));
    rig.desired.take_over([broken]);
    let looked_at = |changes: &[ObjectChange]| rig.check(changes).is_ok();
    let alone = json!({"image": "forwarder"});
    assert!(looked_at(&[function("g", alone.clone())]));
    assert!(looked_at(&[put(Kind::Port, "p", json!({"type": "sink"})), put(Kind::Switch, "s", json!({}))]));
    let (g, h) = (function("g", alone.clone()), function("h", alone.clone()));
    assert!(looked_at(&[g, h, put(Kind::Wire, "w", json!(["g:left", "h:right"]))]));
    assert!(looked_at(&[function("f", json!({"image": "forwarder", "config": {"reflect": true}}))]));
    assert!(!looked_at(&[put(Kind::Wire, "w", json!(["broken:left", "f:right"]))]));
    assert!(!looked_at(&[put(Kind::Chain, "c", json!(["f"]))]));
}

/// By wires of functions that the change does not touch.
#[test]
fn a_change_that_closes_a_loop_is_refused_however_long_that_is() {
    let mut rig = Rig::new(1);
    let forwarder =
        |name: &str, attach: Value| function(name, json!({"image": "forwarder", "attach": attach}));
    rig.apply(&[put(Kind::Switch, "hall", json!({})), put(Kind::Port, "out", json!({"type": "sink"}))]);
    rig.apply(&[forwarder("a", json!({"left": "hall"}))]);
    for (before, name) in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")] {
        rig.apply(&[forwarder(name, json!({"left": format!("{before}:right")}))]);
    }
    let end = |end: &str| [forwarder("e", json!({"left": "d:right", "right": end}))];
    let told = rig.check(&end("hall")).expect_err("it leads round");
    assert!(format!("{told:?}").contains("are both at the switch `hall`"), "{told:?}");
    assert!(rig.check(&end("out")).is_ok());
}

#[test]
fn what_is_told_of_one_function_names_all_that_there_is() {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    let faults = rig.check(&[function("g", json!({"image": "forwarder", "attach": {"left": "sorce"}}))]);
    let faults = faults.expect_err("there is no such port");
    assert!(faults[0].message.contains("did you mean `source`"), "{faults:?}");
    assert_eq!(faults[0].at, "functions.g.attach.left");
}

#[test]
fn what_is_told_of_objects_names_no_lines() {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    let told = |change| rig.check(&[change]).expect_err("refused").remove(0).message;
    let taken = told(put(Kind::Switch, "f", json!({})));
    assert_eq!(taken, "`f` is the name of the switch; allowed: a name of its own");
    let wired = told(put(Kind::Wire, "w", json!(["out", "f:left"])));
    assert_eq!(wired, "`out` has a wire already: to `f:1`");
}

#[test]
fn the_same_image_under_another_name_starts_nothing_anew() {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    let spec = rig.desired.spec(Kind::Function, "f").expect("it is there");
    let image = spec["image"].as_str().expect("a name");
    let image = rig.catalog.load(image).expect("sound");
    // One that differs in a name that is never read.
    let other = [image.wasm(), b"\x00\x09\x04name\x00\x02\x01n"].concat();
    rig.catalog.learn("./copy.wasm", image);
    rig.catalog.learn("./other.wasm", image::Image::load(&other).expect("sound"));
    let with = |image: &str| {
        let mut spec = spec.clone();
        spec["image"] = json!(image);
        function("f", spec)
    };
    assert_eq!(rig.check(&[with("./copy.wasm")]).expect("right"), Plan::default());
    let other = rig.check(&[with("./other.wasm")]).expect("right");
    assert!(other.change_instances.contains_key("f") && other.remove_instances.is_empty(), "{other:?}");
}
