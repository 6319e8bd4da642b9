//! Patterns in streams, however their segments come.

use super::frames::{Bench, CLIENT, NONE, SERVER, at, flags, tcp, udp};
use crate::metrics::Reason;
use nf_sdk::native::{ConfigValue, TestPacket};
use nf_sdk::{PacketRecord, Verdict};

const SPLIT: &str = "alert tcp any any -> any any (content:\"malicious\"; sid:1;)";

fn open(rules: &str, changes: &[(&str, ConfigValue)]) -> Bench {
    let mut bench = Bench::new(rules, changes);
    bench.handshake();
    bench
}

#[test]
fn split_anywhere() {
    let text = b"xxmaliciousxx";
    for cut in 1..text.len() {
        let mut bench = open(SPLIT, &[]);
        let first = bench.client(0, &text[..cut]);
        let second = bench.client(cut as u32, &text[cut..]);
        assert_eq!([first, second].concat(), [1], "cut at {cut}");
    }
    let mut bench = open(SPLIT, &[]);
    let found: Vec<u64> = text.iter().zip(0..).flat_map(|(byte, at)| bench.client(at, &[*byte])).collect();
    assert_eq!(found, [1]);
}

#[test]
fn each_direction_for_itself() {
    let mut bench = open(SPLIT, &[]);
    assert_eq!(bench.client(0, b"mali"), NONE);
    assert_eq!(bench.server(0, b"cious"), NONE);
    assert_eq!(bench.client(4, b"cious"), [1]);
    assert_eq!(bench.server(5, b"malicious"), [1]);
}

#[test]
fn repeated_segments_match_once() {
    let mut bench = open(SPLIT, &[]);
    assert_eq!(bench.client(0, b"malicious"), [1]);
    assert_eq!(bench.client(0, b"malicious"), NONE);
    assert_eq!(bench.client(5, b"cious and"), NONE);
    assert_eq!(bench.client(14, b" malicious"), [1]);
    assert_eq!(bench.count("repeated"), 1);
}

#[test]
fn overlapping_segments() {
    let mut bench = open(SPLIT, &[]);
    assert_eq!(bench.client(0, b"malic"), NONE);
    // What was there first counts: the second text for it is not looked at.
    assert_eq!(bench.client(2, b"XXXious"), [1]);
}

#[test]
fn in_any_order() {
    let mut bench = open(SPLIT, &[]);
    assert_eq!(bench.client(6, b"ous"), NONE);
    assert_eq!(bench.client(3, b"ici"), NONE);
    assert_eq!(bench.client(3, b"ici"), NONE);
    assert_eq!(bench.report()["streams"]["held_bytes"], 6);
    assert_eq!(bench.client(0, b"mal"), [1]);
    assert_eq!(bench.report()["streams"]["held_bytes"], 0);
    assert_eq!((bench.count("segments-held"), bench.count("segments-lost")), (3, 0));
}

#[test]
fn too_far_ahead_is_not_held() {
    let mut bench = open(SPLIT, &[("reorder_limit", ConfigValue::Integer(100))]);
    // It will never be seen in its stream: it is looked at alone.
    assert_eq!(bench.client(200, b"malicious"), [1]);
    assert_eq!(bench.count("segments-lost"), 1);
    // One that is held is looked at by rules about packets at once, and by those about streams when its turn
    // comes.
    let rules = "alert tcp any any -> any any (content:\"malicious\"; dsize:9; sid:2;)\n".to_owned() + SPLIT;
    let mut bench = open(&rules, &[]);
    assert_eq!(bench.client(4, b"malicious"), [2]);
    assert_eq!(bench.client(0, b"...."), [1]);
}

#[test]
fn a_gap_that_is_acknowledged_is_passed_over() {
    let mut bench = open(SPLIT, &[]);
    assert_eq!(bench.client(0, b"mali"), NONE);
    assert_eq!(bench.client(10, b"malicious"), NONE);
    let ack = |ack| tcp(SERVER, CLIENT, flags::ACK, 500, ack, &[]);
    assert_eq!(bench.show(1, ack(104)).1, NONE);
    // The alert is about the client's data.
    bench.show(1, ack(119));
    assert_eq!(bench.count("alerts"), 1);
    let told: serde_json::Value = serde_json::from_str(&bench.runner.host().events()[0]).expect("JSON");
    assert_eq!((&told["src_ip"], &told["direction"]), (&"10.0.0.1".into(), &"to_server".into()));
    assert_eq!(bench.count("gaps"), 1);
    assert_eq!(bench.client(19, b"malicious"), [1]);
}

