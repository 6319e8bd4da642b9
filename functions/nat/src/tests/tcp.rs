//! The requirements of RFC 5382, by number.

use super::frames::*;
use flags::{ACK, FIN, RST, SYN};
use nf_sdk::Verdict;
use nf_sdk::native::ConfigValue;

fn there(flags: u8) -> Vec<u8> {
    tcp((A, 4000), (R, 80), flags)
}

fn back(flags: u8) -> Vec<u8> {
    tcp((R, 80), (EXT, 4000), flags)
}

fn open(bench: &mut Bench) {
    assert_eq!(bench.mapped(there(SYN)), end(EXT, 4000));
    assert_eq!(bench.inward(back(SYN | ACK)), end(A, 4000));
    assert_eq!(bench.mapped(there(ACK)), end(EXT, 4000));
}

#[test]
fn req_1_a_mapping_is_independent_of_the_remote_end() {
    let mut bench = Bench::new(&[("preserve_ports", ConfigValue::Boolean(false))]);
    let mapped = bench.mapped(tcp((A, 4000), (R, 80), SYN));
    assert_eq!(bench.mapped(tcp((A, 4000), (S, 81), SYN)), mapped);
    assert_ne!(bench.mapped(tcp((A, 4001), (R, 80), SYN)), mapped);
}

#[test]
fn req_2_connections_open_in_every_way() {
    let mut bench = Bench::with("filtering", "address-and-port-dependent");
    open(&mut bench);
    // A simultaneous open: both SYNs cross, then both are acknowledged.
    let mut bench = Bench::with("filtering", "address-and-port-dependent");
    bench.mapped(there(SYN));
    assert_eq!(bench.inward(back(SYN)), end(A, 4000));
    bench.mapped(there(SYN | ACK));
    bench.inward(back(SYN | ACK));
    bench.wait(7000.0);
    bench.mapped(there(ACK));
    // Only a SYN opens.
    for flags in [0, ACK, FIN | ACK, RST, SYN | ACK, SYN | FIN, SYN | RST] {
        let mut bench = Bench::new(&[]);
        assert_eq!(bench.inside(there(flags)), drop::NO_SESSION, "{flags:#x}");
    }
}

#[test]
fn req_3_filtering() {
    for (filtering, same, other) in [
        ("endpoint-independent", IN, IN),
        ("address-dependent", IN, drop::FILTERED),
        ("address-and-port-dependent", drop::FILTERED, drop::FILTERED),
    ] {
        let mut bench = Bench::with("filtering", filtering);
        open(&mut bench);
        assert_eq!(bench.outside(tcp((R, 81), (EXT, 4000), SYN)), same, "{filtering}");
        assert_eq!(bench.outside(tcp((S, 80), (EXT, 4000), SYN)), other, "{filtering}");
        let not_open = if other == IN { drop::NO_SESSION } else { drop::FILTERED };
        assert_eq!(bench.outside(tcp((S, 82), (EXT, 4000), ACK)), not_open, "{filtering}");
    }
    // A connection from outside that the inside accepts.
    let mut bench = Bench::new(&[]);
    open(&mut bench);
    bench.inward(tcp((S, 9), (EXT, 4000), SYN));
    bench.mapped(tcp((A, 4000), (S, 9), SYN | ACK));
    bench.inward(tcp((S, 9), (EXT, 4000), ACK));
    bench.wait(7000.0);
    bench.inward(tcp((S, 9), (EXT, 4000), ACK));
}

#[test]
fn req_4_an_unasked_syn_is_answered_after_six_seconds() {
    for (frame, filtering) in [
        (tcp((S, 9), (EXT, 999), SYN), "endpoint-independent"),
        (tcp((S, 9), (EXT, 4000), SYN), "address-dependent"),
    ] {
        let mut bench = Bench::with("filtering", filtering);
        open(&mut bench);
        assert!(matches!(bench.outside(frame.clone()), drop::NO_MAPPING | drop::FILTERED));
        assert!(matches!(bench.outside(frame.clone()), drop::NO_MAPPING | drop::FILTERED));
        bench.wait(5.9);
        assert!(bench.runner.host().emitted().is_empty());
        bench.wait(0.7);
        let emitted = bench.runner.host().emitted();
        assert_eq!(emitted.len(), 1);
        assert_eq!(emitted[0].verdict, OUT);
        let answer = emitted[0].bytes.as_ref().expect("a packet of its own");
        assert_sound(answer);
        assert_eq!((ends(answer).0.0.as_str(), ends(answer).1.0.as_str()), (EXT, S));
        assert_eq!(answer[34..36], [3, 3]);
        assert_eq!(answer[42..], carried(&frame, 8));
        assert_eq!((&answer[..6], &answer[6..12]), (&frame[6..12], &frame[..6]));
    }
    let mut silent = Bench::with("unsolicited", "ignore");
    assert_eq!(silent.outside(tcp((S, 9), (EXT, 999), SYN)), drop::NO_MAPPING);
    silent.wait(20.0);
    assert!(silent.runner.host().emitted().is_empty());
}

