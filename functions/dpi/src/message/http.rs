//! Heads of HTTP/1 messages and what they say of bodies. Servers accept much that RFC 9112 does not allow; a
//! reader that is strict would see nothing of what they answer to.

use super::fields::Fields;
use super::head_lines::{Folded, HeadLines, Lines, Name};
use super::{recognise, uri};
use crate::rules::Direction;
use crate::rules::buffer::Buffer;
use alloc::vec::Vec;

/// Most lines of a head that are looked at: more than a head of 64 KiB has.
pub const MAX_LINES: usize = 33_000;
/// Bytes of the shortest line that tells something about a body, up to its value.
const SHORTEST_TOLD: usize = "content-length:".len();

/// Buffers as a set of bits.
pub type Wanted = u32;

/// The bit of a buffer.
pub const fn bit(buffer: Buffer) -> Wanted {
    1 << buffer as u32
}

/// Where a head ends, behind its empty line; `from`: what was looked at before.
pub fn head_end(data: &[u8], from: usize) -> Option<usize> {
    let start = from.saturating_sub(3);
    memchr::memchr_iter(b'\n', data.get(start..)?).find_map(|at| {
        let rest = &data[start + at + 1..];
        match rest {
            [b'\n', ..] => Some(start + at + 2),
            [b'\r', b'\n', ..] => Some(start + at + 3),
            _ => None,
        }
    })
}

/// Where a head ends. A request of one line without a version has nothing else (HTTP/0.9).
pub fn whole_head(direction: Direction, data: &[u8], from: usize) -> Option<usize> {
    let (before, new) = data.split_at(from.min(data.len()));
    let end = before.len() + memchr::memchr(b'\n', new)? + 1;
    let is_first = direction == Direction::ToServer && memchr::memchr(b'\n', before).is_none();
    if is_first && Head::new(&data[..end]).is_simple() { Some(end) } else { head_end(data, from) }
}

/// As many bytes tell whether a response begins with a status line.
pub const RESPONSE_START: usize = 8;

/// Whether a response begins with something else than a status line: it is a body alone (HTTP/0.9). Clients
/// pass over a few bytes before it.
pub fn is_no_response(data: &[u8]) -> bool {
    let start = &data[..data.len().min(RESPONSE_START)];
    start.len() == RESPONSE_START && !contains(start, b"http") && !start.starts_with(b"ICY ")
}

/// How a body is told from what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// In chunks that tell their lengths.
    Chunked,
    /// All until the connection ends.
    #[default]
    UntilClose,
    /// What follows is no HTTP.
    Tunnel,
}

/// A head's lines.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The first one, without its end.
    pub line: &'a [u8],
    /// All others.
    pub rest: &'a [u8],
}

