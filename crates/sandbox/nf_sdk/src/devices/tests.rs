//! Packets to neighbours, by a function that sends each to the address in its first bytes.

use super::*;
use crate::native::{Emitted, Runner, TestPacket, frames};
use crate::{Batch, Config, Error, Nanos, NetworkFunction, Verdict};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use core::net::Ipv4Addr;
use proptest::prelude::*;

const MAC: Mac = [2, 0, 0, 0, 0, 9];

/// Sends each packet by interface 1 to its destination.
struct Sender(NextHops);

impl NetworkFunction for Sender {
    fn new(_: &Config) -> Result<Self, Error> {
        Ok(Sender(NextHops::new(3)))
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        let (packets, host) = batch.split();
        for mut packet in packets {
            let to = packet.bytes().get(30..34).and_then(|bytes| bytes.first_chunk::<4>().copied());
            let to = to.map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from);
            self.0.send(host, &mut packet, 1, to.into(), now);
        }
    }

    fn devices(&mut self, host: &mut Host, now: Nanos) {
        self.0.update(host, now);
    }
}

fn address(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, host))
}

fn packet(host: u8) -> TestPacket {
    TestPacket::new(frames::packet("198.51.100.1", &format!("192.0.2.{host}"), 17, &[0; 20]), 0)
}

fn table(neighbours: impl IntoIterator<Item = (u8, NeighbourState)>) -> Vec<DeviceEntry> {
    let mut entries = vec![
        DeviceEntry::Interface { interface: 0, is_up: true, mac: [0; 6], mtu: 1500 },
        DeviceEntry::Interface { interface: 1, is_up: true, mac: MAC, mtu: 1500 },
        DeviceEntry::Address { interface: 1, address: address(9), prefix: 24 },
    ];
    entries.extend(neighbours.into_iter().map(|(host, state)| DeviceEntry::Neighbour {
        interface: 1,
        address: address(host),
        state,
        mac: [2, 0, 0, 0, 1, host],
    }));
    entries
}

fn runner(neighbours: &[(u8, NeighbourState)]) -> Runner<Sender> {
    let mut runner = Runner::new(&[]).expect("no configuration");
    runner.set_devices(&table(neighbours.iter().copied()), Nanos(1));
    runner
}

#[test]
fn a_packet_to_a_known_neighbour_leaves_with_its_address() {
    let mut runner = runner(&[(7, NeighbourState::Reachable)]);
    let out = runner.run(&[packet(7)], Nanos(2));
    assert_eq!(out[0].verdict, Some(Verdict::Interface(1)));
    let bytes = out[0].bytes.clone().expect("in its buffer");
    assert_eq!((&bytes[..6], &bytes[6..12]), (&[2, 0, 0, 0, 1, 7][..], &MAC[..]));
    assert!(runner.host().asks().is_empty());
}

#[test]
fn packets_wait_until_the_neighbour_has_answered_eight_for_an_address() {
    let mut runner = runner(&[]);
    let out = runner.run(&vec![packet(7); 10], Nanos(2));
    assert!(out[..8].iter().all(|out| matches!(out.verdict, Some(Verdict::Hold(_)))), "{out:?}");
    assert!(out[8..].iter().all(|out| out.verdict == Some(Verdict::Drop(3))), "{out:?}");
    assert_eq!(runner.host().asks(), [(1, address(7))], "one question for all");
    runner.set_devices(&table([(7, NeighbourState::Asked)]), Nanos(3));
    assert!(runner.host().emitted().is_empty());
    runner.set_devices(&table([(7, NeighbourState::Reachable)]), Nanos(4));
    let emitted = runner.host().emitted();
    assert_eq!(emitted.len(), 8);
    for Emitted { verdict, bytes, .. } in emitted {
        assert_eq!(*verdict, Verdict::Interface(1));
        assert_eq!(bytes.as_deref().map(|bytes| &bytes[..6]), Some(&[2, 0, 0, 0, 1, 7][..]));
    }
    assert_eq!(runner.function().0.held(), 0);
}

#[test]
fn an_interface_holds_256_and_what_the_host_took_back_makes_room() {
    let mut runner = runner(&[]);
    let many: Vec<TestPacket> = (1..=33).flat_map(|host| vec![packet(host); 8]).collect();
    let out = runner.run(&many, Nanos::from_secs(1));
    let held = out.iter().filter(|out| matches!(out.verdict, Some(Verdict::Hold(_)))).count();
    assert_eq!((held, runner.function().0.held()), (MAX_HELD, MAX_HELD));
    assert_eq!(runner.expire_held(), MAX_HELD);
    // Full queues are looked through once in a while.
    let out = runner.run(&[packet(40)], Nanos::from_secs(1).saturating_add(Nanos(1)));
    assert_eq!(out[0].verdict, Some(Verdict::Drop(3)));
    let out = runner.run(&[packet(40)], Nanos::from_secs(2));
    assert!(matches!(out[0].verdict, Some(Verdict::Hold(_))), "{out:?}");
    assert_eq!(runner.function().0.held(), 1);
}

