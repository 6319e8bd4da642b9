//! A guest's output: the newest lines, of bounded length.

use crate::{LOG_LINE, LOG_LINES};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: VecDeque<String>,
    unfinished: Vec<u8>,
    /// The rest of the line is too much.
    cut: bool,
    pub(crate) lost: u64,
}

impl Log {
    /// Takes what a guest wrote.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end(),
                _ if self.unfinished.len() < LOG_LINE => self.unfinished.push(*byte),
                _ => self.cut = true,
            }
        }
    }

    fn end(&mut self) {
        let text = String::from_utf8_lossy(&self.unfinished);
        let mut line = printable::harmless(&text, LOG_LINE);
        if self.cut {
            line.push_str("...");
        }
        if self.lines.len() == LOG_LINES {
            self.lines.pop_front();
            self.lost += 1;
        }
        self.lines.push_back(line);
        self.unfinished.clear();
        self.cut = false;
    }

    /// The lines, and what is there of the last one.
    pub(crate) fn lines(&self) -> Vec<String> {
        let rest = String::from_utf8_lossy(&self.unfinished);
        let rest = (!rest.is_empty()).then(|| printable::harmless(&rest, LOG_LINE));
        self.lines.iter().cloned().chain(rest).collect()
    }
}
