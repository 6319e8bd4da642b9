//! What becomes of packets, case by case.

use super::frames::{Bench, IN, OUT, drop, flags, icmp, prefix, rule, tagged, tcp, udp};
use flags::{ACK, FIN, RST, SYN};
use nf_sdk::PacketRecord;
use nf_sdk::native::{ConfigValue, TestPacket};

const A: &str = "10.0.0.1";
const B: &str = "192.0.2.9";
const A6: &str = "2001:db8::1";
const B6: &str = "2001:db8:1::9";

fn there(flags: u8, seq: u32, ack: u32, data: usize) -> Vec<u8> {
    tcp([(A, 1000), (B, 80)], flags, seq, ack, data)
}

fn back(flags: u8, seq: u32, ack: u32, data: usize) -> Vec<u8> {
    tcp([(B, 80), (A, 1000)], flags, seq, ack, data)
}

fn outbound() -> Vec<ConfigValue> {
    vec![rule("accept", &[("from", ConfigValue::text("inside"))])]
}

/// A connection that is open: sequence numbers 101 from inside and 501 from outside are next.
fn open() -> Bench {
    let mut bench = Bench::new(outbound(), &[]);
    assert_eq!(bench.inside(there(SYN, 100, 0, 0)), OUT);
    assert_eq!(bench.outside(back(SYN | ACK, 500, 101, 0)), IN);
    assert_eq!(bench.inside(there(ACK, 101, 501, 0)), OUT);
    bench
}

#[test]
fn a_connection_opens_and_closes() {
    let mut bench = open();
    assert_eq!(bench.inside(there(ACK, 101, 501, 50)), OUT);
    assert_eq!(bench.outside(back(ACK, 501, 151, 1000)), IN);
    assert_eq!(bench.inside(there(FIN | ACK, 151, 1501, 0)), OUT);
    assert_eq!(bench.outside(back(ACK, 1501, 152, 10)), IN);
    assert_eq!(bench.outside(back(FIN | ACK, 1511, 152, 0)), IN);
    assert_eq!(bench.inside(there(ACK, 152, 1512, 0)), OUT);
    bench.wait(239.0);
    assert_eq!(bench.inside(there(ACK, 152, 1512, 0)), OUT);
    bench.wait(241.0);
    assert_eq!(bench.inside(there(ACK, 152, 1512, 0)), drop::NO_FLOW);
    bench.wait(20.0);
    assert_eq!(bench.report()["flows"]["ipv4"], 0);
    assert_eq!(bench.report()["flows"]["expired"], 1);
}

#[test]
fn nothing_comes_in_by_itself() {
    let mut bench = Bench::new(outbound(), &[]);
    assert_eq!(bench.outside(back(SYN, 1, 0, 0)), drop::DENIED);
    assert_eq!(bench.outside(back(SYN | ACK, 1, 1, 0)), drop::NO_FLOW);
    assert_eq!(bench.outside(back(ACK, 1, 1, 0)), drop::NO_FLOW);
    assert_eq!(bench.inside(there(ACK, 1, 1, 0)), drop::NO_FLOW);
    assert_eq!(bench.outside(udp(B, 53, A, 4000)), drop::DENIED);
    assert_eq!(bench.outside(icmp(B, A, [0, 0], [0, 1, 0, 1], &[])), drop::NO_FLOW);
    assert_eq!(bench.inside(icmp(A, B, [0, 0], [0, 1, 0, 1], &[])), drop::NO_FLOW);
    assert_eq!(bench.report()["flows"]["opened"], 0);
}

#[test]
fn senseless_flags_are_refused() {
    let mut bench = open();
    for flags in [0, FIN, SYN | FIN, SYN | RST, FIN | RST, SYN | FIN | ACK, FIN | SYN | RST | ACK] {
        assert_eq!(bench.inside(there(flags, 101, 501, 0)), drop::BAD_STATE, "{flags:#x}");
    }
    let mut bench = Bench::new(outbound(), &[]);
    for flags in [0, FIN, SYN | FIN, SYN | RST, RST, RST | ACK, FIN | ACK] {
        assert_eq!(bench.inside(there(flags, 1, 1, 0)), drop::NO_FLOW, "{flags:#x}");
    }
}

/// Whether the connection of [`open`] still lasts: an hour later it would be gone, if it had been reset.
fn lasts(bench: &mut Bench, seq: u32, ack: u32) -> bool {
    bench.wait(3600.0);
    bench.inside(there(ACK, seq, ack, 0)) == OUT
}

