//! The fields of a head, each read once: where names and values are, and which field of the same name comes
//! next.

use super::http::{Head, MAX_FIELDS};
use alloc::vec::Vec;

/// Names that something is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Host,
    Cookie,
    SetCookie,
    UserAgent,
    Referer,
    Accept,
    AcceptEncoding,
    AcceptLanguage,
    Connection,
    ContentLength,
    ContentType,
    ContentEncoding,
    TransferEncoding,
    Server,
    Location,
}

/// How many there are.
const NAMES: usize = 15;
/// Other names of which repeated fields are joined.
const MAX_JOINED: usize = 32;
/// Stands for no field.
const NONE: u16 = u16::MAX;

impl Name {
    /// Of the bytes before a colon, in any case.
    pub fn of(name: &[u8]) -> Option<Name> {
        let (known, text) = match name.len() {
            4 => (Name::Host, "host"),
            6 => match name[0] | 0x20 {
                b'a' => (Name::Accept, "accept"),
                b'c' => (Name::Cookie, "cookie"),
                _ => (Name::Server, "server"),
            },
            7 => (Name::Referer, "referer"),
            8 => (Name::Location, "location"),
            10 => match name[0] | 0x20 {
                b'c' => (Name::Connection, "connection"),
                b'u' => (Name::UserAgent, "user-agent"),
                _ => (Name::SetCookie, "set-cookie"),
            },
            12 => (Name::ContentType, "content-type"),
            14 => (Name::ContentLength, "content-length"),
            15 => match name[7] | 0x20 {
                b'e' => (Name::AcceptEncoding, "accept-encoding"),
                _ => (Name::AcceptLanguage, "accept-language"),
            },
            16 => (Name::ContentEncoding, "content-encoding"),
            17 => (Name::TransferEncoding, "transfer-encoding"),
            _ => return None,
        };
        name.eq_ignore_ascii_case(text.as_bytes()).then_some(known)
    }
}

/// A field: where in the head's lines its name and its value are.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    name: (u32, u32),
    value: (u32, u32),
    /// The next one of the same name.
    next: u16,
    /// No field before it is joined with it.
    is_first: bool,
}

/// The fields of a head.
#[derive(Debug)]
pub struct HeadLines<'a> {
    text: &'a [u8],
    lines: Vec<Line>,
    /// The first field of each name.
    known: [u16; NAMES],
}

/// A number of a name's letters, whatever their case.
fn digest(name: &[u8]) -> u32 {
    name.iter().fold(name.len() as u32, |sum, byte| (sum ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193))
}