#[test]
fn req_4_an_unasked_syn_is_forgotten_when_the_inside_calls() {
    let mut bench = Bench::with("filtering", "address-and-port-dependent");
    assert_eq!(bench.outside(back(SYN)), drop::NO_MAPPING);
    bench.wait(3.0);
    bench.mapped(there(SYN));
    bench.wait(10.0);
    assert!(bench.runner.host().emitted().is_empty());
    assert_eq!(bench.inward(back(SYN)), end(A, 4000));
}

#[test]
fn req_4_answers_are_bounded() {
    let mut bench = Bench::new(&[]);
    for port in 0..1000 {
        bench.outside(tcp((S, 9), (EXT, 1 + port), SYN));
    }
    bench.wait(7.0);
    assert_eq!(bench.runner.host().emitted().len(), 256);
}

#[test]
fn req_5_an_established_connection_lasts_two_hours_and_four_minutes() {
    let mut bench = Bench::new(&[]);
    open(&mut bench);
    bench.wait(7439.0);
    bench.inward(back(ACK));
    bench.wait(7439.0);
    bench.mapped(there(ACK));
    bench.wait(7441.0);
    assert_eq!(bench.inside(there(ACK)), drop::NO_SESSION);
}

#[test]
fn req_5_other_connections_last_four_minutes() {
    let opening = |bench: &mut Bench| assert_eq!(bench.mapped(there(SYN)), end(EXT, 4000));
    let ended = |bench: &mut Bench| {
        open(bench);
        bench.mapped(there(FIN | ACK));
        bench.inward(back(FIN | ACK));
    };
    let reset = |bench: &mut Bench| {
        open(bench);
        bench.inward(back(RST));
    };
    for (name, begin) in [("opening", &opening as &dyn Fn(&mut Bench)), ("ended", &ended), ("reset", &reset)]
    {
        let mut bench = Bench::new(&[]);
        begin(&mut bench);
        bench.wait(239.0);
        assert_eq!(bench.report()["sessions"]["now"], 1, "{name}");
        assert_eq!(bench.inward(back(RST)), end(A, 4000), "{name}");
        bench.wait(12.0);
        assert_eq!(bench.report()["sessions"]["now"], 0, "{name}");
        assert_eq!(bench.outside(back(RST)), drop::NO_MAPPING, "{name}");
    }
}

#[test]
fn a_half_closed_connection_is_established() {
    let mut bench = Bench::new(&[]);
    open(&mut bench);
    bench.mapped(there(FIN | ACK));
    bench.wait(3000.0);
    bench.inward(back(ACK));
    bench.wait(7000.0);
    bench.inward(back(FIN | ACK));
    bench.wait(252.0);
    assert_eq!(bench.report()["sessions"]["now"], 0);
}

#[test]
fn a_reset_that_its_receiver_ignores_ends_nothing() {
    for from_inside in [false, true] {
        let mut bench = Bench::new(&[]);
        open(&mut bench);
        if from_inside {
            bench.mapped(there(RST));
        } else {
            bench.inward(back(RST));
        }
        bench.mapped(there(ACK));
        bench.wait(3600.0);
        bench.mapped(there(ACK));
    }
}

#[test]
fn an_ended_connection_opens_again() {
    let mut bench = Bench::new(&[]);
    open(&mut bench);
    bench.mapped(there(FIN | ACK));
    bench.inward(back(FIN | ACK));
    open(&mut bench);
    bench.wait(7000.0);
    bench.mapped(there(ACK));
}

#[test]
fn req_8_hairpins() {
    let mut bench = Bench::new(&[]);
    bench.mapped(tcp((B, 5000), (R, 80), SYN));
    let hairpin = |bench: &mut Bench, frame| {
        let (verdict, bytes) = bench.show(0, frame);
        assert_eq!(verdict, IN);
        ends(&bytes)
    };
    let (one, two) = (end(EXT, 4000), end(EXT, 5000));
    assert_eq!(hairpin(&mut bench, tcp((A, 4000), (EXT, 5000), SYN)), (one, end(B, 5000)));
    assert_eq!(hairpin(&mut bench, tcp((B, 5000), (EXT, 4000), SYN | ACK)), (two, end(A, 4000)));
    for _ in 0..3 {
        bench.wait(7000.0);
        hairpin(&mut bench, tcp((A, 4000), (EXT, 5000), ACK));
        hairpin(&mut bench, tcp((B, 5000), (EXT, 4000), ACK));
    }
}

