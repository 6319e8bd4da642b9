//! Devices in a wiring, and what is laid for them.

use super::*;
use ::virtual_device::{Balance, Mode, Share};
use capture::Filter;

/// A device over so many of the ports p0, p1, ...
pub(super) fn device(tenant: &str, ports: usize) -> Device {
    let mode = match ports {
        0 => Mode::Rootless,
        1 => Mode::Direct,
        _ => Mode::Bridge,
    };
    let over = (0..ports).map(|n| (format!("p{n}"), PortPolicy::default())).collect();
    Device {
        tenant: tenant.to_owned(),
        mode,
        stripe: None,
        share: Share::Single,
        over,
        open_to: Vec::new(),
        station: None,
        zone: None,
    }
}

fn opens(interface: &str, device: &str, port: Option<&str>) -> Edge {
    Edge::new(at(interface), Endpoint::Device(Opening::of(device, port)))
}

/// Functions f0 to f3 of `default` and ports p0 to p2.
fn host(devices: Vec<(&str, Device)>, edges: Vec<Edge>) -> Wiring {
    let default = edge().tenants;
    Wiring {
        tenants: default,
        ports: (0..3).map(|n| (format!("p{n}"), port("default"))).collect(),
        instances: (0..4).map(|n| (format!("f{n}"), instance("default"))).collect(),
        devices: devices.into_iter().map(|(name, device)| (name.to_owned(), device)).collect(),
        edges: edges.into_iter().collect(),
        ..Wiring::default()
    }
}

/// What is laid, a line for each wire.
fn laid(wiring: &Wiring) -> Vec<String> {
    assert_eq!(wiring.validate(), Ok(()));
    let name = |joint: &Joint| match joint {
        Joint::End(end) => end.to_string(),
        Joint::Device(name) => format!("[{name}]"),
        Joint::Classifier(port) => format!("<{port}>"),
    };
    wiring.device_layout().links.iter().map(|(a, b)| format!("{} - {}", name(a), name(b))).collect()
}

fn want(mut device: Device, port: &str, filter: &str, priority: u32) -> Device {
    let receive = Some(Filter::parse(filter).unwrap());
    device.over.insert(port.to_owned(), PortPolicy { receive, priority, ..PortPolicy::default() });
    device
}

#[test]
fn what_wires_could_do_is_laid_as_a_device_too() {
    let rootless =
        host(vec![("d", device("default", 0))], vec![opens("f0:0", "d", None), opens("f1:1", "d", None)]);
    assert_eq!(laid(&rootless), ["f0:0 - [d]", "f1:1 - [d]"]);
    let direct = host(vec![("d", device("default", 1))], vec![opens("f0:0", "d", None)]);
    assert_eq!(laid(&direct), ["p0 - [d]", "f0:0 - [d]"]);
    let sides = host(
        vec![("d", device("default", 2))],
        vec![opens("f0:0", "d", Some("p0")), opens("f0:1", "d", Some("p1"))],
    );
    assert_eq!(laid(&sides), ["p0 - [d]", "p1 - [d]", "f0:0 - [d]", "f0:1 - [d]"]);
    assert_eq!(sides.device_layout().classifiers.len(), 0);
}

#[test]
fn a_device_is_laid_with_all_that_it_decides_between() {
    let bridge = host(vec![("d", device("default", 2))], vec![opens("f0:0", "d", None)]);
    assert_eq!(laid(&bridge), ["p0 - [d]", "p1 - [d]", "f0:0 - [d]"]);
    let mut shared = host(
        vec![("d", Device { share: Share::Duplicate, ..device("default", 1) })],
        vec![opens("f0:0", "d", None), opens("f1:0", "d", None)],
    );
    assert_eq!(laid(&shared), ["p0 - [d]", "f0:0 - [d]", "f1:0 - [d]"]);
    shared.edges.remove(&opens("f1:0", "d", None));
    assert_eq!(laid(&shared), ["p0 - [d]", "f0:0 - [d]"], "shared with none");
    shared.services.insert(service(7), Endpoint::Device(Opening::of("d", None)));
    assert_eq!(laid(&shared), ["p0 - [d]", "f0:0 - [d]"], "a service sends into it");
    let three = host(
        vec![("d", Device { share: Share::Duplicate, ..device("default", 0) })],
        (0..3).map(|n| opens(&format!("f{n}:0"), "d", None)).collect(),
    );
    assert_eq!(laid(&three), ["f0:0 - [d]", "f1:0 - [d]", "f2:0 - [d]"]);
}

