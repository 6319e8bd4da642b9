//! Parts of a message, by buffer, in memory that is used again for the next message.

use super::body::Inflater;
use super::head_lines::Line;
use crate::rules::Version;
use crate::rules::buffer::Buffer;
use alloc::vec::Vec;

/// Parts of a message.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    spans: Vec<(Buffer, usize, usize)>,
    /// Parts that were made elsewhere.
    made: Vec<(Buffer, Vec<u8>)>,
    /// Undoes encodings of bodies.
    pub(super) inflater: Inflater,
    /// Version of TLS.
    pub version: Option<Version>,
    /// Memory for a head's fields while they are read.
    pub(super) lines: Vec<Line>,
}

impl Fields {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        for (_, memory) in self.made.drain(..) {
            self.inflater.take_back(memory);
        }
        self.version = None;
    }

    /// Adds a part.
    pub fn add(&mut self, buffer: Buffer, bytes: &[u8]) {
        self.build(buffer, |out| out.extend_from_slice(bytes));
    }

    /// Adds a part that is written at the end of what it is given.
    pub fn build(&mut self, buffer: Buffer, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.spans.push((buffer, start, self.bytes.len()));
    }

    /// Adds a part that was made elsewhere.
    pub fn put(&mut self, buffer: Buffer, bytes: Vec<u8>) {
        self.made.push((buffer, bytes));
    }

    /// All parts of a kind.
    pub fn all(&self, buffer: Buffer) -> impl Iterator<Item = &[u8]> {
        let spans = self.spans.iter().filter(move |(known, ..)| *known == buffer);
        let made = self.made.iter().filter(move |(known, _)| *known == buffer);
        let spans = spans.filter_map(|(_, start, end)| self.bytes.get(*start..*end));
        spans.chain(made.map(|(_, bytes)| bytes.as_slice()))
    }
}
