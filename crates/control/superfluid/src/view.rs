//! Accounts and events for people: a table that is drawn over itself on a terminal, and the final account.

use crate::event_json;
use crate::event_log::Written;
use crate::live_table::{self, Shown, Size};
use crate::run_guests::in_words as state_of;
use capture::Summary;
use engine::{Account, Event, SwitchAccount};
use guest::Events;
use metrics::json::ContainerAccount;
use port::PortEvent;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use telemetry::clock::{Cycles, Moment};
use telemetry::{DropCounters, Ledger};

/// Most events that are shown at a time, ten times in a second.
const SHOWN_EVENTS: usize = 3;

/// What shows a worker at work.
pub(crate) struct View {
    json: bool,
    terminal: bool,
    /// The table on the screen, to be drawn over.
    drawn: Vec<String>,
    last: Option<(Account, Vec<ContainerAccount>)>,
}

impl View {
    pub(crate) fn new(json: bool) -> View {
        View { json, terminal: std::io::stdout().is_terminal(), drawn: Vec::new(), last: None }
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
            return self.print(&format!("{}\n", printable::json(&event_json::event(event).to_string())));
        }
        let line = match event {
            Event::Fault { instance, reason, retry_after } => {
                format!("{instance}: {reason}; starting again in {:.0} ms", retry_after.as_secs_f64() * 1e3)
            }
            Event::Restarted { instance } => format!("{instance}: started again"),
            Event::Log { instance, line } => {
                format!("{instance}: {}: {}", line.severity_name(), line.text)
            }
            Event::Found { instance, events } => found(instance, events),
            Event::Port { port, event: PortEvent::WentDown(text) } => format!("port {port}: down: {text}"),
            Event::Port { port, event: PortEvent::CameUp(text) } => format!("port {port}: up: {text}"),
            Event::Port { port, event: PortEvent::Notice(text) } => format!("port {port}: {text}"),
            Event::Asked { instance, asks } => format!("{instance}: asks for {} addresses", asks.len()),
        };
        self.say(&line);
    }

    /// Says that nothing more comes.
    pub(crate) fn finished(&mut self) {
        if self.json {
            self.print(&format!("{}\n", serde_json::json!({ "event": "finished" })));
        } else {
            self.say("finished: no port has anything more to give");
        }
    }

    /// Where rates are counted from.
    pub(crate) fn begin(&mut self, account: Account, guests: Vec<ContainerAccount>) {
        self.last = Some((account, guests));
    }

    /// A line above the table.
    pub(crate) fn say(&mut self, line: &str) {
        if self.json {
            return;
        }
        let clear = self.over();
        // The table stands below it again at once, and not only when the next one is due.
        let table: String = self.drawn.iter().map(|line| format!("{line}\n")).collect();
        let table = if self.terminal { table } else { String::new() };
        self.print(&format!("{clear}{}\n{table}", printable::lines(line)));
    }

    /// The state of things, and rates since the last time.
    pub(crate) fn show(&mut self, account: Account, guests: Vec<ContainerAccount>) {
        if self.json {
            self.print(&format!(
                "{}\n",
                printable::json(&metrics::json::account("account", &account, &guests))
            ));
        } else {
            let size = if self.terminal { Size::of_terminal() } else { Size::UNBOUNDED };
            let last = self.last.as_ref().map(|(account, guests)| Shown { account, guests });
            let lines = live_table::lines(Shown { account: &account, guests: &guests }, last, size);
            let table = size.fitted(lines.iter().map(|line| printable::harmless(line, usize::MAX)).collect());
            let clear = self.over();
            self.print(&format!("{clear}{}\n", table.join("\n")));
            self.drawn = table;
        }
        self.last = Some((account, guests));
    }

    /// What takes the cursor back to where the table began.
    fn over(&self) -> String {
        if !self.terminal || self.drawn.is_empty() {
            return String::new();
        }
        // The terminal may be narrower now than when the table was drawn; its lines take more rows then.
        format!("\x1b[{}A\r\x1b[J", Size::of_terminal().rows_of(&self.drawn))
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

/// The account at the end: every packet, in words, and what guests of the launcher have done since a moment;
/// the brief one without what ports and functions tell of themselves.
pub(crate) fn final_account(
    account: &Account,
    (guests, since): (&[ContainerAccount], Moment),
    brief_one: bool,
) -> String {
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
            reasons(&ledger.dropped),
            if counters.kernel_lost > 0 {
                format!("; {} lost in the kernel before they came here", counters.kernel_lost)
            } else {
                String::new()
            }
        );
        let details: Vec<String> =
            port.details.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
        if !details.is_empty() && !brief_one {
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
            reasons(&instance.ledger.dropped),
            if instance.faults > 0 {
                format!("; {} faults, {} restarts", instance.faults, instance.restarts)
            } else {
                String::new()
            },
            if instance.missed > 0 { format!("; {} not seen", instance.missed) } else { String::new() },
        );
        if brief_one {
            continue;
        }
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
    let core = account.at.cycles.since(since.cycles);
    for guest in guests {
        guest_in_words(guest, core, &mut text);
    }
    printable::lines(&text).into_owned()
}

