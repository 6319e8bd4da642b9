//! The option `pcre`: expressions of which most are searched in time linear in the payload's length
//! (`regex-automata`): nearly all by a table that is made with the rule, those whose table would be large by
//! one that is made as far as searches come, in memory that they keep. Those with look-around,
//! back-references and the like go back and forth (`fancy-regex`), at most [`MAX_STEPS`] steps.

use super::buffer::Buffer;
use super::dialect;
use super::text::{decimal, quoted, say};
use alloc::boxed::Box;
use alloc::string::String;
use core::cell::RefCell;
use core::fmt;
use fancy_regex::BytesMode;
use regex_automata::dfa::{StartKind, dense, regex as tables};
use regex_automata::meta::{self, Cache};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{Hir, Look};

/// Longest expression, in bytes.
const MAX_LENGTH: usize = 2048;
/// Largest automaton, in bytes.
const MAX_AUTOMATON: usize = 256 * 1024;
/// Largest table that is made with the rule, and most memory while it is made, in bytes. A search has two
/// tables: one for ends of matches, and one that goes from there to their beginnings.
const MAX_TABLE: usize = 16 * 1024;
const MAX_MAKING: usize = 32 * 1024;
/// Largest cache of states made while searching, in bytes.
const MAX_CACHE: usize = 64 * 1024;
/// Most steps of a search that goes back and forth.
pub const MAX_STEPS: usize = 10_000;

/// What searches.
enum Program {
    Table {
        program: Box<tables::Regex>,
        is_anchored: bool,
    },
    Linear {
        program: Box<meta::Regex>,
        /// Made by the first search.
        cache: RefCell<Option<Box<Cache>>>,
        is_anchored: bool,
    },
    Stepwise(Box<fancy_regex::Regex>),
}

/// A regular expression.
pub struct Regex {
    program: Program,
    /// It must not match.
    pub is_negated: bool,
    /// It begins behind the match before (flag `R`).
    pub is_relative: bool,
    /// How many bytes from its own beginning on tell whether it matches: of one that matches there or
    /// nowhere, and is bounded.
    reach: Option<usize>,
    /// It is relative, and whether bytes match does not depend on what stands before them.
    is_free: bool,
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Regex")
    }
}

/// A search took more than [`MAX_STEPS`] steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySteps;

/// Where a match begins and ends.
pub type Span = (usize, usize);

impl Regex {
    /// The first match that begins at `from` or behind: where it begins and ends. A relative expression's own
    /// beginning is `base`.
    ///
    /// # Errors
    /// When it cannot be told with the steps that there are.
    pub fn find(&self, data: &[u8], base: usize, from: usize) -> Result<Option<Span>, TooManySteps> {
        let base = if self.is_relative { base } else { 0 };
        if from > data.len() || from < base {
            return Ok(None);
        }
        match &self.program {
            Program::Table { is_anchored: true, .. } | Program::Linear { is_anchored: true, .. }
                if from > base =>
            {
                Ok(None)
            }
            Program::Table { program, is_anchored } => {
                let input = input(data, base, from, *is_anchored);
                // No byte ends a search early, and it begins as the table was made for.
                let found = program.try_search(&input).unwrap_or_default();
                Ok(found.map(|found| (base + found.start(), base + found.end())))
            }
            Program::Linear { program, cache, is_anchored } => {
                let input = input(data, base, from, *is_anchored);
                let mut cache = cache.borrow_mut();
                let cache = cache.get_or_insert_with(|| Box::new(program.create_cache()));
                let found = program.search_with(cache, &input);
                Ok(found.map(|found| (base + found.start(), base + found.end())))
            }
            Program::Stepwise(program) => match program.find_from_pos(&data[base..], from - base) {
                Ok(found) => Ok(found.map(|found| (base + found.start(), base + found.end()))),
                Err(_) => Err(TooManySteps),
            },
        }
    }

