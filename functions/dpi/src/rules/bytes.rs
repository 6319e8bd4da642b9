//! The options `byte_test`, `byte_jump` and `byte_extract`: numbers in a payload.

use super::text::{quoted, say};
use alloc::string::String;
use alloc::vec::Vec;

/// A number that a rule gives, or that one of its `byte_extract` has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// As it stands in the rule.
    Given(i64),
    /// The rule's so many-th extracted number.
    Taken(u8),
}

impl Number {
    /// Its value, with what was extracted so far.
    #[inline]
    pub fn value(self, taken: &Taken) -> i64 {
        match self {
            Number::Given(number) => number,
            Number::Taken(place) => taken.get(usize::from(place)).copied().unwrap_or(0) as i64,
        }
    }
}

/// Most numbers that a rule extracts from a buffer.
pub const MAX_TAKEN: usize = 16;
/// Numbers that were extracted.
pub type Taken = [u64; MAX_TAKEN];

/// How digits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Bytes of a number, the most significant first.
    Big,
    /// Bytes of a number, the least significant first.
    Little,
    /// Digits to this base.
    Digits(u32),
}

/// Where a number is, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Bytes of it: 1 to 8, or up to 23 digits.
    pub bytes: usize,
    /// From the beginning, or from the end of the match before.
    pub offset: Number,
    /// The latter.
    pub is_relative: bool,
    /// Bytes or digits.
    pub form: Form,
    /// Bits that count; they are shifted down to the lowest.
    pub mask: Option<u64>,
}

impl Source {
    /// How far behind the match before it ends, where it counts from there.
    pub fn longest(&self) -> Option<usize> {
        let Number::Given(offset) = self.offset else { return None };
        let end = usize::try_from(offset.max(0)).ok()?.checked_add(self.bytes)?;
        self.is_relative.then_some(end)
    }

    /// The number, and where it ends.
    pub fn read(&self, data: &[u8], base: usize, taken: &Taken) -> Option<(u64, usize)> {
        let from = if self.is_relative { base as i64 } else { 0 };
        let start = usize::try_from(from.checked_add(self.offset.value(taken))?).ok()?;
        let bytes = data.get(start..start.checked_add(self.bytes)?).filter(|bytes| !bytes.is_empty())?;
        let (number, length) = match self.form {
            Form::Big => (bytes.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte)), bytes.len()),
            Form::Little => (bytes.iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte)), bytes.len()),
            Form::Digits(base) => digits(bytes, base)?,
        };
        let number = match self.mask {
            Some(mask) => (number & mask) >> mask.trailing_zeros().min(63),
            None => number,
        };
        Some((number, start + length))
    }
}

/// A number in digits, behind blanks and a sign, and how many bytes it takes.
fn digits(bytes: &[u8], base: u32) -> Option<(u64, usize)> {
    let mut at = bytes.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != 0x0b)?;
    let is_negative = bytes[at] == b'-';
    at += usize::from(matches!(bytes[at], b'-' | b'+'));
    let is_digit = |at: usize| bytes.get(at).is_some_and(|byte| char::from(*byte).is_digit(base));
    if base == 16 && matches!(bytes.get(at..at + 2), Some(b"0x" | b"0X")) && is_digit(at + 2) {
        at += 2;
    }
    let start = at;
    let mut number = 0u64;
    while let Some(digit) = bytes.get(at).and_then(|byte| char::from(*byte).to_digit(base)) {
        number = number.checked_mul(u64::from(base))?.checked_add(u64::from(digit))?;
        at += 1;
    }
    (at > start).then_some((if is_negative { number.wrapping_neg() } else { number }, at))
}

/// How a number is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Less.
    Less,
    /// More.
    More,
    /// The same.
    Equal,
    /// Less or the same.
    AtMost,
    /// More or the same.
    AtLeast,
    /// Has a bit in common.
    And,
    /// Differs in a bit.
    Xor,
}

