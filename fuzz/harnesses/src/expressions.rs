//! An expression of `pcre` matches where PCRE's manual says that it does: a plain reader of it makes a tree,
//! and a plain search goes through the tree, back and forth. What the reader does not know, and what the
//! product refuses, is not compared.

use dpi::rules::regex::{TooManySteps, parse};

/// Most steps of the plain search, and most bytes that are searched.
const STEPS: usize = 50_000;
const LONGEST: usize = 48;
/// Most repetitions that are told by number.
const TIMES: usize = 12;

/// A part of an expression.
#[derive(Clone, Debug)]
enum Part {
    /// One of these bytes.
    Byte(Vec<u8>),
    /// A place, by what stands before and behind.
    Place(Place),
    All(Vec<Part>),
    One(Vec<Part>),
    Times {
        part: Box<Part>,
        least: usize,
        most: usize,
        is_lazy: bool,
    },
    /// What was found first counts.
    Once(Box<Part>),
    /// What is ahead, or is not.
    Ahead(Box<Part>, bool),
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Start,
    LineStart,
    End,
    LastLineEnd,
    LineEnd,
    WordEdge(bool),
}

#[derive(Clone, Copy, Debug)]
struct Flags {
    nocase: bool,
    dot_all: bool,
    multi_line: bool,
    extended: bool,
    very_end: bool,
    anchored: bool,
}

/// Reads an expression.
struct Reader<'a> {
    rest: &'a [u8],
    flags: Flags,
    /// Where a match ends is not compared: a part that may be empty is repeated, and engines differ in when
    /// they stop, or the end is that of a line.
    is_vague: bool,
    depth: usize,
}

fn every(is_in: impl Fn(u8) -> bool) -> Vec<u8> {
    (0..=255).filter(|byte| is_in(*byte)).collect()
}

fn but(bytes: &[u8]) -> Vec<u8> {
    every(|byte| !bytes.contains(&byte))
}

