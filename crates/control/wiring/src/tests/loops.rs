//! Ways that lead back to where they began.

use super::*;
use ::virtual_device::Share;
use std::collections::BTreeSet;

fn switch(name: &str) -> Endpoint {
    Endpoint::Switch(name.to_owned())
}

fn rootless(name: &str) -> Endpoint {
    Endpoint::Device(Opening::of(name, None))
}

/// Functions f0 to f5, the switches `hall` and `yard`, the rootless devices `pair` and `party`.
fn host(edges: Vec<(Endpoint, Endpoint)>) -> Wiring {
    let device = |share| Device { share, ..devices::device("default", 0) };
    Wiring {
        tenants: edge().tenants,
        ports: (0..3).map(|n| (format!("p{n}"), port("default"))).collect(),
        switches: ["hall", "yard"].map(|name| (name.to_owned(), Switch::default())).into(),
        devices: [("pair", Share::Single), ("party", Share::Duplicate)]
            .map(|(name, share)| (name.to_owned(), device(share)))
            .into(),
        instances: (0..6).map(|n| (format!("f{n}"), instance("default"))).collect(),
        edges: edges.into_iter().map(|(a, b)| Edge::new(a, b)).collect(),
        ..Wiring::default()
    }
}

fn told(wiring: &Wiring) -> Vec<String> {
    wiring.loops().iter().map(ToString::to_string).collect()
}

#[test]
fn functions_that_lead_back_to_one_hub_are_a_loop() {
    let one = host(vec![(at("f0:0"), switch("hall")), (at("f0:1"), switch("hall"))]);
    assert_eq!(told(&one), ["`f0:0` and `f0:1` are both at `hall`: frames would go round"]);
    assert_eq!(faults(&one), told(&one));
    let two = host(vec![
        (at("f1:0"), switch("hall")),
        (at("f1:1"), at("f0:0")),
        (at("f0:1"), switch("hall")),
        (at("p0"), switch("hall")),
    ]);
    assert_eq!(told(&two), ["`f0:1` and `f1:0` are both at `hall`: frames would go round"]);
    // A rootless device that is opened twice is a wire, one that more open is a hub.
    let over = |more: Option<(Endpoint, Endpoint)>| {
        let mut edges = vec![
            (at("f0:0"), switch("hall")),
            (at("f0:1"), rootless("party")),
            (at("f1:1"), rootless("party")),
            (at("f1:0"), switch("hall")),
        ];
        edges.extend(more);
        host(edges)
    };
    assert_eq!(told(&over(None)), ["`f0:0` and `f1:0` are both at `hall`: frames would go round"]);
    let party = over(Some((at("f2:0"), rootless("party"))));
    assert_eq!((told(&party), party.detours().len()), (vec![], 1));
    assert_eq!(party.validate(), Ok(()));
}

#[test]
fn functions_that_lead_into_each_other_are_a_loop() {
    let alone = host(vec![(at("f0:0"), at("f0:1"))]);
    assert_eq!(told(&alone), ["`f0:0` and `f0:1` lead into each other: packets would go round"]);
    let ring = host(vec![(at("f0:1"), at("f1:0")), (at("f1:1"), at("f2:1")), (at("f2:0"), at("f0:0"))]);
    assert_eq!(told(&ring).len(), 1);
    let line = host(vec![(at("p0"), at("f0:0")), (at("f0:1"), at("f1:0")), (at("f1:1"), at("p1"))]);
    assert_eq!((told(&line), line.validate()), (vec![], Ok(())));
}

#[test]
fn what_ends_a_way_is_no_loop() {
    // A third interface is none by which packets pass.
    let mut aside = host(vec![(at("f0:0"), switch("hall")), (at("f0:2"), switch("hall"))]);
    aside.instances.insert("f0".to_owned(), Instance { interfaces: 3, ..instance("default") });
    assert_eq!((told(&aside), aside.detours()), (vec![], vec![]));
    // Two bridges over the same two ports: what their openers send leaves the host.
    let mut bridges = host(vec![(at("f0:0"), rootless("a")), (at("f1:0"), rootless("b"))]);
    for name in ["a", "b"] {
        bridges.devices.insert(name.to_owned(), devices::device("default", 2));
    }
    assert_eq!((told(&bridges), bridges.validate()), (vec![], Ok(())));
}