/// The option `byte_test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteTest {
    /// What is compared.
    pub source: Source,
    /// How.
    pub operator: Operator,
    /// It must not be so.
    pub is_negated: bool,
    /// With what.
    pub value: Number,
}

impl ByteTest {
    /// Whether the number is there and as it should be.
    pub fn holds(&self, data: &[u8], base: usize, taken: &Taken) -> bool {
        let Some((number, _)) = self.source.read(data, base, taken) else { return false };
        let value = self.value.value(taken) as u64;
        let is_so = match self.operator {
            Operator::Less => number < value,
            Operator::More => number > value,
            Operator::Equal => number == value,
            Operator::AtMost => number <= value,
            Operator::AtLeast => number >= value,
            Operator::And => number & value != 0,
            Operator::Xor => number ^ value != 0,
        };
        is_so != self.is_negated
    }
}

/// From where a jump counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The end of the number.
    Here,
    /// The beginning of the data.
    Beginning,
    /// The end of the data.
    End,
}

/// The option `byte_jump`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteJump {
    /// How far.
    pub source: Source,
    /// What the number is multiplied by.
    pub multiplier: u32,
    /// The distance is rounded up to a multiple of four.
    pub is_aligned: bool,
    /// From where.
    pub origin: Origin,
    /// What is added.
    pub more: i32,
}

impl ByteJump {
    /// Most bytes that it leads on, where it counts from the match before and numbers are short.
    pub fn longest(&self) -> Option<usize> {
        let number = match self.source.form {
            Form::Big | Form::Little if self.source.bytes <= 2 => (1u64 << (8 * self.source.bytes)) - 1,
            _ => return None,
        };
        if self.origin != Origin::Here {
            return None;
        }
        let distance = number.checked_mul(u64::from(self.multiplier))?.checked_next_multiple_of(4)?;
        let more = i64::try_from(distance).ok()?.checked_add(i64::from(self.more).max(0))?;
        usize::try_from(more).ok()?.checked_add(self.source.longest()?)
    }

    /// Where it leads; `None` beyond the data.
    pub fn target(&self, data: &[u8], base: usize, taken: &Taken) -> Option<usize> {
        let (number, end) = if self.source.bytes == 0 {
            (0, if self.source.is_relative { base } else { 0 })
        } else {
            self.source.read(data, base, taken)?
        };
        let mut distance = number.checked_mul(u64::from(self.multiplier))?;
        if self.is_aligned {
            distance = distance.checked_next_multiple_of(4)?;
        }
        let origin = match self.origin {
            Origin::Here => end,
            Origin::Beginning => 0,
            Origin::End => data.len(),
        };
        // Distances beyond 32 bits lead out of any payload.
        let distance = i64::try_from(distance).ok()?.checked_add(i64::from(self.more))?;
        let target = usize::try_from((origin as i64).checked_add(distance)?).ok()?;
        (target < data.len()).then_some(target)
    }
}

/// The option `byte_extract`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteExtract {
    /// What is taken.
    pub source: Source,
    /// What it is multiplied by.
    pub multiplier: u32,
    /// It is rounded up to a multiple of so many.
    pub align: u32,
    /// Place among the rule's numbers.
    pub place: u8,
}

impl ByteExtract {
    /// The number, and where it ends.
    pub fn take(&self, data: &[u8], base: usize, taken: &Taken) -> Option<(u64, usize)> {
        let (number, end) = self.source.read(data, base, taken)?;
        let number = number.checked_mul(u64::from(self.multiplier))?;
        Some((number.checked_next_multiple_of(u64::from(self.align))?, end))
    }
}

