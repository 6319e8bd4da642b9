//! Tables on their way from one instance to another, entry by entry:
//! `u32 key length, u32 value length, key, value`.

use crate::host::Host;
use alloc::vec::Vec;
use nf_abi::stream;

/// How much is gathered before the host is called.
const CHUNK: usize = 32 * 1024;

/// Writes entries.
pub struct StateWriter<'a> {
    host: &'a mut Host,
    buffer: Vec<u8>,
    refused: bool,
}

impl<'a> StateWriter<'a> {
    pub(crate) fn new(host: &'a mut Host) -> StateWriter<'a> {
        StateWriter { host, buffer: Vec::new(), refused: false }
    }

    /// Writes one entry; false when the host takes no more, and then the export has failed.
    pub fn entry(&mut self, key: &[u8], value: &[u8]) -> bool {
        if self.refused {
            return false;
        }
        let lengths = u64::from(key.len() as u32) | u64::from(value.len() as u32) << 32;
        self.buffer.reserve(8 + key.len() + value.len());
        self.buffer.extend_from_slice(&lengths.to_le_bytes());
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(value);
        if self.buffer.len() >= CHUNK {
            self.flush();
        }
        !self.refused
    }

    fn flush(&mut self) {
        if !self.buffer.is_empty() {
            self.refused |= self.host.write(stream::STATE, &self.buffer).is_err();
            self.buffer.clear();
        }
    }

    /// Hands over what is left; true when the host took everything.
    pub(crate) fn finish(mut self) -> bool {
        self.flush();
        !self.refused
    }
}

/// Reads entries.
pub struct StateReader<'a> {
    host: &'a mut Host,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were read of the stream; what is behind them was, and is overwritten.
    filled: usize,
    /// Those of them that are used up.
    used: usize,
    /// Bytes of the entry that was given last.
    last: usize,
    /// Bytes of the stream that were read.
    offset: u32,
    broken: bool,
}

impl<'a> StateReader<'a> {
    pub(crate) fn new(host: &'a mut Host) -> StateReader<'a> {
        StateReader { host, buffer: Vec::new(), filled: 0, used: 0, last: 0, offset: 0, broken: false }
    }

    /// The next entry, key and value; `None` at the end, and where the stream is cut short or malformed
    /// ([`StateReader::is_broken`]).
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<(&[u8], &[u8])> {
        self.last = 0;
        if self.broken || !self.fill(8) {
            self.broken |= self.left() != 0 || self.offset < self.host.stream_length(stream::STATE);
            return None;
        }
        let length = |at: usize| {
            let bytes = self.buffer.get(self.used + at..self.used + at + 4)?;
            bytes.try_into().ok().map(u32::from_le_bytes)
        };
        let (key, value) = (length(0)? as usize, length(4)? as usize);
        let whole = key.checked_add(value).and_then(|sum| sum.checked_add(8));
        let Some(whole) = whole.filter(|whole| self.fill(*whole)) else {
            self.broken = true;
            return None;
        };
        let start = self.used + 8;
        self.used += whole;
        self.last = whole;
        self.buffer.get(start..self.used).map(|entry| entry.split_at(key))
    }

    /// The entry that was given last is given again by the next [`StateReader::next`].
    pub fn put_back(&mut self) {
        self.used -= core::mem::take(&mut self.last);
    }

    /// The stream ended in the middle of an entry.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    fn left(&self) -> usize {
        self.filled - self.used
    }

    /// Makes `need` unused bytes ready, if the stream has them.
    fn fill(&mut self, need: usize) -> bool {
        if self.left() >= need {
            return true;
        }
        let whole = self.host.stream_length(stream::STATE);
        let rest = whole.saturating_sub(self.offset) as usize;
        // A length that the stream cannot keep is found out before memory is taken for it.
        if need - self.left() > rest {
            return false;
        }
        self.buffer.copy_within(self.used..self.filled, 0);
        (self.filled, self.used) = (self.filled - self.used, 0);
        let take = rest.min(CHUNK.max(need - self.filled));
        let end = self.filled + take;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        let room = self.buffer.get_mut(self.filled..end);
        match room.map(|room| self.host.read(stream::STATE, self.offset, room)) {
            Some(Ok(_)) => {
                self.offset += take as u32;
                self.filled = end;
                true
            }
            _ => false,
        }
    }
}
