//! What stands in the window: rows, sorted, as many as fit, and what keys do.

use super::super::columns::cell;
use super::super::numbers::{bytes, count, percent};
use super::super::options::SortBy;
use super::sample::Row;
use super::terminal::Key;
use crate::output::{Format, Listing};
use api::FunctionState;
use serde_json::json;
use std::cmp::Ordering;

/// Lines that are not rows: what all do, an empty line, the head, and the keys.
const OTHER_LINES: usize = 4;

/// What keys do; an ordinary terminal has 80 columns.
const KEYS: &str = "q end, arrows move, sort: c cpu, p packets, b bits, d drops, m memory, n name";

/// See the module's documentation.
pub(crate) struct Screen {
    pub(crate) rows: Vec<Row>,
    /// Whether there was a second look already.
    pub(crate) looked: bool,
    sort: SortBy,
    turned: bool,
    /// The first row that is shown.
    top: usize,
    /// The window as it was drawn last.
    drawn: Option<(usize, usize)>,
}

impl Screen {
    pub(crate) fn new(sort: SortBy) -> Screen {
        Screen { rows: Vec::new(), looked: false, sort, turned: false, top: 0, drawn: None }
    }

    /// Whether the window is another than the one that was drawn.
    pub(crate) fn fits_anew(&mut self, size: (usize, usize)) -> bool {
        self.drawn.replace(size) != Some(size)
    }

    /// Does what a key says; `false`: it ends.
    pub(crate) fn key(&mut self, key: Key, (_, lines): (usize, usize)) -> bool {
        let page = lines.saturating_sub(OTHER_LINES).max(1);
        let last = self.rows.len().saturating_sub(page);
        match key {
            Key::Letter('q') | Key::End => return false,
            Key::Letter('c') => self.sort_by(SortBy::Cpu),
            Key::Letter('p') => self.sort_by(SortBy::Packets),
            Key::Letter('b') => self.sort_by(SortBy::Bits),
            Key::Letter('d') => self.sort_by(SortBy::Drops),
            Key::Letter('m') => self.sort_by(SortBy::Memory),
            Key::Letter('n') => self.sort_by(SortBy::Name),
            Key::Up => self.top = self.top.min(last).saturating_sub(1),
            Key::Down => self.top = (self.top + 1).min(last),
            Key::PageUp => self.top = self.top.min(last).saturating_sub(page),
            Key::PageDown => self.top = (self.top + page).min(last),
            Key::Letter(_) => {}
        }
        true
    }

    fn sort_by(&mut self, sort: SortBy) {
        self.turned = self.sort == sort && !self.turned;
        self.sort = sort;
        self.top = 0;
    }

    /// The window's lines, each cut to its width.
    pub(crate) fn drawn(&mut self, (columns, lines): (usize, usize)) -> Vec<String> {
        sort(&mut self.rows, self.sort, self.turned);
        let page = lines.saturating_sub(OTHER_LINES).max(1);
        let top = self.top.min(self.rows.len().saturating_sub(page));
        let mut drawn = Vec::new();
        if self.looked {
            drawn.extend([self.head(), String::new()]);
            let shown = &self.rows[top..self.rows.len().min(top + page)];
            drawn.extend(listing(shown).shown(Format::Table).lines().map(str::to_owned));
        } else {
            drawn.push("looking ...".to_owned());
        }
        drawn.resize(lines.saturating_sub(1).max(3), String::new());
        drawn.push(KEYS.to_owned());
        drawn.truncate(lines);
        drawn.into_iter().map(|line| line.chars().take(columns).collect()).collect()
    }

    /// What all do together. What is lost stands before what may be cut at the end of the line.
    fn head(&self) -> String {
        let sum = |of: fn(&Row) -> f64| self.rows.iter().map(of).fold(0.0, |sum, value| sum + value);
        let count_of = self.rows.len();
        let mut head = format!("{count_of} {}", if count_of == 1 { "function" } else { "functions" });
        for (state, word) in [
            (FunctionState::Paused, "paused"),
            (FunctionState::Starting, "starting"),
            (FunctionState::Down, "down"),
        ] {
            let rows = self.rows.iter().filter(|row| row.state == state).count();
            if rows > 0 {
                head.push_str(&format!(", {rows} {word}"));
            }
        }
        format!(
            "{head}  cpu {}  {} packets/s  {} drops/s  {} bit/s",
            percent(sum(|row| row.cpu)),
            count(sum(|row| row.packets)),
            count(sum(|row| row.drops)),
            count(sum(|row| row.bits)),
        )
    }
}

/// Sorts rows, the largest first and names from a to z; `turned`: the other way round.
pub(crate) fn sort(rows: &mut [Row], by: SortBy, turned: bool) {
    let order = |a: &Row, b: &Row| -> Ordering {
        let order = match by {
            SortBy::Cpu => b.cpu.total_cmp(&a.cpu),
            SortBy::Packets => b.packets.total_cmp(&a.packets),
            SortBy::Bits => b.bits.total_cmp(&a.bits),
            SortBy::Drops => b.drops.total_cmp(&a.drops),
            SortBy::Memory => b.memory.cmp(&a.memory),
            SortBy::Name => a.name.cmp(&b.name),
        };
        let order = if turned { order.reverse() } else { order };
        order.then_with(|| a.name.cmp(&b.name))
    };
    rows.sort_by(order);
}

