//! `superfluid events` and `superfluid function logs`: lines as they come.

use super::failure::{Done, Failure, print};
use super::get::not_found;
use super::options::{EventsOptions, LogsOptions};
use crate::Outcome;
use crate::output::{Format, Listing};
use api::{Event, Happened, Kind, LogLine};
use client::harmless;
use serde_json::{Value, json};

/// Longest text of a line that is shown, in characters.
const LONGEST: usize = 4000;

pub(crate) fn events(options: &EventsOptions) -> Done {
    let client = options.connection.client()?;
    let events = client.events(options.after, options.follow)?;
    for event in events {
        let event = event?;
        if let Event::Gone { oldest, newest } = event {
            let wrong = format!(
                "the events went by too fast: those after revision {oldest} can still be asked for, the last is {newest}"
            );
            return Err(Failure::new(wrong, Outcome::Failed));
        }
        if let Some(line) = event_line(&event, options.shown.output) {
            print(&line)?;
        }
    }
    ended(options.follow)
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
    Some(format!("{}\n", harmless(&line, LONGEST)))
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