#[test]
fn only_the_exact_reset_ends_a_connection() {
    let mut bench = open();
    assert_eq!(bench.outside(back(RST, 501, 0, 0)), IN);
    assert_eq!(bench.inside(there(ACK, 101, 501, 9)), OUT, "what was under way passes");
    bench.wait(11.0);
    assert_eq!(bench.inside(there(ACK, 101, 501, 9)), drop::NO_FLOW);
    // Within the window, before and behind: for the receiver to challenge.
    for seq in [500, 502, 501 + 65_536, 501u32.wrapping_sub(65_536)] {
        let mut bench = open();
        assert_eq!(bench.outside(back(RST, seq, 0, 0)), IN, "{seq}");
        assert!(lasts(&mut bench, 101, 501), "{seq}");
    }
    for seq in [501 + 65_537, 501u32.wrapping_sub(65_537), 0x7000_0000] {
        let mut bench = open();
        assert_eq!(bench.outside(back(RST, seq, 0, 0)), drop::BAD_STATE, "{seq}");
        assert!(lasts(&mut bench, 101, 501), "{seq}");
        assert_eq!(bench.report()["packets"]["bad-state"], 1);
    }
}

#[test]
fn a_reset_that_follows_a_challenge_counts() {
    // 1,000 bytes were lost behind the firewall: the receiver expects 501, the sender resets with 1501.
    let mut bench = open();
    assert_eq!(bench.outside(back(ACK, 501, 101, 1000)), IN);
    assert_eq!(bench.outside(back(RST, 1400, 0, 0)), IN);
    assert_eq!(bench.inside(there(ACK, 101, 501, 0)), OUT, "the challenge");
    assert_eq!(bench.outside(back(RST, 502, 0, 0)), IN, "not what the challenge told");
    assert_eq!(bench.outside(back(RST, 501, 0, 0)), IN);
    assert!(!lasts(&mut bench, 101, 501));
    // The sender goes on: the reset was not its own, and what the challenge told counts no more.
    let mut bench = open();
    assert_eq!(bench.outside(back(ACK, 501, 101, 1000)), IN);
    assert_eq!(bench.outside(back(RST, 1400, 0, 0)), IN);
    assert_eq!(bench.inside(there(ACK, 101, 501, 0)), OUT);
    assert_eq!(bench.outside(back(ACK, 1501, 101, 10)), IN);
    assert_eq!(bench.outside(back(RST, 501, 0, 0)), IN);
    assert!(lasts(&mut bench, 101, 1511));
}

#[test]
fn a_known_connection_survives_resets_without_its_numbers() {
    let mut bench = open();
    // Every window of the whole space of sequence numbers is tried once, as a blind sender would.
    for guess in 0..65_536u32 {
        bench.outside(back(RST, (guess << 16) | 0x77, 0, 0));
    }
    assert!(lasts(&mut bench, 101, 501));
}

#[test]
fn numbers_outside_of_the_window_are_dropped() {
    let mut bench = open();
    assert_eq!(bench.outside(back(ACK, 501 + 65_537, 101, 0)), drop::BAD_STATE, "sequence number");
    assert_eq!(bench.outside(back(ACK, 501, 102, 0)), drop::BAD_STATE, "of bytes that were never sent");
    assert_eq!(bench.outside(back(ACK, 501, 101u32.wrapping_sub(131_073), 0)), drop::BAD_STATE, "too old");
    assert_eq!(bench.outside(back(ACK, 501, 101u32.wrapping_sub(131_072), 0)), IN);
    assert_eq!(bench.outside(back(ACK, 501 + 65_000, 101, 536)), IN, "all of the window");
    assert_eq!(bench.inside(there(ACK, 101, 501, 0)), OUT, "what was lost is asked for");
    assert_eq!(bench.outside(back(ACK, 501, 101, 1000)), IN, "and comes again");
}

#[test]
fn window_scales_count_when_both_sides_have_one() {
    let with_scale = |frame: Vec<u8>, scale: u8| {
        let mut frame = frame;
        frame[46] = 0x60;
        frame.extend([1, 3, 3, scale]);
        frame[17] += 4;
        frame
    };
    for (answered, verdict) in [(true, IN), (false, drop::BAD_STATE)] {
        let mut bench = Bench::new(outbound(), &[]);
        assert_eq!(bench.inside(with_scale(there(SYN, 100, 0, 0), 4)), OUT);
        let answer = back(SYN | ACK, 500, 101, 0);
        assert_eq!(bench.outside(if answered { with_scale(answer, 2) } else { answer }), IN);
        assert_eq!(bench.inside(there(ACK, 101, 501, 0)), OUT);
        assert_eq!(bench.outside(back(ACK, 501 + 1_000_000, 101, 0)), verdict);
    }
}