fn trim_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl<'a> Head<'a> {
    /// Takes a head apart.
    pub fn new(head: &'a [u8]) -> Head<'a> {
        let end = memchr::memchr(b'\n', head).unwrap_or(head.len());
        let line = trim_end(head.get(..end).unwrap_or_default());
        Head { line, rest: head.get(end + 1..).unwrap_or_default() }
    }

    /// The lines with fields.
    pub fn lines(self) -> Lines<'a> {
        Lines::new(self.rest)
    }

    /// Names and values of fields, without those whose lines are too short to tell something about a body.
    fn telling(self) -> impl Iterator<Item = (Option<Name>, &'a [u8])> {
        let lines = self.lines().filter(|line| line.text.len() >= SHORTEST_TOLD);
        lines.filter_map(|line| line.field()).map(|(name, value)| (Name::of(name), value))
    }

    /// The three parts of the first line.
    pub fn parts(self) -> [&'a [u8]; 3] {
        let mut rest = self.line.trim_ascii_start();
        let mut word = || {
            let end = rest.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(rest.len());
            let word = &rest[..end];
            rest = rest[end..].trim_ascii_start();
            word
        };
        let (first, second) = (word(), word());
        [first, second, rest.trim_ascii_end()]
    }

    /// A request's method, target and version. A target may have blanks, which servers that take it for one
    /// do as well.
    pub fn request_parts(self) -> [&'a [u8]; 3] {
        let [method, target, version] = self.parts();
        let rest = self.line.get(self.offset(target)..).unwrap_or_default().trim_ascii_end();
        let last = rest.iter().rposition(|byte| matches!(byte, b' ' | b'\t')).map_or(0, |at| at + 1);
        let (before, word) = rest.split_at(last);
        if version.len() > word.len() && word.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"HTTP/"))
        {
            return [method, before.trim_ascii_end(), word];
        }
        [method, target, version]
    }

    /// Where a part of the first line begins.
    fn offset(self, part: &[u8]) -> usize {
        if part.is_empty() {
            self.line.len()
        } else {
            (part.as_ptr() as usize) - (self.line.as_ptr() as usize)
        }
    }

    /// It is a line with a method and a target, as requests of HTTP/0.9 are.
    fn is_simple(self) -> bool {
        let [method, target, version] = self.parts();
        !target.is_empty() && version.is_empty() && recognise::METHODS.contains(&method)
    }

    /// It is followed by another one for the same request.
    pub fn is_interim(self) -> bool {
        let [_, status, _] = self.parts();
        matches!(status, [b'1', b'0'..=b'9', b'0'..=b'9']) && status != b"101"
    }

    /// How long the body is, as far as fields tell: by chunks where any says so, else by the first length.
    pub fn length(self) -> Option<Framing> {
        let mut text = None;
        for (name, value) in self.telling() {
            match name {
                Some(Name::TransferEncoding) if has_token(value, b"chunked") => {
                    return Some(Framing::Chunked);
                }
                Some(Name::ContentLength) => text = text.or(Some(value)),
                _ => {}
            }
        }
        let text = text?;
        if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
            // What is no number, receivers take for none.
            return None;
        }
        let number = text
            .iter()
            .fold(0u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
        Some(Framing::Length(number))
    }

    /// What follows a request's head; `before`: what earlier parts of it say.
    pub fn request_framing(self, before: Option<Framing>) -> Framing {
        before.or(self.length()).unwrap_or(Framing::Length(0))
    }

    /// What follows a response's head; `method`: of the request.
    pub fn response_framing(self, method: Asked, before: Option<Framing>) -> Framing {
        let [_, status, _] = self.parts();
        match status {
            b"101" => Framing::Tunnel,
            _ if self.is_interim() => Framing::Length(0),
            b"204" | b"304" => Framing::Length(0),
            [b'2', ..] if method == Asked::Connect => Framing::Tunnel,
            _ if method == Asked::Head => Framing::Length(0),
            // Some clients read chunks then, and some do not: the body has both.
            _ if self.may_have_no_chunks() => Framing::UntilClose,
            _ => before.or(self.length()).unwrap_or(Framing::UntilClose),
        }
    }

    /// A response of HTTP/1.0 in chunks, which that version did not know.
    pub fn may_have_no_chunks(self) -> bool {
        self.parts()[0].eq_ignore_ascii_case(b"HTTP/1.0") && self.length() == Some(Framing::Chunked)
    }

    /// How long the body is where it has no chunks; [`u64::MAX`] without a length.
    pub fn unchunked(self, direction: Direction) -> u64 {
        let lengths = self.telling().filter(|(name, _)| *name == Some(Name::ContentLength));
        let mut numbers = lengths.filter_map(|(_, value)| core::str::from_utf8(value).ok()?.parse().ok());
        numbers.next().unwrap_or(if direction == Direction::ToServer { 0 } else { u64::MAX })
    }

    /// How many times the body is compressed, as all fields together say.
    pub fn codings(self) -> usize {
        let fields = self.telling().filter(|(name, _)| *name == Some(Name::ContentEncoding));
        let words = fields.flat_map(|(_, value)| value.split(|byte| *byte == b','));
        words.filter(|word| contains(word, b"gzip") || contains(word, b"deflate")).count()
    }
}

/// Whether a list has this word, as receivers take lists apart.
fn has_token(list: &[u8], word: &[u8]) -> bool {
    let mut words = list.split(|byte| matches!(byte, b',' | b';' | b' ' | b'\t' | b'\r' | b'\n'));
    words.any(|some| some.eq_ignore_ascii_case(word))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

/// What a request asked for, as far as its response's body depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// Something with a body.
    #[default]
    Other,
    /// A head alone.
    Head,
    /// A tunnel.
    Connect,
}

impl Asked {
    /// By the method.
    pub fn of(head: Head<'_>) -> Asked {
        match head.parts()[0] {
            b"HEAD" => Asked::Head,
            b"CONNECT" => Asked::Connect,
            _ => Asked::Other,
        }
    }
}

/// Fields that are buffers of their own.
const NAMED: [(Name, Buffer); 10] = [
    (Name::UserAgent, Buffer::UserAgent),
    (Name::Referer, Buffer::Referer),
    (Name::Accept, Buffer::Accept),
    (Name::AcceptEncoding, Buffer::AcceptEncoding),
    (Name::AcceptLanguage, Buffer::AcceptLanguage),
    (Name::Connection, Buffer::Connection),
    (Name::ContentLength, Buffer::ContentLength),
    (Name::ContentType, Buffer::ContentType),
    (Name::Server, Buffer::Server),
    (Name::Location, Buffer::Location),
];

/// What fields are read for.
const OF_FIELDS: Wanted = {
    let mut wanted = bit(Buffer::Header) | bit(Buffer::HeaderNames) | bit(Buffer::Cookie);
    wanted |= bit(Buffer::Host) | bit(Buffer::HostRaw);
    let mut place = 0;
    while place < NAMED.len() {
        wanted |= bit(NAMED[place].1);
        place += 1;
    }
    wanted
};

