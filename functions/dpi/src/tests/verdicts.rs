//! What becomes of packets, and of flows.

use super::frames::{Bench, CLIENT, NONE, SERVER, at, flags, packet, seal, tcp, udp};
use nf_sdk::Verdict;
use nf_sdk::native::ConfigValue;

const RULE: u16 = 0;
const FLOW: u16 = 1;
const MALFORMED: u16 = 2;
const FRAGMENT: u16 = 3;
const OVERLOAD: u16 = 4;
const ON: Verdict = Verdict::Interface(1);

const DROPS: &str = "drop tcp any any -> any any (content:\"malicious\"; sid:1;)";

fn data(bench: &mut Bench, at: u32, data: &[u8]) -> (Verdict, Vec<u64>) {
    bench.show(0, tcp(CLIENT, SERVER, flags::ACK, 100 + at, 500, data))
}

#[test]
fn the_packet_that_completes_a_match_is_dropped_and_then_its_flow() {
    let mut bench = Bench::new(DROPS, &[]);
    bench.handshake();
    assert_eq!(data(&mut bench, 0, b"mali"), (ON, vec![]));
    assert_eq!(data(&mut bench, 4, b"cious"), (Verdict::Drop(RULE), vec![1]));
    assert_eq!(data(&mut bench, 4, b"cious"), (Verdict::Drop(FLOW), vec![]));
    assert_eq!(bench.show(1, tcp(SERVER, CLIENT, flags::ACK, 500, 104, b"x")).0, Verdict::Drop(FLOW));
    // Other flows go on.
    assert_eq!(bench.show(1, udp(SERVER, CLIENT, b"x")).0, Verdict::Interface(0));
    let event: serde_json::Value = serde_json::from_str(&bench.runner.host().events()[0]).expect("JSON");
    assert_eq!(event["alert"]["action"], "blocked");
    assert_eq!((bench.count("rule"), bench.count("flow")), (1, 2));
}

#[test]
fn the_packet_alone() {
    let mut bench = Bench::new(DROPS, &[("drop_scope", ConfigValue::text("packet"))]);
    bench.handshake();
    assert_eq!(data(&mut bench, 0, b"malicious").0, Verdict::Drop(RULE));
    assert_eq!(data(&mut bench, 9, b"harmless").0, ON);
}

#[test]
fn alerts_alone() {
    let mut bench = Bench::new(DROPS, &[("inline", ConfigValue::text("alert"))]);
    bench.handshake();
    assert_eq!(data(&mut bench, 0, b"malicious"), (ON, vec![1]));
    let event: serde_json::Value = serde_json::from_str(&bench.runner.host().events()[0]).expect("JSON");
    assert_eq!(event["alert"]["action"], "allowed");
}

#[test]
fn what_passes_is_not_looked_at() {
    let rules = "alert tcp any any -> any any (content:\"malicious\"; sid:1;)\n\
                 drop tcp any any -> any any (content:\"malicious\"; sid:2;)\n\
                 pass tcp any any -> any any (content:\"friend\"; sid:3;)";
    let mut bench = Bench::new(rules, &[]);
    bench.handshake();
    assert_eq!(data(&mut bench, 0, b"malicious friend"), (ON, vec![]));
    assert_eq!(data(&mut bench, 16, b"malicious"), (ON, vec![]));
    // A rule about packets lets its packet pass.
    let rules = rules.replace("\"friend\"", "\"friend\"; dsize:16");
    let mut bench = Bench::new(&rules, &[]);
    bench.handshake();
    assert_eq!(data(&mut bench, 0, b"malicious friend"), (ON, vec![]));
    assert_eq!(data(&mut bench, 16, b"malicious"), (Verdict::Drop(RULE), vec![2, 1]));
}

