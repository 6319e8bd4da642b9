//! Packets that show an observer something else than the receiver (Ptacek and Newsham, "Insertion, Evasion,
//! and Denial of Service", 1998), each with the packet that hides and without it. README.md has the table.

use super::frames::{Bench, CLIENT, NONE, SERVER, flags, fragments, seal, segment, stamp, tcp, udp};
use nf_sdk::Verdict;
use nf_sdk::native::ConfigValue;

const RULE: &str = "alert tcp any any -> any any (content:\"malicious\"; sid:1;)";
const IGNORED: u16 = 5;
const ON: Verdict = Verdict::Interface(1);

/// What stands in the way of the second half.
fn between(frame: Vec<u8>, changes: &[(&str, ConfigValue)]) -> Vec<u64> {
    let mut bench = Bench::new(RULE, changes);
    bench.handshake();
    assert_eq!(bench.client(0, b"mali"), NONE);
    let mut found = bench.sids(frame);
    found.extend(bench.client(4, b"cious"));
    found
}

/// A segment of the client's in the place of the second half.
pub fn instead(flags: u8, ack: u32, data: &[u8]) -> Vec<u8> {
    tcp(CLIENT, SERVER, flags, 104, ack, data)
}

fn text(value: &str) -> ConfigValue {
    ConfigValue::text(value)
}

/// A frame that hides the second half when it is taken for what the receiver gets, and does not, and with
/// `ignored: drop` is dropped.
pub fn hides_nothing(name: &str, frame: Vec<u8>, changes: &[(&str, ConfigValue)]) {
    assert_eq!(between(frame.clone(), changes), [1], "{name}");
    let strict = [changes, &[("ignored", text("drop"))]].concat();
    let mut bench = Bench::new(RULE, &strict);
    bench.handshake();
    assert_eq!(bench.client(0, b"mali"), NONE);
    assert_eq!(bench.show(0, frame).0, Verdict::Drop(IGNORED), "{name}");
    assert_eq!(bench.client(4, b"cious"), [1], "{name}");
    assert_eq!(bench.count("ignored"), 1);
}

/// Without: what the receiver takes counts, and then the second half comes too late.
#[test]
fn what_the_receiver_takes_counts() {
    assert_eq!(between(instead(flags::ACK, 500, b"XXXXX"), &[]), NONE);
    assert_eq!(between(instead(flags::ACK, 500, b""), &[]), [1]);
}

#[test]
fn data_without_an_acknowledgement() {
    hides_nothing("no flag", instead(0, 0, b"XXXXX"), &[]);
    hides_nothing("PSH alone", instead(flags::PSH, 0, b"XXXXX"), &[]);
    hides_nothing("FIN alone", instead(flags::FIN, 0, b"XXXXX"), &[]);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent() {
    hides_nothing("one byte more", instead(flags::ACK, 501, b"XXXXX"), &[]);
    hides_nothing("far more", instead(flags::ACK, 500 + (1 << 20), b"XXXXX"), &[]);
    hides_nothing("far less", instead(flags::ACK, 500u32.wrapping_sub(70_000), b"XXXXX"), &[]);
    // Also what comes before the first byte (`receivers_differ` has others that acknowledge what was before).
    hides_nothing("one byte less", instead(flags::ACK, 499, b"XXXXX"), &[]);
}

#[test]
fn a_wrong_checksum() {
    let mut wrong = instead(flags::ACK, 500, b"XXXXX");
    wrong[50] ^= 1;
    hides_nothing("TCP", wrong.clone(), &[]);
    let ignore = [("checksums", text("ignore"))];
    assert_eq!(between(wrong.clone(), &ignore), NONE);
    let mut header = instead(flags::ACK, 500, b"XXXXX");
    header[24] ^= 1;
    hides_nothing("IP", header.clone(), &[]);
    assert_eq!(between(header, &ignore), NONE);
    // The port says which it has verified.
    let mut bench = Bench::new(RULE, &[]);
    bench.handshake();
    bench.client(0, b"mali");
    bench.offload_flags = nf_sdk::offload::CHECKSUM_VALID;
    assert_eq!(bench.sids(wrong.clone()), NONE);
    bench.offload_flags = 0;
    assert_eq!(bench.client(4, b"cious"), NONE);
    let mut bench = Bench::new(RULE, &[]);
    bench.sids(wrong);
    assert_eq!((bench.count("checksum-errors"), bench.count("flows-opened")), (1, 0));
}

#[test]
fn checksums_of_datagrams() {
    let rule = "drop udp any any -> any any (content:\"malicious\"; sid:1;)";
    let mut frame = udp(CLIENT, SERVER, b"malicious");
    frame[40] ^= 1;
    let mut bench = Bench::new(rule, &[]);
    // It is looked at, and says nothing about its flow.
    assert_eq!(bench.show(0, frame.clone()), (Verdict::Drop(0), vec![1]));
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, b"harmless")).0, ON);
    // None was computed.
    frame[40..42].fill(0);
    assert_eq!(bench.show(0, frame), (Verdict::Drop(0), vec![1]));
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, b"harmless")).0, Verdict::Drop(1));
    assert_eq!(bench.count("checksum-errors"), 1);
}