    /// How many bytes a search looks at, at most. See [`Regex::find`].
    pub fn walk(&self, data: &[u8], base: usize, from: usize) -> usize {
        let base = if self.is_relative { base } else { 0 };
        let end = self.reach.map_or(data.len(), |reach| data.len().min(base.saturating_add(reach)));
        end.saturating_sub(from)
    }

    /// Where it does not match, it does not match behind either.
    pub fn is_free(&self) -> bool {
        self.is_free
    }

    /// It goes back and forth, so that a search costs more than its data's length says.
    pub fn is_stepwise(&self) -> bool {
        matches!(self.program, Program::Stepwise(_))
    }

    /// Gives back the memory of searches; whether there was any.
    pub fn release(&self) -> bool {
        match &self.program {
            Program::Linear { cache, .. } => cache.borrow_mut().take().is_some(),
            Program::Table { .. } | Program::Stepwise(_) => false,
        }
    }

    /// Its searches keep memory.
    pub fn keeps_memory(&self) -> bool {
        matches!(self.program, Program::Linear { .. })
    }

    /// Whether a search has left memory taken.
    pub fn has_cache(&self) -> bool {
        matches!(&self.program, Program::Linear { cache, .. } if cache.borrow().is_some())
    }
}

/// What is searched for from `from` on in what begins at `base`.
fn input(data: &[u8], base: usize, from: usize, is_anchored: bool) -> Input<'_> {
    let anchored = if is_anchored { Anchored::Yes } else { Anchored::No };
    Input::new(&data[base..]).range(from - base..).anchored(anchored)
}

/// What is wrong with an expression.
#[derive(Debug)]
pub struct Wrong {
    /// At which byte.
    pub place: usize,
    /// What was found and what is allowed.
    pub text: String,
    /// What no engine here has.
    pub missing: Option<&'static str>,
}

fn wrong(place: usize, text: String) -> Wrong {
    Wrong { place, text, missing: None }
}

/// Flags of an expression.
#[derive(Default)]
struct Flags {
    nocase: bool,
    dot_all: bool,
    multi_line: bool,
    extended: bool,
    swap_greed: bool,
    very_end: bool,
    anchored: bool,
    relative: bool,
    buffer: Option<Buffer>,
}

impl Flags {
    fn read(text: &[u8], start: usize) -> Result<Flags, Wrong> {
        let mut flags = Flags::default();
        for (place, flag) in text.iter().enumerate().skip(start) {
            match flag {
                b'i' => flags.nocase = true,
                b's' => flags.dot_all = true,
                b'm' => flags.multi_line = true,
                b'x' => flags.extended = true,
                b'G' => flags.swap_greed = true,
                b'E' => flags.very_end = true,
                // Bytes are raw, and limits are this function's.
                b'B' | b'O' => {}
                b'A' => flags.anchored = true,
                b'R' => flags.relative = true,
                other => match Buffer::of_flag(*other) {
                    Some(buffer) if flags.buffer.is_none_or(|known| known == buffer) => {
                        flags.buffer = Some(buffer);
                    }
                    Some(_) => {
                        let found = quoted(&text[place..=place]);
                        let why = " names another buffer than the flag before it; allowed: one";
                        return Err(wrong(place, say(&[&found, why])));
                    }
                    None => {
                        let found = quoted(&text[place..=place]);
                        let why = " is no flag of pcre; allowed: i s m x A E G R B O, and those of buffers, \
                                   U I P Q H D M C S Y V W Z";
                        return Err(wrong(place, say(&[&found, why])));
                    }
                },
            }
        }
        Ok(flags)
    }
}

