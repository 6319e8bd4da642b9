//! Each option, matching and not matching.

use super::frames::{Bench, CLIENT, NONE, SERVER, flags, icmp, tagged, tcp, udp};
use nf_sdk::native::ConfigValue;

/// Whether a rule with these options matches a datagram with this payload.
fn matches(options: &str, data: &[u8]) -> bool {
    let mut bench = Bench::new(&format!("alert udp any any -> any any ({options} sid:1;)"), &[]);
    !bench.sids(udp(CLIENT, ("192.0.2.1", 53), data)).is_empty()
}

#[track_caller]
fn only(options: &str, matching: &[&str], others: &[&str]) {
    for data in matching {
        assert!(matches(options, data.as_bytes()), "{options} matches {data}");
    }
    for data in others {
        assert!(!matches(options, data.as_bytes()), "{options} does not match {data}");
    }
}

#[test]
fn contents() {
    only("content:\"abcdefgh\";", &["abcdefgh", "xxabcdefghxx"], &["", "abcdefg", "abcdefGh", "abcdefg h"]);
    only("content:\"aBc\"; nocase;", &["abc", "xABC"], &["ab c"]);
    only("content:\"a|00 0D0a|b\";", &["a\0\r\nb"], &["a\r\nb"]);
    only("content:\"a\\;b\\\"c\\\\d\\:e\";", &["a;b\"c\\d:e"], &["a;b"]);
    only("content:!\"evil\";", &["good"], &["evil"]);
    only("content:\"a\"; content:!\"evil\";", &["good a"], &["good", "evil a"]);
    only("content:\"x\";", &["x", "abcx"], &["abc"]);
}

#[test]
fn places() {
    only("content:\"abc\"; offset:2;", &["xxabc", "abcabc"], &["abc", "xabc"]);
    only("content:\"abc\"; depth:4;", &["abc", "xabc"], &["xxabc"]);
    only("content:\"abc\"; offset:1; depth:4;", &["xabc", "xxabc"], &["abc", "xxxabc"]);
    only("content:\"abc\"; startswith;", &["abcx"], &["xabc"]);
    only("content:\"abc\"; endswith;", &["xabc", "abcabc"], &["abcx"]);
    only("content:\"a\"; content:\"b\"; distance:2;", &["axxb", "abxb"], &["ab", "axb", "bxxa"]);
    only("content:\"a\"; content:\"b\"; distance:-2;", &["ba", "ab"], &["b xxa"]);
    only("content:\"a\"; content:\"b\"; within:2;", &["ab", "axb"], &["axxb"]);
    only("content:\"a\"; content:\"b\"; distance:1; within:2;", &["axb", "axxb"], &["ab", "axxxb"]);
    only("content:\"a\"; content:!\"b\"; within:2;", &["axxb", "ab axxb"], &["ab", "axb"]);
}

#[test]
fn every_place_of_a_chain_is_tried() {
    only(
        "content:\"a\"; content:\"b\"; distance:0; within:1; content:\"c\"; distance:0; within:1;",
        &["ab abc"],
        &["ab c"],
    );
    only("content:\"aa\"; content:\"b\"; distance:0; within:1;", &["aaab"], &["aa b"]);
    only(
        "content:\"foo\"; pcre:\"/^[0-9]+x/R\"; content:\"y\"; distance:0; within:1;",
        &["foo1z foo22xy"],
        &["foo1z foo22x y"],
    );
}

#[test]
fn data_at() {
    only("content:\"a\"; isdataat:3;", &["abcd"], &["abc"]);
    only("content:\"a\"; isdataat:3,relative;", &["abcd"], &["abc"]);
    only("content:\"a\"; isdataat:!3,relative;", &["abc"], &["abcd"]);
    only("content:\"a\"; isdataat:!3;", &["abc"], &["abcd"]);
}

