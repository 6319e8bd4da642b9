//! An underlay whose addresses and neighbours the platform tells.

use super::*;
use nf_sdk::devices::{DeviceEntry, MAX_HELD_FOR_ADDRESS, NeighbourState};
use std::net::IpAddr;
use std::vec;

const CONFIG: &str = "
local: 192.0.2.1
networks: [{vni: 7, vlan: 10, remotes: [192.0.2.2, 198.51.100.3]}, {vni: 8, remotes: [192.0.2.2]}]
";

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn entries() -> Vec<DeviceEntry> {
    vec![
        DeviceEntry::Interface { interface: VXLAN, is_up: true, mac: [2, 0, 0, 0, 1, 1], mtu: 1400 },
        DeviceEntry::Address { interface: VXLAN, address: ip("192.0.2.1"), prefix: 24 },
        DeviceEntry::Gateway { interface: VXLAN, address: ip("192.0.2.254") },
    ]
}

fn neighbour(address: &str, last: u8) -> DeviceEntry {
    let (state, mac) = (NeighbourState::Reachable, [2, 0, 0, 0, 1, last]);
    DeviceEntry::Neighbour { interface: VXLAN, address: ip(address), state, mac }
}

#[test]
fn packets_wait_until_the_next_hop_is_known() {
    let mut first = gateway(CONFIG);
    first.set_devices(&entries(), at(0));
    let inner = frame(ALL, host(1), 40);
    let out = first.run(&vec![TestPacket::new(inner.clone(), VLAN); MAX_HELD_FOR_ADDRESS + 1], at(0));
    assert!(matches!(out[0].verdict, Some(Verdict::Hold(_))));
    dropped(&out[MAX_HELD_FOR_ADDRESS], Reason::NoNeighbour);
    assert_eq!((counted(&first, "held"), counted(&first, "no-neighbour")), (8, 1));
    assert!(first.host().asks().contains(&(VXLAN, ip("192.0.2.2"))));
    let mut known = entries();
    known.push(neighbour("192.0.2.2", 2));
    first.set_devices(&known, at(1));
    let emitted = first.host().emitted();
    assert_eq!(emitted.len(), 8);
    let bytes = emitted[0].bytes.clone().expect("kept");
    assert_eq!((&bytes[..12], &bytes[50..]), (&[2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1][..], &inner[..]));
    assert_eq!(sent(&from_vlan(&mut first, &inner, at(2)), VXLAN), bytes);
}

/// Copies wait as well, and for a router where an endpoint is not on the link.
#[test]
fn copies_wait_for_their_own_next_hop() {
    let mut first = gateway(CONFIG);
    first.set_devices(&entries(), at(0));
    let out = from_vlan(&mut first, &tagged(ALL, host(1), 40), at(0));
    assert!(matches!(out.verdict, Some(Verdict::Hold(_))));
    assert_eq!((counted(&first, "copies"), first.function().underlay.held()), (1, 2));
    assert!(first.host().asks().contains(&(VXLAN, ip("192.0.2.254"))));
    let mut known = entries();
    known.extend([neighbour("192.0.2.2", 2), neighbour("192.0.2.254", 0xfe)]);
    first.set_devices(&known, at(1));
    let to: Vec<(u8, u8)> = first
        .host()
        .emitted()
        .iter()
        .map(|one| one.bytes.as_ref().map_or((0, 0), |bytes| (bytes[5], bytes[33])))
        .collect();
    assert_eq!(to, [(2, 2), (0xfe, 3)]);
}

/// A copy that no answer comes for does not keep the place of others for ever.
#[test]
fn copies_do_not_wait_for_ever() {
    let mut first = gateway(CONFIG);
    first.set_devices(&entries(), at(0));
    for _ in 0..MAX_HELD_FOR_ADDRESS + 2 {
        from_vlan(&mut first, &tagged(ALL, host(1), 40), at(0));
    }
    assert_eq!((counted(&first, "copies"), counted(&first, "copies-lost")), (8, 2));
    first.expire_held();
    from_vlan(&mut first, &tagged(ALL, host(1), 40), at(1_100_000_000));
    assert_eq!((counted(&first, "copies"), first.function().underlay.held()), (9, 2));
}

#[test]
fn the_mtu_and_the_address_are_the_devices() {
    let mut first = gateway(CONFIG);
    let mut known = entries();
    known.push(neighbour("192.0.2.2", 2));
    first.set_devices(&known, at(0));
    // 1400 less 50, and 14 of Ethernet and 28 of IP and UDP.
    sent(&from_vlan(&mut first, &frame(ALL, host(1), 1322), at(0)), VXLAN);
    let out = from_vlan(&mut first, &frame(ALL, host(1), 1323), at(0));
    assert_eq!(out.verdict, Some(Verdict::Consume), "it is fragmented");
    sent(&from_vxlan(&mut first, &in_vxlan(8, "192.0.2.2", &frame(ALL, host(2), 40)), at(0)), VLAN);
    assert!(first.host().log().is_empty());
    let other = DeviceEntry::Address { interface: VXLAN, address: ip("192.0.2.9"), prefix: 24 };
    let link_local = DeviceEntry::Address { interface: VXLAN, address: ip("fe80::1"), prefix: 64 };
    first.set_devices(&[entries()[0], link_local], at(0));
    assert!(first.host().log().is_empty());
    first.set_devices(&[entries()[0], other], at(0));
    assert_eq!(first.host().log()[0].1, "local: 192.0.2.1 is no address of the device at `vxlan`");
}