/// A guest of the launcher: its packets, and what of one core and of its memory it has, over so many cycles.
fn guest_in_words(guest: &ContainerAccount, core: Cycles, text: &mut String) {
    let _ = writeln!(
        text,
        "  guest {}: {} packets ({} bytes){}{}",
        guest.name,
        guest.packets,
        guest.bytes,
        reasons(&guest.dropped),
        if guest.faults > 0 {
            format!("; {} faults, {} restarts", guest.faults, guest.restarts)
        } else {
            String::new()
        },
    );
    let percent = |used: u64| if core.0 > 0 { used as f64 * 100.0 / core.0 as f64 } else { 0.0 };
    let (engine, processes) = (percent(guest.engine.0), percent(guest.processes.0));
    let _ = write!(
        text,
        "    {:.1}% of a core: {engine:.1}% for its packets, {processes:.1}% by its processes",
        engine + processes
    );
    let _ = match guest.worker {
        Some(worker) => {
            writeln!(text, "; promised {:.1}% of worker {worker}'s", guest.promised * 100.0)
        }
        None => writeln!(text, "; promised nothing: it has no `worker`"),
    };
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let _ = writeln!(text, "    {} MiB of memory, of at most {}", mib(guest.memory), mib(guest.memory_limit));
    if guest.state != "running" {
        let _ = writeln!(text, "    {}", state_of(guest));
    }
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
    let compact = printable::json(&value.to_string()).into_owned();
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
            let field = |(key, value)| {
                let key = Value::from(String::clone(key)).to_string();
                format!("{}: {}", printable::json(&key), brief(value, depth + 1))
            };
            lines('{', fields.iter().map(field).collect(), '}')
        }
        _ => compact,
    }
}

/// Width of a line of a report.
const WIDTH: usize = 110;

/// Most lines of a function's report that are shown.
const LONGEST_REPORT: usize = 60;

fn reasons(dropped: &DropCounters) -> String {
    let reasons: Vec<String> = dropped.nonzero().map(|(reason, count)| format!("{count} {reason}")).collect();
    if reasons.is_empty() { String::new() } else { format!("; dropped: {}", reasons.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::{brief, guest_in_words, in_words};
    use engine::SwitchAccount;
    use metrics::json::ContainerAccount;
    use telemetry::DropReason;
    use telemetry::clock::Cycles;
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
    fn a_guest_is_told_with_what_it_was_promised_and_got_apart_and_together() {
        let mut guest = ContainerAccount {
            name: "ids".into(),
            state: "running",
            packets: 7,
            bytes: 700,
            engine: Cycles(60),
            processes: Cycles(240),
            promised: 0.7,
            worker: Some(0),
            memory: 5 << 20,
            memory_limit: 64 << 20,
            ..ContainerAccount::default()
        };
        let told = |guest: &ContainerAccount| {
            let mut text = String::new();
            guest_in_words(guest, Cycles(1000), &mut text);
            text
        };
        let share = "    30.0% of a core: 6.0% for its packets, 24.0% by its processes";
        assert_eq!(
            told(&guest),
            format!(
                "  guest ids: 7 packets (700 bytes)\n{share}; promised 70.0% of worker 0's\n    5 MiB of memory, of at most 64\n"
            )
        );
        guest.dropped[DropReason::PortDown] = 2;
        (guest.faults, guest.restarts, guest.worker) = (3, 2, None);
        (guest.state, guest.reason) = ("down", Some("signal 9 ended it".into()));
        let text = told(&guest);
        assert!(
            text.starts_with(
                "  guest ids: 7 packets (700 bytes); dropped: 2 port-down; 3 faults, 2 restarts\n"
            )
        );
        assert!(text.contains(&format!("{share}; promised nothing: it has no `worker`\n")), "{text}");
        assert!(text.ends_with("\n    down: signal 9 ended it\n"), "{text}");
    }

    #[test]
    fn reports_are_brief_and_still_json() {
        let long = serde_json::json!({ "a": vec!["x".repeat(30); 5], "b": { "c": 1, "d": [1, 2] } });
        let text = brief(&long, 0);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), long);
        assert!(text.lines().any(|line| line == r#"  "b": {"c":1,"d":[1,2]}"#), "{text}");
        assert!(text.lines().all(|line| line.len() < 120), "{text}");
        for hidden in ["\u{202e}", "\u{2028}\u{9b}\u{feff}"] {
            let value = serde_json::json!({ format!("k{hidden}"): [hidden, "x".repeat(120)] });
            let text = brief(&value, 0);
            assert!(text.is_ascii(), "{text}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
        }
    }
}