#[test]
fn sizes() {
    only("dsize:3;", &["abc"], &["ab", "abcd"]);
    only("dsize:!3;", &["ab"], &["abc"]);
    only("dsize:>3;", &["abcd"], &["abc"]);
    only("dsize:<3;", &["ab", ""], &["abc"]);
    only("dsize:>=3;", &["abc"], &["ab"]);
    only("dsize:<=3;", &["abc"], &["abcd"]);
    only("dsize:2<>4;", &["abc"], &["ab", "abcd"]);
}

#[test]
fn expressions() {
    only("pcre:\"/ab+c/\";", &["abbbc"], &["ac", "ABC"]);
    only("pcre:\"/ab+c/i\";", &["ABBC"], &["ac"]);
    only("pcre:\"/a.c/\";", &["abc"], &["a\nc"]);
    only("pcre:\"/a.c/s\";", &["a\nc"], &["ac"]);
    only("pcre:\"/^b/\";", &["b"], &["a\nb"]);
    only("pcre:\"/^b/m\";", &["a\nb"], &["ab"]);
    only("pcre:\"/a b/x\";", &["ab"], &["a b"]);
    only("pcre:\"/b/A\";", &["ba"], &["ab"]);
    only("content:\"abc\"; pcre:!\"/x[0-9]/\";", &["abc x"], &["abc x1", "x1"]);
    only("content:\"abc\"; pcre:\"/^d/R\";", &["abcd", "abc abcd"], &["dabc", "abc d"]);
    only("pcre:\"/\\xff\\x00/\";", &[], &["abc"]);
    assert!(matches("pcre:\"/\\xff\\x00/\";", &[0xff, 0]));
}

#[test]
fn headers() {
    let mut bench = Bench::new(
        "alert tcp $HOME_NET any -> $EXTERNAL_NET $HTTP_PORTS (flags:S; sid:1;)\n\
         alert tcp any 80 -> any any (flags:+SA; sid:2;)\n\
         alert udp 10.0.0.1 any <> any 53 (content:\"q\"; sid:3;)\n\
         alert icmp any any -> any any (itype:8; icode:0; sid:4;)\n\
         alert ip any any -> any any (ttl:64; ip_proto:47; sid:5;)\n\
         alert icmp any any -> 2001:db8::/32 any (itype:128; sid:6;)\n",
        &[],
    );
    assert_eq!(bench.sids(tcp(CLIENT, SERVER, flags::SYN, 1, 0, &[])), [1]);
    assert_eq!(bench.sids(tcp(CLIENT, ("192.0.2.1", 81), flags::SYN, 1, 0, &[])), NONE);
    assert_eq!(bench.sids(tcp(CLIENT, ("10.0.0.2", 80), flags::SYN, 1, 0, &[])), NONE);
    assert_eq!(bench.sids(tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 1, 2, &[])), [2]);
    assert_eq!(bench.sids(udp(("10.0.0.1", 9), ("192.0.2.7", 53), b"q")), [3]);
    assert_eq!(bench.sids(udp(("192.0.2.7", 53), ("10.0.0.1", 9), b"q")), [3]);
    assert_eq!(bench.sids(udp(("192.0.2.7", 9), ("10.0.0.1", 53), b"q")), NONE);
    assert_eq!(bench.sids(icmp("10.0.0.1", "10.0.0.2", 8, 0, b"")), [4]);
    assert_eq!(bench.sids(icmp("10.0.0.1", "10.0.0.2", 8, 1, b"")), NONE);
    assert_eq!(bench.sids(super::frames::packet("10.0.0.1", "10.0.0.2", 47, b"gre")), [5]);
    assert_eq!(bench.sids(icmp("2001:db8::1", "2001:db8::2", 128, 0, b"")), [6]);
    assert_eq!(bench.sids(tagged(&icmp("2001:db8::1", "2001:db8::2", 128, 0, b""), &[5])), [6]);
}

