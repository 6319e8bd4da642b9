//! Captures with two sides, and what is left of packets that a capture has only a part of.

use super::sides::SideFinder;
use super::testing::{Builder, Folder, Order, contents};
use super::*;
use crate::taking::checked;
use crate::testing::{NOW, assert_conserved, pool};
use proptest::prelude::*;

/// A frame from one host to another, by their numbers: IPv4, and TCP with these flags and ports of their own.
fn segment(from: u8, to: u8, flags: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    frame[26..30].copy_from_slice(&[10, 0, 0, from]);
    frame[30..34].copy_from_slice(&[10, 0, 0, to]);
    frame[35] = from;
    frame[37] = to;
    frame[46..48].copy_from_slice(&[0x50, flags]);
    frame
}

fn capture(folder: &Folder, frames: &[Vec<u8>]) -> PathBuf {
    let mut builder = Builder::classic(Order::Little, false, 1);
    for (n, frame) in frames.iter().enumerate() {
        builder.classic_packet(1000, n as u32, frame, frame.len());
    }
    folder.file("in", &builder.bytes)
}

/// Both ports of a capture, the outer one opened first: the order of the configuration says nothing.
fn both(read: PathBuf, sides: Sides, pace: Pace) -> (PcapPort, PcapPort) {
    let meetings = Meetings::default();
    let outer = Config { side_of: Some("in".to_owned()), ..Config::default() };
    let outside = PcapPort::open_among("out", outer, &meetings).unwrap();
    let inner = Config { read: Some(read), sides: Some(sides), pace, ..Config::default() };
    (PcapPort::open_among("in", inner, &meetings).unwrap(), outside)
}

/// Host 1, in a prefix of its own.
const FIRST: Sides = Sides::Prefix(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 32);

/// All packets as the two ports give them, polled in turn, each batch having left before the next poll.
fn through(ports: &mut (PcapPort, PcapPort), pool: &Pool, budget: usize) -> Vec<(Side, Vec<u8>)> {
    let mut seen = Vec::new();
    for _ in 0..10_000 {
        let sides = [(Side::Inside, &mut ports.0), (Side::Outside, &mut ports.1)];
        for (side, port) in sides {
            let mut batch = Vec::new();
            port.receive(pool, NOW, budget, &mut batch);
            seen.extend(contents(pool, &batch).into_iter().map(|bytes| (side, bytes)));
            port.transmit(pool, NOW, &mut batch);
        }
        if ports.0.status() == PortStatus::Finished {
            break;
        }
    }
    seen
}

#[test]
fn settings_of_sides() {
    let config = |text| Config::from_value(&checked(SCHEMA, text).unwrap());
    let inner = config("{read: a.pcap, sides: {inside: 10.0.0.0/8}}").unwrap();
    assert_eq!(inner.sides, Some(Sides::Prefix([10, 0, 0, 0].into(), 8)));
    assert_eq!(config("{read: a.pcap, sides: {}}").unwrap().sides, Some(Sides::Openers));
    assert_eq!(config("{side_of: a}").unwrap().side_of.as_deref(), Some("a"));
    for (text, found) in [
        ("{side_of: a, read: b.pcap}", "side_of: found beside read"),
        ("{side_of: a, pace: flat_out}", "side_of: found beside pace"),
        ("{write: b.pcapng, sides: {}}", "sides: found without read"),
    ] {
        assert!(config(text).unwrap_err().contains(found), "{text}");
    }
}

#[test]
fn each_port_gives_its_side_in_recorded_order() {
    let arp = [&[0xff; 12][..], &[8, 6], &[1; 46]].concat();
    let frames = [
        segment(1, 2, 2),
        segment(2, 1, 0x12),
        segment(1, 2, 0x10),
        segment(1, 2, 0x18),
        arp,
        segment(2, 1, 0x10),
        segment(2, 3, 0x10),
    ];
    let inside = [true, false, true, true, false, false, false];
    let folder = Folder::new();
    let pool = pool(64);
    let expected: Vec<_> = frames
        .iter()
        .zip(inside)
        .map(|(frame, inside)| (if inside { Side::Inside } else { Side::Outside }, frame.clone()))
        .collect();
    for budget in [1, 2, 32] {
        let mut ports = both(capture(&folder, &frames), FIRST, Pace::FlatOut);
        assert_eq!(through(&mut ports, &pool, budget), expected);
        assert_eq!(ports.1.status(), PortStatus::Finished);
        assert_conserved(&ports.0, &pool, 0, 0);
        assert_conserved(&ports.1, &pool, 0, 0);
        let received = [&ports.0, &ports.1].map(|port| port.counters().ledger.received);
        assert_eq!(received, [3, 4]);
    }
}