#[test]
fn a_forgotten_connection_begins_anew() {
    let mut bench = open();
    assert_eq!(bench.outside(back(ACK, 501, 101, 1000)), IN);
    // The inside end was started again and uses the same port; the outside end has ended as well.
    assert_eq!(bench.inside(there(SYN, 0x5000_0000, 0, 0)), OUT);
    assert_eq!(bench.outside(back(SYN | ACK, 0x6000_0000, 7, 0)), IN, "acknowledges something else");
    assert_eq!(bench.outside(back(SYN, 0x6000_0000, 0x5000_0001, 0)), IN, "acknowledges nothing");
    assert_eq!(bench.inside(there(ACK, 0x5000_0001, 0x6000_0001, 0)), drop::BAD_STATE);
    assert_eq!(bench.outside(back(SYN | ACK, 0x6000_0000, 0x5000_0001, 0)), IN);
    assert_eq!(bench.inside(there(ACK, 0x5000_0001, 0x6000_0001, 0)), OUT);
    assert_eq!(bench.outside(back(ACK, 0x6000_0001, 0x5000_0001, 100)), IN);
    assert_eq!(bench.outside(back(ACK, 1501, 101, 0)), drop::BAD_STATE, "of the old one");
}

#[test]
fn the_end_of_a_handshake_tells_the_number_of_its_answer() {
    let inbound = vec![rule("accept", &[("from", ConfigValue::text("outside"))])];
    let mut bench = Bench::new(inbound, &[("max_flows", ConfigValue::Integer(10))]);
    // A sender that does not see the answers opens nothing.
    for port in 0..10 {
        let (there, back) = ([(B, port), (A, 80)], [(A, 80), (B, port)]);
        assert_eq!(bench.outside(tcp(there, SYN, 100, 0, 0)), IN);
        assert_eq!(bench.inside(tcp(back, SYN | ACK, 0x1234_5678, 101, 0)), OUT);
        assert_eq!(bench.outside(tcp(there, ACK, 101, 0x1234_5678, 0)), drop::BAD_STATE);
        assert_eq!(bench.outside(tcp(there, ACK, 101, 0x1234_567a, 0)), drop::BAD_STATE);
    }
    // Hence all of it makes room.
    let (there, back) = ([(B, 4000), (A, 80)], [(A, 80), (B, 4000)]);
    assert_eq!(bench.outside(tcp(there, SYN, 100, 0, 0)), IN);
    assert_eq!(bench.inside(tcp(back, SYN | ACK, 500, 101, 0)), OUT);
    assert_eq!(bench.outside(tcp(there, ACK, 101, 501, 10)), IN);
    // A responder that sends before the handshake is complete is acknowledged for that.
    let (there, back) = ([(B, 4001), (A, 80)], [(A, 80), (B, 4001)]);
    assert_eq!(bench.outside(tcp(there, SYN, 100, 0, 0)), IN);
    assert_eq!(bench.inside(tcp(back, SYN | ACK, 500, 101, 0)), OUT);
    assert_eq!(bench.inside(tcp(back, ACK, 501, 101, 300)), OUT);
    assert_eq!(bench.outside(tcp(there, ACK, 101, 501, 10)), IN);
}

#[test]
fn a_flood_of_syns_pushes_no_connection_out() {
    let inbound = vec![rule("accept", &[])];
    let mut bench = Bench::new(inbound, &[("max_flows", ConfigValue::Integer(200))]);
    let ends = |port: u16| ([(A, port), (B, 80)], [(B, 80), (A, port)]);
    for port in 0..100 {
        let (there, back) = ends(port);
        assert_eq!(bench.inside(tcp(there, SYN, 100, 0, 0)), OUT);
        assert_eq!(bench.outside(tcp(back, SYN | ACK, 500, 101, 0)), IN);
        assert_eq!(bench.inside(tcp(there, ACK, 101, 501, 0)), OUT);
    }
    for n in 0..20_000u32 {
        let source = format!("198.51.{}.{}", n >> 8 & 0xff, n & 0xff);
        bench.outside(tcp([(&source, (n >> 4) as u16), (A, 80)], SYN, n, 0, 0));
        if n % 100 == 0 {
            // The server's answer keeps none of them.
            bench.inside(tcp([(A, 80), (&source, (n >> 4) as u16)], SYN | ACK, 7, n + 1, 0));
        }
    }
    for port in 0..100 {
        let (there, back) = ends(port);
        assert_eq!(bench.outside(tcp(back, ACK, 501, 101, 10)), IN, "{port}");
        assert_eq!(bench.inside(tcp(there, ACK, 101, 511, 10)), OUT, "{port}");
    }
    let (there, back) = ends(5000);
    assert_eq!(bench.inside(tcp(there, SYN, 100, 0, 0)), OUT, "a new one still finds room");
    assert_eq!(bench.outside(tcp(back, SYN | ACK, 500, 101, 0)), IN);
    assert_eq!(bench.inside(tcp(there, ACK, 101, 501, 0)), OUT);
}

