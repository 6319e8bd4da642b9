//! The last events of one function: alerts and faults, each kind bounded by itself, so that alerts cannot
//! push out a fault.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    /// The function told what it found: one JSON object.
    Alert,
    /// It trapped, ran too long, or could not be started.
    Fault,
    /// It was started again.
    Restarted,
    /// Alerts before this one were lost; the text is their number.
    Lost,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Numbers of a function's events grow by one.
    pub(crate) number: u64,
    /// Microseconds since the Unix epoch.
    pub(crate) time: u64,
    pub(crate) what: What,
    pub(crate) text: Box<str>,
}

/// What an entry takes beside its text.
const OVERHEAD: usize = 64;
/// Longest text of an entry; what is longer is cut.
const LONGEST: usize = 16 << 10;
/// Longest report that is kept.
const REPORT: usize = 256 << 10;

/// Most events of a kind, and most bytes of them.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    events: usize,
    bytes: usize,
}

const ALERTS: Bounds = Bounds { events: 1000, bytes: 256 << 10 };
const FAULTS: Bounds = Bounds { events: 200, bytes: 128 << 10 };

#[derive(Debug, Default)]
struct BoundedEntries {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl BoundedEntries {
    fn push(&mut self, entry: Entry, bounds: Bounds) {
        self.bytes += size(&entry);
        self.entries.push_back(entry);
        while self.entries.len() > bounds.events || self.bytes > bounds.bytes {
            if self.pop().is_none() {
                break;
            }
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= size(&entry);
        Some(entry)
    }

    fn after(&self, number: u64) -> impl Iterator<Item = &Entry> {
        let from = self.entries.partition_point(|entry| entry.number <= number);
        self.entries.range(from..)
    }
}

fn size(entry: &Entry) -> usize {
    entry.text.len() + OVERHEAD
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    alerts: BoundedEntries,
    faults: BoundedEntries,
    /// What it reported last, and when.
    report: Option<(u64, Box<str>)>,
    /// The last number that was given.
    pub(super) last: u64,
    /// The last number that is on disk.
    pub(super) written: u64,
    /// Numbers up to this one may have been seen before a restart.
    pub(super) reserved: u64,
    /// Events taken, and alerts lost, since the daemon was started.
    pub(super) kept: u64,
    pub(super) lost: u64,
}

impl Ring {
    pub(super) fn bytes(&self) -> usize {
        let report = self.report.as_ref().map_or(0, |(_, text)| text.len() + OVERHEAD);
        self.alerts.bytes + self.faults.bytes + report
    }

    /// What it reported last, and when.
    pub(super) fn report(&self) -> Option<(u64, Box<str>)> {
        self.report.clone()
    }

    /// Takes a report; one that is too long is not kept.
    pub(super) fn reported(&mut self, time: u64, text: &str) {
        self.report = (text.len() <= REPORT).then(|| (time, text.into()));
    }

    /// Takes an event; the oldest of its kind leave when there are too many.
    pub(super) fn push(&mut self, time: u64, what: What, text: &str) {
        let mut end = text.len().min(LONGEST);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.kept += 1;
        self.last += 1;
        self.put(Entry { number: self.last, time, what, text: text[..end].into() });
    }

    /// Takes alerts; those that could not be kept anyway are not looked at, and count as lost.
    pub(super) fn found(&mut self, time: u64, alerts: &[String], lost: u64) {
        let mut bytes = 0;
        let fits = alerts.iter().rev().take(ALERTS.events).take_while(|alert| {
            bytes += alert.len() + OVERHEAD;
            bytes <= ALERTS.bytes
        });
        let first = alerts.len() - fits.count();
        self.lose(time, lost + first as u64);
        alerts[first..].iter().for_each(|alert| self.push(time, What::Alert, alert));
    }

    /// Alerts were lost.
    pub(super) fn lose(&mut self, time: u64, lost: u64) {
        if lost == 0 {
            return;
        }
        self.lost += lost;
        self.last += 1;
        self.put(Entry { number: self.last, time, what: What::Lost, text: lost.to_string().into() });
    }

