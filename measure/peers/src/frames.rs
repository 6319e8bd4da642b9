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

/// Frames of connections whose beginning was long ago, as each end of a line sees them.
#[derive(Clone, Debug)]
pub struct Established {
    /// Number of connections.
    pub connections: u32,
    /// From inside, in random order; every connection equally often.
    pub inside: Vec<Frame>,
    /// From outside, likewise.
    pub outside: Vec<Frame>,
}

/// Frames in each direction: so many that no branch predictor learns their order.
pub const EACH_WAY: u32 = 65_536;

impl Established {
    /// So many connections, at most 65,536.
    pub fn new(connections: u32) -> Established {
        let connections = connections.clamp(1, EACH_WAY);
        let mut numbers = Numbers(u64::from(connections));
        let segments: Vec<Segment> = (0..connections)
            .map(|n| Segment {
                source: 0x0a00_0000 | n,
                destination: 0xc612_0000 | (numbers.next() as u32 & 0x1_ffff),
                source_port: 1024 + numbers.below(60_000) as u16,
                destination_port: 443,
                sequence: numbers.next() as u32,
                acknowledged: numbers.next() as u32,
                flags: 0x10,
            })
            .collect();
        let mut direction = |back: bool| -> Vec<Frame> {
            let mut order: Vec<u32> = (0..EACH_WAY).map(|n| n % connections).collect();
            for n in (1..order.len()).rev() {
                order.swap(n, numbers.below(n as u64 + 1) as usize);
            }
            let mut bytes = Vec::with_capacity(FRAME);
            let written = order.into_iter().map(|n| {
                let segment = segments[n as usize];
                let segment = if back { segment.reverse() } else { segment };
                segment.write(&[0; FRAME - HEADERS], &mut bytes);
                let mut frame = [0; FRAME];
                frame.copy_from_slice(&bytes);
                frame
            });
            written.collect()
        };
        Established { connections, inside: direction(false), outside: direction(true) }
    }
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
}
