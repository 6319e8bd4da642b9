//! The option `content`: its bytes and where they may be.

use super::text::{quoted, say};
use alloc::string::String;
use alloc::vec::Vec;
use wide::u8x16;

/// Longest content.
pub const MAX_LENGTH: usize = 255;

/// A place relative to the end of the match before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relative {
    /// How many bytes lie between at least; negative reaches back.
    pub distance: i32,
    /// In how many bytes from there it must end.
    pub within: Option<u32>,
}

/// Places among the rule's extracted numbers that stand for one of a content's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// For `offset`.
    pub offset: Option<u8>,
    /// For `depth`.
    pub depth: Option<u8>,
    /// For `distance`.
    pub distance: Option<u8>,
    /// For `within`.
    pub within: Option<u8>,
}

/// Bytes to look for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// 1 to [`MAX_LENGTH`].
    pub bytes: Vec<u8>,
    /// It must not be there.
    pub is_negated: bool,
    /// ASCII letters match in both cases; `bytes` are lower-case then.
    pub nocase: bool,
    /// Places of the two bytes among them that traffic has least of: they are looked for, and the others
    /// beside them.
    rare: [u8; 2],
    /// Where it may begin at the earliest.
    pub offset: u32,
    /// How many bytes from `offset` are searched.
    pub depth: Option<u32>,
    /// Relative to the match before, instead.
    pub relative: Option<Relative>,
    /// It must be the last bytes.
    pub at_end: bool,
    /// The operator chose it as what packets are filtered by.
    pub is_fast: bool,
    /// Has an option `offset`, `depth` or `startswith`.
    pub is_absolute: bool,
    /// What is not known before a payload is looked at.
    pub taken: Taken,
}

/// Where a content is looked for in data, and at how many places it was compared since that was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The block that is looked at, what is left of the places in it at which the rare bytes are, a bit each,
    /// and where the next one begins.
    start: usize,
    places: u32,
    next: usize,
    /// Comparisons.
    pub compared: u32,
}

impl Places {
    /// From this place on.
    pub fn from(first: usize) -> Places {
        Places { next: first, ..Places::default() }
    }

    /// What comes before was looked at.
    #[inline]
    pub fn first(&self) -> usize {
        if self.places == 0 { self.next } else { self.start + self.places.trailing_zeros() as usize }
    }
}

impl Content {
    /// With these bytes, of which there is one at least.
    pub fn new(bytes: Vec<u8>, is_negated: bool) -> Content {
        let rare = rarest(&bytes);
        Content { bytes, is_negated, rare, ..Content::default() }
    }

    /// Makes ASCII letters match in both cases.
    pub fn ignore_case(&mut self) {
        self.nocase = true;
        self.bytes.make_ascii_lowercase();
        self.rare = rarest(&self.bytes);
    }

    /// Whether its bytes stand at the beginning of `data`.
    #[inline]
    pub fn is_at(&self, data: &[u8]) -> bool {
        match data.get(..self.bytes.len()) {
            None => false,
            Some(data) if self.nocase => {
                data.iter().zip(&self.bytes).all(|(a, b)| a.to_ascii_lowercase() == *b)
            }
            Some(data) => data.iter().zip(&self.bytes).all(|(a, b)| a == b),
        }
    }

    /// It may be anywhere.
    #[inline]
    pub fn is_anywhere(&self) -> bool {
        self.relative.is_none()
            && self.offset == 0
            && self.depth.is_none()
            && !self.at_end
            && self.taken == Taken::default()
    }

    /// Its next place in `data`.
    pub fn find(&self, data: &[u8], at: &mut Places) -> Option<usize> {
        loop {
            while at.places != 0 {
                let place = at.start + at.places.trailing_zeros() as usize;
                at.places &= at.places - 1;
                at.compared += 1;
                if self.is_at(data.get(place..)?) {
                    return Some(place);
                }
            }
            (at.start, at.places) = self.alike(data, at.next)?;
            at.next = at.start + BLOCK;
        }
    }

    /// The first [`BLOCK`] places from `next` on that have one at which the rare bytes are as they should be:
    /// where they begin, and a bit for each such place.
    #[inline]
    fn alike(&self, data: &[u8], next: usize) -> Option<(usize, u32)> {
        let places = (data.len() + 1).checked_sub(self.bytes.len())?;
        let fold = if self.nocase { CASE } else { 0 };
        let [a, b] = self.rare.map(usize::from);
        let (first, second) = (self.bytes.get(a)? | fold, self.bytes.get(b)? | fold);
        let (all, others) = (data.get(a..a + places)?, data.get(b..b + places)?);
        let (folds, firsts, seconds) = (u8x16::splat(fold), u8x16::splat(first), u8x16::splat(second));
        let bits = |one: &[u8; BLOCK], other: &[u8; BLOCK]| {
            let [one, other] = [one, other].map(|block| u8x16::new(*block) | folds);
            (one.simd_eq(firsts) & other.simd_eq(seconds)).to_bitmask() & 0xffff
        };
        let (mut ones, mut twos) = (all.get(next..)?, others.get(next..)?);
        while let (Some(one), Some(two)) = (ones.first_chunk(), twos.first_chunk()) {
            let bits = bits(one, two);
            if bits != 0 {
                return Some((places - ones.len(), bits));
            }
            (ones, twos) = (&ones[BLOCK..], &twos[BLOCK..]);
        }
        // What is left is covered from behind, where there is as much.
        let bits = match (all.last_chunk(), others.last_chunk()) {
            (Some(one), Some(two)) => bits(one, two) >> (BLOCK - ones.len()),
            _ => ones.iter().zip(twos).enumerate().fold(0, |bits, (at, (one, two))| {
                bits | u32::from(one | fold == first && two | fold == second) << at
            }),
        };
        (bits != 0).then_some((places - ones.len(), bits))
    }
}

