//! `superfluid events` and `superfluid function logs`: lines as they come.

use super::failure::{Done, Failure, print};
use super::get::not_found;
use super::options::{EventsOptions, LogsOptions};
use crate::Outcome;
use crate::output::{Format, Listing};
use api::{Event, Happened, Kind, LogLine, PastEvent};
use client::harmless;
use serde_json::{Value, json};
use std::collections::HashSet;

/// Longest text of a line that is shown, in characters.
const LONGEST: usize = 4000;

/// Most past events that are asked for.
const MOST_PAST: u64 = 8192;

pub(crate) fn events(options: &EventsOptions) -> Done {
    let client = options.connection.client()?;
    let format = options.shown.output;
    // Followed before the past is asked for, so that nothing is missed between the two.
    let events = match options.since.is_none() || options.follow {
        true => Some(client.events(options.after, options.follow)?),
        false => None,
    };
    let mut told = Told::default();
    if let Some(since) = options.since {
        let past = client.past_events(since.as_secs().max(1), options.limit.or(Some(MOST_PAST)))?;
        if !matches!(format, Format::Json | Format::Yaml) {
            print(&harmless_line(&format!("all since {}", past.since)))?;
        }
        for event in past.items {
            print(&past_line(&event, format))?;
            told.past(event);
        }
    }
    for event in events.into_iter().flatten() {
        let event = event?;
        if told.has(&event) {
            continue;
        }
        if let Event::Gone { oldest, newest } = event {
            let wrong = format!(
                "the events went by too fast: those after revision {oldest} can still be asked for, the last is {newest}"
            );
            return Err(Failure::new(wrong, Outcome::Failed));
        }
        if let Some(line) = event_line(&event, format) {
            print(&line)?;
        }
    }
    ended(options.follow)
}

/// Past events that were told, among which those may be that come first of what is followed.
#[derive(Default)]
struct Told {
    /// The last revision.
    revision: u64,
    notices: HashSet<(String, Kind, String, String)>,
}

impl Told {
    fn past(&mut self, event: PastEvent) {
        match event.revision {
            Some(revision) => self.revision = self.revision.max(revision),
            None => drop(self.notices.insert((event.time, event.kind, event.name, event.what))),
        }
    }

    fn has(&self, event: &Event) -> bool {
        match event {
            Event::Changed { revision, .. } => *revision <= self.revision,
            Event::Notice { time, kind, name, what, .. } => {
                self.notices.contains(&(time.clone(), *kind, name.clone(), what.clone()))
            }
            _ => false,
        }
    }
}

/// A line for what was, with its end: as for an event, with the time.
fn past_line(event: &PastEvent, format: Format) -> String {
    let PastEvent { time, age_ms, kind, name, what, text, revision } = event;
    if matches!(format, Format::Json | Format::Yaml) {
        let mut shown = json!({"time": time, "age_ms": age_ms, "kind": kind, "name": name});
        let more = match revision {
            Some(revision) => json!({"event": "changed", "revision": revision, "happened": what}),
            None => json!({"event": "notice", "what": what, "text": text}),
        };
        if let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), more) {
            shown.extend(more);
        }
        return streamed(shown, format);
    }
    harmless_line(&match (revision, text) {
        (Some(revision), _) => format!("{time} {revision} {kind}/{name} {what}"),
        (None, text) => format!("{time} {kind}/{name} {what}: {}", text.as_deref().unwrap_or_default()),
    })
}

fn harmless_line(text: &str) -> String {
    format!("{}\n", harmless(text, LONGEST))
}

/// A stream that is followed ends when the daemon does.
pub(super) fn ended(followed: bool) -> Done {
    match followed {
        true => Err(Failure::new("the daemon ended the stream", Outcome::Failed)),
        false => Ok(Outcome::Done),
    }
}

/// A line for an event, with its end. That nothing happens is nothing to tell people.
fn event_line(event: &Event, format: Format) -> Option<String> {
    if matches!(format, Format::Json | Format::Yaml) {
        return Some(streamed(json!(event), format));
    }
    let line = match event {
        Event::Changed { revision, kind, name, happened } => {
            let what = match happened {
                Happened::Put => "put",
                Happened::Deleted => "deleted",
            };
            format!("{revision} {kind}/{name} {what}")
        }
        Event::Notice { time, kind, name, what, text } => format!("{time} {kind}/{name} {what}: {text}"),
        Event::Lost { notices } => format!("{notices} notices were lost"),
        Event::Alive { .. } | Event::Gone { .. } => return None,
    };
    Some(harmless_line(&line))
}

