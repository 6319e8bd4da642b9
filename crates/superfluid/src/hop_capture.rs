//! `run --capture HOP=FILE`: what is seen at a hop, in a pcapng file with the hop and the verdict of each packet.

use capture::{Direction, Filter, Outcome, Recorder, Settings, Sighting};
use clock::Nanos;
use engine::{Passage, Tap};
use host::Catalog;
use nf_abi::Verdict;
use packet_memory::{Packet, Pool};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::str::FromStr;
use wiring::Wiring;

/// Comments that are kept to be used again.
const MOST_COMMENTS: usize = 4096;

/// `HOP=FILE`, as on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HopFile {
    pub(crate) hop: String,
    pub(crate) file: PathBuf,
}

impl FromStr for HopFile {
    type Err = String;

    fn from_str(text: &str) -> Result<HopFile, String> {
        match text.split_once('=') {
            Some((hop, file)) if !hop.is_empty() && !file.is_empty() => {
                Ok(HopFile { hop: hop.to_owned(), file: PathBuf::from(file) })
            }
            _ => Err("allowed: HOP=FILE, such as edge_firewall=drops.pcapng".to_owned()),
        }
    }
}

/// How everything is captured that is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) hops: Vec<HopFile>,
    pub(crate) filter: Option<Filter>,
    pub(crate) snap_length: u32,
    pub(crate) limit: u64,
}

/// Where a capture looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    Port(String),
    Function(String),
}

/// A hop, and who is to see its packets.
pub(crate) type HopTaps = Vec<(Hop, Box<dyn Tap>)>;

/// One capture that is running.
pub(crate) struct Running {
    pub(crate) hop: String,
    pub(crate) capture: capture::Capture,
    pub(crate) told: bool,
}