/// The bytes of an escape that stands for some.
fn of_kind(letter: u8) -> Option<Vec<u8>> {
    let bytes = match letter.to_ascii_lowercase() {
        b'd' => every(|byte| byte.is_ascii_digit()),
        b'w' => every(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
        b's' => b" \t\n\x0b\x0c\r".to_vec(),
        b'h' => b" \t\xa0".to_vec(),
        b'v' => b"\n\x0b\x0c\r\x85".to_vec(),
        _ => return None,
    };
    Some(if letter.is_ascii_uppercase() { but(&bytes) } else { bytes })
}

fn of_name(name: &[u8]) -> Option<Vec<u8>> {
    let (name, is_negated) = name.strip_prefix(b"^").map_or((name, false), |name| (name, true));
    let bytes = every(|byte| match name {
        b"alpha" => byte.is_ascii_alphabetic(),
        b"digit" => byte.is_ascii_digit(),
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"upper" => byte.is_ascii_uppercase(),
        b"lower" => byte.is_ascii_lowercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => b" \t\n\x0b\x0c\r".contains(&byte),
        b"word" => byte.is_ascii_alphanumeric() || byte == b'_',
        _ => false,
    });
    (!bytes.is_empty()).then(|| if is_negated { but(&bytes) } else { bytes })
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        self.rest.split_off_first().copied()
    }

    fn takes(&mut self, text: &[u8]) -> bool {
        self.rest.strip_prefix(text).inspect(|rest| self.rest = rest).is_some()
    }

    /// White space and comments of an extended expression.
    fn pass(&mut self) -> Option<()> {
        while self.flags.extended {
            match self.rest.first() {
                Some(b' ' | b'\t' | b'\n' | b'\x0b' | b'\x0c' | b'\r') => _ = self.next(),
                // A comment, in which what stands is nothing: not compared.
                Some(b'#') => return None,
                _ => break,
            }
        }
        Some(())
    }

    fn alternatives(&mut self) -> Option<Part> {
        self.depth += 1;
        let mut all = vec![self.sequence()?];
        while self.takes(b"|") {
            all.push(self.sequence()?);
        }
        self.depth -= 1;
        Some(Part::One(all)).filter(|_| self.depth < 10)
    }

    fn sequence(&mut self) -> Option<Part> {
        let mut all = vec![];
        loop {
            self.pass()?;
            if matches!(self.rest.first(), None | Some(b'|' | b')')) {
                return Some(Part::All(all));
            }
            let part = self.part()?;
            self.pass()?;
            all.push(self.repeated(part)?);
        }
    }

    /// `None` for numbers that are large, and for a repetition of what is no bytes.
    fn repeated(&mut self, part: Part) -> Option<Part> {
        let (least, most) = match self.rest {
            [b'*', ..] => (0, usize::MAX),
            [b'+', ..] => (1, usize::MAX),
            [b'?', ..] => (0, 1),
            [b'{', rest @ ..] => match times(rest) {
                Some((least, most, length)) => {
                    self.rest = &rest[length - 1..];
                    (least, most)
                }
                None => return Some(part),
            },
            _ => return Some(part),
        };
        self.next();
        if matches!(part, Part::Place(_) | Part::Ahead(..))
            || least > TIMES
            || most != usize::MAX && (most > TIMES || most < least)
        {
            return None;
        }
        self.is_vague |= part.may_be_empty();
        let is_lazy = self.takes(b"?");
        let is_once = !is_lazy && self.takes(b"+");
        // One repetition of another has no meaning.
        self.pass()?;
        if matches!(self.rest, [b'*' | b'+' | b'?', ..])
            || self.rest.strip_prefix(b"{").is_some_and(|rest| times(rest).is_some())
        {
            return None;
        }
        let times = Part::Times { part: Box::new(part), least, most, is_lazy };
        Some(if is_once { Part::Once(Box::new(times)) } else { times })
    }

    fn part(&mut self) -> Option<Part> {
        let place = |place| Some(Part::Place(place));
        let Flags { multi_line, dot_all, very_end, .. } = self.flags;
        match self.next()? {
            b'(' => {
                let part = match self.rest {
                    [b'?', kind @ (b':' | b'=' | b'!' | b'>'), ..] => {
                        let kind = *kind;
                        self.rest = &self.rest[2..];
                        let inner = Box::new(self.alternatives()?);
                        match kind {
                            b'=' => Part::Ahead(inner, true),
                            b'!' => Part::Ahead(inner, false),
                            b'>' => Part::Once(inner),
                            _ => *inner,
                        }
                    }
                    [b'?' | b'*', ..] => return None,
                    _ => self.alternatives()?,
                };
                self.takes(b")").then_some(part)
            }
            b'[' => self.class(),
            b'.' => Some(Part::Byte(every(|byte| dot_all || byte != b'\n'))),
            b'^' => place(if multi_line { Place::LineStart } else { Place::Start }),
            b'$' => {
                self.is_vague = true;
                place(match (multi_line, very_end) {
                    (true, _) => Place::LineEnd,
                    (_, true) => Place::End,
                    _ => Place::LastLineEnd,
                })
            }
            b'\\' => self.escape(),
            b'*' | b'+' | b'?' | b')' => None,
            b'{' if times(self.rest).is_some() => None,
            byte => Some(self.byte(&[byte])),
        }
    }

    /// These bytes, in both cases where that makes no difference.
    fn byte(&self, bytes: &[u8]) -> Part {
        let nocase = self.flags.nocase;
        Part::Byte(every(|byte| {
            bytes.contains(&byte)
                || nocase
                    && (bytes.contains(&byte.to_ascii_lowercase())
                        || bytes.contains(&byte.to_ascii_uppercase()))
        }))
    }

    fn escape(&mut self) -> Option<Part> {
        let place = |place| Some(Part::Place(place));
        match *self.rest.first()? {
            b'b' | b'B' => self.next().and_then(|letter| place(Place::WordEdge(letter == b'b'))),
            b'A' => self.next().and_then(|_| place(Place::Start)),
            b'z' => self.next().and_then(|_| place(Place::End)),
            b'Z' => {
                self.is_vague = true;
                self.next().and_then(|_| place(Place::LastLineEnd))
            }
            b'N' => self.next().map(|_| Part::Byte(but(b"\n"))),
            letter => match of_kind(letter) {
                Some(bytes) => self.next().map(|_| Part::Byte(bytes)),
                None => self.character().map(|byte| self.byte(&[byte])),
            },
        }
    }

    /// A character behind a backslash.
    fn character(&mut self) -> Option<u8> {
        Some(match self.next()? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'f' => 0x0c,
            b'a' => 0x07,
            b'e' => 0x1b,
            b'x' if self.takes(b"{") => {
                let end = self.rest.iter().position(|byte| *byte == b'}')?;
                let (digits, rest) = self.rest.split_at(end);
                let number = std::str::from_utf8(digits)
                    .ok()
                    .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
                self.rest = &rest[1..];
                u8::from_str_radix(number, 16).ok()?
            }
            b'x' => self.number(16, 2, 0),
            b'0' => self.number(8, 2, 0),
            byte if !byte.is_ascii_alphanumeric() => byte,
            _ => return None,
        })
    }

    fn number(&mut self, base: u32, most: usize, before: u32) -> u8 {
        match self.rest.first().and_then(|byte| char::from(*byte).to_digit(base)).filter(|_| most > 0) {
            Some(digit) => {
                self.next();
                self.number(base, most - 1, before * base + digit)
            }
            None => before as u8,
        }
    }

    fn class(&mut self) -> Option<Part> {
        let is_negated = self.takes(b"^");
        let (mut all, mut is_first) = (vec![], true);
        loop {
            let start = match self.item(std::mem::take(&mut is_first))? {
                None => break,
                Some(Item::Some(bytes)) => {
                    all.extend(bytes);
                    continue;
                }
                Some(Item::One(byte)) => byte,
            };
            let before = self.rest;
            let is_range = self.takes(b"-");
            match is_range.then(|| self.item(false)) {
                Some(item) => match item? {
                    Some(Item::One(end)) if end < start => return None,
                    Some(Item::One(end)) => all.extend(start..=end),
                    // The hyphen is a character.
                    None | Some(Item::Some(_)) => {
                        all.push(start);
                        self.rest = &before[1..];
                        all.push(b'-');
                    }
                },
                None => all.push(start),
            }
        }
        let Part::Byte(bytes) = self.byte(&all) else { return None };
        Some(Part::Byte(if is_negated { but(&bytes) } else { bytes }))
    }

    /// The next of a class; `None` inside is its end.
    fn item(&mut self, is_first: bool) -> Option<Option<Item>> {
        Some(Some(match self.next()? {
            b']' if !is_first => return Some(None),
            b'[' if matches!(self.rest.first(), Some(b':' | b'.' | b'=')) => {
                let end = self.rest.windows(2).position(|two| two == b":]")?;
                let name = self.rest[..end].strip_prefix(b":")?;
                self.rest = &self.rest[end + 2..];
                Item::Some(of_name(name)?)
            }
            b'\\' => {
                let letter = *self.rest.first()?;
                match of_kind(letter) {
                    Some(bytes) => {
                        self.next();
                        Item::Some(bytes)
                    }
                    None if letter == b'b' => {
                        self.next();
                        Item::One(0x08)
                    }
                    None => Item::One(self.character()?),
                }
            }
            byte => Item::One(byte),
        }))
    }
}

