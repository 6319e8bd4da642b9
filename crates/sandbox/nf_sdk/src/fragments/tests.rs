//! Fragments in any order, of both families, against simple models.

#[path = "model.rs"]
mod model;

use super::*;
use crate::native::frames::packet;
use ::packet::dissect;
use alloc::format;
use alloc::vec;
use model::{Expected, Model, Policy};
use proptest::prelude::*;

const LIMITS: Limits =
    Limits { datagrams: 64, bytes: 1 << 20, timeout: Nanos::from_secs(30), makes_room: false };
const NOW: Nanos = Nanos(1_000_000_000);

fn fragments(overlap: FragmentOverlap) -> Fragments {
    Fragments::new(LIMITS, overlap, 7)
}

/// The frame with these bytes at its end, whatever checksum belongs there.
fn as_it_is(mut frame: Vec<u8>, data: &[u8]) -> Vec<u8> {
    let start = frame.len() - data.len();
    frame[start..].copy_from_slice(data);
    frame
}

/// A frame with the bytes from `offset` of a datagram; over IPv6 behind a header of destination options.
fn fragment(is_ipv4: bool, id: u16, offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    if is_ipv4 {
        let mut frame = as_it_is(packet("192.0.2.1", "192.0.2.2", 17, data), data);
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        frame[20..22].copy_from_slice(&((offset as u16 / 8) | (u16::from(more) << 13)).to_be_bytes());
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        return frame;
    }
    let mut payload = vec![44, 0, 1, 4, 0, 0, 0, 0, 17, 0];
    payload.extend((offset as u16 | u16::from(more)).to_be_bytes());
    payload.extend([0, 0]);
    payload.extend(id.to_be_bytes());
    payload.extend(data);
    as_it_is(packet("2001:db8::1", "2001:db8::2", 60, &payload), data)
}

/// The datagram in one piece.
fn whole(is_ipv4: bool, id: u16, data: &[u8]) -> Vec<u8> {
    if is_ipv4 {
        return fragment(true, id, 0, false, data);
    }
    let mut payload = vec![17, 0, 1, 4, 0, 0, 0, 0];
    payload.extend(data);
    as_it_is(packet("2001:db8::1", "2001:db8::2", 60, &payload), data)
}

fn take(fragments: &mut Fragments, frame: &[u8], now: Nanos) -> Outcome {
    fragments.take(frame, &dissect(frame).expect("well-formed"), 0, now)
}

fn counted(length: usize) -> Vec<u8> {
    (0..length).map(|at| at as u8).collect()
}

#[test]
fn in_any_order() {
    let data = counted(60);
    for is_ipv4 in [true, false] {
        let parts = [(0, 24), (24, 40), (40, 60)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut table = fragments(FragmentOverlap::Discard);
            let frames = order.map(|part| {
                let (from, to): (usize, usize) = parts[part];
                fragment(is_ipv4, 5, from, to < 60, &data[from..to])
            });
            assert_eq!(take(&mut table, &frames[0], NOW), Outcome::Waiting);
            // What comes again changes nothing.
            assert_eq!(take(&mut table, &frames[0], NOW), Outcome::Waiting);
            assert_eq!(take(&mut table, &frames[1], NOW), Outcome::Waiting);
            assert_eq!(take(&mut table, &frames[2], NOW), Outcome::Whole(whole(is_ipv4, 5, &data)));
            assert_eq!((table.count(), table.bytes(), table.turnover.whole), (0, 0, 1));
        }
    }
}

#[test]
fn datagrams_are_told_apart() {
    let mut table = fragments(FragmentOverlap::First);
    let first = fragment(true, 1, 0, true, &[1; 8]);
    assert_eq!(take(&mut table, &first, NOW), Outcome::Waiting);
    let last = |id| fragment(true, id, 8, false, &[2; 8]);
    assert_eq!(take(&mut table, &last(2), NOW), Outcome::Waiting);
    // Another network.
    let other = dissect(&last(1)).expect("well-formed");
    assert_eq!(table.take(&last(1), &other, 9, NOW), Outcome::Waiting);
    assert!(matches!(take(&mut table, &last(1), NOW), Outcome::Whole(_)));
    assert_eq!(table.count(), 2);
}

