//! One, two and four Suricata behind a bond of memif ports, which gives both directions of a flow to one of
//! them: processor time for each packet of the sender and of all of them.
//!
//! They share one processor, and one at a time works: its ring is full when it begins, and it stands as soon
//! as it has taken all. So none of them polls an empty ring, however many there are. Counted are the threads
//! that take packets: Suricata's others look around whenever it goes on.

use super::feeder::{Feeder, nanoseconds};
use super::{RING, RULES, Stage, rules};
use crate::{BenchError, Measurement, RUNS};
use peers::exchanges::Exchanges;
use peers::public_rules;
use peers::{Cores, Folder, Inspector, Parsers, Taking, read_frames};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use testbed::Namespace;

const COUNTS: [usize; 3] = [1, 2, 4];
/// Flows of the traffic.
const FLOWS: u32 = 6000;
/// Packets of a run, for each of the three.
const PACKETS: u64 = 100_000;

/// Suricata so many times behind one sender.
struct Group {
    feeder: Feeder,
    replicas: Vec<Inspector>,
    core: usize,
    _folder: Folder,
}

impl Group {
    fn start(
        stage: &Stage<'_>,
        frames: &super::Frames,
        rules: &str,
        count: usize,
    ) -> Result<Group, BenchError> {
        let folder = Folder::new().map_err(BenchError::setup)?;
        let sockets: Vec<_> = (0..count).map(|n| folder.file(&format!("{n}.sock"))).collect();
        let paths: Vec<&Path> = sockets.iter().map(AsRef::as_ref).collect();
        let mut feeder = Feeder::memif(frames.clone(), &paths, RING, stage.cores)?;
        let namespace = Namespace::new().map_err(BenchError::setup)?;
        let mut replicas = Vec::new();
        for (ring, path) in paths.iter().enumerate() {
            let taking = Taking::Memif(path, RING);
            let replica = Inspector::start(&namespace, rules, Parsers::Messages, taking, stage.cores)
                .map_err(BenchError::setup)?;
            feeder.connect_one(ring)?;
            // One that polls would keep the next one from starting.
            replica.pause().map_err(BenchError::setup)?;
            replicas.push(replica);
        }
        Ok(Group { feeder, replicas, core: stage.cores.sender, _folder: folder })
    }

    /// Nanoseconds for a packet, at both ends, and of them the sender's.
    fn run(&mut self) -> Result<[f64; 2], BenchError> {
        // What is late to stop one that has taken all lets it poll.
        let _claim = Cores::claim(self.core).map_err(BenchError::setup)?;
        let before = self.time()?;
        let (mut packets, mut sending) = (0, Duration::ZERO);
        while packets < PACKETS {
            let (count, time) = self.feeder.fill()?;
            (packets, sending) = (packets + count, sending + time);
            for (ring, replica) in self.replicas.iter().enumerate() {
                replica.resume().map_err(BenchError::setup)?;
                self.feeder.drained(ring)?;
                replica.pause().map_err(BenchError::setup)?;
            }
        }
        let seeing = self.time()?.saturating_sub(before);
        Ok([sending + seeing, sending].map(|time| time.as_nanos() as f64 / packets as f64))
    }

    fn time(&self) -> Result<Duration, BenchError> {
        self.replicas.iter().map(|replica| replica.workers_time().map_err(BenchError::setup)).sum()
    }

    /// Ends all of them: each has seen some of the packets, and together all.
    fn finish(self) -> Result<(), BenchError> {
        let sent = self.feeder.finish()?;
        let mut seen = Vec::new();
        for replica in self.replicas {
            replica.resume().map_err(BenchError::setup)?;
            seen.push(replica.finish().map_err(BenchError::setup)?.packets);
        }
        // An eighth of them is half of what one of four gets.
        if seen.iter().sum::<u64>() != sent || seen.iter().any(|seen| *seen < sent / 8) {
            return Err(BenchError::Invalid(format!("of {sent} packets they have seen {seen:?}")));
        }
        Ok(())
    }
}

pub(super) fn run(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    (stage.progress)(0.75, "replicas");
    let folder = Folder::new().map_err(BenchError::setup)?;
    let capture = folder.file("seeded.pcap");
    Exchanges::write(&capture, &public_rules::rules(RULES), FLOWS).map_err(BenchError::setup)?;
    let (frames, rules) = (Arc::new(read_frames(&capture).map_err(BenchError::setup)?), rules());
    let mut groups = Vec::new();
    for count in COUNTS {
        groups.push(Group::start(stage, &frames, &rules, count)?);
    }
    if let Some(replica) = groups.first().and_then(|group| group.replicas.first()) {
        let configuration = replica.configuration.clone();
        stage.note("replicas, each", &configuration);
    }
    stage.notes.push("replicas, superfluid: frames in memory, a bond by flow over ports of type memif, role master, ring 4096".into());
    let (mut found, mut senders) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    for run in 0..=RUNS {
        (stage.progress)(0.8 + 0.2 * run as f64 / RUNS as f64, "replicas");
        for (n, group) in groups.iter_mut().enumerate() {
            let [each, sender] = group.run()?;
            // The first one warms up.
            if run > 0 {
                found[n].push(each);
                senders[n].push(sender);
            }
        }
    }
    for group in groups {
        group.finish()?;
    }
    let [one, two, four] = &found;
    let percent = |of: &[f64]| -> Vec<f64> { of.iter().zip(one).map(|(of, one)| 100.0 * of / one).collect() };
    stage.results.push(Measurement::new("replicas-percent", "%", &percent(four)));
    stage.results.push(Measurement::new("replicas-two-percent", "%", &percent(two)));
    for (count, (all, sender)) in COUNTS.iter().zip(found.iter().zip(&senders)) {
        stage.results.push(nanoseconds(&format!("replicas-{count}-ns"), all));
        stage.results.push(nanoseconds(&format!("replicas-{count}-sender-ns"), sender));
    }
    Ok(())
}