/// Rows as a table.
pub(crate) fn listing(rows: &[Row]) -> Listing {
    let mut listing = Listing::new(
        &["NAME", "STATE", "CPU", "PACKETS/S", "BIT/S", "DROPS/S", "QUEUE", "P99", "MEMORY"],
        &["PACKETS", "DROPS"],
    );
    for row in rows {
        listing.add(
            vec![
                cell(&row.name),
                row.state.as_str().to_owned(),
                percent(row.cpu),
                count(row.packets),
                count(row.bits),
                count(row.drops),
                row.queue.to_string(),
                row.latency.map_or_else(|| "-".to_owned(), crate::remote::trace::time),
                bytes(row.memory as f64),
                row.all_packets.to_string(),
                row.all_drops.to_string(),
            ],
            json!({
                "name": row.name, "state": row.state, "cpu_share": row.cpu, "packets_per_second": row.packets,
                "bits_per_second": row.bits, "drops_per_second": row.drops, "queue": row.queue,
                "latency_p99_ns": row.latency, "memory_bytes": row.memory, "packets": row.all_packets, "drops": row.all_drops,
            }),
        );
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |n: u32| Row {
            name: format!("f{n:02}"),
            state: FunctionState::Running,
            cpu: f64::from(n) / 100.0,
            packets: f64::from(100 - n),
            bits: 0.0,
            drops: f64::from(n % 2),
            queue: 0,
            latency: Some(2048),
            memory: 4096,
            all_packets: 0,
            all_drops: 0,
        };
        (0..30).map(row).collect()
    }

    fn first(screen: &mut Screen, size: (usize, usize)) -> String {
        screen.drawn(size)[3].split(' ').next().expect("a name").to_owned()
    }

    #[test]
    fn keys_sort_and_move() {
        let size = (80, 10);
        let mut screen = Screen { rows: rows(), looked: true, ..Screen::new(SortBy::Cpu) };
        assert_eq!(first(&mut screen, size), "f29");
        for (key, wanted) in [
            (Key::Letter('p'), "f00"),
            (Key::Letter('p'), "f29"),
            (Key::Letter('n'), "f00"),
            (Key::Down, "f01"),
            (Key::PageDown, "f07"),
            (Key::PageDown, "f13"),
            (Key::PageDown, "f19"),
            (Key::PageDown, "f24"),
            (Key::Down, "f24"),
            (Key::Up, "f23"),
            (Key::PageUp, "f17"),
            (Key::Letter('d'), "f01"),
            (Key::Letter('x'), "f01"),
            (Key::Letter('m'), "f00"),
            (Key::Letter('c'), "f29"),
        ] {
            assert!(screen.key(key, size));
            assert_eq!(first(&mut screen, size), wanted, "{key:?}");
        }
        assert!(!screen.key(Key::Letter('q'), size) && !screen.key(Key::End, size));
    }

    #[test]
    fn the_window_is_filled_and_never_more() {
        let mut screen = Screen { rows: rows(), looked: true, ..Screen::new(SortBy::Name) };
        for (columns, lines) in [(80, 24), (20, 5), (1, 1), (0, 0), (300, 100)] {
            let drawn = screen.drawn((columns, lines));
            assert_eq!(drawn.len(), lines, "{columns}x{lines}");
            assert!(drawn.iter().all(|line| line.chars().count() <= columns));
        }
        let drawn = screen.drawn((200, 24));
        assert_eq!(drawn[0], "30 functions  cpu 435.0%  2.56k packets/s  15 drops/s  0 bit/s");
        assert!(drawn[2].starts_with("NAME  STATE") && drawn[23].starts_with("q end"), "{drawn:?}");
        assert!(screen.fits_anew((1, 1)) && !screen.fits_anew((1, 1)));
        let early = Screen::new(SortBy::Name).drawn((80, 24));
        assert_eq!((early[0].as_str(), &early[23][..5]), ("looking ...", "q end"));
    }

    #[test]
    fn losses_and_keys_stand_within_80_columns() {
        let mut rows = rows();
        for (n, row) in rows.iter_mut().enumerate() {
            (row.packets, row.bits, row.drops) = (45_600.0, 98_700_000.0, 123_456.0);
            row.state = if n < 3 { FunctionState::Down } else { FunctionState::Running };
        }
        let mut screen = Screen { rows, looked: true, ..Screen::new(SortBy::Name) };
        let drawn = screen.drawn((80, 24));
        assert!(drawn[0].contains("30 functions, 3 down  cpu 435.0%"), "{drawn:?}");
        assert!(drawn[0].contains("1.37M packets/s  3.70M drops/s"), "{drawn:?}");
        assert_eq!(drawn[23], KEYS);
        let none = Screen { looked: true, ..Screen::new(SortBy::Name) }.drawn((80, 24));
        assert_eq!(none[0], "0 functions  cpu 0.0%  0 packets/s  0 drops/s  0 bit/s");
    }
}
