//! A rule file as logical lines whose every byte knows its place, and the faults that are found in it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use nf_sdk::Json;

/// With more faults, their number is told before them: of a function that is to be started no more are shown.
pub const FIRST_FAULTS: usize = 60;
/// Most faults that are kept; the others are counted.
pub const MAX_FAULTS: usize = 16_384;

/// A mistake in a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// What was found; what is allowed.
    pub text: String,
}

/// All mistakes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The first [`MAX_FAULTS`].
    pub list: Vec<Fault>,
    /// How many there are in all.
    pub total: usize,
    /// How many rules have no other fault than to ask for what this function does not have, by its name.
    pub lacking: BTreeMap<String, usize>,
}

impl Faults {
    /// Adds one.
    pub fn push(&mut self, fault: Fault) {
        self.total += 1;
        if self.list.len() < MAX_FAULTS {
            self.list.push(fault);
        }
    }

    /// Adds all of another list.
    pub fn extend(&mut self, other: Faults) {
        let unnamed = other.total - other.list.len();
        other.list.into_iter().for_each(|fault| self.push(fault));
        self.total += unnamed;
    }

    /// Nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// A line for each fault, `FILE:LINE:COLUMN: text`, of at most `longest` bytes, and at the end one that
    /// says how many are not listed. Before them, one that says how many rules ask for what, when several
    /// do, and one with the number of faults when they are more than [`FIRST_FAULTS`].
    pub fn lines(&self, file: &str, longest: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |mut line: String| {
            clip(&mut line, longest);
            lines.push(line);
        };
        let counted = |count: usize, what: &str| {
            let mut line = String::from(file);
            line.push_str(": ");
            push_number(&mut line, count as u64);
            line.push_str(what);
            line
        };
        let lacking: usize = self.lacking.values().sum();
        if lacking > 1 {
            let what =
                " rules ask for what this function does not have, and `unsupported: skip` leaves them out: ";
            add(counted(lacking, &say(&[what, &by_count(&self.lacking)])));
        }
        if self.total > FIRST_FAULTS {
            add(counted(self.total, " faults"));
        }
        for fault in &self.list {
            let mut line = String::from(file);
            line.push(':');
            push_number(&mut line, u64::from(fault.line));
            line.push(':');
            push_number(&mut line, u64::from(fault.column));
            line.push_str(": ");
            line.push_str(&fault.text);
            add(line);
        }
        if self.total > self.list.len() {
            add(counted(self.total - self.list.len(), " faults are not listed"));
        }
        lines
    }
}

/// Names and how often each was counted, `COUNT NAME, COUNT NAME`, the most frequent first.
pub fn by_count(counts: &BTreeMap<String, usize>) -> String {
    let mut counts: Vec<(&String, &usize)> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(**count));
    let each = |(name, count): &(&String, &usize)| say(&[&decimal(**count as u64), " ", name]);
    counts.iter().map(each).collect::<Vec<_>>().join(", ")
}

/// Shortens a text to so many bytes at most, between characters.
pub fn clip(text: &mut String, longest: usize) {
    if text.len() > longest {
        let mut end = longest;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}

/// Appends a number in decimal.
pub fn push_number(out: &mut String, number: u64) {
    Json::new(out).number(number);
}

/// A text put together from parts.
pub fn say(parts: &[&str]) -> String {
    parts.concat()
}

/// A number as text.
pub fn decimal(number: u64) -> String {
    let mut out = String::new();
    push_number(&mut out, number);
    out
}

/// What was found, in backquotes, readable and short whatever the bytes are.
pub fn quoted(bytes: &[u8]) -> String {
    const LONGEST: usize = 48;
    let mut out = String::from("`");
    for character in String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST)]).chars() {
        if out.len() >= LONGEST {
            out.push_str("...");
            break;
        }
        out.push(if character.is_control() { '?' } else { character });
    }
    out.push('`');
    out
}

/// A line with the lines that continue it, and where its bytes come from.
#[derive(Debug)]
pub struct Logical {
    /// The bytes, without the backslashes and line ends that join them.
    pub text: Vec<u8>,
    /// Where a physical line begins in `text`: offset, line number, and the physical line's skipped bytes
    /// (none).
    starts: Vec<(usize, u32)>,
}

impl Logical {
    /// Line and column of a byte.
    pub fn place(&self, offset: usize) -> (u32, u32) {
        let part = self.starts.partition_point(|(start, _)| *start <= offset).max(1) - 1;
        let (start, line) = self.starts.get(part).copied().unwrap_or((0, 1));
        let end = offset.min(self.text.len());
        // Bytes that continue a character do not count.
        let column = self.text[start.min(end)..end].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        (line, column as u32 + 1)
    }

    /// A fault at a byte.
    pub fn fault(&self, offset: usize, text: String) -> Fault {
        let (line, column) = self.place(offset);
        Fault { line, column, text }
    }
}

/// The file's logical lines that are neither empty nor comments.
pub fn logical_lines(bytes: &[u8]) -> Vec<Logical> {
    let mut lines = Vec::new();
    let mut current: Option<Logical> = None;
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_comment = line.trim_ascii_start().first() == Some(&b'#');
        // Only a whole line can be a comment.
        if current.is_none() && (is_comment || line.trim_ascii().is_empty()) {
            continue;
        }
        let logical = current.get_or_insert_with(|| Logical { text: Vec::new(), starts: Vec::new() });
        logical.starts.push((logical.text.len(), number as u32 + 1));
        if let Some(line) = line.strip_suffix(b"\\") {
            logical.text.extend_from_slice(line);
        } else {
            logical.text.extend_from_slice(line);
            lines.extend(current.take());
        }
    }
    lines.extend(current);
    lines
}

/// The closest of the words, if one is close: a small distance of edits.
pub fn nearest<'a>(word: &[u8], words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 32 {
        return None;
    }
    let best = words.into_iter().map(|known| (distance(word, known.as_bytes()), known)).min()?;
    (best.0 <= 1 + word.len() / 4).then_some(best.1)
}

/// Whether a word is one edit away from one of the words.
pub fn is_edited<'a>(word: &[u8], mut words: impl Iterator<Item = &'a str>) -> bool {
    word.len() <= 32 && words.any(|known| distance(word, known.as_bytes()) == 1)
}

fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(!x.eq_ignore_ascii_case(y));
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
