//! What a tenant is told of a change that the check of all objects refuses.

use super::*;

/// Names that only another tenant's objects and the host's have.
const OTHERS: [&str; 5] = ["blue", "hall", "trunk", "77", "secret"];

fn red(spec: Value) -> Value {
    let mut spec = spec;
    spec["tenant"] = json!("red");
    spec
}

/// The objects of `red`.
fn own() -> Vec<ObjectChange> {
    vec![
        put(Kind::Tenant, "red", json!({"pool": {"buffers": 64}})),
        put(Kind::Port, "red-in", red(json!({"type": "null"}))),
        put(Kind::Function, "red-fw", red(json!({"image": "forwarder"}))),
        put(Kind::Function, "red-tap", red(json!({"image": "monitor"}))),
        put(Kind::Function, "red-eye", red(json!({"image": "monitor"}))),
        put(Kind::Function, "red-gate", red(json!({"image": "forwarder"}))),
        put(Kind::Observer, "red-tap", json!({"at": ["red-fw"]})),
        put(Kind::Function, "red-free", red(json!({"image": "forwarder", "attach": {"left": "red-in"}}))),
        put(Kind::Port, "red-out", red(json!({"type": "null"}))),
        put(Kind::Port, "red-last", red(json!({"type": "null"}))),
        put(Kind::Device, "red-pair", red(json!({"mode": "rootless"}))),
        put(Kind::Function, "red-one", red(json!({"image": "forwarder", "attach": {"left": "red-pair"}}))),
    ]
}

/// What is there beside them: another tenant's objects, and the host's, which name those of `red` as well.
fn others() -> Vec<ObjectChange> {
    let blue = |mut spec: Value| {
        spec["tenant"] = json!("blue");
        spec
    };
    vec![
        put(Kind::Tenant, "blue", json!({"pool": {"buffers": 64}})),
        put(Kind::Switch, "hall", json!({})),
        put(Kind::Port, "blue-in", blue(json!({"type": "null"}))),
        put(Kind::Port, "blue-out", blue(json!({"type": "null"}))),
        put(Kind::Function, "blue-fw", blue(json!({"image": "forwarder"}))),
        put(Kind::Chain, "trunk", json!(["blue-in", "red-fw", "blue-out"])),
        put(Kind::Service, "77", json!({"to": "red-gate:0", "for": ["blue"]})),
        put(Kind::Wire, "hall~red-gate:1", json!(["hall", "red-gate:1"])),
        put(Kind::Wire, "hall~red-out", json!(["hall", "red-out"])),
    ]
}

fn own_faults(rig: &Rig, changes: &[ObjectChange]) -> Vec<Fault> {
    let material = Material::of(&rig.catalog);
    loop {
        let faults = rig.desired.own_faults("red", changes, &rig.host, &material);
        if !material.gather() {
            return faults;
        }
    }
}

fn texts(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}

