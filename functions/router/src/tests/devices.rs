//! Interfaces whose addresses and neighbours the platform tells.

use super::{ask, at, counted, drop, hops, packet, udp};
use crate::Router;
use crate::metrics::Reason;
use nf_sdk::devices::{DeviceEntry, MAX_HELD_FOR_ADDRESS, NeighbourState};
use nf_sdk::native::{Runner, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::net::IpAddr;
use std::vec;
use std::vec::Vec;

const CONFIG: &str = "
interfaces: [{name: a}, {name: b}]
routes:
  - {to: 10.0.0.0/8, via: 198.51.100.2, interface: b}
  - {to: '2001:db8:5::/48', via: '2001:db8:b::2', interface: b}
  - {to: 10.66.0.0/16, via: 198.51.100.66, interface: b}
";

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Two devices with addresses, and a neighbour of each.
fn entries() -> Vec<DeviceEntry> {
    let link = |interface, mac, mtu| DeviceEntry::Interface { interface, is_up: true, mac, mtu };
    let own = |interface, address, prefix| DeviceEntry::Address { interface, address: ip(address), prefix };
    vec![
        link(0, [2, 0, 0, 0, 0, 1], 1500),
        own(0, "192.0.2.1", 24),
        own(0, "2001:db8:a::1", 64),
        neighbour(0, "192.0.2.9", NeighbourState::Reachable, 9),
        link(1, [2, 0, 0, 0, 0, 0x0b], 1400),
        own(1, "198.51.100.1", 24),
        own(1, "2001:db8:b::1", 64),
        neighbour(1, "198.51.100.2", NeighbourState::Reachable, 0xb2),
    ]
}

fn neighbour(interface: u16, address: &str, state: NeighbourState, last: u8) -> DeviceEntry {
    let mac = if state == NeighbourState::Reachable { [2, 0, 0, 0, 0, last] } else { [0; 6] };
    DeviceEntry::Neighbour { interface, address: ip(address), state, mac }
}

fn router(more: &str) -> Runner<Router> {
    let config = super::configure(&std::format!("{CONFIG}{more}"), "").expect("the schema allows it");
    let mut runner = Runner::new(&config).expect("in order");
    runner.set_devices(&entries(), at(0));
    runner
}

fn verdict(runner: &mut Runner<Router>, frame: &[u8]) -> Verdict {
    super::verdict(runner, frame)
}

#[test]
fn addresses_of_devices_are_the_routers_own() {
    let mut runner = router("");
    // By a route, to the network of a device, to the router itself, and to all hosts of the network.
    let out = ask(&mut runner, &udp("192.0.2.9", "10.1.2.3", 30), at(0));
    assert_eq!(out.verdict, Some(Verdict::Interface(1)));
    let mut expected = hops(udp("192.0.2.9", "10.1.2.3", 30), 63);
    expected[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xb2, 2, 0, 0, 0, 0, 0x0b]);
    assert_eq!(out.bytes, Some(expected));
    assert_eq!(verdict(&mut runner, &udp("192.0.2.9", "198.51.100.2", 30)), Verdict::Interface(1));
    assert_eq!(verdict(&mut runner, &udp("192.0.2.9", "198.51.100.1", 30)), drop(Reason::ForRouter));
    assert_eq!(verdict(&mut runner, &udp("192.0.2.9", "198.51.100.255", 30)), drop(Reason::Broadcast));
    // The device's MTU holds, and the error comes from the device's address.
    let mut large = udp("192.0.2.9", "10.1.2.3", 1400);
    large[20] = 0x40;
    super::seal(&mut large);
    assert_eq!(verdict(&mut runner, &large), drop(Reason::TooBig));
    let error = runner.host().emitted()[0].bytes.clone().expect("its own");
    assert_eq!((&error[26..30], &error[38..42]), (&[192, 0, 2, 1][..], &1400u32.to_be_bytes()[..]));
    // Without its devices it has nothing.
    runner.set_devices(&[], at(1));
    assert_eq!(verdict(&mut runner, &udp("192.0.2.9", "10.1.2.3", 30)), drop(Reason::NotForRouter));
}