#[test]
fn one_way_udp_lasts_while_it_comes() {
    let mut bench = Bench::new(outbound(), &[]);
    for (source, destination) in [(A, B), (A6, B6)] {
        for _ in 0..10 {
            assert_eq!(bench.inside(udp(source, 4000, destination, 514)), OUT);
            bench.wait(29.0);
        }
        assert_eq!(bench.report()["flows"]["opened"], if source == A { 1 } else { 2 });
        // An answer counts as one, whatever came before it.
        assert_eq!(bench.outside(udp(destination, 514, source, 4000)), IN);
        bench.wait(170.0);
        assert_eq!(bench.outside(udp(destination, 514, source, 4000)), IN, "within udp_answered_timeout");
    }
}

#[test]
fn a_refused_connection_ends_at_once() {
    let mut bench = Bench::new(outbound(), &[]);
    assert_eq!(bench.inside(there(SYN, 100, 0, 0)), OUT);
    assert_eq!(bench.outside(back(RST | ACK, 0, 77, 0)), drop::BAD_STATE, "it acknowledges another SYN");
    assert_eq!(bench.outside(back(RST | ACK, 0, 101, 0)), IN);
    // The next attempt is a new flow, decided by the rules.
    assert_eq!(bench.inside(there(SYN, 7000, 0, 0)), OUT);
    assert_eq!(bench.report()["rules"][0]["hits"], 2);
    assert_eq!(bench.outside(back(SYN | ACK, 1, 7001, 0)), IN);
}

#[test]
fn a_handshake_has_to_be_completed() {
    let mut bench = Bench::new(outbound(), &[]);
    assert_eq!(bench.inside(there(SYN, 100, 0, 0)), OUT);
    assert_eq!(bench.inside(there(SYN, 100, 0, 0)), OUT, "sent again");
    assert_eq!(bench.inside(there(ACK, 101, 1, 0)), drop::BAD_STATE, "there was no answer");
    assert_eq!(bench.outside(back(ACK, 9000, 5, 0)), IN, "a forgotten connection's answer");
    assert_eq!(bench.inside(there(RST, 5, 0, 0)), OUT);
    let mut bench = Bench::new(outbound(), &[]);
    assert_eq!(bench.inside(there(SYN, 100, 0, 0)), OUT);
    bench.wait(61.0);
    assert_eq!(bench.outside(back(SYN | ACK, 500, 101, 0)), drop::NO_FLOW);
}

#[test]
fn both_may_open_at_once() {
    let both = vec![rule("accept", &[])];
    let mut bench = Bench::new(both, &[]);
    assert_eq!(bench.inside(there(SYN, 100, 0, 0)), OUT);
    assert_eq!(bench.outside(back(SYN, 500, 0, 0)), IN);
    assert_eq!(bench.inside(there(SYN | ACK, 100, 501, 0)), OUT);
    assert_eq!(bench.outside(back(SYN | ACK, 500, 101, 0)), IN);
    assert_eq!(bench.inside(there(ACK, 101, 501, 0)), OUT);
    bench.wait(7000.0);
    assert_eq!(bench.outside(back(ACK, 501, 101, 0)), IN);
}

#[test]
fn connections_are_picked_up_on_request_only() {
    let mut bench = Bench::new(outbound(), &[("pick_up", ConfigValue::Boolean(true))]);
    assert_eq!(bench.outside(back(ACK, 1, 1, 0)), drop::DENIED);
    assert_eq!(bench.inside(there(ACK, 5000, 1, 0)), OUT);
    assert_eq!(bench.outside(back(ACK, 77, 1, 0)), IN);
    assert_eq!(bench.inside(there(SYN | ACK, 1, 1, 0)), OUT, "a challenge is for the ends");
}

