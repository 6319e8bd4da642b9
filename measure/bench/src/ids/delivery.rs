//! What it takes to hand packets to Suricata: by a memif port, and by an interface of the kernel's, from
//! which it takes them by AF_PACKET or by NFQUEUE.
//!
//! Counted is the processor time of both ends: of the worker that sends, with what the kernel does in its
//! name and in its own for it, and of all of Suricata's threads, beyond what the same Suricata takes for the
//! same packets from a file. A file that takes longer than packets that come does not count against the
//! sender.
//!
//! Neither end waits while it is measured. By memif both work at once, and the ring never becomes empty. What
//! the kernel loses cannot be known in time, so there Suricata stands while a burst is sent that its queue
//! takes, and the sender stands while Suricata works until it sleeps.

use super::feeder::{Feeder, nanoseconds};
use super::{DISTINCT, Frames, IPTABLES, RING, Stage, datagrams, rules};
use crate::{BenchError, Measurement, RUNS};
use peers::exchanges::Exchanges;
use peers::public_rules;
use peers::{
    CaptureWriter, Cores, Folder, INTERFACE, Inspector, Parsers, PeerError, SoftirqThread, Suricata, Taken,
    Taking, read_frames,
};
use port::Port;
use port_af_packet::AfPacketPort;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use testbed::{Namespace, TestbedError};

/// The interface that the worker sends by.
const FEED: &str = "sf-feed";
/// Frames of a burst that a queue of the kernel's takes.
const BURST: usize = 8192;
/// Flows of the traffic that rules look at.
const EXCHANGES: u32 = 4000;
/// Runs with rules: they are printed, and nothing is promised.
const RUNS_WITH_RULES: usize = 3;
/// So often a run is made again in which a packet was lost.
const TRIES: usize = 4;
const SETUP: Duration = Duration::from_secs(10);

/// Ways of handing packets over.
const WAYS: [Way; 3] = [Way::Memif, Way::AfPacket, Way::Nfqueue];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Memif,
    AfPacket,
    Nfqueue,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Memif => "memif",
            Way::AfPacket => "af-packet",
            Way::Nfqueue => "nfq",
        }
    }
}

/// Packets, and what is looked for in them.
struct Load {
    frames: Frames,
    rules: String,
    parsers: Parsers,
    /// The first of them warm up.
    warm: usize,
    /// Those that are measured, over memif and from a file; and by the kernel.
    counts: [usize; 2],
    /// As a file, those that warm up, and those with the measured ones.
    files: [PathBuf; 2],
}

impl Load {
    fn count(&self, way: Way) -> usize {
        self.counts[usize::from(way != Way::Memif)]
    }

    /// Writes the files: the frames in turn.
    fn write(&self) -> Result<(), PeerError> {
        for (path, count) in self.files.iter().zip([self.warm, self.warm + self.counts[0]]) {
            let mut writer = CaptureWriter::create(path)?;
            for (frame, micros) in self.frames.iter().cycle().take(count).zip((0..).step_by(10)) {
                writer.frame(micros, frame)?;
            }
            writer.finish()?;
        }
        Ok(())
    }
}

/// Nanoseconds for a packet at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    sender: f64,
    suricata: f64,
}

impl Cost {
    fn of(sender: Duration, suricata: Duration, packets: usize) -> Cost {
        let each = |time: Duration| time.as_nanos() as f64 / packets as f64;
        Cost { sender: each(sender), suricata: each(suricata) }
    }

    /// What handing over takes, beyond the same from a file.
    fn beyond(self, file: f64) -> f64 {
        self.sender + (self.suricata - file).max(0.0)
    }

    fn all(self) -> f64 {
        self.sender + self.suricata
    }
}

