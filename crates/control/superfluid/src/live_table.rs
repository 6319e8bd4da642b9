//! The table of a run: rates of ports, functions and workers, cut to the terminal that shows it.
//!
//! A table that is drawn over itself has to know how many rows it took. Lines are therefore no wider than the
//! terminal, and no more than fit; [`Size::rows_of`] counts rows again where the terminal has become narrower
//! meanwhile.

use crate::run_guests::in_words;
use engine::{Account, InstanceAccount, PortAccount};
use metrics::json::ContainerAccount;
use port::PortStatus;
use std::io::IsTerminal;

/// Rows and columns of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Size {
    /// That of output which is no terminal.
    pub(crate) const UNBOUNDED: Size = Size { rows: usize::MAX, columns: usize::MAX };

    /// That of standard output; LINES and COLUMNS come first, so that a part of a terminal can be given away.
    /// 24 rows of 80 columns where the terminal does not tell.
    pub(crate) fn of_terminal() -> Size {
        let told = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let size = |variable: &str, told: Option<u16>, default: usize| {
            let set = std::env::var(variable).ok().and_then(|text| text.parse().ok());
            set.or(told.map(usize::from)).filter(|&size| size > 0).unwrap_or(default)
        };
        Size {
            rows: size("LINES", told.map(|size| size.ws_row), 24),
            columns: size("COLUMNS", told.map(|size| size.ws_col), 80),
        }
    }

    /// That of standard output: of a terminal, or without bounds.
    pub(crate) fn of_output() -> Size {
        if std::io::stdout().is_terminal() { Size::of_terminal() } else { Size::UNBOUNDED }
    }

    /// Rows that lines take on a terminal that wraps.
    pub(crate) fn rows_of(self, lines: &[String]) -> usize {
        lines.iter().map(|line| line.chars().count().div_ceil(self.columns.max(1)).max(1)).sum()
    }

    /// So much of the lines as fits, with one row left for the cursor; the last line says how many are not
    /// shown.
    pub(crate) fn fitted(self, mut lines: Vec<String>) -> Vec<String> {
        let most = self.rows.saturating_sub(1).max(1);
        if lines.len() > most {
            let hidden = lines.len() - (most - 1);
            lines.truncate(most - 1);
            lines.push(format!("{hidden} more lines need a higher terminal"));
        }
        for line in &mut lines {
            if let Some((end, _)) = line.char_indices().nth(self.columns) {
                line.truncate(end);
            }
        }
        lines
    }
}

/// Widths of names: where there is room, as wide as the longest.
const NAME: std::ops::RangeInclusive<usize> = 8..=40;

/// Columns beside the name, the widest table of the three.
const BESIDE_NAME: usize = 66;

/// An account, and what the launcher runs at that time.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) account: &'a Account,
    pub(crate) guests: &'a [ContainerAccount],
}

