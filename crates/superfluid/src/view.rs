//! Accounts and events for people: a table that is drawn over itself on a terminal, and the final account.

use crate::event_log::Written;
use crate::json;
use capture::Summary;
use engine::{Account, Event, InstanceAccount, PortAccount, SwitchAccount};
use guest::Events;
use port::{PortEvent, PortStatus};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use telemetry::Ledger;

/// Most events that are shown at a time, ten times in a second.
const SHOWN_EVENTS: usize = 3;

/// What shows a worker at work.
pub(crate) struct View {
    json: bool,
    terminal: bool,
    /// Lines of the table on the screen, to be drawn over.
    drawn: usize,
    last: Option<Account>,
}

impl View {
    pub(crate) fn new(json: bool) -> View {
        View { json, terminal: std::io::stdout().is_terminal(), drawn: 0, last: None }
    }

    /// Says that packets pass from now on.
    pub(crate) fn started(&mut self, file: &Path) {
        let file = file.display();
        if self.json {
            self.print(&format!("{}\n", serde_json::json!({ "event": "running", "file": file.to_string() })));
        } else {
            self.print(&format!("running {file}; Ctrl-C stops\n"));
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if self.json {
            return self.print(&format!("{}\n", json::event(event)));
        }
        let line = match event {
            Event::Fault { instance, reason, retry_after } => {
                format!("{instance}: {reason}; starting again in {:.0} ms", retry_after.as_secs_f64() * 1e3)
            }
            Event::Restarted { instance } => format!("{instance}: started again"),
            Event::Log { instance, line } => {
                format!("{instance}: {}: {}", json::severity(line.severity), line.text)
            }
            Event::Found { instance, events } => found(instance, events),
            Event::Port { port, event: PortEvent::WentDown(text) } => format!("port {port}: down: {text}"),
            Event::Port { port, event: PortEvent::CameUp(text) } => format!("port {port}: up: {text}"),
            Event::Port { port, event: PortEvent::Notice(text) } => format!("port {port}: {text}"),
            Event::Finished => "finished: no port has anything more to give".to_owned(),
        };
        self.say(&line);
    }

    /// Where rates are counted from.
    pub(crate) fn begin(&mut self, account: Account) {
        self.last = Some(account);
    }

    /// A line above the table.
    pub(crate) fn say(&mut self, line: &str) {
        if self.json {
            return;
        }
        let clear = self.over();
        self.drawn = 0;
        self.print(&format!("{clear}{line}\n"));
    }

    /// The state of things, and rates since the last time.
    pub(crate) fn show(&mut self, account: &Account) {
        if self.json {
            self.print(&format!("{}\n", json::account("account", account)));
        } else {
            let table = table(account, self.last.as_ref());
            let clear = self.over();
            self.drawn = table.lines().count();
            self.print(&format!("{clear}{table}"));
        }
        self.last = Some(account.clone());
    }

    /// What takes the cursor back to where the table began.
    fn over(&self) -> String {
        if self.terminal && self.drawn > 0 { format!("\x1b[{}A\x1b[J", self.drawn) } else { String::new() }
    }

    fn print(&self, text: &str) {
        console::output().write(text);
    }
}

/// The first few of the events of a function that has no file for them.
fn found(instance: &str, events: &Events) -> String {
    let mut lines: Vec<_> =
        events.lines.iter().take(SHOWN_EVENTS).map(|line| format!("{instance}: {line}")).collect();
    let more = events.lines.len().saturating_sub(SHOWN_EVENTS) as u64 + events.lost;
    if more > 0 {
        lines.push(format!("{instance}: {more} more; `events: FILE` of this function keeps all"));
    }
    lines.join("\n")
}

/// What became of events that went into files.
pub(crate) fn events_written(written: &[(String, PathBuf, Written)]) -> String {
    let mut text = String::new();
    for (function, path, written) in written {
        let _ = write!(text, "{function}: {} events written to {}", written.events, path.display());
        if written.lost > 0 {
            let _ = write!(text, ", {} lost", written.lost);
        }
        match &written.error {
            Some(error) => text.push_str(&format!(": {error}\n")),
            None => text.push('\n'),
        }
    }
    text
}

/// What became of captures.
pub(crate) fn captured(captures: &[(String, Summary)]) -> String {
    let mut text = String::new();
    for (hop, summary) in captures {
        let _ = write!(text, "{hop}: {} packets captured in {}", summary.written, summary.path.display());
        if summary.lost > 0 {
            let _ = write!(text, ", {} not captured", summary.lost);
        }
        match &summary.ended {
            Some(why) => {
                let _ = writeln!(text, "; it ended: {why}");
            }
            None => text.push('\n'),
        }
    }
    text
}

/// Rates of ports and functions since the account before.
fn table(account: &Account, last: Option<&Account>) -> String {
    let seconds = last.map_or(0.0, |last| account.at.nanos.since(last.at.nanos).as_secs_f64());
    let rate =
        |now: u64, before: u64| if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 };
    let mut text = format!(
        "\n{:<18} {:>10} {:>12} {:>10} {:>12} {:>9} {:<8}\n",
        "port", "in pkt/s", "in bit/s", "out pkt/s", "out bit/s", "dropped", "status"
    );
    for port in &account.ports {
        let before = last.and_then(|last| last.ports.iter().find(|other| other.name == port.name));
        let of = |field: fn(&PortAccount) -> u64| rate(field(port), before.map_or(0, field));
        let status = match &port.status {
            PortStatus::Up => "up".to_owned(),
            PortStatus::Finished => "finished".to_owned(),
            PortStatus::Down(reason) => format!("down: {reason}"),
        };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "{:<18} {:>10} {:>12} {:>10} {:>12} {:>9} {:<8}",
            port.name,
            short(of(|port| port.counters.ledger.received + port.counters.ledger.generated)),
            short(of(|port| port.counters.received_bytes) * 8.0),
            short(of(|port| port.counters.ledger.delivered)),
            short(of(|port| port.counters.delivered_bytes) * 8.0),
            port.counters.ledger.dropped.total(),
            status
        );
    }
    // Of one core: the counter runs at one rate on all of them.
    let core = last.map_or(0, |last| account.at.cycles.since(last.at.cycles).0);
    let percent = |cycles: u64| if core > 0 { cycles as f64 * 100.0 / core as f64 } else { 0.0 };
    let _ = writeln!(
        text,
        "{:<18} {:>10} {:>12} {:>9} {:>7} {:>9} {:>7} {:>9} {:<8}",
        "function", "pkt/s", "bit/s", "cyc/pkt", "cpu", "promised", "queue", "dropped", "state"
    );
    for instance in &account.instances {
        let before = last.and_then(|last| last.instances.iter().find(|other| other.name == instance.name));
        let of = |field: fn(&InstanceAccount) -> u64| field(instance).saturating_sub(before.map_or(0, field));
        let packets = of(|instance| instance.packets);
        let used = of(|instance| instance.cycles.0);
        let _ = writeln!(
            text,
            "{:<18} {:>10} {:>12} {:>9} {:>6.1}% {:>8.1}% {:>7} {:>9} {:<8}",
            instance.name,
            short(if seconds > 0.0 { packets as f64 / seconds } else { 0.0 }),
            short(if seconds > 0.0 { of(|instance| instance.bytes) as f64 * 8.0 / seconds } else { 0.0 }),
            used.checked_div(packets).map_or("-".to_owned(), |cycles| cycles.to_string()),
            percent(used),
            instance.promised * 100.0,
            instance.queue,
            instance.ledger.dropped.total(),
            state(instance, of(|instance| instance.throttled.0) > 0)
        );
    }
    for (number, worker) in account.workers.iter().enumerate() {
        let before = last.and_then(|last| last.workers.get(number).copied()).unwrap_or_default();
        let asleep = percent(worker.asleep.since(before.asleep).0);
        let _ = writeln!(
            text,
            "{:<18} {:>5.1}% awake, {:.1}% of it for nobody, {:.1}% withheld by others",
            format!("worker {number}"),
            (100.0 - asleep).max(0.0),
            percent(worker.overhead.since(before.overhead).0),
            percent(worker.withheld.since(before.withheld).0),
        );
    }
    text
}

