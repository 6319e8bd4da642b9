//! Segments that no receiver takes, many of all kinds between those that it takes: none hides anything,
//! whatever came before it.

use super::evasion::{hides_nothing, instead};
use super::frames::{Bench, CLIENT, NONE, SERVER, flags, tcp, udp};
use proptest::prelude::*;

const RULE: &str = "alert tcp any any -> any any (content:\"malicious\"; sid:1;)";

/// On a wire no receiver takes a packet that is longer than its frame.
#[test]
fn a_packet_longer_than_its_frame() {
    let mut frame = instead(flags::ACK, 500, b"XXXXX");
    frame[17] += 1;
    frame[24..26].fill(0);
    let sum = nf_sdk::headers::checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    hides_nothing("IPv4", frame.clone(), &[]);
    // Where it was captured its end may have been left out.
    let mut bench = Bench::new(RULE, &[]);
    bench.handshake();
    bench.client(0, b"mali");
    bench.gso_size = 1;
    assert_eq!(bench.sids(frame), NONE);
    bench.gso_size = 0;
    assert_eq!(bench.client(4, b"cious"), NONE, "it counts");
}

/// One that is still to be computed is right when the sum of the pseudo header stands in its place, and
/// everything around it is.
#[test]
fn a_checksum_that_is_still_to_be_computed() {
    let between = |bytes: &[u8], start: u16| {
        let mut bench = Bench::new(RULE, &[]);
        bench.handshake();
        bench.client(0, b"mali");
        (bench.offload_flags, bench.csum_start) = (nf_sdk::offload::NEEDS_CHECKSUM, start);
        let sids = bench.sids(bytes.to_vec());
        bench.offload_flags = 0;
        [sids, bench.client(4, b"cious")].concat()
    };
    let mut frame = instead(flags::ACK, 500, b"XXXXX");
    let ends = [&frame[26..34], &[0, 6, 0, (frame.len() - 34) as u8]].concat();
    frame[50..52].copy_from_slice(&(!nf_sdk::headers::checksum::of(&ends)).to_be_bytes());
    assert_eq!(between(&frame, 34), NONE, "it counts");
    let mut wrong = frame.clone();
    wrong[51] ^= 1;
    assert_eq!(between(&wrong, 34), [1], "another sum");
    let mut header = frame.clone();
    header[24] ^= 1;
    assert_eq!(between(&header, 34), [1], "the header's");
    // What is still to be cut may have no length, and a receiver on this host takes it.
    let mut none = frame.clone();
    none[16..18].fill(0);
    none[24..26].fill(0);
    let sum = nf_sdk::headers::checksum::of(&none[14..34]);
    none[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(between(&none, 34), [1]);
    let mut bench = Bench::new(RULE, &[]);
    bench.handshake();
    bench.client(0, b"mali");
    (bench.offload_flags, bench.csum_start) = (nf_sdk::offload::NEEDS_CHECKSUM, 34);
    bench.gso_type = nf_sdk::offload::GSO_TCPV4;
    assert_eq!(bench.sids(none), NONE);
    (bench.offload_flags, bench.gso_type) = (0, 0);
    assert_eq!(bench.client(4, b"cious"), NONE, "it counts");
    // The one of something else: this one is as it is.
    assert_eq!(between(&frame, 20), [1]);
    assert_eq!(between(&instead(flags::ACK, 500, b"XXXXX"), 20), NONE);
}

/// The checksums around one that is still to be computed are made with what it will be in mind.
#[test]
fn checksums_around_one_that_is_still_to_be_computed() {
    let around = |inner: &[u8]| {
        udp(("10.9.0.1", 50_000), ("10.9.0.2", 4789), &[&[8, 0, 0, 0, 0, 0, 7, 0], inner].concat())
    };
    let between = |bytes: Vec<u8>| {
        let mut bench = Bench::new(RULE, &[]);
        for frame in [
            tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]),
            tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[]),
            tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"mali"),
        ] {
            assert_eq!(bench.sids(around(&frame)), NONE);
        }
        (bench.offload_flags, bench.csum_start) = (nf_sdk::offload::NEEDS_CHECKSUM, 50 + 34);
        let sids = bench.sids(bytes);
        bench.offload_flags = 0;
        [sids, bench.sids(around(&tcp(CLIENT, SERVER, flags::ACK, 104, 500, b"cious")))].concat()
    };
    let inner = instead(flags::ACK, 500, b"XXXXX");
    let ends = [&inner[26..34], &[0, 6, 0, (inner.len() - 34) as u8]].concat();
    let mut frame = around(&inner);
    frame[100..102].copy_from_slice(&(!nf_sdk::headers::checksum::of(&ends)).to_be_bytes());
    assert_eq!(between(frame.clone()), NONE, "it counts");
    let mut wrong = frame.clone();
    wrong[41] ^= 1;
    assert_eq!(between(wrong), [1], "around");
    frame[101] ^= 1;
    assert_eq!(between(frame), [1], "inside");
}

