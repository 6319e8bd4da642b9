//! What is plugged into a switch is unplugged again.

use super::*;

fn plugs(rig: &Rig) -> usize {
    rig.account().switches.iter().map(|switch| switch.ports).sum()
}

#[test]
fn a_services_port_of_a_switch_goes_with_it() {
    let mut rig = Rig::new(2);
    rig.apply(&[put(Kind::Switch, "hall", json!({}))]);
    for _ in 0..100 {
        rig.apply(&[put(Kind::Service, "7", json!("hall"))]);
        assert_eq!(plugs(&rig), 1);
        // Led elsewhere, and back.
        rig.apply(&[function("f", json!({"image": "forwarder"})), put(Kind::Service, "7", json!("f:left"))]);
        assert_eq!(plugs(&rig), 0);
        rig.apply(&[put(Kind::Service, "7", json!("hall")), delete(Kind::Function, "f")]);
        assert_eq!(plugs(&rig), 1);
        rig.apply(&[delete(Kind::Service, "7")]);
        assert_eq!(plugs(&rig), 0);
    }
}

#[test]
fn a_switch_that_is_made_anew_is_served_anew() {
    let mut rig = Rig::new(1);
    rig.apply(&[
        put(Kind::Switch, "hall", json!({})),
        put(Kind::Service, "7", json!("hall")),
        function("f", json!({"image": "forwarder", "attach": {"left": "hall"}})),
    ]);
    assert_eq!(plugs(&rig), 2);
    let id = rig.host.function("f");
    rig.apply(&[put(Kind::Switch, "hall", json!({"entries": 64}))]);
    assert_eq!(plugs(&rig), 2);
    assert_eq!(rig.host.function("f"), id, "what is plugged in stays");
    rig.apply(&[delete(Kind::Service, "7"), delete(Kind::Function, "f")]);
    assert_eq!(plugs(&rig), 0);
}

#[test]
fn wires_into_a_switch_give_their_ports_back() {
    let mut rig = Rig::new(2);
    rig.apply(&[put(Kind::Switch, "hall", json!({})), put(Kind::Switch, "yard", json!({}))]);
    for n in 0..50 {
        let attach = json!({"left": "hall", "right": "yard"});
        rig.apply(&[function("f", json!({"image": "forwarder", "worker": n % 2, "attach": attach}))]);
        assert_eq!(plugs(&rig), 2);
        rig.apply(&[delete(Kind::Function, "f")]);
        assert_eq!(plugs(&rig), 0);
    }
}

#[test]
fn services_are_their_tenants_and_come_back_with_a_tenant_that_is_made_anew() {
    let mut rig = Rig::new(2);
    let services = |rig: &Rig| -> Vec<String> {
        rig.host.wiring().services.iter().map(|(service, end)| format!("{service} {end}")).collect()
    };
    let tenant = |name: &str, buffers: u32| {
        put(Kind::Tenant, name, json!({"pool": {"buffers": buffers, "pages": "ordinary"}}))
    };
    rig.apply(&[
        tenant("red", 512),
        tenant("blue", 512),
        put(Kind::Switch, "hall", json!({})),
        function("gate", json!({"image": "forwarder", "tenant": "blue"})),
        put(Kind::Service, "7", json!({"to": "gate:left", "for": ["red"]})),
        put(Kind::Service, "red:8", json!("hall")),
        put(Kind::Service, "blue:8", json!("gate:right")),
    ]);
    let all = ["blue:7 gate:0", "blue:8 gate:1", "red:7 gate:0", "red:8 hall"];
    assert_eq!((services(&rig), plugs(&rig)), (all.map(str::to_owned).into(), 1));
    let gate = rig.host.function("gate");
    // Its number is another's then, and its services are laid anew.
    rig.apply(&[tenant("red", 256)]);
    assert_eq!((services(&rig), plugs(&rig)), (all.map(str::to_owned).into(), 1));
    assert_eq!(rig.host.function("gate"), gate, "what is blue's goes on");
    rig.apply(&[put(Kind::Service, "7", json!("gate:left")), delete(Kind::Service, "red:8")]);
    assert_eq!((services(&rig), plugs(&rig)), (all[..2].iter().map(|&all| all.to_owned()).collect(), 0));
    let wrong = rig.check(&[delete(Kind::Tenant, "blue")]).expect_err("its function is there");
    assert!(wrong.iter().any(|fault| fault.at == "functions.gate.tenant"), "{wrong:?}");
}
