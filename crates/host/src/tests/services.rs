//! What is plugged into a switch is unplugged again.

use super::*;

fn plugs(rig: &Rig) -> usize {
    rig.account().switches[0].ports
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
    assert_eq!(rig.host.function("f"), id, "who is plugged in stays");
    rig.apply(&[delete(Kind::Service, "7"), delete(Kind::Function, "f")]);
    assert_eq!(plugs(&rig), 0);
}

#[test]
fn wires_into_a_switch_give_their_ports_back() {
    let mut rig = Rig::new(2);
    rig.apply(&[put(Kind::Switch, "hall", json!({}))]);
    for n in 0..50 {
        let attach = json!({"left": "hall", "right": "hall"});
        rig.apply(&[function("f", json!({"image": "forwarder", "worker": n % 2, "attach": attach}))]);
        assert_eq!(plugs(&rig), 2);
        rig.apply(&[delete(Kind::Function, "f")]);
        assert_eq!(plugs(&rig), 0);
    }
}
