//! Suricata behind a memif port: whether it finds there what it finds in a file, what handing packets to it
//! costs beside AF_PACKET and NFQUEUE, how much later packets are that pass it, and what several of it cost.
//!
//! Our side is a worker that sends frames out of memory ([`feeder`]); it never sends what there is no room
//! for, and a run in which a packet is lost counts for nothing. `docs/peers.md` says how both sides are
//! configured.

mod alerts;
mod delivery;
mod feeder;
mod latency;
mod replicas;

use crate::{BenchError, Measurement};
use peers::frames::{Numbers, Segment};
use peers::public_rules;
use peers::{Cores, PeerError};
use std::sync::Arc;

/// Rules as a public set has them.
const RULES: u32 = 3000;
/// Buffers of a memif's ring.
const RING: usize = 4096;
/// Huge pages that seven of DPDK's processes need.
const HUGE_PAGES: u64 = 200;
/// Flows that packets of one kind are of.
const FLOWS: u32 = 1024;
/// Different packets.
const DISTINCT: usize = 131_072;

/// Programs and their packages.
const SURICATA: (&str, &str) = ("suricata", "suricata/bookworm-backports libhtp2/bookworm-backports");
const IPTABLES: (&str, &str) = ("iptables-legacy", "iptables");

/// Whole frames, in order.
type Frames = Arc<Vec<Vec<u8>>>;

/// What all parts share.
struct Stage<'a> {
    cores: Cores,
    progress: &'a mut dyn FnMut(f64, &str),
    notes: Vec<String>,
    results: Vec<Measurement>,
}

impl Stage<'_> {
    /// What could not be measured costs its own results.
    fn settle(&mut self, part: &str, promised: &[(&str, &'static str)], done: Result<(), BenchError>) {
        let Err(error) = done else { return };
        self.notes.push(format!("{part}: {error}"));
        for (name, unit) in promised {
            if !self.results.iter().any(|result| result.name == *name) {
                self.results.push(Measurement::missing(name, unit, "not-measured"));
            }
        }
    }

    fn note(&mut self, of: &str, text: &str) {
        self.notes.push(format!("{of}: {}", text.trim_end()));
    }
}

/// A part: its name, what it promises, and what measures it.
type Part =
    (&'static str, &'static [(&'static str, &'static str)], fn(&mut Stage<'_>) -> Result<(), BenchError>);

const PARTS: [Part; 4] = [
    ("alerts", &[("alerts-missing", "alerts")], alerts::run),
    ("delivery", &[("af-packet-ratio", "x"), ("nfq-ratio", "x")], delivery::run),
    ("latency", &[("latency-us", "us")], latency::run),
    ("replicas", &[("replicas-percent", "%")], replicas::run),
];

/// The results, and how both sides were configured.
pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let cores = Cores::find().map_err(BenchError::setup)?;
    let notes = vec![format!(
        "Suricata's threads that take packets are on processor {}, everything else is on processor {}",
        cores.device, cores.sender
    )];
    let mut stage = Stage { cores, progress, notes, results: Vec::new() };
    let ready = ready();
    for (name, promised, measure) in PARTS {
        let done = match &ready {
            Ok(()) => measure(&mut stage),
            Err(why) => Err(BenchError::Setup(why.clone())),
        };
        stage.settle(name, promised, done);
    }
    Ok((stage.results, stage.notes))
}

/// Whether what all parts need is there.
fn ready() -> Result<(), String> {
    peers::missing_of(&[SURICATA, ("ip", "iproute2")]).map_err(|error| error.to_string())?;
    let free = peers::free_huge_pages();
    match free < HUGE_PAGES {
        true => Err(PeerError::HugePages { free, needed: HUGE_PAGES }.to_string()),
        false => Ok(()),
    }
}

/// The rules as a file has them.
fn rules() -> String {
    public_rules::text(&public_rules::rules(RULES))
}

/// Datagrams of 64 bytes, all different, of [`FLOWS`] flows in random order.
fn datagrams() -> Frames {
    let mut numbers = Numbers(u64::from(FLOWS));
    let frame = |number: usize| {
        let flow = numbers.below(u64::from(FLOWS)) as u32;
        let segment = Segment {
            source: 0x0a00_0000 | flow,
            destination: 0xc612_0001,
            source_port: 20_000 + flow as u16,
            destination_port: 40_000,
            sequence: 0,
            acknowledged: 0,
            flags: 0,
        };
        let mut payload = [0; 22];
        payload[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let mut frame = Vec::with_capacity(64);
        segment.write_datagram(&payload, &mut frame);
        frame
    };
    Arc::new((0..DISTINCT).map(frame).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn datagrams_are_of_64_bytes_all_different_and_of_as_many_flows_as_are_said() {
        let frames = datagrams();
        assert!(frames.iter().all(|frame| frame.len() == 64));
        assert_eq!(frames.iter().collect::<BTreeSet<_>>().len(), DISTINCT);
        let flows: BTreeSet<_> = frames.iter().map(|frame| frame[26..38].to_vec()).collect();
        assert_eq!(flows.len(), FLOWS as usize);
    }

    #[test]
    fn what_could_not_be_measured_is_missing_once() {
        let cores = Cores { device: 1, sender: 0 };
        let mut nothing = |_: f64, _: &str| {};
        let mut stage = Stage { cores, progress: &mut nothing, notes: Vec::new(), results: Vec::new() };
        stage.results.push(Measurement::new("af-packet-ratio", "x", &[5.0]));
        stage.settle("delivery", PARTS[1].1, Err(BenchError::Setup("no iptables-legacy".into())));
        let names: Vec<_> = stage.results.iter().map(|result| (&*result.name, result.missing)).collect();
        assert_eq!(names, [("af-packet-ratio", None), ("nfq-ratio", Some("not-measured"))]);
        assert!(stage.notes[0].contains("no iptables-legacy"), "{:?}", stage.notes);
    }
}
