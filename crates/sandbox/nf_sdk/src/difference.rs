//! A file of the configuration that has changed while the function runs: what went and what came.
//!
//! 1. [`Difference::begin`] finds out which file it is, by its key.
//! 2. [`Difference::next`] gives one line after the other, over as many calls of
//!    [`NetworkFunction::change`](crate::NetworkFunction::change) as that takes.
//!
//! Limits: lines of the files are at most [`nf_abi::change::MAX_LINE`] bytes; with a longer one, another
//! instance reads the whole file instead.

use crate::Host;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use nf_abi::{change, stream};

/// How much is read at once.
const CHUNK: usize = 32 << 10;

/// How far a function has come with a changed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is more to do.
    More,
    /// It is as it would be with the changed file.
    Taken,
    /// It is as it was; another instance is made, which reads the whole file.
    Refused,
}

impl Change {
    /// Its number on the wire.
    pub const fn number(self) -> i32 {
        match self {
            Change::More => change::MORE,
            Change::Taken => change::TAKEN,
            Change::Refused => change::REFUSED,
        }
    }
}

/// What has changed about a file.
#[derive(Debug, Default)]
pub struct Difference {
    key: String,
    buffer: Vec<u8>,
    used: usize,
    /// Bytes of the stream that were read.
    offset: u32,
    is_broken: bool,
}

impl Difference {
    /// The difference that the host offers, from its beginning; `None`: there is none.
    pub fn begin(host: &mut Host) -> Option<Difference> {
        let mut difference = Difference::default();
        let range = difference.line(host)?;
        difference.key = String::from(core::str::from_utf8(difference.buffer.get(range)?).ok()?);
        Some(difference)
    }

    /// The key of the file.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The next line: whether the file has it now (`true`), or has it no more. `None` at the end, and where
    /// the stream is not what it has to be ([`Difference::is_broken`]).
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, host: &mut Host) -> Option<(bool, &[u8])> {
        let range = self.line(host)?;
        let sign = self.buffer.get(range.clone())?.first().copied();
        if !matches!(sign, Some(b'+' | b'-')) {
            self.is_broken = true;
            return None;
        }
        Some((sign == Some(b'+'), self.buffer.get(range.start + 1..range.end)?))
    }

    /// Whether the stream ended within a line, or had one that says neither.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Where the next line is in the buffer, without its end.
    fn line(&mut self, host: &mut Host) -> Option<Range<usize>> {
        loop {
            let rest = self.buffer.get(self.used..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let start = self.used;
                self.used += end + 1;
                return Some(start..start + end);
            }
            self.buffer.drain(..self.used);
            self.used = 0;
            let whole = host.stream_length(stream::CHANGE);
            let take = (whole.saturating_sub(self.offset) as usize).min(CHUNK);
            if take == 0 || self.buffer.len() > change::MAX_LINE + 1 {
                self.is_broken |= !self.buffer.is_empty();
                return None;
            }
            let filled = self.buffer.len();
            self.buffer.resize(filled + take, 0);
            let room = self.buffer.get_mut(filled..)?;
            if host.read(stream::CHANGE, self.offset, room).is_err() {
                self.buffer.truncate(filled);
                self.is_broken = true;
                return None;
            }
            self.offset += take as u32;
        }
    }
}
