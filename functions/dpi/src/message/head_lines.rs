//! The lines of a head, and its fields: where names and values are, and which field of the same name comes
//! next.
//!
//! Heads may have hundreds of lines of a few bytes. The end of each and its colon are found together, sixteen
//! bytes at a time: to begin a search takes longer than to look at such a line.

use super::http::{Head, MAX_LINES};
use alloc::vec::Vec;
use wide::u8x16;

/// Bytes that are looked at together.
const BLOCK: usize = 16;

/// Where the first line ends, without its end, and where it has its first colon.
#[inline]
fn end_of_line(text: &[u8]) -> (usize, Option<usize>) {
    const END: u8x16 = u8x16::new([b'\n'; BLOCK]);
    const COLON: u8x16 = u8x16::new([b':'; BLOCK]);
    let (mut rest, mut at, mut colon) = (text, 0, None);
    while let Some((block, behind)) = rest.split_first_chunk() {
        let bytes = u8x16::new(*block);
        let (ends, colons) = (bytes.simd_eq(END).to_bitmask(), bytes.simd_eq(COLON).to_bitmask());
        if colons != 0 && colon.is_none() {
            colon = Some(at + colons.trailing_zeros() as usize);
        }
        if ends != 0 {
            let end = at + ends.trailing_zeros() as usize;
            return (end, colon.filter(|colon| *colon < end));
        }
        (rest, at) = (behind, at + BLOCK);
    }
    for (place, byte) in rest.iter().enumerate() {
        match byte {
            b'\n' => return (at + place, colon),
            b':' => colon = colon.or(Some(at + place)),
            _ => {}
        }
    }
    (text.len(), colon)
}

/// A line, and those that go on with it.
#[derive(Clone, Copy, Debug)]
pub struct HeadLine<'a> {
    /// Without its end.
    pub text: &'a [u8],
    colon: Option<usize>,
    /// Others go on with it.
    is_folded: bool,
}

impl<'a> HeadLine<'a> {
    /// Name and value, if it has them.
    #[inline]
    pub fn field(&self) -> Option<(&'a [u8], &'a [u8])> {
        let (name, value) = self.text.split_at_checked(self.colon?)?;
        Some((name.trim_ascii(), value.get(1..)?.trim_ascii()))
    }
}

/// Lines of a head, behind the first one and up to the empty one.
#[derive(Clone, Debug)]
pub struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    /// Of what stands behind the first line.
    pub fn new(rest: &'a [u8]) -> Lines<'a> {
        Lines(rest)
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = HeadLine<'a>;

    #[inline]
    fn next(&mut self) -> Option<HeadLine<'a>> {
        let (mut end, mut colon) = end_of_line(self.0);
        let mut is_folded = false;
        // A line that begins with a blank goes on with the one before.
        while matches!(self.0.get(end + 1), Some(b' ' | b'\t')) {
            let (more, next) = end_of_line(&self.0[end + 1..]);
            colon = colon.or(next.map(|at| end + 1 + at));
            (end, is_folded) = (end + 1 + more, true);
        }
        let (line, behind) = self.0.split_at_checked(end)?;
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        self.0 = behind.get(1..).unwrap_or_default();
        (!text.is_empty()).then_some(HeadLine { text, colon, is_folded })
    }
}

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
    /// Its value is in several lines.
    is_folded: bool,
    known: Option<Name>,
}

/// A value as it stands in the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded<'a> {
    /// Without blanks around it.
    pub text: &'a [u8],
    /// It may be in several lines.
    pub is_folded: bool,
}

/// A field that is joined with none before it.
#[derive(Clone, Copy, Debug)]
pub struct First<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// What name that is.
    pub known: Option<Name>,
    /// The field's number.
    pub number: u16,
    /// Name and value with a colon and a blank between them, where the head has them so and nothing is joined
    /// with them.
    pub as_it_is: Option<&'a [u8]>,
}

/// The fields of a head.
#[derive(Debug)]
pub struct HeadLines<'a> {
    text: &'a [u8],
    lines: Vec<Line>,
    /// Lines that were read, those without a field too.
    pub read: usize,
    /// The first field of each name.
    known: [u16; NAMES],
}

/// A number of a name's letters, whatever their case.
fn digest(name: &[u8]) -> u32 {
    name.iter().fold(name.len() as u32, |sum, byte| (sum ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193))
}

impl<'a> HeadLines<'a> {
    /// Reads the fields of `most` lines at most, into memory that may have been used before.
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
        let mut read = 0;
        for line in head.lines().take(most.min(MAX_LINES)) {
            read += 1;
            let Some((name, value)) = line.field() else { continue };
            let at = lines.len() as u16;
            let of = Name::of(name);
            let before = match of {
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
            lines.push(Line {
                name: span(name),
                value: span(value),
                next: NONE,
                is_first: before == NONE,
                is_folded: line.is_folded,
                known: of,
            });
        }
        HeadLines { text, lines, read, known }
    }

    /// What it was made in.
    pub fn into_memory(self) -> Vec<Line> {
        self.lines
    }

