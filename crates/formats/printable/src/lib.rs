//! Text of guests, tenants, peers and clients, as logs, tables and messages may show it.
//!
//! Such text can hide or forge a line without a visible character: control characters move a terminal's
//! cursor, bidirectional controls reverse what follows, separators begin a new line, characters without width
//! make two names look the same. [`is_hidden`] is the one list of them. Every sink uses it: [`harmless`] for
//! a line of text, [`lines`] for several, [`replaced`] for what guests write, [`json`], [`json_lines`] and
//! [`yaml`] for documents, whose strings are the same after they are read.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character is shown otherwise than by a glyph of its own: controls, bidirectional controls,
/// separators of lines and paragraphs, and format characters (Unicode's general categories Cc, Zl and Zp, and
/// of Cf those that are no part of a script).
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Text on one line, with hidden characters as escapes such as `\u{202e}`, cut after `most` of its
/// characters.
pub fn harmless(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most.saturating_mul(4)));
    for (number, c) in text.chars().enumerate() {
        if number == most {
            out.push_str("...");
            break;
        }
        if is_hidden(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Text of several lines, each as [`harmless`] shows it, in whole.
pub fn lines(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden_in_line) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<_> = text.split('\n').map(|line| harmless(line, usize::MAX)).collect();
    Cow::Owned(lines.join("\n"))
}

/// Text on one line, with U+FFFD for each hidden character: for text that may be JSON, where an escape of
/// [`harmless`] would be a fault.
pub fn replaced(text: &str) -> String {
    // Nearly all text is, and functions write much of it.
    if is_plain(text) { text.to_owned() } else { text.replace(is_hidden, "\u{fffd}") }
}

/// The same of bytes, with U+FFFD for what is no character.
pub fn replaced_in(bytes: &[u8]) -> String {
    // To look for what is none takes some instructions for each byte, and nearly always there is nothing.
    match std::str::from_utf8(bytes) {
        Ok(text) => replaced(text),
        Err(_) => replaced(&String::from_utf8_lossy(bytes)),
    }
}

/// Whether all of it is ASCII that is shown. All bytes are looked at, so that many are at a time.
fn is_plain(text: &str) -> bool {
    text.as_bytes().iter().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'))
}

/// A JSON text on one line with the hidden characters of its strings as escapes such as `\u202e`. It means
/// the same as before: a JSON text without line breaks has such characters in strings alone.
pub fn json(text: &str) -> Cow<'_, str> {
    let utf16 = |out: &mut String, c: char| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    };
    escaped(text, is_hidden, utf16)
}

/// As [`json`], for a JSON text of several lines: its line breaks stay, because JSON has them between values
/// alone.
pub fn json_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden_in_line) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<_> = text.split('\n').map(json).collect();
    Cow::Owned(lines.join("\n"))
}

/// As [`json_lines`], for YAML whose hidden characters stand in double quotes. YAML has no surrogate pairs:
/// its escape of a character above U+FFFF is `\U000e0001` (YAML 1.2.2, section 5.7).
pub fn yaml(text: &str) -> Cow<'_, str> {
    let whole = |out: &mut String, c: char| {
        let number = u32::from(c);
        // Writing to a string cannot fail.
        let _ = if number > 0xffff { write!(out, "\\U{number:08x}") } else { write!(out, "\\u{number:04x}") };
    };
    escaped(text, is_hidden_in_line, whole)
}

fn is_hidden_in_line(c: char) -> bool {
    c != '\n' && is_hidden(c)
}

fn escaped(text: &str, is_escaped: fn(char) -> bool, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            escape(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDDEN: &str = "\0\u{7}\t\n\r\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\
\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{feff}\u{fff9}\u{e0001}\u{e007f}";

    #[test]
    fn each_hidden_character_is_escaped_and_no_other() {
        for c in HIDDEN.chars() {
            assert!(is_hidden(c), "{c:?}");
            let told = harmless(&format!("a{c}b"), 9);
            assert!(told.starts_with("a\\") && told.ends_with('b') && told.is_ascii(), "{told:?}");
            let quoted = format!("\"a{c}b\"");
            let told = json(&quoted);
            assert!(told.starts_with("\"a\\u") && told.is_ascii(), "{told:?}");
        }
        let shown = "fw-1 \"ä\\ß\" 防火墙 שלום مرحبا नमस्ते 🔥";
        assert_eq!(harmless(shown, 100), shown);
        assert!(matches!(json(shown), Cow::Borrowed(same) if same == shown));
    }

    #[test]
    fn what_is_escaped_can_be_read_again() {
        assert_eq!(harmless("a\u{202e}b\n", 9), "a\\u{202e}b\\n");
        assert_eq!(json("\"a\u{202e}b\u{e0041}\""), "\"a\\u202eb\\udb40\\udc41\"");
        assert_eq!(json_lines("{\n\"a\u{2028}\u{e0041}\": 1\n}"), "{\n\"a\\u2028\\udb40\\udc41\": 1\n}");
        assert_eq!(yaml("\"a\u{202e}\": \"\u{e0041}\"\n"), "\"a\\u202e\": \"\\U000e0041\"\n");
        assert_eq!(lines("a\u{202e}b\n\tc\n"), "a\\u{202e}b\n\\tc\n");
        assert_eq!(replaced("a\u{202e}b\n\u{e0041}ä"), "a\u{fffd}b\u{fffd}\u{fffd}ä");
        assert_eq!(replaced_in(b"a\xe2\x80\xaeb\xff\xc3"), "a\u{fffd}b\u{fffd}\u{fffd}");
        assert_eq!(replaced_in("a\u{202e}ä".as_bytes()), "a\u{fffd}ä");
        for c in '\0'..='\u{ff}' {
            let shown = if is_hidden(c) { '\u{fffd}' } else { c };
            assert_eq!(replaced(&format!("{c}b")), format!("{shown}b"), "{c:?}");
        }
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!((harmless("abc", 3).as_str(), harmless("abcd", 3).as_str()), ("abc", "abc..."));
    }
}