#[test]
fn times_are_kept() {
    let mut bench = Bench::new(outbound(), &[]);
    assert_eq!(bench.inside(udp(A, 4000, B, 53)), OUT);
    bench.wait(29.9);
    assert_eq!(bench.outside(udp(B, 53, A, 4000)), IN, "within udp_timeout");
    bench.wait(179.0);
    assert_eq!(bench.outside(udp(B, 53, A, 4000)), IN, "within udp_answered_timeout");
    bench.wait(180.5);
    assert_eq!(bench.outside(udp(B, 53, A, 4000)), drop::DENIED);
    assert_eq!(bench.inside(udp(A, 4000, B, 53)), OUT);
    bench.wait(30.5);
    assert_eq!(bench.outside(udp(B, 53, A, 4000)), drop::DENIED);

    let mut bench = open();
    bench.wait(7439.0);
    assert_eq!(bench.inside(there(ACK, 101, 501, 0)), OUT);
    bench.wait(7441.0);
    assert_eq!(bench.inside(there(ACK, 101, 501, 0)), drop::NO_FLOW);
}

#[test]
fn echoes_are_answered_to_the_asking_side() {
    let mut bench = Bench::new(outbound(), &[]);
    assert_eq!(bench.inside(icmp(A, B, [8, 0], [0, 7, 0, 1], &[1, 2, 3])), OUT);
    assert_eq!(bench.outside(icmp(B, A, [0, 0], [0, 7, 0, 1], &[1, 2, 3])), IN);
    assert_eq!(bench.outside(icmp(B, A, [0, 0], [0, 8, 0, 1], &[1, 2, 3])), drop::NO_FLOW);
    // The same identifier asked from the other side is another exchange.
    assert_eq!(bench.outside(icmp(B, A, [8, 0], [0, 7, 0, 1], &[1, 2, 3])), drop::DENIED);
    assert_eq!(bench.inside(icmp(A6, B6, [128, 0], [0, 7, 0, 1], &[])), OUT);
    assert_eq!(bench.outside(icmp(B6, A6, [129, 0], [0, 7, 0, 1], &[])), IN);
    bench.wait(61.0);
    assert_eq!(bench.outside(icmp(B6, A6, [129, 0], [0, 7, 0, 1], &[])), drop::NO_FLOW);
}

#[test]
fn errors_belong_to_flows() {
    let mut bench = open();
    assert_eq!(bench.inside(udp(A, 4000, B, 53)), OUT);
    assert_eq!(bench.inside(icmp(A, B, [8, 0], [0, 7, 0, 1], &[1, 2, 3])), OUT);
    assert_eq!(bench.inside(udp(A6, 4000, B6, 53)), OUT);
    let router = "198.51.100.1";
    let about = |frame: Vec<u8>, bytes: usize| icmp(router, A, [3, 1], [0; 4], &frame[14..14 + 20 + bytes]);
    assert_eq!(bench.outside(about(udp(A, 4000, B, 53), 8)), IN);
    assert_eq!(bench.outside(about(there(ACK, 101, 501, 0), 8)), IN);
    assert_eq!(bench.outside(about(icmp(A, B, [8, 0], [0, 7, 0, 1], &[]), 8)), IN);
    assert_eq!(bench.outside(icmp(B6, A6, [2, 0], [0; 4], &udp(A6, 4000, B6, 53)[14..])), IN);
    // No such flow; a sequence number that was never sent; the wrong side; a fragment; too short.
    assert_eq!(bench.outside(about(udp(A, 4001, B, 53), 8)), drop::NO_FLOW);
    assert_eq!(bench.outside(about(there(ACK, 0x7000_0000, 501, 0), 8)), drop::NO_FLOW);
    assert_eq!(bench.inside(about(udp(A, 4000, B, 53), 8)), drop::NO_FLOW);
    assert_eq!(bench.outside(about(udp(A, 4000, B, 53), 3)), drop::NO_FLOW);
    assert_eq!(bench.outside(icmp(router, A, [3, 1], [0; 4], &[])), drop::MALFORMED);
    // From inside, about what came in.
    assert_eq!(bench.outside(udp(B, 53, A, 4000)), IN);
    let refused = udp(B, 53, A, 4000);
    assert_eq!(bench.inside(icmp(A, B, [3, 3], [0; 4], &refused[14..42])), OUT);
}

#[test]
fn other_icmp_goes_by_rules() {
    let text = ConfigValue::text;
    let rules = vec![
        rule("accept", &[("protocol", text("icmp")), ("icmp_type", ConfigValue::Integer(13))]),
        rule(
            "accept",
            &[
                ("protocol", text("icmpv6")),
                ("icmp_type", ConfigValue::Integer(144)),
                ("icmp_code", ConfigValue::Integer(2)),
            ],
        ),
    ];
    let mut bench = Bench::new(rules, &[]);
    assert_eq!(bench.outside(icmp(B, A, [13, 0], [0; 4], &[])), IN);
    assert_eq!(bench.outside(icmp(B, A, [15, 0], [0; 4], &[])), drop::DENIED);
    assert_eq!(bench.outside(icmp(B6, A6, [144, 2], [0; 4], &[])), IN);
    assert_eq!(bench.outside(icmp(B6, A6, [144, 1], [0; 4], &[])), drop::DENIED);
    assert_eq!(bench.report()["flows"]["opened"], 0);
}