/// How a function is, in a few words.
fn state(instance: &InstanceAccount, throttled: bool) -> String {
    let mut words = vec![match &instance.down {
        Some(reason) => format!("down: {reason}"),
        None if instance.paused => "paused".to_owned(),
        None => "running".to_owned(),
    }];
    if instance.faults > 0 && instance.down.is_none() {
        words.push(format!("{} faults", instance.faults));
    }
    if throttled {
        words.push("held back by a cap".to_owned());
    }
    if instance.overruns > 0 {
        words.push(format!("{} calls over their slice", instance.overruns));
    }
    words.join(", ")
}

/// The account at the end: every packet, in words.
pub(crate) fn final_account(account: &Account) -> String {
    let mut text = String::from("\nfinal account\n");
    let Ledger { received, generated, copied, split, delivered, consumed, merged, dropped } = &account.ledger;
    let entered = received + generated + copied + split;
    let _ = writeln!(
        text,
        "  {entered} packets came to be: {received} received, {generated} generated, {copied} copied, {split} split"
    );
    let _ = writeln!(
        text,
        "  {} ended: {delivered} delivered, {consumed} consumed, {merged} merged, {} dropped; {} in flight",
        account.ledger.sinks(),
        dropped.total(),
        account.in_flight
    );
    let _ = match account.balance() {
        Ok(()) => writeln!(text, "  the account balances"),
        Err(imbalance) => writeln!(text, "  THE ACCOUNT DOES NOT BALANCE: {imbalance}"),
    };
    for port in &account.ports {
        let counters = &port.counters;
        let ledger = &counters.ledger;
        let _ = writeln!(
            text,
            "  port {}: {} in ({} bytes), {} out ({} bytes){}{}",
            port.name,
            ledger.received + ledger.generated,
            counters.received_bytes,
            ledger.delivered,
            counters.delivered_bytes,
            reasons(ledger),
            if counters.kernel_lost > 0 {
                format!("; {} lost in the kernel before they came here", counters.kernel_lost)
            } else {
                String::new()
            }
        );
        let details: Vec<String> =
            port.details.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
        if !details.is_empty() {
            let _ = writeln!(text, "    details: {}", details.join(", "));
        }
    }
    for switch in &account.switches {
        let _ = writeln!(text, "  {}", in_words(switch));
    }
    for instance in &account.instances {
        let _ = writeln!(
            text,
            "  function {}: {} packets ({} bytes) in {} calls{}{}{}",
            instance.name,
            instance.packets,
            instance.bytes,
            instance.calls,
            reasons(&instance.ledger),
            if instance.faults > 0 {
                format!("; {} faults, {} restarts", instance.faults, instance.restarts)
            } else {
                String::new()
            },
            if instance.missed > 0 { format!("; {} not seen", instance.missed) } else { String::new() },
        );
        for (what, counts) in [("drops", &instance.own_drops), ("counters", &instance.counters)] {
            let counts: Vec<String> =
                counts.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
            if !counts.is_empty() {
                let _ = writeln!(text, "    {what}: {}", counts.join(", "));
            }
        }
        if let Some(report) = &instance.report {
            let pretty = serde_json::from_str::<serde_json::Value>(report)
                .map_or_else(|_| report.escape_default().to_string(), |value| brief(&value, 0));
            for line in pretty.lines().take(LONGEST_REPORT) {
                let _ = writeln!(text, "    {line}");
            }
            let more = pretty.lines().count().saturating_sub(LONGEST_REPORT);
            if more > 0 {
                let _ = writeln!(text, "    ... {more} more lines; --json shows them all");
            }
        }
    }
    text
}

