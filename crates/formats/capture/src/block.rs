//! Blocks of the pcapng format (draft-ietf-opsawg-pcapng), little-endian, in memory.

/// Kinds of blocks, section 11.1.
pub(crate) mod kind {
    pub const SECTION: u32 = 0x0a0d_0d0a;
    pub const INTERFACE: u32 = 1;
    pub const STATISTICS: u32 = 5;
    pub const ENHANCED_PACKET: u32 = 6;
}

/// Options, sections 3.5, 4.1, 4.2, 4.3 and 4.6.
pub(crate) mod option {
    pub const END: u16 = 0;
    pub const COMMENT: u16 = 1;
    pub const USER_APPLICATION: u16 = 4;
    pub const INTERFACE_NAME: u16 = 2;
    pub const TIME_RESOLUTION: u16 = 9;
    pub const INTERFACE_FILTER: u16 = 11;
    pub const PACKET_FLAGS: u16 = 2;
    pub const PACKETS_DROPPED: u16 = 4;
    pub const FILTER_ACCEPTED: u16 = 6;
    pub const SYSTEM_DROPPED: u16 = 7;
    pub const DELIVERED: u16 = 8;
}

/// Link type of Ethernet.
const ETHERNET: u16 = 1;
/// Nanoseconds: ten to the power of minus nine.
const NANOSECONDS: u8 = 9;

/// What a file says of where its packets were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name; none when empty.
    pub name: String,
    /// The filter's text; none when empty.
    pub filter: String,
    /// Most bytes kept of a packet; 0: all.
    pub snap_length: u32,
}

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Not known, or neither.
    Unknown,
    /// In from outside.
    Inbound,
    /// Out.
    Outbound,
}

/// What is said of a packet beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Its length on the way, in bytes.
    pub length: u32,
    /// How many of its bytes are kept.
    pub kept: u32,
    /// Which way it went.
    pub direction: Direction,
    /// Packets that were lost since the one before.
    pub lost: u64,
    /// A comment; none when empty.
    pub comment: &'a str,
}

/// How a capture went, as its last block says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// When that was so, in nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Packets in the file.
    pub written: u64,
    /// Packets that the filter let through and that are not in it.
    pub lost: u64,
}

/// Whole blocks, one behind the other, and where each packet's ends.
#[derive(Debug, Default)]
pub struct Blocks {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Blocks {
    /// The blocks that a file begins with.
    pub fn headers(interface: &Interface) -> Blocks {
        let mut blocks = Blocks::default();
        blocks.block(kind::SECTION, |body| {
            // Byte order mark, version 1.0, a section of unknown length.
            body.extend(0x1a2b_3c4d_u32.to_le_bytes());
            body.extend([1, 0, 0, 0]);
            body.extend([0xff; 8]);
            put_option(body, option::USER_APPLICATION, b"superfluid");
            put_option(body, option::END, &[]);
        });
        blocks.block(kind::INTERFACE, |body| {
            body.extend(ETHERNET.to_le_bytes());
            body.extend([0; 2]);
            body.extend(interface.snap_length.to_le_bytes());
            if !interface.name.is_empty() {
                put_option(body, option::INTERFACE_NAME, interface.name.as_bytes());
            }
            if !interface.filter.is_empty() {
                // A zero in front says that it is text.
                let text = [&[0], interface.filter.as_bytes()].concat();
                put_option(body, option::INTERFACE_FILTER, &text);
            }
            put_option(body, option::TIME_RESOLUTION, &[NANOSECONDS]);
            put_option(body, option::END, &[]);
        });
        blocks
    }

    /// Adds a packet; `fill` gets the room for the bytes that are kept.
    pub fn packet(&mut self, entry: &Entry<'_>, fill: impl FnOnce(&mut [u8])) {
        self.block(kind::ENHANCED_PACKET, |body| {
            let (high, low) = ((entry.timestamp >> 32) as u32, entry.timestamp as u32);
            for word in [0, high, low, entry.kept, entry.length] {
                body.extend(word.to_le_bytes());
            }
            let begin = body.len();
            let kept = entry.kept as usize;
            body.resize(begin + kept.next_multiple_of(4), 0);
            fill(&mut body[begin..begin + kept]);
            let flags: u32 = match entry.direction {
                Direction::Unknown => 0,
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            if flags != 0 {
                put_option(body, option::PACKET_FLAGS, &flags.to_le_bytes());
            }
            if entry.lost > 0 {
                put_option(body, option::PACKETS_DROPPED, &entry.lost.to_le_bytes());
            }
            if !entry.comment.is_empty() {
                put_option(body, option::COMMENT, entry.comment.as_bytes());
            }
            if flags != 0 || entry.lost > 0 || !entry.comment.is_empty() {
                put_option(body, option::END, &[]);
            }
        });
        self.ends.push(self.bytes.len());
    }

    /// Adds how the capture went.
    pub fn statistics(&mut self, statistics: &Statistics) {
        let Statistics { timestamp, written, lost } = *statistics;
        self.block(kind::STATISTICS, |body| {
            for word in [0, (timestamp >> 32) as u32, timestamp as u32] {
                body.extend(word.to_le_bytes());
            }
            let accepted = written.saturating_add(lost);
            put_option(body, option::FILTER_ACCEPTED, &accepted.to_le_bytes());
            put_option(body, option::SYSTEM_DROPPED, &lost.to_le_bytes());
            put_option(body, option::DELIVERED, &written.to_le_bytes());
            put_option(body, option::END, &[]);
        });
    }

    /// Number of packets.
    pub fn packets(&self) -> usize {
        self.ends.len()
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many packets the first `length` bytes hold whole, and how many bytes these are.
    pub fn whole(&self, length: usize) -> (usize, usize) {
        let count = self.ends.partition_point(|&end| end <= length);
        (count, self.ends[..count].last().copied().unwrap_or(0))
    }

    /// Forgets all; the memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// A block's frame around a body that is written in place.
    fn block(&mut self, kind: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend([0; 4]);
        write(&mut self.bytes);
        let total = ((self.bytes.len() - begin + 4) as u32).to_le_bytes();
        self.bytes[begin + 4..begin + 8].copy_from_slice(&total);
        self.bytes.extend(total);
    }
}

fn put_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    // Longer than the length field can say, it is cut.
    let value = &value[..value.len().min(u16::MAX as usize)];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len() + value.len().next_multiple_of(4) - value.len(), 0);
}