#[test]
fn a_small_time_to_live() {
    let mut frame = instead(flags::ACK, 500, b"XXXXX");
    frame[22] = 3;
    seal(&mut frame);
    let hops = |hops| [("min_ttl", ConfigValue::Integer(hops))];
    hides_nothing("three hops", frame.clone(), &hops(4));
    // Without the setting it counts, as the README says.
    assert_eq!(between(frame, &hops(0)), NONE);
}

#[test]
fn a_header_that_contradicts_itself() {
    let mut frame = instead(flags::ACK, 500, b"XXXXX");
    frame[46] = 0x40;
    seal(&mut frame);
    assert_eq!(between(frame.clone(), &[]), [1]);
    let mut bench = Bench::new(RULE, &[("malformed", text("drop"))]);
    assert_eq!(bench.show(0, frame).0, Verdict::Drop(2));
}

#[test]
fn a_timestamp_of_long_ago() {
    let found = |stamps: bool, old: u32| {
        let options = |value| if stamps { stamp(value) } else { vec![] };
        let mut bench = Bench::new(RULE, &[]);
        bench.sids(segment(CLIENT, flags::SYN, [99, 0], 9000, &options(1000), &[]));
        bench.show(1, segment(SERVER, flags::SYN | flags::ACK, [499, 100], 9000, &options(7), &[]));
        bench.sids(segment(CLIENT, flags::ACK, [100, 500], 9000, &options(1001), b"mali"));
        bench.show(1, segment(SERVER, flags::ACK, [500, 104], 9000, &options(8), &[]));
        bench.sids(segment(CLIENT, flags::ACK, [104, 500], 9000, &options(1010), &[]));
        bench.sids(segment(CLIENT, flags::ACK, [104, 500], 9000, &stamp(old), b"XXXXX"));
        bench.sids(segment(CLIENT, flags::ACK, [104, 500], 9000, &options(1011), b"cious"))
    };
    assert_eq!(found(true, 900), [1]);
    assert_eq!(found(true, 1010u32.wrapping_sub(1 << 30)), [1]);
    // Without: one that the receiver takes, and a connection without timestamps.
    assert_eq!(found(true, 1010), NONE);
    assert_eq!(found(false, 900), NONE);
}

#[test]
fn resets_that_are_not_exact() {
    let reset = |seq, flags| tcp(CLIENT, SERVER, flags, seq, 500, &[]);
    for seq in [0, 99, 103, 105, 200, 104 + 65_535, 1 << 31] {
        hides_nothing("a reset", reset(seq, flags::RST), &[]);
        hides_nothing("a reset with an acknowledgement", reset(seq, flags::RST | flags::ACK), &[]);
    }
    // One that is exact ends the connection; what comes all the same is looked at.
    assert_eq!(between(reset(104, flags::RST), &[]), [1]);
    // Before the answer, which tells whether there is a connection.
    for seq in [5, 100] {
        let mut bench = Bench::new(RULE, &[]);
        bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
        bench.sids(tcp(CLIENT, SERVER, flags::RST, seq, 0, &[]));
        bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[]));
        bench.client(0, b"mali");
        assert_eq!(bench.client(4, b"cious"), [1], "{seq}");
    }
}

#[test]
fn ends_that_are_not_exact() {
    let end = |seq| tcp(CLIENT, SERVER, flags::FIN | flags::ACK, seq, 500, &[]);
    for seq in [90, 103, 105, 150] {
        assert_eq!(between(end(seq), &[]), [1], "{seq}");
    }
    // Both sides' ends, of which the client's is not: the connection is not forgotten.
    let known = |seq| {
        let mut bench = Bench::new(RULE, &[]);
        bench.handshake();
        bench.client(0, b"mali");
        bench.show(1, tcp(SERVER, CLIENT, flags::FIN | flags::ACK, 500, 104, &[]));
        bench.sids(end(seq));
        bench.now += 11.0;
        bench.client(4, b"cious")
    };
    assert_eq!(known(103), [1]);
    assert_eq!(known(105), [1]);
    assert_eq!(known(104), NONE);
}