#[test]
fn flows() {
    let mut bench = Bench::new(
        "alert udp any any -> any any (content:\"a\"; flow:to_server; sid:1;)\n\
         alert udp any any -> any any (content:\"a\"; flow:to_client; sid:2;)\n\
         alert udp any any -> any any (content:\"a\"; flow:established; sid:3;)\n\
         alert udp any any -> any any (content:\"a\"; flow:not_established,from_client; sid:4;)\n\
         alert udp any any -> any any (content:\"a\"; flow:stateless; sid:5;)\n",
        &[],
    );
    assert_eq!(bench.sids(udp(CLIENT, SERVER, b"a")), [1, 4, 5]);
    assert_eq!(bench.sids(udp(SERVER, CLIENT, b"a")), [2, 3, 5]);
    assert_eq!(bench.sids(udp(CLIENT, SERVER, b"a")), [1, 3, 5]);
}

#[test]
fn rules_about_addresses_match_once_for_each_direction() {
    let mut bench = Bench::new("alert ip any any -> any any (sid:1;)", &[]);
    let seen: Vec<usize> = [(CLIENT, SERVER), (CLIENT, SERVER), (SERVER, CLIENT), (SERVER, CLIENT)]
        .map(|(from, to)| bench.sids(udp(from, to, b"x")).len())
        .into();
    assert_eq!(seen, [1, 0, 1, 0]);
}

#[test]
fn thresholds() {
    let rule = |form: &str| {
        format!(
            "alert udp any any -> any any (content:\"a\"; threshold:type {form}, track by_src, count 2, seconds 10; sid:1;)"
        )
    };
    let told = |form: &str| -> Vec<usize> {
        let mut bench = Bench::new(&rule(form), &[]);
        [0.0, 1.0, 2.0, 3.0, 4.0, 20.0, 21.0]
            .map(|time| {
                bench.now = time;
                bench.sids(udp(CLIENT, SERVER, b"a")).len()
            })
            .into()
    };
    assert_eq!(told("limit"), [1, 1, 0, 0, 0, 1, 1]);
    assert_eq!(told("threshold"), [0, 1, 0, 1, 0, 0, 1]);
    assert_eq!(told("both"), [0, 1, 0, 0, 0, 0, 1]);
    // By address, and in a table that does not grow.
    let mut bench = Bench::new(&rule("limit"), &[("max_thresholds", ConfigValue::Integer(8))]);
    for host in 0..100 {
        assert_eq!(bench.sids(udp((&format!("10.0.1.{host}"), 5), SERVER, b"a")), [1]);
    }
    assert_eq!(bench.report()["thresholds_evicted"], 92);
}

#[test]
fn an_alert_says_everything() {
    let mut bench = Bench::new(
        "alert tcp any any -> any any (msg:\"a \\\"quoted\\\" name\"; content:\"abc\"; classtype:trojan-activity; gid:3; sid:9; rev:4;)",
        &[],
    );
    bench.now = 3661.5;
    bench.show(0, tagged(&tcp(CLIENT, SERVER, flags::ACK, 1, 1, b"abc"), &[7, 8]));
    let record =
        nf_sdk::PacketRecord { timestamp: 1_709_164_800_000_001_000, ingress: 1, ..Default::default() };
    let packet = nf_sdk::native::TestPacket { bytes: udp(CLIENT, SERVER, b"abc"), record };
    bench.runner.run(&[packet], super::frames::at(0.0));
    let host = bench.runner.host();
    assert_eq!(host.events().len(), 1);
    let event: serde_json::Value = serde_json::from_str(&host.events()[0]).expect("JSON");
    let flow = event["flow_id"].as_u64().expect("a number");
    assert!(flow > 0 && flow < 1 << 53);
    assert_eq!(
        event,
        serde_json::json!({
            "timestamp": "2023-11-14T23:14:21.500000+0000", "flow_id": flow, "in_iface": "inside", "event_type": "alert",
            "vlan": [7, 8], "src_ip": "10.0.0.1", "src_port": 40_000, "dest_ip": "192.0.2.1", "dest_port": 80, "proto": "TCP",
            "pkt_src": "wire/pcap",
            "alert": {"action": "allowed", "gid": 3, "signature_id": 9, "rev": 4, "signature": "a \"quoted\" name",
                      "category": "A Network Trojan was detected", "severity": 1},
            "direction": "to_server",
        })
    );
}

