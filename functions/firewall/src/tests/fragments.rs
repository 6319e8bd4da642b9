//! Fragments: all of a datagram go where its first one goes, in any order.

use super::frames::{Bench, IN, OUT, at, drop, packet, rule, udp};
use nf_sdk::Verdict;
use nf_sdk::native::{ConfigValue, TestPacket};
use packet_filter::fragments::FRAGMENTS;
use packet_filter::waiting::{WAITING, WAITING_OF_ONE};
use proptest::prelude::*;

const A: &str = "10.0.0.1";
const B: &str = "192.0.2.9";
const A6: &str = "2001:db8::1";
const B6: &str = "2001:db8:1::9";

/// The first sixteen bytes of a datagram to this port.
fn head(port: u8) -> [u8; 16] {
    [0x0f, 0xa0, 0, port, 0, 40, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
}

/// A fragment of UDP over IPv4: `offset` in bytes.
fn fragment_from(source: &str, id: u16, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let mut frame = packet(source, B, 17, data);
    frame[18..20].copy_from_slice(&id.to_be_bytes());
    let field = (offset / 8) | if more { 0x2000 } else { 0 };
    frame[20..22].copy_from_slice(&field.to_be_bytes());
    frame
}

fn fragment(id: u16, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    fragment_from(A, id, offset, more, data)
}

/// The same over IPv6.
fn fragment6(id: u32, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let mut payload = vec![17, 0];
    payload.extend((offset | u16::from(more)).to_be_bytes());
    payload.extend(id.to_be_bytes());
    payload.extend(data);
    packet(A6, B6, 44, &payload)
}

/// One of few datagrams' fragments, whole ones in more than one way.
pub fn one_of_few(is_ipv6: bool, id: u8, place: u8) -> Vec<u8> {
    let (id, offset, more) = (id % 8, u16::from(place % 4) * 8, place & 4 != 0);
    if is_ipv6 {
        fragment6(u32::from(id), offset, more, &head(id))
    } else {
        fragment(u16::from(id), offset, more, &head(id))
    }
}

/// UDP to port 53 passes, from either side.
fn bench(stateful: bool) -> Bench {
    let rules = vec![rule(
        "accept",
        &[("protocol", ConfigValue::text("udp")), ("destination_ports", ConfigValue::PortRange(53, 53))],
    )];
    Bench::new(rules, &[("stateful", ConfigValue::Boolean(stateful))])
}

fn is_held(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Hold(_))
}

/// Verdicts of what was held, with the bytes, in order.
fn given_up(bench: &Bench) -> Vec<(Verdict, Vec<u8>)> {
    let emitted = bench.runner.host().emitted().iter();
    emitted.map(|packet| (packet.verdict, packet.bytes.clone().expect("it was in its slot"))).collect()
}

#[test]
fn later_fragments_follow_the_first() {
    for stateful in [true, false] {
        let mut bench = bench(stateful);
        assert_eq!(bench.inside(fragment(1, 0, true, &head(53))), OUT);
        assert_eq!(bench.inside(fragment(1, 16, true, &[9; 8])), OUT);
        assert_eq!(bench.inside(fragment(1, 24, false, &[9; 3])), OUT);
        assert!(is_held(bench.inside(fragment(2, 16, false, &[9; 8]))), "another datagram");
        assert!(is_held(bench.outside(fragment(1, 16, false, &[9; 8]))), "the other side");
        assert_eq!(bench.inside(fragment(1, 8, false, &[9; 8])), drop::FRAGMENT, "it overlaps the first");
        assert_eq!(bench.inside(fragment(3, 0, true, &head(53)[..7])), drop::FRAGMENT, "no whole header");
        assert_eq!(bench.inside(fragment(4, 0, true, &head(54))), drop::DENIED);
        assert_eq!(
            bench.inside(fragment(4, 16, false, &[9; 8])),
            drop::FRAGMENT,
            "the first one was refused"
        );
        assert_eq!(bench.inside(fragment6(1, 0, true, &head(53))), OUT);
        assert_eq!(bench.inside(fragment6(1, 16, false, &[9; 8])), OUT);
        assert!(is_held(bench.inside(fragment6(2, 16, false, &[9; 8]))));
        assert_eq!(bench.inside(fragment6(1, 8, false, &[9; 8])), drop::FRAGMENT);
        assert_eq!(bench.runner.host().held(), 3);
        bench.wait(31.0);
        assert_eq!(bench.runner.host().held(), 0, "they waited for long enough");
        assert!(given_up(&bench).iter().all(|(verdict, _)| *verdict == drop::FRAGMENT));
        assert_eq!(bench.counted(), 13);
        assert!(is_held(bench.inside(fragment(1, 16, false, &[9; 8]))), "the first one is forgotten");
    }
}

