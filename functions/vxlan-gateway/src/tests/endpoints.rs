//! Where addresses were heard: bounds, floods, moves, ageing, and the hand-over.

use super::*;
use crate::endpoints::{Endpoints, Learned, Place};
use proptest::prelude::*;

const REMOTE: Place = Place::Remote(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)));

fn secs(secs: u64) -> Nanos {
    at(secs * 1_000_000_000)
}

proptest! {
    /// Whatever comes, no network has more than its bound, and none that was answered goes but by age.
    #[test]
    fn no_table_grows_over_its_bound(
        steps in prop::collection::vec((0u16..3, 0u32..60, any::<bool>(), 0u32..60, 0u64..4), 1..400),
    ) {
        let mut endpoints = Endpoints::new(3, 16, Nanos::from_secs(30));
        let mut now = 0;
        for (network, from, is_remote, to, later) in steps {
            now += later;
            let place = if is_remote { REMOTE } else { Place::Local };
            let before: Vec<_> = endpoints
                .all()
                .filter(|(_, _, known)| known.is_answered)
                .map(|(network, address, known)| (network, address, *known))
                .collect();
            endpoints.learn(network, host(from), place, secs(now));
            endpoints.toward(network, host(to), place, secs(now));
            for (of, address, known) in before {
                let is_there = endpoints.all().any(|(network, other, _)| (network, other) == (of, address));
                let has_aged = (secs(now).0 / 1_000_000_000) as u32 - known.heard > 30;
                prop_assert!(is_there || has_aged);
            }
            for network in 0..3 {
                let all = endpoints.all().filter(|(of, ..)| *of == network);
                let (mut known, mut answered) = (0, 0);
                for (_, _, endpoint) in all {
                    known += 1;
                    answered += usize::from(endpoint.is_answered);
                }
                prop_assert!(known <= 16);
                prop_assert_eq!((endpoints.count(network).known, endpoints.count(network).answered), (known, answered));
            }
        }
        endpoints.forget(secs(now + 100), usize::MAX);
        prop_assert!(endpoints.is_empty());
    }
}

/// A thousand sources from one host: those that were answered stay, and so do the other networks'.
#[test]
fn a_flood_of_sources_displaces_none_that_was_answered() {
    let mut first = gateway(FIRST);
    for n in 0..8 {
        from_vlan(&mut first, &frame(ALL, host(n), 40), secs(0));
        from_vxlan(&mut first, &in_vxlan(8, "192.0.2.3", &frame(host(n), host(100 + n), 40)), secs(0));
        from_vlan(&mut first, &tagged(ALL, host(n), 40), secs(0));
    }
    // Half of the remote ones are answered.
    for n in 0..4 {
        from_vlan(&mut first, &frame(host(100 + n), host(n), 40), secs(0));
    }
    for n in 0..1000 {
        from_vlan(&mut first, &frame(ALL, host(1000 + n), 40), secs(1));
    }
    let endpoints = first.function().endpoints.count(1);
    assert_eq!((endpoints.known, endpoints.answered), (16, 12));
    assert_eq!(counted(&first, "displaced"), 1000);
    assert_eq!(first.function().endpoints.count(0).known, 8);
    let copies = counted(&first, "copies");
    for n in 0..4 {
        assert_eq!(sent(&from_vlan(&mut first, &frame(host(100 + n), host(n), 40), secs(1)), VXLAN)[33], 3);
    }
    assert_eq!(counted(&first, "copies"), copies);
}

#[test]
fn where_all_were_answered_a_new_one_is_not_learned() {
    let mut endpoints = Endpoints::new(1, 16, Nanos::from_secs(30));
    for n in 0..16 {
        assert_eq!(endpoints.learn(0, host(n), REMOTE, secs(0)), Learned::New);
        endpoints.toward(0, host(n), Place::Local, secs(0));
    }
    assert_eq!(endpoints.learn(0, host(99), REMOTE, secs(1)), Learned::Refused);
    assert_eq!(endpoints.toward(0, host(99), Place::Local, secs(1)), None);
    // The oldest has aged.
    assert_eq!(endpoints.learn(0, host(1), REMOTE, secs(20)), Learned::Known);
    assert_eq!(endpoints.learn(0, host(99), REMOTE, secs(31)), Learned::New);
    assert_eq!(endpoints.toward(0, host(1), Place::Local, secs(31)), Some(REMOTE));
}

#[test]
fn an_address_that_is_heard_elsewhere_has_moved() {
    let mut first = gateway(FIRST);
    let from = |remote: &str| in_vxlan(8, remote, &frame(ALL, host(2), 40));
    let to = frame(host(2), host(1), 40);
    from_vxlan(&mut first, &from("192.0.2.2"), secs(0));
    assert_eq!(sent(&from_vlan(&mut first, &to, secs(0)), VXLAN)[33], 2);
    from_vxlan(&mut first, &from("192.0.2.4"), secs(0));
    assert_eq!(sent(&from_vlan(&mut first, &to, secs(0)), VXLAN)[33], 4);
    from_vlan(&mut first, &frame(ALL, host(2), 40), secs(0));
    dropped(&from_vlan(&mut first, &to, secs(0)), Reason::Filtered);
    assert_eq!((counted(&first, "moved"), counted(&first, "learned")), (2, 2));
    let report: serde_json::Value =
        serde_json::from_str(&first.report(secs(0)).expect("always")).expect("JSON");
    assert_eq!((&report["networks"][1]["moved"], &report["networks"][0]["moved"]), (&2.into(), &0.into()));
}

#[test]
fn what_is_not_heard_again_is_forgotten() {
    let mut first = gateway(&format!("{FIRST}ageing: 10s\n"));
    from_vxlan(&mut first, &in_vxlan(8, "192.0.2.2", &frame(ALL, host(2), 40)), secs(0));
    let to = frame(host(2), host(1), 40);
    from_vlan(&mut first, &to, secs(10));
    assert_eq!(counted(&first, "copies"), 0);
    from_vlan(&mut first, &to, secs(11));
    assert_eq!(counted(&first, "copies"), 2);
    let deadline = first.host().deadline().expect("it is set");
    first.timer(deadline.saturating_add(Nanos::from_secs(60)));
    assert!(first.function().endpoints.is_empty());
    assert_eq!(counted(&first, "aged"), 2);
}

#[test]
fn another_instance_takes_the_tables_over() {
    let mut first = gateway(FIRST);
    from_vxlan(&mut first, &in_vxlan(8, "192.0.2.3", &frame(ALL, host(2), 40)), secs(0));
    from_vlan(&mut first, &frame(host(2), host(1), 40), secs(0));
    from_vlan(&mut first, &tagged(ALL, host(5), 40), secs(0));
    let state = first.export_state().expect("offered");
    let mut next = gateway(FIRST);
    assert!(next.import_state(&state));
    let known = |runner: &Runner<Gateway>| -> Vec<_> {
        let all = runner.function().endpoints.all();
        all.map(|(network, address, one)| (network, address, one.place, one.heard, one.is_answered)).collect()
    };
    assert_eq!(known(&first), known(&next));
    assert_eq!(sent(&from_vlan(&mut next, &frame(host(2), host(1), 40), secs(1)), VXLAN)[33], 3);
    // A network that is no more is left out.
    let mut other = gateway(SECOND);
    assert!(other.import_state(&state));
    let mut fewer = gateway("{local: 192.0.2.1, networks: [{vni: 7, remotes: [192.0.2.2]}]}");
    assert!(fewer.import_state(&state));
    assert_eq!(fewer.function().endpoints.len(), 1);
}
