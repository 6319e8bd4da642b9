//! One function looked at alone comes to what all of them come to.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(Path::new(".")));

/// Ends of wires, some of which are there.
fn end() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec!["source", "out", "hall", "nowhere"]).prop_map(str::to_owned);
    let interfaces = (name(), prop::sample::select(vec!["left", "right", "0", "1", "7"]))
        .prop_map(|(name, interface)| format!("{name}:{interface}"));
    prop_oneof![names, interfaces]
}

/// Functions, and now and then what something else is called.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(vec!["f", "g", "h"]),
        1 => prop::sample::select(vec!["source", "hall", "1bad"]),
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
    let function = || (name(), prop::option::weighted(0.7, spec()));
    let other = prop_oneof![
        (end(), end()).prop_map(|(a, b)| put(Kind::Wire, &format!("{a}-{b}"), json!([a, b]))),
        end().prop_map(|end| put(Kind::Service, "7", json!(end))),
        Just(delete(Kind::Service, "7")),
        name().prop_map(|at| put(Kind::Observer, "h", json!({"at": [format!("{at}:left")]}))),
        Just(delete(Kind::Observer, "h")),
        (name(), end()).prop_map(|(a, b)| put(Kind::Chain, "c", json!(["source", a, b]))),
        Just(delete(Kind::Chain, "c")),
    ];
    prop_oneof![
        4 => function().prop_map(|(name, spec)| ObjectChange { kind: Kind::Function, name, spec }),
        1 => other,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn alone_and_as_a_whole_it_is_the_same(changes in prop::collection::vec(change(), 1..12)) {
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
        for change in changes {
            let alone = rig.check(std::slice::from_ref(&change));
            // With another one that changes nothing, all is looked at.
            let whole = rig.check(&[change.clone(), home.clone()]);
            prop_assert_eq!(&alone, &whole, "{:?}", change);
            let Ok(plan) = alone else { continue };
            match rig.host.prepare(plan, HashMap::new(), &CATALOG) {
                Ok(prepared) => {
                    let done = rig.host.carry_out(prepared).expect("it has not stopped");
                    prop_assert_eq!(done.troubles, Vec::<String>::new(), "{:?}", change);
                    rig.desired.take_over([change]);
                }
                Err(error) => prop_assert!(false, "{error}: {change:?}"),
            }
        }
        rig.account();
    }
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
fn the_same_image_under_another_name_starts_nothing_anew() {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    let spec = rig.desired.spec(Kind::Function, "f").expect("it is there");
    let image = spec["image"].as_str().expect("a name");
    let image = rig.catalog.load(image).expect("sound");
    // One that differs in a name that nobody reads.
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
    assert!(other.add_instances.contains_key("f") && other.remove_instances.contains("f"), "{other:?}");
}
