//! Interfaces whose addresses and neighbours the platform tells.

use super::*;
use flags::{ACK, SYN};
use nf_sdk::devices::{DeviceEntry, NeighbourState};

const DIRECT: &str = "
services:
  - {name: near, address: 198.51.100.8, protocol: tcp, ports: '80', forward: direct, servers: [{address: 10.0.0.1}]}
  - {name: web, address: 198.51.100.7, protocol: tcp, ports: '80', servers: [{address: 10.0.0.2}, {address: 172.16.0.1, weight: 0}]}
";

pub fn neighbour(interface: u16, address: &str, state: NeighbourState, last: u8) -> DeviceEntry {
    let mac = if state == NeighbourState::Reachable { [2, 0, 0, 0, 0, last] } else { [0; 6] };
    DeviceEntry::Neighbour { interface, address: ip(address), state, mac }
}

/// Two devices: clients are behind a router or on the link, servers on the link.
pub fn entries(more: &[DeviceEntry]) -> Vec<DeviceEntry> {
    let link = |interface, mac| DeviceEntry::Interface { interface, is_up: true, mac, mtu: 1500 };
    let own = |interface, address, prefix| DeviceEntry::Address { interface, address: ip(address), prefix };
    let mut all = vec![
        link(0, [2, 0, 0, 0, 0, 0xc0]),
        own(0, "198.51.100.7", 24),
        own(0, "198.51.100.8", 24),
        DeviceEntry::Gateway { interface: 0, address: ip("198.51.100.1") },
        neighbour(0, "198.51.100.1", NeighbourState::Reachable, 0xc1),
        neighbour(0, "198.51.100.99", NeighbourState::Reachable, 0x99),
        link(1, [2, 0, 0, 0, 0, 0x50]),
        own(1, "10.0.0.254", 24),
        own(1, "2001:db8:a::fe", 64),
    ];
    all.extend_from_slice(more);
    all
}

fn to(last: u8, from: u8) -> Vec<u8> {
    vec![2, 0, 0, 0, 0, last, 2, 0, 0, 0, 0, from]
}

#[test]
fn packets_go_to_neighbours_and_wait_for_them() {
    let mut bench = Bench::new(DIRECT);
    bench.runner.set_devices(&entries(&[]), at(0.0));
    let (near, web) = (end("198.51.100.8", 80), end(VIP, 80));
    let (verdict, _) = bench.show(0, tcp(&client(1), &near, SYN));
    assert!(matches!(verdict, Verdict::Hold(_)));
    assert!(bench.runner.host().asks().contains(&(1, ip("10.0.0.1"))));
    let known = [
        neighbour(1, "10.0.0.1", NeighbourState::Reachable, 0x51),
        neighbour(1, "10.0.0.2", NeighbourState::Reachable, 0x52),
    ];
    bench.runner.set_devices(&entries(&known), at(0.1));
    let emitted = &bench.runner.host().emitted()[0];
    assert_eq!(emitted.verdict, TO_SERVER);
    // The connection goes on with the address that is known now, slow and usual.
    for flags in [ACK, ACK, ACK | flags::FIN] {
        let frame = tcp(&client(1), &near, flags);
        let (verdict, bytes) = bench.show(0, frame.clone());
        assert_eq!((verdict, &bytes[..12], &bytes[12..]), (TO_SERVER, &to(0x51, 0x50)[..], &frame[12..]));
    }
    // Answers go to the router, or to a client on the link.
    for (from, last) in [(client(2), 0xc1), (end("198.51.100.99", 7), 0x99)] {
        let (_, bytes) = bench.show(0, tcp(&from, &web, SYN));
        assert_eq!(bytes[..12], to(0x52, 0x50)[..]);
        for flags in [SYN | ACK, ACK, ACK, ACK | flags::FIN] {
            let (verdict, bytes) = bench.show(1, tcp(&end("10.0.0.2", 80), &from, flags));
            assert_eq!((verdict, &bytes[..12]), (TO_CLIENT, &to(last, 0xc0)[..]));
            bench.show(0, tcp(&from, &web, ACK));
        }
    }
    assert_eq!(bench.report()["packets"]["held"], 1);
}

#[test]
fn a_server_that_no_neighbour_is_gets_nothing() {
    let mut bench = Bench::new(DIRECT);
    let frame = || tcp(&client(1), &end("198.51.100.8", 80), SYN);
    // Without a device, and without an Ethernet address in the configuration.
    assert_eq!(bench.client(frame()), drop(Reason::NoNeighbour));
    let gone = [neighbour(1, "10.0.0.1", NeighbourState::Unreachable, 0)];
    bench.runner.set_devices(&entries(&gone), at(0.1));
    assert_eq!(bench.client(frame()), drop(Reason::NoNeighbour));
    assert_eq!(bench.counted(), 2);
}

#[test]
fn next_hops_are_asked_for_again_once_a_minute() {
    let mut bench = Bench::new(DIRECT);
    bench.runner.set_devices(&entries(&[]), at(0.0));
    let asked = |bench: &Bench| {
        let asks = bench.runner.host().asks();
        ["10.0.0.1", "10.0.0.2"].map(|address| asks.iter().filter(|ask| **ask == (1, ip(address))).count())
    };
    let before = asked(&bench);
    bench.wait(61.0);
    assert_eq!(asked(&bench), before.map(|count| count + 1));
}