/// A segment of the client's that no receiver takes, of one kind or another, and what is said of its
/// checksum.
fn junk(kind: u8, at: u32, length: usize) -> (Vec<u8>, u8) {
    let data = vec![b'X'; length];
    let segment = |flags, seq: u32, ack| tcp(CLIENT, SERVER, flags, seq, ack, &data);
    let good = || segment(flags::ACK, at, 500);
    let changed = |place: usize, by: u8| {
        let mut frame = good();
        frame[place] ^= by;
        frame
    };
    let resealed = |mut frame: Vec<u8>| {
        frame[24..26].fill(0);
        let sum = nf_sdk::headers::checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let frame = match kind {
        0 => changed(50, 1),
        1 => changed(24, 1),
        2 => resealed(changed(16, 4)),
        3 => segment(0, at, 0),
        4 => segment(flags::ACK, at, 501),
        5 => segment(flags::ACK, at, 500 + (1 << 21)),
        6 => segment(flags::RST, at + 70_000, 500),
        7 => segment(flags::RST | flags::ACK, at.wrapping_sub(70_000), 500),
        8 => segment(flags::ACK, at + (1 << 20), 500),
        9 => resealed([&good()[..16], &[0, 0], &good()[18..]].concat()),
        10 => udp(CLIENT, SERVER, &data),
        11 => changed(46, 0x10),
        12 => segment(flags::ACK, at.wrapping_sub(1 << 20), 500),
        _ => return (good(), nf_sdk::offload::NEEDS_CHECKSUM),
    };
    (frame, 0)
}

proptest! {
    #[test]
    fn junk_of_any_kind_in_any_order_hides_nothing(
        before in 0usize..40,
        cuts in prop::collection::vec(1usize..12, 1..8),
        order in any::<u64>(),
        junks in prop::collection::vec((0u8..14, 0u32..60, 1usize..60), 0..24),
    ) {
        let stream = [&vec![b'.'; before][..], b"malicious", &[b'.'; 20]].concat();
        let (mut parts, mut at) = (Vec::new(), 0);
        for length in cuts.iter().cycle() {
            let end = (at + length).min(stream.len());
            parts.push((at, &stream[at..end]));
            at = end;
            if at == stream.len() {
                break;
            }
        }
        // In any order, and the first ones once more.
        let mut random = order | 1;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        for place in (1..parts.len()).rev() {
            parts.swap(place, next(place + 1));
        }
        parts.extend_from_within(..parts.len() / 2);
        let mut bench = Bench::new(RULE, &[]);
        bench.handshake();
        let (mut junks, mut found, mut sent) = (junks.into_iter(), Vec::new(), Vec::new());
        for (at, data) in parts {
            for (kind, at, length) in junks.by_ref().take(next(5)) {
                let (frame, flags) = junk(kind, 100 + at, length);
                (bench.offload_flags, bench.csum_start) = (flags, 34);
                found.extend(bench.sids(frame));
                sent.push(format!("junk {kind} at {at}, {length} bytes"));
            }
            bench.offload_flags = 0;
            found.extend(bench.client(at as u32, data));
            sent.push(format!("{} bytes at {at}", data.len()));
        }
        prop_assert_eq!(found, [1], "{:#?}", sent);
    }
}
