//! The requirements of RFC 5508, by number.

use super::frames::*;
use nf_sdk::native::ConfigValue;
use nf_sdk::native::frames::seal;

#[test]
fn req_1_and_2_queries_have_mappings_of_sixty_seconds() {
    let mut bench = Bench::new(&[]);
    assert_eq!(bench.mapped(echo(A, R, 8, 77)), end(EXT, 77));
    let other = bench.mapped(echo(B, R, 8, 77));
    assert_ne!(other, end(EXT, 77));
    assert_eq!(bench.inward(echo(R, EXT, 0, 77)), end(A, 77));
    assert_eq!(bench.inward(echo(R, EXT, 0, other.1)), end(B, 77));
    // A timestamp has an identifier too.
    let mapped = bench.show(0, icmp(A, R, [13, 0], [0, 9, 0, 1], &[0; 12])).1;
    assert_eq!(mapped[38..40], [0, 9]);
    bench.wait(59.0);
    assert_eq!(bench.inward(echo(R, EXT, 0, 77)), end(A, 77));
    bench.wait(2.0);
    assert_eq!(bench.outside(echo(R, EXT, 0, 77)), drop::NO_MAPPING);
    // Only a request begins anything, and only from inside.
    assert_eq!(bench.inside(echo(A, R, 0, 5)), drop::NO_SESSION);
    assert_eq!(bench.outside(echo(R, EXT, 8, 5)), drop::NO_MAPPING);
    bench.mapped(echo(A, R, 8, 6));
    assert_eq!(bench.outside(echo(S, EXT, 8, 6)), drop::NO_MAPPING);
    assert_eq!(bench.inside(icmp(A, R, [17, 0], [0; 4], &[0; 4])), drop::PROTOCOL);
}

/// Translators with a session of TCP, UDP and ICMP each: the packet as sent and as it went out.
fn sent() -> Vec<(Bench, Vec<u8>, Vec<u8>)> {
    [tcp((A, 4000), (R, 80), flags::SYN), udp((A, 4000), (R, 80)), echo(A, R, 8, 4000)]
        .into_iter()
        .map(|frame| {
            let mut bench = Bench::new(&[("preserve_ports", ConfigValue::Boolean(false))]);
            let (verdict, out) = bench.show(0, frame.clone());
            assert_eq!(verdict, OUT);
            (bench, frame, out)
        })
        .collect()
}

#[test]
fn req_4_errors_from_outside_are_turned_inside_out() {
    for (mut bench, frame, out) in sent() {
        for bytes in [8, 100] {
            for kind in [[3, 1], [3, 4], [11, 0], [12, 0]] {
                let error = icmp(S, EXT, kind, [0, 0, 5, 0], &carried(&out, bytes));
                let (verdict, inside) = bench.show(1, error);
                assert_eq!(verdict, IN);
                assert_eq!((ends(&inside).0.0.as_str(), ends(&inside).1.0.as_str()), (S, A));
                // The packet that it carries is the one that was sent, bit by bit.
                assert_eq!(inside[42..], carried(&frame, bytes));
                assert_eq!((&inside[34..36], &inside[38..42]), (&kind[..], &[0, 0, 5, 0][..]));
            }
        }
        // Bytes behind the packet are no part of it.
        let mut padded = icmp(S, EXT, [3, 1], [0; 4], &carried(&out, 8));
        padded.extend([0x55; 9]);
        let (verdict, inside) = bench.show(1, padded);
        assert_eq!((verdict, &inside[inside.len() - 9..]), (IN, &[0x55; 9][..]));
    }
}

#[test]
fn req_3_and_4_errors_about_nothing_that_was_sent_are_dropped() {
    for (mut bench, _, out) in sent() {
        let mut other = carried(&out, 8);
        other[20..26].fill(0xee);
        assert_eq!(bench.outside(icmp(S, EXT, [3, 1], [0; 4], &other)), drop::NO_SESSION);
        let mut wrong = icmp(S, EXT, [3, 1], [0; 4], &carried(&out, 8));
        wrong[36] ^= 1;
        assert_eq!(bench.outside(wrong), drop::MALFORMED);
        let mut wrong = carried(&out, 8);
        wrong[10] ^= 1;
        assert_eq!(bench.outside(icmp(S, EXT, [3, 1], [0; 4], &wrong)), drop::MALFORMED);
        assert_eq!(bench.outside(icmp(S, EXT, [3, 1], [0; 4], &carried(&out, 8)[..23])), drop::MALFORMED);
        // To another address than the packet came from.
        let mut elsewhere = icmp(S, EXT, [3, 1], [0; 4], &carried(&out, 8));
        elsewhere[42 + 15] ^= 1;
        elsewhere[42 + 10..42 + 12].fill(0);
        let sum = nf_sdk::headers::checksum::of(&elsewhere[42..62]);
        elsewhere[52..54].copy_from_slice(&sum.to_be_bytes());
        seal(&mut elsewhere);
        assert_eq!(bench.outside(elsewhere), drop::NO_SESSION);
    }
}