/// An object of a stream: a line of JSON, or an item of a YAML list that goes on.
pub(crate) fn streamed(value: Value, format: Format) -> String {
    match format {
        Format::Yaml => {
            let mut listing = Listing::new(&[], &[]);
            listing.add(Vec::new(), value);
            listing.shown(format)
        }
        _ => format!("{}\n", printable::json(&value.to_string())),
    }
}

pub(crate) fn logs(options: &LogsOptions) -> Done {
    let client = options.connection.client()?;
    let limit = options.limit.or((!options.follow).then_some(10_000));
    let lines = client
        .logs(&options.name, options.after, limit, options.follow)
        .map_err(|error| not_found(&client, Kind::Function, &options.name, error))?;
    let mut before = options.after;
    for line in lines {
        let line = line?;
        let format = options.shown.output;
        if matches!(format, Format::Json | Format::Yaml) {
            print(&streamed(json!(line), format))?;
        } else {
            if before > 0 && line.number > before + 1 {
                print(&format!("... {} lines are no longer kept\n", line.number - before - 1))?;
            }
            print(&format!("{}\n", log_line(&line)))?;
        }
        before = line.number;
    }
    ended(options.follow)
}

/// A line of a log for people.
pub(crate) fn log_line(line: &LogLine) -> String {
    harmless(&format!("{} {}: {}", line.time, line.severity, line.text), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_is_told_once() {
        let past = |what: &str, text: Option<&str>, revision| PastEvent {
            time: "T".to_owned(),
            age_ms: 5,
            kind: Kind::Port,
            name: "lan".to_owned(),
            what: what.to_owned(),
            text: text.map(str::to_owned),
            revision,
        };
        let (put, down) = (past("put", None, Some(7)), past("down", Some("\u{1b}[2J"), None));
        assert_eq!(past_line(&put, Format::Table), "T 7 port/lan put\n");
        assert_eq!(past_line(&down, Format::Wide), "T port/lan down: \\u{1b}[2J\n");
        let read = |event: &PastEvent| {
            serde_json::from_str::<Event>(&past_line(event, Format::Json)).expect("an event")
        };
        let (changed, notice) = (read(&put), read(&down));
        let mut told = Told::default();
        assert!(!told.has(&changed) && !told.has(&notice));
        told.past(put);
        told.past(down);
        assert!(told.has(&changed) && told.has(&notice));
        let next =
            Event::Changed { revision: 8, kind: Kind::Port, name: "lan".to_owned(), happened: Happened::Put };
        assert!(!told.has(&next) && !told.has(&Event::Lost { notices: 1 }));
    }

    #[test]
    fn events_are_lines() {
        let changed = Event::Changed {
            revision: 7,
            kind: Kind::Function,
            name: "fw".to_owned(),
            happened: Happened::Deleted,
        };
        let line = |event: &Event, format| event_line(event, format).expect("told");
        assert_eq!(line(&changed, Format::Table), "7 function/fw deleted\n");
        let json = "{\"event\":\"changed\",\"revision\":7,\"kind\":\"function\",\"name\":\"fw\",\"happened\":\"deleted\"}\n";
        assert_eq!(line(&changed, Format::Json), json);
        assert!(line(&changed, Format::Yaml).starts_with("- event: \"changed\"\n  revision: 7\n"));
        let text = |text: &str| text.to_owned();
        let notice = Event::Notice {
            time: text("T"),
            kind: Kind::Port,
            name: text("lan"),
            what: text("down"),
            text: text("\u{1b}[2J"),
        };
        assert_eq!(line(&notice, Format::Wide), "T port/lan down: \\u{1b}[2J\n");
        assert_eq!(streamed(json!("\u{202e}"), Format::Json), "\"\\u202e\"\n");
        assert_eq!(streamed(json!("\u{202e}"), Format::Yaml), "- \"\\u202e\"\n");
        assert_eq!(event_line(&Event::Alive { revision: 7 }, Format::Table), None);
        assert!(event_line(&Event::Alive { revision: 7 }, Format::Json).is_some());
    }
}
