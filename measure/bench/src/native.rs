// UNSAFETY: the process that is measured writes to packets where they lie, as native functions do: through
// the pointer that the library gives for them, within the length that it was asked for.
#![allow(unsafe_code)]
//! A native function: with a processor of its own, beside two testpmd that are joined by memif; and on the
//! worker's processor, beside one that is woken for every batch.
//!
//! The function is a process that exchanges the addresses of each frame, as l2fwd and testpmd's `macswap` do.
//! What comes to it and what it sends passes native ports of one worker, between a source that always has a
//! packet and an end. Where the function is woken for every batch, the next [`BATCH`] packets come when those
//! before have come out, as in a switch that hands a guest one batch at a time (`merge`).
//!
//! Beside that, what containers get of a processor that they are promised a part of ([`shares`]), and what
//! servers behind a veth pair cost ([`applications`]).

mod applications;
mod shares;

use crate::feed::{Counter, Feed, Frames};
use crate::forward::{BURST, forward};
use crate::frames::BATCH;
use crate::guests::change;
use crate::{BenchError, CHILD, Measurement, RUNS};
use ::peers::{Cores, Folder, MemifPair};
use engine::{End, Fleet, ThreadPlan, WorkerSettings};
use packet_memory::Pool;
use port::{Port, PortCounters, Wake};
use port_native::{NativePort, Processes, Settings};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use superfluid_native::{Attachment, Packet};
use telemetry::clock::{Clock, Nanos};
use testbed::Namespace;

/// Buffers of each side.
const BUFFERS: u32 = 4096;
/// Bytes of the frames.
const SIZE: usize = 64;
const WINDOW: Duration = Duration::from_millis(400);
const WARM_UP: Duration = Duration::from_millis(200);

/// The child: runs on processor `arguments[0]`, and exchanges the addresses of frames.
pub(crate) fn child(arguments: &[usize]) -> Result<u64, BenchError> {
    let [core] = arguments else { return Err(BenchError::setup("found no processor")) };
    let mut set = rustix::thread::CpuSet::new();
    set.set(*core);
    rustix::thread::sched_setaffinity(None, &set).map_err(BenchError::setup)?;
    let attach = |path| Attachment::attach(path).map_err(BenchError::setup);
    let (mut input, mut output) = (attach("in")?, attach("out")?);
    println!("attached");
    std::io::stdout().flush().map_err(BenchError::setup)?;
    forward(&mut input, &mut output, |input, packet| exchange(input, packet));
    Ok(0)
}

/// Exchanges the addresses of a frame.
fn exchange(attachment: &Attachment, packet: &Packet) {
    let head = attachment.data(packet).cast::<[u8; 12]>();
    if packet.length >= 12 && !head.is_null() {
        // SAFETY: the first twelve bytes of a packet that this process has and may write to; bytes have no
        // alignment. The engine reads and writes them by copies alone.
        unsafe {
            let mut bytes = head.read_volatile();
            bytes.rotate_left(6);
            head.write_volatile(bytes);
        }
    }
}

/// Gives a batch when all packets before have come out.
pub(crate) struct InTurn {
    pub(crate) feed: Feed<Frames>,
    /// What has come out.
    pub(crate) delivered: Arc<AtomicU64>,
}

impl InTurn {
    fn is_due(&self) -> bool {
        self.feed.counters().ledger.generated == self.delivered.load(Relaxed)
    }
}

impl Port for InTurn {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<packet_memory::Packet>) {
        if self.is_due() {
            self.feed.receive(pool, now, budget, out);
        }
    }

    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<packet_memory::Packet>) {
        self.feed.transmit(pool, now, packets);
    }

    fn wake(&self) -> Wake<'_> {
        if self.is_due() { Wake::NOW } else { Wake::default() }
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn counters(&self) -> &PortCounters {
        self.feed.counters()
    }
}

/// A running child, ended with this.
struct Function(Child);