#[test]
fn the_other_side_waits_until_what_came_before_has_left() {
    let folder = Folder::new();
    let pool = pool(64);
    let frames = [segment(1, 2, 2), segment(2, 1, 0x12), segment(1, 2, 0x10)];
    for pace in [Pace::FlatOut, Pace::Recorded(1_000_000)] {
        let (mut inside, mut outside) = both(capture(&folder, &frames), FIRST, pace);
        let later = Nanos(NOW.0 + 1_000_000);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        outside.receive(&pool, NOW, 32, &mut second);
        assert!(second.is_empty(), "it is not the first");
        inside.receive(&pool, NOW, 32, &mut first);
        outside.receive(&pool, later, 32, &mut second);
        assert_eq!((first.len(), second.len()), (1, 0), "the first is still on its way");
        outside.transmit(&pool, later, &mut first);
        inside.receive(&pool, later, 32, &mut first);
        outside.receive(&pool, later, 32, &mut second);
        assert_eq!((first.len(), second.len()), (0, 1), "it has left");
        // A function may keep it: that holds the other side up for a while only.
        inside.receive(&pool, later, 32, &mut first);
        assert!(first.is_empty());
        inside.receive(&pool, later.saturating_add(Nanos::from_millis(10)), 32, &mut first);
        assert_eq!(first.len(), 1);
        inside.transmit(&pool, NOW, &mut first);
        inside.transmit(&pool, NOW, &mut second);
    }
}

#[test]
fn openers_are_inside_also_where_the_answer_comes_first() {
    let folder = Folder::new();
    let pool = pool(64);
    let frames = [
        segment(1, 2, 2),
        segment(2, 1, 0x12),
        segment(3, 4, 0x12),
        segment(4, 3, 0x10),
        segment(5, 4, 0x10),
        // An end that talks to itself opens it and answers.
        segment(6, 6, 0x12),
    ];
    let mut ports = both(capture(&folder, &frames), Sides::Openers, Pace::FlatOut);
    let sides: Vec<_> = through(&mut ports, &pool, 32).into_iter().map(|(side, _)| side).collect();
    let expected = [Side::Inside, Side::Outside, Side::Outside, Side::Inside, Side::Inside, Side::Inside];
    assert_eq!(sides, expected);
}

#[test]
fn as_many_connections_are_remembered_as_is_said() {
    let mut finder = SideFinder::new(Sides::Openers);
    // Another connection for each number, from its opener and back.
    let frame = |number: u32, is_back: bool| {
        let mut frame = if is_back { segment(2, 1, 0x10) } else { segment(1, 2, 0x10) };
        let ports = number.to_be_bytes();
        frame[34..38].copy_from_slice(&ports);
        if is_back {
            frame[34..38].rotate_left(2);
        }
        frame
    };
    for number in 0..1 << 16 {
        assert_eq!(finder.of(&frame(number, false)), Side::Inside);
    }
    assert!((0..1 << 16).all(|number| finder.of(&frame(number, true)) == Side::Outside));
    // Twice as many others: what was not used meanwhile is forgotten, and opened by who sends next.
    for number in 1 << 16..3 << 16 {
        assert_eq!(finder.of(&frame(number, false)), Side::Inside);
        assert_eq!(finder.of(&frame(7, true)), Side::Outside, "it is used");
    }
    assert_eq!(finder.of(&frame(8, true)), Side::Inside);
}

#[test]
fn a_side_that_no_port_takes_is_passed_over_and_counted() {
    let folder = Folder::new();
    let pool = pool(64);
    let frames = [segment(2, 1, 2), segment(1, 2, 0x12), segment(2, 1, 0x10)];
    let (inside, outside) = both(capture(&folder, &frames), FIRST, Pace::FlatOut);
    drop(outside);
    let mut alone = inside;
    let mut batch = Vec::new();
    alone.receive(&pool, NOW, 32, &mut batch);
    assert_eq!(batch.len(), 1);
    alone.transmit(&pool, NOW, &mut batch);
    alone.receive(&pool, NOW, 32, &mut batch);
    assert_eq!(alone.status(), PortStatus::Finished);
    assert!(alone.details().contains(&("other_side", 2)), "{:?}", alone.details());
    assert_conserved(&alone, &pool, 0, 0);
}