/// Rates of ports and functions since the account before, as lines.
pub(crate) fn lines(shown: Shown<'_>, before: Option<Shown<'_>>, size: Size) -> Vec<String> {
    let Shown { account, guests } = shown;
    let last = before.map(|before| before.account);
    let seconds = last.map_or(0.0, |last| account.at.nanos.since(last.at.nanos).as_secs_f64());
    let rate =
        |now: u64, before: u64| if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 };
    let names = account.ports.iter().map(|port| &port.name);
    let names = names.chain(account.instances.iter().map(|instance| &instance.name));
    let longest = names.chain(guests.iter().map(|guest| &guest.name)).map(|name| name.len());
    let room = size.columns.saturating_sub(BESIDE_NAME).clamp(*NAME.start(), *NAME.end());
    let width = longest.max().unwrap_or(0).clamp(*NAME.start(), room);
    let mut lines = vec![String::new()];
    lines.push(format!(
        "{:<width$} {:>9} {:>9} {:>9} {:>9} {:>9} {}",
        "port", "in pkt/s", "in bit/s", "out pkt/s", "out bit/s", "dropped", "status"
    ));
    for port in &account.ports {
        let before = last.and_then(|last| last.ports.iter().find(|other| other.name == port.name));
        let of = |field: fn(&PortAccount) -> u64| rate(field(port), before.map_or(0, field));
        let status = match &port.status {
            PortStatus::Up => "up".to_owned(),
            PortStatus::Finished => "finished".to_owned(),
            PortStatus::Down(reason) => format!("down: {reason}"),
        };
        lines.push(format!(
            "{} {:>9} {:>9} {:>9} {:>9} {:>9} {status}",
            shortened(&port.name, width),
            short(of(|port| port.counters.ledger.received + port.counters.ledger.generated)),
            short(of(|port| port.counters.received_bytes) * 8.0),
            short(of(|port| port.counters.ledger.delivered)),
            short(of(|port| port.counters.delivered_bytes) * 8.0),
            count(port.counters.ledger.dropped.total()),
        ));
    }
    // Of one core: the counter runs at one rate on all of them.
    let core = last.map_or(0, |last| account.at.cycles.since(last.at.cycles).0);
    let percent = |cycles: u64| if core > 0 { cycles as f64 * 100.0 / core as f64 } else { 0.0 };
    lines.push(format!(
        "{:<width$} {:>8} {:>8} {:>7} {:>6} {:>8} {:>6} {:>8} {}",
        "function", "pkt/s", "bit/s", "cyc/pkt", "cpu", "promised", "queue", "dropped", "state"
    ));
    for instance in &account.instances {
        let before = last.and_then(|last| last.instances.iter().find(|other| other.name == instance.name));
        let of = |field: fn(&InstanceAccount) -> u64| field(instance).saturating_sub(before.map_or(0, field));
        let packets = of(|instance| instance.packets);
        let used = of(|instance| instance.cycles.0);
        lines.push(format!(
            "{} {:>8} {:>8} {:>7} {:>5.1}% {:>7.1}% {:>6} {:>8} {}",
            shortened(&instance.name, width),
            short(if seconds > 0.0 { packets as f64 / seconds } else { 0.0 }),
            short(if seconds > 0.0 { of(|instance| instance.bytes) as f64 * 8.0 / seconds } else { 0.0 }),
            used.checked_div(packets).map_or("-".to_owned(), |cycles| cycles.to_string()),
            percent(used),
            instance.promised * 100.0,
            instance.queue,
            count(instance.ledger.dropped.total()),
            state(instance, of(|instance| instance.throttled.0) > 0)
        ));
    }
    // What the launcher runs is no function of a worker: of a core it has what the engine does for its
    // packets, and what its processes use.
    if !guests.is_empty() {
        lines.push(format!(
            "{:<width$} {:>6} {:>6} {:>6} {:>6} {:>6} {:>8} {:>5} {:>7} {}",
            "guest", "pkt/s", "bit/s", "engine", "procs", "cpu", "promised", "queue", "dropped", "state"
        ));
    }
    for guest in guests {
        let before = before.and_then(|before| before.guests.iter().find(|other| other.name == guest.name));
        let of = |field: fn(&ContainerAccount) -> u64| rate(field(guest), before.map_or(0, field));
        let used = |field: fn(&ContainerAccount) -> u64| {
            percent(field(guest).saturating_sub(before.map_or(0, field)))
        };
        let (engine, processes) = (used(|guest| guest.engine.0), used(|guest| guest.processes.0));
        lines.push(format!(
            "{} {:>6} {:>6} {:>5.1}% {:>5.1}% {:>5.1}% {:>8} {:>5} {:>7} {}",
            shortened(&guest.name, width),
            short(of(|guest| guest.packets)),
            short(of(|guest| guest.bytes) * 8.0),
            engine,
            processes,
            engine + processes,
            guest.worker.map_or("-".to_owned(), |_| format!("{:.1}%", guest.promised * 100.0)),
            guest.queue,
            count(guest.dropped.total()),
            in_words(guest)
        ));
    }
    for (number, worker) in account.workers.iter().enumerate() {
        let before = last.and_then(|last| last.workers.get(number).copied()).unwrap_or_default();
        let asleep = percent(worker.asleep.since(before.asleep).0);
        lines.push(format!(
            "{:<width$} {:.1}% awake, {:.1}% overhead, {:.1}% withheld by the host",
            format!("worker {number}"),
            (100.0 - asleep).max(0.0),
            percent(worker.overhead.since(before.overhead).0),
            percent(worker.withheld.since(before.withheld).0),
        ));
    }
    lines
}

/// A name in so many columns.
pub(crate) fn shortened(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return format!("{name:<width$}");
    }
    // The end of a name tells it from its neighbours as often as its beginning.
    let characters: Vec<char> = name.chars().collect();
    let (head, tail) = ((width - 1).div_ceil(2), (width - 1) / 2);
    let tail = &characters[characters.len() - tail..];
    characters[..head].iter().chain(['~'].iter()).chain(tail).collect()
}

/// How a function is, in a few words.
fn state(instance: &InstanceAccount, throttled: bool) -> String {
    let mut words = Vec::new();
    if instance.faults > 0 && instance.down.is_none() {
        words.push(format!("{} faults", instance.faults));
    }
    if throttled {
        words.push("held back by a cap".to_owned());
    }
    match &instance.down {
        Some(reason) => words.insert(0, format!("down: {reason}")),
        None if instance.paused => words.insert(0, "paused".to_owned()),
        // What is not as usual stands alone: there is little room for it.
        None if words.is_empty() => words.push("running".to_owned()),
        None => {}
    }
    words.join(", ")
}

/// A number with three digits and a unit prefix.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => return format!("{v:.0}"),
    };
    match scaled {
        v if v < 9.995 => format!("{v:.2}{unit}"),
        v if v < 99.95 => format!("{v:.1}{unit}"),
        v => format!("{v:.0}{unit}"),
    }
}

