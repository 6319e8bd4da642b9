//! Rules looked for in a capture by `dpi`, against Suricata with the same rules and the same capture: one
//! thousand contents, and 2,500 rules as a public set has them.

use super::device::Device;
use super::{Pairs, Stage};
use crate::dpi_load::OneFile;
use crate::guests::{configuration_with, pool, stock};
use crate::{BenchError, Measurement, RUNS};
use engine::Event;
use image::Image;
use packet_memory::Pool;
use peers::dialogues::{Dialogues, Ruleset};
use peers::exchanges::Exchanges;
use peers::public_rules::{self, HTTP_PORTS};
use peers::{Alerts, Folder, Parsers, PeerError, Reading, Suricata};
use port::Port;
use port::null::{Config as NullConfig, NullPort};
use port::pcap::{Config as PcapConfig, Pace, PcapPort};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Rules of contents alone, and rules as a public set has them.
const CONTENTS: usize = 1000;
const RULES: u32 = 2500;

/// Connections in the short capture and in the long one. What is compared is the difference, so that starting
/// and reading rules do not count.
const CONNECTIONS: [u32; 2] = [500, 10_500];

/// Longest time for a capture.
const LIMIT: Duration = Duration::from_secs(60);

/// Reads a capture to its end by a new instance.
fn read(
    stage: &Stage<'_>,
    image: &Image,
    config: &[u8],
    pool: &Arc<Pool>,
    path: &Path,
) -> Result<Reading, BenchError> {
    let config = config.to_vec();
    let capture = PcapConfig { read: Some(path.to_owned()), pace: Pace::FlatOut, ..PcapConfig::default() };
    let capture = PcapPort::open(capture).map_err(BenchError::setup)?;
    let end = NullPort::new(NullConfig::default());
    let ports: [Box<dyn Port>; 2] = [Box::new(capture), Box::new(end)];
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = told.clone();
    let tell = move |event| {
        if let Event::Found { events, .. } = event {
            teller.lock().unwrap_or_else(PoisonError::into_inner).extend(events.lines);
        }
    };
    let mut device = Device::telling(&stage.sandbox, image, config, pool.clone(), ports, stage.cores, tell)?;
    let time = device.work_to_the_end(LIMIT)?;
    let account = device.finish()?;
    if account.ledger.dropped.total() > 0 {
        return Err(BenchError::Invalid(format!("dpi dropped {} packets", account.ledger.dropped.total())));
    }
    let counted = account.instances.iter().flat_map(|instance| &instance.counters);
    let counted: u64 = counted.filter(|(name, _)| name == "alerts").map(|(_, count)| count).sum();
    let lines = told.lock().unwrap_or_else(PoisonError::into_inner);
    let alerts = alerts_in(&lines);
    let told: u64 = alerts.values().sum();
    if told != counted {
        return Err(BenchError::Invalid(format!("dpi counted {counted} alerts, and {told} came")));
    }
    Ok(Reading { time, alerts })
}

/// Alerts by rule, from lines of JSON.
fn alerts_in(lines: &[String]) -> Alerts {
    let mut alerts = Alerts::new();
    for line in lines {
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        let sid = event["alert"]["signature_id"].as_u64().and_then(|sid| u32::try_from(sid).ok());
        *alerts.entry(sid.unwrap_or(0)).or_default() += 1;
    }
    alerts
}

/// A comparison.
struct Case {
    name: &'static str,
    /// What is promised of the ratio.
    parsers: Parsers,
    prepare: fn(&Folder) -> Result<Load, BenchError>,
}

const CASES: [Case; 2] = [
    Case { name: "suricata", parsers: Parsers::None, prepare: contents },
    Case { name: "suricata-rules", parsers: Parsers::Messages, prepare: public },
];

/// Rules, and what is read by them.
struct Load {
    rules: String,
    /// The short one and the long one.
    captures: [Capture; 2],
}

struct Capture {
    path: PathBuf,
    bytes: u64,
    packets: u64,
    /// Connections that carry what a rule looks for.
    carriers: u32,
    /// Each carrier makes one alert, and nothing else does.
    is_exact: bool,
}

fn both(write: impl Fn(u32, usize) -> Result<Capture, PeerError>) -> Result<[Capture; 2], BenchError> {
    let [short, long] = CONNECTIONS;
    Ok([write(short, 0).map_err(BenchError::setup)?, write(long, 1).map_err(BenchError::setup)?])
}

fn contents(folder: &Folder) -> Result<Load, BenchError> {
    let rules = Ruleset::new(CONTENTS);
    let captures = both(|connections, number| {
        let path = folder.file(&format!("contents-{number}.pcap"));
        let Dialogues { carriers, packets, bytes, .. } = Dialogues::write(&path, &rules, connections)?;
        Ok(Capture { path, bytes, packets, carriers, is_exact: true })
    })?;
    Ok(Load { rules: rules.text(), captures })
}

fn public(folder: &Folder) -> Result<Load, BenchError> {
    let rules = public_rules::rules(RULES);
    let captures = both(|flows, number| {
        let path = folder.file(&format!("rules-{number}.pcap"));
        let Exchanges { carriers, packets, bytes, .. } = Exchanges::write(&path, &rules, flows)?;
        Ok(Capture { path, bytes, packets, carriers, is_exact: false })
    })?;
    Ok(Load { rules: public_rules::text(&rules), captures })
}

