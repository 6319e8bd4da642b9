//! What of a device is shown beside its spec: its ports and openers with what passes there a second.

use super::columns::{cell, device_status};
use super::numbers::count;
use crate::output::{Format, Listing};
use api::{DeviceOpener, DevicePort, DeviceStatus, Object, StationFrames, Traffic};
use client::{Client, ClientError};
use serde_json::Value;
use std::time::Duration;

/// Time between two readings, which make a rate.
const BETWEEN: Duration = Duration::from_secs(1);

/// The parts of a device's description. Takes a second: rates are between two readings.
pub(super) fn parts(client: &Client, object: &Object, format: Format) -> Result<String, ClientError> {
    let Some(before) = device_status(object) else { return Ok(String::new()) };
    std::thread::sleep(BETWEEN);
    let now = client.object(object.kind, &object.name)?;
    Ok(device_status(&now).map(|now| shown(&before, &now, format)).unwrap_or_default())
}

/// A device between two readings.
fn shown(before: &DeviceStatus, now: &DeviceStatus, format: Format) -> String {
    let seconds = now.time_ns.saturating_sub(before.time_ns) as f64 / 1e9;
    let rate = |old: Option<Traffic>, new: Option<Traffic>| Rate::between(old, new, seconds);
    let mut text = String::new();
    let mut ports = Listing::new(
        &["PORT", "STATE", "IN PKT/S", "IN BIT/S", "OUT PKT/S", "OUT BIT/S"],
        &["IN PACKETS", "IN BYTES", "OUT PACKETS", "OUT BYTES"],
    );
    for DevicePort { port, state, received, sent, .. } in &now.ports {
        let old = before.ports.iter().find(|old| old.port == *port);
        let received_before = old.and_then(|old| old.received);
        let sent_before = old.and_then(|old| old.sent);
        let mut cells = vec![cell(port), cell(state)];
        cells.extend(rate(received_before, *received).cells());
        cells.extend(rate(sent_before, *sent).cells());
        cells.extend(totals(*received));
        cells.extend(totals(*sent));
        ports.add(cells, Value::Null);
    }
    text.push_str(&section("ports, where packets come in and go out", &ports, now.ports.is_empty(), format));
    let mut openers = Listing::new(
        &["OPENER", "ORDER", "SIDE", "GETS PKT/S", "BIT/S", "SENDS PKT/S", "BIT/S"],
        &["TENANT", "GOT PACKETS", "GOT BYTES", "SENT PACKETS", "SENT BYTES"],
    );
    for opener in &now.openers {
        let DeviceOpener { tenant, side, order, observes, sent, received, .. } = opener;
        let same = |old: &&DeviceOpener| old.opener == opener.opener && old.side == *side;
        let old = before.openers.iter().find(same);
        let mut cells = vec![
            cell(&opener.opener),
            if *observes { "observes".to_owned() } else { order.to_string() },
            side.as_deref().map_or("-".to_owned(), cell),
        ];
        cells.extend(rate(old.and_then(|old| old.received), *received).cells());
        cells.extend(rate(old.and_then(|old| old.sent), *sent).cells());
        cells.push(cell(tenant));
        cells.extend(totals(*received));
        cells.extend(totals(*sent));
        openers.add(cells, Value::Null);
    }
    text.push_str(&section("openers", &openers, now.openers.is_empty(), format));
    if now.other_openers > 0 {
        text.push_str(&format!("  and {} of other tenants\n", now.other_openers));
    }
    let mut lines = |head: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            text.push_str(&format!("{head}:\n  {}\n", lines.join("\n  ")));
        }
    };
    let down = now.ports.iter().filter_map(|port| Some((port, port.reason.as_ref()?)));
    lines(
        "ports that are down",
        down.map(|(at, why)| format!("{}  {}", cell(&at.port), cell(why))).collect(),
    );
    let address = |own: &api::DeviceAddress| format!("{}  {}", cell(&own.address), cell(&own.state));
    lines("addresses", now.addresses.iter().map(address).collect());
    if !now.addresses.is_empty() {
        lines("neighbours", vec![now.neighbours.to_string()]);
    }
    if let Some(StationFrames { received, ignored, sent, dropped }) = &now.frames {
        let mut counts = vec![format!("{received} received, {ignored} of them ignored, and {sent} sent")];
        counts.extend(dropped.iter().map(|(reason, count)| format!("{}  {count}", cell(reason))));
        lines("frames of neighbour protocols, and those without effect", counts);
    }
    let drop = |(reason, count): (&String, &u64)| format!("{}  {count}", cell(reason));
    lines("drops", now.drops.iter().map(drop).collect());
    lines("copies", (now.copied > 0).then(|| now.copied.to_string()).into_iter().collect());
    lines("warnings", now.warnings.iter().map(|warning| client::harmless(warning, 1000)).collect());
    text
}

