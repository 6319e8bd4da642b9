//! Alerts in the form of Suricata's EVE log, which both sides write.

use crate::Error;
use crate::table::{Alerts, Flow};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;

/// An alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alert {
    sid: u64,
    flow: Flow,
    /// When its packet came, in microseconds since 1970.
    micros: Option<u64>,
    /// Where in the capture that is, if the program tells.
    frame: Option<u64>,
}

/// Names of protocols that either side has in place of a number.
const PROTOCOLS: [(&str, u8); 9] = [
    ("ICMP", 1),
    ("IGMP", 2),
    ("TCP", 6),
    ("UDP", 17),
    ("GRE", 47),
    ("ESP", 50),
    ("AH", 51),
    ("IPv6-ICMP", 58),
    ("SCTP", 132),
];

/// An alert of a line; `None` when it is about something else.
fn alert(line: &str) -> Option<Alert> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["event_type"] != "alert" {
        return None;
    }
    let end = |address: &str, port: &str| -> Option<(IpAddr, u16)> {
        let port = event[port].as_u64().unwrap_or_default();
        Some((event[address].as_str()?.parse().ok()?, port as u16))
    };
    let name = event["proto"].as_str().unwrap_or_default();
    let known = PROTOCOLS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let protocol = known.map_or_else(|| name.parse().unwrap_or(u8::MAX), |(_, number)| *number);
    let flow =
        Flow { protocol, source: end("src_ip", "src_port")?, destination: end("dest_ip", "dest_port")? };
    Some(Alert {
        sid: event["alert"]["signature_id"].as_u64()?,
        flow: flow.undirected(),
        micros: event["timestamp"].as_str().and_then(micros),
        frame: event["pcap_cnt"].as_u64(),
    })
}

/// `1970-01-01T00:00:00.000010+0000`, or in the zone of the machine, in microseconds since 1970.
fn micros(text: &str) -> Option<u64> {
    let field = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (field(0..4)?, field(5..7)?, field(8..10)?);
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days from civil.
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let seconds = ((days * 24 + field(11..13)?) * 60 + field(14..16)?) * 60 + field(17..19)?;
    let zone = text.get(26..)?;
    let (hours, minutes) = (zone.get(1..3)?.parse::<i64>().ok()?, zone.get(3..5)?.parse::<i64>().ok()?);
    let east = (hours * 60 + minutes) * 60 * if zone.starts_with('-') { -1 } else { 1 };
    u64::try_from((seconds - east) * 1_000_000 + field(20..26)?).ok()
}

/// The alerts of a log. `frame_at` finds the frame of a flow's packet of some time, where the log does not
/// say which it was. A log that is not there has none.
///
/// # Errors
/// [`Error::File`].
pub fn read(path: &Path, frame_at: impl Fn(u64, &Flow) -> Option<u64>) -> Result<Alerts, Error> {
    let mut alerts = Alerts::new();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(alerts),
        Err(source) => return Err(Error::file(path, source)),
    };
    for line in BufReader::new(file).lines() {
        let Some(alert) = alert(&line.map_err(|source| Error::file(path, source))?) else { continue };
        let frame = alert.frame.or_else(|| frame_at(alert.micros?, &alert.flow));
        let entry = alerts.entry((alert.sid, alert.flow)).or_default();
        entry.count += 1;
        entry.frame = [entry.frame, frame].into_iter().flatten().min();
    }
    Ok(alerts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peers::Folder;

    #[test]
    fn times_are_read_in_any_zone() {
        assert_eq!(micros("1970-01-01T00:00:00.000010+0000"), Some(10));
        assert_eq!(micros("2024-02-29T12:34:56.789012+0000"), Some(1_709_210_096_789_012));
        assert_eq!(micros("2024-02-29T14:04:56.789012+0130"), Some(1_709_210_096_789_012));
        assert_eq!(micros("2024-02-29T10:34:56.789012-0200"), Some(1_709_210_096_789_012));
        assert_eq!(micros("soon"), None);
    }

    #[test]
    fn alerts_of_both_directions_count_for_one_flow_and_the_first_frame_is_kept() {
        let folder = Folder::new().expect("a folder");
        let line = |from: &str, to: &str, more: &str| {
            format!(
                "{{\"timestamp\":\"1970-01-01T00:00:00.000010+0000\",\"event_type\":\"alert\",\"src_ip\":\"{from}\",\
                 \"src_port\":5,\"dest_ip\":\"{to}\",\"dest_port\":5,\"proto\":\"TCP\",{more}\
                 \"alert\":{{\"signature_id\":7}}}}\n"
            )
        };
        let text = line("192.0.2.1", "192.0.2.2", "\"pcap_cnt\":9,")
            + &line("192.0.2.2", "192.0.2.1", "")
            + "{\"event_type\":\"stats\"}\nno JSON\n";
        let path = folder.write("eve.json", &text).expect("a log");
        let alerts = read(&path, |micros, _| (micros == 10).then_some(4)).expect("alerts");
        let all: Vec<_> =
            alerts.iter().map(|((sid, flow), alerted)| (*sid, flow.protocol, *alerted)).collect();
        assert_eq!(all, [(7, 6, crate::table::Alerted { count: 2, frame: Some(4) })]);
        assert!(read(&folder.file("none"), |_, _| None).expect("none").is_empty());
    }
}
