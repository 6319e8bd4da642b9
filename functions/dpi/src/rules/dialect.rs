//! PCRE's dialect in that of the engines: what both read, but not as the same, is spelled so that they do.

use alloc::string::String;

/// Rewrites an expression.
pub fn translate(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len() + 16);
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\\' => escape(rest, false, &mut out),
            '[' => class(rest, &mut out),
            '{' if !is_count(rest) => {
                out.push_str("\\{");
                1
            }
            _ => {
                out.push(first);
                first.len_utf8()
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Whether `{` begins a number of repetitions: `{N}`, `{N,}`, `{N,M}`.
fn is_count(text: &str) -> bool {
    let Some(end) = text.find('}') else { return false };
    let mut parts = text[1..end].splitn(2, ',');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    parts.next().is_some_and(is_number) && parts.next().is_none_or(|most| most.is_empty() || is_number(most))
}

/// Takes an escape, which begins the text; how many bytes it has.
fn escape(text: &str, in_class: bool, out: &mut String) -> usize {
    let Some(letter) = text[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    let plain = match letter {
        // Boundaries of words to the engines.
        '<' | '>' => Some(if letter == '<' { "<" } else { ">" }),
        'e' => Some("\\x1b"),
        'h' if in_class => Some(" \\t"),
        'h' => Some("[ \\t]"),
        'H' if !in_class => Some("[^ \\t]"),
        'N' if !in_class => Some("[^\\n]"),
        'R' if !in_class => Some("(?:\\r\\n|[\\n-\\r])"),
        'Z' if !in_class => Some("$"),
        _ => None,
    };
    if let Some(plain) = plain {
        out.push_str(plain);
        return 2;
    }
    match letter {
        // One digit or two.
        'x' if text[2..].chars().next().is_none_or(|next| next != '{') => {
            let digits = text[2..].bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
            out.push_str(["\\x00", "\\x0", "\\x"][digits]);
            out.push_str(&text[2..2 + digits]);
            2 + digits
        }
        // Octal.
        '0' => {
            let digits = text[1..].bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            let value = u8::from_str_radix(&text[1..1 + digits], 8).unwrap_or(0);
            out.push_str("\\x");
            for half in [value >> 4, value & 15] {
                out.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
            }
            1 + digits
        }
        _ => {
            out.push('\\');
            out.push(letter);
            1 + letter.len_utf8()
        }
    }
}

/// Takes a class, which begins the text; how many bytes it has. What the engines take for nested classes and
/// for operators on them are characters.
fn class(text: &str, out: &mut String) -> usize {
    let mut at = 1;
    out.push('[');
    if text[at..].starts_with('^') {
        out.push('^');
        at += 1;
    }
    // A bracket at the beginning is one of the characters.
    if text[at..].starts_with(']') {
        out.push_str("\\]");
        at += 1;
    }
    let mut before = '\0';
    while let Some(letter) = text[at..].chars().next() {
        match letter {
            ']' => {
                out.push(']');
                return at + 1;
            }
            '\\' => {
                let kind = text[at + 1..].chars().next().unwrap_or('\\');
                at += escape(&text[at..], true, out);
                before = if matches!(kind, 'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'h') { 'w' } else { '\0' };
                // Behind a class there is no range.
                if before == 'w' && text[at..].starts_with('-') {
                    out.push_str("\\-");
                    at += 1;
                }
                continue;
            }
            '[' => match text[at..].find(":]").filter(|_| text[at..].starts_with("[:")) {
                Some(end) => {
                    out.push_str(&text[at..at + end + 2]);
                    at += end + 2;
                    continue;
                }
                None => out.push_str("\\["),
            },
            '&' | '~' if before == letter => {
                out.push('\\');
                out.push(letter);
            }
            '-' if before == '-' => out.push_str("\\-"),
            _ => out.push(letter),
        }
        before = letter;
        at += letter.len_utf8();
    }
    at
}