    /// Fields that are joined with none before them.
    pub fn firsts(&self) -> impl Iterator<Item = First<'a>> {
        let firsts = self.lines.iter().enumerate().filter(|(_, line)| line.is_first);
        firsts.map(|(number, line)| {
            let is_alone = line.next == NONE && !line.is_folded;
            let between = is_alone.then(|| part(self.text, (line.name.1, line.value.0)));
            let as_it_is = between.filter(|between| *between == b": ");
            First {
                name: part(self.text, line.name),
                known: line.known,
                number: number as u16,
                as_it_is: as_it_is.map(|_| part(self.text, (line.name.0, line.value.1))),
            }
        })
    }

    /// Values of a field and those that are joined with it.
    pub fn alike(&self, first: u16) -> impl Iterator<Item = Folded<'a>> {
        let mut next = first;
        core::iter::from_fn(move || {
            let line = self.lines.get(usize::from(next))?;
            next = line.next;
            Some(Folded { text: part(self.text, line.value), is_folded: line.is_folded })
        })
    }

    /// Values of all fields of a name.
    pub fn values(&self, name: Name) -> impl Iterator<Item = Folded<'a>> {
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
    use proptest::collection;
    use proptest::prelude::*;

    fn texts<'a>(values: impl Iterator<Item = Folded<'a>>) -> Vec<&'a [u8]> {
        values.map(|value| value.text).collect()
    }

    #[test]
    fn repeated_fields_are_joined_and_those_beyond_the_last_name_are_not() {
        let head = b"GET / HTTP/1.1\r\nA: 1\r\nhost: h\r\na: 2\r\nHOST: i\r\nB:\r\n\r\n";
        let lines = HeadLines::new(Head::new(head), MAX_LINES, Vec::new());
        let firsts: Vec<(&[u8], Vec<&[u8]>)> =
            lines.firsts().map(|field| (field.name, texts(lines.alike(field.number)))).collect();
        assert_eq!(
            firsts,
            [(&b"A"[..], vec![&b"1"[..], b"2"]), (b"host", vec![b"h", b"i"]), (b"B", vec![b""])]
        );
        assert_eq!(texts(lines.values(Name::Host)), [b"h", b"i"]);
        assert_eq!(lines.values(Name::Cookie).next(), None);
        assert_eq!((lines.lines.len(), lines.read), (5, 5));
        let many: String = (0..40).map(|n| format!("n{n}: x\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\n{many}n0: y\r\nn39: y\r\n\r\n");
        let lines = HeadLines::new(Head::new(head.as_bytes()), MAX_LINES, Vec::new());
        let of = |name: &str| lines.firsts().filter(|field| field.name == name.as_bytes()).count();
        assert_eq!((of("n0"), of("n39"), lines.lines.len()), (1, 2, 42));
        let lines = HeadLines::new(Head::new(head.as_bytes()), 7, Vec::new());
        assert_eq!((lines.lines.len(), lines.read), (7, 7));
    }

    /// Lines without a field are read, and paid for, too.
    #[test]
    fn lines_without_a_field_are_counted() {
        let lines = HeadLines::new(Head::new(b"GET /\na\nb:1\nc\n\n"), MAX_LINES, Vec::new());
        assert_eq!((lines.lines.len(), lines.read), (1, 3));
        let lines = HeadLines::new(Head::new(b"GET /\na\nb:1\nc\n\n"), 1, Vec::new());
        assert_eq!((lines.lines.len(), lines.read), (0, 1));
    }

    /// The lines that bytes begin with, byte by byte: each with its first colon, and whether it is folded.
    fn plain(text: &[u8]) -> Vec<(Vec<u8>, Option<usize>, bool)> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for (n, line) in text.split(|byte| *byte == b'\n').enumerate() {
            match all.last_mut() {
                Some(last) if n > 0 && matches!(line.first(), Some(b' ' | b'\t')) => {
                    last.push(b'\n');
                    last.extend(line);
                }
                _ => all.push(line.to_vec()),
            }
        }
        let told = |line: Vec<u8>| {
            let line = line.strip_suffix(b"\r").unwrap_or(&line).to_vec();
            let (colon, is_folded) = (line.iter().position(|byte| *byte == b':'), line.contains(&b'\n'));
            (line, colon, is_folded)
        };
        all.into_iter().map(told).take_while(|(line, ..)| !line.is_empty()).collect()
    }

    proptest! {
        #[test]
        fn lines_are_what_they_are_byte_by_byte(
            text in collection::vec(prop_oneof![Just(b'\n'), Just(b':'), Just(b'\r'), Just(b' ')], 0..80),
            long in collection::vec(prop_oneof![12 => Just(b'a'), 1 => Just(b'\n'), 1 => Just(b':')], 0..200),
        ) {
            for text in [&text, &long] {
                let lines = Lines::new(text).map(|line| (line.text.to_vec(), line.colon, line.is_folded));
                prop_assert_eq!(lines.collect::<Vec<_>>(), plain(text));
            }
        }
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
