//! The option `content`: its bytes and where they may be.

use super::text::{quoted, say};
use alloc::string::String;
use alloc::vec::Vec;

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
    /// Place of the byte among them that traffic has least of: it is looked for, and the others beside it.
    rare: u8,
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

/// A content's place in data, and at how many places it was compared until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The first place.
    pub at: Option<usize>,
    /// Comparisons.
    pub compared: u32,
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

    /// Its first place in `data`.
    pub fn find(&self, data: &[u8]) -> Found {
        let rare = usize::from(self.rare);
        let mut found = Found { at: None, compared: 0 };
        let ends = data.len().checked_sub(self.bytes.len());
        let Some((byte, places)) =
            self.bytes.get(rare).copied().zip(ends.and_then(|last| data.get(rare..=rare + last)))
        else {
            return found;
        };
        let mut is_here = |at: &usize| {
            found.compared += 1;
            self.is_at(&data[*at..])
        };
        found.at = if self.nocase && byte.is_ascii_alphabetic() {
            memchr::memchr2_iter(byte, byte.to_ascii_uppercase(), places).find(&mut is_here)
        } else {
            memchr::memchr_iter(byte, places).find(&mut is_here)
        };
        found
    }
}

/// The place of the byte that occurs least often in what applications say: texts, and numbers with zeros.
fn rarest(bytes: &[u8]) -> u8 {
    let frequency = |byte: u8| match byte {
        0 | b' ' | b'a' | b'e' | b'i' | b'n' | b'o' | b'r' | b's' | b't' => 5,
        b'a'..=b'z' | b'/' | b'.' => 4,
        b'0'..=b'9' | b'-' | b'=' | b':' | b'\r' | b'\n' | 0xff => 3,
        b'A'..=b'Z' | b'!'..=b'~' => 2,
        _ => 1,
    };
    let place = (0..bytes.len()).min_by_key(|place| frequency(bytes[*place])).unwrap_or(0);
    u8::try_from(place).unwrap_or(0)
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
