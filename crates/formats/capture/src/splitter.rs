//! Blocks of a pcapng file that comes bit by bit.

use crate::Statistics;
use crate::block::{Direction, kind, option};

/// Longest block: a packet of any length that there is, and what is said of it.
const LONGEST: usize = 1 << 20;

/// What comes is no pcapng as this project writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "what comes is no pcapng: a block of {0} bytes; allowed: 12 to {LONGEST}, a multiple of 4, little-endian"
)]
pub struct NotPcapng(pub u32);

/// A whole block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// All of its bytes.
    pub bytes: Vec<u8>,
}

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Its length on the way, in bytes.
    pub length: u32,
    /// Those of its bytes that were kept.
    pub bytes: &'a [u8],
    /// Which way it went.
    pub direction: Direction,
    /// Packets that were lost between the one before and this one.
    pub lost: u64,
    /// Its comment; empty without one, or when it is no text.
    pub comment: &'a str,
}

/// Finds the blocks.
#[derive(Debug, Default)]
pub struct Splitter {
    rest: Vec<u8>,
    /// Bytes of the rest that were given out as blocks.
    taken: usize,
}

impl Splitter {
    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.rest.drain(..self.taken);
        self.taken = 0;
        self.rest.extend(bytes);
    }

    /// The next block, if all of it has come.
    ///
    /// # Errors
    /// [`NotPcapng`]; nothing that comes then means anything.
    pub fn next_block(&mut self) -> Result<Option<Block>, NotPcapng> {
        let rest = &self.rest[self.taken..];
        let Some(length) = word(rest, 4) else { return Ok(None) };
        let size = length as usize;
        if !(12..=LONGEST).contains(&size) || !size.is_multiple_of(4) {
            return Err(NotPcapng(length));
        }
        let Some(bytes) = rest.get(..size) else { return Ok(None) };
        if word(bytes, size - 4) != Some(length) {
            return Err(NotPcapng(length));
        }
        let block = Block { bytes: bytes.to_vec() };
        self.taken += size;
        Ok(Some(block))
    }

    /// Whether something is left that is no whole block yet.
    pub fn is_within_block(&self) -> bool {
        self.taken < self.rest.len()
    }
}

impl Block {
    fn kind(&self) -> Option<u32> {
        word(&self.bytes, 0)
    }

    /// The packet that it is, if it is one.
    pub fn packet(&self) -> Option<Seen<'_>> {
        if self.kind() != Some(kind::ENHANCED_PACKET) {
            return None;
        }
        let at = |place| word(&self.bytes, place);
        let (high, low, kept, length) = (at(12)?, at(16)?, at(20)? as usize, at(24)?);
        let bytes = self.bytes.get(28..28usize.checked_add(kept)?)?;
        let mut seen = Seen {
            timestamp: u64::from(high) << 32 | u64::from(low),
            length,
            bytes,
            direction: Direction::Unknown,
            lost: 0,
            comment: "",
        };
        for (code, value) in self.options(28 + kept.next_multiple_of(4)) {
            match (code, value) {
                (option::PACKET_FLAGS, [flags, ..]) => {
                    seen.direction = match flags & 3 {
                        1 => Direction::Inbound,
                        2 => Direction::Outbound,
                        _ => Direction::Unknown,
                    };
                }
                (option::PACKETS_DROPPED, value) => {
                    seen.lost = value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                }
                (option::COMMENT, text) => seen.comment = std::str::from_utf8(text).unwrap_or_default(),
                _ => {}
            }
        }
        Some(seen)
    }

    /// What it says of the whole capture, if it does.
    pub fn statistics(&self) -> Option<Statistics> {
        if self.kind() != Some(kind::STATISTICS) {
            return None;
        }
        let at = |place| word(&self.bytes, place);
        let timestamp = u64::from(at(12)?) << 32 | u64::from(at(16)?);
        let mut told = Statistics { timestamp, ..Statistics::default() };
        for (code, value) in self.options(20) {
            let Some(number) = value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else { continue };
            match code {
                option::SYSTEM_DROPPED => told.lost = number,
                option::DELIVERED => told.written = number,
                _ => {}
            }
        }
        Some(told)
    }

    /// Codes and values of the options that begin at a place.
    fn options(&self, begin: usize) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = self.bytes.get(begin..self.bytes.len().saturating_sub(4)).unwrap_or_default();
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<4>()?;
            let code = u16::from_le_bytes([head[0], head[1]]);
            let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
            let value = behind.get(..length)?;
            rest = behind.get(length.next_multiple_of(4)..).unwrap_or_default();
            (code != option::END).then_some((code, value))
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}
