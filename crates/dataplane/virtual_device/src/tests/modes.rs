//! Each mode, each way to share, and what a change keeps.

use super::*;

#[test]
fn a_direct_device_joins_its_port_and_its_opener() {
    let device = Device::new(settings(Mode::Direct, Share::Single, 1, &[None]), None);
    assert_eq!(device.only(port(0)), Some(opener(0)));
    assert_eq!(device.only(opener(0)), Some(port(0)));
    assert_eq!(device.device_port(port(0)), Some(1));
    assert_eq!(device.device_port(opener(0)), None, "what it says stays");
    assert_eq!(to(&device, SwitchPort(7)), [], "no plug of the device's");
    assert!(!device.reads_flow_hash());
}

#[test]
fn nothing_receives_where_no_opener_does() {
    let mut settings = settings(Mode::Direct, Share::Single, 1, &[None]);
    settings.openers[0].receives = false;
    let device = Device::new(settings, None);
    assert_eq!(one(&device, port(0), 0, 0, [0; 16], 0), Way::Nowhere);
    assert_eq!(to(&device, opener(0)), [port(0)], "it sends all the same");
    let counters =
        DeviceCounters { from_ports: 1, from_openers: 1, unreceived: 1, ..DeviceCounters::default() };
    assert_eq!(device.counters(), counters);
}

#[test]
fn openers_share_as_they_are_told() {
    let sides = [None, Some(1), None];
    let single = Device::new(settings(Mode::Bridge, Share::Single, 2, &sides), None);
    assert_eq!(to(&single, port(0)), [opener(0)]);
    let duplicate = Device::new(settings(Mode::Bridge, Share::Duplicate, 2, &sides), None);
    assert_eq!(to(&duplicate, port(0)), [opener(0), opener(2)]);
    assert_eq!(to(&duplicate, port(1)), [opener(0), opener(1), opener(2)]);
    assert_eq!(duplicate.counters().copied, 3);
    let balance = Device::new(settings(Mode::Bridge, Share::Balance, 2, &sides), None);
    assert!(balance.reads_flow_hash());
    let mut got = [0; 3];
    for n in 0..3000u32 {
        let Way::To(plug) = one(&balance, port(1), n.wrapping_mul(0x9e37_79b9), 0, [0; 16], 0) else {
            panic!("one of them")
        };
        got[usize::from(plug.0 - OPENERS)] += 1;
    }
    assert!(got.iter().all(|count| (900..1100).contains(count)), "{got:?}");
}

#[test]
fn a_side_sends_by_its_port() {
    for mode in [Mode::Direct, Mode::Bond(Balance::RoundRobin), Mode::Bridge] {
        let device = Device::new(settings(mode, Share::Duplicate, 3, &[None, Some(2)]), None);
        assert_eq!(to(&device, opener(1)), [port(2)]);
    }
}

#[test]
fn a_bridge_of_two_sends_by_the_opposite_port() {
    let device = Device::new(settings(Mode::Bridge, Share::Single, 2, &[None]), None);
    let by = |came_by| plugs(&device, one(&device, opener(0), 0, came_by, [0; 16], 0));
    assert_eq!(by(1), [port(1)]);
    assert_eq!(by(2), [port(0)]);
    assert_eq!(by(0), [port(0), port(1)]);
    assert_eq!(by(3), [port(0), port(1)], "it came by a port that is no more");
    assert_eq!(device.only(opener(0)), None);
}

#[test]
fn a_bridge_of_more_learns_where_stations_are() {
    let device = Device::new(settings(Mode::Bridge, Share::Single, 3, &[None]), None);
    let send = |from, came_by, head| plugs(&device, one(&device, from, 0, came_by, head, 1_000_000_000));
    assert_eq!(send(port(0), 0, frame(9, 1)), [opener(0)]);
    assert_eq!(send(opener(0), 1, frame(9, 1)), [port(1), port(2)], "not known");
    assert_eq!(send(port(2), 0, frame(1, 9)), [opener(0)]);
    assert_eq!(send(opener(0), 3, frame(1, 9)), [port(0)]);
    assert_eq!(send(opener(0), 1, frame(9, 1)), [port(2)]);
    assert_eq!(send(opener(0), 1, frame(1, 3)), [], "it is behind that port");
    assert_eq!(send(opener(0), 0, frame(7, 3)), [port(0), port(1), port(2)], "of the function's own");
    assert_eq!(device.counters().filtered, 1);
    assert_eq!(device.stations(Nanos(1_000_000_000)).count(), 2);
}

