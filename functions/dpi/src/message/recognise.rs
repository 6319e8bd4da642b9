//! What a stream's first bytes tell of its protocol.

use super::{dns, tls};
use crate::rules::buffer::App;

/// Bytes that always tell.
pub const ENOUGH: usize = 64;
/// Methods of HTTP.
const METHODS: [&[u8]; 24] = [
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"CONNECT",
    b"TRACE",
    b"PATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"SEARCH",
    b"REPORT",
    b"CHECKOUT",
    b"SUBSCRIBE",
    b"UNSUBSCRIBE",
    b"NOTIFY",
    b"M-SEARCH",
    b"BCOPY",
];

/// Whether a stream begins with this, and something behind it; `None` when it is too short to tell.
fn begins(data: &[u8], word: &[u8], end: &[u8]) -> Option<bool> {
    let common = data.len().min(word.len());
    if data[..common] != word[..common] {
        return Some(false);
    }
    let next = data.get(word.len())?;
    Some(end.contains(next))
}

/// The protocol of a stream: `None` when there are too few bytes to tell, `Some(None)` when it is none.
pub fn stream(data: &[u8]) -> Option<Option<App>> {
    // Empty lines before a request are allowed (RFC 9112 section 2.2).
    let blank = data.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let text = &data[blank.min(4)..];
    let mut is_open = text.is_empty();
    let words = METHODS.iter().map(|word| (*word, &b" \t"[..])).chain([(&b"HTTP"[..], &b"/"[..])]);
    for (word, end) in words {
        match begins(text, word, end) {
            Some(true) => return Some(Some(App::Http)),
            Some(false) => {}
            None => is_open = true,
        }
    }
    match tls::recognise(data) {
        Some(true) => return Some(Some(App::Tls)),
        Some(false) => {}
        None => is_open = true,
    }
    match message(data) {
        Some(true) => return Some(Some(App::Dns)),
        Some(false) => {}
        None => is_open = true,
    }
    if is_open && data.len() < ENOUGH { None } else { Some(None) }
}

/// Whether a stream begins with a DNS message and its length.
fn message(data: &[u8]) -> Option<bool> {
    let (length, rest) = data.split_first_chunk()?;
    let length = usize::from(u16::from_be_bytes(*length));
    if !(17..=4096).contains(&length) {
        return Some(false);
    }
    // Flags, and counts that a message of this length can have.
    if let Some(header) = rest.first_chunk::<12>()
        && (header[2] >> 3 & 15 > 5 || header[4] != 0 || header[5] == 0 || header[5] > 16)
    {
        return Some(false);
    }
    match rest.get(..length) {
        Some(message) => Some(dns::recognise(message).is_some()),
        None if rest.len() >= 12 && data.len() >= ENOUGH => Some(dns::recognise(rest).is_some()),
        None => None,
    }
}