#[test]
fn a_datagram_passes_alone_and_an_address_with_its_flow() {
    let rules = "alert udp any any -> any any (content:\"malicious\"; sid:1;)\n\
                 pass udp any any -> any any (content:\"friend\"; sid:2;)";
    let mut bench = Bench::new(rules, &[]);
    assert_eq!(bench.sids(udp(CLIENT, SERVER, b"malicious friend")), NONE);
    assert_eq!(bench.sids(udp(CLIENT, SERVER, b"malicious")), [1]);
    let mut bench = Bench::new(
        &rules
            .replace("udp any any -> any any (content:\"friend\"", "ip 10.0.0.1 any -> any any (metadata:x"),
        &[],
    );
    assert_eq!(bench.sids(udp(CLIENT, SERVER, b"malicious")), NONE);
    assert_eq!(bench.sids(udp(SERVER, CLIENT, b"malicious")), NONE);
    assert_eq!(bench.sids(udp(SERVER, ("10.0.0.2", 7), b"malicious")), [1]);
}

#[test]
fn packets_without_payload_match_no_content() {
    let mut bench = Bench::new("alert tcp any any -> any any (content:!\"x\"; sid:1;)", &[]);
    bench.handshake();
    assert_eq!(data(&mut bench, 0, b"").1, NONE);
    assert_eq!(data(&mut bench, 0, b"y").1, [1]);
    assert_eq!(data(&mut bench, 1, b"x").1, NONE);
}

#[test]
fn a_threshold_holds_back_alerts_and_not_drops() {
    let rules = "drop udp any any -> any any (content:\"abc\"; threshold:type limit, track by_dst, count 1, seconds 60; sid:1;)";
    let mut bench = Bench::new(rules, &[("drop_scope", ConfigValue::text("packet"))]);
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, b"abc")), (Verdict::Drop(RULE), vec![1]));
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, b"abc")), (Verdict::Drop(RULE), vec![]));
    let mut bench = Bench::new(&rules.replace("limit", "threshold").replace("count 1", "count 2"), &[]);
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, b"abc")), (ON, vec![]));
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, b"abc")), (Verdict::Drop(RULE), vec![1]));
    assert_eq!((bench.count("alerts"), bench.count("alerts-suppressed")), (1, 1));
}

#[test]
fn what_is_not_ip_passes() {
    let mut bench = Bench::new(DROPS, &[]);
    let mut arp = vec![255; 12];
    arp.extend([8, 6]);
    arp.extend([0; 46]);
    assert_eq!(bench.show(1, arp).0, Verdict::Interface(0));
}

#[test]
fn malformed_packets_and_fragments() {
    let cut = || tcp(CLIENT, SERVER, flags::ACK, 1, 1, &[])[..40].to_vec();
    let fragment = || {
        let mut frame = udp(CLIENT, SERVER, b"abc");
        frame[20] |= 0x20;
        seal(&mut frame);
        frame
    };
    let rules =
        "drop udp any any -> any any (content:\"abc\"; sid:1;)\ndrop ip 10.0.0.9 any -> any any (sid:2;)";
    let mut bench = Bench::new(rules, &[]);
    assert_eq!(bench.show(0, cut()).0, ON);
    assert_eq!(bench.show(0, fragment()), (ON, vec![]));
    // Rules about addresses are applied to fragments.
    let mut other = packet("10.0.0.9", "192.0.2.1", 17, &[0; 16]);
    other[21] = 5;
    seal(&mut other);
    assert_eq!(bench.show(0, other), (Verdict::Drop(RULE), vec![2]));
    assert_eq!((bench.count("malformed-seen"), bench.count("fragments-seen")), (1, 2));
    let strict = [("malformed", ConfigValue::text("drop")), ("fragments", ConfigValue::text("drop"))];
    let mut bench = Bench::new(rules, &strict);
    assert_eq!(bench.show(0, cut()).0, Verdict::Drop(MALFORMED));
    assert_eq!(bench.show(0, fragment()).0, Verdict::Drop(FRAGMENT));
}

