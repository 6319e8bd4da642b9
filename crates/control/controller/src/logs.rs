//! The last lines of every function's log: so many of each, and so many bytes of all functions of a tenant,
//! of which those with most lose their oldest first.

use api::LogLine;
use std::collections::{HashMap, VecDeque};
use std::time::SystemTime;

/// Lines that are kept of each function.
const KEPT: usize = 1000;
/// Most bytes of the lines of a tenant's functions. Where there are more, they are cut to three quarters.
const OF_TENANT: usize = 8 << 20;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    functions: HashMap<String, Function>,
    /// By tenant, the bytes of its functions' lines; of one without any there is no entry.
    tenants: HashMap<Box<str>, usize>,
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
    bytes: usize,
}

impl Function {
    fn bytes(&self) -> usize {
        self.lines.as_ref().map_or(0, |lines| lines.bytes)
    }
}

impl Lines {
    fn push(&mut self, line: LogLine) {
        self.bytes += size(&line);
        self.kept.push_back(line);
        if self.kept.len() > KEPT {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.bytes -= size(&oldest);
        }
    }

    /// Loses the older half, at least one line.
    fn halve(&mut self) {
        (0..self.kept.len().div_ceil(2)).for_each(|_| self.pop());
        self.kept.shrink_to_fit();
    }
}

/// Bytes of a line, about.
fn size(line: &LogLine) -> usize {
    size_of::<LogLine>() + line.time.len() + line.severity.len() + line.text.len()
}

impl Logs {
    /// A function is there, and whose it is: one of another tenant begins with nothing.
    pub(crate) fn know(&mut self, function: &str, tenant: &str) {
        if self.functions.get(function).is_none_or(|known| *known.tenant != *tenant) {
            self.forget(function);
            self.functions.insert(function.to_owned(), Function { tenant: tenant.into(), lines: None });
        }
    }

    /// Keeps a line of a function that is known, and forgets the oldest one when there are too many.
    pub(crate) fn add(&mut self, function: &str, line: guest::LogLine) {
        let Some(known) = self.functions.get_mut(function) else { return };
        let lines = known.lines.get_or_insert_default();
        let before = lines.bytes;
        lines.count += 1;
        lines.push(LogLine {
            number: lines.count,
            time: now(),
            severity: line.severity_name().to_owned(),
            text: line.text,
        });
        let after = lines.bytes;
        let tenant = known.tenant.clone();
        let all = self.tenants.entry(tenant.clone()).or_default();
        *all = *all + after - before;
        if *all > OF_TENANT {
            self.make_room(&tenant);
        }
    }

    /// Cuts a tenant's lines to three quarters of what it may have.
    fn make_room(&mut self, tenant: &str) {
        let Some(all) = self.tenants.get_mut(tenant) else { return };
        while *all > OF_TENANT / 4 * 3 {
            let own =
                self.functions.values_mut().filter(|known| *known.tenant == *tenant && known.bytes() > 0);
            let mut own: Vec<&mut Function> = own.collect();
            own.sort_unstable_by_key(|known| std::cmp::Reverse(known.bytes()));
            let Some(most) = own.first().map(|known| known.bytes()) else { return };
            // Those that have least keep what they have as long as others have twice as much.
            let those = own.iter_mut().take_while(|known| known.bytes() > most / 2);
            for lines in those.filter_map(|known| known.lines.as_mut()) {
                if *all <= OF_TENANT / 4 * 3 {
                    break;
                }
                let before = lines.bytes;
                lines.halve();
                *all -= before - lines.bytes;
            }
        }
    }

    /// Up to `limit` lines with numbers above `after`.
    pub(crate) fn after(&self, function: &str, after: u64, limit: usize) -> Vec<LogLine> {
        let known = self.functions.get(function).and_then(|known| known.lines.as_ref());
        let lines = known.into_iter().flat_map(|lines| &lines.kept);
        lines.filter(|line| line.number > after).take(limit).cloned().collect()
    }

    /// Forgets a function that is no more.
    pub(crate) fn forget(&mut self, function: &str) {
        let Some(known) = self.functions.remove(function) else { return };
        if let Some(all) = self.tenants.get_mut(&known.tenant) {
            *all -= known.bytes();
            if *all == 0 {
                self.tenants.remove(&known.tenant);
            }
        }
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

    #[test]
    fn the_lines_of_a_tenants_functions_are_so_many_bytes_and_take_none_of_others() {
        let mut logs = Logs::default();
        logs.know("quiet", "red");
        logs.add("quiet", line("said once"));
        logs.know("other", "blue");
        logs.add("other", line("of another"));
        // Each of them alone is far below what a tenant may have.
        let text = "x".repeat(1024);
        for n in 0..50 {
            let name = format!("f{n}");
            logs.know(&name, "red");
            for _ in 0..KEPT {
                logs.add(&name, line(&text));
                assert!(logs.tenants["red"] <= OF_TENANT);
            }
        }
        let of = |logs: &Logs, tenant: &str| -> usize {
            let own = logs.functions.values().filter(|known| *known.tenant == *tenant);
            own.flat_map(|known| &known.lines).flat_map(|lines| &lines.kept).map(size).sum()
        };
        assert_eq!((of(&logs, "red"), of(&logs, "blue")), (logs.tenants["red"], logs.tenants["blue"]));
        assert!(logs.tenants["red"] > OF_TENANT / 2, "no more is lost than has to be");
        assert_eq!((logs.after("quiet", 0, 9).len(), logs.after("other", 0, 9).len()), (1, 1));
        // Each has its latest, and its numbers go on.
        for n in 0..50 {
            let kept = logs.after(&format!("f{n}"), 0, KEPT);
            assert_eq!(kept.last().map(|line| line.number), Some(KEPT as u64), "f{n}");
        }
        (0..50).for_each(|n| logs.forget(&format!("f{n}")));
        logs.know("quiet", "blue");
        assert!(!logs.tenants.contains_key("red") && logs.tenants["blue"] == of(&logs, "blue"));
    }
}