impl<'a> HeadLines<'a> {
    /// Reads the fields, `most` of them at most, into memory that may have been used before.
    pub fn new(head: Head<'a>, most: usize, mut lines: Vec<Line>) -> HeadLines<'a> {
        lines.clear();
        let text = head.rest;
        let span = |part: &[u8]| {
            let start = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize) as u32;
            (start, start + part.len() as u32)
        };
        let mut known = [NONE; NAMES];
        let mut last_known = [NONE; NAMES];
        let (mut digests, mut last_other, mut others) = ([0u32; MAX_JOINED], [NONE; MAX_JOINED], 0);
        // Which digests there are, a bit each: heads of many names would be compared with all before.
        let mut met = [0u64; 4];
        for (name, value) in head.fields().take(most.min(MAX_FIELDS)) {
            let at = lines.len() as u16;
            let before = match Name::of(name) {
                Some(of) => {
                    let of = of as usize;
                    if known[of] == NONE {
                        known[of] = at;
                    }
                    core::mem::replace(&mut last_known[of], at)
                }
                None => {
                    let digest = digest(name);
                    let alike = |place: &usize| {
                        let other: &Line = &lines[usize::from(last_other[*place])];
                        digests[*place] == digest && part(text, other.name).eq_ignore_ascii_case(name)
                    };
                    let (word, bit) = ((digest >> 6 & 3) as usize, 1 << (digest & 63));
                    let candidates = if met[word] & bit == 0 { 0 } else { others };
                    match (0..candidates).find(alike) {
                        Some(place) => core::mem::replace(&mut last_other[place], at),
                        None => {
                            if others < MAX_JOINED {
                                (digests[others], last_other[others]) = (digest, at);
                                met[word] |= bit;
                                others += 1;
                            }
                            NONE
                        }
                    }
                }
            };
            if let Some(before) = lines.get_mut(usize::from(before)) {
                before.next = at;
            }
            lines.push(Line { name: span(name), value: span(value), next: NONE, is_first: before == NONE });
        }
        HeadLines { text, lines, known }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// What it was made in.
    pub fn into_memory(self) -> Vec<Line> {
        self.lines
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines.iter().map(|line| part(self.text, line.name))
    }

    /// Names of fields that are joined with none before them, with the field's number.
    pub fn firsts(&self) -> impl Iterator<Item = (&'a [u8], u16)> {
        let firsts = self.lines.iter().enumerate().filter(|(_, line)| line.is_first);
        firsts.map(|(number, line)| (part(self.text, line.name), number as u16))
    }

    /// Values of a field and those that are joined with it.
    pub fn alike(&self, first: u16) -> impl Iterator<Item = &'a [u8]> {
        let mut next = first;
        core::iter::from_fn(move || {
            let line = self.lines.get(usize::from(next))?;
            next = line.next;
            Some(part(self.text, line.value))
        })
    }

    /// Values of all fields of a name.
    pub fn values(&self, name: Name) -> impl Iterator<Item = &'a [u8]> {
        self.alike(self.known[name as usize])
    }
}

fn part(text: &[u8], (start, end): (u32, u32)) -> &[u8] {
    text.get(start as usize..end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    #[test]
    fn repeated_fields_are_joined_and_those_beyond_the_last_name_are_not() {
        let head = b"GET / HTTP/1.1\r\nA: 1\r\nhost: h\r\na: 2\r\nHOST: i\r\nB:\r\n\r\n";
        let lines = HeadLines::new(Head::new(head), MAX_FIELDS, Vec::new());
        let firsts: Vec<(&[u8], Vec<&[u8]>)> =
            lines.firsts().map(|(name, first)| (name, lines.alike(first).collect())).collect();
        assert_eq!(
            firsts,
            [(&b"A"[..], vec![&b"1"[..], b"2"]), (b"host", vec![b"h", b"i"]), (b"B", vec![b""])]
        );
        assert_eq!(lines.values(Name::Host).collect::<Vec<_>>(), [b"h", b"i"]);
        assert_eq!(lines.values(Name::Cookie).next(), None);
        assert_eq!(lines.len(), 5);
        let many: String = (0..40).map(|n| format!("n{n}: x\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\n{many}n0: y\r\nn39: y\r\n\r\n");
        let lines = HeadLines::new(Head::new(head.as_bytes()), MAX_FIELDS, Vec::new());
        let of = |name: &str| lines.firsts().filter(|(known, _)| *known == name.as_bytes()).count();
        assert_eq!((of("n0"), of("n39"), lines.len()), (1, 2, 42));
        let lines = HeadLines::new(Head::new(head.as_bytes()), 7, Vec::new());
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn names_are_known_in_any_case() {
        let all = [
            "Host",
            "COOKIE",
            "set-cookie",
            "User-Agent",
            "referer",
            "accept",
            "Accept-Encoding",
            "accept-LANGUAGE",
            "connection",
            "Content-Length",
            "content-type",
            "content-encoding",
            "transfer-encoding",
            "server",
            "location",
        ];
        for (number, name) in all.iter().enumerate() {
            assert_eq!(Name::of(name.as_bytes()).map(|name| name as usize), Some(number), "{name}");
            let other = name.to_ascii_lowercase().replace(['e', 'o'], "x");
            assert_eq!(Name::of(other.as_bytes()), None, "{name}");
        }
    }
}