/// Reads a number, or the name of one that was extracted.
///
/// # Errors
/// What was found and what is allowed.
pub fn number(text: &[u8], names: &[Vec<u8>]) -> Result<Number, String> {
    let trimmed = text.trim_ascii();
    if let Some(place) = names.iter().position(|name| name == trimmed) {
        return Ok(Number::Taken(place as u8));
    }
    let parsed = core::str::from_utf8(trimmed).ok().and_then(|text| {
        let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (digits, base) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(rest) => (rest, 16),
            None => (digits, 10),
        };
        let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
        let number = i64::from_str_radix(digits, base).ok().filter(|_| is_number)?;
        Some(if is_negative { -number } else { number })
    });
    parsed.map(Number::Given).ok_or_else(|| {
        say(&[&quoted(trimmed), "; allowed: a number, or the name of a `byte_extract` before it"])
    })
}

/// The words of an option, and the number that stands in front of all others.
struct Words<'a> {
    list: Vec<&'a [u8]>,
    names: &'a [Vec<u8>],
}

impl<'a> Words<'a> {
    fn new(value: &'a [u8], names: &'a [Vec<u8>], least: usize, form: &str) -> Result<Self, String> {
        let list: Vec<&[u8]> = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        if list.len() < least {
            return Err(say(&[&quoted(value), "; allowed: ", form]));
        }
        Ok(Words { list, names })
    }

    fn source(&self, offset: usize) -> Result<Source, String> {
        let bytes = small(self.list[0], 0, 23)?;
        let offset = number(self.list[offset], self.names)?;
        if matches!(offset, Number::Given(offset) if !(-65_535..=65_535).contains(&offset)) {
            return Err(String::from("an offset out of range; allowed: -65535 to 65535"));
        }
        Ok(Source { bytes: bytes as usize, offset, is_relative: false, form: Form::Big, mask: None })
    }
}

fn small(text: &[u8], least: i64, most: i64) -> Result<i64, String> {
    match number(text, &[]) {
        Ok(Number::Given(number)) if (least..=most).contains(&number) => Ok(number),
        _ => {
            let least = say(&[if least < 0 { "-" } else { "" }, &super::text::decimal(least.unsigned_abs())]);
            let most = super::text::decimal(most.unsigned_abs());
            Err(say(&[&quoted(text), "; allowed: ", &least, " to ", &most]))
        }
    }
}

/// Words that all three options have; false for another one.
fn common(source: &mut Source, word: &[u8]) -> Result<bool, String> {
    match word {
        b"relative" => source.is_relative = true,
        b"big" if !matches!(source.form, Form::Digits(_)) => source.form = Form::Big,
        b"little" if !matches!(source.form, Form::Digits(_)) => source.form = Form::Little,
        b"string" => source.form = Form::Digits(10),
        b"hex" if matches!(source.form, Form::Digits(_)) => source.form = Form::Digits(16),
        b"dec" if matches!(source.form, Form::Digits(_)) => source.form = Form::Digits(10),
        b"oct" if matches!(source.form, Form::Digits(_)) => source.form = Form::Digits(8),
        _ => match word.strip_prefix(b"bitmask") {
            Some(mask) => match number(mask, &[])? {
                Number::Given(mask) if (1..=0xffff_ffff).contains(&mask) => source.mask = Some(mask as u64),
                _ => return Err(say(&[&quoted(word), "; allowed: bitmask 0x1 to bitmask 0xffffffff"])),
            },
            None => return Ok(false),
        },
    }
    Ok(true)
}

fn check(source: &Source, least: usize) -> Result<(), String> {
    let most = if matches!(source.form, Form::Digits(_)) { 23 } else { 8 };
    if (least..=most).contains(&source.bytes) {
        return Ok(());
    }
    let found = super::text::decimal(source.bytes as u64);
    Err(say(&[&found, " bytes; allowed: 1 to 8, or 1 to 23 digits with `string`"]))
}

fn refuse<T>(word: &[u8], allowed: &str) -> Result<T, String> {
    let why = if word.starts_with(b"dce") { " needs DCE/RPC, which is not read" } else { "" };
    Err(say(&[&quoted(word), why, "; allowed: ", allowed]))
}