#[test]
fn req_5_errors_from_inside_come_from_the_outside_address() {
    let mut bench = Bench::new(&[("preserve_ports", ConfigValue::Boolean(false))]);
    let (_, port) = bench.mapped(udp((A, 4000), (R, 80)));
    let arrived = udp((R, 80), (EXT, port));
    let (_, inside) = bench.show(1, arrived.clone());
    for router in [A, "10.9.9.9"] {
        let (verdict, out) = bench.show(0, icmp(router, R, [3, 3], [0; 4], &carried(&inside, 8)));
        assert_eq!(verdict, OUT);
        assert_eq!((ends(&out).0.0.as_str(), ends(&out).1.0.as_str()), (EXT, R));
        assert_eq!(out[42..], carried(&arrived, 8));
    }
    // About a packet that the mapping let in without a session.
    let arrived = udp((S, 81), (EXT, port));
    let (_, inside) = bench.show(1, arrived.clone());
    let (verdict, out) = bench.show(0, icmp(A, S, [3, 3], [0; 4], &carried(&inside, 8)));
    assert_eq!((verdict, &out[42..]), (OUT, &carried(&arrived, 8)[..]));
    let unknown = carried(&udp((R, 80), (B, 4000)), 8);
    assert_eq!(bench.inside(icmp(B, R, [3, 3], [0; 4], &unknown)), drop::NO_SESSION);
}

#[test]
fn req_6_errors_refresh_nothing() {
    let mut bench = Bench::new(&[]);
    let (_, out) = bench.show(0, udp((A, 4000), (R, 80)));
    for _ in 0..3 {
        bench.wait(90.0);
        assert_eq!(bench.outside(icmp(S, EXT, [11, 0], [0; 4], &carried(&out, 8))), IN);
    }
    bench.wait(31.0);
    assert_eq!(bench.outside(icmp(S, EXT, [11, 0], [0; 4], &carried(&out, 8))), drop::NO_SESSION);
}

#[test]
fn req_7_errors_about_hairpins() {
    let mut bench = Bench::new(&[]);
    bench.mapped(udp((B, 5000), (R, 53)));
    let sent = udp((A, 4000), (EXT, 5000));
    let (verdict, arrived) = bench.show(0, sent.clone());
    assert_eq!(verdict, IN);
    let (verdict, answer) = bench.show(0, icmp(B, EXT, [3, 3], [0; 4], &carried(&arrived, 8)));
    assert_eq!(verdict, IN);
    assert_eq!((ends(&answer).0.0.as_str(), ends(&answer).1.0.as_str()), (EXT, A));
    assert_eq!(answer[42..], carried(&sent, 8));
}

#[test]
fn req_8_what_finds_no_room_is_answered_and_answers_are_bounded() {
    let mut bench = Bench::new(&[("host_sessions", ConfigValue::Integer(10))]);
    for port in 0..10 {
        bench.mapped(udp((A, 4000 + port), (R, 80)));
    }
    let frame = udp((A, 5000), (R, 80));
    assert_eq!(bench.inside(frame.clone()), drop::HOST_LIMIT);
    let answer = bench.runner.host().emitted()[0].clone();
    assert_eq!(answer.verdict, IN);
    let bytes = answer.bytes.expect("a packet of its own");
    assert_sound(&bytes);
    assert_eq!(bytes[34..36], [3, 13]);
    assert_eq!(bytes[42..], carried(&frame, 8));
    assert_eq!((&bytes[..6], ends(&bytes).1.0.as_str()), (&frame[6..12], A));
    for port in 0..200 {
        bench.inside(udp((A, 5000 + port), (R, 80)));
    }
    assert_eq!(bench.runner.host().emitted().len(), 64);
    bench.wait(2.0);
    bench.inside(frame);
    assert_eq!(bench.runner.host().emitted().len(), 65);
    assert_eq!(bench.report()["answers"], 65);
}

#[test]
fn req_9_what_the_operator_does_not_want_is_not_sent() {
    let mut bench = Bench::with("unsolicited", "ignore");
    for port in 0..100 {
        bench.outside(tcp((R, 4000 + port), (EXT, 9), flags::SYN));
    }
    bench.wait(10.0);
    assert_eq!(bench.runner.host().emitted().len(), 0);
}

#[test]
fn req_10_and_11_kinds_of_messages() {
    for (mut bench, _, out) in sent() {
        // Each code of what carries a packet goes through, with what is behind its checksum.
        for kind in [3, 4, 11, 12] {
            for code in 0..16 {
                let error = icmp(S, EXT, [kind, code], [1, 2, 3, 4], &carried(&out, 8));
                let (verdict, inside) = bench.show(1, error);
                assert_eq!(
                    (verdict, &inside[34..36], &inside[38..42]),
                    (IN, &[kind, code][..], &[1, 2, 3, 4][..])
                );
            }
        }
        // A redirect is of the link that it came by, and so are the messages of routers and hosts there.
        for kind in [5, 9, 10, 17, 18] {
            let body = carried(&out, 8);
            assert_eq!(bench.outside(icmp(S, EXT, [kind, 0], [0; 4], &body)), drop::PROTOCOL);
            assert_eq!(bench.inside(icmp(A, S, [kind, 0], [0; 4], &body)), drop::PROTOCOL);
        }
    }
}
