//! What a stream's first bytes tell of its protocol.

use super::{dns, tls};
use crate::rules::Direction;
use crate::rules::buffer::App;

/// Bytes that tell, except where a line may be a request's.
const ENOUGH: usize = 64;
/// Longest line of a request whose method is none of [`METHODS`], and longest method.
pub const LONGEST_LINE: usize = 8192;
const LONGEST_METHOD: usize = 32;
/// Methods of HTTP.
pub const METHODS: [&[u8]; 24] = [
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

/// What stands before a stream's first words: empty lines, which are allowed before a request (RFC 9112
/// section 2.2) and of which servers pass over any number.
pub fn blank(direction: Direction, data: &[u8]) -> usize {
    let is_blank = |byte: &&u8| direction == Direction::ToServer && matches!(byte, b'\r' | b'\n');
    data.iter().take_while(is_blank).count()
}

/// Whether a line is a request's with whatever method; `None` when its end is not there.
fn is_request(text: &[u8]) -> Option<bool> {
    let line = &text[..text.len().min(LONGEST_LINE)];
    let is_token = |byte: &&u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let method = line.iter().take(LONGEST_METHOD + 1).take_while(is_token).count();
    match line.get(method) {
        None if method <= LONGEST_METHOD => return None,
        Some(b' ' | b'\t') if (1..=LONGEST_METHOD).contains(&method) => {}
        _ => return Some(false),
    }
    let Some(end) = memchr::memchr(b'\n', line) else {
        return if line.len() < LONGEST_LINE { None } else { Some(false) };
    };
    // A target has no blanks.
    let rest = line[method..end].trim_ascii();
    let target = rest.iter().position(|byte| matches!(byte, b' ' | b'\t'));
    Some(target.is_some_and(|at| rest[at..].trim_ascii_start().starts_with(b"HTTP/1.")))
}

/// The protocol of a stream: `None` when there are too few bytes to tell, `Some(None)` when it is none.
pub fn stream(direction: Direction, data: &[u8]) -> Option<Option<App>> {
    let text = &data[blank(direction, data)..];
    if text.is_empty() {
        return None;
    }
    let mut is_open = false;
    let words = METHODS.iter().map(|word| (*word, &b" \t"[..])).chain([(&b"HTTP"[..], &b"/"[..])]);
    for (word, end) in words {
        match begins(text, word, end) {
            Some(true) => return Some(Some(App::Http)),
            Some(false) => {}
            None => is_open = true,
        }
    }
    let is_request = if direction == Direction::ToServer { is_request(text) } else { Some(false) };
    if is_request == Some(true) {
        return Some(Some(App::Http));
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
    if is_open && data.len() < ENOUGH || is_request.is_none() { None } else { Some(None) }
}

/// Whether a stream begins with a DNS message and its length.
fn message(data: &[u8]) -> Option<bool> {
    let (length, rest) = data.split_first_chunk()?;
    let length = usize::from(u16::from_be_bytes(*length));
    if length < 17 {
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