#[test]
fn discovery_and_arp_pass() {
    let arp = || {
        let mut frame = vec![0xff; 12];
        frame.extend([8, 6]);
        frame.extend([0; 46]);
        frame
    };
    let link = |hops: u8| {
        let mut frame = icmp("fe80::1", "ff02::1:ff00:2", [135, 0], [0; 4], &[0; 16]);
        frame[21] = hops;
        frame
    };
    let mut bench = Bench::new(vec![], &[]);
    assert_eq!(bench.inside(arp()), OUT);
    assert_eq!(bench.outside(arp()), IN);
    assert_eq!(bench.outside(link(255)), IN);
    assert_eq!(bench.outside(link(64)), drop::DENIED, "a router has forwarded it");
    let drop_all =
        [("non_ip", ConfigValue::text("drop")), ("neighbor_discovery", ConfigValue::text("rules"))];
    let mut bench = Bench::new(vec![], &drop_all);
    assert_eq!(bench.inside(arp()), drop::NON_IP);
    assert_eq!(bench.outside(link(255)), drop::DENIED);
}

#[test]
fn vlans_are_networks_of_their_own() {
    let mut bench = Bench::new(outbound(), &[]);
    assert_eq!(bench.inside(tagged(&udp(A, 4000, B, 53), &[7])), OUT);
    assert_eq!(bench.outside(tagged(&udp(B, 53, A, 4000), &[8])), drop::DENIED);
    assert_eq!(bench.outside(udp(B, 53, A, 4000)), drop::DENIED);
    assert_eq!(bench.outside(tagged(&udp(B, 53, A, 4000), &[7])), IN);
}

#[test]
fn a_full_table_keeps_what_is_agreed() {
    let mut bench = Bench::new(outbound(), &[("max_flows", ConfigValue::Integer(10))]);
    for port in 0..10 {
        assert_eq!(bench.inside(udp(A, port, B, 53)), OUT);
        assert_eq!(bench.outside(udp(B, 53, A, port)), IN);
    }
    assert_eq!(bench.inside(udp(A, 99, B, 53)), drop::TABLE_FULL);
    assert_eq!(bench.inside(udp(A6, 99, B6, 53)), OUT, "the other family has its own room");
    bench.wait(181.0);
    assert_eq!(bench.inside(udp(A, 99, B, 53)), OUT, "what has ended makes room");

    let mut bench = Bench::new(outbound(), &[("max_flows", ConfigValue::Integer(10))]);
    for port in 0..5 {
        assert_eq!(bench.inside(udp(A, port, B, 53)), OUT);
        assert_eq!(bench.outside(udp(B, 53, A, port)), IN);
    }
    bench.wait(1.0);
    for port in 100..200 {
        assert_eq!(bench.inside(udp(A, port, B, 53)), OUT, "an unanswered flow makes room for {port}");
    }
    for port in 0..5 {
        assert_eq!(bench.outside(udp(B, 53, A, port)), IN, "{port} is agreed");
    }
    let flows = &bench.report()["flows"];
    assert_eq!((&flows["ipv4"], &flows["evicted"]), (&10.into(), &95.into()));
}

#[test]
fn rules_are_taken_in_order_and_counted() {
    let text = ConfigValue::text;
    let rules = vec![
        rule(
            "drop",
            &[
                ("name", text("no \"telnet\"")),
                ("protocol", text("tcp")),
                ("destination_ports", ConfigValue::PortRange(23, 23)),
            ],
        ),
        rule("accept", &[("source", prefix("10.0.0.0/8"))]),
        rule("accept", &[("source", prefix("2001:db8::/32")), ("protocol", text("17"))]),
    ];
    let off = [("stateful", ConfigValue::Boolean(false))];
    let mut bench = Bench::new(rules, &off);
    assert_eq!(bench.inside(tcp([(A, 1), (B, 23)], SYN, 1, 0, 0)), drop::DENIED);
    assert_eq!(bench.inside(tcp([(A, 1), (B, 24)], ACK, 1, 0, 0)), OUT);
    assert_eq!(bench.inside(udp(A, 1, B, 23)), OUT);
    assert_eq!(bench.inside(udp(B, 1, A, 23)), drop::DENIED);
    assert_eq!(bench.inside(udp(A6, 1, B6, 23)), OUT);
    assert_eq!(bench.inside(tcp([(A6, 1), (B6, 24)], SYN, 1, 0, 0)), drop::DENIED);
    assert_eq!(bench.inside(tcp([(A6, 1), (B6, 23)], SYN, 1, 0, 0)), drop::DENIED);
    let report = bench.report();
    assert_eq!(report["rules"][0]["name"], "no \"telnet\"");
    let hits: Vec<_> = (0..3).map(|n| report["rules"][n]["hits"].as_u64()).collect();
    assert_eq!(hits, [Some(2), Some(2), Some(1)]);
    assert_eq!(report["default"]["hits"], 2);
    assert_eq!((&report["packets"]["accepted"], &report["packets"]["denied"]), (&3.into(), &4.into()));
    assert_eq!((bench.runner.host().counter(0), bench.runner.host().counter(1)), (3, 4));
}

