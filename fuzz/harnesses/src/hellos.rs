//! A hello of TLS is put together from records however they are cut into segments, and read as by a reader
//! that has all of it.

use dpi::message::fields::Fields;
use dpi::message::tls::{Hello, Progress, parts};
use dpi::rules::buffer::Buffer;

/// Longer than any input.
const LONGEST: usize = 1 << 24;

/// The bytes behind a length of so many bytes, and those behind them.
fn behind(bytes: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let length = bytes.get(..width)?.iter().fold(0, |length, byte| length * 256 + usize::from(*byte));
    bytes[width..].split_at_checked(length)
}

/// The version, and the names that it asks for; `None` of what is no hello.
fn read(message: &[u8]) -> Option<([u8; 2], Vec<&[u8]>)> {
    let is_client = match message.first()? {
        1 => true,
        2 => false,
        _ => return None,
    };
    let body = message.get(4..)?;
    let mut version = *body.first_chunk::<2>()?;
    let (_session, rest) = behind(body.get(34..)?, 1)?;
    let rest = if is_client {
        let (_ciphers, rest) = behind(rest, 2)?;
        behind(rest, 1)?.1
    } else {
        rest.get(3..)?
    };
    let mut extensions = behind(rest, 2).map_or(&[][..], |(extensions, _)| extensions);
    let mut names = vec![];
    while let Some((kind, (extension, more))) =
        extensions.first_chunk::<2>().and_then(|kind| Some((kind, behind(&extensions[2..], 2)?)))
    {
        extensions = more;
        match (is_client, kind) {
            (true, [0, 0]) => {
                let mut list = behind(extension, 2).map_or(&[][..], |(list, _)| list);
                while let Some((kind, (name, more))) =
                    list.first().and_then(|kind| Some((kind, behind(&list[1..], 2)?)))
                {
                    list = more;
                    names.extend((*kind == 0).then_some(name));
                }
            }
            (false, [0, 43]) => version = extension.first_chunk().copied().unwrap_or(version),
            _ => {}
        }
    }
    Some((version, names))
}

/// How far the records of a stream come, and the message in them.
fn whole(mut stream: &[u8]) -> (Progress, Vec<u8>) {
    let mut message = vec![];
    while let Some(kind) = stream.first() {
        if *kind != 22 {
            return (Progress::None, message);
        }
        let Some(length) = stream.get(3..5) else { break };
        let length = usize::from(length[0]) * 256 + usize::from(length[1]);
        let there = &stream[5..];
        let (record, rest) = there.split_at(length.min(there.len()));
        message.extend_from_slice(record);
        if let Some((body, _)) = message.get(1..).and_then(|rest| behind(rest, 3))
            && !record.is_empty()
        {
            let end = 4 + body.len();
            message.truncate(end);
            let is_hello = read(&message).is_some();
            return (if is_hello { Progress::Whole } else { Progress::None }, message);
        }
        stream = rest;
    }
    (Progress::Partial, message)
}

pub fn run(data: &[u8]) {
    let &[piece, ref stream @ ..] = data else { return };
    let (expected, message) = whole(stream);
    let mut hello = Hello::default();
    let pieces = stream.chunks(1 + usize::from(piece));
    let mut steps = pieces.map(|piece| hello.take(piece, LONGEST));
    let progress = steps.find(|progress| *progress != Progress::Partial).unwrap_or(Progress::Partial);
    assert_eq!(progress, expected);
    if progress != Progress::None {
        assert_eq!(hello.message, message);
    }
    // And what is no record at all.
    for message in [&message[..], stream] {
        let mut fields = Fields::default();
        assert_eq!(parts(message, &mut fields), read(message).is_some());
        if let Some((version, names)) = read(message) {
            assert_eq!(fields.version, Some(version));
            assert_eq!(fields.all(Buffer::TlsSni).collect::<Vec<_>>(), names);
        }
    }
}