#[test]
fn a_port_that_devices_choose_from_has_a_classifier() {
    let wanted = want(device("default", 0), "p0", "udp", 9);
    let a = Device { mode: Mode::Bond(Balance::Flow), ..wanted };
    let b = Device { mode: Mode::Bond(Balance::Flow), ..want(device("default", 2), "p0", "tcp", 3) };
    let one = host(vec![("a", a.clone())], vec![opens("f0:0", "a", None)]);
    assert_eq!(laid(&one), ["p0 - <p0>", "f0:0 - [a]", "<p0> - [a]"]);
    let both = host(
        vec![("a", a), ("b", b)],
        vec![opens("f0:0", "a", None), opens("f1:0", "b", Some("p0")), opens("f1:1", "b", Some("p1"))],
    );
    assert_eq!(
        laid(&both),
        ["p0 - <p0>", "p1 - [b]", "f0:0 - [a]", "f1:0 - [b]", "f1:1 - [b]", "<p0> - [a]", "<p0> - [b]"]
    );
    let layout = both.device_layout();
    assert_eq!(layout.classifiers["p0"], ["b", "a"], "the lower priority first");
}

#[test]
fn a_device_that_observers_alone_open_receives_nothing() {
    let mut wiring = host(vec![("d", device("default", 1))], vec![opens("f0:2", "d", None)]);
    wiring.instances.insert("f0".to_owned(), Instance { interfaces: 3, ..instance("default") });
    wiring.observations.insert(seen("f0", Watched::Instance("f1".into(), None)));
    assert_eq!(laid(&wiring), ["p0 - [d]", "f0:2 - [d]"]);
}

#[test]
fn openers_stand_in_their_order() {
    let opener = |interface: &str, order| {
        let opening = Opening { order, ..Opening::of("d", None) };
        Edge::new(at(interface), Endpoint::Device(opening))
    };
    let shared = Device { share: Share::Duplicate, ..device("default", 1) };
    let wiring = host(vec![("d", shared)], vec![opener("f2:0", 0), opener("f1:0", 0), opener("f0:0", 1)]);
    let layout = wiring.device_layout();
    let names: Vec<String> = layout.devices["d"]
        .iter()
        .map(|(opener, _)| match opener {
            Opener::Interface(end) => end.to_string(),
            Opener::Service(service) => service.to_string(),
        })
        .collect();
    assert_eq!(names, ["f1:0", "f2:0", "f0:0"]);
}