#[test]
fn flows_move_to_another_instance() {
    let mut from = open();
    assert_eq!(from.inside(udp(A6, 4000, B6, 53)), OUT);
    from.wait(10.0);
    let state = from.runner.export_state().expect("offered");
    for begun in [false, true] {
        let mut to = Bench::new(outbound(), &[]);
        to.now = 500.0;
        if begun {
            assert_eq!(to.outside(udp(B6, 53, A6, 4000)), drop::DENIED);
        }
        assert!(to.runner.import_state(&state));
        assert_eq!(to.outside(back(ACK, 501, 101, 100)), IN);
        assert_eq!(to.outside(back(RST, 0x7000_0000, 0, 0)), drop::BAD_STATE);
        to.wait(19.0);
        assert_eq!(to.outside(udp(B6, 53, A6, 4000)), IN);
    }
    let mut late = Bench::new(outbound(), &[]);
    assert!(late.runner.import_state(&state));
    assert_eq!(late.outside(back(ACK, 501, 101, 100)), IN);
    late.wait(21.0);
    assert_eq!(late.outside(udp(B6, 53, A6, 4000)), drop::DENIED, "its time went on");

    let mut broken = Bench::new(outbound(), &[]);
    assert!(!broken.runner.import_state(&state[..state.len() - 1]));
    assert_eq!(broken.report()["flows"]["ipv4"], 0);
    let mut stateless = Bench::new(vec![], &[("stateful", ConfigValue::Boolean(false))]);
    assert!(stateless.runner.import_state(&state), "it has no use for them");
    assert!(!stateless.runner.import_state(&state[..state.len() - 1]));
    assert_eq!(stateless.runner.export_state().as_deref(), Some(&[][..]), "it knows nothing");
}

/// What a connection of each kind gets after it was handed over to other rules: its next packets, from inside
/// and from outside.
fn handed_over(begun_outside: bool, rules: Vec<ConfigValue>, keep: bool) -> Vec<nf_sdk::Verdict> {
    let mut from = Bench::new(vec![rule("accept", &[])], &[]);
    let (near, far) = if begun_outside { ((B, 80), (A, 1000)) } else { ((A, 1000), (B, 80)) };
    let ends = [near, far];
    let send = |bench: &mut Bench, by_originator: bool, packet: Vec<u8>| match by_originator != begun_outside
    {
        true => bench.inside(packet),
        false => bench.outside(packet),
    };
    let back = [far, near];
    send(&mut from, true, tcp(ends, SYN, 100, 0, 0));
    send(&mut from, false, tcp(back, SYN | ACK, 500, 101, 0));
    send(&mut from, true, tcp(ends, ACK, 101, 501, 0));
    let ends6 = if begun_outside { (B6, A6) } else { (A6, B6) };
    send(&mut from, true, udp(ends6.0, 4000, ends6.1, 53));
    send(&mut from, false, udp(ends6.1, 53, ends6.0, 4000));
    let echo = if begun_outside { (B, A) } else { (A, B) };
    send(&mut from, true, icmp(echo.0, echo.1, [8, 0], [0, 7, 0, 1], &[]));
    let state = from.runner.export_state().expect("offered");
    let established = ConfigValue::text(if keep { "keep" } else { "recheck" });
    let mut to = Bench::new(rules, &[("established", established)]);
    assert!(to.runner.import_state(&state));
    vec![
        send(&mut to, false, tcp(back, ACK, 501, 101, 0)),
        send(&mut to, false, udp(ends6.1, 53, ends6.0, 4000)),
        send(&mut to, false, icmp(echo.1, echo.0, [0, 0], [0, 7, 0, 1], &[])),
    ]
}