/// What a class has.
enum Item {
    One(u8),
    Some(Vec<u8>),
}

/// `N}`, `N,}` or `N,M}`: least, most, and how long it is.
fn times(text: &[u8]) -> Option<(usize, usize, usize)> {
    let end = text.iter().position(|byte| *byte == b'}')?;
    let text = std::str::from_utf8(&text[..end]).ok()?;
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let (least, most) = match text.split_once(',') {
        None => (number(text)?, number(text)?),
        Some((least, "")) => (number(least)?, usize::MAX),
        Some((least, most)) => (number(least)?, number(most)?),
    };
    Some((least, most, end + 1))
}

impl Part {
    fn may_be_empty(&self) -> bool {
        match self {
            Part::Byte(_) => false,
            Part::Place(_) | Part::Ahead(..) => true,
            Part::All(parts) => parts.iter().all(Part::may_be_empty),
            Part::One(parts) => parts.iter().any(Part::may_be_empty),
            Part::Times { part, least, .. } => *least == 0 || part.may_be_empty(),
            Part::Once(part) => part.may_be_empty(),
        }
    }
}

/// A search that goes back and forth.
struct Search<'a> {
    data: &'a [u8],
    left: usize,
}

impl Search<'_> {
    /// Whether the part is at a place and `then` holds where it ends.
    fn at(&mut self, part: &Part, at: usize, then: &mut dyn FnMut(&mut Self, usize) -> bool) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return false;
        }
        match part {
            Part::Byte(bytes) => {
                self.data.get(at).is_some_and(|byte| bytes.contains(byte)) && then(self, at + 1)
            }
            Part::Place(place) => self.is_at(*place, at) && then(self, at),
            Part::One(parts) => parts.iter().any(|part| self.at(part, at, then)),
            Part::All(parts) => match parts.split_first() {
                None => then(self, at),
                Some((first, rest)) => {
                    let rest = Part::All(rest.to_vec());
                    self.at(first, at, &mut |search, end| search.at(&rest, end, then))
                }
            },
            Part::Times { part, least, most, is_lazy } => {
                self.times(part, (*least, *most, *is_lazy), at, then)
            }
            Part::Once(part) => match self.first(part, at) {
                Some(end) => then(self, end),
                None => false,
            },
            Part::Ahead(part, is_wanted) => {
                self.first(part, at).is_some() == *is_wanted && self.left > 0 && then(self, at)
            }
        }
    }

    fn first(&mut self, part: &Part, at: usize) -> Option<usize> {
        let mut found = None;
        self.at(part, at, &mut |_, end| {
            found = Some(end);
            true
        });
        found
    }

    fn times(
        &mut self,
        part: &Part,
        (least, most, is_lazy): (usize, usize, bool),
        at: usize,
        then: &mut dyn FnMut(&mut Self, usize) -> bool,
    ) -> bool {
        if most == 0 || self.left == 0 {
            return then(self, at);
        }
        if least == 0 && is_lazy && then(self, at) {
            return true;
        }
        let next = (least.saturating_sub(1), if most == usize::MAX { most } else { most - 1 }, is_lazy);
        let once_more = self.at(part, at, &mut |search, end| {
            // What is empty once is empty again.
            (end > at || least > 0) && search.times(part, next, end, then)
        });
        once_more || least == 0 && !is_lazy && then(self, at)
    }

    fn is_at(&self, place: Place, at: usize) -> bool {
        let (before, behind) = self.data.split_at(at);
        let is_word =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        match place {
            Place::Start => at == 0,
            // To PCRE no line begins behind a line feed that ends the data; to the engines one does.
            Place::LineStart => at == 0 || before.ends_with(b"\n"),
            Place::End => behind.is_empty(),
            Place::LastLineEnd => behind.is_empty() || behind == b"\n",
            Place::LineEnd => behind.is_empty() || behind.starts_with(b"\n"),
            Place::WordEdge(is_edge) => (is_word(before.last()) != is_word(behind.first())) == is_edge,
        }
    }
}

