//! Bodies without their encodings, within a limit.

use alloc::vec::Vec;
use miniz_oxide::inflate::{
    DecompressError, decompress_to_vec_with_limit, decompress_to_vec_zlib_with_limit,
};

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

/// What could be had, however much of it there is.
fn taken(result: Result<Vec<u8>, DecompressError>) -> Vec<u8> {
    result.unwrap_or_else(|error| error.output)
}

/// Undoes an encoding, of which senders know one and name the other; `limit`: most bytes that are given back.
pub fn decode(body: &[u8], limit: usize) -> Vec<u8> {
    match gzip_data(body) {
        Some(data) => taken(decompress_to_vec_with_limit(data, limit)),
        None => deflated(body, limit),
    }
}

/// With the header of RFC 1950, or without.
fn deflated(body: &[u8], limit: usize) -> Vec<u8> {
    let has_header = matches!(body, [method, flags, ..]
        if method & 15 == 8 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31));
    taken(if has_header {
        decompress_to_vec_zlib_with_limit(body, limit)
    } else {
        decompress_to_vec_with_limit(body, limit)
    })
}
