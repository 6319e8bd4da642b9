//! PCRE's dialect in that of the engines: what both read, but not as the same, is spelled so that they do.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// What an expression is translated for.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// It goes back and forth, and knows look-ahead and parts that give nothing back.
    pub is_stepwise: bool,
    /// `$` is the very end, not before a last line feed too.
    pub very_end: bool,
    /// `$` is every line's end.
    pub multi_line: bool,
}

/// An expression as an engine reads it.
#[derive(Debug, Default)]
pub struct Translation {
    /// The expression.
    pub text: String,
    /// Only an engine that goes back and forth reads what is in it as PCRE does.
    pub needs_steps: bool,
    /// What is in it means something else to the engines, and nothing that they have means the same.
    pub is_foreign: bool,
    /// In each group that is open: the sequence that is being read, and one before it, ends with an end of
    /// the data. To an engine that does not look ahead, a line feed before it is part of that.
    ended: Vec<[bool; 2]>,
}

/// Rewrites an expression.
pub fn translate(expression: &str, engine: Engine) -> Translation {
    let mut out = Translation { ended: vec![[false; 2]], ..Translation::default() };
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\\' => out.escape(rest, engine),
            '[' => {
                out.item();
                class(rest, &mut out.text)
            }
            '$' => out.end(engine),
            '(' => out.open(rest),
            ')' => out.close(),
            '|' => out.next_alternative(),
            '*' | '+' | '?' => out.repetition(rest, 1),
            '{' => match count(rest) {
                Some(length) => out.repetition(rest, length),
                None => out.spell("\\{", 1),
            },
            _ => {
                out.item();
                bytes(first, &mut out.text)
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Takes a character; how many bytes it has. Each of them is one to PCRE.
fn bytes(character: char, out: &mut String) -> usize {
    if character.is_ascii() {
        out.push(character);
    } else {
        character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| hexadecimal(byte, out));
    }
    character.len_utf8()
}

fn hexadecimal(byte: u8, out: &mut String) {
    out.push_str("\\x");
    for half in [byte >> 4, byte & 15] {
        out.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
    }
}

/// How long a number of repetitions is: `{N}`, `{N,}`, `{N,M}`; `None` when what begins with a brace is none.
fn count(text: &str) -> Option<usize> {
    let end = text.find('}')?;
    let mut parts = text[1..end].splitn(2, ',');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_count = parts.next().is_some_and(is_number)
        && parts.next().is_none_or(|most| most.is_empty() || is_number(most));
    is_count.then_some(end + 1)
}

impl Translation {
    fn spell(&mut self, text: &str, taken: usize) -> usize {
        self.item();
        self.text.push_str(text);
        taken
    }

    /// Something comes in the sequence. Behind an end it may be a line feed.
    fn item(&mut self) {
        self.needs_steps |= self.ended.last().is_some_and(|[this, _]| *this);
    }

    /// `$`.
    fn end(&mut self, engine: Engine) -> usize {
        self.item();
        match (engine.multi_line || engine.very_end, engine.is_stepwise) {
            (true, _) => self.text.push('$'),
            (false, true) => self.text.push_str("(?:$|(?=\\n\\z))"),
            (false, false) => self.with_line_feed("(?:$|\\n\\z)"),
        }
        1
    }

    fn with_line_feed(&mut self, text: &str) {
        self.text.push_str(text);
        if let Some([this, _]) = self.ended.last_mut() {
            *this = true;
        }
    }

    fn open(&mut self, rest: &str) -> usize {
        self.item();
        self.ended.push([false; 2]);
        let Some(behind) = rest.strip_prefix("(?") else {
            self.text.push('(');
            return 1;
        };
        // `(?R)` is a recursion, and `(?u)` nothing.
        let letters = behind.find(|letter: char| !letter.is_ascii_alphabetic() && letter != '-');
        let (letters, behind) = behind.split_at(letters.unwrap_or(behind.len()));
        self.is_foreign |= behind.starts_with([')', ':']) && letters.contains(['R', 'u']);
        self.text.push_str("(?");
        2
    }

    fn close(&mut self) -> usize {
        let group = self.ended.pop().unwrap_or_default();
        if self.ended.is_empty() {
            self.ended.push([false; 2]);
        }
        if let Some([this, _]) = self.ended.last_mut() {
            *this |= group.contains(&true);
        }
        self.text.push(')');
        1
    }

    fn next_alternative(&mut self) -> usize {
        if let Some([this, before]) = self.ended.last_mut() {
            *before |= core::mem::take(this);
        }
        self.text.push('|');
        1
    }

    /// Takes a repetition of so many bytes. With a plus sign behind it gives nothing back, which is yet
    /// another repetition to an engine that does not go back.
    fn repetition(&mut self, rest: &str, length: usize) -> usize {
        if !rest.starts_with('?') {
            self.item();
        }
        self.needs_steps |= rest[length..].starts_with('+');
        let lazy = usize::from(rest[length..].starts_with(['?', '+']));
        self.text.push_str(&rest[..length + lazy]);
        length + lazy
    }

    /// Takes an escape, which begins the text; how many bytes it has.
    fn escape(&mut self, rest: &str, engine: Engine) -> usize {
        let spelled = match rest.as_bytes().get(1) {
            Some(b'Z') if engine.is_stepwise => "(?=\\n?\\z)",
            Some(b'Z') => {
                self.item();
                self.with_line_feed("(?:\\z|\\n\\z)");
                return 2;
            }
            Some(b'N') => "[^\\n]",
            Some(b'h') => "[\\x20\\t\\xa0]",
            Some(b'H') => "[^\\x20\\t\\xa0]",
            Some(b'v') => "[\\n-\\r\\x85]",
            Some(b'V') => "[^\\n-\\r\\x85]",
            // Both of two are taken or none.
            Some(b'R') => {
                self.needs_steps = true;
                "(?>\\r\\n|[\\n-\\r\\x85])"
            }
            _ => {
                self.item();
                return character(rest, &mut self.text);
            }
        };
        self.spell(spelled, 2)
    }
}

/// Takes an escape that is a character, or the same to the engines; how many bytes it has.
fn character(text: &str, out: &mut String) -> usize {
    let Some(letter) = text[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    match letter {
        // Boundaries of words to the engines.
        '<' | '>' => {
            out.push(letter);
            2
        }
        'e' => {
            out.push_str("\\x1b");
            2
        }
        // A character to the engines, of which there are none beyond a byte.
        'x' if text[2..].starts_with('{') => {
            let end = text.find('}');
            let byte = end.and_then(|end| u8::from_str_radix(&text[3..end], 16).ok());
            match (end, byte) {
                (Some(end), Some(byte)) if text.as_bytes()[3] != b'+' => {
                    hexadecimal(byte, out);
                    end + 1
                }
                _ => {
                    out.push_str("\\x{");
                    3
                }
            }
        }
        // One digit or two, or none.
        'x' => {
            let digits = text[2..].bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
            hexadecimal(u8::from_str_radix(&text[2..2 + digits], 16).unwrap_or(0), out);
            2 + digits
        }
        // Octal.
        '0' => {
            let digits = text[1..].bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            hexadecimal(u8::from_str_radix(&text[1..1 + digits], 8).unwrap_or(0), out);
            1 + digits
        }
        _ if !letter.is_ascii() => 1 + bytes(letter, out),
        _ => {
            out.push('\\');
            out.push(letter);
            2
        }
    }
}

/// Takes a class, which begins the text; how many bytes it has. What the engines take for nested classes, for
/// operators on them and for white space that may be left out are characters.
fn class(text: &str, out: &mut String) -> usize {
    let mut at = 1;
    out.push('[');
    if text[at..].starts_with('^') {
        out.push('^');
        at += 1;
    }
    // A bracket at the beginning is one of the characters.
    let mut may_end = false;
    while at < text.len() {
        if may_end && text[at..].starts_with(']') {
            out.push(']');
            return at + 1;
        }
        may_end = true;
        let (taken, is_one) = class_item(&text[at..], out);
        at += taken;
        let Some(rest) = text[at..].strip_prefix('-') else { continue };
        at += 1;
        // Between two characters it is a range, else a character itself.
        let hyphen = out.len();
        out.push_str("\\-");
        if is_one && !rest.is_empty() && !rest.starts_with(']') {
            let (taken, is_range) = class_item(rest, out);
            at += taken;
            if is_range {
                out.remove(hyphen);
            }
        }
    }
    at
}

/// Takes what is in a class: how many bytes it has, and whether it is one character.
fn class_item(text: &str, out: &mut String) -> (usize, bool) {
    let mut letters = text.chars();
    let (first, second) = (letters.next().unwrap_or_default(), letters.next());
    if first == '['
        && let Some(length) = name_length(text)
    {
        out.push_str(&text[..length]);
        return (length, false);
    }
    let spelled = match (first, second) {
        ('\\', Some('h')) => "\\x20\\t\\xa0",
        ('\\', Some('v')) => "\\n-\\r\\x85",
        ('\\', Some('b')) => "\\x08",
        ('\\', letter) => {
            return (character(text, out), letter.is_none_or(|letter| !"dDwWsS".contains(letter)));
        }
        _ if first.is_ascii() && !first.is_ascii_alphanumeric() => {
            hexadecimal(first as u8, out);
            return (1, true);
        }
        _ => return (bytes(first, out), true),
    };
    out.push_str(spelled);
    (2, second == Some('b'))
}

/// How long the name of a class is that begins the text, `[:NAME:]` or `[:^NAME:]`.
fn name_length(text: &str) -> Option<usize> {
    let name = text.strip_prefix("[:")?;
    let end = name.find(|letter: char| !letter.is_ascii_alphabetic() && letter != '^')?;
    name[end..].starts_with(":]").then_some(end + 4)
}

#[cfg(test)]
mod tests {
    use super::super::regex::parse;

    /// An expression, what is searched, and where a match begins and ends.
    type Case = (&'static [u8], &'static [u8], Option<(usize, usize)>);

    /// What PCRE2 10.42 finds, where the engines would read the expression as something else. A `$` that is
    /// searched for in linear time takes the line feed behind it.
    #[test]
    fn what_both_read_means_what_it_means_to_pcre() {
        let cases: [Case; 33] = [
            (br"/\h/", b"\xa0", Some((0, 1))),
            (br"/\v+\V/", b"\n\x0b\r\x85x", Some((0, 5))),
            (br"/[\v]/", b"\x85", Some((0, 1))),
            (br"/\R/", b"\x85", Some((0, 1))),
            (br"/\R\n/", b"\r\n", None),
            (br"/[[:x]y:]z/", b":y:]z", Some((0, 5))),
            (br"/a{,3}/", b"a{,3}", Some((0, 5))),
            (br"/\x{e9}/", b"\xe9", Some((0, 1))),
            (br"/[\x{00}-\x{ff}]/", b"\xe9", Some((0, 1))),
            ("/\u{e9}*/".as_bytes(), b"\xc3\xa9\xa9", Some((0, 3))),
            ("/[\u{e9}]/".as_bytes(), b"\xa9", Some((0, 1))),
            (br"/a++a/", b"aaa", None),
            (br"/a*+b/", b"aab", Some((0, 3))),
            (br"/a$|b\z/", b"a\n", Some((0, 2))),
            (br"/b$|a\z/", b"a\n", None),
            (br"/a\Z/E", b"a\n", Some((0, 2))),
            (br"/a$/E", b"a\n", None),
            (br"/a\Z/m", b"a\nb", None),
            (br"/a$\n/", b"a\n", Some((0, 2))),
            (br"/(?:a$|b)\n/", b"a\n", Some((0, 2))),
            (br"/(?:a$|\n)+/", b"a\n", Some((0, 2))),
            (br"/(?!b)a$/", b"a\n", Some((0, 1))),
            (br"/[ #]b/x", b"#b", Some((0, 2))),
            (br"/a[\h]/x", b"a ", Some((0, 2))),
            (br"/[\b]/", b"\x08", Some((0, 1))),
            (br"/[--a]/", b"3", Some((0, 1))),
            (br"/[]-a]/", b"^", Some((0, 1))),
            (br"/[^]-a]/", b"^", None),
            (br"/[a-c-e]/", b"d", None),
            (br"/[a&&b]/", b"&", Some((0, 1))),
            (br"/\x/", b"\0", Some((0, 1))),
            (br"/\0123/", b"\n3", Some((0, 2))),
            (br"/\e\</", b"\x1b<", Some((0, 2))),
        ];
        for (text, data, expected) in cases {
            let (regex, _) = parse(text, false).expect("an expression");
            let text = String::from_utf8_lossy(text);
            assert_eq!(regex.find(data, 0, 0), Ok(expected), "{text} in {data:x?}");
        }
    }

    #[test]
    fn what_means_something_else_is_refused() {
        for text in [&br"/a(?R)?b/"[..], br"/(?u)a/", br"/(?iu:a)/"] {
            let wrong = parse(text, false).expect_err("neither engine has it");
            assert_eq!(wrong.missing, Some("pcre"));
        }
        for text in [&br"/(?i)a/"[..], br"/(?U)a+/", br"/(?<R>a)/", br"/(?P<u>a)/"] {
            assert!(parse(text, false).is_ok(), "{}", String::from_utf8_lossy(text));
        }
    }

    /// An end of the data is where most expressions have one: nothing has to go back and forth for it.
    #[test]
    fn an_end_at_the_end_is_searched_for_in_linear_time() {
        let is_stepwise = |text: &[u8]| parse(text, false).expect("an expression").0.is_stepwise();
        for text in [&br"/a$/"[..], br"/(a$|b)/", br"/(?:x(a$|b\Z))?|c$/", br"/a$\r\n/m", br"/a$b/E"] {
            assert!(!is_stepwise(text), "{}", String::from_utf8_lossy(text));
        }
        for text in [&br"/a$\s/"[..], br"/(a$|b)c/", br"/(?:x(a$|b))+/", br"/(\Z)*/"] {
            assert!(is_stepwise(text), "{}", String::from_utf8_lossy(text));
        }
    }
}