#[test]
fn a_syn_again() {
    for seq in [99, 5, 103, 104, 9000] {
        assert_eq!(between(tcp(CLIENT, SERVER, flags::SYN, seq, 0, b"XXXXX"), &[]), [1], "{seq}");
    }
    hides_nothing("SYN and ACK", instead(flags::SYN | flags::ACK, 500, b"XXXXX"), &[]);
    // In the handshake: only the one that is answered opens a connection.
    for other in [5, 90, 200] {
        let mut bench = Bench::new(RULE, &[]);
        bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
        bench.sids(tcp(CLIENT, SERVER, flags::SYN, other, 0, &[]));
        bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[]));
        bench.client(0, b"mali");
        assert_eq!(bench.client(4, b"cious"), [1], "{other}");
        let mut bench = Bench::new(RULE, &[]);
        bench.sids(tcp(CLIENT, SERVER, flags::SYN, other, 0, &[]));
        bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
        bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[]));
        bench.client(0, b"mali");
        assert_eq!(bench.client(4, b"cious"), [1], "{other} first");
    }
    // After the connection, another one of the same ends, behind a SYN that is never answered.
    let mut bench = Bench::new(RULE, &[]);
    bench.handshake();
    bench.client(0, b"xxxx");
    bench.sids(tcp(CLIENT, SERVER, flags::SYN, 7999, 0, &[]));
    bench.sids(tcp(CLIENT, SERVER, flags::SYN, 70_000, 0, &[]));
    bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 9, 8000, &[]));
    bench.sids(tcp(CLIENT, SERVER, flags::ACK, 8000, 10, b"mali"));
    assert_eq!(bench.sids(tcp(CLIENT, SERVER, flags::ACK, 8004, 10, b"cious")), [1]);
}

#[test]
fn data_in_a_syn() {
    let found = |ack, rest: &[u8]| {
        let mut bench = Bench::new(RULE, &[]);
        let mut found = bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, b"mali"));
        found.extend(bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, ack, &[])).1);
        found.extend(bench.client(0, rest));
        found.extend(bench.client(4, b"cious"));
        found
    };
    // The server has taken it, or it comes again; else it does not count.
    assert_eq!(found(104, b""), [1]);
    assert_eq!(found(100, b"mali"), [1]);
    assert_eq!(found(100, b"XXXX"), NONE);
    // Of the server's, too.
    let mut bench = Bench::new(RULE, &[]);
    bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
    bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, b"mali"));
    bench.sids(tcp(CLIENT, SERVER, flags::ACK, 100, 504, &[]));
    assert_eq!(bench.server(4, b"cious"), [1]);
}

/// The server takes four bytes; what lies beyond counts when it is acknowledged, and not when it comes again
/// as something else.
#[test]
fn data_beyond_the_window() {
    let opened = || {
        let mut bench = Bench::new(RULE, &[]);
        bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
        bench.show(1, segment(SERVER, flags::SYN | flags::ACK, [499, 100], 4, &[], &[]));
        bench.sids(tcp(CLIENT, SERVER, flags::ACK, 100, 500, &[]));
        assert_eq!(bench.client(0, b"mali"), NONE);
        bench
    };
    let window = |ack, size| segment(SERVER, flags::ACK, [500, ack], size, &[], &[]);
    let mut bench = opened();
    assert_eq!(bench.client(4, b"XXXXX"), NONE);
    bench.show(1, window(104, 100));
    assert_eq!(bench.client(4, b"cious"), [1]);
    // Without: the window was open.
    let mut bench = opened();
    bench.show(1, window(104, 100));
    assert_eq!(bench.client(4, b"XXXXX"), NONE);
    assert_eq!(bench.client(4, b"cious"), NONE);
    // The server has taken a part of it all the same.
    let mut bench = opened();
    assert_eq!(bench.client(4, b"ciousness"), NONE);
    bench.show(1, window(109, 100));
    assert_eq!(bench.count("alerts"), 1);
    // The end of a segment that begins inside the window.
    let mut bench = opened();
    bench.show(1, window(104, 2));
    assert_eq!(bench.client(4, b"ciXXX"), NONE);
    bench.show(1, window(106, 100));
    assert_eq!(bench.client(6, b"ous"), [1]);
    // Shifted windows: 4 << 3 bytes.
    let scaled = |shift: u8| {
        let option = [1, 3, 3, shift];
        let mut bench = Bench::new(RULE, &[]);
        bench.sids(segment(CLIENT, flags::SYN, [99, 0], 9, &option, &[]));
        bench.show(1, segment(SERVER, flags::SYN | flags::ACK, [499, 100], 4, &option, &[]));
        bench.show(1, window(100, 4));
        bench.sids(tcp(CLIENT, SERVER, flags::ACK, 100, 500, &[]));
        bench.client(0, b"....mali");
        bench.client(8, b"XXXXX");
        bench.show(1, window(108, 4));
        bench.client(8, b"cious")
    };
    assert_eq!(scaled(3), NONE);
    assert_eq!(scaled(1), [1]);
}

