//! The first messages of TLS (RFC 8446 section 4.1): versions, and the name that a client asks for.

use super::fields::Fields;
use crate::rules::Version;
use crate::rules::buffer::Buffer;
use alloc::vec::Vec;

const RECORD_HEADER: usize = 5;
const HANDSHAKE: u8 = 22;
/// Types of messages.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// Extensions (RFC 6066 section 3, RFC 8446 section 4.2.1).
const SERVER_NAME: u16 = 0;
const SUPPORTED_VERSIONS: u16 = 43;

/// Whether a stream begins like TLS; `None` when there are too few bytes to tell.
pub fn recognise(data: &[u8]) -> Option<bool> {
    let kind = *data.first()?;
    let is_version = |major: &u8, minor: Option<&u8>| *major == 3 && minor.is_none_or(|minor| *minor <= 4);
    let is_start = kind == HANDSHAKE && data.get(1).is_none_or(|major| is_version(major, data.get(2)));
    if !is_start || data.get(RECORD_HEADER).is_some_and(|kind| !matches!(*kind, CLIENT_HELLO | SERVER_HELLO))
    {
        return Some(false);
    }
    (data.len() > RECORD_HEADER).then_some(true)
}

/// Bytes that are read one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// What a length of so many bytes stands before.
    fn part(&mut self, bytes: usize) -> Option<Reader<'a>> {
        let length = self.number(bytes)?;
        self.take(length).map(Reader)
    }
}

/// What a stream's first records hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// The message is not there yet as a whole.
    Partial,
    /// It is there, and its parts were taken.
    Whole,
    /// There is none.
    None,
}

/// Takes the parts of a hello from a stream's beginning.
pub fn hello(data: &[u8], out: &mut Fields) -> Hello {
    let mut message = Vec::new();
    let mut records = Reader(data);
    loop {
        let header = records.take(RECORD_HEADER);
        let Some(&[kind, _, _, high, low]) = header else { return Hello::Partial };
        if kind != HANDSHAKE {
            return Hello::None;
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        let here = records.0.len().min(length);
        message.extend_from_slice(&records.0[..here]);
        if let Some(&[_, a, b, c]) = message.first_chunk() {
            let size = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if let Some(body) = message.get(4..4 + size) {
                return if read(message[0], body, out).is_some() { Hello::Whole } else { Hello::None };
            }
        }
        if here < length {
            return Hello::Partial;
        }
        records.0 = &records.0[length..];
    }
}

fn read(kind: u8, body: &[u8], out: &mut Fields) -> Option<()> {
    let mut body = Reader(body);
    let mut version: Version = *body.take(2)?.first_chunk()?;
    // Random bytes and the session's identifier.
    body.take(32)?;
    body.part(1)?;
    match kind {
        CLIENT_HELLO => {
            body.part(2)?;
            body.part(1)?;
        }
        SERVER_HELLO => drop(body.take(3)?),
        _ => return None,
    }
    let mut extensions = body.part(2).unwrap_or(Reader(&[]));
    while let Some(kind_of) = extensions.number(2) {
        let Some(mut extension) = extensions.part(2) else { break };
        match (kind, kind_of as u16) {
            (CLIENT_HELLO, SERVER_NAME) => {
                if let Some(mut list) = extension.part(2)
                    && list.number(1) == Some(0)
                    && let Some(name) = list.part(2)
                {
                    out.add(Buffer::TlsSni, name.0);
                }
            }
            (SERVER_HELLO, SUPPORTED_VERSIONS) => {
                if let Some(chosen) = extension.0.first_chunk() {
                    version = *chosen;
                }
            }
            _ => {}
        }
    }
    out.version = Some(version);
    Some(())
}