#[test]
fn contents_that_come_one_after_the_other() {
    let rules = "alert tcp any any -> any any (content:\"first-long-one\"; content:\"b\"; distance:0; content:\"third\"; distance:1; sid:1;)";
    let mut bench = open(rules, &[]);
    assert_eq!(bench.client(0, b"a first-lo"), NONE);
    assert_eq!(bench.client(10, b"ng-one and then "), NONE);
    assert_eq!(bench.client(26, b"b "), NONE);
    assert_eq!(bench.client(28, b"third"), [1]);
    // Once it has matched, it begins anew.
    assert_eq!(bench.client(33, b" third"), NONE);
    assert_eq!(bench.client(39, b"first-long-one b third"), [1]);
}

#[test]
fn beyond_the_window_is_forgotten() {
    let rules = "alert tcp any any -> any any (content:\"first-long\"; content:\"second\"; sid:1;)";
    let mut bench = open(rules, &[("stream_window", ConfigValue::Integer(64))]);
    assert_eq!(bench.client(0, b"first-long"), NONE);
    assert_eq!(bench.client(10, &[b'.'; 40]), NONE);
    assert_eq!(bench.client(50, b"second"), [1]);
    assert_eq!(bench.client(56, &[b'.'; 80]), NONE);
    assert_eq!(bench.client(136, b"second"), NONE);
}

#[test]
fn places_in_a_stream_count_from_its_beginning() {
    let rules = "alert tcp any any -> any any (content:\"GET /\"; depth:5; sid:1;)\n\
                 alert tcp any any -> any any (content:\"abc\"; offset:10; depth:6; sid:2;)";
    let mut bench = open(rules, &[]);
    assert_eq!(bench.client(0, b"GE"), NONE);
    assert_eq!(bench.client(2, b"T / HT"), [1]);
    assert_eq!(bench.client(8, b"....abc"), [2]);
    assert_eq!(bench.client(15, b"abc"), NONE);
}

#[test]
fn without_a_handshake_packets_are_looked_at_alone() {
    let mut bench = Bench::new(SPLIT, &[]);
    assert_eq!(bench.client(0, b"mali"), NONE);
    assert_eq!(bench.client(4, b"cious"), NONE);
    assert_eq!(bench.client(9, b"malicious"), [1]);
    let mut bench = Bench::new(SPLIT, &[("pick_up", ConfigValue::Boolean(true))]);
    assert_eq!(bench.client(0, b"mali"), NONE);
    assert_eq!(bench.client(4, b"cious"), [1]);
}

#[test]
fn only_established_and_only_streams() {
    let rules = "alert tcp any any -> any any (content:\"malicious\"; flow:established,to_server; sid:1;)\n\
                 alert tcp any any -> any any (content:\"malicious\"; flow:only_stream; sid:2;)\n\
                 alert tcp any any -> any any (content:\"malicious\"; flow:no_stream; sid:3;)";
    let mut bench = Bench::new(rules, &[]);
    assert_eq!(bench.client(0, b"malicious"), [3]);
    let mut bench = open(rules, &[]);
    assert_eq!(bench.client(0, b"malicious"), [1, 2, 3]);
    assert_eq!(bench.server(0, b"malicious"), [2, 3]);
    assert_eq!(bench.client(9, b"mali"), NONE);
    assert_eq!(bench.client(13, b"cious"), [1, 2]);
}