#[test]
fn overlapping_segments_as_the_receiver_has_them() {
    // The middle comes twice before the beginning: what counts is one of them.
    let found = |overlap: &str, parts: &[(u32, &[u8])]| {
        let mut bench = Bench::new(RULE, &[("overlap", text(overlap))]);
        bench.handshake();
        parts.iter().flat_map(|(at, data)| bench.client(*at, data)).collect::<Vec<u64>>()
    };
    let same: [(u32, &[u8]); 3] = [(2, b"XXX"), (2, b"lic"), (0, b"ma")];
    let longer: [(u32, &[u8]); 3] = [(2, b"XXX"), (2, b"licious"), (0, b"ma")];
    let before: [(u32, &[u8]); 3] = [(2, b"XXX"), (1, b"alicious"), (0, b"m")];
    let behind: [(u32, &[u8]); 3] = [(2, b"licio"), (5, b"XXus"), (0, b"ma")];
    let over: [(u32, &[u8]); 2] = [(4, b"XXXXX"), (0, b"malicious")];
    for (policy, expected) in [
        ("first", [false, false, false, true, false]),
        ("last", [true, true, true, false, true]),
        ("linux", [false, true, true, true, true]),
        ("windows", [false, false, true, true, true]),
    ] {
        let rest: [&[(u32, &[u8])]; 5] = [&same, &longer, &before, &behind, &over];
        for (number, (parts, expected)) in rest.into_iter().zip(expected).enumerate() {
            let mut parts = parts.to_vec();
            if number == 0 {
                parts.insert(2, (5, b"ious"));
            }
            assert_eq!(found(policy, &parts), [1u64].repeat(usize::from(expected)), "{policy}, {number}");
        }
    }
}

/// Bytes that come again before they are acknowledged, and say something else: which of them the receiver
/// gets is not known.
#[test]
fn bytes_that_come_again_as_something_else() {
    let shown = |ignored: &str| {
        let mut bench = Bench::new(RULE, &[("ignored", text(ignored))]);
        bench.handshake();
        assert_eq!(bench.client(0, b"harmless!"), NONE);
        let verdict = bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"malicious"));
        assert_eq!(bench.count("conflicts"), 1);
        // The same again is no conflict, nor is what was acknowledged.
        assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"harm")), (ON, vec![]));
        bench.show(1, tcp(SERVER, CLIENT, flags::ACK, 500, 109, &[]));
        assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"malicious")), (ON, vec![]));
        assert_eq!(bench.count("conflicts"), 1);
        verdict
    };
    assert_eq!(shown("accept"), (ON, vec![1]));
    assert_eq!(shown("drop"), (Verdict::Drop(IGNORED), vec![1]));
}

/// What waits for bytes that never come is looked at when its connection ends.
#[test]
fn what_waits_behind_a_gap() {
    let waiting = || {
        let mut bench = Bench::new(RULE, &[]);
        bench.handshake();
        assert_eq!(bench.client(10, b"mali"), NONE);
        assert_eq!(bench.client(14, b"cious"), NONE);
        bench
    };
    // By a reset, once.
    let mut bench = waiting();
    assert_eq!(bench.sids(tcp(CLIENT, SERVER, flags::RST, 100, 0, &[])), [1]);
    let idle = |bench: &mut Bench, seconds: f64| {
        bench.now += seconds;
        for _ in 0..64 {
            bench.runner.timer(super::frames::at(bench.now));
        }
    };
    idle(&mut bench, 61.0);
    assert_eq!(
        (bench.count("alerts"), bench.count("gaps"), bench.report()["flows"]["now"].as_u64()),
        (1, 1, Some(0))
    );
    // By time, from the client to the server.
    let mut bench = waiting();
    idle(&mut bench, 8000.0);
    let told = bench.told();
    assert_eq!((told.len(), &told[0]["src_ip"], &told[0]["dest_port"]), (1, &"10.0.0.1".into(), &80.into()));
    assert_eq!(
        (&told[0]["direction"], &told[0]["alert"]["action"]),
        (&"to_server".into(), &"allowed".into())
    );
    assert_eq!((bench.count("gaps"), bench.report()["streams"]["held_bytes"].as_u64()), (1, Some(0)));
    // By another connection of the same ends.
    let mut bench = waiting();
    bench.sids(tcp(CLIENT, SERVER, flags::SYN, 7999, 0, &[]));
    assert_eq!(bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 9, 8000, &[])).1, [1]);
    // Without the gap it is found at once, and not again.
    let mut bench = Bench::new(RULE, &[]);
    bench.handshake();
    bench.client(10, b"malicious");
    assert_eq!(bench.client(0, b"xxxxxxxxxx"), [1]);
    assert_eq!(bench.sids(tcp(CLIENT, SERVER, flags::RST, 119, 0, &[])), NONE);
}

