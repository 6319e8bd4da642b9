//! The option `pcre`, by an engine whose time is linear in the payload's length (`regex-automata`).

use super::text::{decimal, quoted, say};
use alloc::boxed::Box;
use alloc::string::String;
use core::cell::RefCell;
use core::fmt;
use regex_automata::meta::{self, Cache};
use regex_automata::{Anchored, Input};

/// Longest expression, in bytes.
const MAX_LENGTH: usize = 2048;
/// Largest automaton, in bytes.
const MAX_AUTOMATON: usize = 256 * 1024;
/// Largest cache of states made while searching, in bytes.
const MAX_CACHE: usize = 64 * 1024;

/// A regular expression.
pub struct Regex {
    program: Box<meta::Regex>,
    /// Made by the first search.
    cache: RefCell<Option<Box<Cache>>>,
    /// It must not match.
    pub is_negated: bool,
    /// It begins behind the match before (flag `R`).
    pub is_relative: bool,
    is_anchored: bool,
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Regex")
    }
}

impl Regex {
    /// The first match that begins at `from` or behind: where it begins and ends. A relative expression's own
    /// beginning is `base`.
    pub fn find(&self, data: &[u8], base: usize, from: usize) -> Option<(usize, usize)> {
        let base = if self.is_relative { base } else { 0 };
        if from > data.len() || from < base || self.is_anchored && from > base {
            return None;
        }
        let anchored = if self.is_anchored { Anchored::Yes } else { Anchored::No };
        let input = Input::new(&data[base..]).range(from - base..).anchored(anchored);
        let mut cache = self.cache.borrow_mut();
        let cache = cache.get_or_insert_with(|| Box::new(self.program.create_cache()));
        self.program.search_with(cache, &input).map(|found| (base + found.start(), base + found.end()))
    }

    /// Gives back the memory of searches; whether there was any.
    pub fn release(&self) -> bool {
        self.cache.borrow_mut().take().is_some()
    }

    /// Whether a search has left memory taken.
    pub fn has_cache(&self) -> bool {
        self.cache.borrow().is_some()
    }
}

/// Reads `/EXPRESSION/FLAGS`.
///
/// # Errors
/// What was found and what is allowed, and where.
pub fn parse(text: &[u8], is_negated: bool) -> Result<Regex, (usize, String)> {
    let end = text.iter().rposition(|byte| *byte == b'/').filter(|end| *end > 0 && text[0] == b'/');
    let Some(end) = end else {
        return Err((0, say(&[&quoted(text), "; allowed: /EXPRESSION/FLAGS"])));
    };
    let mut syntax = regex_syntax::ParserBuilder::new();
    syntax.unicode(false).utf8(false).nest_limit(32);
    let (mut is_relative, mut is_anchored) = (false, false);
    for (place, flag) in text.iter().enumerate().skip(end + 1) {
        match flag {
            b'i' => drop(syntax.case_insensitive(true)),
            b's' => drop(syntax.dot_matches_new_line(true)),
            b'm' => drop(syntax.multi_line(true)),
            b'x' => drop(syntax.ignore_whitespace(true)),
            b'G' => drop(syntax.swap_greed(true)),
            // `$` is the very end in any case, and bytes are raw.
            b'E' | b'B' => {}
            b'A' => is_anchored = true,
            b'R' => is_relative = true,
            b'U' | b'I' | b'P' | b'Q' | b'H' | b'D' | b'M' | b'C' | b'S' | b'K' | b'Y' | b'V' | b'W'
            | b'Z' => {
                let found = quoted(&text[place..=place]);
                let why = " selects a field of HTTP, and only payload is matched; allowed: i s m x A E G R B";
                return Err((place, say(&[&found, why])));
            }
            _ => {
                let found = quoted(&text[place..=place]);
                return Err((place, say(&[&found, " is no flag of pcre; allowed: i s m x A E G R B"])));
            }
        }
    }
    let expression = &text[1..end];
    if expression.len() > MAX_LENGTH {
        return Err((1, String::from("an expression of more than 2048 bytes; allowed: 1 to 2048")));
    }
    let Ok(expression) = core::str::from_utf8(expression) else {
        return Err((1, String::from("bytes that are not UTF-8; allowed: ASCII, and other bytes as \\xHH")));
    };
    if expression.is_empty() {
        return Err((1, String::from("an empty expression; allowed: 1 to 2048 bytes")));
    }
    let hir = syntax.build().parse(expression).map_err(|error| {
        let (place, what) = match &error {
            regex_syntax::Error::Parse(error) => (error.span().start.offset, kind(error.kind())),
            regex_syntax::Error::Translate(error) => {
                (error.span().start.offset, "only ASCII classes are known, and no Unicode property")
            }
            _ => (0, "an expression that cannot be read"),
        };
        let near = quoted(expression.get(place..).unwrap_or_default().as_bytes());
        let allowed =
            "; allowed: what the Rust crate regex knows, which excludes look-around and back-references";
        (1 + place, say(&[what, " at ", &near, allowed]))
    })?;
    let config = meta::Config::new()
        .nfa_size_limit(Some(MAX_AUTOMATON))
        .hybrid_cache_capacity(MAX_CACHE)
        .utf8_empty(false)
        .which_captures(regex_automata::nfa::thompson::WhichCaptures::Implicit);
    let program = meta::Builder::new().configure(config).build_from_hir(&hir).map_err(|_| {
        let limit = decimal(MAX_AUTOMATON as u64);
        (
            1,
            say(&[
                "an expression whose automaton is larger than ",
                &limit,
                " bytes; allowed: fewer repetitions",
            ]),
        )
    })?;
    Ok(Regex { program: Box::new(program), cache: RefCell::new(None), is_negated, is_relative, is_anchored })
}

fn kind(kind: &regex_syntax::ast::ErrorKind) -> &'static str {
    use regex_syntax::ast::ErrorKind as Kind;
    match kind {
        Kind::UnsupportedLookAround => "look-around, which needs more than linear time,",
        Kind::UnsupportedBackreference => "a back-reference, which needs more than linear time,",
        Kind::EscapeUnrecognized => "an escape that is not known",
        Kind::GroupUnclosed | Kind::GroupUnopened => "a parenthesis without its other half",
        Kind::ClassUnclosed => "a class without its closing bracket",
        Kind::RepetitionMissing => "a repetition of nothing",
        Kind::NestLimitExceeded(_) => "groups nested more than 32 deep",
        _ => "a mistake in the expression",
    }
}