/// A switch: what it knows, and what it counted that is not nothing.
fn in_words(SwitchAccount { name, ports, counters }: &SwitchAccount) -> String {
    let counts = [
        (counters.flooded, "frames flooded"),
        (counters.returned, "returned"),
        (counters.reserved, "for reserved addresses"),
        (counters.no_source, "without a source"),
        (counters.learned, "addresses learned"),
        (counters.moved, "moved"),
        (counters.aged, "aged"),
        (counters.evicted, "evicted"),
        (counters.flushed, "flushed"),
        (counters.deferred, "deferred"),
    ];
    let mut text = format!("switch {name}: {ports} ports, {} stations known", counters.entries());
    for (n, (count, what)) in counts.iter().filter(|(count, _)| *count > 0).enumerate() {
        let _ = write!(text, "{} {count} {what}", if n == 0 { ";" } else { "," });
    }
    text
}

/// JSON with everything on one line that fits there.
fn brief(value: &serde_json::Value, depth: usize) -> String {
    use serde_json::Value;
    let compact = value.to_string();
    if compact.len() + 2 * depth <= WIDTH {
        return compact;
    }
    let inner = "  ".repeat(depth + 1);
    let outer = "  ".repeat(depth);
    let lines = |open: char, lines: Vec<String>, close: char| {
        format!("{open}\n{inner}{}\n{outer}{close}", lines.join(&format!(",\n{inner}")))
    };
    match value {
        Value::Array(items) => lines('[', items.iter().map(|item| brief(item, depth + 1)).collect(), ']'),
        Value::Object(fields) => {
            let field =
                |(key, value)| format!("{}: {}", Value::from(String::clone(key)), brief(value, depth + 1));
            lines('{', fields.iter().map(field).collect(), '}')
        }
        _ => compact,
    }
}

