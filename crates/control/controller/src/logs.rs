//! The last lines of every function's log.

use api::LogLine;
use std::collections::{HashMap, VecDeque};
use std::time::SystemTime;

/// Lines that are kept of each function.
const KEPT: usize = 1000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    functions: HashMap<String, Function>,
}

#[derive(Debug)]
struct Function {
    tenant: Box<str>,
    /// Most functions never say anything.
    lines: Option<Box<Lines>>,
}

#[derive(Debug, Default)]
struct Lines {
    /// Lines so far.
    count: u64,
    kept: VecDeque<LogLine>,
}

impl Logs {
    /// A function is there, and whose it is: one of another tenant begins with nothing.
    pub(crate) fn know(&mut self, function: &str, tenant: &str) {
        if self.functions.get(function).is_none_or(|known| *known.tenant != *tenant) {
            self.functions.insert(function.to_owned(), Function { tenant: tenant.into(), lines: None });
        }
    }

    /// Keeps a line of a function that is known, and forgets the oldest one when there are too many.
    pub(crate) fn add(&mut self, function: &str, line: guest::LogLine) {
        let Some(known) = self.functions.get_mut(function) else { return };
        let lines = known.lines.get_or_insert_default();
        lines.count += 1;
        if lines.kept.len() == KEPT {
            lines.kept.pop_front();
        }
        lines.kept.push_back(LogLine {
            number: lines.count,
            time: now(),
            severity: line.severity_name().to_owned(),
            text: line.text,
        });
    }

    /// Up to `limit` lines with numbers above `after`.
    pub(crate) fn after(&self, function: &str, after: u64, limit: usize) -> Vec<LogLine> {
        let known = self.functions.get(function).and_then(|known| known.lines.as_ref());
        let lines = known.into_iter().flat_map(|lines| &lines.kept);
        lines.filter(|line| line.number > after).take(limit).cloned().collect()
    }

    /// Forgets a function that is no more.
    pub(crate) fn forget(&mut self, function: &str) {
        self.functions.remove(function);
    }
}

/// The present time after RFC 3339.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_micros(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> guest::LogLine {
        guest::LogLine { severity: nf_abi::stream::LOG_INFO, text: text.to_owned() }
    }

    #[test]
    fn lines_are_numbered_and_the_oldest_go_first() {
        let mut logs = Logs::default();
        logs.know("f", "red");
        logs.know("g", "red");
        (0..KEPT + 5).for_each(|n| logs.add("f", line(&n.to_string())));
        logs.add("g", line("other"));
        let first = logs.after("f", 0, 2);
        assert_eq!((first[0].number, first[0].text.as_str(), first.len()), (6, "5", 2));
        assert_eq!(first[0].severity, "info");
        assert_eq!(logs.after("f", KEPT as u64 + 4, 10).len(), 1);
        assert_eq!(logs.after("g", 0, 10)[0].number, 1);
        logs.forget("g");
        logs.add("g", line("late"));
        assert_eq!(logs.after("g", 0, 10), []);
        logs.know("f", "red");
        assert_eq!(logs.after("f", 0, 1).len(), 1);
        logs.know("f", "blue");
        assert_eq!(logs.after("f", 0, 1), [], "another tenant's");
        assert!(size_of::<Function>() <= 24, "of one that says nothing");
    }
}
