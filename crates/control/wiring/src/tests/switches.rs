//! Switches in a wiring.

use super::*;

fn hall() -> Endpoint {
    Endpoint::Switch("hall".to_owned())
}

/// lan and fw:0 in a switch, fw:1 - wan.
fn office() -> Wiring {
    let mut wiring = edge();
    wiring.switches.insert("hall".to_owned(), Switch::default());
    wiring.edges =
        [Edge::new(at("lan"), hall()), Edge::new(hall(), at("fw:0")), Edge::new(at("fw:1"), at("wan"))]
            .into();
    wiring.services.insert(service(11), hall());
    wiring
}

#[test]
fn a_switch_has_many_ends_and_no_pool() {
    let wiring = office();
    assert_eq!(wiring.validate(), Ok(()));
    assert_eq!(wiring.plugged_into("hall").collect::<Vec<_>>(), [&at("lan"), &at("fw:0")]);
    assert_eq!(wiring.peer(&at("fw:0")), Some(&hall()));
    assert_eq!(wiring.peer(&hall()), None);
    assert_eq!(wiring.pool_of(&hall()), None);
    assert!(!wiring.copies(&at("lan"), &hall()) && !wiring.copies(&hall(), &at("lan")));
    assert_eq!(hall().to_string(), "hall");
    assert_eq!(Switch::default().settings(), SwitchSettings::default());
}

#[test]
fn what_no_switch_can_be_is_a_fault() {
    let with = |change: &dyn Fn(&mut Wiring)| {
        let mut wiring = office();
        change(&mut wiring);
        faults(&wiring)
    };
    assert_eq!(
        with(&|w| w.switches["hall"].entries = 9),
        ["the switch `hall`: entries: found 9; allowed: a power of two from 8 to 65536"]
    );
    assert_eq!(
        with(&|w| {
            w.switches.insert("fw".into(), Switch::default());
            w.switches.insert("lan".into(), Switch::default());
        }),
        ["`lan` is the name of a port and of a switch", "`fw` is the name of a switch and of a function"]
    );
    assert_eq!(
        with(&|w| {
            w.switches.insert("yard".into(), Switch::default());
            w.edges.insert(Edge::new(hall(), Endpoint::Switch("yard".into())));
        }),
        [
            "`hall - yard` connects two switches, whose frames would go round if there were another way between them"
        ]
    );
    assert_eq!(
        with(&|w| w.switches.clear()),
        ["`hall` does not exist", "`hall` does not exist", "`hall` does not exist"]
    );
    assert_eq!(
        with(&|w| {
            w.edges.insert(Edge::new(at("lan"), at("wan")));
        }),
        ["`lan` has two wires: to `wan` and to `hall`", "`wan` has two wires: to `lan` and to `fw:1`"]
    );
}

#[test]
fn a_changed_switch_is_replaced_and_what_is_plugged_into_it_stays() {
    let mut new = office();
    new.switches["hall"].entries = 8;
    let plan = Plan::between(&office(), &new);
    assert_eq!(plan.remove_switches, ["hall".to_owned()].into());
    assert_eq!(plan.add_switches["hall"].entries, 8);
    assert_eq!((plan.unwire.len(), &plan.wire), (2, &plan.unwire));
    assert_eq!(plan.remove_services, [service(11)].into());
    assert!(plan.remove_ports.is_empty() && plan.remove_instances.is_empty());
}