#[test]
fn a_second_way_between_hubs_is_told_with_both() {
    let mut wiring = host(vec![
        (at("f0:0"), switch("hall")),
        (at("f0:1"), switch("yard")),
        (at("f1:1"), switch("hall")),
        (at("f1:0"), switch("yard")),
    ]);
    let detour = Detour { first: at("f0:1"), second: at("f1:0"), hubs: ["yard".into(), "hall".into()] };
    assert_eq!((wiring.detours(), wiring.validate()), (vec![detour], Ok(())));
    // By way of a third one.
    wiring.edges.remove(&Edge::new(at("f1:1"), switch("hall")));
    wiring.edges.insert(Edge::new(at("f1:1"), rootless("party")));
    wiring.edges.insert(Edge::new(at("f2:1"), rootless("party")));
    wiring.edges.insert(Edge::new(at("f3:1"), rootless("party")));
    assert_eq!(wiring.detours(), []);
    wiring.edges.insert(Edge::new(at("f2:0"), switch("hall")));
    assert_eq!(wiring.detours().len(), 1);
}

/// Whether a frame that enters a function comes back to where it was, step by step.
fn comes_back(wiring: &Wiring) -> bool {
    let is_hub = |end: &Endpoint| match end {
        Endpoint::Switch(_) => true,
        Endpoint::Device(opening) => {
            let openers = wiring.edges.iter().filter_map(Edge::opening);
            openers.filter(|(_, other)| other.device == opening.device).count() != 2
        }
        _ => false,
    };
    let peer = |end: &Endpoint| {
        let other = |edge: &Edge, end: &Endpoint| {
            let [a, b] = edge.ends();
            (a == end).then(|| b.clone()).or_else(|| (b == end).then(|| a.clone()))
        };
        let there = wiring.edges.iter().find_map(|edge| other(edge, end))?;
        if !matches!(there, Endpoint::Device(_)) || is_hub(&there) {
            return Some(there);
        }
        wiring.edges.iter().filter_map(|edge| other(edge, &there)).find(|opener| opener != end)
    };
    let through = |end: &Endpoint| match end {
        Endpoint::Interface(name, number) => Some(Endpoint::Interface(name.clone(), 1 - number)),
        _ => None,
    };
    (0..6).flat_map(|n| [at(&format!("f{n}:0")), at(&format!("f{n}:1"))]).any(|start| {
        let (from, mut at) = (peer(&start), start.clone());
        for _ in 0..7 {
            let Some(out) = through(&at) else { return false };
            match peer(&out) {
                Some(hub) if is_hub(&hub) => return from.as_ref() == Some(&hub),
                Some(next) if next == start => return true,
                Some(next) => at = next,
                None => return false,
            }
        }
        false
    })
}

fn end() -> impl Strategy<Value = Endpoint> {
    prop_oneof![
        6 => (0..6u8, 0..2u8).prop_map(|(f, n)| at(&format!("f{f}:{n}"))),
        1 => (0..3u8).prop_map(|p| at(&format!("p{p}"))),
        1 => prop::sample::select(vec!["hall", "yard"]).prop_map(switch),
        1 => prop::sample::select(vec!["pair", "party"]).prop_map(rootless),
    ]
}

proptest! {
    /// A wiring without a loop has none that a frame can find.
    #[test]
    fn loops_are_what_frames_find(pairs in prop::collection::vec((end(), end()), 0..9)) {
        let mut used = BTreeSet::new();
        let mut edges = Vec::new();
        for (a, b) in pairs {
            let is_device = |end: &Endpoint| matches!(end, Endpoint::Device(_));
            let fits = |end: &Endpoint| matches!(end, Endpoint::Interface(..));
            let possible = if a.takes_many() || b.takes_many() {
                // Neither two of them, nor a device at a port.
                !(a.takes_many() && b.takes_many()) && (!is_device(&a) || fits(&b)) && (!is_device(&b) || fits(&a))
            } else {
                a != b
            };
            let ends = [&a, &b].into_iter().filter(|end| !end.takes_many()).cloned().collect::<Vec<_>>();
            if possible && ends.iter().all(|end| !used.contains(end)) {
                used.extend(ends);
                edges.push((a, b));
            }
        }
        let wiring = host(edges);
        let own = |edge: &Edge| edge.opening().map(|(end, opening)| (end.name().to_owned(), opening.device.clone()));
        let mut openers = BTreeSet::new();
        // What opens a device twice is told as that.
        prop_assume!(wiring.edges.iter().filter_map(own).all(|opener| openers.insert(opener)));
        prop_assert_eq!(!wiring.loops().is_empty(), comes_back(&wiring), "{:?}", wiring.edges);
    }
}
