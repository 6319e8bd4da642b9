//! DNS messages (RFC 1035 section 4): whether bytes are one, and the names that it asks for.

use super::fields::Fields;
use crate::rules::buffer::Buffer;
use alloc::vec::Vec;

const HEADER: usize = 12;
/// Most questions that are looked at.
const MAX_QUESTIONS: usize = 16;
/// Longest name as text.
const MAX_NAME: usize = 255;

/// Whether these bytes are a DNS message; whether it is a response.
pub fn recognise(data: &[u8]) -> Option<bool> {
    let header: &[u8; HEADER] = data.first_chunk()?;
    let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (questions, answers, authorities, others) = (count(4), count(6), count(8), count(10));
    let is_response = header[2] & 0x80 != 0;
    let code = header[2] >> 3 & 15;
    let is_plausible = matches!(code, 0 | 1 | 2 | 4 | 5)
        && (1..=MAX_QUESTIONS as u16).contains(&questions)
        // A record more is what servers pass over.
        && (is_response || code == 5 || answers <= 1 && authorities <= 1)
        && others <= 64;
    if !is_plausible {
        return None;
    }
    let mut at = HEADER;
    for _ in 0..questions {
        at = name(data, at, None)?;
        // Class: Internet, CHAOS, Hesiod, none or any.
        let class = u16::from_be_bytes([*data.get(at + 2)?, *data.get(at + 3)?]) & 0x7fff;
        if !matches!(class, 1 | 3 | 4 | 254 | 255) {
            return None;
        }
        at += 4;
    }
    Some(is_response)
}

/// Reads a name; where it ends. Names of questions may refer to one before them.
fn name(data: &[u8], start: usize, mut out: Option<&mut Vec<u8>>) -> Option<usize> {
    let (mut at, mut end, mut jumps, mut length) = (start, None, 0, 0);
    loop {
        let size = usize::from(*data.get(at)?);
        match size {
            0 => return Some(end.unwrap_or(at + 1)),
            1..=63 => {
                let label = data.get(at + 1..at + 1 + size)?;
                length += size + 1;
                if length > MAX_NAME {
                    return None;
                }
                if let Some(out) = out.as_deref_mut() {
                    if length > size + 1 {
                        out.push(b'.');
                    }
                    out.extend_from_slice(label);
                }
                at += 1 + size;
            }
            0xc0.. => {
                let target = (size & 0x3f) << 8 | usize::from(*data.get(at + 1)?);
                end.get_or_insert(at + 2);
                jumps += 1;
                if jumps > 8 || target >= at {
                    return None;
                }
                at = target;
            }
            _ => return None,
        }
    }
}

/// Takes the names that a message asks for.
pub fn questions(data: &[u8], out: &mut Fields) {
    let Some(count) = data.get(4..6) else { return };
    let count = usize::from(u16::from_be_bytes([count[0], count[1]])).min(MAX_QUESTIONS);
    let mut at = HEADER;
    let mut text = Vec::with_capacity(MAX_NAME);
    for _ in 0..count {
        text.clear();
        let Some(end) = name(data, at, Some(&mut text)) else { return };
        out.add(Buffer::DnsQuery, &text);
        at = end + 4;
    }
}