/// Places that are looked at together.
const BLOCK: usize = 16;
/// The bit by which letters of both cases differ.
const CASE: u8 = 0x20;

/// The places of the two bytes that occur least often in what applications say: texts, and numbers with
/// zeros. The same one twice where there is one alone.
fn rarest(bytes: &[u8]) -> [u8; 2] {
    let frequency = |byte: u8| match byte {
        0 | b' ' | b'a' | b'e' | b'i' | b'n' | b'o' | b'r' | b's' | b't' => 5,
        b'a'..=b'z' | b'/' | b'.' => 4,
        b'0'..=b'9' | b'-' | b'=' | b':' | b'\r' | b'\n' | 0xff => 3,
        b'A'..=b'Z' | b'!'..=b'~' => 2,
        _ => 1,
    };
    let first = (0..bytes.len()).min_by_key(|place| frequency(bytes[*place])).unwrap_or(0);
    let others = (0..bytes.len()).filter(|place| *place != first);
    let second = others.min_by_key(|place| frequency(bytes[*place])).unwrap_or(first);
    [first, second].map(|place| u8::try_from(place).unwrap_or(0))
}

/// Takes the quotes off `"..."`, or `!"..."` where a negation may be; the offset of what is inside.
///
/// # Errors
/// What was found and what is allowed, and where.
pub fn unquote(text: &[u8], may_negate: bool) -> Result<(bool, usize, &[u8]), (usize, String)> {
    let (mut rest, mut is_negated) = (text.trim_ascii_start(), false);
    if let ([b'!', after @ ..], true) = (rest, may_negate) {
        (rest, is_negated) = (after.trim_ascii_start(), true);
    }
    let start = text.len() - rest.len();
    let allowed = if may_negate { "; allowed: \"...\" or !\"...\"" } else { "; allowed: \"...\"" };
    let rest = rest.trim_ascii_end();
    match rest {
        [b'"', inner @ .., b'"'] => Ok((is_negated, start + 1, inner)),
        _ => Err((start, say(&[&quoted(rest), allowed]))),
    }
}

/// Reads the text of a content: characters, escapes (`\"`, `\\`, `\;`, `\:`) and bytes in hexadecimal between
/// bars.
///
/// # Errors
/// What was found and what is allowed, and where.
pub fn bytes(text: &[u8]) -> Result<Vec<u8>, (usize, String)> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'|' => at = hexadecimal(text, at, &mut bytes)?,
            b'\\' => {
                match text.get(at + 1) {
                    Some(escaped @ (b'"' | b'\\' | b';' | b':')) => bytes.push(*escaped),
                    other => {
                        let found =
                            quoted(&text[at..(at + 1 + usize::from(other.is_some())).min(text.len())]);
                        let allowed = " is no escape; allowed: \\\" \\\\ \\; \\: and bytes as |0D 0A|";
                        return Err((at, say(&[&found, allowed])));
                    }
                }
                at += 2;
            }
            b'"' => return Err((at, String::from("`\"` inside quotes; allowed: \\\" or |22|"))),
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
        if bytes.len() > MAX_LENGTH {
            return Err((at, String::from("a content of more than 255 bytes; allowed: 1 to 255")));
        }
    }
    if bytes.is_empty() {
        return Err((0, String::from("an empty content; allowed: 1 to 255 bytes")));
    }
    Ok(bytes)
}

/// Reads `|..|`, which begins at `start`; where it ends.
fn hexadecimal(text: &[u8], start: usize, bytes: &mut Vec<u8>) -> Result<usize, (usize, String)> {
    let mut at = start + 1;
    let mut high: Option<u32> = None;
    loop {
        let Some(&byte) = text.get(at) else {
            return Err((
                start,
                String::from("`|` without a second one; allowed: |0D 0A|, or |7C| for `|` itself"),
            ));
        };
        match (char::from(byte).to_digit(16), high) {
            (Some(digit), None) => high = Some(digit),
            (Some(digit), Some(before)) => {
                bytes.push((before << 4 | digit) as u8);
                high = None;
            }
            (None, None) if byte == b'|' => return Ok(at + 1),
            (None, None) if byte.is_ascii_whitespace() => {}
            (None, _) => {
                let found = quoted(&text[at..=at]);
                return Err((
                    at,
                    say(&[&found, " between bars; allowed: pairs of hexadecimal digits and spaces"]),
                ));
            }
        }
        at += 1;
    }
}
