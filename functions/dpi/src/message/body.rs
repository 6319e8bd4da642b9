//! Bodies without their encodings, within a limit.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

/// Most members of a gzip file that are looked at.
const MAX_MEMBERS: usize = 64;
/// What stands behind a member's data: its checksum and length.
const TRAILER: usize = 8;

/// Where the compressed data of a gzip member begins (RFC 1952 section 2.3).
fn gzip_data(body: &[u8]) -> Option<&[u8]> {
    let [0x1f, 0x8b, 8, flags, _, _, _, _, _, _, rest @ ..] = body else { return None };
    let mut rest = rest;
    if flags & 4 != 0 {
        let length = usize::from(u16::from_le_bytes(*rest.first_chunk()?));
        rest = rest.get(2 + length..)?;
    }
    // A name and a comment, each with a zero at its end.
    for bit in [8, 16] {
        if flags & bit != 0 {
            rest = rest.get(memchr::memchr(0, rest)? + 1..)?;
        }
    }
    if flags & 2 != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

/// Memory that bodies were made in and the next ones are made in, at the most.
const MAX_SPARE: usize = 2;

/// What undoes encodings, with memory that stays from one body to the next: it is zeroed once.
#[derive(Default)]
pub struct Inflater {
    state: Box<DecompressorOxide>,
    /// With what was in it: it is overwritten before it is looked at.
    spare: Vec<Vec<u8>>,
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").field("spare", &self.spare.len()).finish_non_exhaustive()
    }
}

impl Inflater {
    /// Takes back what a body was made in.
    pub fn take_back(&mut self, memory: Vec<u8>) {
        if memory.capacity() > 0 && self.spare.len() < MAX_SPARE {
            self.spare.push(memory);
        }
    }

    /// Appends what can be had, `limit` bytes in all, which may be `told` bytes; behind the end of the
    /// compressed data, if it was reached.
    fn inflate<'d>(
        &mut self,
        data: &'d [u8],
        has_header: bool,
        (limit, told): (usize, usize),
        out: &mut Vec<u8>,
    ) -> Option<&'d [u8]> {
        self.state.init();
        let start = out.len();
        let mut flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        if has_header {
            flags |= inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER;
        }
        // What is told may not be so: a text of more than that ratio is rare.
        let expected = told.clamp(data.len().saturating_mul(2), data.len().saturating_mul(16));
        let mut memory = self.spare.pop().unwrap_or_default();
        memory.resize(expected.min(limit - start), 0);
        let (mut rest, mut made) = (data, 0);
        let is_over = loop {
            let (status, taken, written) = decompress(&mut self.state, rest, &mut memory, made, flags);
            rest = rest.get(taken..).unwrap_or_default();
            made += written;
            match status {
                TINFLStatus::Done => break true,
                TINFLStatus::HasMoreOutput if memory.len() < limit - start => {
                    let more = memory.len().saturating_mul(2).clamp(64, (limit - start).max(64));
                    memory.resize(more.min(limit - start), 0);
                }
                _ => break false,
            }
        };
        memory.truncate(made);
        if out.is_empty() {
            core::mem::swap(out, &mut memory);
        } else {
            out.extend_from_slice(&memory);
        }
        self.take_back(memory);
        is_over.then_some(rest)
    }

    /// Undoes an encoding, of which senders know one and name the other; `limit`: most bytes that are given
    /// back.
    pub fn decode(&mut self, body: &[u8], limit: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut next = gzip_data(body);
        if next.is_none() {
            return self.deflated(body, limit);
        }
        // A file may have several members, one after the other. It ends with the length of the last one's
        // data.
        let told = body.last_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        for _ in 0..MAX_MEMBERS {
            let Some(data) = next.take() else { break };
            let behind = self.inflate(data, false, (limit, told), &mut out);
            next = behind.and_then(|behind| gzip_data(behind.get(TRAILER..)?));
        }
        out
    }

    /// With the header of RFC 1950, or without. What looks like the header may be none: the longer result
    /// counts.
    fn deflated(&mut self, body: &[u8], limit: usize) -> Vec<u8> {
        let has_header = matches!(body, [method, flags, ..]
            if method & 15 == 8 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31));
        let (mut with, mut without) = (Vec::new(), Vec::new());
        if has_header && self.inflate(body, true, (limit, 0), &mut with).is_some() || with.len() >= limit {
            return with;
        }
        self.inflate(body, false, (limit, 0), &mut without);
        if without.len() >= with.len() {
            core::mem::swap(&mut with, &mut without);
        }
        self.take_back(without);
        with
    }
}

/// A body without its chunks (RFC 9112 section 7.1), as far as they can be read.
pub fn without_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = memchr::memchr(b'\n', body) {
        let size = match super::half::chunk_size(&body[..end]) {
            None | Some(0) => break,
            Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
        };
        let rest = &body[end + 1..];
        let (chunk, rest) = rest.split_at(size.min(rest.len()));
        out.extend_from_slice(chunk);
        let line = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        body = &rest[line..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

    /// What a new one makes of it, and one that has made something longer and something else before.
    fn decode(body: &[u8], limit: usize) -> Vec<u8> {
        let mut used = Inflater::default();
        let longer = used.decode(&member(0, &[], &[b'z'; 4096]), 4096);
        assert_eq!(longer, [b'z'; 4096]);
        used.take_back(longer);
        let garbage = used.decode(b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff\xff\xff", 100);
        used.take_back(garbage);
        let made = Inflater::default().decode(body, limit);
        assert_eq!(used.decode(body, limit), made);
        made
    }

    fn member(flags: u8, extra: &[u8], data: &[u8]) -> Vec<u8> {
        let head = [0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3];
        [&head[..], extra, &compress_to_vec(data, 6), &[0; 8]].concat()
    }

    #[test]
    fn members_one_after_the_other() {
        let extra = [&[2, 0, 7, 7][..], b"a name\0", b"a comment\0", &[9, 9]].concat();
        let file = [member(0, &[], b""), member(0x1e, &extra, b"evil "), member(0, &[], b"page")].concat();
        assert_eq!(decode(&file, 100), b"evil page");
        assert_eq!(decode(&file, 6), b"evil p");
        // What is cut short, and what follows that is no member.
        assert_eq!(decode(&[&file[..], b"and so on"].concat(), 100), b"evil page");
        assert_eq!(decode(&file[..file.len() - 9], 100), b"evil page");
        assert_eq!(decode(&member(0, &[], b"x").repeat(MAX_MEMBERS + 5), 100), [b'x'; MAX_MEMBERS]);
    }

    /// Compressed data that begin with what could be a header of RFC 1950.
    #[test]
    fn with_and_without_a_header() {
        assert_eq!(decode(&compress_to_vec_zlib(b"evil page", 6), 100), b"evil page");
        assert_eq!(decode(&compress_to_vec(b"evil page", 6), 100), b"evil page");
        // A stored block of which the unused bits and the length's first byte are chosen: 0x78, 0x01 would be
        // a header. It is empty, and another one is behind it.
        let second = compress_to_vec(b"evil page", 6);
        let ambiguous = [&[0x78, 0x01, 0x00, 0xfe, 0xff, b'.'][..], &second].concat();
        assert_eq!(decode(&ambiguous, 100), b".evil page");
    }

    #[test]
    fn chunks() {
        assert_eq!(without_chunks(b"5\r\nevil \r\n4;a=b\r\npage\r\n0\r\n\r\nmore"), b"evil page");
        assert_eq!(without_chunks(b"ff\npage"), b"page");
        assert_eq!(without_chunks(b"no chunk\n"), b"");
        assert_eq!(without_chunks(b""), b"");
    }
}