/// A rule and a payload that together ask for more than is allowed.
pub fn too_much() -> (&'static str, Vec<u8>) {
    let rule = "alert udp any any -> any any (content:\"aa\"; content:\"a\"; distance:0; content:\"a\"; distance:0; \
                content:\"a\"; distance:0; content:\"a\"; distance:0; content:\"zz\"; distance:0; content:\"y\"; distance:0; sid:1;)";
    let mut data = vec![b'a'; 1400];
    data[1390..].copy_from_slice(b"zzzzzzzzzz");
    (rule, data)
}

#[test]
pub fn too_much_work_is_counted_and_may_be_dropped() {
    let (rule, data) = too_much();
    let mut bench = Bench::new(rule, &[]);
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, &data)), (ON, vec![]));
    assert_eq!(bench.count("overloads"), 1);
    let mut bench = Bench::new(rule, &[("overload", ConfigValue::text("drop"))]);
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, &data)).0, Verdict::Drop(OVERLOAD));
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, b"harmless")).0, ON);
}

/// A rule that the sender makes dear keeps no other one from being verified, wherever it stands, and is
/// named.
#[test]
fn a_dear_rule_hides_no_other_one() {
    let (dear, data) = too_much();
    let named =
        |sid: u32| format!("alert udp any any -> any any (content:\"zzzz\"; pcre:\"/az+$/\"; sid:{sid};)\n");
    for dear_first in [true, false] {
        let many: String = (2..20).map(|sid| dear.replace("sid:1;", &format!("sid:{sid};")) + "\n").collect();
        let rules = if dear_first { many + &named(50) } else { named(50) + &many };
        let mut bench = Bench::new(&rules, &[]);
        assert_eq!(bench.sids(udp(CLIENT, SERVER, &data)), [50]);
        assert_eq!(bench.count("overloads"), 1);
        let unfinished = bench.report()["rules"]["unfinished"].as_array().expect("a list").clone();
        assert_eq!(unfinished.len(), 18);
        assert_eq!(
            unfinished[0],
            serde_json::json!({"gid": 1, "sid": 2, "line": unfinished[0]["line"], "times": 1})
        );
    }
}

/// Packets that are made to cost much empty what is kept for others. What is usual is found all the same, and
/// what is not verified to the end is counted.
#[test]
fn an_empty_reserve_hides_nothing_unseen() {
    let (dear, data) = too_much();
    let usual = "alert udp any any -> any any (content:\"needle\"; sid:50;)\n\
                 alert udp any any -> any any (content:\"from\"; content:\"to\"; distance:0; sid:51;)\n";
    let mut bench = Bench::new(&format!("{dear}\n{usual}"), &[("overload", ConfigValue::text("drop"))]);
    for n in 1..=30 {
        assert_eq!(bench.show(0, udp(CLIENT, SERVER, &data)).0, Verdict::Drop(OVERLOAD));
        assert_eq!(bench.count("overloads"), n);
    }
    let honest = [vec![b'.'; 1300], b"needle from a to b".to_vec()].concat();
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, &honest)), (ON, vec![50, 51]));
    let mixed = [&data[..], b"needle"].concat();
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, &mixed)), (Verdict::Drop(OVERLOAD), vec![50]));
}

#[test]
fn flows_end_and_make_room() {
    let few = [("max_flows", ConfigValue::Integer(10))];
    let mut bench =
        Bench::new("alert udp any any -> any any (content:\"abc\"; flow:to_client; sid:1;)", &few);
    for port in 1..=30 {
        bench.now += 1.0;
        bench.show(0, udp(("10.0.0.1", port), SERVER, b"x"));
    }
    assert_eq!(bench.report()["flows"]["now"], 10);
    assert_eq!((bench.count("flows-opened"), bench.count("flows-evicted")), (30, 20));
    // A flow whose time is over begins again with whichever end speaks first.
    assert_eq!(bench.show(1, udp(SERVER, ("10.0.0.1", 30), b"abc")).1, [1]);
    bench.now += 1000.0;
    assert_eq!(bench.show(1, udp(SERVER, ("10.0.0.1", 30), b"abc")).1, NONE);
    for _ in 0..64 {
        bench.runner.timer(at(bench.now));
    }
    assert_eq!(bench.report()["flows"]["now"], 1);
    bench.runner.timer(at(bench.now + 1000.0));
    for _ in 0..64 {
        bench.runner.timer(at(bench.now + 1000.0));
    }
    assert_eq!(bench.report()["flows"]["now"], 0);
    assert_eq!(bench.runner.host().deadline(), None);
}

