//! Hostile packets, state and files.

use super::{at, router, udp, with_file};
use crate::Router;
use crate::header::{common4, common6, mac_word};
use crate::metrics::{DROPPED, FRAGMENTS, ICMP_SENT, NAMES};
use crate::settings::Settings;
use nf_sdk::native::frames::{damaged, packet, seal};
use nf_sdk::native::{Runner, TestPacket};
use nf_sdk::{PacketRecord, Verdict};
use packet::dissect;
use proptest::prelude::*;
use std::net::IpAddr;
use std::vec::Vec;

fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let whole = (any::<u8>(), any::<bool>(), 0usize..6, any::<bool>()).prop_map(|(kind, v6, to, is_udp)| {
        let (from, to) = if v6 {
            let to = ["2001:db8:5::1", "2001:db8:a::1", "ff02::1:ff00:1", "2001:db8:b::2", "fe80::1", "::"];
            ("2001:db8:a::9", to[to.len().min(6) - 1 - kind as usize % 6])
        } else {
            (
                "192.0.2.9",
                ["10.1.2.3", "192.0.2.1", "224.0.0.1", "198.51.100.2", "198.51.100.255", "8.8.8.8"][to],
            )
        };
        if is_udp {
            udp(from, to, 60)
        } else {
            packet(from, to, [1, 58, 6, 44][kind as usize % 4], &[kind; 60])
        }
    });
    let changes = prop::collection::vec((0usize..110, any::<u8>()), 0..4);
    (whole, changes, prop::option::of(0usize..110), any::<bool>()).prop_map(
        |(frame, changes, cut, sealed)| {
            let mut frame = damaged(frame, &changes, None);
            if sealed {
                seal(&mut frame);
            }
            frame.truncate(cut.unwrap_or(frame.len()));
            frame
        },
    )
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..120), 4 => nearly_right()]
}

const ROUTES: &str = "routes: [{to: 10.0.0.0/8, via: 198.51.100.2}, {to: '2001:db8:5::/48', via: '2001:db8:b::2'}]\n\
                      icmp_rate: 1pps\nicmp_burst: 20";

proptest! {
    #[test]
    fn what_is_read_quickly_is_what_there_is(frame in any_frame()) {
        let mac = mac_word([2, 0, 0, 0, 0, 1]);
        if let Some((destination, length)) = common4(&frame, mac) {
            let network = dissect(&frame).expect("sound").network.expect("IP");
            prop_assert_eq!(network.destination, IpAddr::from(destination.to_be_bytes()));
            prop_assert_eq!(network.end, 14 + length as usize);
            let header = packet::ipv4::View::new(&frame[14..]).expect("a header");
            prop_assert!(header.verify_checksum() && header.ttl() > 1 && header.header_length() == 20);
        }
        if let Some(length) = common6(&frame, mac) {
            prop_assert_eq!(frame[14] >> 4, 6);
            prop_assert!(14 + length as usize <= frame.len() && frame[21] > 1 && frame[22] != 0xff);
        }
    }

    #[test]
    fn every_packet_ends_with_one_counted_verdict(
        frames in prop::collection::vec((any_frame(), 0..3u16, any::<u8>(), any::<u16>()), 1..150),
        refuses: bool,
    ) {
        let mut runner = router(ROUTES);
        runner.refuse_packets(refuses);
        let packets: Vec<TestPacket> = frames
            .iter()
            .map(|(frame, ingress, gso_type, gso_size)| TestPacket {
                bytes: frame.clone(),
                record: PacketRecord {
                    ingress: *ingress, gso_type: *gso_type & 5, gso_size: *gso_size, ..PacketRecord::default()
                },
            })
            .collect();
        let out = runner.run(&packets, at(0));
        let mut dropped = 0;
        for out in &out {
            match out.verdict.expect("a verdict") {
                Verdict::Drop(reason) => {
                    prop_assert!(reason <= 16);
                    dropped += 1;
                }
                Verdict::Interface(interface) => prop_assert!(interface < 2),
                verdict => prop_assert_eq!(verdict, Verdict::Consume),
            }
        }
        let counters: Vec<u64> = (0..NAMES.len() as u32).map(|place| runner.host().counter(place)).collect();
        prop_assert_eq!(counters[..ICMP_SENT].iter().sum::<u64>(), frames.len() as u64);
        prop_assert_eq!(counters[DROPPED..ICMP_SENT].iter().sum::<u64>(), dropped);
        let own = runner.host().emitted().len() as u64;
        prop_assert!(own >= counters[ICMP_SENT] + counters[FRAGMENTS]);
        prop_assert!(own == 0 || !refuses);
    }

    #[test]
    fn any_state_is_refused_or_taken(state in prop::collection::vec(any::<u8>(), 0..60)) {
        router(ROUTES).import_state(&state);
    }

    #[test]
    fn any_file_is_read_or_refused(text in "([0-9a-f:./ ]|via|dev|a|blackhole|reject|#|\n|\\PC){0,120}") {
        let config = super::configure(&std::format!("{}routes_file: x", super::LINKS), &text).expect("in order");
        let config = nf_sdk::Config::from_cbor(config).expect("well-formed");
        if let Err(error) = Settings::read(&config) {
            prop_assert!(std::format!("{error}").starts_with("routes_file: x: line "), "{}", error);
        }
    }
}

#[test]
fn a_file_with_everything_is_read() {
    let file = "\
# all of it
10.0.0.0/8\tvia 198.51.100.2   # a comment
10.0.0.0/8 via 198.51.100.3 dev b\r
 2001:db8:5::/48 via 2001:db8:b::2

198.18.0.0/15 dev b
0.0.0.0/0 via 198.51.100.2
::/0 via fe80::7 dev b
192.0.2.64/26 blackhole
192.0.2.128/26 reject";
    let runner: Runner<Router> = with_file("routes_file: full.routes", file);
    let report = super::report(&runner);
    // Beside these the interfaces' (5 and 5 of each family) and those that are never routed (4 each).
    assert_eq!(report["routes"]["next_hops"], 4);
    assert_eq!(report["routes"]["ipv4"], 5 + 8 + 4);
    assert_eq!(report["routes"]["ipv6"], 2 + 5 + 4);
}
