//! Long lines for a terminal: cut between words, what goes on is indented.

use rustix::termios::{isatty, tcgetwinsize};
use std::os::fd::AsFd;

/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;
/// What goes on in the next line stands so many columns further to the right.
const INDENT: usize = 4;
/// On a narrower terminal the terminal itself cuts.
const NARROWEST: usize = 20;

/// Columns of a stream that is a terminal; COLUMNS comes first, as in tables.
pub(crate) fn columns(stream: impl AsFd) -> Option<usize> {
    let stream = stream.as_fd();
    if !isatty(stream) {
        return None;
    }
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let told = || tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col));
    Some(set.or_else(told).filter(|&columns| columns > 0).unwrap_or(COLUMNS))
}

/// The text with lines of at most so many columns, as far as its words allow it. A command or name in
/// backticks is one word where a line has room for it, so that it can be copied.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| wrapped_line(line, columns)).collect();
    lines.join("\n")
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn wrapped_line(line: &str, columns: usize) -> String {
    let own = line.len() - line.trim_start_matches(' ').len();
    let indent = own + INDENT;
    if width(line) <= columns || columns < indent + NARROWEST {
        return line.to_owned();
    }
    let (mut shown, mut at) = (line[..own].to_owned(), own);
    let mut rest = &line[own..];
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        let word = &rest[blanks..][..word(&rest[blanks..], columns - indent)];
        rest = &rest[blanks + word.len()..];
        if at + blanks + width(word) > columns && at > own {
            shown.push('\n');
            shown.push_str(&" ".repeat(indent));
            at = indent;
        } else {
            shown.push_str(&" ".repeat(blanks));
            at += blanks;
        }
        shown.push_str(word);
        at += width(word);
    }
    shown.truncate(shown.trim_end_matches(' ').len());
    shown
}

/// Bytes of the first word: up to a blank that is in no backticks, or to the first blank where that would be
/// longer than a line.
fn word(text: &str, most: usize) -> usize {
    let mut quoted = false;
    let end = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '`';
        *c == ' ' && !quoted
    });
    let end = end.map_or(text.len(), |(end, _)| end);
    if !quoted && width(&text[..end]) <= most { end } else { text.find(' ').unwrap_or(text.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_between_words_and_short_ones_stay() {
        let told = "f.yaml:6:35: functions.f2.cpu.cap: found `150%`; allowed: a fraction from 0.1% to 100%, such as `0.5%`";
        let shown = wrapped(told, 60);
        let wanted = "f.yaml:6:35: functions.f2.cpu.cap: found `150%`; allowed: a\n    fraction from 0.1% to 100%, such as `0.5%`";
        assert_eq!(shown, wanted);
        assert_eq!(wrapped(told, 200), told);
        assert_eq!(wrapped(told, 10), told, "too narrow");
        assert_eq!(wrapped("\na b\n", 60), "\na b\n");
    }

    #[test]
    fn what_is_indented_goes_on_further_in() {
        let told = "  at most 20 lines are shown; all are shown by `superfluid check --all`";
        let wanted = "  at most 20 lines are shown;\n      all are shown by\n      `superfluid check --all`";
        assert_eq!(wrapped(told, 30), wanted);
    }

    #[test]
    fn words_that_are_too_long_stay_whole_and_a_lone_backtick_holds_nothing_together() {
        let path = "/a-folder/".repeat(6);
        assert_eq!(wrapped(&format!("found {path} there"), 30), format!("found\n    {path}\n    there"));
        assert_eq!(wrapped(&path, 30), path);
        let told = "a ` that is alone, and what follows it";
        assert_eq!(wrapped(told, 30), "a ` that is alone, and what\n    follows it");
        let long = format!("say `{}`", "word ".repeat(9).trim_end());
        assert!(wrapped(&long, 30).lines().all(|line| width(line) <= 30), "{}", wrapped(&long, 30));
    }

    #[test]
    fn nothing_is_lost_at_any_width() {
        let told = "  a warning: `b c` d  e\n`f\ng: h `i j k l` mn op qr\u{e4}\u{f6} st, uv wx yz 0123 4567 89 ` `` x";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for columns in 0..100 {
            assert_eq!(words(&wrapped(told, columns)), words(told), "{columns}");
        }
    }
}