pub(super) fn run(stage: &mut Stage<'_>) {
    for (place, case) in CASES.iter().enumerate() {
        let done = compare(stage, case, 0.8 + 0.1 * place as f64);
        stage.note_failure(case.name, done);
    }
}

/// Whether both found the same, and about as much as there is.
fn check(capture: &Capture, ours: &Alerts, theirs: &Alerts) -> Result<(), BenchError> {
    let (found, carriers) = (ours.values().sum::<u64>(), u64::from(capture.carriers));
    let sids = ours.keys().chain(theirs.keys());
    let mut differing = sids.filter(|sid| ours.get(sid) != theirs.get(sid));
    if let Some(sid) = differing.next() {
        let count = |alerts: &Alerts| alerts.get(sid).copied().unwrap_or(0);
        let (ours, theirs) = (count(ours), count(theirs));
        return Err(BenchError::Invalid(format!("rule {sid}: {ours} alerts, {theirs} of Suricata's")));
    }
    if capture.is_exact && found != carriers || found * 10 < carriers * 9 {
        return Err(BenchError::Invalid(format!("{found} alerts where there are {carriers}")));
    }
    Ok(())
}

fn compare(stage: &mut Stage<'_>, case: &Case, from: f64) -> Result<(), BenchError> {
    (stage.progress)(from, "suricata: captures");
    let folder = Folder::new().map_err(BenchError::setup)?;
    let name = case.name;
    let Load { rules, captures } = (case.prepare)(&folder)?;
    let peer = Suricata::new(&rules, case.parsers, stage.cores).map_err(BenchError::setup)?;
    let image = stock("dpi")?;
    // Suricata is told to verify no checksums (`-k none`), and so is this side.
    let text = format!(
        "rules: rules\nchecksums: ignore\nvariables: [{{name: HTTP_PORTS, value: \"{HTTP_PORTS}\"}}]"
    );
    let config = configuration_with(&image, &text, &OneFile(rules))?;
    let pool = pool(2048, None)?;
    let [short, long] = &captures;
    stage.notes.push(format!("{name}, peer: {}", peer.configuration.trim_end()));
    stage.notes.push(format!(
        "{name}, superfluid: port pcap {{pace: flat_out}}, function dpi {{the same rules, checksums: ignore}}, port null; {} connections, {} \
         packets, {} bytes",
        CONNECTIONS[1], long.packets, long.bytes
    ));
    let bytes = (long.bytes - short.bytes) as f64;
    let mut pairs = Pairs::default();
    for run in 0..=RUNS {
        (stage.progress)(from + 0.02 + 0.08 * run as f64 / RUNS as f64, name);
        let mut times = [Duration::ZERO; 2];
        for (capture, sign) in [(short, -1), (long, 1)] {
            let theirs = peer.read(&capture.path).map_err(BenchError::setup)?;
            let ours = read(stage, &image, &config, &pool, &capture.path)?;
            check(capture, &ours.alerts, &theirs.alerts)?;
            for (sum, time) in times.iter_mut().zip([ours.time, theirs.time]) {
                *sum = if sign < 0 { time } else { time.saturating_sub(*sum) };
            }
        }
        if run > 0 {
            let [ours, theirs] = times.map(|time| time.as_nanos() as f64 / bytes);
            pairs.push(ours, theirs);
        }
    }
    let rates = |nanos: &[f64]| nanos.iter().map(|nanos| 1e3 / nanos).collect::<Vec<f64>>();
    stage.results.push(Measurement::new(&format!("{name}-ratio"), "x", &pairs.ratio));
    stage.results.push(Measurement::new(&format!("{name}-dpi-rate"), "MB/s", &rates(&pairs.ours)));
    stage.results.push(Measurement::new(&format!("{name}-peer-rate"), "MB/s", &rates(&pairs.theirs)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_to_be_the_same_rule_by_rule_and_as_many_as_there_are() {
        let mut capture =
            Capture { path: PathBuf::new(), bytes: 0, packets: 0, carriers: 20, is_exact: false };
        let of = |alerts: &[(u32, u64)]| Alerts::from_iter(alerts.iter().copied());
        let all = of(&[(1, 10), (2, 9)]);
        assert!(check(&capture, &all, &all).is_ok());
        assert!(check(&capture, &all, &of(&[(1, 9), (2, 10)])).is_err(), "the same sum");
        assert!(check(&capture, &all, &of(&[(1, 10), (2, 9), (3, 1)])).is_err());
        assert!(check(&capture, &of(&[(1, 17)]), &of(&[(1, 17)])).is_err(), "too few");
        capture.is_exact = true;
        assert!(check(&capture, &all, &all).is_err(), "one is missing");
    }

    #[test]
    fn alerts_are_read_from_events() {
        let event = |sid: u32| format!("{{\"event_type\":\"alert\",\"alert\":{{\"signature_id\":{sid}}}}}");
        assert_eq!(alerts_in(&[event(3), event(3), event(4)]), Alerts::from([(3, 2), (4, 1)]));
        assert_eq!(alerts_in(&["no JSON".to_owned()]), Alerts::from([(0, 1)]));
    }
}