/// Segments that cannot be kept until their turn comes may be dropped: they will come again.
#[test]
fn a_segment_that_cannot_be_held() {
    let changes = |overload| [("reorder_limit", ConfigValue::Integer(100)), ("overload", text(overload))];
    for (overload, verdict) in [("accept", ON), ("drop", Verdict::Drop(4))] {
        let mut bench = Bench::new(RULE, &changes(overload));
        bench.handshake();
        assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 300, 500, b"x")).0, verdict);
        assert_eq!((bench.count("segments-lost"), bench.count("overloads")), (1, 1));
    }
}

#[test]
fn fragments_in_any_order() {
    let whole = tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"malicious");
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
        let mut bench = Bench::new(RULE, &[]);
        bench.handshake();
        let parts = fragments(&whole, 7, &[0..8, 8..24, 24..29]);
        let found: Vec<u64> = order.iter().flat_map(|part| bench.sids(parts[*part].clone())).collect();
        assert_eq!(found, [1]);
        assert_eq!((bench.count("fragments-seen"), bench.count("datagrams")), (3, 1));
    }
    // Without the last one, nothing is found, and it is counted.
    let mut bench = Bench::new(RULE, &[]);
    bench.handshake();
    for part in fragments(&whole, 7, &[0..8, 8..24]) {
        assert_eq!(bench.sids(part), NONE);
    }
    bench.now += 31.0;
    bench.runner.timer(super::frames::at(bench.now));
    bench.show(1, tcp(SERVER, CLIENT, flags::ACK, 500, 100, &[]));
    assert_eq!(bench.count("fragments-lost"), 1);
    // In a tunnel, and the tunnel itself in fragments.
    let tunnel = |inner: &[u8]| {
        udp(("10.9.0.1", 50_000), ("10.9.0.2", 4789), &[&[8, 0, 0, 0, 0, 0, 7, 0], inner].concat())
    };
    for around in [false, true] {
        let mut bench = Bench::new(RULE, &[]);
        bench.sids(tunnel(&tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[])));
        bench.sids(tunnel(&tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[])));
        bench.sids(tunnel(&tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"mali")));
        let rest = tcp(CLIENT, SERVER, flags::ACK, 104, 500, b"cious");
        let found: Vec<u64> = if around {
            fragments(&tunnel(&rest), 7, &[0..40, 40..75])
                .into_iter()
                .flat_map(|part| bench.sids(part))
                .collect()
        } else {
            let parts = fragments(&rest, 7, &[0..16, 16..25]);
            parts.into_iter().flat_map(|part| bench.sids(tunnel(&part))).collect()
        };
        assert_eq!((found, bench.count("flows-opened")), (vec![1], 2), "{around}");
    }
    // A datagram whose checksum is wrong.
    let mut wrong = whole.clone();
    wrong[50] ^= 1;
    let mut bench = Bench::new(RULE, &[]);
    bench.handshake();
    for part in fragments(&wrong, 7, &[0..8, 8..29]) {
        bench.sids(part);
    }
    assert_eq!((bench.count("checksum-errors"), bench.count("bytes")), (1, 0));
}

#[test]
fn overlapping_fragments_as_the_receiver_has_them() {
    let rule = "drop udp any any -> any any (content:\"malicious stuff\"; sid:1;)";
    let frame = |data: &[u8]| {
        let mut frame = udp(CLIENT, SERVER, data);
        // None of them fits all.
        frame[40..42].fill(0);
        frame
    };
    let (bad, good) = (frame(b"malicious stuff."), frame(b"harmless, really"));
    let part = |frame: &[u8], range: std::ops::Range<usize>| fragments(frame, 9, &[range]).remove(0);
    // The second eight bytes twice.
    for (overlap, bad_first, good_first) in
        [("first", true, false), ("last", false, true), ("windows", true, false), ("linux", false, false)]
    {
        for (first, second, expected) in [(&bad, &good, bad_first), (&good, &bad, good_first)] {
            let mut bench = Bench::new(rule, &[("overlap", text(overlap))]);
            bench.show(0, part(&bad, 0..8));
            bench.show(0, part(first, 8..16));
            bench.show(0, part(second, 8..16));
            let (verdict, found) = bench.show(0, part(&bad, 16..24));
            assert_eq!(
                (verdict == Verdict::Drop(0), found.len()),
                (expected, usize::from(expected)),
                "{overlap}"
            );
        }
    }
}

#[test]
fn fragments_that_there_is_no_room_for() {
    for (overload, verdict) in [("accept", ON), ("drop", Verdict::Drop(4))] {
        let mut bench = Bench::new(RULE, &[("overload", text(overload))]);
        let whole = udp(CLIENT, SERVER, &[b'x'; 64]);
        let shown: Vec<Verdict> = (0..40)
            .map(|id| bench.show(0, fragments(&whole, id, std::slice::from_ref(&(0..8))).remove(0)).0)
            .collect();
        assert_eq!((shown[0], shown[39]), (ON, verdict));
        assert!(bench.count("fragments-lost") > 0);
    }
}