pub fn run(data: &[u8]) {
    let &[flags, length, ref data @ ..] = data else { return };
    let (expression, data) = data.split_at(usize::from(length).min(data.len()));
    let data = &data[..data.len().min(LONGEST)];
    let has = |place: u8| flags >> place & 1 == 1;
    let flags = Flags {
        nocase: has(0),
        dot_all: has(1),
        multi_line: has(2),
        extended: has(3),
        very_end: has(4),
        anchored: has(5),
    };
    let mut text = [b"/", expression, b"/"].concat();
    let letters =
        [flags.nocase, flags.dot_all, flags.multi_line, flags.extended, flags.very_end, flags.anchored];
    text.extend(letters.iter().zip(*b"ismxEA").filter(|(is_set, _)| **is_set).map(|(_, letter)| letter));
    let Ok((regex, _)) = parse(&text, false) else { return };
    let found = regex.find(data, 0, 0);

    let mut reader = Reader { rest: expression, flags, is_vague: false, depth: 0 };
    let Some(part) = reader.alternatives().filter(|_| reader.rest.is_empty()) else { return };
    let mut search = Search { data, left: STEPS };
    let starts = if flags.anchored { 0..1 } else { 0..data.len() + 1 };
    let expected = starts.into_iter().find_map(|start| search.first(&part, start).map(|end| (start, end)));
    if search.left == 0 || found == Err(TooManySteps) {
        return;
    }
    let found = found.unwrap_or_default();
    let [found, expected] =
        [found, expected].map(|span| span.map(|(start, end)| (start, if reader.is_vague { 0 } else { end })));
    assert_eq!(found, expected, "{} in {:?}", String::from_utf8_lossy(&text), String::from_utf8_lossy(data));
}