/// Width of a line of a report.
const WIDTH: usize = 110;

/// Most lines of a function's report that are shown.
const LONGEST_REPORT: usize = 60;

fn reasons(ledger: &Ledger) -> String {
    let reasons: Vec<String> =
        ledger.dropped.nonzero().map(|(reason, count)| format!("{count} {reason}")).collect();
    if reasons.is_empty() { String::new() } else { format!("; dropped: {}", reasons.join(", ")) }
}

/// A number with three digits and a unit prefix.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 1e9 => (v / 1e9, " G"),
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e3 => (v / 1e3, " k"),
        v => return format!("{v:.0}"),
    };
    format!("{scaled:.2}{unit}")
}

#[cfg(test)]
mod tests {
    use super::{brief, in_words, short};
    use engine::SwitchAccount;
    use virtual_switch::SwitchCounters;

    #[test]
    fn a_switch_is_told_without_what_did_not_happen() {
        let counters =
            SwitchCounters { learned: 5, aged: 1, evicted: 2, flooded: 7, moved: 3, ..Default::default() };
        let switch = SwitchAccount { name: "hall".into(), ports: 4, counters };
        let expected = "switch hall: 4 ports, 2 stations known; 7 frames flooded, 5 addresses learned, 3 moved, 1 aged, 2 evicted";
        assert_eq!(in_words(&switch), expected);
        let quiet = SwitchAccount { counters: SwitchCounters::default(), ..switch };
        assert_eq!(in_words(&quiet), "switch hall: 4 ports, 0 stations known");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(999.0), "999");
        assert_eq!(short(1500.0), "1.50 k");
        assert_eq!(short(9_410_000_000.0), "9.41 G");
    }

    #[test]
    fn reports_are_brief_and_still_json() {
        let long = serde_json::json!({ "a": vec!["x".repeat(30); 5], "b": { "c": 1, "d": [1, 2] } });
        let text = brief(&long, 0);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), long);
        assert!(text.lines().any(|line| line == r#"  "b": {"c":1,"d":[1,2]}"#), "{text}");
        assert!(text.lines().all(|line| line.len() < 120), "{text}");
    }
}