#[test]
fn overlaps_as_the_receiver_has_them() {
    let shown = |overlap, parts: &[(usize, bool, &[u8])]| {
        let mut table = fragments(overlap);
        let frames = parts.iter().map(|(at, more, data)| fragment(true, 1, *at, *more, data));
        let outcomes: Vec<Outcome> = frames.map(|frame| take(&mut table, &frame, NOW)).collect();
        match outcomes.into_iter().next_back() {
            Some(Outcome::Whole(frame)) => Some(frame[34..].to_vec()),
            _ => None,
        }
    };
    let said = |letters: &str| Some(letters.bytes().flat_map(|letter| [letter; 8]).collect::<Vec<u8>>());
    let (a, b, c) = ([b'a'; 16], [b'b'; 16], [b'c'; 32]);
    // b lies behind a's beginning.
    let behind: [(usize, bool, &[u8]); 3] = [(0, true, &a), (8, true, &b), (24, false, &a[..8])];
    assert_eq!(shown(FragmentOverlap::First, &behind), said("aaba"));
    assert_eq!(shown(FragmentOverlap::Last, &behind), said("abba"));
    assert_eq!(shown(FragmentOverlap::Around, &behind), said("aaba"));
    assert_eq!(shown(FragmentOverlap::Discard, &behind), None);
    // c lies around b.
    let around: [(usize, bool, &[u8]); 3] = [(8, true, &b), (0, true, &c), (32, false, &a[..8])];
    assert_eq!(shown(FragmentOverlap::First, &around), said("cbbca"));
    assert_eq!(shown(FragmentOverlap::Last, &around), said("cccca"));
    assert_eq!(shown(FragmentOverlap::Around, &around), said("cccca"));
    assert_eq!(shown(FragmentOverlap::Discard, &around), None);
    // IPv6 knows no choice.
    let mut table = fragments(FragmentOverlap::First);
    assert_eq!(take(&mut table, &fragment(false, 1, 0, true, &a), NOW), Outcome::Waiting);
    assert_eq!(take(&mut table, &fragment(false, 1, 8, false, &b), NOW), Outcome::Discarded);
    assert_eq!((table.count(), table.bytes()), (0, 0));
}

#[test]
fn what_no_receiver_takes() {
    let refused = |frames: &[Vec<u8>]| {
        let mut table = fragments(FragmentOverlap::First);
        let outcomes: Vec<Outcome> = frames.iter().map(|frame| take(&mut table, frame, NOW)).collect();
        assert_eq!(outcomes.last(), Some(&Outcome::Discarded));
        assert_eq!((table.count(), table.bytes()), (0, 0));
    };
    // Two ends; a byte behind the end; an end before what has come; behind the longest datagram; nothing.
    let last = |at, length| fragment(true, 1, at, false, &vec![0; length]);
    refused(&[last(16, 8), last(24, 8)]);
    refused(&[last(16, 8), fragment(true, 1, 24, true, &[0; 8])]);
    refused(&[fragment(true, 1, 24, true, &[0; 8]), last(8, 8)]);
    refused(&[last(65_528, 100)]);
    refused(&[fragment(true, 1, 8, true, &[0; 7])]);
    refused(&[fragment(false, 1, 8, true, &[0; 9])]);
    // A frame that was cut short.
    let mut cut = last(16, 80);
    cut.truncate(60);
    refused(&[cut]);
}

#[test]
fn time_and_memory_are_bounded() {
    let mut table = fragments(FragmentOverlap::First);
    for id in 0..100 {
        take(&mut table, &fragment(true, id, 0, true, &[0; 8]), NOW);
    }
    // Two addresses fill one set and no other.
    assert_eq!((table.count(), table.turnover.refused), (16, 84));
    let other = packet("192.0.2.9", "192.0.2.2", 17, &[0; 8]);
    let late = NOW.saturating_add(Nanos::from_secs(31));
    assert_eq!(take(&mut table, &fragment(true, 0, 8, false, &other), late), Outcome::Waiting);
    assert_eq!((table.count(), table.turnover.expired), (1, 16));
    table.expire(late.saturating_add(Nanos::from_secs(31)));
    assert_eq!((table.count(), table.bytes()), (0, 0));
    let small = Limits { bytes: 1000, ..LIMITS };
    let mut table = Fragments::new(small, FragmentOverlap::First, 7);
    let outcomes: Vec<Outcome> =
        (0..9).map(|n| take(&mut table, &fragment(true, 1, n * 104, true, &[0; 104]), NOW)).collect();
    assert!(outcomes.contains(&Outcome::Refused) && table.bytes() <= 1000);
}

