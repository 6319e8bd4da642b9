//! One thousand contents looked for in a capture by `dpi`, against Suricata with the same rules and the same
//! capture.

use super::device::Device;
use super::{Pairs, Stage};
use crate::guests::{pool, stock};
use crate::{BenchError, Bound, Measurement, RUNS};
use image::Image;
use packet_memory::Pool;
use peers::dialogues::{Dialogues, Ruleset};
use peers::{Folder, Reading, Suricata};
use port::Port;
use port::null::{Config as NullConfig, NullPort};
use port::pcap::{Config as PcapConfig, Pace, PcapPort};
use schema::Files;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use yaml_document::{Document, Location};

const RULES: usize = 1000;

/// Connections in the short capture and in the long one. What is compared is the difference, so that starting
/// and reading rules do not count.
const CONNECTIONS: [u32; 2] = [500, 10_500];

/// Longest time for a capture.
const LIMIT: Duration = Duration::from_secs(60);

/// The rules, by whatever path they are named.
struct Rules<'a>(&'a str);

impl Files for Rules<'_> {
    fn read(&self, _path: &str, most: u64) -> Result<Vec<u8>, String> {
        match self.0.len() as u64 > most {
            true => Err(format!("{} bytes", self.0.len())),
            false => Ok(self.0.as_bytes().to_vec()),
        }
    }
}

/// The function's configuration, rules included.
fn configuration(image: &Image, rules: &str) -> Result<Vec<u8>, BenchError> {
    let document = Document::parse("bench", "rules: rules").map_err(BenchError::setup)?;
    let (root, mut faults) = (document.root(), Vec::new());
    let place = Location::new("bench", "config", root.position);
    let value = image.manifest().schema.check_with(&place, Some(root), &[], &Rules(rules), &mut faults);
    match (value, faults.first()) {
        (Some(value), None) => Ok(value.to_cbor()),
        (_, Some(fault)) => Err(BenchError::setup(fault)),
        (None, None) => Err(BenchError::Setup("the configuration has no value".into())),
    }
}

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
    let mut device = Device::new(&stage.sandbox, image, config, pool.clone(), ports, stage.cores)?;
    let time = device.work_to_the_end(LIMIT)?;
    let account = device.end()?;
    if account.ledger.dropped.total() > 0 {
        return Err(BenchError::Invalid(format!("dpi dropped {} packets", account.ledger.dropped.total())));
    }
    let counted = account.instances.iter().flat_map(|instance| &instance.counters);
    let alerts = counted.filter(|(name, _)| name == "alerts").map(|(_, count)| count).sum();
    Ok(Reading { time, alerts })
}

/// What is promised of the ratio.
const LEAST: f64 = 2.0;

pub(super) fn run(stage: &mut Stage<'_>) {
    let done = compare(stage);
    stage.note_failure("suricata", LEAST, done);
}

fn compare(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    (stage.progress)(0.8, "suricata: captures");
    let folder = Folder::new().map_err(BenchError::setup)?;
    let rules = Ruleset::new(RULES);
    let paths = ["short.pcap", "long.pcap"].map(|name| folder.file(name));
    let mut written = [Dialogues::default(); 2];
    for n in 0..2 {
        written[n] = Dialogues::write(&paths[n], &rules, CONNECTIONS[n]).map_err(BenchError::setup)?;
    }
    let text = rules.text();
    let peer = Suricata::new(&text, stage.cores).map_err(BenchError::setup)?;
    let image = stock("dpi")?;
    let config = configuration(&image, &text)?;
    let pool = pool(2048, None)?;
    stage.notes.push(format!("suricata, peer: {}", peer.configuration.trim_end()));
    stage.notes.push(format!(
        "suricata, superfluid: port pcap {{pace: flat_out}}, function dpi {{the same rules}}, port null; {} connections, {} \
         packets, {} bytes",
        written[1].connections, written[1].packets, written[1].bytes
    ));
    let bytes = (written[1].bytes - written[0].bytes) as f64;
    let mut pairs = Pairs::default();
    for run in 0..=RUNS {
        (stage.progress)(0.82 + 0.17 * run as f64 / RUNS as f64, "suricata");
        let both =
            |read: &dyn Fn(&Path) -> Result<Reading, BenchError>, program: &str| -> Result<f64, BenchError> {
                let readings = [read(&paths[0])?, read(&paths[1])?];
                for (reading, written) in readings.iter().zip(&written) {
                    if reading.alerts != u64::from(written.carriers) {
                        let (found, all) = (reading.alerts, written.carriers);
                        return Err(BenchError::Invalid(format!(
                            "{program} gave {found} alerts where there are {all}"
                        )));
                    }
                }
                let time = readings[1].time.saturating_sub(readings[0].time);
                Ok(time.as_nanos() as f64 / bytes)
            };
        let theirs = both(&|path| peer.read(path).map_err(BenchError::setup), "Suricata")?;
        let ours = both(&|path| read(stage, &image, &config, &pool, path), "dpi")?;
        if run > 0 {
            pairs.push(ours, theirs);
        }
    }
    let rates = |nanos: &[f64]| nanos.iter().map(|nanos| 1e3 / nanos).collect::<Vec<f64>>();
    let least = Some(Bound::AtLeast(LEAST));
    stage.results.push(Measurement::new("suricata-ratio", "x", &pairs.ratio, least));
    stage.results.push(Measurement::new("suricata-dpi-rate", "MB/s", &rates(&pairs.ours), None));
    stage.results.push(Measurement::new("suricata-peer-rate", "MB/s", &rates(&pairs.theirs), None));
    Ok(())
}
