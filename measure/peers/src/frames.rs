//! Frames of 64 bytes that belong to established connections.

/// Bytes of a frame.
pub const FRAME: usize = 64;

/// One frame.
pub type Frame = [u8; FRAME];

/// A small generator of numbers (splitmix64), so that every run has the same packets.
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// One end of a connection, or what it sends next.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// IPv4 address that it comes from.
    pub source: u32,
    /// IPv4 address that it goes to.
    pub destination: u32,
    /// Port that it comes from.
    pub source_port: u16,
    /// Port that it goes to.
    pub destination_port: u16,
    /// Number of its first byte.
    pub sequence: u32,
    /// Number of the byte that is expected from the other end.
    pub acknowledged: u32,
    /// TCP's flags.
    pub flags: u8,
}

/// TCP's flags (RFC 9293, section 3.1).
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Bytes of the headers of a segment without options.
pub(crate) const HEADERS: usize = 54;

impl Segment {
    /// The same connection, from the other end.
    #[must_use]
    pub fn reverse(self) -> Segment {
        Segment {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            sequence: self.acknowledged,
            acknowledged: self.sequence,
            flags: self.flags,
        }
    }

    /// Writes a datagram instead of a segment, all checksums right, into a buffer that is emptied first.
    pub fn write_datagram(&self, payload: &[u8], frame: &mut Vec<u8>) {
        frame.clear();
        frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00]);
        frame.extend([0x45, 0]);
        frame.extend(((28 + payload.len()) as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend(self.source.to_be_bytes());
        frame.extend(self.destination.to_be_bytes());
        frame.extend(self.source_port.to_be_bytes());
        frame.extend(self.destination_port.to_be_bytes());
        let length = (8 + payload.len()) as u16;
        frame.extend(length.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        let header = checksum(0, &frame[14..34]);
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        let pseudo = sum(17 + u32::from(length), &frame[26..34]);
        // Zero stands for none.
        let transport = match checksum(pseudo, &frame[34..]) {
            0 => 0xffff,
            other => other,
        };
        frame[40..42].copy_from_slice(&transport.to_be_bytes());
    }

    /// Writes the frame, all checksums right, into a buffer that is emptied first.
    pub fn write(&self, payload: &[u8], frame: &mut Vec<u8>) {
        frame.clear();
        frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00]);
        frame.extend([0x45, 0]);
        frame.extend(((40 + payload.len()) as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(self.source.to_be_bytes());
        frame.extend(self.destination.to_be_bytes());
        frame.extend(self.source_port.to_be_bytes());
        frame.extend(self.destination_port.to_be_bytes());
        frame.extend(self.sequence.to_be_bytes());
        frame.extend(self.acknowledged.to_be_bytes());
        frame.extend([0x50, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(payload);
        let header = checksum(0, &frame[14..34]);
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        let pseudo = sum(u32::from(6u16) + (20 + payload.len()) as u32, &frame[26..34]);
        let transport = checksum(pseudo, &frame[34..]);
        frame[50..52].copy_from_slice(&transport.to_be_bytes());
    }
}

fn sum(start: u32, bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(start, |sum, pair| {
        sum + (u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
    })
}

/// RFC 1071.
fn checksum(start: u32, bytes: &[u8]) -> u16 {
    let mut sum = sum(start, bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Address of the device of [`Established::of_device`]: 192.0.2.9.
pub const DEVICE: u32 = 0xc000_0209;

/// Frames of connections whose beginning was long ago, as each end of a line sees them.
#[derive(Clone, Debug)]
pub struct Established {
    /// Number of connections.
    pub connections: u32,
    /// What the initiators' end of each connection sends next.
    segments: Vec<Segment>,
    /// From inside, in random order; every connection equally often.
    pub inside: Vec<Frame>,
    /// From outside, likewise.
    pub outside: Vec<Frame>,
}

/// Frames in each direction: so many that no branch predictor learns their order.
pub const EACH_WAY: u32 = 65_536;

impl Established {
    /// So many connections, at most 65,536, each from an address of its own.
    pub fn new(connections: u32) -> Established {
        Established::opened_by(connections, |n, numbers| Segment {
            source: 0x0a00_0000 | n,
            destination: 0xc612_0000 | (numbers.next() as u32 & 0x1_ffff),
            source_port: 1024 + numbers.below(60_000) as u16,
            destination_port: 443,
            sequence: numbers.next() as u32,
            acknowledged: numbers.next() as u32,
            flags: ACK,
        })
    }

    /// So many connections, at most 65,536, all from [`DEVICE`].
    pub fn of_device(connections: u32) -> Established {
        Established::opened_by(connections, |n, numbers| Segment {
            source: DEVICE,
            // Those that share a port differ in this.
            destination: 0xc612_0000 | n.wrapping_mul(0x9e37_79b1) >> 15,
            source_port: 1024 + (n % 60_000) as u16,
            destination_port: 443,
            sequence: numbers.next() as u32,
            acknowledged: numbers.next() as u32,
            flags: ACK,
        })
    }

    fn opened_by(connections: u32, segment: impl Fn(u32, &mut Numbers) -> Segment) -> Established {
        let connections = connections.clamp(1, EACH_WAY);
        let mut numbers = Numbers(u64::from(connections));
        let segments: Vec<Segment> = (0..connections).map(|n| segment(n, &mut numbers)).collect();
        let mut direction = |back: bool| -> Vec<Frame> {
            let mut order: Vec<u32> = (0..EACH_WAY).map(|n| n % connections).collect();
            for n in (1..order.len()).rev() {
                order.swap(n, numbers.below(n as u64 + 1) as usize);
            }
            let mut bytes = Vec::with_capacity(FRAME);
            let written = order.into_iter().map(|n| {
                let segment = segments[n as usize];
                let segment = if back { segment.reverse() } else { segment };
                framed(segment, &mut bytes)
            });
            written.collect()
        };
        let (inside, outside) = (direction(false), direction(true));
        Established { connections, segments, inside, outside }
    }

    /// How each connection began: what is sent from inside, and what from outside. Between a SYN, its SYN-ACK
    /// and the first frame after them lie as many other frames of the same end as there are connections, so
    /// that two ends that send equally fast do so in the right order.
    pub fn opening(&self) -> (Vec<Frame>, Vec<Frame>) {
        let mut bytes = Vec::with_capacity(FRAME);
        let mut all = |flags: u8, back: bool| -> Vec<Frame> {
            let segments = self.segments.iter().map(|segment| match back {
                false => Segment { sequence: segment.sequence.wrapping_sub(1), flags, ..*segment },
                true => Segment {
                    sequence: segment.acknowledged.wrapping_sub(1),
                    acknowledged: segment.sequence,
                    flags,
                    ..segment.reverse()
                },
            });
            segments.map(|segment| framed(segment, &mut bytes)).collect()
        };
        let (asked, answered) = (all(SYN, false), all(SYN | ACK, true));
        // Every other frame is one that belongs to nothing.
        let filler = vec![[0; FRAME]; self.segments.len()];
        ([&asked[..], &filler, &filler].concat(), [&filler[..], &answered, &filler].concat())
    }
}

/// A segment with as many bytes as make a frame of it.
fn framed(segment: Segment, bytes: &mut Vec<u8>) -> Frame {
    segment.write(&[0; FRAME - HEADERS], bytes);
    let mut frame = [0; FRAME];
    frame.copy_from_slice(bytes);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_connection_is_there_equally_often_both_ways_and_its_checksums_are_right() {
        let all = Established::new(1024);
        assert_eq!((all.inside.len(), all.outside.len()), (65_536, 65_536));
        let key = |frame: &Frame, back: bool| {
            let (a, b) = (&frame[26..30], &frame[30..34]);
            let (p, q) = (&frame[34..36], &frame[36..38]);
            if back { [b, a, q, p].concat() } else { [a, b, p, q].concat() }
        };
        let mut seen: HashMap<Vec<u8>, [u32; 2]> = HashMap::new();
        for (frames, back) in [(&all.inside, false), (&all.outside, true)] {
            for frame in frames {
                seen.entry(key(frame, back)).or_default()[usize::from(back)] += 1;
                assert_eq!(checksum(0, &frame[14..34]), 0);
                assert_eq!(checksum(sum(6 + 30, &frame[26..34]), &frame[34..]), 0);
                assert_eq!(u16::from_be_bytes([frame[16], frame[17]]), 50);
            }
        }
        assert_eq!(seen.len(), 1024);
        assert!(seen.values().all(|times| *times == [64, 64]));
    }

    #[test]
    fn connections_of_a_device_are_all_different_and_begin_with_a_handshake() {
        let all = Established::of_device(EACH_WAY);
        let (asked, answered) = all.opening();
        let key = |frame: &Frame| (frame[26..34].to_vec(), frame[34..38].to_vec());
        let connections: std::collections::HashSet<_> = all.inside.iter().map(key).collect();
        assert_eq!(connections.len(), EACH_WAY as usize);
        assert!(all.inside.iter().all(|frame| frame[26..30] == DEVICE.to_be_bytes()));
        let number = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let first = EACH_WAY as usize;
        let handshakes = asked[..first].iter().zip(&answered[first..2 * first]);
        for ((syn, answer), segment) in handshakes.zip(&all.segments) {
            assert_eq!((syn[47], answer[47]), (SYN, SYN | ACK));
            assert_eq!(syn[26..30], answer[30..34]);
            // Both ends' first bytes, of which the other one has heard.
            assert_eq!(number(&answer[42..]), number(&syn[38..]).wrapping_add(1));
            assert_eq!(number(&syn[38..]).wrapping_add(1), segment.sequence);
            assert_eq!(number(&answer[38..]).wrapping_add(1), segment.acknowledged);
        }
        assert!(asked[first..].iter().chain(&answered[..first]).all(|frame| frame == &[0; FRAME]));
    }
}