pub(super) fn run(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    peers::missing_of(&[IPTABLES]).map_err(BenchError::setup)?;
    let _backlog = Backlog::raise()?;
    let folder = Folder::new().map_err(BenchError::setup)?;
    let files = |of: &str| ["short", "long"].map(|name| folder.file(&format!("{of}-{name}.pcap")));
    let plain = Load {
        frames: datagrams(),
        rules: String::new(),
        parsers: Parsers::None,
        warm: DISTINCT,
        counts: [8 * DISTINCT, 2 * DISTINCT],
        files: files("plain"),
    };
    plain.write().map_err(BenchError::setup)?;
    let mut found: [Vec<Cost>; 3] = Default::default();
    let mut file = Vec::new();
    for run in 0..=RUNS {
        (stage.progress)(0.1 + 0.4 * run as f64 / RUNS as f64, "delivery without rules");
        let from_file = from_file(stage.cores, &plain, None)?;
        let costs = ways(stage, &plain, run == 0)?;
        // The first one warms up.
        if run > 0 {
            file.push(from_file);
            found.iter_mut().zip(costs).for_each(|(all, cost)| all.push(cost));
        }
    }
    report(&found, &file, &mut stage.results);

    let seeded = folder.file("seeded.pcap");
    let public = public_rules::rules(super::RULES);
    Exchanges::write(&seeded, &public, EXCHANGES).map_err(BenchError::setup)?;
    let frames = Arc::new(read_frames(&seeded).map_err(BenchError::setup)?);
    let (warm, all) = (frames.len() / 10, frames.len());
    let loaded = Load {
        frames,
        rules: rules(),
        parsers: Parsers::Messages,
        warm,
        counts: [all - warm; 2],
        files: Default::default(),
    };
    let mut totals: [Vec<f64>; 3] = Default::default();
    for run in 0..RUNS_WITH_RULES {
        (stage.progress)(0.5 + 0.1 * run as f64 / RUNS_WITH_RULES as f64, "delivery with rules");
        let costs = ways(stage, &loaded, false)?;
        totals.iter_mut().zip(costs).for_each(|(all, cost)| all.push(cost.all()));
    }
    for (way, total) in WAYS.iter().zip(&totals) {
        stage.results.push(nanoseconds(&format!("rules-{}-ns", way.name()), total));
    }
    Ok(())
}

/// The ratios, and what they are made of.
fn report(found: &[Vec<Cost>; 3], file: &[f64], into: &mut Vec<Measurement>) {
    let beyond = |costs: &[Cost]| -> Vec<f64> {
        costs.iter().zip(file).map(|(cost, file)| cost.beyond(*file)).collect()
    };
    let ours = beyond(&found[0]);
    for (way, costs) in WAYS.iter().zip(found).skip(1) {
        let ratios: Vec<f64> = beyond(costs).iter().zip(&ours).map(|(theirs, ours)| theirs / ours).collect();
        into.push(Measurement::new(&format!("{}-ratio", way.name()), "x", &ratios));
    }
    for (way, costs) in WAYS.iter().zip(found) {
        into.push(nanoseconds(&format!("{}-ns", way.name()), &beyond(costs)));
        let of = |part: fn(&Cost) -> f64| costs.iter().map(part).collect::<Vec<f64>>();
        into.push(nanoseconds(&format!("{}-sender-ns", way.name()), &of(|cost| cost.sender)));
        into.push(nanoseconds(&format!("{}-suricata-ns", way.name()), &of(|cost| cost.suricata)));
    }
    into.push(nanoseconds("file-ns", file));
}

/// Nanoseconds for a packet that Suricata reads from a file, its start not counted.
fn from_file(cores: Cores, load: &Load, note: Option<&mut Vec<String>>) -> Result<f64, BenchError> {
    let peer = Suricata::new(&load.rules, load.parsers, cores).map_err(BenchError::setup)?;
    if let Some(notes) = note {
        notes.push(format!("delivery, file: {}", peer.configuration.trim_end()));
    }
    let [short, long] = &load.files;
    let short = peer.read(short).map_err(BenchError::setup)?.time;
    let long = peer.read(long).map_err(BenchError::setup)?.time;
    Ok(long.saturating_sub(short).as_nanos() as f64 / load.counts[0] as f64)
}