/// Rules say nothing about a flow because of a packet that its receiver ignores.
#[test]
fn ignored_packets_end_no_flow() {
    let rules = "drop tcp any any -> any any (content:\"malicious\"; sid:1;)";
    let mut bench = Bench::new(rules, &[]);
    bench.handshake();
    assert_eq!(bench.show(0, instead(0, 0, b"malicious")), (Verdict::Drop(0), vec![1]));
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"harmless")).0, ON);
    assert_eq!(bench.count("ignored-seen"), 1);
}

/// Packets have come by both interfaces: the ends of a connection are behind one of them each.
fn bridged(changes: &[(&str, ConfigValue)]) -> Bench {
    let mut bench = Bench::new(RULE, changes);
    bench.show(1, udp(SERVER, CLIENT, b"hello"));
    bench.show(0, udp(CLIENT, SERVER, b"hello"));
    bench
}

/// What a client says in its server's name comes by the wrong interface.
#[test]
fn an_answer_that_is_not_the_servers() {
    let made_up = |ack| tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 4_999_999, ack, &[]);
    let found = |sides: &str, ingress: u16, is_told: bool| {
        let mut bench = bridged(&[("sides", text(sides))]);
        bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
        bench.show(ingress, made_up(100));
        bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[]));
        if is_told {
            bench.sids(tcp(CLIENT, SERVER, flags::ACK, 100, 5_000_000, &[]));
        }
        bench.sids(tcp(CLIENT, SERVER, flags::ACK, 100, 500, &[]));
        bench.client(0, b"mali");
        bench.client(4, b"cious")
    };
    // Of two answers the client's acknowledgement chooses one, and the interface tells which is the server's.
    assert_eq!(found("apart", 0, false), [1]);
    assert_eq!(found("apart", 0, true), [1]);
    assert_eq!(found("any", 0, false), [1]);
    assert_eq!(found("apart", 1, false), [1]);
    // Without: the first acknowledgement counts.
    assert_eq!(found("any", 0, true), NONE);
    // A reset before the answer, as if the connection was refused.
    let mut bench = bridged(&[]);
    bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
    bench.sids(tcp(SERVER, CLIENT, flags::RST | flags::ACK, 0, 100, &[]));
    bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[]));
    bench.client(0, b"mali");
    assert_eq!(bench.client(4, b"cious"), [1]);
}

/// What others say in the name of a connection's ends comes by the wrong interface, or is not answered.
#[test]
fn a_connection_that_others_know_of() {
    let found = |sides: &str, by: u16, frames: &[Vec<u8>]| {
        let mut bench = bridged(&[("sides", text(sides))]);
        bench.handshake();
        bench.client(0, b"mali");
        for frame in frames {
            bench.show(by, frame.clone());
        }
        bench.client(4, b"cious")
    };
    let another = [
        tcp(CLIENT, SERVER, flags::SYN, 70_000, 0, &[]),
        tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 9, 70_001, &[]),
    ];
    assert_eq!(found("apart", 0, &another), [1]);
    assert_eq!(found("apart", 1, &another), [1]);
    assert_eq!(found("any", 0, &another), NONE);
    let reset = [tcp(CLIENT, SERVER, flags::RST, 104, 0, &[])];
    assert_eq!(found("apart", 1, &reset), [1]);
    let data = [tcp(CLIENT, SERVER, flags::ACK, 104, 500, b"XXXXX")];
    assert_eq!(found("apart", 1, &data), [1]);
    assert_eq!(found("any", 1, &data), NONE);
    // An acknowledgement that lets the stream go on behind a gap.
    let found = |sides: &str, by: u16| {
        let mut bench = bridged(&[("sides", text(sides))]);
        bench.handshake();
        bench.client(9, b"xxxx");
        bench.show(by, tcp(SERVER, CLIENT, flags::ACK, 500, 113, &[]));
        bench.client(0, b"mali");
        bench.client(4, b"cious")
    };
    assert_eq!(found("apart", 0), [1]);
    assert_eq!((found("any", 0), found("apart", 1)), (NONE.to_vec(), NONE.to_vec()));
    // SYN packets by both interfaces before the answer: the one by the client's is answered.
    for order in [[0, 1], [1, 0]] {
        let mut bench = bridged(&[]);
        for by in order {
            for again in 0..2 {
                let seq = if by == 0 { 99 } else { 5000 + again };
                bench.show(by, tcp(CLIENT, SERVER, flags::SYN, seq, 0, &[]));
            }
        }
        bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[]));
        bench.client(0, b"mali");
        assert_eq!(bench.client(4, b"cious"), [1], "{order:?}");
    }
}