/// Makes the files. The taps are to be given to the hops.
///
/// # Errors
/// All hops that there are not, and files that cannot be written, in words for the operator.
pub(crate) fn begin(
    wanted: &Wanted,
    wiring: &Wiring,
    catalog: &Catalog,
) -> Result<(HopTaps, Vec<Running>), Vec<String>> {
    let mut faults = Vec::new();
    let mut hops = Vec::new();
    for (n, HopFile { hop, file }) in wanted.hops.iter().enumerate() {
        if wanted.hops[..n].iter().any(|other| other.file == *file) {
            faults.push(format!("{}: two captures into one file", file.display()));
        }
        match find(hop, wiring, catalog) {
            Ok(found) => hops.push((found, hop, file)),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let (mut taps, mut running) = (HopTaps::new(), Vec::new());
    for ((place, names), hop, file) in hops {
        let settings = Settings {
            place: hop.clone(),
            filter: wanted.filter.clone(),
            snap_length: wanted.snap_length,
            limit: wanted.limit,
        };
        match capture::begin(file, settings) {
            Ok((recorder, capture)) => {
                taps.push((place, Box::new(HopTap { names, recorder, comments: HashMap::new() })));
                running.push(Running { hop: hop.clone(), capture, told: false });
            }
            Err(error) => faults.push(format!("{}: {error}", file.display())),
        }
    }
    if faults.is_empty() { Ok((taps, running)) } else { Err(faults) }
}

fn find(name: &str, wiring: &Wiring, catalog: &Catalog) -> Result<(Hop, Names), String> {
    if wiring.ports.contains_key(name) {
        return Ok((Hop::Port(name.to_owned()), Names { hop: name.to_owned(), ..Names::default() }));
    }
    let Some(instance) = wiring.instances.get(name) else {
        let names = wiring.ports.keys().chain(wiring.instances.keys()).map(String::as_str);
        return Err(format!(
            "--capture {name}: there is no such hop{}",
            yaml_document::spelling::choices(name, names)
        ));
    };
    if wiring.observations.iter().any(|observation| observation.observer == name) {
        return Err(format!("--capture {name}: it is an observer; allowed: the function that it observes"));
    }
    let manifest = catalog.load(&instance.image)?.manifest().clone();
    let names = Names {
        hop: name.to_owned(),
        interfaces: manifest.interfaces.clone(),
        drop_reasons: manifest.drop_reasons.clone(),
    };
    Ok((Hop::Function(name.to_owned()), names))
}

/// The names behind a hop's numbers.
#[derive(Default)]
struct Names {
    hop: String,
    interfaces: Vec<String>,
    drop_reasons: Vec<String>,
}

/// What a comment is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Said {
    passage: u8,
    ingress: u16,
    verdict: u32,
}

struct HopTap {
    names: Names,
    recorder: Recorder,
    comments: HashMap<Said, String>,
}

impl Tap for HopTap {
    fn see(&mut self, pool: &Pool, packets: &[Packet], passage: Passage, now: Nanos) {
        for packet in packets {
            let record = packet.record();
            let decided = matches!(passage, Passage::Decided | Passage::Emitted);
            let verdict = if decided { record.verdict } else { 0 };
            let said = Said { passage: passage as u8, ingress: record.ingress, verdict };
            if self.comments.len() > MOST_COMMENTS {
                self.comments.clear();
            }
            let names = &self.names;
            let comment = self.comments.entry(said).or_insert_with(|| names.comment(passage, said));
            let sighting = Sighting {
                timestamp: if record.timestamp == 0 { now.0 } else { record.timestamp },
                length: packet.length(),
                direction: match passage {
                    Passage::Received => Direction::Inbound,
                    Passage::Transmitted => Direction::Outbound,
                    _ => Direction::Unknown,
                },
                outcome: outcome(passage, verdict),
                comment,
            };
            self.recorder.record(&sighting, |room| {
                pool.read(packet, 0, room);
            });
        }
    }

    fn settle(&mut self) {
        self.recorder.hand_over();
    }
}

fn outcome(passage: Passage, verdict: u32) -> Outcome {
    match passage {
        Passage::Trapped => Outcome::Dropped,
        Passage::Decided | Passage::Emitted => match Verdict::decode(verdict) {
            Some(Verdict::None | Verdict::Drop(_)) | None => Outcome::Dropped,
            Some(_) => Outcome::Passed,
        },
        Passage::Received | Passage::Transmitted | Passage::Down => Outcome::Passed,
    }
}

impl Names {
    /// `edge_firewall: from inside: drop denied`.
    fn comment(&self, passage: Passage, said: Said) -> String {
        let mut text = self.hop.clone();
        let interface = |number: u16| match self.interfaces.get(usize::from(number)) {
            Some(name) => name.clone(),
            None => number.to_string(),
        };
        if !matches!(passage, Passage::Received | Passage::Transmitted | Passage::Emitted) {
            let _ = write!(text, ": from {}", interface(said.ingress));
        }
        let verdict = match passage {
            Passage::Received => "received".to_owned(),
            Passage::Transmitted => "transmitted".to_owned(),
            Passage::Trapped => "the function trapped".to_owned(),
            Passage::Down => "the function is down".to_owned(),
            Passage::Decided | Passage::Emitted => match Verdict::decode(said.verdict) {
                Some(Verdict::Interface(number)) => format!("to {}", interface(number)),
                Some(Verdict::Service(id)) => format!("to service {id}"),
                Some(Verdict::Hold(_)) => "hold".to_owned(),
                Some(Verdict::Consume) => "consume".to_owned(),
                Some(Verdict::Drop(reason)) => match self.drop_reasons.get(usize::from(reason)) {
                    Some(name) => format!("drop {name}"),
                    None => "drop".to_owned(),
                },
                Some(Verdict::None) => "drop no-verdict".to_owned(),
                None => "drop bad-verdict".to_owned(),
            },
        };
        let _ = write!(text, ": {verdict}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_hop_interface_and_verdict() {
        let names = Names {
            hop: "fw".into(),
            interfaces: vec!["inside".into(), "outside".into()],
            drop_reasons: vec!["denied".into()],
        };
        let said = |verdict: Verdict| Said { passage: 0, ingress: 1, verdict: verdict.encode() };
        for (passage, verdict, comment, outcome) in [
            (Passage::Decided, Verdict::Drop(0), "fw: from outside: drop denied", Outcome::Dropped),
            (Passage::Decided, Verdict::Interface(0), "fw: from outside: to inside", Outcome::Passed),
            (Passage::Decided, Verdict::None, "fw: from outside: drop no-verdict", Outcome::Dropped),
            (Passage::Decided, Verdict::Drop(9), "fw: from outside: drop", Outcome::Dropped),
            (Passage::Emitted, Verdict::Service(7), "fw: to service 7", Outcome::Passed),
            (Passage::Trapped, Verdict::None, "fw: from outside: the function trapped", Outcome::Dropped),
            (Passage::Received, Verdict::None, "fw: received", Outcome::Passed),
        ] {
            assert_eq!(names.comment(passage, said(verdict)), comment);
            assert_eq!(super::outcome(passage, verdict.encode()), outcome, "{comment}");
        }
        let bad = Said { passage: 0, ingress: 7, verdict: u32::MAX };
        assert_eq!(names.comment(Passage::Decided, bad), "fw: from 7: drop bad-verdict");
    }

    #[test]
    fn a_hop_and_its_file_are_read() {
        let parsed: HopFile = "fw=a=b.pcapng".parse().expect("read");
        assert_eq!(parsed, HopFile { hop: "fw".into(), file: "a=b.pcapng".into() });
        for bad in ["", "fw", "=x", "fw="] {
            assert!(bad.parse::<HopFile>().is_err(), "{bad}");
        }
    }
}