/// First fragments of datagrams that never end, from many sources and from one.
#[test]
fn a_flood_leaves_room_for_others() {
    let data = counted(40);
    let part = |source: &str, id: u16, from: usize, to: usize| {
        let mut frame = fragment(true, id, from, to < data.len(), &data[from..to]);
        let address: core::net::Ipv4Addr = source.parse().expect("an address");
        frame[26..30].copy_from_slice(&address.octets());
        frame
    };
    let floods = |limits, is_one: bool| {
        let mut table = Fragments::new(limits, FragmentOverlap::First, 7);
        for number in 0..1000u16 {
            let source = if is_one {
                alloc::string::String::from("198.51.100.1")
            } else {
                format!("203.0.{}.{}", number >> 8, number & 255)
            };
            let mut frame = part(&source, number, 0, 16);
            frame[30..34].copy_from_slice(&[192, 0, (number >> 8) as u8, number as u8]);
            take(&mut table, &frame, NOW.saturating_add(Nanos(u64::from(number))));
        }
        let first = take(&mut table, &part("192.0.2.77", 1, 0, 16), NOW.saturating_add(Nanos(2000)));
        let last = take(&mut table, &part("192.0.2.77", 1, 16, 40), NOW.saturating_add(Nanos(2001)));
        assert!(table.count() <= limits.datagrams);
        (first, matches!(last, Outcome::Whole(_)))
    };
    let large = Limits { datagrams: 256, ..LIMITS };
    assert_eq!(floods(Limits { makes_room: true, ..large }, false), (Outcome::Waiting, true));
    assert_eq!(floods(Limits { makes_room: true, ..large }, true), (Outcome::Waiting, true));
    // One source has its part, and others have theirs.
    assert_eq!(floods(large, true), (Outcome::Waiting, true));
    assert_eq!(floods(large, false).0, Outcome::Refused);
}

proptest! {
    /// Whatever comes, memory is bounded and accounted for, and a datagram is what a byte-wise model says.
    #[test]
    fn equal_to_a_model(
        is_ipv4 in any::<bool>(),
        overlap in prop::sample::select(vec![
            FragmentOverlap::First, FragmentOverlap::Last, FragmentOverlap::Around, FragmentOverlap::Discard,
        ]),
        parts in prop::collection::vec((0usize..12, 1usize..6, any::<bool>(), any::<u8>()), 1..14),
    ) {
        let mut table = Fragments::new(Limits { bytes: 1 << 16, ..LIMITS }, overlap, 3);
        let mut model = Model::new(0);
        let policy = match overlap {
            FragmentOverlap::Discard => Policy::Discard,
            _ if !is_ipv4 => Policy::Discard,
            FragmentOverlap::First => Policy::First,
            FragmentOverlap::Last => Policy::Last,
            FragmentOverlap::Around => Policy::Around,
        };
        for (number, (at, count, more, letter)) in parts.into_iter().enumerate() {
            // One that is first and last is no fragment.
            let more = more || at == 0;
            let data = vec![letter; count * 8];
            let outcome = take(&mut table, &fragment(is_ipv4, 1, at * 8, more, &data), NOW);
            let part = model::Fragment { number, at: at * 8, more, data: &data };
            let expected = match model.take((), policy, part, 0) {
                Expected::Whole(_, said) => Outcome::Whole(whole(is_ipv4, 1, &said)),
                Expected::Waiting => Outcome::Waiting,
                Expected::Discarded => Outcome::Discarded,
            };
            let is_done = expected != Outcome::Waiting;
            prop_assert_eq!(outcome, expected);
            prop_assert_eq!(table.count() == 0 && table.bytes() == 0, is_done);
        }
        table.expire(Nanos(u64::MAX));
        prop_assert_eq!((table.count(), table.bytes()), (0, 0));
    }

    #[test]
    fn any_bytes(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 60..120), 1..8), is_ipv4 in any::<bool>()) {
        let mut table = Fragments::new(Limits { bytes: 1 << 12, ..LIMITS }, FragmentOverlap::Last, 3);
        for mut frame in frames {
            frame[12..15].copy_from_slice(if is_ipv4 { &[8, 0, 0x45] } else { &[0x86, 0xdd, 0x60] });
            if let Ok(dissection) = dissect(&frame) {
                table.take(&frame, &dissection, 0, NOW);
                prop_assert!(table.bytes() <= 1 << 12);
            }
        }
    }
}

/// A datagram that does not go on: what comes again of it is barred, for as long as receivers keep the rest.
#[test]
fn what_does_not_go_on_is_barred() {
    for is_ipv4 in [true, false] {
        let mut fragments = fragments(FragmentOverlap::First);
        let dissected =
            |id: u16| dissect(&fragment(is_ipv4, id, 8, false, b"and the rest")).expect("well-formed");
        assert!(!fragments.is_barred(&dissected(7), 5, NOW));
        fragments.bar(&dissected(7), 5, NOW);
        let later = |seconds| NOW.saturating_add(Nanos::from_secs(seconds));
        for (id, context, seconds, expected) in
            [(7, 5, 0, true), (7, 5, 29, true), (7, 5, 31, false), (8, 5, 0, false), (7, 6, 0, false)]
        {
            assert_eq!(fragments.is_barred(&dissected(id), context, later(seconds)), expected, "{id}");
        }
        // However many others are.
        for id in 100..2000 {
            fragments.bar(&dissected(id), 5, later(1));
        }
        assert!(fragments.is_barred(&dissected(7), 5, later(29)));
        fragments.clear();
        assert!(!fragments.is_barred(&dissected(7), 5, NOW));
    }
}
