//! Packets of which a capture has only a part.

use super::frames::{Bench, IN, OUT, at, drop, flags, icmp, packet, rule, tcp, udp};
use flags::{ACK, SYN};
use nf_sdk::Verdict;
use nf_sdk::native::{ConfigValue, TestPacket};

const A: &str = "10.0.0.1";
const B: &str = "192.0.2.9";
const A6: &str = "2001:db8::1";
const B6: &str = "2001:db8:1::9";

/// What a capture has of a frame that keeps so many bytes of each.
fn snapped(frame: &[u8], kept: usize, ingress: u16) -> TestPacket {
    let mut part = TestPacket::new(frame[..kept].to_vec(), ingress);
    part.record.gso_size = (frame.len() - kept) as u16;
    part
}

impl Bench {
    fn show_part(&mut self, part: TestPacket) -> Verdict {
        let now = at(self.now);
        self.runner.run(&[part], now)[0].verdict.expect("a verdict")
    }
}

fn from_inside() -> Vec<ConfigValue> {
    vec![rule("accept", &[("from", ConfigValue::text("inside"))])]
}

#[test]
fn a_connection_of_a_snapped_capture_is_tracked() {
    for (a, b) in [(A, B), (A6, B6)] {
        let mut bench = Bench::new(from_inside(), &[]);
        let there = |flags, seq, ack, data| tcp([(a, 1000), (b, 80)], flags, seq, ack, data);
        let back = |flags, seq, ack, data| tcp([(b, 80), (a, 1000)], flags, seq, ack, data);
        assert_eq!(bench.inside(there(SYN, 100, 0, 0)), OUT);
        assert_eq!(bench.outside(back(SYN | ACK, 500, 101, 0)), IN);
        assert_eq!(bench.inside(there(ACK, 101, 501, 0)), OUT);
        let headers = there(ACK, 101, 501, 0).len();
        assert_eq!(bench.show_part(snapped(&there(ACK, 101, 501, 900), headers, 0)), OUT);
        // What the capture left out was sent all the same.
        assert_eq!(bench.outside(back(ACK, 501, 1002, 0)), drop::BAD_STATE);
        assert_eq!(bench.show_part(snapped(&back(ACK, 501, 1001, 1400), headers + 7, 1)), IN);
        assert_eq!(bench.inside(there(ACK, 1001, 1901, 0)), OUT);
        let seen = bench.report();
        assert_eq!((&seen["snapped"], &seen["unsegmented"]), (&2.into(), &0.into()));
        assert_eq!(seen["packets"]["unreadable"], 0);
    }
}

#[test]
fn what_is_cut_in_its_headers_or_was_not_cut_by_the_capture_is_unreadable() {
    let payload = [&[15, 160, 0, 53, 0, 108, 0, 0][..], &[7; 100]].concat();
    for stateful in [true, false] {
        for (a, b) in [(A, B), (A6, B6)] {
            let bench = || Bench::new(from_inside(), &[("stateful", ConfigValue::Boolean(stateful))]);
            let query = packet(a, b, 17, &payload);
            let headers = query.len() - 100;
            let mut first = bench();
            assert_eq!(first.show_part(snapped(&query, headers, 0)), OUT);
            assert_eq!(first.report()["snapped"], 1);
            for (part, why) in [
                (snapped(&query, headers - 1, 0), "a header is cut"),
                (TestPacket::new(query[..headers].to_vec(), 0), "it came so"),
                (
                    TestPacket {
                        record: snapped(&query, headers + 1, 0).record,
                        ..snapped(&query, headers, 0)
                    },
                    "a byte more is missing",
                ),
            ] {
                let mut bench = bench();
                assert_eq!(bench.show_part(part), drop::UNREADABLE, "{why}");
                assert_eq!(bench.report()["snapped"], 0, "{why}");
            }
            // Rules see its ports.
            let port_53 = ("destination_ports", ConfigValue::PortRange(53, 53));
            let rules = vec![rule("drop", &[("protocol", ConfigValue::text("udp")), port_53])];
            let changes = [
                ("default_action", ConfigValue::text("accept")),
                ("stateful", ConfigValue::Boolean(stateful)),
            ];
            assert_eq!(Bench::new(rules, &changes).show_part(snapped(&query, headers, 0)), drop::DENIED);
        }
    }
}

#[test]
fn fragments_of_a_snapped_capture_follow_their_first_one() {
    let data = [&[15, 160, 0, 53, 0, 72, 0, 0][..], &[7; 64]].concat();
    let fragment = |range: std::ops::Range<usize>| {
        let mut frame = packet(A, B, 17, &data[range.clone()]);
        let more = u16::from(range.end < data.len()) << 13;
        frame[20..22].copy_from_slice(&((range.start as u16 / 8) | more).to_be_bytes());
        frame
    };
    let mut bench = Bench::new(from_inside(), &[]);
    assert_eq!(bench.show_part(snapped(&fragment(0..40), 44, 0)), OUT);
    assert_eq!(bench.show_part(snapped(&fragment(32..72), 40, 0)), drop::FRAGMENT, "it overlaps");
    assert_eq!(bench.show_part(snapped(&fragment(40..72), 40, 0)), OUT);
}

/// The headers that decide about an error are those that it carries.
#[test]
fn an_error_is_read_as_far_as_the_headers_that_it_carries() {
    for (a, b, kind, ip) in [(A, B, [3, 1], 20), (A6, B6, [1, 0], 40)] {
        let mut bench = Bench::new(from_inside(), &[]);
        let query = udp(a, 4000, b, 53);
        assert_eq!(bench.inside(query.clone()), OUT);
        let about = icmp(b, a, kind, [0; 4], &[&query[14..], &[0; 30]].concat());
        // Both headers of IP, that of ICMP, and the first eight bytes behind them.
        let headers = 14 + ip + 8 + ip + 8;
        assert_eq!(bench.show_part(snapped(&about, headers, 1)), IN);
        assert_eq!(bench.show_part(snapped(&about, headers - 1, 1)), drop::UNREADABLE);
    }
}

#[test]
fn what_has_no_length_of_its_own_has_that_of_the_wire() {
    let mut bench = Bench::new(from_inside(), &[]);
    assert_eq!(bench.inside(tcp([(A, 1000), (B, 80)], SYN, 100, 0, 0)), OUT);
    assert_eq!(bench.outside(tcp([(B, 80), (A, 1000)], SYN | ACK, 500, 101, 0)), IN);
    let mut data = tcp([(A, 1000), (B, 80)], ACK, 101, 501, 60_000);
    data[16..18].fill(0);
    assert_eq!(bench.show_part(snapped(&data, 60, 0)), OUT);
    assert_eq!(bench.outside(tcp([(B, 80), (A, 1000)], ACK, 501, 60_102, 0)), drop::BAD_STATE);
    assert_eq!(bench.outside(tcp([(B, 80), (A, 1000)], ACK, 501, 60_101, 0)), IN, "all of it was seen");
    let seen = bench.report();
    assert_eq!((&seen["snapped"], &seen["unsegmented"]), (&1.into(), &1.into()));
}