/// Changes of `red`, each with what the check of all objects says of others in its refusal.
fn refused() -> Vec<(&'static str, Vec<ObjectChange>, &'static str)> {
    let wire = |ends: [&str; 2]| vec![put(Kind::Wire, &ends.join("~"), json!(ends))];
    let fw = |attach: Value| {
        vec![put(Kind::Function, "red-new", red(json!({"image": "forwarder", "attach": attach})))]
    };
    vec![
        ("an end that a chain of the host has", wire(["red-fw:0", "red-in"]), "blue-in"),
        ("an end that a switch has", wire(["red-free:1", "red-gate:1"]), "hall"),
        ("a port of another", fw(json!({"left": "blue-in"})), "blue-in"),
        ("a function that a chain needs goes", vec![delete(Kind::Function, "red-fw")], "trunk"),
        ("a function that a service needs goes", vec![delete(Kind::Function, "red-gate")], "77"),
        (
            "an observer of another's function",
            vec![put(Kind::Observer, "red-eye", json!({"at": ["blue-fw"]}))],
            "blue",
        ),
        (
            "an observer that is a service",
            vec![put(Kind::Observer, "red-gate", json!({"at": ["red-free"]}))],
            "red-gate",
        ),
        (
            "the name of a switch",
            vec![put(Kind::Function, "hall", red(json!({"image": "forwarder"})))],
            "hall",
        ),
        (
            "the name of a port",
            vec![put(Kind::Function, "blue-in", red(json!({"image": "forwarder"})))],
            "blue-in",
        ),
        (
            "a device over a port that a switch has",
            vec![put(Kind::Device, "red-way", red(json!({"mode": "direct", "over": ["red-out"]})))],
            "red-way",
        ),
        (
            "a device over a port of another",
            vec![put(
                Kind::Device,
                "red-way",
                red(json!({"mode": "bridge", "over": ["red-last", "blue-in"]})),
            )],
            "blue-in",
        ),
        (
            "a device that names a tenant that may not be there",
            vec![put(
                Kind::Device,
                "red-way",
                red(json!({"mode": "rootless", "open_to": [{"tenant": "blux"}]})),
            )],
            "blue",
        ),
        ("a near miss of another's name", wire(["red-free:1", "blue-inn"]), "blue-in"),
        ("a wire to another's function", wire(["red-free:1", "blue-fw:0"]), ""),
        (
            "both an own fault and another's",
            vec![
                put(Kind::Function, "red-new", red(json!({"image": "forwarder", "config": {"x": 1}}))),
                delete(Kind::Function, "red-fw"),
            ],
            "trunk",
        ),
    ]
}

#[test]
fn what_a_tenant_is_told_is_the_same_whatever_others_have() {
    let mut alone = Rig::new(1);
    alone.apply(&own());
    let mut shared = Rig::new(1);
    shared.apply(&own().into_iter().chain(others()).collect::<Vec<_>>());
    for (what, changes, named) in refused() {
        let told = |rig: &Rig| own_faults(rig, &changes);
        let all = shared.check(&changes).err().map(|faults| texts(&faults));
        if named.is_empty() {
            // It would be allowed to the administrator, and is refused to the tenant before it comes to this.
            assert_eq!(all, None, "{what}");
        } else {
            let all = all.unwrap_or_else(|| panic!("{what}: it is allowed"));
            assert!(all.contains(named), "an administrator is told all: {what}: {all}");
        }
        assert_eq!(told(&shared), told(&alone), "{what}");
        let words: Vec<String> =
            changes.iter().map(|change| format!("{} {:?}", change.name, change.spec)).collect();
        for other in OTHERS.into_iter().filter(|other| !words.iter().any(|word| word.contains(other))) {
            let told = texts(&told(&shared));
            assert!(!told.contains(other), "{what}: {told}");
        }
    }
}

#[test]
fn a_tenants_own_faults_are_told() {
    let mut rig = Rig::new(1);
    rig.apply(&own().into_iter().chain(others()).collect::<Vec<_>>());
    let told = |changes: &[ObjectChange]| {
        assert!(rig.check(changes).is_err());
        texts(&own_faults(&rig, changes))
    };
    let wrong = put(Kind::Function, "red-new", red(json!({"image": "forwarder", "config": {"x": 1}})));
    let text = told(&[wrong]);
    assert!(text.starts_with("functions.red-new.config"), "{text}");
    let text = told(&[put(Kind::Wire, "red-free:0~red-fw:0", json!(["red-free:0", "red-fw:0"]))]);
    assert_eq!(text, "wires: `red-free:0` has a wire already: to `red-in`\n");
    let text = told(&[put(Kind::Device, "red-pair", red(json!({"mode": "rotless"})))]);
    assert!(text.starts_with("devices.red-pair.mode"), "{text}");
    let text = told(&[put(Kind::Device, "red-way", red(json!({"mode": "direct", "over": ["red-in"]})))]);
    assert!(text.contains("the device `red-way` is over the port `red-in`"), "{text}");
    let text = told(&[delete(Kind::Device, "red-pair")]);
    assert!(text.starts_with("functions.red-one.attach.left"), "{text}");
    let text = told(&[delete(Kind::Function, "red-free"), delete(Kind::Function, "red-tap")]);
    assert!(text.starts_with("observers.red-tap"), "{text}");
}