#[test]
fn fragments_before_the_first_wait_for_it() {
    for stateful in [true, false] {
        let mut bench = bench(stateful);
        let (last, middle) = (fragment(1, 24, false, &[8; 3]), fragment(1, 16, true, &[9; 8]));
        let (overlap, other) = (fragment(1, 8, true, &[7; 8]), fragment(2, 16, false, &[6; 8]));
        for early in [&last, &middle, &overlap, &other] {
            assert!(is_held(bench.inside(early.clone())));
        }
        assert_eq!((bench.counted(), &bench.report()["fragments_held"]), (0, &4.into()));
        assert_eq!(bench.inside(fragment(1, 0, true, &head(53))), OUT);
        let expected = vec![(drop::FRAGMENT, overlap), (OUT, middle), (OUT, last)];
        assert_eq!(given_up(&bench), expected, "in the datagram's order");
        assert_eq!(bench.inside(fragment(2, 0, true, &head(54))), drop::DENIED);
        assert_eq!(given_up(&bench)[3..], [(drop::FRAGMENT, other)], "it goes where the first one goes");
        assert_eq!((bench.counted(), &bench.report()["fragments_held"]), (6, &0.into()));
        let from_outside = packet(B, A, 17, &[9; 8]);
        let early = [from_outside[..18].to_vec(), vec![0, 5, 0, 2], from_outside[22..].to_vec()].concat();
        let first = packet(B, A, 17, &head(53));
        let first = [first[..18].to_vec(), vec![0, 5, 0x20, 0], first[22..].to_vec()].concat();
        assert!(is_held(bench.outside(early.clone())));
        assert_eq!(bench.outside(first), IN);
        assert_eq!(given_up(&bench)[4..], [(IN, early)]);
    }
}

#[test]
fn what_waits_is_dropped_when_its_time_is_over_and_at_the_end() {
    for stateful in [true, false] {
        let mut bench = bench(stateful);
        assert!(is_held(bench.inside(fragment(1, 16, false, &[9; 8]))));
        bench.runner.finish(at(0.0));
        assert_eq!((bench.runner.host().held(), bench.counted()), (0, 1));
        assert!(is_held(bench.inside(fragment(2, 16, false, &[9; 8]))));
        bench.wait(0.3);
        assert_eq!(bench.runner.host().held(), 1, "its time is not over");
        bench.wait(1.0);
        assert_eq!((bench.runner.host().held(), bench.counted()), (0, 2));
        assert_eq!(given_up(&bench)[1].0, drop::FRAGMENT);
    }
}

#[test]
fn datagrams_remembered_are_bounded_and_refused_ones_displace_none() {
    let mut bench = bench(true);
    for id in 0..20_000 {
        assert_eq!(bench.inside(fragment(id, 0, true, &head(53))), OUT);
    }
    let count = bench.report()["fragmented_datagrams"].as_u64().expect("a number");
    assert!((1000..=FRAGMENTS as u64).contains(&count), "{count}");
    for id in 20_000..60_000 {
        assert_eq!(bench.inside(fragment(id, 0, true, &head(54))), drop::DENIED);
    }
    assert_eq!(bench.inside(fragment(19_999, 16, false, &[9; 8])), OUT, "the newest accepted one is known");
}

