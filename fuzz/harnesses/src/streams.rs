//! A TCP connection as `dpi` puts it together, in both directions, against receivers that keep every segment
//! and decide byte by byte; and packets in its name that no receiver takes.

use crate::configuration::Configuration;
use dpi::Dpi;
use nf_sdk::Nanos;
use nf_sdk::native::frames::{flags, packet, seal};
use nf_sdk::native::{Runner, TestPacket};
use std::sync::LazyLock;

#[path = "../../../functions/dpi/src/tests/receiver.rs"]
mod receiver;
use receiver::Receiver;

/// Two contents: the last bytes of a stream are kept.
const RULES: &str =
    "alert tcp any any -> any any (content:\"first content\"; content:\"second one\"; sid:1;)\n";
const POLICIES: [&str; 4] = ["first", "last", "linux", "windows"];
/// Bytes that are kept of a stream.
const WINDOW: usize = 2048;
const BEGIN: Nanos = Nanos(1 << 60);

static CONFIGS: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/dpi/function.yaml"));
    POLICIES.map(|policy| {
        let text = format!(
            "rules: rules\noverlap: {policy}\nstream_window: {WINDOW}\nstream_memory: 1MiB\nmax_flows: 16"
        );
        configuration.read(&text, RULES)
    })
});

/// A connection under way: 0 is the client, 1 the server.
struct Connection {
    runner: Runner<Dpi>,
    receivers: [Receiver; 2],
}

impl Connection {
    /// After its handshake.
    fn new(policy: usize, starts: [u32; 2]) -> Connection {
        let runner = Runner::<Dpi>::new(&CONFIGS[policy]).expect("in range");
        let receivers = [(); 2].map(|()| Receiver::new(POLICIES[policy]));
        let mut connection = Connection { runner, receivers };
        let before = starts.map(|start| start.wrapping_sub(1));
        connection.show(0, segment(0, flags::SYN, [before[0], 0], &[]));
        connection.show(1, segment(1, flags::SYN | flags::ACK, [before[1], starts[0]], &[]));
        connection.show(0, segment(0, flags::ACK, starts, &[]));
        connection
    }

    fn show(&mut self, ingress: usize, frame: Vec<u8>) {
        self.runner.run(&[TestPacket::new(frame, ingress as u16)], BEGIN);
    }

    /// What a side has sent and the function has put together, as far as it is kept; and how far that is.
    fn delivered(&self, side: usize) -> (Vec<u8>, u64) {
        let tracker = self.runner.function().tracker();
        let flow = tracker.table.iter().next().expect("the connection");
        let mut kept = Vec::new();
        if let Some(window) = tracker.windows.get(flow.sides[side].window) {
            window.copy_last(usize::MAX, &mut kept);
        }
        (kept, flow.sides[side].position)
    }

    fn check(&self) {
        let tracker = self.runner.function().tracker();
        assert_eq!(tracker.table.len(), 1);
        for (side, receiver) in self.receivers.iter().enumerate() {
            let (kept, position) = self.delivered(side);
            assert_eq!(position, receiver.delivered.len() as u64, "side {side}");
            assert_eq!(kept.len(), receiver.delivered.len().min(WINDOW));
            assert!(receiver.delivered.ends_with(&kept), "side {side}");
        }
        let waiting: usize = self.receivers.iter().map(Receiver::waiting).sum();
        assert_eq!(tracker.reorder.bytes(), waiting);
    }
}

/// A segment that a side sends.
fn segment(side: usize, flags: u8, [seq, ack]: [u32; 2], data: &[u8]) -> Vec<u8> {
    let mut ends = [("10.0.0.1", 40_000u16), ("192.0.2.1", 80)];
    if side == 1 {
        ends.reverse();
    }
    let mut payload = Vec::new();
    payload.extend(ends[0].1.to_be_bytes());
    payload.extend(ends[1].1.to_be_bytes());
    payload.extend(seq.to_be_bytes());
    payload.extend(ack.to_be_bytes());
    payload.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    payload.extend(data);
    packet(ends[0].0, ends[1].0, 6, &payload)
}

/// The policy, the client's first sequence number, and steps: what, where relative to what was delivered, how
/// many bytes, and the bytes.
pub fn run(data: &[u8]) {
    let &[policy, a, b, c, d, ref steps @ ..] = data else { return };
    let start = u32::from_le_bytes([a, b, c, d]);
    let starts = [start, start.rotate_left(16) ^ 0x5a5a_5a5a];
    let mut connection = Connection::new(usize::from(policy) % POLICIES.len(), starts);
    let mut steps = steps;
    while let &[what, place, length, ref rest @ ..] = steps {
        let (bytes, rest) = rest.split_at((usize::from(length) % 24 + 1).min(rest.len()));
        steps = rest;
        let side = usize::from(what & 1);
        let done = connection.receivers.each_ref().map(|receiver| receiver.delivered.len() as u64);
        // From a little before what was delivered to some way ahead of it.
        let at = (done[side] + u64::from(place)).saturating_sub(64);
        let seq = starts[side].wrapping_add(at as u32);
        let ack = starts[1 - side].wrapping_add((done[1 - side] >> (length >> 7)) as u32);
        match what >> 1 & 15 {
            // Without an acknowledgement, or with one of what was never sent: a receiver that takes it all
            // the same says so, and here none does.
            what @ (8 | 9) => {
                let (flags, ack) = if what == 8 { (0, ack) } else { (flags::ACK, ack.wrapping_add(1 << 17)) };
                connection.show(side, segment(side, flags, [seq, ack], bytes));
                connection.receivers[side].doubtful.push((at, at + bytes.len() as u64));
            }
            // Its checksum is wrong.
            10 => {
                let mut frame = segment(side, flags::ACK, [seq, ack], bytes);
                frame[50] ^= 0x55;
                connection.show(side, frame);
            }
            // It comes from where the other side is.
            11 => connection.show(1 - side, segment(side, flags::ACK, [seq, ack], bytes)),
            // A reset whose number is not the expected one.
            12 => {
                let near = starts[side].wrapping_add(done[side] as u32).wrapping_add(1 + u32::from(place));
                connection.show(side, segment(side, flags::RST | flags::ACK, [near, ack], &[]));
            }
            // Another SYN, which the server does not answer.
            13 => connection.show(0, segment(0, flags::SYN, [seq ^ 0x0100_0000, 0], &[])),
            // Its IP header is damaged, which no router passes on.
            14 => {
                let mut frame = segment(side, flags::ACK, [seq, ack], bytes);
                frame[24] ^= 0x55;
                connection.show(side, frame);
            }
            // It says nothing new about anything.
            15 => {
                let mut frame = segment(side, flags::ACK, [seq, ack], &[]);
                seal(&mut frame);
                connection.show(side, frame);
            }
            _ if bytes.is_empty() => {}
            _ => {
                connection.show(side, segment(side, flags::ACK, [seq, ack], bytes));
                connection.receivers[side].take(at, bytes);
            }
        }
        connection.check();
    }
    // All that is held is given back when the connection's time is over.
    let mut now = BEGIN.saturating_add(Nanos::from_secs(100_000));
    for _ in 0..64 {
        connection.runner.timer(now);
        now = now.saturating_add(Nanos::from_secs(1));
    }
    let tracker = connection.runner.function().tracker();
    assert_eq!((tracker.table.len(), tracker.reorder.cost(), tracker.windows.in_use()), (0, 0, 0));
}