#[test]
fn what_was_learned_at_ports_that_stay_is_kept() {
    let before = Device::new(settings(Mode::Bridge, Share::Single, 3, &[None]), None);
    for (index, station) in [(0, 1), (1, 2), (2, 3)] {
        one(&before, port(index), 0, 0, frame(9, station), 0);
    }
    let mut settings = settings(Mode::Bridge, Share::Single, 5, &[None]);
    settings.ports.remove(1);
    let after = Device::new(settings, Some(&before));
    let find = |station| plugs(&after, one(&after, opener(0), 0, 0, frame(station, 9), 0));
    assert_eq!(find(1), [port(0)]);
    assert_eq!(find(3), [port(2)]);
    assert_eq!(find(2).len(), 4, "it went with its port");
    assert_eq!(after.counters().from_ports, 3, "it goes on counting");
}

#[test]
fn a_bond_takes_turns() {
    let device = Device::new(settings(Mode::Bond(Balance::RoundRobin), Share::Single, 3, &[None]), None);
    assert_eq!(device.whole(opener(0)), None);
    let mut decisions = device.decide(opener(0), 4, Nanos(0));
    let got: Vec<_> = (0..4).map(|_| decisions.next(0, 0, || [0; 16])).collect();
    assert_eq!(got, [0, 1, 2, 0].map(|index| Way::To(port(index))));
    assert_eq!(to(&device, opener(0)), [port(1)], "the next batch goes on");
}

#[test]
fn a_flow_keeps_its_link_until_the_link_is_down() {
    let device = Device::new(settings(Mode::Bond(Balance::Flow), Share::Single, 3, &[None]), None);
    let link = |hash: u32| plugs(&device, one(&device, opener(0), hash, 0, [0; 16], 0));
    assert_eq!((link(0), link(u32::MAX / 2), link(u32::MAX)), (vec![port(0)], vec![port(1)], vec![port(2)]));
    device.set_up(port(2), false);
    assert_eq!(link(u32::MAX), [port(0)], "the next one that is up");
    assert_eq!(link(u32::MAX / 2), [port(1)], "others stay");
    let after = Device::new(device.settings().clone(), Some(&device));
    assert_eq!(plugs(&after, one(&after, opener(0), u32::MAX, 0, [0; 16], 0)), [port(0)], "it is down still");
    device.set_up(port(2), true);
    assert_eq!(link(u32::MAX), [port(2)]);
}

#[test]
fn the_first_link_that_is_up_is_active() {
    let device = Device::new(settings(Mode::Bond(Balance::ActiveBackup), Share::Single, 3, &[None]), None);
    assert_eq!(to(&device, opener(0)), [port(0)]);
    device.set_up(port(0), false);
    assert_eq!(to(&device, opener(0)), [port(1)]);
    device.set_up(port(1), false);
    device.set_up(port(2), false);
    assert_eq!(to(&device, opener(0)), [port(0)], "none is up: it is for the port to say so");
}

#[test]
fn a_flow_changes_its_link_after_a_pause_alone() {
    let gap = Nanos(50_000);
    let device = Device::new(settings(Mode::Bond(Balance::Flowlet { gap }), Share::Single, 2, &[None]), None);
    let link = |hash: u32, now| plugs(&device, one(&device, opener(0), hash, 0, [0; 16], now));
    let first = link(7, 1_000_000);
    assert_eq!(link(7, 1_040_000), first);
    assert_eq!(link(7, 1_080_000), first, "no pause was longer than the gap");
    assert_ne!(link(7, 1_200_000), first);
    // Another flow begins by the link whose turn it is, and leaves this one where it is.
    let second = link(7, 1_210_000);
    link(1 << 30, 1_210_000);
    assert_eq!(link(7, 1_220_000), second);
}

