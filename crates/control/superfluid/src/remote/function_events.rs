//! `superfluid function events` and `superfluid function report`.

use super::events::{ended, streamed};
use super::failure::{Done, Failure, print};
use super::get::not_found;
use super::options::{FunctionEventsOptions, ReportOptions};
use crate::output::{Format, block, one};
use api::{FunctionEvent, FunctionEventKind, Kind};
use client::{Client, harmless};
use serde_json::{Value, json};

/// Longest text of a line that is shown, in characters.
const LONGEST: usize = 4000;
/// Events of each kind that `describe` shows.
const SHOWN: usize = 5;

pub(crate) fn events(options: &FunctionEventsOptions) -> Done {
    let client = options.connection.client()?;
    let limit = options.limit.or((!options.follow).then_some(10_000));
    let events = client
        .function_events(&options.name, options.after, limit, options.follow)
        .map_err(|error| not_found(&client, Kind::Function, &options.name, error))?;
    let mut before = options.after;
    for event in events {
        let event = event?;
        let format = options.shown.output;
        if matches!(format, Format::Json | Format::Yaml) {
            print(&streamed(json!(event), format))?;
        } else {
            if before > 0 && event.number > before + 1 {
                print("... events between these are no longer kept\n")?;
            }
            print(&event_lines(&event))?;
        }
        before = event.number;
    }
    ended(options.follow)
}

/// An event for people; of a text of several lines the others stand below it.
pub(crate) fn event_lines(event: &FunctionEvent) -> String {
    let FunctionEvent { time, text, alert, lost, .. } = event;
    let (what, told) = match event.what {
        FunctionEventKind::Alert => ("alert", alert.as_ref().map(shown).unwrap_or_default()),
        FunctionEventKind::Fault => ("fault", text.clone().unwrap_or_default()),
        FunctionEventKind::Restarted => ("restarted", text.clone().unwrap_or_default()),
        FunctionEventKind::Lost => ("lost", format!("{} alerts or log lines", lost.unwrap_or(0))),
    };
    let mut lines = told.lines();
    let first = format!("{time} {what}: {}", lines.next().unwrap_or_default());
    let others = lines.map(|line| format!("    {line}"));
    std::iter::once(first).chain(others).map(|line| format!("{}\n", harmless(&line, LONGEST))).collect()
}

/// What a function wrote: text as it is, all else as JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn report(options: &ReportOptions) -> Done {
    let client = options.connection.client()?;
    let report = client
        .report(&options.name)
        .map_err(|error| not_found(&client, Kind::Function, &options.name, error))?;
    let format = options.shown.output;
    if matches!(format, Format::Json | Format::Yaml) {
        return print(&one(&json!(report), format));
    }
    let mut text = match report.current {
        true => format!("reported {}\n", report.time),
        false => format!("reported {}; it cannot be asked now\n", report.time),
    };
    text.push_str(&match &report.report {
        Value::Object(entries) if !entries.is_empty() => block(entries, 1),
        other => format!("  {}\n", shown(other)),
    });
    let safe: String = text.lines().map(|line| format!("{}\n", harmless(line, LONGEST))).collect();
    print(&safe)
}

/// The last faults and the last alerts of a function, in lines for `describe`.
pub(crate) fn last(client: &Client, name: &str) -> Result<(Vec<String>, Vec<String>), Failure> {
    let all = client.function_events(name, 0, Some(10_000), false)?.collect::<Result<Vec<_>, _>>()?;
    let is_fault = |event: &&FunctionEvent| {
        matches!(event.what, FunctionEventKind::Fault | FunctionEventKind::Restarted)
    };
    let (faults, alerts): (Vec<&FunctionEvent>, Vec<_>) = all.iter().partition(is_fault);
    let lines = |events: &[&FunctionEvent]| -> Vec<String> {
        let last = &events[events.len().saturating_sub(SHOWN)..];
        last.iter()
            .flat_map(|event| event_lines(event).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    };
    Ok((lines(&faults), lines(&alerts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines_that_control_no_terminal() {
        let event = FunctionEvent {
            number: 1,
            time: "T".into(),
            what: FunctionEventKind::Fault,
            text: Some("it panicked at \u{1b}[2J\n0: inner\n1: outer".into()),
            alert: None,
            lost: None,
        };
        assert_eq!(event_lines(&event), "T fault: it panicked at \\u{1b}[2J\n    0: inner\n    1: outer\n");
        let of = |what, alert: Option<Value>, lost| {
            event_lines(&FunctionEvent { what, alert, lost, text: None, ..event.clone() })
        };
        assert_eq!(of(FunctionEventKind::Alert, Some(json!({"sid": 7})), None), "T alert: {\"sid\":7}\n");
        assert_eq!(of(FunctionEventKind::Alert, Some(json!("text")), None), "T alert: text\n");
        assert_eq!(of(FunctionEventKind::Lost, None, Some(3)), "T lost: 3 alerts or log lines\n");
    }
}