/// All ways, one after the other.
fn ways(stage: &mut Stage<'_>, load: &Load, first: bool) -> Result<[Cost; 3], BenchError> {
    if first {
        let _ = from_file(stage.cores, load, Some(&mut stage.notes))?;
    }
    let mut costs = [Cost::default(); 3];
    for (way, cost) in WAYS.into_iter().zip(&mut costs) {
        // What was lost on the way makes a run worthless, and no other.
        let mut tries = 0;
        *cost = loop {
            let found = match way {
                Way::Memif => by_memif(stage, load, first && tries == 0),
                _ => by_kernel(stage, load, way, first && tries == 0),
            };
            tries += 1;
            match found {
                Err(BenchError::Invalid(_)) if tries < TRIES => {}
                other => break other?,
            }
        };
    }
    Ok(costs)
}

fn by_memif(stage: &mut Stage<'_>, load: &Load, first: bool) -> Result<Cost, BenchError> {
    let folder = Folder::new().map_err(BenchError::setup)?;
    let socket = folder.file("ids.sock");
    let mut feeder = Feeder::memif(load.frames.clone(), &[&socket], RING, stage.cores)?;
    let namespace = Namespace::new().map_err(BenchError::setup)?;
    let peer =
        Inspector::start(&namespace, &load.rules, load.parsers, Taking::Memif(&socket, RING), stage.cores)
            .map_err(BenchError::setup)?;
    feeder.connect()?;
    feeder.send(load.warm)?;
    let kernel = Softirq::of(stage.cores);
    let time = || peer.time().map_err(BenchError::setup);
    let (before, waiting) = (time()?, feeder.waiting());
    let sent = feeder.send(load.count(Way::Memif))?;
    let (after, left) = (time()?, feeder.waiting());
    let [of_sender, of_peer] = kernel.since();
    let seen = load.count(Way::Memif) + waiting - left;
    let sender = (sent + of_sender).mul_f64(seen as f64 / load.count(Way::Memif) as f64);
    feeder.drain()?;
    if first {
        stage.note("delivery, memif", &peer.configuration);
        stage.notes.push(
            "delivery, superfluid: frames in memory, a wire, a port of type memif, role master, ring 4096"
                .into(),
        );
    }
    check(feeder.finish()?, peer.finish())?;
    Ok(Cost::of(sender, after.saturating_sub(before) + of_peer, seen))
}

fn by_kernel(stage: &mut Stage<'_>, load: &Load, way: Way, first: bool) -> Result<Cost, BenchError> {
    let [sender, host] = pair(way, &load.frames[0]).map_err(BenchError::setup)?;
    let port = sender.enter(|| AfPacketPort::open(port_af_packet::Settings::new(FEED)));
    let port: Box<dyn Port> = Box::new(port.map_err(BenchError::setup)?);
    let mut feeder = Feeder::kernel(load.frames.clone(), port, stage.cores)?;
    let taking = if way == Way::AfPacket { Taking::AfPacket } else { Taking::Nfqueue };
    let peer =
        Inspector::start(&host, &load.rules, load.parsers, taking, stage.cores).map_err(BenchError::setup)?;
    peer.rest().map_err(BenchError::setup)?;
    // Suricata's end works while the sender stands, and the other way round.
    let mut bursts = |mut count: usize| -> Result<[Duration; 2], BenchError> {
        let kernel = Softirq::of(stage.cores);
        let time = || peer.time().map_err(BenchError::setup);
        let [mut sending, mut seeing] = [Duration::ZERO; 2];
        while count > 0 {
            let burst = count.min(BURST);
            count -= burst;
            peer.pause().map_err(BenchError::setup)?;
            sending += feeder.send(burst)?;
            let before = time()?;
            peer.resume().map_err(BenchError::setup)?;
            peer.rest().map_err(BenchError::setup)?;
            seeing += time()?.saturating_sub(before);
        }
        let [of_sender, of_peer] = kernel.since();
        Ok([sending + of_sender, seeing + of_peer])
    };
    bursts(load.warm)?;
    let [sending, seeing] = bursts(load.count(way))?;
    if first {
        stage.note(&format!("delivery, {}", way.name()), &peer.configuration);
        stage.notes.push(format!(
            "delivery, at the other end of {}: frames in memory, a wire, a port of type af_packet at a veth; bursts of {BURST}, net.core.netdev_max_backlog at least twice that{}",
            way.name(),
            if way == Way::Nfqueue { format!("; {}", rule()) } else { String::new() }
        ));
    }
    check(feeder.finish()?, peer.finish())?;
    Ok(Cost::of(sending, seeing, load.count(way)))
}

