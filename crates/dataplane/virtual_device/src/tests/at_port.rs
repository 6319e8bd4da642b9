//! The devices at one port.

use super::*;
use capture::Filter;
use classifier::Rule;

/// The port's plug, and those of devices.
const PORT: SwitchPort = SwitchPort(0);

fn rule(filter: &str, priority: u32, observes: bool) -> Rule {
    let filter = (!filter.is_empty()).then(|| Filter::parse(filter).expect("a filter"));
    Rule { filter, priority, class: 99, observes }
}

fn device(number: u16) -> SwitchPort {
    SwitchPort(number)
}

/// An Ethernet frame with an IPv4 packet of a protocol.
fn packet(protocol: u8) -> [u8; 60] {
    let mut packet = [0; 60];
    (packet[12], packet[14], packet[17], packet[23]) = (8, 0x45, 46, protocol);
    packet
}

/// What a worker counts of so many packets that come in by a plug and go one way.
fn count(devices: &PortDevices, from: SwitchPort, packets: u64, way: Way, seen: usize) {
    let counts = devices.counts();
    counts.enter(from, devices.is_port(from), packets, 0);
    counts.see(from, seen as u64);
    counts.go(from, way, packets);
}

fn classify(devices: &PortDevices, protocol: u8) -> (Way, Vec<SwitchPort>) {
    assert_eq!(devices.whole(PORT), None);
    let mut seen = Vec::new();
    let way = devices.decide(&packet(protocol), 60, |device| seen.push(device));
    count(devices, PORT, 1, way, seen.len());
    (way, seen)
}

/// Where so many packets go, of which none is looked at.
fn whole(devices: &PortDevices, from: SwitchPort, packets: u64) -> Option<Way> {
    let way = devices.whole(from)?;
    count(devices, from, packets, way, 0);
    Some(way)
}

#[test]
fn one_device_without_a_filter_takes_all_unseen() {
    let devices = PortDevices::new(PORT, vec![(rule("", 1, false), device(1))], None);
    assert_eq!(devices.only(PORT), Some(device(1)));
    assert_eq!(devices.only(device(1)), Some(PORT));
    assert_eq!(whole(&devices, PORT, 5), Some(Way::To(device(1))));
    assert_eq!(whole(&devices, device(1), 3), Some(Way::To(PORT)));
    let counters = PortDevicesCounters { received: 5, transmitted: 3, ..PortDevicesCounters::default() };
    assert_eq!(devices.counters(), counters);
}

#[test]
fn the_first_that_wants_a_packet_takes_it_and_others_see_it() {
    let rules = vec![
        (rule("udp", 2, false), device(1)),
        (rule("ip", 3, false), device(2)),
        (rule("udp", 9, true), device(3)),
        (rule("", 9, true), device(4)),
    ];
    let devices = PortDevices::new(PORT, rules, None);
    assert_eq!(devices.only(PORT), None);
    assert_eq!(classify(&devices, 17), (Way::To(device(1)), vec![device(3), device(4)]));
    assert_eq!(classify(&devices, 6), (Way::To(device(2)), vec![device(4)]));
    assert_eq!(devices.counters().seen, 3);
}

#[test]
fn what_none_takes_ends_where_it_was_seen_or_nowhere() {
    let rules = vec![(rule("udp", 1, true), device(1)), (rule("udp", 2, true), device(2))];
    let devices = PortDevices::new(PORT, rules, None);
    assert_eq!(classify(&devices, 17), (Way::Seen, vec![device(1), device(2)]));
    assert_eq!(classify(&devices, 6), (Way::Nowhere, vec![]));
    let after = PortDevices::new(PORT, Vec::new(), Some(&devices));
    assert_eq!(whole(&after, PORT, 4), Some(Way::Nowhere));
    let counters =
        PortDevicesCounters { received: 6, seen: 2, unwanted: 5, ..PortDevicesCounters::default() };
    assert_eq!(after.counters(), counters);
}

#[test]
fn what_a_device_wants_that_has_no_plug_is_for_no_other() {
    let rules = || vec![rule("udp", 1, false), rule("", 2, false), rule("ip", 3, true)];
    let of =
        |plugs: [Option<SwitchPort>; 3]| PortDevices::of(PORT, Policies::new(rules()), plugs.to_vec(), None);
    let without_first = of([None, Some(device(2)), None]);
    assert_eq!(classify(&without_first, 17), (Way::Nowhere, vec![]));
    assert_eq!(classify(&without_first, 6), (Way::To(device(2)), vec![]));
    let all = PortDevices::of(PORT, Policies::new(vec![rule("", 1, false)]), vec![None], None);
    assert_eq!(whole(&all, PORT, 1), Some(Way::Nowhere));
}
