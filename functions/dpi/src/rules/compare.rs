//! Comparisons of a number, and of TCP flags.

use super::text::{quoted, say};
use alloc::string::String;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The same.
    Equal(u32),
    /// Another one.
    Other(u32),
    /// Less.
    Less(u32),
    /// More.
    More(u32),
    /// Between both, neither of them.
    Between(u32, u32),
    /// Neither of them, nor between them.
    Beyond(u32, u32),
}

impl Compare {
    /// Whether a number is as it should be.
    pub fn holds(self, number: u32) -> bool {
        match self {
            Compare::Equal(a) => number == a,
            Compare::Other(a) => number != a,
            Compare::Less(a) => number < a,
            Compare::More(a) => number > a,
            Compare::Between(a, b) => a < number && number < b,
            Compare::Beyond(a, b) => number < a || b < number,
        }
    }

    /// Reads `N`, `=N`, `!N`, `<N`, `<=N`, `>N`, `>=N`, `A<>B` or `A-B`, numbers up to `most`.
    ///
    /// # Errors
    /// What was found and what is allowed.
    pub fn parse(text: &[u8], most: u32) -> Result<Compare, String> {
        let refuse = || {
            let most = super::text::decimal(u64::from(most));
            let allowed =
                "; allowed: N, !N, <N, <=N, >N, >=N, A<>B (between, without both), numbers from 0 to ";
            say(&[&quoted(text), allowed, &most])
        };
        let number = |text: &[u8]| {
            let text = core::str::from_utf8(text.trim_ascii()).ok()?;
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|number| digits && *number <= most)
        };
        let text = text.trim_ascii();
        let parsed = match text {
            [b'<', b'=', rest @ ..] => number(rest).map(|n| Compare::Less(n + 1)),
            [b'>', b'=', rest @ ..] => {
                number(rest).map(|n| n.checked_sub(1).map_or(Compare::Less(u32::MAX), Compare::More))
            }
            [b'<', rest @ ..] => number(rest).map(Compare::Less),
            [b'>', rest @ ..] => number(rest).map(Compare::More),
            [b'!', rest @ ..] => number(rest).map(Compare::Other),
            [b'=', rest @ ..] => number(rest).map(Compare::Equal),
            _ => {
                let middle = text.windows(2).position(|two| two == b"<>").map(|at| (at, at + 2));
                let middle = middle.or_else(|| text.iter().position(|b| *b == b'-').map(|at| (at, at + 1)));
                match middle {
                    None => number(text).map(Compare::Equal),
                    Some((end, start)) => match (number(&text[..end]), number(&text[start..])) {
                        (Some(a), Some(b)) if a < b && b - a > 1 => Some(Compare::Between(a, b)),
                        _ => None,
                    },
                }
            }
        };
        parsed.ok_or_else(refuse)
    }
}

/// How flags are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FlagTest {
    /// These and no others.
    Exactly,
    /// These, and perhaps others.
    All,
    /// At least one of these.
    Any,
    /// Not all of these.
    NotAll,
}

/// The option `flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flags {
    test: FlagTest,
    flags: u8,
    ignored: u8,
}

impl Flags {
    /// Whether a segment's flags are as they should be.
    pub fn hold(self, flags: u8) -> bool {
        let flags = flags & !self.ignored;
        match self.test {
            FlagTest::Exactly => flags == self.flags,
            FlagTest::All => flags & self.flags == self.flags,
            FlagTest::Any => flags & self.flags != 0,
            FlagTest::NotAll => flags & self.flags != self.flags,
        }
    }

    /// Reads `[!+*]FLAGS[,IGNORED]`.
    ///
    /// # Errors
    /// What was found and what is allowed.
    pub fn parse(text: &[u8]) -> Result<Flags, String> {
        let refuse = || {
            let allowed = "; allowed: F, S, R, P, A, U, E, C (or 0 for none), first one of `!`, `+`, `*`, and \
                           behind a comma the flags to ignore";
            say(&[&quoted(text), allowed])
        };
        let mut parts = text.trim_ascii().splitn(2, |byte| *byte == b',');
        let first = parts.next().unwrap_or_default().trim_ascii();
        let (mut test, mut letters) = (FlagTest::Exactly, first);
        for (sign, meaning) in [(b'!', FlagTest::NotAll), (b'+', FlagTest::All), (b'*', FlagTest::Any)] {
            // Before the flags or behind them.
            if let Some(rest) = first.strip_prefix(&[sign]).or_else(|| first.strip_suffix(&[sign])) {
                (test, letters) = (meaning, rest);
                break;
            }
        }
        let flags = bits(letters).ok_or_else(refuse)?;
        let ignored = match parts.next() {
            None => 0,
            Some(ignored) => bits(ignored.trim_ascii()).ok_or_else(refuse)?,
        };
        Ok(Flags { test, flags, ignored })
    }
}

fn bits(letters: &[u8]) -> Option<u8> {
    if letters.is_empty() {
        return None;
    }
    letters.iter().try_fold(0, |flags, letter| {
        let bit = match letter.to_ascii_uppercase() {
            b'F' => 0x01,
            b'S' => 0x02,
            b'R' => 0x04,
            b'P' => 0x08,
            b'A' => 0x10,
            b'U' => 0x20,
            b'E' | b'2' => 0x40,
            b'C' | b'1' => 0x80,
            b'0' => 0,
            _ => return None,
        };
        Some(flags | bit)
    })
}