#[test]
fn a_reset_counts_only_with_the_expected_number() {
    for (seq, is_known) in [(90_000, true), (105, true), (104, false)] {
        let mut bench = open(SPLIT, &[]);
        assert_eq!(bench.client(0, b"mali"), NONE);
        bench.show(0, tcp(CLIENT, SERVER, flags::RST, seq, 0, &[]));
        // A connection that a reset has ended is forgotten soon; until then what comes is looked at.
        bench.now += 61.0;
        assert_eq!(bench.client(4, b"cious"), [1u64].repeat(usize::from(is_known)), "{seq}");
        let mut bench = open(SPLIT, &[]);
        assert_eq!(bench.client(0, b"mali"), NONE);
        bench.show(0, tcp(CLIENT, SERVER, flags::RST, seq, 0, &[]));
        assert_eq!(bench.client(4, b"cious"), [1]);
    }
}

#[test]
fn the_same_ends_may_begin_again() {
    let mut bench = open(SPLIT, &[]);
    assert_eq!(bench.client(0, b"mali"), NONE);
    // A SYN without an answer changes nothing.
    bench.show(0, tcp(CLIENT, SERVER, flags::SYN, 7000, 0, &[]));
    assert_eq!(bench.client(4, b"cious"), [1]);
    bench.show(0, tcp(CLIENT, SERVER, flags::SYN, 8000, 0, &[]));
    bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 10, 8001, &[]));
    bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 8001, 11, b"mali"));
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 8005, 11, b"cious")).1, [1]);
    // What is left of the first connection is part of no stream.
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 109, 11, b"cious")).1, NONE);
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 8010, 11, b"malicious")).1, [1]);
}

#[test]
fn both_sides_end_and_begin_again() {
    let mut bench = open(SPLIT, &[]);
    assert_eq!(bench.client(0, b"mali"), NONE);
    bench.show(0, tcp(CLIENT, SERVER, flags::FIN | flags::ACK, 104, 500, b"ci"));
    bench.show(1, tcp(SERVER, CLIENT, flags::FIN | flags::ACK, 500, 107, &[]));
    // The end takes a number of its own, and nothing comes behind it; with a SYN, another connection does.
    bench.show(0, tcp(CLIENT, SERVER, flags::SYN, 105, 0, &[]));
    bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 9, 106, &[]));
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 106, 10, b"ous")).1, NONE);
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 109, 10, b" malicious")).1, [1]);
}

#[test]
fn sequence_numbers_wrap() {
    let mut bench = Bench::new(SPLIT, &[]);
    let begin = u32::MAX - 3;
    bench.show(0, tcp(CLIENT, SERVER, flags::SYN, begin.wrapping_sub(1), 0, &[]));
    bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, begin, &[]));
    bench.show(0, tcp(CLIENT, SERVER, flags::ACK, begin, 500, b"mal"));
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, begin.wrapping_add(6), 500, b"ous")).1, NONE);
    assert_eq!(bench.show(0, tcp(CLIENT, SERVER, flags::ACK, begin.wrapping_add(3), 500, b"ici")).1, [1]);
}

#[test]
fn segments_as_long_as_a_packet_can_be() {
    let mut bench = open(SPLIT, &[]);
    let mut data = vec![b'.'; 65_400];
    data[65_391..].copy_from_slice(b"malicious");
    let acknowledge = |bench: &mut Bench, at: u32| {
        bench.show(1, tcp(SERVER, CLIENT, flags::ACK, 500, 100 + at, &[]));
    };
    assert_eq!(bench.client(0, &data), [1]);
    acknowledge(&mut bench, 65_400);
    data[65_391..].fill(b'.');
    data[..5].copy_from_slice(b"cious");
    assert_eq!(bench.client(65_400, &[b"mali".as_slice(), &data[..65_396]].concat()), [1]);
    acknowledge(&mut bench, 130_800);
    data[65_396..].copy_from_slice(b"mali");
    assert_eq!(bench.client(130_800, &data), NONE);
    acknowledge(&mut bench, 196_200);
    assert_eq!(bench.client(196_200, &data), [1]);
}

