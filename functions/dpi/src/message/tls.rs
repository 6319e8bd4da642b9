//! The first messages of TLS (RFC 8446 section 4.1): versions, and the name that a client asks for.

use super::fields::Fields;
use crate::rules::Version;
use crate::rules::buffer::Buffer;
use alloc::vec::Vec;

const RECORD_HEADER: usize = 5;
/// Most empty records that servers pass over.
const MAX_EMPTY: usize = 32;
const HANDSHAKE: u8 = 22;
/// Types of messages.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// Extensions (RFC 6066 section 3, RFC 8446 section 4.2.1).
const SERVER_NAME: u16 = 0;
const SUPPORTED_VERSIONS: u16 = 43;

/// Whether a stream begins like TLS; `None` when there are too few bytes to tell.
pub fn recognise(data: &[u8]) -> Option<bool> {
    // Any version 3: servers look at that of the hello alone. Empty records before it are passed over.
    let mut data = data;
    for _ in 0..MAX_EMPTY {
        let [HANDSHAKE, 3, _, 0, 0, rest @ ..] = data else { break };
        data = rest;
    }
    let kind = *data.first()?;
    let is_start = kind == HANDSHAKE && data.get(1).is_none_or(|major| *major == 3);
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

/// Whether a hello is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not yet as a whole.
    Partial,
    /// As a whole: [`Hello::message`] is it.
    Whole,
    /// It is too long.
    TooLong,
    /// There is none.
    None,
}

/// A stream's first message, put together from records however they are cut. Each byte is looked at once.
#[derive(Debug, Default)]
pub struct Hello {
    /// A record's header, as far as it is there.
    header: [u8; RECORD_HEADER],
    have: u8,
    /// Bytes of the record that are still to come.
    left: u16,
    /// All bytes so far.
    seen: u32,
    /// The message with its own header.
    pub message: Vec<u8>,
}

impl Hello {
    /// Goes on with more of the stream, `longest` bytes at most in all.
    pub fn take(&mut self, mut data: &[u8], longest: usize) -> Progress {
        while !data.is_empty() {
            if self.seen as usize >= longest {
                return Progress::TooLong;
            }
            let have = usize::from(self.have);
            let wanted = if self.left == 0 { RECORD_HEADER - have } else { usize::from(self.left) };
            let (part, rest) = data.split_at(wanted.min(data.len()));
            (data, self.seen) = (rest, self.seen + part.len() as u32);
            if self.left == 0 {
                self.header[have..have + part.len()].copy_from_slice(part);
                self.have += part.len() as u8;
                let [kind, _, _, high, low] = self.header;
                if kind != HANDSHAKE {
                    return Progress::None;
                }
                if usize::from(self.have) == RECORD_HEADER {
                    (self.have, self.left) = (0, u16::from_be_bytes([high, low]));
                }
                continue;
            }
            self.left -= part.len() as u16;
            self.message.extend_from_slice(part);
            if let Some(&[_, a, b, c]) = self.message.first_chunk() {
                let end = 4 + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c));
                if self.message.len() >= end {
                    self.message.truncate(end);
                    let is_hello = parts(&self.message, &mut Fields::default());
                    return if is_hello { Progress::Whole } else { Progress::None };
                }
            }
        }
        Progress::Partial
    }
}

/// Takes the parts of a hello; whether it is one.
pub fn parts(message: &[u8], out: &mut Fields) -> bool {
    let [kind, _, _, _, body @ ..] = message else { return false };
    read(*kind, body, out).is_some()
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
                let mut list = extension.part(2).unwrap_or(Reader(&[]));
                while let (Some(kind), Some(name)) = (list.number(1), list.part(2)) {
                    if kind == 0 {
                        out.add(Buffer::TlsSni, name.0);
                    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's hello with this name, in records of so many bytes.
    fn hello(name: &[u8], record: usize) -> Vec<u8> {
        let list = [&[0, (name.len() >> 8) as u8, name.len() as u8], name].concat();
        let list = [&((list.len()) as u16).to_be_bytes()[..], &list].concat();
        let extension = [&[0, 0][..], &(list.len() as u16).to_be_bytes(), &list].concat();
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0, 0, 2, 0x13, 1, 1, 0],
            &(extension.len() as u16).to_be_bytes(),
            &extension,
        ]
        .concat();
        let message = [&[CLIENT_HELLO, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat();
        let records = message
            .chunks(record)
            .map(|part| [&[HANDSHAKE, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat());
        records.collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_hello_is_the_same_however_it_is_cut() {
        let name = b"a-name.example";
        for (record, cut) in [(1, 1), (1, 7), (3, 1), (20, 13), (4000, 1), (4000, 4000)] {
            let bytes = hello(name, record);
            let mut reader = Hello::default();
            let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
            for piece in &pieces[..pieces.len() - 1] {
                assert_eq!(reader.take(piece, 4000), Progress::Partial, "{record}, {cut}");
            }
            assert_eq!(reader.take(pieces[pieces.len() - 1], 4000), Progress::Whole, "{record}, {cut}");
            let mut fields = Fields::default();
            assert!(parts(&reader.message, &mut fields));
            assert_eq!(fields.all(Buffer::TlsSni).collect::<Vec<_>>(), [name]);
        }
        assert_eq!(Hello::default().take(&hello(name, 1)[..100], 50), Progress::TooLong);
        assert_eq!(Hello::default().take(&[HANDSHAKE, 3, 1, 0, 1, 1, 23], 50), Progress::None);
        assert_eq!(Hello::default().take(&[HANDSHAKE; 4], 50), Progress::Partial);
    }
}
