//! `superfluid trace`: packets on their way, hop by hop.

use super::columns::cell;
use super::events::streamed;
use super::failure::{Done, Failure, print};
use super::options::TraceOptions;
use crate::Outcome;
use crate::output::Format;
use api::{Trace, TraceEnd, TraceHop, TraceLine, TracedPacket, WayEnd};
use serde_json::json;

pub(crate) fn trace(options: &TraceOptions) -> Done {
    let filter = options.filter.join(" ");
    let wanted = Trace {
        at: options.at.clone(),
        filter: (!filter.is_empty()).then_some(filter),
        count: options.count,
        time: options.time.map(|time| format!("{}ns", time.as_nanos())),
        inject: options.inject.as_ref().map(super::frame::Frame::hex),
        heads: None,
    };
    let client = options.connection.client()?;
    let format = options.shown.output;
    for line in client.trace(&wanted)? {
        match line? {
            TraceLine::Alive => {}
            TraceLine::Packet(packet) => {
                print(&match format {
                    Format::Json | Format::Yaml => streamed(json!(packet), format),
                    Format::Table | Format::Wide => shown(&packet, format == Format::Wide),
                })?;
            }
            TraceLine::Ended(end) => {
                left_out(&end);
                return Ok(if end.packets > 0 { Outcome::Done } else { Outcome::Failed });
            }
        }
    }
    Err(Failure::new("the daemon ended the trace", Outcome::Failed))
}

/// Says what was not told, where it does not disturb what was.
fn left_out(end: &TraceEnd) {
    if end.packets == 0 {
        let places = end.places;
        let text = format!("no packet was seen at the {places} ports and functions that were looked at");
        console::error().line(&text);
    }
    if end.missed > 0 {
        let text = format!("{} packets were not followed: there were too many at a time", end.missed);
        console::error().line(&text);
    }
    if end.places_left_out > 0 {
        console::error().line(&format!(
            "{} ports and functions were not looked at, {} were; --at names where to begin",
            end.places_left_out, end.places
        ));
    }
}

fn shown(packet: &TracedPacket, wide: bool) -> String {
    let mut text = format!("{}  {}  {}", packet.packet, cell(&packet.time), cell(&packet.what));
    if let Some(original) = packet.copy_of {
        text.push_str(&format!("  copy of {original}"));
    }
    text.push('\n');
    let rows: Vec<Vec<String>> = packet.hops.iter().map(|hop| row(hop, wide)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    for row in &rows {
        let cells: String = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("  {cell:<width$}", width = *width))
            .collect();
        text.push_str(cells.trim_end());
        text.push('\n');
    }
    let end = match packet.end {
        WayEnd::Transmitted => "transmitted",
        WayEnd::Consumed => "consumed",
        WayEnd::Dropped => "dropped",
        WayEnd::Lost => "lost",
        WayEnd::Held => "held",
        WayEnd::Unseen => "not seen again",
    };
    let reason = packet.hops.last().and_then(|hop| hop.reason.as_deref());
    let reason = reason.map(|reason| format!(": {}", cell(reason))).unwrap_or_default();
    text.push_str(&format!("  {end}{reason}, after {}\n\n", time(packet.took_ns)));
    text
}

/// Where, what, verdict, cycles, when; with `wide` also how long it waited, and the batch.
fn row(hop: &TraceHop, wide: bool) -> Vec<String> {
    let verdict = match (&hop.verdict, &hop.egress, &hop.reason) {
        (Some(verdict), Some(egress), _) if verdict == "interface" => format!("to {}", cell(egress)),
        (Some(verdict), Some(egress), _) => format!("{} {}", cell(verdict), cell(egress)),
        (Some(verdict), None, Some(reason)) => format!("{} {}", cell(verdict), cell(reason)),
        (Some(verdict), None, None) => cell(verdict),
        (None, _, Some(reason)) => cell(reason),
        (None, _, None) => String::new(),
    };
    let from = hop.ingress.as_ref().map(|ingress| format!("{} by {}", cell(&hop.what), cell(ingress)));
    let cycles = hop.cycles.map(|cycles| format!("{cycles} cycles")).unwrap_or_default();
    let mut row = vec![
        cell(&hop.at),
        from.unwrap_or_else(|| cell(&hop.what)),
        verdict,
        cycles,
        format!("+{}", time(hop.after_ns)),
    ];
    if wide {
        row.push(hop.waited_ns.map(|waited| format!("waited {}", time(waited))).unwrap_or_default());
        row.push(hop.batch.map(|batch| format!("batch of {batch}")).unwrap_or_default());
    }
    row
}

/// A length of time as people read it.
pub(crate) fn time(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_told_hop_by_hop() {
        let text = |text: &str| Some(text.to_owned());
        let called = TraceHop {
            at: "function/fw".into(),
            what: "called".into(),
            ingress: text("inside"),
            verdict: text("drop"),
            reason: text("denied"),
            after_ns: 1_500,
            waited_ns: Some(1_200),
            cycles: Some(312),
            batch: Some(7),
            ..TraceHop::default()
        };
        let received = TraceHop { at: "port/lan".into(), what: "received".into(), ..TraceHop::default() };
        let packet = TracedPacket {
            packet: 3,
            copy_of: None,
            time: "T".into(),
            length: 60,
            what: "a > b UDP, 60 bytes".into(),
            head: None,
            hops: vec![received, called],
            end: WayEnd::Dropped,
            took_ns: 1_500,
        };
        let wanted = "3  T  a > b UDP, 60 bytes
  port/lan     received                                     +0 ns
  function/fw  called by inside  drop denied  312 cycles  +1.5 us  waited 1.2 us  batch of 7
  dropped: denied, after 1.5 us

";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&shown(&packet, true)), squeezed(wanted));
        assert!(!shown(&packet, false).contains("batch"));
        assert_eq!(
            (time(999), time(12_345), time(2_500_000_000)),
            ("999 ns".into(), "12.3 us".into(), "2.50 s".into())
        );
    }
}
