//! Rules of contents against a plain search of the whole stream, and the filter against a plain search of
//! every literal.

use super::frames::{Bench, CLIENT, SERVER, flags, tcp, udp};
use crate::budget::Budget;
use crate::filter::Findings;
use crate::filter::groups::Groups;
use crate::filter::literals::Literals;
use crate::rules::Rules;
use crate::rules::network::Variables;
use proptest::prelude::*;

/// A content: its bytes, and whether case counts.
type Plain = (Vec<u8>, bool);

fn content() -> impl Strategy<Value = Plain> {
    let bytes = prop_oneof![
        prop::collection::vec(prop::sample::select(b"ab".to_vec()), 1..12),
        prop::collection::vec(prop::sample::select(b"abAB\0\xff".to_vec()), 2..40),
    ];
    (bytes, any::<bool>())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}

fn rule(sid: usize, contents: &[Plain], protocol: &str) -> String {
    let contents: String = contents
        .iter()
        .map(|(bytes, nocase)| {
            format!("content:\"|{}|\"; {}", hexadecimal(bytes), if *nocase { "nocase; " } else { "" })
        })
        .collect();
    format!("alert {protocol} any any -> any any ({contents}sid:{};)\n", sid + 1)
}

/// Whether it is there, and where its first occurrence that ends behind `from` ends.
fn first_end(data: &[u8], (bytes, nocase): &Plain, from: usize) -> Option<usize> {
    data.windows(bytes.len())
        .enumerate()
        .find(|(at, window)| {
            let is_same = if *nocase { window.eq_ignore_ascii_case(bytes) } else { window == bytes };
            is_same && at + bytes.len() > from
        })
        .map(|(at, _)| at + bytes.len())
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"aabbAB\0\xff".to_vec()), 0..300)
}

/// A payload's beginning, middle and end are scanned by different loops, which a chance place seldom meets.
#[test]
fn a_literal_is_found_at_every_place() {
    // With more than a few of a length, samples find what is looked for at all places otherwise.
    for (length, others) in
        [(2, 0), (2, 70), (3, 70), (4, 0), (4, 70), (5, 70), (6, 70), (5, 0), (7, 0), (10, 0), (33, 0)]
    {
        let bytes: Vec<u8> = (0..length).map(|at| b'a' + at as u8 % 26).collect();
        let other = |number: u8| (vec![number | 0x80; length], false);
        let contents = std::iter::once((bytes.clone(), false)).chain((0..others).map(other));
        let text: String = contents.enumerate().map(|(sid, content)| rule(sid, &[content], "tcp")).collect();
        let rules = Rules::parse(text.as_bytes(), &Variables::new()).expect("well-formed");
        let literals = Literals::new(&rules.list);
        let groups = Groups::new(&rules, &literals);
        let mut findings = Findings::new(literals.list.len());
        for size in length..170 {
            for place in 0..=size - length {
                let mut data = vec![b'.'; size];
                data[place..place + length].copy_from_slice(&bytes);
                findings.begin(&Budget::new(usize::MAX));
                groups.filter(6, 1, 2, None).scan(&data, 0, &literals, &mut findings);
                assert_eq!(findings.found.len(), 1, "{length} bytes at {place} of {size}, {others} others");
            }
        }
    }
}