/// A capture may begin with time 0, which is a time as any other.
#[test]
fn time_0_is_time_0() {
    let mut bench = Bench::new("alert udp any any -> any any (sid:1;)", &[]);
    let packet =
        nf_sdk::native::TestPacket { bytes: udp(CLIENT, SERVER, b"abc"), record: Default::default() };
    bench.runner.run_stamped(&[packet], super::frames::at(0.0));
    assert_eq!(bench.told()[0]["timestamp"], "1970-01-01T00:00:00.000000+0000");
}

/// What asks for something of a protocol matches its packets alone, whatever the rule is for.
#[test]
fn flags_and_types_in_rules_for_any_protocol() {
    let rules = "alert ip any any -> any any (flags:S; sid:1;)\nalert udp any any -> any any (tcp.flags:0; sid:2;)\n\
                 alert ip any any -> any any (itype:8; icode:0; sid:3;)\nalert tcp any any -> any any (itype:0; sid:4;)\n\
                 alert ip any any -> any any (flags:0; content:\"abc\"; sid:5;)\n\
                 alert tcp any any -> any any (TCP.Flags:SA; sid:6;)\n";
    let mut bench = Bench::new(rules, &[]);
    assert_eq!(bench.sids(udp(CLIENT, SERVER, b"abc")), NONE);
    assert_eq!(bench.sids(icmp("10.0.0.1", "10.0.0.2", 8, 0, b"abc")), [3]);
    assert_eq!(bench.sids(tcp(CLIENT, SERVER, flags::SYN, 1, 0, &[])), [1]);
    assert_eq!(bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 1, 2, &[])).1, [6]);
    assert_eq!(bench.sids(tcp(("10.0.0.3", 5), SERVER, 0, 1, 0, b"abc")), [5]);
}

#[test]
fn forms_that_suricata_takes() {
    only("CONTENT:\"abc\"; NoCase;", &["ABC"], &["ab"]);
    only("content:\"abc\"; isdataat:4; nocase; depth:4;", &["ABCxx", "xABCx"], &["ABC", "xxABC"]);
    only("content:\"a\"; content:\"b\"; distance:70000;", &[], &["a b"]);
    only("content:\"a\"; content:\"b\"; within:70000;", &["a  b"], &["b a"]);
    only("content:\"abc\"; nocase:; fast_pattern:0, 2;", &["ABC"], &["ab"]);
    only("noalert; alert; content:\"a\";", &["a"], &["b"]);
    only("alert; content:\"a\"; noalert;", &[], &["a"]);
    only("dsize:=3;", &["abc"], &["ab"]);
    only("pcre:\"/^\\x{41}[\\x{42}-\\x{44}]$/\";", &["AC"], &["AE", "\\x{41}B"]);
    only("content:\"a\"; priority:0; gid:0;", &["a"], &["b"]);
}

#[test]
fn every_alert_is_json() {
    let text = b"alert ip any any -> any any (msg:\"a name\"; sid:1;)";
    let rules = crate::rules::Rules::parse(text, &Default::default()).expect("a rule");
    for protocol in 0..=255 {
        for vlans in [[None; 2], [Some(7), None], [Some(7), Some(8)]] {
            let icmp = (protocol == 1).then_some((8, 0));
            let view = crate::header::View { protocol, vlans, icmp, ..crate::flow::Flow::default().view(0) };
            let alert = crate::event::Alert {
                view: &view,
                time: nf_sdk::Nanos(0),
                flow: vlans[1].map(u64::from),
                is_to_server: protocol == 6,
                interface: "inside",
            };
            let mut out = String::new();
            crate::event::write_packet(&alert, &mut out);
            crate::event::write_rule(&alert, &rules.list[0], protocol == 17, &mut out);
            let event: serde_json::Value = serde_json::from_str(&out).expect("JSON");
            assert_eq!(event["alert"]["signature_id"], 1);
            assert_eq!(event["vlan"].as_array().map_or(0, Vec::len), vlans.iter().flatten().count());
            assert_eq!(event["flow_id"].is_u64(), vlans[1].is_some());
        }
    }
}

