//! Captures of other links than Ethernet.

use super::testing::{Builder, Folder, Order, contents};
use super::*;
use crate::testing::{NOW, assert_conserved, pool, receive_all};

#[test]
fn packets_of_other_links_are_given_an_ethernet_header() {
    let four = [&[0x45, 0, 0, 24][..], &[7; 20]].concat();
    let six = [&[0x60, 0, 0, 0][..], &[6; 40]].concat();
    let made_up = |destination: [u8; 6], source: [u8; 6], kind: u16, rest: &[u8]| {
        Some([&destination[..], &source, &kind.to_be_bytes(), rest].concat())
    };
    let (to, from, all) = ([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], [0xff; 6]);
    let cooked = |kind: u8, length: u8, protocol: [u8; 2], rest: &[u8]| {
        let header = [0, kind, 0, 1, 0, length, 9, 8, 7, 6, 5, 4, 0, 0, protocol[0], protocol[1]];
        [&header, rest].concat()
    };
    let cooked2 = |kind: u8, length: u8, protocol: [u8; 2], rest: &[u8]| {
        let [high, low] = protocol;
        let header = [high, low, 0, 0, 0, 0, 0, 3, 0, 1, kind, length, 9, 8, 7, 6, 5, 4, 0, 0];
        [&header, rest].concat()
    };
    let sender = [9, 8, 7, 6, 5, 4];
    let cases = [
        (101, four.clone(), made_up(to, from, 0x0800, &four)),
        (101, six.clone(), made_up(to, from, 0x86dd, &six)),
        (12, four.clone(), made_up(to, from, 0x0800, &four)),
        (14, four.clone(), made_up(to, from, 0x0800, &four)),
        (228, four.clone(), made_up(to, from, 0x0800, &four)),
        (229, six.clone(), made_up(to, from, 0x86dd, &six)),
        (101, vec![0x55; 20], None),
        (101, vec![], None),
        (0, [&[2, 0, 0, 0], &four[..]].concat(), made_up(to, from, 0x0800, &four)),
        (0, [&[0, 0, 0, 30], &six[..]].concat(), made_up(to, from, 0x86dd, &six)),
        (108, [&[0, 0, 0, 24], &six[..]].concat(), made_up(to, from, 0x86dd, &six)),
        (108, vec![0, 0, 0], None),
        (108, vec![0, 0, 0, 99, 1], None),
        (113, cooked(0, 6, [8, 0], &four), made_up(to, sender, 0x0800, &four)),
        (113, cooked(1, 6, [8, 6], &[1; 28]), made_up(all, sender, 0x0806, &[1; 28])),
        (113, cooked(4, 0, [0x86, 0xdd], &six), made_up(to, from, 0x86dd, &six)),
        (113, cooked(0, 6, [0, 4], &[0x42; 5]), made_up(to, sender, 5, &[0x42; 5])),
        (113, cooked(0, 6, [0, 1], &[0x42; 5]), None),
        (113, cooked(0, 6, [8, 0], &four)[..15].to_vec(), None),
        (276, cooked2(0, 6, [8, 0], &four), made_up(to, sender, 0x0800, &four)),
        (276, cooked2(1, 8, [0x86, 0xdd], &six), made_up(all, from, 0x86dd, &six)),
        (276, cooked2(0, 6, [8, 0], &four)[..19].to_vec(), None),
    ];
    let folder = Folder::new();
    let pool = pool(8);
    for (link_type, bytes, expected) in cases {
        let mut builder = Builder::classic(Order::Little, false, link_type);
        builder.classic_packet(1, 0, &bytes, bytes.len());
        builder.classic_packet(2, 0, &bytes, bytes.len());
        let read = Some(folder.file("in", &builder.bytes));
        let mut port = PcapPort::open(Config { read, pace: Pace::FlatOut, ..Config::default() }).unwrap();
        let mut found = receive_all(&mut port, &pool, NOW);
        let given: Vec<Vec<u8>> = expected.iter().chain(&expected).cloned().collect();
        assert_eq!(contents(&pool, &found), given, "{link_type} {bytes:x?}");
        let lost = 2 - given.len() as u64;
        assert_eq!(port.counters().ledger.dropped[DropReason::Malformed], lost);
        port.transmit(&pool, NOW, &mut found);
        assert_conserved(&port, &pool, 0, 0);
        let told: Vec<String> = port.maintain(NOW).iter().map(|event| format!("{event:?}")).collect();
        assert!(told.len() == 1 && told[0].contains("are given an Ethernet header"), "{told:?}");
    }
}

#[test]
fn a_refusal_names_every_link_type_that_is_read() {
    let refusal = super::Foreign::LinkType(105).to_string();
    let named: Vec<u16> = refusal
        .split_once("allowed: ")
        .map(|(_, allowed)| allowed)
        .unwrap_or_default()
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    let read: Vec<u16> = (0..=u16::MAX).filter(|kind| link::Link::of(*kind).is_some()).collect();
    let missing: Vec<&u16> = read.iter().filter(|kind| !named.contains(kind)).collect();
    assert_eq!((missing, named.len()), (vec![], read.len()), "{refusal}");
}