#[test]
fn openers_of_a_rootless_device_reach_each_other() {
    let two = Device::new(settings(Mode::Rootless, Share::Single, 0, &[None, None]), None);
    assert_eq!((two.only(opener(0)), two.only(opener(1))), (Some(opener(1)), Some(opener(0))));
    let copies = Device::new(settings(Mode::Rootless, Share::Duplicate, 0, &[None, None, None]), None);
    assert_eq!(to(&copies, opener(1)), [opener(0), opener(2)]);
    let balanced = Device::new(settings(Mode::Rootless, Share::Balance, 0, &[None, None, None]), None);
    let by = |hash| plugs(&balanced, one(&balanced, opener(1), hash, 0, [0; 16], 0));
    assert_eq!((by(0), by(u32::MAX)), (vec![opener(0)], vec![opener(2)]));
    let alone = Device::new(settings(Mode::Rootless, Share::Duplicate, 0, &[None]), None);
    assert_eq!(to(&alone, opener(0)), []);
}

/// A port may say by which port that leaves which came by it, whatever the mode; openers of a side are not
/// concerned.
#[test]
fn what_came_by_a_port_leaves_by_the_one_that_is_named() {
    for mode in [Mode::Bond(Balance::ActiveBackup), Mode::Bond(Balance::RoundRobin), Mode::Bridge] {
        let mut settings = settings(mode, Share::Duplicate, 3, &[None, Some(0)]);
        settings.send = [(1, 1), (2, 0)].into();
        let device = Device::new(settings, None);
        let sent = |opener: usize, came_by: u8| {
            let plug = crate::tests::opener(opener);
            one(&device, plug, 7, came_by, [0; virtual_switch::HEAD], 0)
        };
        assert_eq!((sent(0, 2), sent(0, 3)), (Way::To(port(1)), Way::To(port(0))), "{mode:?}");
        assert_ne!(sent(0, 1), Way::Nowhere, "as the mode says");
        assert_ne!(sent(0, 0), Way::Nowhere, "a packet of its own");
        assert_eq!(sent(1, 2), Way::To(port(0)), "a side is a side");
    }
}

#[test]
fn what_leads_straight_on_says_so() {
    let to = |to, port, is_limited| Some(Straight { to, port, is_limited });
    let direct = settings(Mode::Direct, Share::Single, 1, &[None]);
    let device = Device::new(direct.clone(), None);
    assert_eq!(device.straight(port(0)), to(opener(0), Some(1), false));
    assert_eq!(device.straight(opener(0)), to(port(0), None, true), "the link may not take every packet");
    assert_eq!(device.straight(opener(1)), None, "none of its plugs");
    assert!(usize::from(opener(0).0) < device.plugs());
    let rootless = Device::new(settings(Mode::Rootless, Share::Single, 0, &[None, None]), None);
    assert_eq!(rootless.straight(opener(0)), to(opener(1), None, false));
    let tunnels = Tunnels { decapsulate: Vec::new(), encapsulate: None, next_hop: None };
    let around = DeviceSettings { tunnels: [(0, tunnels.into())].into(), ..direct };
    let around = Device::new(around, None);
    assert_eq!((around.straight(port(0)), around.straight(opener(0))), (None, None));
    // Which one gets it depends on the packet, or something is learned from it.
    let bond = Device::new(settings(Mode::Bond(Balance::Flow), Share::Balance, 2, &[None, None]), None);
    assert_eq!((bond.straight(port(0)), bond.straight(opener(0))), (None, None));
    let bridge = Device::new(settings(Mode::Bridge, Share::Single, 3, &[None]), None);
    assert_eq!(bridge.straight(port(0)), None);
}