#[test]
fn a_port_that_is_opened_and_given_up_changes_nothing() {
    let folder = Folder::new();
    let pool = pool(64);
    let read = capture(&folder, &[segment(1, 2, 2), segment(2, 1, 0x12)]);
    let meetings = Meetings::default();
    let open = |name, config| PcapPort::open_among(name, config, &meetings).unwrap();
    let inner = Config { read: Some(read), sides: Some(FIRST), pace: Pace::FlatOut, ..Config::default() };
    let outer = Config { side_of: Some("in".to_owned()), ..Config::default() };
    let mut ports = (open("in", inner.clone()), open("out", outer));
    let mut batch = Vec::new();
    ports.0.receive(&pool, NOW, 1, &mut batch);
    ports.0.transmit(&pool, NOW, &mut batch);
    drop(open("in", inner.clone()));
    assert_eq!(through(&mut ports, &pool, 32).len(), 1, "it goes on where it was");
    // One that replaces it begins anew, and ends it.
    let mut next = open("in", inner);
    next.receive(&pool, NOW, 1, &mut batch);
    assert_eq!(batch.len(), 1);
    next.transmit(&pool, NOW, &mut batch);
    drop(std::mem::replace(&mut ports.0, next));
    assert_eq!(through(&mut ports, &pool, 32).len(), 1, "the other side of the new one");
}

#[test]
fn what_a_capture_left_out_is_said_and_written_again() {
    let frame = segment(1, 2, 0x10);
    let mut builder = Builder::classic(Order::Little, false, 1);
    builder.classic_packet(0, 0, &frame, 1500);
    builder.classic_packet(0, 0, &[], 90);
    builder.classic_packet(0, 5, &frame, 200_000);
    builder.classic_packet(0, 6, &frame, frame.len());
    let folder = Folder::new();
    let pool = pool(8);
    let (read, write) = (Some(folder.file("in", &builder.bytes)), Some(folder.path("out")));
    let config = Config { read, write, pace: Pace::FlatOut, ..Config::default() };
    let mut port = PcapPort::open(config).unwrap();
    let mut batch = Vec::new();
    port.receive(&pool, NOW, 32, &mut batch);
    let said: Vec<_> =
        batch.iter().map(|packet| (packet.record().snapped(), packet.record().timestamp)).collect();
    assert_eq!(said, [(1440, 0), (u16::MAX, 5_000), (0, 6_000)]);
    assert_eq!(port.counters().ledger.dropped[DropReason::Malformed], 1, "the empty one");
    assert_eq!(port.details()[1..3], [("cut_short", 2), ("empty", 1)]);
    port.transmit(&pool, NOW, &mut batch);
    port.close(&pool).unwrap();
    assert_conserved(&port, &pool, 0, 0);
    let written = std::fs::read(folder.path("out")).unwrap();
    let records: Vec<_> = super::testing::read(&written)
        .0
        .into_iter()
        .map(|(record, _)| (record.timestamp, record.length, record.original_length))
        .collect();
    assert_eq!(records, [(Some(0), 60, 1500), (Some(5_000), 60, 65_595), (Some(6_000), 60, 60)]);
}

/// The openers of connections, as long as none is forgotten.
fn model(frames: &[(u8, u8, u8)]) -> Vec<Side> {
    let mut opened = std::collections::BTreeMap::new();
    let mut sides = Vec::new();
    for &(from, to, flags) in frames {
        let key = (from.min(to), from.max(to));
        let opener = *opened.entry(key).or_insert(if flags & 0x12 == 0x12 { to } else { from });
        sides.push(if opener == from { Side::Inside } else { Side::Outside });
    }
    sides
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn two_ports_give_what_the_capture_has(
        frames in proptest::collection::vec((1u8..6, 6u8..9, any::<bool>(), any::<u8>()), 0..60),
        budget in 1usize..40,
    ) {
        let frames: Vec<_> =
            frames.into_iter().map(|(a, b, turn, flags)| if turn { (a, b, flags) } else { (b, a, flags) }).collect();
        let bytes: Vec<_> = frames.iter().map(|&(from, to, flags)| segment(from, to, flags)).collect();
        let folder = Folder::new();
        let pool = pool(64);
        let mut ports = both(capture(&folder, &bytes), Sides::Openers, Pace::FlatOut);
        let expected: Vec<_> = model(&frames).into_iter().zip(bytes).collect();
        prop_assert_eq!(through(&mut ports, &pool, budget), expected);
        assert_conserved(&ports.0, &pool, 0, 0);
        assert_conserved(&ports.1, &pool, 0, 0);
    }
}