#[test]
fn windows_are_shared_out() {
    let rules = "alert tcp any any -> any any (content:\"first\"; content:\"second\"; sid:1;)";
    let memory =
        [("stream_memory", ConfigValue::Integer(64 << 10)), ("stream_window", ConfigValue::Integer(16_384))];
    let mut bench = Bench::new(rules, &memory);
    let open_and_say = |bench: &mut Bench, port: u16, data: &[u8]| {
        let client = ("10.0.0.1", port);
        bench.now += 1.0;
        bench.show(0, tcp(client, SERVER, flags::SYN, 99, 0, &[]));
        bench.show(1, tcp(SERVER, client, flags::SYN | flags::ACK, 499, 100, &[]));
        bench.show(0, tcp(client, SERVER, flags::ACK, 100, 500, data)).1
    };
    for port in 1..=5 {
        assert_eq!(open_and_say(&mut bench, port, b"first"), NONE);
    }
    // Of three windows, the two that were idle the longest are gone.
    assert_eq!(bench.report()["streams"]["max_windows"], 2);
    assert_eq!(bench.count("streams-evicted"), 3);
    let second = |port| tcp(("10.0.0.1", port), SERVER, flags::ACK, 105, 500, b"second");
    assert_eq!(bench.sids(second(5)), [1]);
    assert_eq!(bench.sids(second(4)), [1]);
    assert_eq!(bench.sids(second(1)), NONE);
}

/// A client with very many connections pushes out streams of its own first, and what goes on of these is
/// counted, and dropped where what was not looked at to the end is.
#[test]
fn a_client_pushes_out_no_stream_of_others() {
    let rules = "alert tcp any any -> any any (content:\"first\"; content:\"second\"; sid:1;)";
    for (overload, verdict) in
        [("accept", Verdict::Interface(1)), ("drop", Verdict::Drop(Reason::Overload as u16))]
    {
        let changes =
            [("stream_memory", ConfigValue::Integer(64 << 10)), ("overload", ConfigValue::text(overload))];
        let mut bench = Bench::new(rules, &changes);
        let open_and_say = |bench: &mut Bench, client: (&str, u16), data: &[u8]| {
            bench.now += 0.001;
            bench.show(0, tcp(client, SERVER, flags::SYN, 99, 0, &[]));
            bench.show(1, tcp(SERVER, client, flags::SYN | flags::ACK, 499, 100, &[]));
            bench.show(0, tcp(client, SERVER, flags::ACK, 100, 500, data)).1
        };
        assert_eq!(open_and_say(&mut bench, CLIENT, b"first"), NONE);
        for port in 1..=100 {
            assert_eq!(open_and_say(&mut bench, ("10.9.9.9", port), b"first"), NONE);
        }
        assert!(bench.count("streams-evicted") > 50);
        let second = |client| tcp(client, SERVER, flags::ACK, 105, 500, b"second");
        assert_eq!(bench.show(0, second(CLIENT)), (Verdict::Interface(1), vec![1]));
        assert_eq!(bench.count("overloads"), 0);
        assert_eq!(bench.show(0, second(("10.9.9.9", 1))), (verdict, vec![]), "{overload}");
        assert_eq!(bench.count("overloads"), 1);
        // What it says behind that is looked at again.
        let third = tcp(("10.9.9.9", 1), SERVER, flags::ACK, 111, 500, b"first and second");
        assert_eq!(bench.show(0, third), (Verdict::Interface(1), vec![1]));
    }
}