/// Reads `byte_test`.
///
/// # Errors
/// What was found and what is allowed.
pub fn byte_test(value: &[u8], names: &[Vec<u8>]) -> Result<ByteTest, String> {
    let form =
        "BYTES, [!]OPERATOR, VALUE, OFFSET[, relative][, big|little][, string, hex|dec|oct][, bitmask N]";
    let words = Words::new(value, names, 4, form)?;
    let (is_negated, operator) = match words.list[1] {
        [b'!', rest @ ..] => (true, rest.trim_ascii()),
        operator => (false, operator),
    };
    let operator = match operator {
        b"<" => Operator::Less,
        b">" => Operator::More,
        b"=" => Operator::Equal,
        // A lone `!` is for "not equal".
        b"" if is_negated => Operator::Equal,
        b"<=" => Operator::AtMost,
        b">=" => Operator::AtLeast,
        b"&" => Operator::And,
        b"^" => Operator::Xor,
        other => return refuse(other, "<, >, =, <=, >=, &, ^, each with `!` before it"),
    };
    let mut test =
        ByteTest { source: words.source(3)?, operator, is_negated, value: number(words.list[2], names)? };
    for word in &words.list[4..] {
        if !common(&mut test.source, word)? {
            return refuse(word, form);
        }
    }
    check(&test.source, 1)?;
    Ok(test)
}

/// Reads `byte_jump`.
///
/// # Errors
/// What was found and what is allowed.
pub fn byte_jump(value: &[u8], names: &[Vec<u8>]) -> Result<ByteJump, String> {
    let form = "BYTES, OFFSET[, relative][, multiplier N][, big|little][, string, hex|dec|oct][, align]\
                [, from_beginning|from_end][, post_offset N][, bitmask N]";
    let words = Words::new(value, names, 2, form)?;
    let source = words.source(1)?;
    let mut jump = ByteJump { source, multiplier: 1, is_aligned: false, origin: Origin::Here, more: 0 };
    for word in &words.list[2..] {
        if let Some(rest) = word.strip_prefix(b"multiplier") {
            jump.multiplier = small(rest, 1, 65_535)? as u32;
        } else if let Some(rest) = word.strip_prefix(b"post_offset") {
            jump.more = small(rest, -65_535, 65_535)? as i32;
        } else if !common(&mut jump.source, word)? {
            match *word {
                b"align" => jump.is_aligned = true,
                b"from_beginning" => jump.origin = Origin::Beginning,
                b"from_end" => jump.origin = Origin::End,
                word => return refuse(word, form),
            }
        }
    }
    check(&jump.source, 0)?;
    Ok(jump)
}

/// Reads `byte_extract`, and its name.
///
/// # Errors
/// What was found and what is allowed.
pub fn byte_extract<'a>(value: &'a [u8], names: &'a [Vec<u8>]) -> Result<(ByteExtract, &'a [u8]), String> {
    let form = "BYTES, OFFSET, NAME[, relative][, multiplier N][, big|little][, string, hex|dec|oct][, align 2|4]\
                [, bitmask N]";
    let words = Words::new(value, names, 3, form)?;
    let name = words.list[2];
    let is_name = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    if !is_name || names.iter().any(|known| known == name) {
        return refuse(name, "a name of letters, digits, `_`, each once in a rule");
    }
    if names.len() >= MAX_TAKEN {
        return Err(String::from("more than 16 numbers extracted; allowed: up to 16 in a rule"));
    }
    let source = words.source(1)?;
    let mut extract = ByteExtract { source, multiplier: 1, align: 1, place: names.len() as u8 };
    for word in &words.list[3..] {
        if let Some(rest) = word.strip_prefix(b"multiplier") {
            extract.multiplier = small(rest, 1, 65_535)? as u32;
        } else if let Some(rest) = word.strip_prefix(b"align") {
            extract.align = match small(rest, 2, 4)? {
                3 => return refuse(word, "align 2, align 4"),
                align => align as u32,
            };
        } else if !common(&mut extract.source, word)? {
            return refuse(word, form);
        }
    }
    check(&extract.source, 1)?;
    Ok((extract, name))
}