/// A connection between two hosts behind the same interface, by way of a router behind the other one; and all
/// packets by one interface.
#[test]
fn connections_that_pass_by_twice_or_by_one_interface() {
    let mut bench = Bench::new(RULE, &[("ignored", text("drop"))]);
    bench.show(1, udp(SERVER, CLIENT, b"hello"));
    let frames = [
        tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]),
        tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[]),
        tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"mali"),
        tcp(SERVER, CLIENT, flags::ACK, 500, 104, b"x"),
        tcp(CLIENT, SERVER, flags::ACK, 104, 501, b"cious"),
    ];
    let mut found = vec![];
    for frame in &frames {
        for by in [0, 1] {
            let (verdict, sids) = bench.show(by, frame.clone());
            assert_eq!(verdict, Verdict::Interface(1 - by));
            found.extend(sids);
        }
    }
    assert_eq!((found, bench.count("ignored-seen")), (vec![1], 0));
    let mut bench = Bench::new(RULE, &[]);
    let found: Vec<u64> = frames.into_iter().flat_map(|frame| bench.sids(frame)).collect();
    assert_eq!(found, [1]);
}

/// Drop rules that a packet in another's name matches.
#[test]
fn packets_in_anothers_name_end_no_flow() {
    let rules = "drop ip any any -> any any (content:\"malicious\"; sid:1;)";
    let mut bench = Bench::new(rules, &[]);
    bench.show(0, udp(CLIENT, SERVER, b"hello"));
    bench.show(1, udp(SERVER, CLIENT, b"hello"));
    assert_eq!(bench.show(0, udp(SERVER, CLIENT, b"malicious")).0, Verdict::Drop(0));
    assert_eq!(bench.show(1, udp(SERVER, CLIENT, b"hello")).0, Verdict::Interface(0));
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, b"hello")).0, ON);
    assert_eq!(bench.show(0, udp(SERVER, CLIENT, b"hello")).0, Verdict::Drop(1));
    // Without: it was the server itself.
    assert_eq!(bench.show(1, udp(SERVER, CLIENT, b"malicious")).0, Verdict::Drop(0));
    assert_eq!(bench.show(1, udp(SERVER, CLIENT, b"hello")).0, Verdict::Drop(1));
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, b"hello")).0, Verdict::Drop(1));
    // Of no connection that is known: whether there is one, no packet of it tells.
    let mut bench = Bench::new(rules, &[]);
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"malicious")).0, Verdict::Drop(0));
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"harmless")).0, ON);
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 100, 500, b"malicious")).0, Verdict::Drop(0));
}

/// A flood of flows that nothing answers.
#[test]
fn a_flood_pushes_out_no_connection() {
    let mut bench = Bench::new(RULE, &[("max_flows", ConfigValue::Integer(64))]);
    bench.handshake();
    bench.client(0, b"mali");
    bench.now += 1.0;
    for number in 0..2000u16 {
        let from = (format!("203.0.113.{}", number % 200), 1000 + number);
        bench.show(0, tcp((&from.0, from.1), SERVER, flags::SYN, 9, 0, &[]));
        if number % 3 == 0 {
            bench.show(0, udp((&from.0, from.1), SERVER, b"x"));
        }
    }
    assert_eq!(bench.client(4, b"cious"), [1]);
    assert!(bench.count("flows-evicted") > 1000);
    // Nor one whose packets are dropped.
    let drop = "drop tcp any any -> any any (content:\"malicious\"; sid:1;)";
    let mut bench = Bench::new(drop, &[("max_flows", ConfigValue::Integer(64))]);
    bench.handshake();
    assert_eq!(bench.client(0, b"malicious"), [1]);
    bench.now += 1.0;
    for number in 0..2000u16 {
        bench.show(0, tcp(("203.0.113.1", 1000 + number), SERVER, flags::SYN, 9, 0, &[]));
    }
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 109, 500, b"more")).0, Verdict::Drop(1));
}

/// The beginnings of more rules than can wait.
#[test]
fn beginnings_of_other_rules_hide_none() {
    let rules: String = (0..50)
        .map(|n| {
            format!(
                "alert tcp any any -> any any (content:\"begins{n:02}\"; fast_pattern; content:\"ends{n:02}\"; sid:{};)\n",
                n + 1
            )
        })
        .collect();
    let beginnings: String = (0..50).map(|n| format!("begins{n:02} ")).collect();
    for number in 0..50u64 {
        let mut bench = Bench::new(&rules, &[]);
        bench.handshake();
        assert_eq!(bench.client(0, beginnings.as_bytes()), NONE);
        let at = beginnings.len() as u32;
        assert_eq!(bench.client(at, b"nothing"), NONE);
        let end = format!("ends{number:02}");
        assert_eq!(bench.client(at + 7, end.as_bytes()), [number + 1]);
        assert_eq!(bench.client(at + 13, b"nothing"), NONE);
    }
}