#[test]
fn times_are_those_of_the_calendar() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00.000000+0000"),
        (951_782_400, "2000-02-29T00:00:00.000000+0000"),
        (1_709_164_800, "2024-02-29T00:00:00.000000+0000"),
        (1_709_251_199, "2024-02-29T23:59:59.000000+0000"),
        (4_107_542_400, "2100-03-01T00:00:00.000000+0000"),
    ] {
        let mut out = String::new();
        crate::event::write_time(&mut out, nf_sdk::Nanos(seconds * 1_000_000_000));
        assert_eq!(out, text);
    }
}

/// Where Suricata has the payload of each ICMPv6 type begin, as it says itself of packets with every byte
/// another.
#[test]
fn the_payload_of_icmpv6_begins_where_suricata_has_it() {
    let rules = "alert icmp any any -> any any (content:\"|00 01 00 01|\"; depth:4; sid:4;)\n\
                 alert icmp any any -> any any (content:\"|ab|\"; depth:1; sid:8;)\n";
    let mut bench = Bench::new(rules, &[]);
    for kind in [1, 2, 3, 4, 128, 129] {
        assert_eq!(bench.sids(icmp("2001:db8::1", "2001:db8::2", kind, 0, b"\xab\x01")), [8], "{kind}");
    }
    for kind in [5, 100, 127, 130, 131, 132, 133, 134, 135, 136, 137, 143, 151, 160, 200, 255] {
        assert_eq!(bench.sids(icmp("2001:db8::1", "2001:db8::2", kind, 0, b"\xab\x01")), [4], "{kind}");
    }
    assert_eq!(bench.sids(icmp("10.0.0.1", "10.0.0.2", 8, 0, b"\xab\x01")), [8]);
}

/// Rules that match in the same packet: which of them sees what the others do to bits.
#[test]
fn rules_that_match_together_have_an_order() {
    let sids = |rules: [&str; 3]| {
        let rules = rules.map(|options| format!("alert udp any any -> any any ({options})\n")).concat();
        let mut bench = Bench::new(&rules, &[]);
        let mut sids = bench.sids(udp(CLIENT, ("192.0.2.1", 53), b"a"));
        sids.extend(bench.sids(udp(CLIENT, ("192.0.2.1", 53), b"b")));
        sids.sort_unstable();
        sids
    };
    let last = "content:\"b\"; flowbits:isset,x; sid:3;";
    // By number, whatever the order in the file.
    let (set, unset) = ("content:\"a\"; flowbits:set,x; sid:2;", "content:\"a\"; flowbits:unset,x; sid:1;");
    assert_eq!(sids([last, set, unset]), [1, 2, 3]);
    assert_eq!(sids([last, unset, set]), [1, 2, 3]);
    // By priority before.
    assert_eq!(sids([last, "content:\"a\"; flowbits:set,x; priority:2; sid:2;", unset]), [1, 2]);
    assert_eq!(sids([last, "content:\"a\"; flowbits:unset,x; priority:4; sid:1;", set]), [1, 2]);
    // Those that ask for bits of hosts come before others, and those that set such bits have no place of
    // their own.
    let asks = "content:\"a\"; flowbits:unset,x; xbits:isnotset,y,track ip_src; sid:9;";
    assert_eq!(sids([last, "content:\"a\"; flowbits:set,x; sid:8;", asks]), [3, 8, 9]);
    let set = "content:\"a\"; xbits:set,y,track ip_src,expire 60; sid:2;";
    let asks = |sid: u32| format!("content:\"a\"; xbits:isset,y,track ip_src; sid:{sid};");
    assert_eq!(sids([last, set, &asks(1)]), [2]);
    assert_eq!(sids([last, set, &asks(4)]), [2]);
}