/// Reads `/EXPRESSION/FLAGS`; with the buffer that a flag names.
///
/// # Errors
/// What was found and what is allowed, and where.
pub fn parse(text: &[u8], is_negated: bool) -> Result<(Regex, Option<Buffer>), Wrong> {
    let end = text.iter().rposition(|byte| *byte == b'/').filter(|end| *end > 0 && text[0] == b'/');
    let Some(end) = end else {
        return Err(wrong(0, say(&[&quoted(text), "; allowed: /EXPRESSION/FLAGS"])));
    };
    let flags = Flags::read(text, end + 1)?;
    let expression = &text[1..end];
    if expression.len() > MAX_LENGTH {
        let text = String::from("an expression of more than 2048 bytes; allowed: 1 to 2048");
        return Err(Wrong { place: 1, text, missing: Some("pcre of that size") });
    }
    let Ok(expression) = core::str::from_utf8(expression) else {
        let text = String::from("bytes that are not UTF-8; allowed: ASCII, and other bytes as \\xHH");
        return Err(Wrong { place: 1, text, missing: Some("pcre with other bytes than UTF-8") });
    };
    if expression.is_empty() {
        let text = String::from("an empty expression; allowed: 1 to 2048 bytes");
        return Err(Wrong { place: 1, text, missing: Some("pcre of nothing") });
    }
    let engine =
        |is_stepwise| dialect::Engine { is_stepwise, very_end: flags.very_end, multi_line: flags.multi_line };
    let dialect::Translation { text: translated, needs_steps, is_foreign, .. } =
        dialect::translate(expression, engine(false));
    if is_foreign {
        let text = String::from(
            "`(?R)`, which calls the expression itself, or `(?u)`; allowed: expressions without calls",
        );
        return Err(Wrong { place: 1, text, missing: Some("pcre") });
    }
    let stepwise = || stepwise(&dialect::translate(expression, engine(true)).text, &flags);
    let mut syntax = regex_syntax::ParserBuilder::new();
    syntax
        .unicode(false)
        .utf8(false)
        .nest_limit(32)
        .case_insensitive(flags.nocase)
        .dot_matches_new_line(flags.dot_all)
        .multi_line(flags.multi_line)
        .ignore_whitespace(flags.extended)
        .swap_greed(flags.swap_greed);
    let (program, reach, is_free) = match syntax.build().parse(&translated) {
        Ok(hir) if !needs_steps => {
            let (reach, is_free) = (reach(&hir, &flags), is_free(&hir, &flags));
            (linear(&hir, &flags)?, reach, is_free)
        }
        Ok(_) => {
            let text =
                "what looks back or ahead and cannot be read; allowed: what the Rust crate fancy-regex knows";
            let refused = || Wrong { place: 1, text: String::from(text), missing: Some("pcre") };
            (stepwise().ok_or_else(refused)?, None, false)
        }
        Err(error) => (stepwise().ok_or_else(|| refusal(&error, &translated))?, None, false),
    };
    Ok((Regex { program, is_negated, is_relative: flags.relative, reach, is_free }, flags.buffer))
}

/// See [`Regex::reach`]. A search ends where no way goes on, and looks at one byte behind a match.
fn reach(hir: &Hir, flags: &Flags) -> Option<usize> {
    let properties = hir.properties();
    let is_bound = flags.anchored || properties.look_set_prefix().contains(Look::Start);
    properties.maximum_len().filter(|_| is_bound).map(|length| length + 2)
}

/// See [`Regex::is_free`].
fn is_free(hir: &Hir, flags: &Flags) -> bool {
    let looks_ahead = |look| matches!(look, Look::End | Look::EndLF | Look::EndCRLF);
    flags.relative && !flags.anchored && hir.properties().look_set().iter().all(looks_ahead)
}