impl Function {
    fn start(folder: &Folder, core: usize) -> Result<Function, BenchError> {
        let program = std::env::current_exe().map_err(BenchError::setup)?;
        let mut command = Command::new(program);
        command.current_dir(folder.path()).args(["native", CHILD, &core.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(BenchError::setup)?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(BenchError::setup)?;
        }
        let function = Function(child);
        if line.trim() == "attached" {
            Ok(function)
        } else {
            Err(BenchError::setup("a native function did not attach"))
        }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Packets a second through a function on this processor, with the worker on that one; in turn, or as many as
/// there is room for.
fn rate(worker: usize, function: usize, in_turn: bool) -> Result<f64, BenchError> {
    let folder = Folder::new().map_err(BenchError::setup)?;
    let pool = crate::guests::pool(BUFFERS, None)?;
    let fleet = Fleet::new(&[WorkerSettings::default()], Clock::calibrate(), |_| {});
    let fleet = fleet.map_err(BenchError::setup)?;
    let id = change(&fleet, |change| change.add_pool(pool.clone()))?;
    let processes = Processes::default();
    let native = |name: &str| -> Result<Box<dyn Port>, BenchError> {
        let path = folder.file(name).display().to_string();
        let settings = Settings { write: true, ..Settings::new(&path) };
        let port = NativePort::open(settings, pool.clone(), &processes).map_err(BenchError::setup)?;
        Ok(Box::new(port))
    };
    let delivered = Arc::new(AtomicU64::new(0));
    // As many at once as testpmd is told to take.
    let most = if in_turn { BATCH } else { BURST };
    let feed = Feed::open(Frames::Computed { size: SIZE }).at_most(most);
    let source: Box<dyn Port> =
        if in_turn { Box::new(InTurn { feed, delivered: delivered.clone() }) } else { Box::new(feed) };
    let add = |name: &str, port: Box<dyn Port>| change(&fleet, |change| change.add_port(0, name, id, port));
    let ends = [
        (add("source", source)?, add("in", native("in")?)?),
        (add("out", native("out")?)?, add("sink", Box::new(Counter::new(delivered.clone())))?),
    ];
    for (from, to) in ends {
        change(&fleet, |change| change.link(End::Port(from), End::Port(to)))?;
    }
    let process = Function::start(&folder, function)?;
    let plan = ThreadPlan { name: "measured".to_owned(), processors: Some(vec![worker]) };
    fleet.start(&[plan]).map_err(BenchError::setup)?;
    std::thread::sleep(WARM_UP);
    let (before, began) = (delivered.load(Relaxed), Instant::now());
    std::thread::sleep(WINDOW);
    let rate = (delivered.load(Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    fleet.stop().map_err(BenchError::setup)?;
    drop(process);
    if rate > 1000.0 { Ok(rate) } else { Err(BenchError::Invalid("packets do not go round".to_owned())) }
}

/// What is said where forwarders cannot be measured.
fn missing() -> Vec<Measurement> {
    let missing = |name: &str| Measurement::missing(name, "x", "not-measured");
    vec![missing("own-core-ratio"), missing("same-core-ratio")]
}

/// What a part of the bench finds, and its notes.
type Found = Result<(Vec<Measurement>, Vec<String>), BenchError>;

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Found {
    let cores = Cores::find().map_err(BenchError::setup)?;
    type Part = fn(Cores, &mut dyn FnMut(f64, &str)) -> Found;
    type Missing = fn() -> Vec<Measurement>;
    let parts: [(Part, Missing); 3] =
        [(forwarders, missing), (shares::run, shares::missing), (applications::run, applications::missing)];
    let (mut results, mut notes) = (Vec::new(), Vec::new());
    for (n, (part, missing)) in parts.into_iter().enumerate() {
        let mut progress = |done: f64, what: &str| progress((n as f64 + done) / 3.0, what);
        match part(cores, &mut progress) {
            Ok((found, words)) => {
                results.extend(found);
                notes.extend(words);
            }
            // What is not installed, say.
            Err(reason) => {
                results.extend(missing());
                notes.push(format!("not measured: {reason}"));
            }
        }
    }
    Ok((results, notes))
}

/// Forwarders, beside testpmd and beside one that is woken for every batch.
fn forwarders(cores: Cores, progress: &mut dyn FnMut(f64, &str)) -> Found {
    let namespace = Namespace::new().map_err(BenchError::setup)?;
    progress(0.0, "two testpmd");
    let peer = MemifPair::start(&namespace, BURST, BUFFERS, cores).map_err(BenchError::setup)?;
    let (mut own, mut pair, mut same, mut woken) = (vec![], vec![], vec![], vec![]);
    for run in 0..=RUNS {
        progress(run as f64 / (RUNS + 1) as f64, "in turns");
        peer.resume().map_err(BenchError::setup)?;
        let began = Instant::now();
        let theirs = peer.measure(WINDOW).map_err(BenchError::setup)?;
        let theirs = theirs.packets as f64 / began.elapsed().as_secs_f64();
        peer.pause().map_err(BenchError::setup)?;
        let apart = rate(cores.sender, cores.device, false)?;
        let together = rate(cores.device, cores.device, false)?;
        let by_batch = rate(cores.device, cores.device, true)?;
        // The first one warms up.
        if run > 0 {
            own.push(apart / 1e6);
            pair.push(theirs / 1e6);
            same.push(together / 1e6);
            woken.push(by_batch / 1e6);
        }
    }
    let ratio = |of: &[f64], over: &[f64]| -> Vec<f64> { of.iter().zip(over).map(|(a, b)| a / b).collect() };
    let results = vec![
        Measurement::new("own-core-ratio", "x", &ratio(&own, &pair)),
        Measurement::new("own-core-mpps", "Mpps", &own),
        Measurement::new("memif-mpps", "Mpps", &pair),
        Measurement::new("same-core-ratio", "x", &ratio(&same, &woken)),
        Measurement::new("same-core-mpps", "Mpps", &same),
        Measurement::new("woken-mpps", "Mpps", &woken),
    ];
    let notes = vec![
        format!("memif: {}", peer.configurations.join(", and ")),
        format!(
            "own core: the worker on processor {}, the function on processor {}",
            cores.sender, cores.device
        ),
        format!(
            "same core: both on processor {}; woken: {BATCH} packets at a time, the next when these have come out",
            cores.device
        ),
    ];
    Ok((results, notes))
}