#[test]
fn connections_that_new_rules_deny_end_and_those_that_they_accept_live() {
    let text = ConfigValue::text;
    for outside in [false, true] {
        let from = if outside { "outside" } else { "inside" };
        let other = if outside { "inside" } else { "outside" };
        let passes = if outside { OUT } else { IN };
        // Renamed, put in another order, made narrower as long as they still match: all live.
        let same = vec![rule("accept", &[("from", text(from)), ("name", text("renamed"))])];
        assert_eq!(handed_over(outside, same, false), [passes; 3]);
        let (source, target) = if outside { (B, A) } else { (A, B) };
        let narrow = |protocol: &str| {
            rule(
                "accept",
                &[
                    ("protocol", text(protocol)),
                    ("source", prefix(&format!("{source}/32"))),
                    ("destination", prefix(&format!("{target}/32"))),
                ],
            )
        };
        let range = |port: u16| ConfigValue::PortRange(port, port);
        let ports = |from: u16, to: u16, protocol: &str| {
            rule(
                "accept",
                &[
                    ("protocol", text(protocol)),
                    ("source_ports", range(from)),
                    ("destination_ports", range(to)),
                ],
            )
        };
        let (tcp_from, tcp_to) = if outside { (80, 1000) } else { (1000, 80) };
        let exact = vec![
            ports(tcp_from, tcp_to, "tcp"),
            ports(4000, 53, "udp"),
            rule("accept", &[("protocol", text("icmp")), ("icmp_type", ConfigValue::Integer(8))]),
        ];
        assert_eq!(
            handed_over(outside, exact, false),
            [passes; 3],
            "both directions of a port, and the request's type"
        );
        assert_eq!(handed_over(outside, vec![narrow("tcp")], false), [passes, drop::DENIED, drop::NO_FLOW]);
        // The other way round they would not have begun.
        let turned = vec![
            ports(tcp_to, tcp_from, "tcp"),
            ports(53, 4000, "udp"),
            rule("accept", &[("protocol", text("icmp")), ("icmp_type", ConfigValue::Integer(0))]),
        ];
        assert_eq!(handed_over(outside, turned, false), [drop::NO_FLOW, passes, drop::NO_FLOW]);
        let denied = vec![rule("accept", &[("from", text(other)), ("protocol", text("tcp"))])];
        assert_eq!(handed_over(outside, denied.clone(), false), [drop::NO_FLOW, drop::DENIED, drop::NO_FLOW]);
        assert_eq!(handed_over(outside, denied, true), [passes; 3], "they are kept");
    }
}

#[test]
fn contradictory_rules_are_refused() {
    use nf_sdk::native::Runner;
    let text = ConfigValue::text;
    let ports = || ("source_ports", ConfigValue::PortRange(1, 2));
    for (wrong, says) in [
        (rule("accept", &[ports()]), "rules[1]: protocol: `any` with ports; allowed: tcp or udp"),
        (rule("accept", &[("protocol", text("icmp")), ports()]), "protocol: `icmp` with ports"),
        (rule("accept", &[("protocol", text("udp")), ("icmp_type", ConfigValue::Integer(3))]), "icmp_type"),
        (rule("accept", &[("protocol", text("sctp"))]), "`sctp`"),
        (rule("accept", &[("protocol", text("256"))]), "`256`"),
        (
            rule("accept", &[("source", prefix("10.0.0.0/8")), ("destination", prefix("::/0"))]),
            "source is IPv4 and destination IPv6; allowed: both of one family",
        ),
        (rule("reject", &[]), "neither accept nor drop"),
    ] {
        let config = super::frames::config(vec![rule("accept", &[]), wrong], &[]);
        let error = Runner::<crate::Firewall>::new(&config).err().expect("refused").to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn time_is_what_packets_say_however_fast_a_capture_is_read() {
    let mut bench = Bench::new(outbound(), &[]);
    // Recorded years before, and read at once.
    let mut show = |seconds: u64, ingress: u16, frame: Vec<u8>| {
        let timestamp = (1_000_000_000 + seconds) * 1_000_000_000;
        let record = PacketRecord { ingress, timestamp, ..PacketRecord::default() };
        let now = super::frames::at(bench.now);
        bench.runner.run(&[TestPacket { bytes: frame, record }], now)[0].verdict
    };
    assert_eq!(show(0, 0, udp(A, 1000, B, 53)), Some(OUT));
    assert_eq!(show(29, 1, udp(B, 53, A, 1000)), Some(IN));
    assert_eq!(show(29 + 181, 1, udp(B, 53, A, 1000)), Some(drop::DENIED));
    // Between packets time goes on as the host's does.
    assert_eq!(show(220, 0, udp(A, 1001, B, 53)), Some(OUT));
    bench.wait(100.0);
    assert_eq!(bench.report()["flows"]["expired"], 2);
}
