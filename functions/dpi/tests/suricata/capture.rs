//! Captures: frames with times, and conversations that make them.

use crate::chance::Chance;
use nf_sdk::native::frames::seal;

/// An IPv4 address and a port.
pub type End = ([u8; 4], u16);

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;
const PSH: u8 = 8;

/// Frames with times, in microseconds from the beginning.
#[derive(Default)]
pub struct Capture {
    pub frames: Vec<(u64, Vec<u8>)>,
}

/// When captures begin, in seconds since the epoch.
pub const BEGINNING: u64 = 1_700_000_000;

impl Capture {
    fn ip(&mut self, time: u64, from: [u8; 4], to: [u8; 4], protocol: u8, ttl: u8, payload: &[u8]) {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend((20 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 7, 0x40, 0, ttl, protocol, 0, 0]);
        frame.extend(from);
        frame.extend(to);
        frame.extend(payload);
        seal(&mut frame);
        self.frames.push((time, frame));
    }

    /// A datagram.
    pub fn udp(&mut self, time: u64, from: End, to: End, ttl: u8, data: &[u8]) {
        let mut segment = Vec::new();
        segment.extend(from.1.to_be_bytes());
        segment.extend(to.1.to_be_bytes());
        segment.extend((8 + data.len() as u16).to_be_bytes());
        segment.extend([0, 0]);
        segment.extend(data);
        self.ip(time, from.0, to.0, 17, ttl, &segment);
    }

    /// A segment.
    pub fn tcp(&mut self, time: u64, ends: [End; 2], flags: u8, numbers: [u32; 2], data: &[u8]) {
        let mut segment = Vec::new();
        segment.extend(ends[0].1.to_be_bytes());
        segment.extend(ends[1].1.to_be_bytes());
        segment.extend(numbers[0].to_be_bytes());
        segment.extend(numbers[1].to_be_bytes());
        segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(data);
        self.ip(time, ends[0].0, ends[1].0, 6, 64, &segment);
    }

    /// An ICMP message.
    pub fn icmp(&mut self, time: u64, from: [u8; 4], to: [u8; 4], kind: [u8; 2], number: u16, data: &[u8]) {
        let mut message = vec![kind[0], kind[1], 0, 0, 0, 9];
        message.extend(number.to_be_bytes());
        message.extend(data);
        self.ip(time, from, to, 1, 64, &message);
    }

    /// As a pcap file with microseconds.
    pub fn pcap(&self) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
            file.extend(word.to_le_bytes());
        }
        for (time, frame) in &self.frames {
            let seconds = (BEGINNING + time / 1_000_000) as u32;
            for word in [seconds, (time % 1_000_000) as u32, frame.len() as u32, frame.len() as u32] {
                file.extend(word.to_le_bytes());
            }
            file.extend(frame);
        }
        file
    }
}

/// A TCP connection with everything that it says.
pub struct Conversation {
    ends: [End; 2],
    next: [u32; 2],
}

impl Conversation {
    /// From a client to a server, with sequence numbers that may wrap.
    pub fn new(client: End, server: End, chance: &mut Chance) -> Conversation {
        let number = |chance: &mut Chance| {
            if chance.one_in(4) { u32::MAX - chance.below(3000) as u32 } else { chance.next() as u32 }
        };
        Conversation { ends: [client, server], next: [number(chance), number(chance)] }
    }

    fn send(&self, capture: &mut Capture, side: usize, flags: u8, seq: u32, data: &[u8]) {
        let time = capture.frames.last().map_or(0, |(time, _)| time + 50);
        let ends = [self.ends[side], self.ends[1 - side]];
        let ack = if flags & ACK != 0 { self.next[1 - side] } else { 0 };
        capture.tcp(time, ends, flags, [seq, ack], data);
    }

    /// The handshake.
    pub fn open(&mut self, capture: &mut Capture) {
        self.send(capture, 0, SYN, self.next[0], &[]);
        self.next[0] = self.next[0].wrapping_add(1);
        self.send(capture, 1, SYN | ACK, self.next[1], &[]);
        self.next[1] = self.next[1].wrapping_add(1);
        self.send(capture, 0, ACK, self.next[0], &[]);
    }

    /// A segment, and the other side's acknowledgement.
    pub fn say(&mut self, capture: &mut Capture, side: usize, data: &[u8]) {
        self.send(capture, side, ACK | PSH, self.next[side], data);
        self.next[side] = self.next[side].wrapping_add(data.len() as u32);
        self.send(capture, 1 - side, ACK, self.next[1 - side], &[]);
    }

    /// The same data in pieces: of all sizes, some twice, some overlapping, some in another order.
    pub fn say_in_pieces(&mut self, capture: &mut Capture, side: usize, data: &[u8], chance: &mut Chance) {
        let start = self.next[side];
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let length = 1 + match chance.below(3) {
                0 => chance.below(4),
                1 => chance.below(40),
                _ => chance.below(400),
            };
            let end = data.len().min(at + length as usize);
            let overlap = if chance.one_in(6) { chance.below(20) as usize } else { 0 };
            let first = at.saturating_sub(overlap);
            pieces.push((first, end));
            if chance.one_in(8) {
                pieces.push((first, end));
            }
            at = end;
        }
        for at in 1..pieces.len() {
            if chance.one_in(5) {
                pieces.swap(at - 1, at);
            }
        }
        // No acknowledgement before all is there: what an early one means for a gap is another matter.
        for (first, end) in pieces {
            self.send(capture, side, ACK | PSH, start.wrapping_add(first as u32), &data[first..end]);
        }
        self.next[side] = start.wrapping_add(data.len() as u32);
        self.send(capture, 1 - side, ACK, self.next[1 - side], &[]);
    }

    /// Both sides end.
    pub fn close(&mut self, capture: &mut Capture) {
        for side in [0, 1] {
            self.send(capture, side, FIN | ACK, self.next[side], &[]);
            self.next[side] = self.next[side].wrapping_add(1);
            self.send(capture, 1 - side, ACK, self.next[1 - side], &[]);
        }
    }
}