#[test]
fn a_neighbour_that_does_not_answer_and_an_interface_without_a_link_drop() {
    let mut runner = runner(&[]);
    runner.run(&[packet(7)], Nanos(2));
    runner.set_devices(&table([(7, NeighbourState::Unreachable)]), Nanos(3));
    assert_eq!(runner.host().emitted()[0].verdict, Verdict::Drop(3));
    assert_eq!(runner.run(&[packet(7)], Nanos(4))[0].verdict, Some(Verdict::Drop(3)));
    // A question is asked again when the table knows nothing of the address, and one second has passed.
    runner.set_devices(&table([]), Nanos(5));
    runner.run(&[packet(7)], Nanos(6));
    assert_eq!(runner.host().asks().len(), 2);
    runner.run(&[packet(7)], Nanos(7));
    assert_eq!(runner.host().asks().len(), 2);
    runner.run(&[packet(7)], Nanos::from_secs(2));
    assert_eq!(runner.host().asks().len(), 3);
    let without: Vec<DeviceEntry> =
        vec![DeviceEntry::Interface { interface: 1, is_up: true, mac: [0; 6], mtu: 0 }];
    runner.set_devices(&without, Nanos(8));
    assert_eq!(runner.run(&[packet(7)], Nanos(9))[0].verdict, Some(Verdict::Drop(3)));
    assert_eq!(runner.function().0.held(), 0);
}

#[test]
fn neighbours_in_use_are_asked_for_again_and_others_are_not() {
    let mut runner = runner(&[(7, NeighbourState::Reachable), (8, NeighbourState::Reachable)]);
    runner.run(&[packet(7)], Nanos::from_secs(1));
    assert!(runner.host().asks().is_empty());
    runner.run(&[packet(7)], Nanos::from_secs(61));
    assert_eq!(runner.host().asks(), [(1, address(7))]);
    // It was used since, and not after that.
    runner.run(&[packet(8)], Nanos::from_secs(121));
    assert_eq!(runner.host().asks().len(), 2);
    runner.run(&[packet(8)], Nanos::from_secs(181));
    assert_eq!(runner.host().asks()[2..], [(1, address(8))]);
}

#[test]
fn groups_and_broadcasts_have_addresses_of_their_own() {
    let mut devices = Devices::new();
    devices.set(table([]));
    let to = |text: &str| match devices.link(1, text.parse().expect("an address")) {
        Link::Known { source: MAC, destination } => Some(destination),
        _ => None,
    };
    assert_eq!(to("239.129.2.3"), Some([1, 0, 0x5e, 1, 2, 3]));
    assert_eq!(to("ff02::1:ff00:9"), Some([0x33, 0x33, 0xff, 0, 0, 9]));
    assert_eq!((to("192.0.2.255"), to("255.255.255.255")), (Some([0xff; 6]), Some([0xff; 6])));
    assert_eq!((to("192.0.2.254"), to("0.0.0.0"), to("192.0.3.255")), (None, None, None));
    assert!(devices.interface(1).is_some_and(|behind| behind.has(address(9)) && !behind.has(address(8))));
}

#[derive(Clone, Debug)]
enum Step {
    Packets(Vec<u8>),
    Table(BTreeMap<u8, u8>),
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(0u8..40, 1..100).prop_map(Step::Packets),
        3 => prop::collection::btree_map(0u8..40, 0u8..3, 0..30).prop_map(Step::Table),
        1 => Just(Step::Expire),
    ]
}

proptest! {
    /// Whatever comes: each packet is sent, dropped, given up or expired once, the bounds hold, and what
    /// leaves has the address that the table had then.
    #[test]
    fn every_packet_ends_once(steps in prop::collection::vec(step(), 1..30)) {
        let mut runner = runner(&[]);
        let (mut given, mut gone, mut now) = (0, 0, Nanos::from_secs(1));
        let (mut known, mut seen) = (BTreeMap::new(), 0);
        for step in steps {
            now = now.saturating_add(Nanos::from_millis(60));
            match step {
                Step::Packets(hosts) => {
                    given += hosts.len();
                    let packets: Vec<_> = hosts.iter().map(|host| packet(*host)).collect();
                    for (host, out) in hosts.iter().zip(runner.run(&packets, now)) {
                        let state = known.get(host).copied();
                        match out.verdict {
                            Some(Verdict::Hold(_)) => prop_assert!(state.is_none() || state == Some(1)),
                            Some(Verdict::Interface(1)) => {
                                prop_assert_eq!(state, Some(0));
                                prop_assert_eq!(out.bytes.as_ref().map(|bytes| bytes[5]), Some(*host));
                                gone += 1;
                            }
                            other => {
                                prop_assert_eq!(other, Some(Verdict::Drop(3)));
                                gone += 1;
                            }
                        }
                    }
                }
                Step::Table(states) => {
                    let state = |state: u8| match state {
                        0 => NeighbourState::Reachable,
                        1 => NeighbourState::Asked,
                        _ => NeighbourState::Unreachable,
                    };
                    runner.set_devices(&table(states.iter().map(|(host, of)| (*host, state(*of)))), now);
                    known = states;
                    for emitted in &runner.host().emitted()[seen..] {
                        let bytes = emitted.bytes.as_ref().expect("its bytes");
                        let state = known.get(&bytes[33]).copied();
                        match emitted.verdict {
                            Verdict::Interface(1) => prop_assert_eq!((state, bytes[5]), (Some(0), bytes[33])),
                            other => prop_assert_eq!((other, state), (Verdict::Drop(3), Some(2))),
                        }
                    }
                    gone += runner.host().emitted().len() - seen;
                    seen = runner.host().emitted().len();
                }
                Step::Expire => gone += runner.expire_held(),
            }
            let held = runner.host().held();
            prop_assert_eq!(given, gone + held);
            prop_assert!(held <= MAX_HELD && runner.function().0.held() <= MAX_HELD);
        }
    }
}