/// A count: exact as long as it fits into a column.
fn count(value: u64) -> String {
    if value < 100_000_000 { value.to_string() } else { short(value as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::WorkerTime;
    use telemetry::clock::{Cycles, Moment, Nanos};
    use telemetry::{Latencies, Ledger};

    fn instance(name: &str, packets: u64) -> InstanceAccount {
        InstanceAccount {
            name: name.to_owned(),
            ledger: Ledger::default(),
            packets,
            bytes: packets * 1500,
            calls: packets / 32,
            faults: 0,
            restarts: 0,
            missed: 0,
            cycles: Cycles(packets * 120),
            promised: 1.0,
            throttled: Cycles(0),
            overruns: 0,
            suspensions: 0,
            memory: 0,
            memory_place: 0,
            paused: false,
            frozen: false,
            worker: 0,
            queue: 123_456,
            in_flight: 0,
            down: None,
            own_drops: Vec::new(),
            counters: Vec::new(),
            latencies: Latencies::default(),
            report: None,
        }
    }

    fn port(name: &str, packets: u64) -> PortAccount {
        let mut port = PortAccount {
            name: name.to_owned(),
            status: PortStatus::Up,
            counters: port::PortCounters::default(),
            in_flight: 0,
            details: Vec::new(),
            latencies: Latencies::default(),
        };
        port.counters.ledger.received = packets;
        port.counters.received_bytes = packets * 1500;
        port
    }

    /// After so many seconds, with so many packets.
    fn account(seconds: u64, packets: u64) -> Account {
        Account {
            at_one_moment: true,
            at: Moment { cycles: Cycles(seconds * 2_600_000_000), nanos: Nanos(seconds * 1_000_000_000) },
            ledger: Ledger::default(),
            in_flight: 0,
            ports: vec![port("lan", packets), port("the-port-with-a-long-name-0", packets)],
            instances: vec![
                instance("edge_firewall", packets),
                instance("monitor-of-all-the-flows-1", packets),
            ],
            switches: Vec::new(),
            devices: Vec::new(),
            port_devices: Vec::new(),
            workers: vec![WorkerTime { overhead: Cycles(2_000_000_000 * seconds), ..WorkerTime::default() }],
            pools: Vec::new(),
        }
    }

    #[test]
    fn the_table_fits_the_terminal_and_says_what_does_not() {
        let (before, now) = (account(1, 10), account(2, 9_876_543));
        let guest = |packets| ContainerAccount {
            name: "ids".into(),
            packets,
            engine: Cycles(packets * 26),
            processes: Cycles(packets * 104),
            state: "running",
            ..ContainerAccount::default()
        };
        let beside = ContainerAccount { promised: 0.7, worker: Some(0), ..guest(5_000_000) };
        let (guests_before, guests) = ([guest(0)], [beside]);
        let before = Shown { account: &before, guests: &guests_before };
        let now = Shown { account: &now, guests: &guests };
        for columns in [80, 100, 132] {
            let size = Size { rows: 24, columns };
            let table = size.fitted(lines(now, Some(before), size));
            assert_eq!(table.len(), 10, "a blank line, three heads, two ports, three functions, a worker");
            assert_eq!(size.rows_of(&table), table.len());
            // Nothing had to be cut.
            assert_eq!(table, lines(now, Some(before), size), "{columns}");
            assert!(table[5].contains(" 9.88M ") && table[5].ends_with(" running"), "{table:#?}");
            let words: Vec<&str> = table[8].split_whitespace().collect();
            let all = ["ids", "5.00M", "0", "5.0%", "20.0%", "25.0%", "70.0%", "0", "0", "running"];
            assert_eq!(words, all);
        }
        assert!(
            lines(now, None, Size { rows: 24, columns: 132 })[6].starts_with("monitor-of-all-the-flows-1 ")
        );
        let narrow = Size { rows: 6, columns: 40 };
        let table = narrow.fitted(lines(now, Some(before), narrow));
        assert_eq!((table.len(), narrow.rows_of(&table)), (5, 5), "one row is left for the cursor");
        assert_eq!(table[4], "6 more lines need a higher terminal");
        assert!(table.iter().all(|line| line.chars().count() <= 40), "{table:#?}");
    }

    #[test]
    fn rows_are_counted_as_the_terminal_wraps_lines() {
        let lines = ["", "0123456789", "01234567890", "ü123456789"].map(str::to_owned);
        assert_eq!(Size { rows: 24, columns: 10 }.rows_of(&lines), 1 + 1 + 2 + 1);
        assert_eq!(Size { rows: 24, columns: 5 }.rows_of(&lines), 1 + 2 + 3 + 2);
        assert_eq!(Size { rows: 24, columns: 0 }.rows_of(&lines), 1 + 10 + 11 + 10);
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("short", 8), "short   ");
        assert_eq!(shortened("monitor-of-flows-1", 8), "moni~s-1");
        assert_eq!(shortened("monitor-of-flows-1", 18), "monitor-of-flows-1");
    }

    #[test]
    fn numbers_are_short() {
        for (value, shown) in [
            (0.0, "0"),
            (999.0, "999"),
            (1500.0, "1.50k"),
            (15_000.0, "15.0k"),
            (999_999.0, "1000k"),
            (9.41e9, "9.41G"),
        ] {
            assert_eq!(short(value), shown);
        }
        assert_eq!((count(99_999_999), count(123_456_789)), ("99999999".to_owned(), "123M".to_owned()));
    }
}