fn refusal(error: &regex_syntax::Error, expression: &str) -> Wrong {
    let (place, what) = match error {
        regex_syntax::Error::Parse(error) => (error.span().start.offset, kind(error.kind())),
        regex_syntax::Error::Translate(error) => {
            (error.span().start.offset, "only ASCII classes are known, and no Unicode property")
        }
        _ => (0, "an expression that cannot be read"),
    };
    let near = quoted(expression.get(place..).unwrap_or_default().as_bytes());
    let text = say(&[what, " at ", &near, "; allowed: what the Rust crates regex and fancy-regex know"]);
    let is_missing = match error {
        regex_syntax::Error::Parse(error) => {
            let escaped = expression.get(place + 1..).unwrap_or_default().chars().next();
            is_of_perl(error.kind(), escaped) || has_construct_of_perl(expression)
        }
        _ => true,
    };
    Wrong { place: 1, text, missing: is_missing.then_some("pcre") }
}

/// What may be an expression of Perl's, which neither engine reads; with the letter of an escape that is not
/// known.
fn is_of_perl(kind: &regex_syntax::ast::ErrorKind, escaped: Option<char>) -> bool {
    use regex_syntax::ast::ErrorKind as Kind;
    match kind {
        Kind::EscapeUnrecognized => escaped.is_some_and(|letter| ESCAPES.contains(letter)),
        Kind::UnsupportedLookAround
        | Kind::UnsupportedBackreference
        | Kind::FlagUnrecognized
        | Kind::NestLimitExceeded(_) => true,
        _ => false,
    }
}

/// Verbs and settings of Perl's expressions, behind `(*`.
#[rustfmt::skip]
const VERBS: [&str; 29] = [
    "ACCEPT", "COMMIT", "PRUNE", "SKIP", "THEN", "FAIL", "F)", "MARK", ":", "UTF", "UCP", "CR", "LF", "ANY", "NUL",
    "BSR_", "LIMIT_", "NO_", "NOTEMPTY", "atomic:", "sr:", "script_run:", "asr:", "pla:", "plb:", "nla:", "nlb:",
    "positive_look", "negative_look",
];
/// Recursion, calls, branches that share numbers, conditions and callouts, behind `(?`.
const GROUPS: [&str; 7] = ["R)", "&", "P>", "|", "(", "C", "J"];
/// Letters that Perl has escapes with, and neither engine in every form.
const ESCAPES: &str = "pPXCKGQEgkoNRvVhHc";

/// Whether an expression has something of Perl's that may be why it was not read.
fn has_construct_of_perl(expression: &str) -> bool {
    let is_one_of = |behind: &str, start: char, all: &[&str]| {
        behind.strip_prefix(start).is_some_and(|name| all.iter().any(|known| name.starts_with(known)))
    };
    let is_call = |behind: &str| {
        let name = behind.strip_prefix('?').unwrap_or_default();
        name.trim_start_matches(['+', '-']).starts_with(|next: char| next.is_ascii_digit())
    };
    has(expression, |is_escape, behind| match is_escape {
        true => behind.starts_with(['p', 'P']),
        false => is_one_of(behind, '*', &VERBS) || is_one_of(behind, '?', &GROUPS) || is_call(behind),
    })
}

/// Whether an escape or a group of an expression is such: told of each are whether it is an escape, and what
/// stands behind its first character.
fn has(expression: &str, is_such: impl Fn(bool, &str) -> bool) -> bool {
    let mut rest = expression;
    while let Some(at) = rest.find(['\\', '(']) {
        let (is_escape, behind) = (rest[at..].starts_with('\\'), &rest[at + 1..]);
        if is_such(is_escape, behind) {
            return true;
        }
        let next = if is_escape { behind.chars().next().map_or(0, char::len_utf8) } else { 0 };
        rest = &behind[next..];
    }
    false
}

fn linear(hir: &Hir, flags: &Flags) -> Result<Program, Wrong> {
    if let Some(program) = table(hir, flags.anchored) {
        return Ok(Program::Table { program: Box::new(program), is_anchored: flags.anchored });
    }
    let program = searching(hir).ok_or_else(|| {
        let limit = decimal(MAX_AUTOMATON as u64);
        let text =
            ["an expression whose automaton is larger than ", &limit, " bytes; allowed: fewer repetitions"];
        Wrong { place: 1, text: say(&text), missing: Some("pcre of that size") }
    })?;
    Ok(Program::Linear { program: Box::new(program), cache: RefCell::new(None), is_anchored: flags.anchored })
}