#[test]
fn a_flood_of_later_fragments_holds_few_and_leaves_connections_alone() {
    for stateful in [true, false] {
        let mut bench = bench(stateful);
        assert_eq!(bench.inside(udp(A, 4000, B, 53)), OUT);
        for id in 0..1000 {
            let verdict = bench.inside(fragment(id, 16, false, &[9; 8]));
            assert_eq!(is_held(verdict), usize::from(id) < WAITING_OF_ONE, "{id}: {verdict:?}");
            assert_eq!(bench.inside(udp(A, 4000, B, 53)), OUT);
        }
        for host in 0..=255u16 {
            bench.inside(fragment_from(&format!("10.0.1.{host}"), host, 16, false, &[9; 8]));
        }
        assert_eq!(bench.runner.host().held(), WAITING);
        assert_eq!(bench.inside(udp(A, 4000, B, 53)), OUT);
        bench.wait(1.0);
        assert_eq!(bench.runner.host().held(), 0);
        assert_eq!(bench.counted(), 2 + 1000 + 1000 + 256, "every packet once");
        assert!(is_held(bench.inside(fragment(1, 16, false, &[9; 8]))), "there is room again");
    }
}

/// A datagram's fragments, the first one first: whether it is accepted, over IPv6, and how many later ones it
/// has.
fn datagram(id: u16, (accepted, is_ipv6, later): (bool, bool, u16)) -> Vec<(u16, bool, Vec<u8>)> {
    let head = head(if accepted { 53 } else { 54 });
    let make = |offset: u16, more: bool, data: &[u8]| match is_ipv6 {
        true => fragment6(u32::from(id), offset, more, data),
        false => fragment(id, offset, more, data),
    };
    let rest = (0..later).map(|n| (id, accepted, make(16 + 8 * n, n + 1 < later, &[n as u8; 8])));
    [(id, accepted, make(0, true, &head))].into_iter().chain(rest).collect()
}

proptest! {
    #[test]
    fn any_order_decides_once_for_all_of_a_datagram(
        (fragments, batches) in prop::collection::vec((any::<bool>(), any::<bool>(), 1u16..5), 1..5)
            .prop_map(|all| all.into_iter().zip(1..).flat_map(|(what, id)| datagram(id, what)).collect::<Vec<_>>())
            .prop_flat_map(|all| {
                let batches = prop::collection::vec(1usize..6, all.len());
                (Just(all).prop_shuffle(), batches)
            }),
        stateful in any::<bool>(),
    ) {
        let mut bench = bench(stateful);
        let mut fates = vec![];
        let (mut rest, mut sizes) = (fragments.as_slice(), batches.iter());
        while let (false, Some(size)) = (rest.is_empty(), sizes.next()) {
            let (batch, further) = rest.split_at((*size).min(rest.len()));
            rest = further;
            let packets: Vec<_> = batch.iter().map(|(.., bytes)| TestPacket::new(bytes.clone(), 0)).collect();
            for (outcome, (.., bytes)) in bench.runner.run(&packets, at(0.0)).iter().zip(batch) {
                let verdict = outcome.verdict.expect("a verdict");
                if !is_held(verdict) {
                    fates.push((verdict, bytes.clone()));
                }
            }
        }
        // All first ones have come: nothing waits any more.
        prop_assert_eq!(bench.runner.host().held(), 0);
        fates.extend(given_up(&bench));
        prop_assert_eq!(fates.len(), fragments.len());
        prop_assert_eq!(bench.counted(), fragments.len() as u64);
        for (id, accepted, bytes) in &fragments {
            let found: Vec<_> = fates.iter().filter(|(_, other)| other == bytes).collect();
            prop_assert_eq!(found.len(), 1, "datagram {}", id);
            prop_assert_eq!(found[0].0 == OUT, *accepted, "datagram {}: {:?}", id, found[0].0);
        }
    }
}