    /// Takes an entry as it was written.
    pub(super) fn put(&mut self, entry: Entry) {
        self.last = self.last.max(entry.number);
        match entry.what {
            What::Alert | What::Lost => self.alerts.push(entry, ALERTS),
            What::Fault | What::Restarted => self.faults.push(entry, FAULTS),
        }
    }

    /// Forgets the older half of its alerts; of its faults when it has no alerts; its report when it has
    /// nothing else.
    pub(super) fn halve(&mut self) {
        if self.alerts.entries.is_empty() && self.faults.entries.is_empty() {
            self.report = None;
        }
        let part = if self.alerts.entries.is_empty() { &mut self.faults } else { &mut self.alerts };
        for _ in 0..part.entries.len().div_ceil(2) {
            part.pop();
        }
    }

    /// Up to `limit` events with larger numbers, in order.
    pub(crate) fn after(&self, number: u64, limit: usize) -> Vec<Entry> {
        let mut all: Vec<&Entry> =
            self.alerts.after(number).take(limit).chain(self.faults.after(number).take(limit)).collect();
        all.sort_by_key(|entry| entry.number);
        all.into_iter().take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_bounded_by_itself_in_number_and_bytes() {
        let mut ring = Ring::default();
        ring.push(1, What::Fault, "it trapped");
        let alerts: Vec<String> = (0..ALERTS.events + 10).map(|n| format!("{{\"n\":{n}}}")).collect();
        for alert in &alerts {
            ring.found(2, std::slice::from_ref(alert), 0);
        }
        let all = ring.after(0, usize::MAX);
        assert_eq!((all[0].what, all.len()), (What::Fault, 1 + ALERTS.events));
        assert_eq!((all[1].number, all.last().map(|last| last.number)), (12, Some(1011)));
        let large = "x".repeat(LONGEST + 1);
        (0..100).for_each(|_| ring.found(3, std::slice::from_ref(&large), 0));
        assert!(ring.bytes() <= ALERTS.bytes + FAULTS.bytes, "{}", ring.bytes());
        assert_eq!(ring.after(0, usize::MAX)[0].what, What::Fault);
        assert_eq!((ring.kept, ring.lost), (1111, 0));
    }

    #[test]
    fn a_flood_is_counted_without_being_looked_at() {
        let mut ring = Ring::default();
        let flood: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
        ring.found(1, &flood, 7);
        let all = ring.after(0, 2);
        // The entry that says so is the oldest, and the first to go.
        assert_eq!((all[0].number, &*all[0].text), (2, "4000"));
        assert_eq!((ring.kept, ring.lost), (1000, 4007));
        ring.found(1, &[], 3);
        let all = ring.after(1001, 10);
        assert_eq!((all.len(), all[0].what, &*all[0].text), (1, What::Lost, "3"));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut ring = Ring::default();
        ring.push(1, What::Fault, &format!("{}ä", "x".repeat(LONGEST - 1)));
        assert_eq!(ring.after(0, 1)[0].text.len(), LONGEST - 1);
    }

    #[test]
    fn half_of_the_alerts_go_before_any_fault() {
        let mut ring = Ring::default();
        ring.push(1, What::Fault, "a");
        ring.found(1, &["b".into(), "c".into(), "d".into()], 0);
        ring.halve();
        let texts = |ring: &Ring| -> Vec<String> {
            ring.after(0, 9).iter().map(|entry| entry.text.to_string()).collect()
        };
        assert_eq!(texts(&ring), ["a", "d"]);
        ring.reported(1, "{}");
        ring.halve();
        ring.halve();
        assert_eq!((texts(&ring), ring.report()), (Vec::new(), Some((1, "{}".into()))));
        ring.halve();
        assert_eq!(ring.bytes(), 0);
        ring.reported(1, &"x".repeat(REPORT + 1));
        assert_eq!(ring.report(), None);
    }
}