/// How far data reach, and what must not come within so many bytes, split anywhere: as in one piece.
#[test]
fn lengths_split_anywhere() {
    let rules = "alert tcp any any -> any any (content:\"USER\"; isdataat:20,relative; sid:1;)\n\
                 alert tcp any any -> any any (content:\"USER\"; isdataat:!20,relative; sid:2;)\n\
                 alert tcp any any -> any any (content:\"USER\"; content:!\"|0a|\"; within:20; sid:3;)\n\
                 alert tcp any any -> any any (content:\"USER\"; content:\"PASS\"; within:20; sid:4;)\n\
                 alert tcp any any -> any any (content:\"USER\"; isdataat:20,relative; content:!\"|0a|\"; within:20; sid:5;)";
    let end = |at: usize| tcp(CLIENT, SERVER, flags::FIN | flags::ACK, 100 + at as u32, 500, &[]);
    for (text, expected) in [
        (b"USER xxxxxxxxxxxxxxxxxxxxxxxxx".as_slice(), vec![1, 3, 5]),
        (b"USER x\nxxxxxxxxxxxxxxxxxxxxxxx", vec![1]),
        (b"..USER x", vec![2, 3]),
        (b"..USER x\n", vec![2]),
        (b"USER xxxxxx PASS", vec![2, 3, 4]),
        (b"USER xxxxxxxxxxxxxxxx PASS xx\n", vec![1, 3, 5]),
        // Of two, one is enough.
        (b"USER\nUSER xxxxxxxxxxxxxxxxxxxxx", vec![1, 3, 5]),
    ] {
        for cut in 0..text.len() {
            let mut bench = open(rules, &[]);
            let mut found = bench.client(0, &text[..cut]);
            found.extend(bench.client(cut as u32, &text[cut..]));
            found.extend(bench.sids(end(text.len())));
            found.sort_unstable();
            assert_eq!(found, expected, "{text:?} cut at {cut}");
        }
        let mut bench = open(rules, &[]);
        let mut found: Vec<u64> =
            text.iter().zip(0..).flat_map(|(byte, at)| bench.client(at, &[*byte])).collect();
        // Another end: the connection is forgotten.
        bench.now += 8000.0;
        for _ in 0..64 {
            bench.runner.timer(super::frames::at(bench.now));
        }
        found.extend(bench.told().iter().map(|told| told["alert"]["signature_id"].as_u64().expect("a sid")));
        found.sort_unstable();
        assert_eq!(found, expected, "{text:?} byte by byte");
    }
}

#[test]
fn flows_end_by_the_time_that_packets_say() {
    let mut bench = Bench::new("alert udp any any -> any any (flow:established; content:\"x\"; sid:1;)", &[]);
    let mut show = |seconds: u64, ends: [(&str, u16); 2]| {
        let timestamp = (1_000_000_000 + seconds) * 1_000_000_000;
        let packet = TestPacket {
            bytes: udp(ends[0], ends[1], b"x"),
            record: PacketRecord { timestamp, ..PacketRecord::default() },
        };
        // All of it is read at once.
        bench.runner.run(&[packet], at(0.0));
        bench.told().len()
    };
    assert_eq!((show(0, [CLIENT, SERVER]), show(299, [SERVER, CLIENT])), (0, 1));
    assert_eq!((show(599, [SERVER, CLIENT]), show(900, [CLIENT, SERVER])), (1, 0));
    assert_eq!(bench.count("flows-expired"), 1);
    // Without packets time goes on as the host's does.
    for seconds in 0..64 {
        bench.runner.timer(at(301.0 + f64::from(seconds)));
    }
    assert_eq!(bench.count("flows-expired"), 2);
}

/// Each direction has the rules for it, those without a direction, and no others; without a direction no
/// others.
#[test]
fn rules_for_a_direction_are_found_in_it() {
    let rules = "alert tcp any any -> any any (flow:to_server; content:\"malicious\"; sid:1;)\n\
                 alert tcp any any -> any any (flow:to_client; content:\"malicious\"; sid:2;)\n\
                 alert tcp any any -> any any (content:\"malicious\"; sid:3;)\n\
                 alert tcp any any -> any 80 (flow:to_server; content:\"mal\"; content:\"cious\"; sid:4;)\n\
                 alert tcp any 80 -> any any (flow:from_server; content:\"mal\"; content:\"cious\"; sid:5;)\n\
                 alert udp any any -> any any (flow:to_client; content:\"malicious\"; sid:6;)";
    let mut bench = open(rules, &[]);
    assert_eq!(bench.client(0, b"malicious"), [1, 3, 4]);
    assert_eq!(bench.server(0, b"mali"), NONE);
    assert_eq!(bench.server(4, b"cious"), [2, 3, 5]);
    assert_eq!(bench.sids(super::frames::udp(CLIENT, SERVER, b"malicious")), NONE);
    assert_eq!(bench.show(1, super::frames::udp(SERVER, CLIENT, b"malicious")).1, [6]);
    // What its receiver ignores has no direction.
    let mut wrong = tcp(CLIENT, SERVER, flags::ACK, 109, 500, b"malicious");
    wrong[50] ^= 1;
    assert_eq!(bench.sids(wrong), [3]);
}