#[test]
fn flows_move_to_another_instance() {
    let mut from = Bench::new(DROPS, &[]);
    from.handshake();
    assert_eq!(data(&mut from, 0, b"harmless"), (ON, vec![]));
    let state = from.runner.export_state().expect("offered");
    let mut to = Bench::new(DROPS, &[]);
    assert!(to.runner.import_state(&state));
    assert_eq!(data(&mut to, 8, b"mali"), (ON, vec![]));
    assert_eq!(data(&mut to, 12, b"cious"), (Verdict::Drop(RULE), vec![1]));
    // Dropped flows stay dropped.
    let state = to.runner.export_state().expect("offered");
    let mut last = Bench::new(DROPS, &[]);
    assert!(last.runner.import_state(&state));
    assert_eq!(data(&mut last, 17, b"x").0, Verdict::Drop(FLOW));
    assert_eq!(to.runner.export_state().expect("offered").len(), state.len());
}

/// Copies of what matches and of what is dropped with its flow, each with the side that it came from.
#[test]
fn copies_of_suspicious_packets_are_sent_where_the_operator_wants_them() {
    let rules = "drop tcp any any -> any any (content:\"malicious\"; sid:1;)\n\
                 alert udp any any -> any any (content:\"abc\"; sid:2;)\n\
                 alert udp any any -> any any (content:\"silent\"; noalert; sid:3;)\n\
                 pass udp any any -> any any (content:\"friend\"; sid:4;)";
    let copies = |bench: &Bench| -> Vec<(Verdict, u64, Vec<u8>)> {
        let all = bench.runner.host().emitted().iter();
        all.map(|copy| (copy.verdict, copy.mark, copy.bytes.clone().expect("its own"))).collect()
    };
    let mut bench = Bench::new(rules, &[("suspicious", ConfigValue::text("copies"))]);
    bench.handshake();
    assert_eq!(data(&mut bench, 0, b"harmless").0, ON);
    assert_eq!(data(&mut bench, 8, b"malicious").0, Verdict::Drop(RULE));
    let answer = tcp(SERVER, CLIENT, flags::ACK, 500, 104, b"x");
    assert_eq!(bench.show(1, answer.clone()).0, Verdict::Drop(FLOW));
    let datagram = udp(SERVER, CLIENT, b"abc");
    assert_eq!(bench.show(1, datagram.clone()).0, Verdict::Interface(0));
    for harmless in [&b"silent"[..], b"abc friend", b"xyz"] {
        bench.show(0, udp(CLIENT, SERVER, harmless));
    }
    let to = Verdict::Interface(2);
    let evil = tcp(CLIENT, SERVER, flags::ACK, 108, 500, b"malicious");
    assert_eq!(copies(&bench), [(to, 1, evil), (to, 2, answer), (to, 2, datagram.clone())]);
    assert_eq!((bench.count("copies"), bench.count("copies-lost")), (3, 0));
    // What comes by their own interface goes nowhere.
    assert_eq!(bench.show(2, datagram.clone()), (Verdict::Drop(6), vec![]), "it is not looked at");
    assert_eq!(copies(&bench).len(), 3);
    bench.runner.refuse_packets(true);
    bench.show(0, datagram.clone());
    assert_eq!(bench.count("copies-lost"), 1);
    let mut without = Bench::new(rules, &[]);
    without.show(0, datagram);
    assert!(copies(&without).is_empty());
}