/// A seam is scanned only when what is scanned anyway, or the few bytes around it, tell that a literal may
/// lie across it.
#[test]
fn a_literal_is_found_across_every_seam() {
    for (length, others) in
        [(2, 0), (2, 70), (3, 70), (4, 0), (4, 70), (5, 70), (6, 70), (5, 0), (7, 0), (10, 0), (33, 0)]
    {
        let bytes: Vec<u8> = (0..length).map(|at| b'a' + at as u8 % 26).collect();
        let other = |number: u8| (vec![number | 0x80; length], false);
        let contents = std::iter::once((bytes.clone(), false)).chain((0..others).map(other));
        let text: String = contents.enumerate().map(|(sid, content)| rule(sid, &[content], "tcp")).collect();
        let mut bench = Bench::new(&text, &[]);
        bench.handshake();
        let mut at = 0;
        let mut say = |pieces: &[&[u8]]| -> Vec<u64> {
            let mut one = |piece: &&[u8]| {
                at += piece.len() as u32;
                bench.client(at - piece.len() as u32, piece)
            };
            pieces.iter().filter(|piece| !piece.is_empty()).flat_map(&mut one).collect()
        };
        for before in [0, 1, 5, 40] {
            let filler = vec![b'.'; before];
            for cut in 1..length {
                let (first, second) = bytes.split_at(cut);
                let [far, near] = [b"....".as_slice(), b""].map(|behind| [second, behind].concat());
                let ahead = [&filler[..], first].concat();
                let (middle, last) = second.split_at(1);
                for pieces in [&[&ahead[..], &far][..], &[&ahead, &near], &[&filler, first, middle, last]] {
                    assert_eq!(
                        say(pieces),
                        [1],
                        "{length} bytes, {others} others, {before} before: {pieces:?}"
                    );
                }
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(say(&single), [1], "{length} bytes, {others} others, {before} before");
        }
    }
}

proptest! {
    #[test]
    fn streams_match_like_their_bytes(
        rules in prop::collection::vec(prop::collection::vec(content(), 1..4), 1..12),
        data in payload(),
        cuts in prop::collection::vec(1usize..60, 1..40),
        shuffles in prop::collection::vec((any::<bool>(), any::<bool>()), 40),
    ) {
        let text: String = rules.iter().enumerate().map(|(sid, contents)| rule(sid, contents, "tcp")).collect();
        let mut bench = Bench::new(&text, &[]);
        bench.handshake();
        let mut pieces = vec![];
        let mut at = 0;
        for (cut, (twice, _)) in cuts.iter().cycle().zip(shuffles.iter().cycle()) {
            if at >= data.len() {
                break;
            }
            let end = data.len().min(at + cut);
            pieces.push((at, end));
            if *twice {
                pieces.push((at.saturating_sub(5), end));
            }
            at = end;
        }
        for (place, (_, swap)) in shuffles.iter().enumerate() {
            if *swap && place + 1 < pieces.len() {
                pieces.swap(place, place + 1);
            }
        }
        let mut arrived = vec![false; data.len()];
        let mut delivered = 0;
        for (start, end) in pieces {
            let frame = tcp(CLIENT, SERVER, flags::ACK, 100 + start as u32, 500, &data[start..end]);
            let sids = bench.show(0, frame).1;
            arrived[start..end].fill(true);
            let before = delivered;
            delivered = arrived.iter().position(|there| !there).unwrap_or(data.len());
            for (sid, contents) in rules.iter().enumerate() {
                let is_there = |content: &Plain, to: usize| first_end(&data[..to], content, 0).is_some();
                let is_new = |content: &Plain| first_end(&data[..delivered], content, before).is_some();
                let all = contents.iter().all(|content| is_there(content, delivered));
                let may = all && contents.iter().any(is_new);
                // With several contents, it matches as soon as all are there, and begins anew then.
                let must = may && (contents.len() == 1 || !contents.iter().all(|content| is_there(content, before)));
                let does = sids.contains(&(sid as u64 + 1));
                prop_assert!(
                    does == must || does && may,
                    "sid {}: {}..{}: {} to {} of {:?}", sid + 1, start, end, before, delivered, &data
                );
            }
        }
    }

    #[test]
    fn datagrams_match_like_their_bytes(
        rules in prop::collection::vec(prop::collection::vec(content(), 1..4), 1..12),
        data in payload(),
    ) {
        let text: String = rules.iter().enumerate().map(|(sid, contents)| rule(sid, contents, "udp")).collect();
        let mut bench = Bench::new(&text, &[]);
        let expected: Vec<u64> = rules
            .iter()
            .enumerate()
            .filter(|(_, contents)| contents.iter().all(|content| first_end(&data, content, 0).is_some()))
            .map(|(sid, _)| sid as u64 + 1)
            .collect();
        prop_assert_eq!(bench.sids(udp(CLIENT, SERVER, &data)), expected);
    }

    #[test]
    fn the_filter_finds_every_literal(
        contents in prop::collection::vec(content(), 1..60),
        data in payload(),
        seam in 0usize..40,
    ) {
        let text: String = contents.iter().enumerate().map(|(sid, content)| rule(sid, std::slice::from_ref(content), "tcp")).collect();
        let rules = Rules::parse(text.as_bytes(), &Variables::new()).expect("well-formed");
        let literals = Literals::new(&rules.list);
        let groups = Groups::new(&rules, &literals);
        let mut findings = Findings::new(literals.list.len());
        findings.begin(&Budget::new(usize::MAX));
        let seam = seam.min(data.len());
        groups.filter(6, 1, 2, None).scan(&data, seam, &literals, &mut findings);
        for (number, literal) in literals.list.iter().enumerate() {
            let plain = (literal.bytes.clone(), literal.nocase);
            let expected = data.windows(literal.bytes.len()).enumerate().any(|(at, window)| {
                first_end(window, &plain, 0).is_some() && (seam == 0 || at < seam && at + window.len() > seam)
            });
            prop_assert_eq!(findings.found.contains(&(number as u32)), expected, "{:?}", literal);
        }
    }

    #[test]
    fn rules_for_ports_are_found_for_their_ports(
        ports in prop::collection::vec((0u16..20, 0u16..20, any::<bool>(), any::<bool>()), 1..30),
        packets in prop::collection::vec((0u16..22, 0u16..22), 1..20),
    ) {
        let text: String = ports.iter().enumerate().map(|(sid, (low, high, to, both))| {
            let range = format!("{}:{}", low.min(high), low.max(high));
            let (source, destination) = if *to { ("any", range.as_str()) } else { (range.as_str(), "any") };
            let direction = if *both { "<>" } else { "->" };
            format!("alert udp any {source} {direction} any {destination} (content:\"abc\"; sid:{};)\n", sid + 1)
        }).collect();
        let mut bench = Bench::new(&text, &[]);
        for (source, destination) in packets {
            let expected: Vec<u64> = ports.iter().enumerate().filter(|(_, (low, high, to, both))| {
                let range = *low.min(high)..=*low.max(high);
                let (near, far) = if *to { (destination, source) } else { (source, destination) };
                range.contains(&near) || *both && range.contains(&far)
            }).map(|(sid, _)| sid as u64 + 1).collect();
            prop_assert_eq!(bench.sids(udp(("10.0.0.1", source), ("10.0.0.2", destination), b"xabcx")), expected);
        }
    }
}
