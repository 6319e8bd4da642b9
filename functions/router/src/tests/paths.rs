//! Several next hops for a prefix.

use super::{at, router, udp};
use crate::Router;
use nf_sdk::native::{Runner, TestPacket};
use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec::Vec;

/// A router with so many paths to 10.0.0.0/8, all but one that is left out.
fn with_paths(count: u8, without: Option<u8>) -> Runner<Router> {
    let mut text = String::from(
        "interfaces: [{name: a, mac: '02:00:00:00:00:01', addresses: [192.0.2.1/24, '2001:db8::1/64']}]\n",
    );
    let paths: Vec<u8> = (1..=count).filter(|path| Some(*path) != without).collect();
    text += "neighbours:\n";
    for path in &paths {
        text += &format!("  - {{address: 192.0.2.{0}, mac: '02:00:00:00:01:{0:02x}'}}\n", 100 + path);
        text += &format!("  - {{address: '2001:db8::{0:x}', mac: '02:00:00:00:01:{0:02x}'}}\n", 100 + path);
    }
    text += "routes:\n";
    for path in &paths {
        text += &format!("  - {{to: 10.0.0.0/8, via: 192.0.2.{}}}\n", 100 + path);
        text += &format!("  - {{to: '2001:db8:5::/48', via: '2001:db8::{:x}'}}\n", 100 + path);
    }
    Runner::new(&super::configure(&text, "").expect("in order")).expect("in order")
}

/// By which next hop each flow goes.
fn chosen(runner: &mut Runner<Router>, six: bool) -> Vec<u8> {
    let frame = |n: u32| {
        let (a, b) = (n / 200, 1 + n % 200);
        let ends = if six {
            (format!("2001:db8:77::{b:x}"), format!("2001:db8:5::{a:x}"))
        } else {
            (format!("192.0.2.{b}"), format!("10.0.{a}.7"))
        };
        TestPacket::new(udp(&ends.0, &ends.1, 20), 0)
    };
    let frames: Vec<TestPacket> = (0..4000).map(frame).collect();
    runner.run(&frames, at(0)).iter().map(|out| out.bytes.as_deref().map_or(0, |bytes| bytes[5])).collect()
}

#[test]
fn flows_are_shared_out_and_keep_to_their_path() {
    for six in [false, true] {
        let mut runner = with_paths(4, None);
        let first = chosen(&mut runner, six);
        assert_eq!(chosen(&mut runner, six), first);
        let mut counts = BTreeMap::new();
        for mac in first {
            *counts.entry(mac).or_insert(0) += 1;
        }
        assert_eq!(counts.keys().copied().collect::<Vec<u8>>(), [101, 102, 103, 104]);
        // 64 places for four paths: rendezvous hashing gives each about 16, and no two differ by much.
        assert!(counts.values().all(|count| (500..=1600).contains(count)), "{counts:?}");
    }
}

#[test]
fn when_a_path_goes_the_flows_of_the_others_stay() {
    for six in [false, true] {
        let before = chosen(&mut with_paths(5, None), six);
        let after = chosen(&mut with_paths(5, Some(3)), six);
        let mut moved = 0;
        for (before, after) in before.iter().zip(&after) {
            if *before == 103 {
                assert_ne!(*after, 103);
                moved += 1;
            } else {
                assert_eq!(before, after);
            }
        }
        assert!(moved > 100);
    }
}

#[test]
fn fragments_of_a_datagram_go_one_way() {
    let mut runner = with_paths(8, None);
    for n in 0..40u8 {
        let whole = udp("192.0.2.9", &format!("10.0.0.{n}"), 24);
        let piece = |flags: u8, place: u8| {
            let mut frame = whole.clone();
            frame[20..22].copy_from_slice(&[flags, place]);
            // What follows the header differs from piece to piece.
            frame[34] = place;
            super::seal(&mut frame);
            TestPacket::new(frame, 0)
        };
        let out = runner.run(&[piece(0x20, 0), piece(0x20, 3), piece(0, 6)], at(0));
        let ways: Vec<u8> = out.iter().map(|out| out.bytes.as_deref().map_or(0, |bytes| bytes[5])).collect();
        assert!(ways[0] > 100 && ways.iter().all(|way| *way == ways[0]), "{ways:?}");
    }
}

#[test]
fn many_sets_share_next_hops() {
    let mut runner = router(
        "
routes:
  - {to: 10.0.0.0/8, via: 198.51.100.2}
  - {to: 10.0.0.0/8, via: 198.51.100.3}
  - {to: 10.0.0.0/8, via: 198.51.100.3}
  - {to: 11.0.0.0/8, via: 198.51.100.3}
  - {to: 11.0.0.0/8, via: 198.51.100.2}
  - {to: 12.0.0.0/8, via: 198.51.100.2}
  - {to: 12.0.0.0/8, action: blackhole}
",
    );
    let report = super::report(&runner);
    assert_eq!(report["routes"]["next_hops"], 2);
    assert_eq!(
        super::verdict(&mut runner, &udp("192.0.2.9", "12.0.0.1", 20)),
        super::drop(crate::metrics::Reason::Blackhole)
    );
}