/// A program that makes its table while it searches, if its automaton is not larger than [`MAX_AUTOMATON`].
fn searching(hir: &Hir) -> Option<meta::Regex> {
    let config = meta::Config::new()
        .nfa_size_limit(Some(MAX_AUTOMATON))
        .hybrid_cache_capacity(MAX_CACHE)
        .dfa(false)
        .utf8_empty(false)
        .which_captures(thompson::WhichCaptures::Implicit);
    meta::Builder::new().configure(config).build_from_hir(hir).ok()
}

/// The table of an expression, if it is small.
fn table(hir: &Hir, is_anchored: bool) -> Option<tables::Regex> {
    let automaton = |is_reverse: bool| {
        let config = thompson::Config::new()
            .utf8(false)
            .reverse(is_reverse)
            .which_captures(thompson::WhichCaptures::None)
            .nfa_size_limit(Some(MAX_AUTOMATON));
        thompson::Compiler::new().configure(config).build_from_hir(hir).ok()
    };
    let config = dense::Config::new()
        .dfa_size_limit(Some(MAX_TABLE))
        .determinize_size_limit(Some(MAX_MAKING))
        .start_kind(if is_anchored { StartKind::Anchored } else { StartKind::Unanchored });
    let forward = dense::Builder::new().configure(config.clone()).build_from_nfa(&automaton(false)?).ok()?;
    // From an end of a match all ways back are gone, to the farthest beginning.
    let config = config.start_kind(StartKind::Anchored).match_kind(MatchKind::All);
    let reverse = dense::Builder::new().configure(config).build_from_nfa(&automaton(true)?).ok()?;
    Some(tables::Builder::new().build_from_dfas(forward, reverse))
}

/// A program that goes back and forth; `None` when that engine does not read the expression either.
fn stepwise(expression: &str, flags: &Flags) -> Option<Program> {
    if flags.swap_greed {
        return None;
    }
    // The line end closes a comment of an extended expression.
    let end = if flags.extended { "\n)" } else { ")" };
    let text = if flags.anchored { say(&["\\A(?:", expression, end]) } else { String::from(expression) };
    let program = fancy_regex::RegexBuilder::new(&text)
        .bytes_mode(BytesMode::Ascii)
        .case_insensitive(flags.nocase)
        .dot_matches_new_line(flags.dot_all)
        .multi_line(flags.multi_line)
        .ignore_whitespace(flags.extended)
        .backtrack_limit(MAX_STEPS)
        .delegate_size_limit(MAX_AUTOMATON)
        .build()
        .ok()?;
    Some(Program::Stepwise(Box::new(program)))
}