fn section(head: &str, listing: &Listing, is_empty: bool, format: Format) -> String {
    if is_empty {
        return String::new();
    }
    let rows: String = listing.shown(format).lines().map(|line| format!("  {line}\n")).collect();
    format!("{head}:\n{rows}")
}

fn totals(traffic: Option<Traffic>) -> [String; 2] {
    match traffic {
        Some(Traffic { packets, bytes }) => [packets.to_string(), bytes.to_string()],
        None => ["-".to_owned(), "-".to_owned()],
    }
}

/// What passes in a second, where it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate(Option<(f64, f64)>);

impl Rate {
    /// Between two readings. Counters that began anew meanwhile have counted since.
    pub(super) fn between(old: Option<Traffic>, new: Option<Traffic>, seconds: f64) -> Rate {
        let since = |old: u64, new: u64| if new < old { new } else { new - old };
        Rate(old.zip(new).filter(|_| seconds > 0.0).map(|(old, new)| {
            let packets = since(old.packets, new.packets) as f64 / seconds;
            (packets, since(old.bytes, new.bytes) as f64 * 8.0 / seconds)
        }))
    }

    /// Packets and bits.
    fn cells(self) -> [String; 2] {
        match self.0 {
            Some((packets, bits)) => [count(packets), count(bits)],
            None => ["-".to_owned(), "-".to_owned()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{DeviceAddress, DeviceState};

    fn traffic(packets: u64) -> Option<Traffic> {
        Some(Traffic { packets, bytes: packets * 100 })
    }

    fn status(at: u64, packets: u64) -> DeviceStatus {
        let port = |port: &str, reason: Option<&str>, sent| DevicePort {
            port: port.into(),
            state: if reason.is_some() { "down" } else { "up" }.into(),
            reason: reason.map(str::to_owned),
            received: traffic(packets),
            sent,
        };
        let opener = DeviceOpener {
            opener: "edge_firewall:outside".into(),
            tenant: "default".into(),
            side: None,
            order: 10,
            observes: false,
            sent: traffic(packets / 2),
            received: traffic(packets * 2),
        };
        let observer = DeviceOpener {
            opener: "ids:in".into(),
            observes: true,
            received: None,
            side: Some("nic1".into()),
            ..opener.clone()
        };
        DeviceStatus {
            time_ns: at,
            state: DeviceState::Degraded,
            reason: Some("port `nic1` is down: no carrier".into()),
            ports: vec![port("nic1", Some("no carrier"), None), port("nic2", None, traffic(packets))],
            openers: vec![opener, observer],
            other_openers: 1,
            copied: 3,
            drops: [("no-device".to_owned(), 7)].into(),
            addresses: vec![DeviceAddress { address: "192.0.2.9/24".into(), state: "preferred".into() }],
            neighbours: 2,
            frames: Some(StationFrames {
                received: 12,
                ignored: 3,
                sent: 4,
                dropped: [("malformed".to_owned(), 1)].into(),
            }),
            warnings: vec!["`a` never gets a packet of `nic1`: `b` takes all that it wants".into()],
        }
    }

    #[test]
    fn a_device_is_shown_with_its_rates_in_80_columns() {
        let text = shown(&status(1_000_000_000, 1000), &status(3_000_000_000, 4000), Format::Table);
        let wanted = "\
ports, where packets come in and go out:
  PORT  STATE  IN PKT/S  IN BIT/S  OUT PKT/S  OUT BIT/S
  nic1  down   1.50k     1.20M     -          -
  nic2  up     1.50k     1.20M     1.50k      1.20M
openers:
  OPENER                 ORDER     SIDE  GETS PKT/S  BIT/S  SENDS PKT/S  BIT/S
  edge_firewall:outside  10        -     3.00k       2.40M  750          600k
  ids:in                 observes  nic1  -           -      750          600k
  and 1 of other tenants
ports that are down:
  nic1  no carrier
addresses:
  192.0.2.9/24  preferred
neighbours:
  2
frames of neighbour protocols, and those without effect:
  12 received, 3 of them ignored, and 4 sent
  malformed  1
drops:
  no-device  7
copies:
  3
warnings:
  `a` never gets a packet of `nic1`: `b` takes all that it wants
";
        assert_eq!(text, wanted);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let wide = shown(&status(0, 0), &status(0, 4000), Format::Wide);
        assert!(wide.contains("IN PACKETS") && wide.contains("400000"), "{wide}");
        assert!(!wide.contains("inf") && !wide.contains("NaN"), "no time has passed: {wide}");
    }

    #[test]
    fn counters_that_begin_anew_have_counted_since() {
        assert_eq!(Rate::between(traffic(100), traffic(10), 2.0), Rate(Some((5.0, 4000.0))));
        assert_eq!(Rate::between(None, traffic(10), 2.0), Rate(None));
    }
}