/// Segments of one client that wait for ever.
#[test]
fn segments_that_wait_for_ever_take_no_room_from_others() {
    let memory = ("stream_memory", ConfigValue::Integer(1 << 20));
    let mut bench = Bench::new(RULE, &[memory]);
    let open = |bench: &mut Bench, client: (&str, u16)| {
        bench.show(0, tcp(client, SERVER, flags::SYN, 99, 0, &[]));
        bench.show(1, tcp(SERVER, client, flags::SYN | flags::ACK, 499, 100, &[]));
        bench.show(0, tcp(client, SERVER, flags::ACK, 100, 500, &[]));
    };
    for source in 0..40u16 {
        let address = format!("10.0.9.{}", source.saturating_sub(20));
        let client = (address.as_str(), 1000 + source);
        open(&mut bench, client);
        for piece in 0..20 {
            bench.show(0, tcp(client, SERVER, flags::ACK, 101 + 1400 * piece, 500, &[b'x'; 1400]));
        }
        let client = ("10.0.0.77", 2000 + source);
        open(&mut bench, client);
        bench.sids(tcp(client, SERVER, flags::ACK, 104, 500, b"cious"));
        assert_eq!(bench.sids(tcp(client, SERVER, flags::ACK, 100, 500, b"mali")), [1], "{source}");
    }
    // What nothing more comes for is not waited for.
    bench.now += 31.0;
    for _ in 0..64 {
        bench.runner.timer(super::frames::at(bench.now));
    }
    assert_eq!(bench.report()["streams"]["held_bytes"].as_u64(), Some(0));
}

/// A stream goes on behind what was acknowledged, though nothing could be held.
#[test]
fn a_gap_behind_which_nothing_waits() {
    let mut bench = Bench::new(RULE, &[("reorder_limit", ConfigValue::Integer(100))]);
    bench.handshake();
    assert_eq!(bench.client(200, b"lost"), NONE);
    bench.show(1, tcp(SERVER, CLIENT, flags::ACK, 500, 304, &[]));
    assert_eq!(bench.client(204, b"mali"), NONE);
    assert_eq!(bench.client(208, b"cious"), [1]);
    assert_eq!(bench.count("gaps"), 1);
    // The end of a stream is no gap.
    let mut bench = Bench::new(RULE, &[]);
    bench.handshake();
    bench.sids(tcp(CLIENT, SERVER, flags::FIN | flags::ACK, 100, 500, b"x"));
    bench.show(1, tcp(SERVER, CLIENT, flags::ACK, 500, 102, &[]));
    assert_eq!(bench.count("gaps"), 0);
}

/// First fragments from many addresses.
#[test]
fn fragments_of_others_hide_none() {
    for (overload, expected) in [("accept", vec![1]), ("drop", vec![])] {
        let rule = "alert udp any any -> any any (content:\"malicious\"; sid:1;)";
        let mut bench = Bench::new(rule, &[("overload", text(overload))]);
        for number in 0..4000u16 {
            let from = format!("203.0.{}.{}", number >> 8, number & 255);
            let part =
                fragments(&udp((&from, 1), SERVER, &[b'x'; 64]), number, std::slice::from_ref(&(0..8)));
            bench.show(0, part[0].clone());
        }
        let whole = udp(CLIENT, SERVER, b"x malicious datagram");
        let found: Vec<u64> =
            fragments(&whole, 7, &[0..16, 16..28]).into_iter().flat_map(|part| bench.sids(part)).collect();
        assert_eq!(found, expected, "{overload}");
    }
}

/// What a packet does not tell: it counts, as the README says.
#[test]
fn what_keeps_a_packet_from_its_receiver_and_cannot_be_seen() {
    let frame = || instead(flags::ACK, 500, b"XXXXX");
    // Another Ethernet address than the receiver's.
    let mut elsewhere = frame();
    elsewhere[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x77]);
    assert_eq!(between(elsewhere, &[]), NONE);
    // Not to be cut, where the next link may be narrower.
    let mut uncut = frame();
    uncut[20] |= 0x40;
    seal(&mut uncut);
    assert_eq!(between(uncut, &[]), NONE);
    // A loose source route, which many hosts and routers do not follow.
    let mut routed = frame();
    routed.splice(34..34, [131, 7, 4, 192, 0, 2, 9, 0]);
    routed[14] = 0x47;
    let length = routed.len() as u16 - 14;
    routed[16..18].copy_from_slice(&length.to_be_bytes());
    seal(&mut routed);
    assert_eq!(between(routed, &[]), NONE);
}