#[test]
fn forwarded_ports_lead_inside() {
    let forwards = ConfigValue::List(vec![
        forward("tcp", EXT, (443, 443), (B, 8443)),
        forward("udp", EXT, (6000, 6009), (B, 7000)),
    ]);
    let mut bench =
        Bench::new(&[("forwards", forwards), ("filtering", ConfigValue::text("address-and-port-dependent"))]);
    assert_eq!(bench.inward(tcp((R, 9), (EXT, 443), SYN)), end(B, 8443));
    assert_eq!(bench.mapped(tcp((B, 8443), (R, 9), SYN | ACK)), end(EXT, 443));
    assert_eq!(bench.inward(udp((R, 9), (EXT, 6004))), end(B, 7004));
    assert_eq!(bench.mapped(udp((B, 7004), (R, 9))), end(EXT, 6004));
    assert_eq!(bench.outside(udp((R, 9), (EXT, 6010))), drop::NO_MAPPING);
    // Nothing else gets these ports, and they outlast their sessions.
    assert_ne!(bench.mapped(udp((A, 6003), (R, 9))).1, 6003);
    bench.wait(8000.0);
    assert_eq!(bench.report()["sessions"]["now"], 0);
    assert_eq!(bench.report()["mappings"]["now"], 11);
    assert_eq!(bench.inward(tcp((R, 9), (EXT, 443), SYN)), end(B, 8443));
}

#[test]
fn settings_that_contradict_themselves_are_refused() {
    let refused =
        |changes: &[(&str, ConfigValue)]| match nf_sdk::native::Runner::<crate::Nat>::new(&config(changes)) {
            Ok(_) => panic!("taken"),
            Err(error) => error.message(),
        };
    let list = |items: &[ConfigValue]| [("forwards", ConfigValue::List(items.to_vec()))];
    let one = forward("tcp", EXT, (443, 443), (B, 443));
    let elsewhere = forward("tcp", "192.0.2.1", (443, 443), (B, 443));
    let again = forward("tcp", EXT, (440, 450), (A, 440));
    let same = forward("tcp", EXT, (444, 444), (B, 443));
    let beyond = forward("tcp", EXT, (1, 10), (B, 65_530));
    assert_eq!(
        refused(&list(&[elsewhere])),
        "forwards[0]: outside: 192.0.2.1; allowed are the addresses of `pool`"
    );
    assert_eq!(
        refused(&list(&[one.clone(), again])),
        "forwards: tcp 198.51.100.7 port 443 leads to two inside ends; allowed is one"
    );
    assert_eq!(
        refused(&list(&[one, same])),
        "forwards: tcp 10.0.0.2 port 443 is the inside end of two ports; allowed is one"
    );
    assert_eq!(
        refused(&list(&[beyond])),
        "forwards[0]: ports 1-10 lead to inside ports 65530-65539; allowed are ports from 1 to 65535"
    );
    assert_eq!(
        refused(&[("pool", pool("198.51.0.0/21"))]),
        "pool[0]: 2048 addresses with 198.51.0.0/21; allowed are 1024"
    );
    let twice = ConfigValue::List(vec![ConfigValue::Prefix(ip(EXT), 32), ConfigValue::Prefix(ip(EXT), 30)]);
    assert_eq!(refused(&[("pool", twice)]), "pool: 198.51.100.7 is there twice");
    let six = ("pool", pool("2001:db8::/64"));
    assert_eq!(refused(&[six]), "pool[0]: 2001:db8::/64; allowed are prefixes of IPv4");
    let many = ("max_hosts", ConfigValue::Integer(2_000_000));
    assert_eq!(refused(&[many]), "max_hosts: 2000000; allowed: 1 to 1000000");
    let short = ("nat64_prefix", ConfigValue::Prefix(ip("64:ff9b::"), 95));
    let wanted = "nat64_prefix: 64:ff9b::/95; allowed are IPv6 prefixes of 32, 40, 48, 56, 64 and 96 bits";
    assert_eq!(refused(&[short]), wanted);
}

#[test]
fn what_is_not_a_packet_of_tcp_is_no_syn() {
    let mut bench = Bench::new(&[]);
    assert!(matches!(bench.outside(there(SYN)), Verdict::Drop(_)));
    assert_eq!(bench.report()["sessions"]["opened"], 0);
}
