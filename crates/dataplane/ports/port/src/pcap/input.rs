//! Bytes of a file through a window of bounded size.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

/// Bytes of the window: the most that can be looked at in one piece.
pub(super) const CAPACITY: usize = 512 << 10;

/// A file read from its beginning to its end.
#[derive(Debug)]
pub(super) struct Input<R> {
    source: R,
    /// Bytes of the whole file.
    length: u64,
    buffer: Box<[u8]>,
    /// What of the buffer is read and not consumed.
    start: usize,
    end: usize,
    /// Where `start` is in the file.
    offset: u64,
}

impl<R: Read + Seek> Input<R> {
    pub fn new(mut source: R) -> io::Result<Input<R>> {
        let length = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        let buffer = vec![0; CAPACITY].into_boxed_slice();
        Ok(Input { source, length, buffer, start: 0, end: 0, offset: 0 })
    }

    /// From the beginning again.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.length = self.source.seek(SeekFrom::End(0))?;
        self.source.rewind()?;
        (self.start, self.end, self.offset) = (0, 0, 0);
        Ok(())
    }

    /// Where the next byte is in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes in the window.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or(&[])
    }

    /// Makes `wanted` bytes, at most [`CAPACITY`], be in the window; returns how many of them there are,
    /// fewer only at the end of the file.
    #[inline]
    pub fn fill(&mut self, wanted: usize) -> io::Result<usize> {
        if self.end - self.start < wanted {
            self.read(wanted.min(CAPACITY))?;
        }
        Ok(wanted.min(self.end - self.start))
    }

    fn read(&mut self, wanted: usize) -> io::Result<()> {
        if self.start + wanted > CAPACITY {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < wanted {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Goes past bytes that are in the window.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Goes past any number of bytes; returns how many there were.
    pub fn skip(&mut self, count: u64) -> io::Result<u64> {
        let inside = (self.end - self.start) as u64;
        if count <= inside {
            self.consume(count as usize);
            return Ok(count);
        }
        let there = self.length.saturating_sub(self.offset).max(inside);
        let skipped = count.min(there);
        self.offset += skipped;
        (self.start, self.end) = (0, 0);
        self.source.seek(SeekFrom::Start(self.offset))?;
        Ok(skipped)
    }
}
