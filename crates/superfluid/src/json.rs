//! Accounts and events as JSON, one object a line. The names are part of the interface; `docs/configuration.md` lists them.

use crate::event_log::Written;
use capture::Summary;
use engine::{Account, Event, SwitchAccount};
use port::{PortEvent, PortStatus};
use serde_json::{Map, Value, json};
use std::path::Path;
use telemetry::{DropCounters, Ledger};

/// An account; `kind` is `account` or `final`.
pub(crate) fn account(kind: &str, account: &Account) -> Value {
    let ports: Map<String, Value> = account
        .ports
        .iter()
        .map(|port| {
            let (status, reason) = match &port.status {
                PortStatus::Up => ("up", None),
                PortStatus::Down(reason) => ("down", Some(reason)),
                PortStatus::Finished => ("finished", None),
            };
            let value = json!({
                "status": status, "reason": reason, "packets": ledger(&port.counters.ledger),
                "received_bytes": port.counters.received_bytes, "delivered_bytes": port.counters.delivered_bytes,
                "kernel_lost": port.counters.kernel_lost, "in_flight": port.in_flight,
                "details": port.details.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect::<Map<_, _>>(),
            });
            (port.name.clone(), value)
        })
        .collect();
    let functions: Map<String, Value> = account
        .instances
        .iter()
        .map(|instance| {
            let report = instance.report.as_ref().map(|text| as_json(text));
            let value = json!({
                "packets": instance.packets, "bytes": instance.bytes, "calls": instance.calls,
                "cycles": instance.cycles.0, "faults": instance.faults, "restarts": instance.restarts,
                "missed": instance.missed, "in_flight": instance.in_flight, "down": instance.down,
                "promised_share": instance.promised, "throttled_cycles": instance.throttled.0,
                "queue": instance.queue, "overruns": instance.overruns, "suspensions": instance.suspensions,
                "paused": instance.paused, "frozen": instance.frozen, "worker": instance.worker,
                "ledger": ledger(&instance.ledger), "drops": named(&instance.own_drops),
                "counters": named(&instance.counters), "report": report,
            });
            (instance.name.clone(), value)
        })
        .collect();
    let switches: Map<String, Value> =
        account.switches.iter().map(|switch| (switch.name.clone(), self::switch(switch))).collect();
    let pools: Map<String, Value> = account
        .pools
        .iter()
        .map(|(name, free, all)| (name.clone(), json!({ "buffers": all, "free": free })))
        .collect();
    let workers: Vec<Value> = account
        .workers
        .iter()
        .map(|worker| {
            json!({
                "overhead_cycles": worker.overhead.0, "asleep_cycles": worker.asleep.0,
                "withheld_cycles": worker.withheld.0,
            })
        })
        .collect();
    json!({
        "event": kind, "time": account.at.nanos.0, "packets": ledger(&account.ledger),
        "in_flight": account.in_flight, "balanced": account.balance().is_ok(), "ports": ports,
        "functions": functions, "switches": switches, "pools": pools, "workers": workers,
    })
}

fn switch(SwitchAccount { ports, counters, .. }: &SwitchAccount) -> Value {
    json!({
        "ports": ports, "stations": counters.entries(), "learned": counters.learned, "moved": counters.moved,
        "aged": counters.aged, "evicted": counters.evicted, "flushed": counters.flushed,
        "deferred": counters.deferred, "flooded": counters.flooded, "returned": counters.returned,
        "reserved": counters.reserved, "no_source": counters.no_source,
    })
}

/// An event.
pub(crate) fn event(event: &Event) -> Value {
    match event {
        Event::Fault { instance, reason, retry_after } => json!({
            "event": "fault", "function": instance, "reason": reason, "retry_after_ns": retry_after.0,
        }),
        Event::Restarted { instance } => json!({ "event": "restarted", "function": instance }),
        Event::Log { instance, line } => json!({
            "event": "log", "function": instance, "severity": severity(line.severity), "text": line.text,
        }),
        Event::Found { instance, events } => json!({
            "event": "found", "function": instance, "lost": events.lost,
            "found": events.lines.iter().map(|line| as_json(line)).collect::<Vec<_>>(),
        }),
        Event::Port { port, event } => {
            let (what, text) = match event {
                PortEvent::WentDown(text) => ("down", text),
                PortEvent::CameUp(text) => ("up", text),
                PortEvent::Notice(text) => ("notice", text),
            };
            json!({ "event": "port", "port": port, "what": what, "text": text })
        }
        Event::Finished => json!({ "event": "finished" }),
    }
}

/// What a function wrote as JSON. What is none is the function's own doing, and shown as the text that it is.
fn as_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
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

/// Name of a log stream.
pub(crate) fn severity(stream: u32) -> &'static str {
    match stream {
        nf_abi::stream::LOG_ERROR => "error",
        nf_abi::stream::LOG_WARNING => "warning",
        nf_abi::stream::LOG_INFO => "info",
        _ => "debug",
    }
}

pub(crate) fn ledger(ledger: &Ledger) -> Value {
    json!({
        "received": ledger.received, "generated": ledger.generated, "copied": ledger.copied, "split": ledger.split,
        "delivered": ledger.delivered, "consumed": ledger.consumed, "merged": ledger.merged,
        "dropped": drops(&ledger.dropped),
    })
}

fn drops(drops: &DropCounters) -> Value {
    drops
        .nonzero()
        .map(|(reason, count)| (reason.name().to_owned(), json!(count)))
        .collect::<Map<_, _>>()
        .into()
}

fn named(counts: &[(String, u64)]) -> Value {
    counts.iter().map(|(name, count)| (name.clone(), json!(count))).collect::<Map<_, _>>().into()
}