#[test]
fn packets_wait_until_the_next_hop_is_known() {
    let mut runner = router("");
    let frame = udp("192.0.2.9", "10.66.1.1", 30);
    let out = runner.run(&vec![TestPacket::new(frame.clone(), 0); MAX_HELD_FOR_ADDRESS + 2], at(0));
    let held = out.iter().filter(|out| matches!(out.verdict, Some(Verdict::Hold(_)))).count();
    assert_eq!(held, MAX_HELD_FOR_ADDRESS);
    assert_eq!(out[MAX_HELD_FOR_ADDRESS].verdict, Some(drop(Reason::NoNeighbour)));
    assert_eq!((counted(&runner, "held"), counted(&runner, "no-neighbour")), (8, 2));
    assert!(runner.host().asks().contains(&(1, ip("198.51.100.66"))));
    let mut known = entries();
    known.push(neighbour(1, "198.51.100.66", NeighbourState::Reachable, 0x66));
    runner.set_devices(&known, at(1000));
    let emitted = runner.host().emitted();
    assert_eq!(emitted.len(), MAX_HELD_FOR_ADDRESS);
    let mut expected = hops(frame.clone(), 63);
    expected[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x66, 2, 0, 0, 0, 0, 0x0b]);
    assert!(emitted.iter().all(|one| one.bytes.as_deref() == Some(&expected[..])));
    // From now on they do not wait.
    assert_eq!(verdict(&mut runner, &frame), Verdict::Interface(1));
    assert_eq!(counted(&runner, "forwarded"), 1);
}

#[test]
fn senders_are_told_that_a_next_hop_does_not_answer() {
    let mut runner = router("");
    let mut known = entries();
    known.push(neighbour(1, "198.51.100.66", NeighbourState::Unreachable, 0));
    runner.set_devices(&known, at(0));
    assert_eq!(verdict(&mut runner, &udp("192.0.2.9", "10.66.1.1", 30)), drop(Reason::NoNeighbour));
    let error = runner.host().emitted()[0].bytes.clone().expect("its own");
    assert_eq!(error[34..36], [3, 1]);
    // A host on the link that does not answer is the same.
    known.push(neighbour(1, "198.51.100.77", NeighbourState::Unreachable, 0));
    runner.set_devices(&known, at(1));
    assert_eq!(verdict(&mut runner, &udp("192.0.2.9", "198.51.100.77", 30)), drop(Reason::NoNeighbour));
    assert_eq!(counted(&runner, "icmp-sent"), 2);
}

#[test]
fn next_hops_that_are_known_are_asked_for_again() {
    let mut runner = router("");
    let asks = |runner: &Runner<Router>| {
        runner.host().asks().iter().filter(|ask| **ask == (1, ip("198.51.100.2"))).count()
    };
    let before = asks(&runner);
    assert!(before > 0);
    let deadline = runner.host().deadline().expect("it is set");
    assert_eq!(deadline, at(60_000_000_000));
    runner.timer(deadline);
    assert_eq!(asks(&runner), before + 1);
    assert_eq!(runner.host().deadline(), Some(Nanos(deadline.0 + 60_000_000_000)));
}

#[test]
fn a_devices_router_is_the_way_where_no_route_is() {
    let mut runner = router("");
    let frame = udp("192.0.2.9", "203.0.113.1", 30);
    assert_eq!(verdict(&mut runner, &frame), drop(Reason::NoRoute));
    let mut known = entries();
    known.push(DeviceEntry::Gateway { interface: 1, address: ip("198.51.100.2") });
    runner.set_devices(&known, at(1));
    let out = ask(&mut runner, &frame, at(2));
    assert_eq!(out.verdict, Some(Verdict::Interface(1)));
    assert_eq!(out.bytes.map(|bytes| (bytes[5], bytes[22])), Some((0xb2, 63)));
    // It is of IPv4 alone.
    assert_eq!(verdict(&mut runner, &udp("2001:db8:a::9", "2001:db8:77::1", 30)), drop(Reason::NoRoute));
}

#[test]
fn a_reply_asks_for_its_destination() {
    let mut runner = router("");
    let request = packet("192.0.2.50", "192.0.2.1", 1, &[8, 0, 0, 0, 1, 2, 0, 3]);
    assert_eq!(verdict(&mut runner, &request), drop(Reason::NoNeighbour));
    assert!(runner.host().asks().contains(&(0, ip("192.0.2.50"))));
    let mut known = entries();
    known.push(neighbour(0, "192.0.2.50", NeighbourState::Reachable, 0x50));
    runner.set_devices(&known, at(1));
    assert_eq!(verdict(&mut runner, &request), Verdict::Interface(0));
    assert_eq!(counted(&runner, "answered"), 1);
}