#[test]
fn devices_that_cannot_be_are_faults() {
    let with = |change: &dyn Fn(&mut Wiring)| {
        let mut wiring = host(vec![("d", device("default", 1))], vec![opens("f0:0", "d", None)]);
        change(&mut wiring);
        faults(&wiring)
    };
    let of = |wiring: &mut Wiring| wiring.devices["d"].clone();
    assert_eq!(
        with(&|wiring| {
            let mode = Mode::Bridge;
            let device = Device { mode, tenant: "red".to_owned(), ..of(wiring) };
            wiring.devices.insert("d".to_owned(), device);
        }),
        [
            "`d` is of the tenant `red`, which does not exist",
            "the device `d` is over 1 ports; allowed for its mode: two ports or more",
            "`f0:0` is the tenant `default`'s, which the device `d` is not open to",
        ]
    );
    assert_eq!(
        with(&|wiring| wiring.edges.extend([opens("f0:1", "d", None)])),
        ["`f0:0` and `f0:1` are of one function and get the same packets of the device `d`"]
    );
    assert_eq!(
        with(&|wiring| {
            wiring.tenants.insert("red".to_owned(), wiring.tenants["default"].clone());
            wiring.ports.insert("red-nic".to_owned(), port("red"));
            let mut device = Device { mode: Mode::Bridge, ..of(wiring) };
            device.over.insert("red-nic".to_owned(), PortPolicy::default());
            wiring.devices.insert("d".to_owned(), device);
        }),
        ["the device `d` is over `p0` and `red-nic`, which are two tenants'"]
    );
    assert_eq!(
        with(&|wiring| {
            let share = Share::Duplicate;
            let shared = Device { share, ..of(wiring) };
            wiring.devices.insert("d".to_owned(), shared);
            for n in 0..=MAX_OPENERS {
                wiring.instances.insert(format!("x{n}"), instance("default"));
                wiring.edges.insert(opens(&format!("x{n}:0"), "d", None));
            }
        }),
        ["the device `d` has 66 openers; allowed: at most 64"]
    );
    assert_eq!(
        with(&|wiring| drop(wiring.devices.insert("f1".to_owned(), device("default", 0)))),
        ["`f1` is the name of a function and of a device"]
    );
    assert_eq!(
        with(&|wiring| wiring.edges.extend([opens("f1:0", "d", Some("p0"))])),
        ["the device `d` is opened by `f0:0` and by `f1:0`, but not shared"]
    );
    assert_eq!(
        with(&|wiring| wiring.edges.extend([opens("f1:0", "d", Some("p7"))])),
        ["`d:p7` does not exist", "the device `d` is opened by `f0:0` and by `f1:0`, but not shared"]
    );
    assert_eq!(
        with(&|wiring| wiring.edges.extend([Edge::new(at("p0"), at("f1:0"))])),
        ["a device is over the port `p0`, and something else leads there; allowed: one of both"]
    );
    assert_eq!(
        with(&|wiring| {
            let d = Endpoint::Device(Opening::of("d", None));
            wiring.edges.insert(Edge::new(at("p1"), d));
        }),
        ["`p1 - d` is a wire between a device and what cannot open it; allowed: an interface of a function"]
    );
    assert_eq!(
        with(&|wiring| {
            let over = [("p9".to_owned(), PortPolicy::default())].into();
            let device = Device { over, ..of(wiring) };
            wiring.devices.insert("d".to_owned(), device);
        }),
        ["`p9` does not exist"]
    );
}

#[test]
fn a_device_is_open_to_whom_it_names() {
    let grant = |tenant: &str, function: Option<&str>| Grant {
        tenant: tenant.to_owned(),
        function: function.map(str::to_owned),
    };
    let device =
        Device { open_to: vec![grant("red", None), grant("blue", Some("ids"))], ..device("default", 0) };
    let may = |tenant: &str, function: &str| device.is_open_to(tenant, function);
    assert!(may("default", "any") && may("red", "any") && may("blue", "ids"));
    assert!(!may("blue", "any") && !may("green", "ids"));
}

#[test]
fn a_device_that_observers_are_at_takes_nothing_where_they_are_alone() {
    let d = || Watched::Device("d".into(), None);
    let side = |port: &str| Watched::Device("d".into(), Some(port.into()));
    let wired = opens("f0:0", "d", None);
    let watched = |at: Watched, edges: Vec<Edge>| {
        let mut wiring = host(vec![("d", device("default", 1))], edges);
        wiring.observations.insert(seen("f1", at));
        (laid(&wiring), wiring.device_layout().only_seeing.into_iter().collect::<Vec<_>>())
    };
    for at in [d(), side("p0"), Watched::Wire(wired.clone())] {
        assert_eq!(watched(at, vec![wired.clone()]), (vec!["p0 - [d]".into(), "f0:0 - [d]".into()], vec![]));
    }
    let pair = ("d".to_owned(), "p0".to_owned());
    for at in [d(), side("p0")] {
        assert_eq!(watched(at, vec![]), (vec!["p0 - <p0>".into(), "<p0> - [d]".into()], vec![pair.clone()]));
    }
    // Where something opens another side, one side may still be only seen.
    let mut wiring = host(vec![("d", device("default", 2))], vec![opens("f0:0", "d", Some("p1"))]);
    wiring.observations.insert(seen("f1", d()));
    assert_eq!(wiring.device_layout().only_seeing.into_iter().collect::<Vec<_>>(), [pair]);
    assert_eq!(laid(&wiring), ["p0 - <p0>", "p1 - [d]", "f0:0 - [d]", "<p0> - [d]"]);
}