/// Takes the parts of a request's head that are wanted, `most` lines of it at most; how many were read.
pub fn request(bytes: &[u8], wanted: Wanted, most: usize, out: &mut Fields) -> usize {
    let head = Head::new(bytes);
    let [method, target, version] = head.request_parts();
    let has = |buffer: Buffer| wanted & bit(buffer) != 0;
    let mut add = |buffer: Buffer, bytes: &[u8]| {
        if has(buffer) && !bytes.is_empty() {
            out.add(buffer, bytes);
        }
    };
    add(Buffer::Method, method);
    add(Buffer::UriRaw, target);
    add(Buffer::RequestLine, head.line);
    add(Buffer::Protocol, version);
    add(Buffer::HeaderRaw, head.rest);
    let (authority, path) = uri::split(target);
    if has(Buffer::Uri) && !path.is_empty() {
        out.build(Buffer::Uri, |out| uri::normalise(path, out));
    }
    if wanted & OF_FIELDS == 0 {
        return 0;
    }
    let lines = HeadLines::new(head, most, core::mem::take(&mut out.lines));
    if wanted & (bit(Buffer::Host) | bit(Buffer::HostRaw)) != 0 {
        let told = || lines.values(Name::Host).next().map(|value| value.text);
        if let Some(host) = authority.filter(|host| !host.is_empty()).or_else(told) {
            if has(Buffer::HostRaw) {
                out.add(Buffer::HostRaw, host);
            }
            if has(Buffer::Host) && !host.is_empty() {
                out.build(Buffer::Host, |out| {
                    out.extend(uri::without_port(host).iter().map(u8::to_ascii_lowercase));
                });
            }
        }
    }
    common(lines, wanted, Name::Cookie, out)
}

/// Takes the parts of a response's head that are wanted, `most` lines of it at most; how many were read.
pub fn response(bytes: &[u8], wanted: Wanted, most: usize, out: &mut Fields) -> usize {
    let head = Head::new(bytes);
    let [version, status, reason] = head.parts();
    for (buffer, bytes) in [
        (Buffer::Protocol, version),
        (Buffer::StatusCode, status),
        (Buffer::StatusMessage, reason),
        (Buffer::ResponseLine, head.line),
        (Buffer::HeaderRaw, head.rest),
    ] {
        if wanted & bit(buffer) != 0 && !bytes.is_empty() {
            out.add(buffer, bytes);
        }
    }
    if wanted & OF_FIELDS == 0 {
        return 0;
    }
    let lines = HeadLines::new(head, most, core::mem::take(&mut out.lines));
    common(lines, wanted, Name::SetCookie, out)
}

/// What requests and responses have in common; how many lines were read.
fn common(lines: HeadLines<'_>, wanted: Wanted, cookie: Name, out: &mut Fields) -> usize {
    let has = |buffer: Buffer| wanted & bit(buffer) != 0;
    let fields = || lines.firsts().filter(|field| field.known != Some(cookie));
    if has(Buffer::Header) && fields().next().is_some() {
        out.build(Buffer::Header, |out| {
            for field in fields() {
                if let Some(line) = field.as_it_is {
                    out.extend_from_slice(line);
                } else {
                    out.extend_from_slice(field.name);
                    out.extend_from_slice(b": ");
                    join(lines.alike(field.number), out);
                }
                out.extend_from_slice(b"\r\n");
            }
        });
    }
    if has(Buffer::HeaderNames) && lines.firsts().next().is_some() {
        out.build(Buffer::HeaderNames, |out| {
            out.extend_from_slice(b"\r\n");
            for field in lines.firsts() {
                out.extend_from_slice(field.name);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"\r\n");
        });
    }
    if has(Buffer::Cookie) {
        joined(&lines, cookie, Buffer::Cookie, out);
    }
    for (name, buffer) in NAMED {
        if has(buffer) {
            joined(&lines, name, buffer, out);
        }
    }
    let count = lines.read;
    out.lines = lines.into_memory();
    count
}

/// Adds the values of all fields of a name, if there is one.
fn joined(lines: &HeadLines<'_>, name: Name, buffer: Buffer, out: &mut Fields) {
    if lines.values(name).next().is_some() {
        out.build(buffer, |out| join(lines.values(name), out));
    }
}

fn join<'a>(values: impl Iterator<Item = Folded<'a>>, out: &mut Vec<u8>) {
    for (place, value) in values.enumerate() {
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        if value.is_folded { unfold(value.text, out) } else { out.extend_from_slice(value.text) }
    }
}

/// Appends a value; what it was folded with becomes a blank.
fn unfold(value: &[u8], out: &mut Vec<u8>) {
    for (place, line) in value.split(|byte| *byte == b'\n').enumerate() {
        if place > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(line.trim_ascii());
    }
}