fn kind(kind: &regex_syntax::ast::ErrorKind) -> &'static str {
    use regex_syntax::ast::ErrorKind as Kind;
    match kind {
        Kind::UnsupportedLookAround => "look-around that cannot be read",
        Kind::UnsupportedBackreference => "a back-reference that cannot be read",
        Kind::EscapeUnrecognized => "an escape that is not known",
        Kind::GroupUnclosed | Kind::GroupUnopened => "a parenthesis without its other half",
        Kind::ClassUnclosed => "a class without its closing bracket",
        Kind::RepetitionMissing => "a repetition of nothing",
        Kind::NestLimitExceeded(_) => "groups nested more than 32 deep",
        _ => "a mistake in the expression",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is searched for by a table, and the same by one that is made while it is searched.
    fn both(expression: &str, flags: &Flags) -> Option<[Regex; 2]> {
        let mut syntax = regex_syntax::ParserBuilder::new();
        syntax.unicode(false).utf8(false).case_insensitive(flags.nocase).multi_line(flags.multi_line);
        let Flags { very_end, multi_line, .. } = *flags;
        let engine = dialect::Engine { is_stepwise: false, very_end, multi_line };
        let hir = syntax.build().parse(&dialect::translate(expression, engine).text).ok()?;
        let program = table(&hir, flags.anchored)?;
        let is_anchored = flags.anchored;
        let by_table = Program::Table { program: Box::new(program), is_anchored };
        let program = Box::new(searching(&hir)?);
        let making = Program::Linear { program, cache: RefCell::new(None), is_anchored };
        let regex = |program| Regex {
            program,
            is_negated: false,
            is_relative: flags.relative,
            reach: None,
            is_free: false,
        };
        Some([regex(by_table), regex(making)])
    }

    proptest! {
        #[test]
        fn a_table_finds_what_is_found_without_it(
            expression in r"(\^|\\b|)([ab.]|\\d|\[\^a\]|a\[ab\]|\(a\|bb\|\)|\\n)([*+?]|\{1,3\}|\*\?|)(b|\\B|\[a-c\]\+|\|a|\\xff|)(\$|)",
            data in prop::collection::vec(prop::sample::select(b"aabbAB1\n \xff".to_vec()), 0..24),
            anchored: bool, nocase: bool, multi_line: bool, relative: bool,
            base in 0usize..6, more in 0usize..6,
        ) {
            let flags = Flags { anchored, nocase, multi_line, relative, ..Flags::default() };
            if let Some([by_table, making]) = both(&expression, &flags) {
                let from = base + more;
                prop_assert_eq!(by_table.find(&data, base, from), making.find(&data, base, from));
            }
        }
    }

    #[test]
    fn what_is_bound_to_a_place_is_looked_for_there_alone() {
        let data = [b'a'; 1000];
        let walk = |text: &[u8]| parse(text, false).expect("an expression").0.walk(&data, 100, 100);
        assert_eq!(walk(br"/^a{1,4}b/R"), 7);
        assert_eq!(walk(br"/a{1,4}b$/AR"), 8);
        assert_eq!(walk(br"/^(ab|c)|^d/R"), 4);
        for far in [&br"/a{1,4}b/R"[..], br"/^a+b/R", br"/^a|b/R", br"/^ab/Rm"] {
            assert_eq!(walk(far), 900, "{}", String::from_utf8_lossy(far));
        }
        // Its own beginning is the data's, and lies behind.
        assert_eq!(walk(br"/^ab/"), 0);
    }

    #[test]
    fn what_does_not_look_back_is_free() {
        let is_free = |text: &[u8]| parse(text, false).expect("an expression").0.is_free();
        for free in [&br"/a+b/R"[..], br"/a.*b$/R", br"/a$/Rm"] {
            assert!(is_free(free), "{}", String::from_utf8_lossy(free));
        }
        for bound in
            [&br"/a+b/"[..], br"/a+b/AR", br"/^a/R", br"/a|^b/Rm", br"/\ba/R", br"/a\B/R", br"/(?<!x)a/R"]
        {
            assert!(!is_free(bound), "{}", String::from_utf8_lossy(bound));
        }
    }

    #[test]
    fn small_expressions_have_a_table_and_large_ones_keep_memory() {
        let parse = |text: &[u8]| parse(text, false).expect("an expression").0;
        for small in [r"/cmd\d{1,4}exe/i", r"/^[a-z]{1,20}\.exe/Ri", r"/\/[a-f0-9]{32}\.php$/U", r"/a|b$/A"] {
            let regex = parse(small.as_bytes());
            assert!(!regex.keeps_memory(), "{small}");
            let _ = regex.find(b"some data", 0, 0);
            assert!(!regex.has_cache());
        }
        let large = parse(br"/[a-w][^q]{15}q/");
        assert!(large.keeps_memory());
        assert_eq!(large.find(b"..a123456789012345q..", 0, 0), Ok(Some((2, 19))));
        assert!(large.has_cache());
    }
}
