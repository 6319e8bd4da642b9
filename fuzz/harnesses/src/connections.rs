//! Packets of a few connections through `firewall`, with numbers and times that are nearly right, against a
//! model that has neither a table nor a fast path.

use crate::configuration::Configuration;
use firewall::Firewall;
use nf_sdk::native::frames::{flags, icmp, packet, udp};
use nf_sdk::native::{Runner, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::sync::LazyLock;

#[path = "connection_model.rs"]
mod connection_model;
use connection_model::{INSIDE, Model, Packet, Segment};

static CONFIG: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/firewall/function.yaml"));
    configuration.read("rules: [{action: accept, from: inside}]\nmax_flows: 64\nmax_flows_ipv6: 64", "")
});

const FLAGS: [u8; 8] = [
    flags::SYN,
    flags::SYN | flags::ACK,
    flags::ACK,
    flags::ACK,
    flags::ACK,
    flags::FIN | flags::ACK,
    flags::RST,
    flags::RST | flags::ACK,
];
/// How far numbers are from what was sent last: right, or about a window or two.
const OFF: [i64; 8] = [0, 0, 0, 0, 100, -70_000, 66_000, 200_000];
/// Seconds that pass before a packet.
const WAITS: [u64; 8] = [0, 0, 0, 0, 1, 25, 100, 5000];
/// Sequence numbers of the two sides' beginnings: one of them soon wraps.
const STARTS: [u32; 2] = [0xffff_fe00, 0x1234_5678];

/// What both ends of a connection have sent, as they know it.
#[derive(Clone, Copy, Default)]
struct Ends {
    sent: [i64; 2],
}

fn tcp(ends: [(&str, u16); 2], segment: Segment, data: usize) -> Vec<u8> {
    let Segment { side, flags, seq, ack, .. } = segment;
    let mut payload = Vec::new();
    payload.extend(ends[0].1.to_be_bytes());
    payload.extend(ends[1].1.to_be_bytes());
    payload.extend(STARTS[side].wrapping_add(seq as u32).to_be_bytes());
    payload.extend(STARTS[1 - side].wrapping_add(ack as u32).to_be_bytes());
    payload.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    payload.resize(payload.len() + data, 7);
    packet(ends[0].0, ends[1].0, 6, &payload)
}

/// Whether packets without time between them go in one batch; then four bytes a packet.
pub fn run(data: &[u8]) {
    let Some((&manner, steps)) = data.split_first() else { return };
    let (in_batches, has_timers) = (manner & 1 != 0, manner & 2 != 0);
    let mut runner = Runner::<Firewall>::new(&CONFIG).expect("in range");
    let mut model = Model::new();
    let mut ends = [Ends::default(); 4];
    let begin = Nanos(1 << 60);
    let at = |seconds: u64| begin.saturating_add(Nanos::from_secs(seconds));
    let (mut now, mut passed) = (0, 0);
    let mut batch: Vec<(TestPacket, bool, String)> = Vec::new();
    let flush = |runner: &mut Runner<Firewall>, batch: &mut Vec<(TestPacket, bool, String)>, now: u64| {
        let packets: Vec<TestPacket> = batch.iter().map(|(packet, ..)| packet.clone()).collect();
        let outcomes = runner.run(&packets, at(now));
        for (outcome, (packet, passes, what)) in outcomes.iter().zip(batch.drain(..)) {
            let onward = Verdict::Interface(1 - packet.record.ingress);
            assert_eq!(outcome.verdict == Some(onward), passes, "{what}: {:?}", outcome.verdict);
        }
    };
    for (number, step) in steps.as_chunks::<4>().0.iter().enumerate() {
        let &[which, what, off, more] = step;
        let wait = WAITS[usize::from(more & 7)];
        if wait > 0 || !in_batches || batch.len() == 32 {
            flush(&mut runner, &mut batch, now);
            if has_timers {
                runner.timers_until(at(now + wait));
            }
            now += wait;
        }
        let (side, is_ipv4, port) = (usize::from(which & 1), which & 2 == 0, u16::from(which >> 2 & 1));
        let (near, far) = if is_ipv4 { ("10.0.0.1", "192.0.2.1") } else { ("2001:db8::1", "2001:db8:9::1") };
        let mut pair = [(near, 1000 + port), (far, 80)];
        if side != INSIDE {
            pair.reverse();
        }
        let kind = [0, 0, 0, 0, 0, 1, 2, 3][usize::from(which >> 3 & 7)];
        let (frame, packet) = match kind {
            0 => {
                let known = &mut ends[usize::from(which >> 1 & 3)];
                let (flags, data) =
                    (FLAGS[usize::from(what & 7)], usize::from(what >> 3) * usize::from(what & 1 == 0));
                let is_syn = flags & flags::SYN != 0;
                let takes = i64::from(is_syn) + i64::from(flags & flags::FIN != 0);
                let seq = known.sent[side] + OFF[usize::from(off & 7)] - i64::from(off >> 6 & 1);
                let ack = known.sent[1 - side] + OFF[usize::from(off >> 3 & 7)] - i64::from(off >> 7);
                let end = seq + data as i64 + takes;
                if off & 7 < 4 {
                    known.sent[side] = end;
                }
                let segment = Segment { side, flags, seq, end, ack };
                (tcp(pair, segment, data), Packet::Tcp(segment))
            }
            1 => (udp(pair[0].0, pair[0].1, pair[1].0, pair[1].1), Packet::Udp { side }),
            2 => {
                let is_request = what & 1 == 0;
                let message = match (is_ipv4, is_request) {
                    (true, true) => 8,
                    (true, false) => 0,
                    (false, true) => 128,
                    (false, false) => 129,
                };
                let frame = icmp(pair[0].0, pair[1].0, [message, 0], [0, port as u8, 0, 1], &[1; 8]);
                (frame, Packet::Echo { side, is_request })
            }
            _ => (nf_sdk::native::frames::packet(pair[0].0, pair[1].0, 253, &[1; 8]), Packet::Other { side }),
        };
        // An exchange of echoes is named by the side that asks; other protocols have no ports.
        let name = match packet {
            Packet::Echo { side, is_request } => (kind, is_ipv4, port, is_request == (side == INSIDE)),
            Packet::Other { .. } => (kind, is_ipv4, 0, true),
            _ => (kind, is_ipv4, port, true),
        };
        let passes = model.take(name, packet, now);
        passed += u64::from(passes);
        batch.push((TestPacket::new(frame, side as u16), passes, format!("{number}: {packet:?} at {now}")));
    }
    flush(&mut runner, &mut batch, now);
    let report: serde_json::Value =
        serde_json::from_str(&runner.report(at(now)).expect("always")).expect("JSON");
    assert_eq!(report["packets"]["accepted"].as_u64(), Some(passed));
}