/// Openers have one port, and the links a bond with one opener, whatever is less to lay elsewhere.
#[test]
fn a_striped_bond_is_laid_as_two_devices() {
    let bond = |ports| Device {
        mode: Mode::Bond(Balance::RoundRobin),
        stripe: Some(Default::default()),
        ..device("default", ports)
    };
    let wiring = host(vec![("d", bond(2))], vec![opens("f0:0", "d", None)]);
    assert_eq!(
        laid(&wiring),
        ["d/inside - [d]", "d/outside - [d/links]", "p0 - [d/links]", "p1 - [d/links]", "f0:0 - [d]"]
    );
    let layout = wiring.device_layout();
    let openers = |name: &str| -> Vec<String> {
        let of = |(opener, _): &(Opener, Opening)| match opener {
            Opener::Interface(end) => end.to_string(),
            Opener::Service(service) => service.to_string(),
        };
        layout.devices[name].iter().map(of).collect()
    };
    assert_eq!((openers("d"), openers("d/links")), (vec!["f0:0".to_owned()], vec!["d/outside".to_owned()]));
    let devices = striped::laid(wiring.devices.clone());
    assert_eq!((devices["d"].mode, devices["d/links"].mode), (Mode::Direct, bond(2).mode));
    assert_eq!(wiring.devices["d"].ports_on_link("d"), ["d/inside"]);
    let one = host(vec![("d", bond(1))], vec![opens("f0:0", "d", None)]);
    assert_eq!(laid(&one), ["d/inside - [d]", "d/outside - [d/links]", "p0 - [d/links]", "f0:0 - [d]"]);
    // Beside another device over the port.
    let filtered = want(bond(1), "p0", "ether proto 0x88b5", 3);
    let beside = Device { mode: Mode::Bond(Balance::Flow), ..want(device("default", 0), "p0", "udp", 4) };
    let shared =
        host(vec![("d", filtered), ("e", beside)], vec![opens("f0:0", "d", None), opens("f1:0", "e", None)]);
    assert_eq!(shared.device_layout().classifiers["p0"], ["d/links", "e"]);
}

/// A plan makes a striped bond anew whose ports are of another memory, and no other.
#[test]
fn a_striped_bond_goes_with_the_memory_of_its_ports() {
    let bond = Device { mode: Mode::Bond(Balance::RoundRobin), ..device("default", 2) };
    let striped = Device { stripe: Some(Default::default()), ..bond.clone() };
    let before = host(vec![("d", bond), ("s", striped)], Vec::new());
    let mut after = before.clone();
    after.tenants["default"].pool.buffers *= 2;
    let plan = Plan::between(&before, &after);
    assert_eq!(plan.add_devices.keys().collect::<Vec<_>>(), ["s"]);
    assert_eq!(plan.remove_devices.iter().collect::<Vec<_>>(), ["s"]);
}

#[test]
fn what_is_wired_to_a_guard_has_the_guards_device_behind_it() {
    let mut wiring = host(vec![("d", device("default", 1))], vec![]);
    wiring.instances.insert(guard_of("d", &at("f0:1")), instance("default"));
    wiring.edges = [Edge::new(at("f0:1"), at("groups@d~f0:1:0")), opens("groups@d~f0:1:1", "d", None)].into();
    assert_eq!(wiring.validate(), Ok(()));
    let mut behind: Vec<_> = wiring.edges.iter().filter_map(Edge::device_behind).collect();
    behind.sort();
    let (opener, guard) = (at("f0:1"), at("groups@d~f0:1:1"));
    assert_eq!(behind, [(&opener, "d"), (&guard, "d")]);
    assert_eq!((wiring.behind_guard(&guard), wiring.behind_guard(&opener)), (Some(&opener), Some(&opener)));
    wiring.edges = [opens("groups@d~f0:1:1", "d", None)].into();
    assert_eq!(wiring.behind_guard(&guard), None);
    // A device is as open to what is behind its guard as without one.
    wiring.edges.insert(Edge::new(at("f0:1"), at("groups@d~f0:1:0")));
    wiring.tenants.insert("red".to_owned(), edge().tenants["default"].clone());
    wiring.devices["d"].tenant = "red".to_owned();
    let told = wiring.validate().unwrap_err();
    assert!(matches!(&told[..], [WiringFault::NotOpen { opener, .. }] if opener == "f0:1"), "{told:?}");
}