/// The kernel's own threads of both processors, from a moment on.
struct Softirq([SoftirqThread; 2], [Duration; 2]);

impl Softirq {
    fn of(cores: Cores) -> Softirq {
        let threads = [cores.sender, cores.device].map(SoftirqThread::of);
        let began = [threads[0].time(), threads[1].time()];
        Softirq(threads, began)
    }

    /// Their time since then, the sender's first.
    fn since(&self) -> [Duration; 2] {
        [0, 1].map(|n| self.0[n].time().saturating_sub(self.1[n]))
    }
}

/// How many packets the kernel's queue of each processor takes, raised so that a burst finds room in it, and
/// set back with this value. What finds none is lost without a word.
struct Backlog(String);

impl Backlog {
    const PATH: &str = "/proc/sys/net/core/netdev_max_backlog";

    fn raise() -> Result<Backlog, BenchError> {
        let failed = |error| BenchError::Setup(format!("{}: {error}", Backlog::PATH));
        let before = fs::read_to_string(Backlog::PATH).map_err(failed)?;
        if before.trim().parse::<usize>().is_ok_and(|packets| packets < 2 * BURST) {
            fs::write(Backlog::PATH, (2 * BURST).to_string()).map_err(failed)?;
        }
        Ok(Backlog(before))
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        // It could be written before.
        let _ = fs::write(Backlog::PATH, &self.0);
    }
}

/// The rule that hands packets to the queue: the first hook that there is. What comes back has no route.
fn rule() -> String {
    format!("iptables-legacy -t raw -A PREROUTING -i {INTERFACE} -j NFQUEUE --queue-num 0")
}

/// The sender and Suricata's host, joined by a veth pair whose end there has the frames' address.
fn pair(way: Way, frame: &[u8]) -> Result<[Namespace; 2], TestbedError> {
    let (sender, host) = (Namespace::new()?, Namespace::new()?);
    host.join(INTERFACE, &sender, FEED)?;
    let address: Vec<String> = frame.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    host.ip(&format!("link set {INTERFACE} address {}", address.join(":")))?;
    if way == Way::Nfqueue {
        host.run(&rule(), SETUP)?;
    }
    Ok([sender, host])
}

/// That every packet was seen.
pub(super) fn check(sent: u64, taken: Result<Taken, PeerError>) -> Result<Taken, BenchError> {
    let taken = taken.map_err(BenchError::setup)?;
    if taken.packets != sent || taken.lost > 0 {
        let (packets, lost) = (taken.packets, taken.lost);
        return Err(BenchError::Invalid(format!(
            "of {sent} packets Suricata has seen {packets}, and {lost} were lost before it"
        )));
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_takes_longer_does_not_count_against_the_sender() {
        let cost = Cost::of(Duration::from_nanos(600), Duration::from_nanos(3000), 10);
        assert_eq!((cost.beyond(250.0), cost.beyond(400.0), cost.all()), (110.0, 60.0, 360.0));
    }

    #[test]
    fn ratios_are_of_what_both_ends_take_beyond_a_file() {
        let cost = |sender, suricata| vec![Cost { sender, suricata }; 2];
        let mut results = Vec::new();
        report(&[cost(50.0, 450.0), cost(500.0, 500.0), cost(700.0, 900.0)], &[400.0, 400.0], &mut results);
        let value = |name: &str| results.iter().find(|result| result.name == name).map(|result| result.value);
        assert_eq!((value("af-packet-ratio"), value("nfq-ratio")), (Some(6.0), Some(12.0)));
        assert_eq!((value("memif-ns"), value("file-ns")), (Some(100.0), Some(400.0)));
    }

    #[test]
    fn a_packet_that_was_not_seen_makes_a_run_no_measurement() {
        let taken = |packets, lost| Ok(Taken { packets, lost, ..Taken::default() });
        assert!(check(5, taken(5, 0)).is_ok());
        assert!(
            check(5, taken(4, 0)).is_err()
                && check(5, taken(6, 0)).is_err()
                && check(5, taken(5, 1)).is_err()
        );
    }
}
