//! Events, and what became of files, as JSON, one object a line. The names are part of the interface;
//! `docs/configuration.md` lists them.

use crate::event_log::Written;
use capture::Summary;
use engine::Event;
use metrics::json::parsed_or_text;
use port::PortEvent;
use serde_json::{Value, json};
use std::path::Path;

/// An event.
pub(crate) fn event(event: &Event) -> Value {
    match event {
        Event::Fault { instance, reason, retry_after } => json!({
            "event": "fault", "function": instance, "reason": reason, "retry_after_ns": retry_after.0,
        }),
        Event::Restarted { instance } => json!({ "event": "restarted", "function": instance }),
        Event::Log { instance, line } => json!({
            "event": "log", "function": instance, "severity": line.severity_name(), "text": line.text,
        }),
        Event::Found { instance, events } => json!({
            "event": "found", "function": instance, "lost": events.lost,
            "found": events.lines.iter().map(|line| parsed_or_text(line)).collect::<Vec<_>>(),
        }),
        Event::Port { port, event } => {
            let (what, text) = match event {
                PortEvent::WentDown(text) => ("down", text),
                PortEvent::CameUp(text) => ("up", text),
                PortEvent::Notice(text) => ("notice", text),
            };
            json!({ "event": "port", "port": port, "what": what, "text": text })
        }
        Event::Asked { instance, asks } => json!({
            "event": "asked", "function": instance,
            "addresses": asks.iter().map(|ask| ask.address.to_string()).collect::<Vec<_>>(),
        }),
    }
}

/// What became of a function's events that went into a file.
pub(crate) fn events_written(function: &str, path: &Path, written: &Written) -> Value {
    json!({
        "event": "events-written", "function": function, "file": path.display().to_string(),
        "written": written.events, "lost": written.lost, "error": written.error,
    })
}

/// What became of a capture.
pub(crate) fn captured(hop: &str, summary: &Summary) -> Value {
    json!({
        "event": "captured", "hop": hop, "file": summary.path.display().to_string(),
        "written": summary.written, "lost": summary.lost, "ended": summary.ended,
    })
}
