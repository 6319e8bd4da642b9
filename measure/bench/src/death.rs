//! What it costs when a native function dies: another process stands by and takes over, under load.
//!
//! Two chains go through one worker, each from a source through the processes of two native ports to an end
//! that knows which process each packet has passed. The processes of one are killed, at random moments, and
//! stopped, so that they hang; the other one's live, and lose no packet.

use crate::forward::forward;
use crate::guests::change;
use crate::statistics::percentile;
use crate::{BenchError, Measurement};
use engine::{End, Fleet, PoolId, ThreadPlan, WorkerSettings};
use packet_memory::{Packet, Pool};
use port::{Port, PortCounters, Wake};
use port_native::{NativePort, Processes, Settings};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use superfluid_native::Attachment;
use telemetry::clock::{Clock, Nanos};

const BUFFERS: u32 = 4096;
/// Kills, unless the time is over before.
const KILLS: usize = 1000;
const TIME: Duration = Duration::from_secs(150);
/// So many kills follow each hang.
const KILLS_PER_HANG: usize = 20;
/// Of the process, in MiB; and of one that is killed a few times.
const SIZE: usize = 64;
const LARGE: (usize, usize) = (1024, 20);
/// Packets a second of each chain.
const RATE: u64 = 50_000;
const HEARTBEAT: Duration = Duration::from_millis(100);
/// Met by a defect alone.
const LONG: Duration = Duration::from_secs(20);

/// The child: a function that has so many MiB of memory, and marks each packet with its number.
pub(crate) fn child(arguments: &[usize]) -> Result<u64, BenchError> {
    let [size] = arguments else { return Err(BenchError::setup("found no size; allowed: MiB of memory")) };
    let mut memory = vec![0u8; size << 20];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
    let attach = |path| Attachment::attach(path).map_err(BenchError::setup);
    let (mut input, mut output) = (attach("in")?, attach("out")?);
    println!("attached");
    std::io::stdout().flush().map_err(BenchError::setup)?;
    let own = std::process::id();
    forward(&mut input, &mut output, |_, packet| packet.mark = own.into());
    Ok(0)
}

/// A child that is ended with this.
struct Function(Child);

impl Function {
    /// Starts one at the ports of a folder; it is attached when this returns.
    fn start(folder: &Path, size: usize) -> Result<Function, BenchError> {
        let program = std::env::current_exe().map_err(BenchError::setup)?;
        let mut command = Command::new(program);
        command.current_dir(folder).args(["death", crate::CHILD, &size.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(BenchError::setup)?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(BenchError::setup)?;
        }
        let function = Function(child);
        if line.trim() != "attached" {
            return Err(BenchError::setup("a native function did not attach"));
        }
        Ok(function)
    }

    fn number(&self) -> u32 {
        self.0.id()
    }

    fn signal(&self, signal: i32) {
        // It has not been waited for: the number is its own.
        let pid = rustix::process::Pid::from_child(&self.0);
        if let Some(signal) = rustix::process::Signal::from_named_raw(signal) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives numbered packets at [`RATE`] while its gate is open.
struct Source {
    open: Arc<AtomicBool>,
    begun: Option<Nanos>,
    next: u64,
    counters: PortCounters,
}

impl Source {
    fn due(&self, number: u64) -> Option<Nanos> {
        Some(Nanos(self.begun?.0 + number * (1_000_000_000 / RATE)))
    }
}

impl Port for Source {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if !self.open.load(Relaxed) {
            return;
        }
        let begun = self.begun.get_or_insert(now).0;
        let wanted = (now.0.saturating_sub(begun) / (1_000_000_000 / RATE)).saturating_sub(self.next);
        // What a busy processor has kept from being sent is not made up for at once.
        if wanted > 256 {
            self.begun = Some(Nanos(now.0.saturating_sub(self.next * (1_000_000_000 / RATE))));
        }
        for _ in 0..wanted.min(budget as u64).min(32) {
            let Some(mut packet) = pool.allocate() else { return };
            let mut frame = [0; 60];
            frame[14..22].copy_from_slice(&self.next.to_le_bytes());
            if pool.write(&mut packet, &frame).is_err() {
                return pool.free(packet);
            }
            self.next += 1;
            self.counters.ledger.received += 1;
            out.push(packet);
        }
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.consumed += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }

    fn wake(&self) -> Wake<'_> {
        Wake::at(self.due(self.next + 1).unwrap_or(Nanos(0)))
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// What has come to an end of a chain.
#[derive(Default)]
struct Arrived {
    packets: AtomicU64,
    /// Numbers that were left out or came again.
    gaps: AtomicU64,
    /// Which processes packets have passed, in turn, and when the first of each came.
    passed: Mutex<Vec<(u32, Instant)>>,
}

impl Arrived {
    fn by(&self, process: u32) -> Option<Instant> {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed.iter().rev().take(8).find(|(other, _)| *other == process).map(|(_, at)| *at)
    }
}

struct Last {
    arrived: Arc<Arrived>,
    expected: u64,
    process: u32,
    counters: PortCounters,
}

impl Port for Last {
    fn receive(&mut self, _: &Pool, _: Nanos, _: usize, _: &mut Vec<Packet>) {}

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        for packet in packets.iter() {
            let process = packet.record().mark as u32;
            if process != self.process {
                self.process = process;
                let mut passed = self.arrived.passed.lock().unwrap_or_else(PoisonError::into_inner);
                passed.push((process, Instant::now()));
            }
            let (head, _) = pool.head::<22>(packet);
            let number = head.last_chunk().map_or(0, |number| u64::from_le_bytes(*number));
            self.arrived.gaps.fetch_add(number.abs_diff(self.expected), Relaxed);
            self.expected = number + 1;
        }
        self.arrived.packets.fetch_add(packets.len() as u64, Relaxed);
        self.counters.ledger.delivered += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }

    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// A chain through the processes of two native ports.
struct Chain {
    folder: PathBuf,
    arrived: Arc<Arrived>,
}

/// What a chain's ports are made of.
struct Around<'a> {
    fleet: &'a Fleet,
    pool: (Arc<Pool>, PoolId),
    processes: Processes,
    open: Arc<AtomicBool>,
}

impl Around<'_> {
    fn chain(&self, folder: PathBuf, standby: u32) -> Result<Chain, BenchError> {
        fs::create_dir(&folder).map_err(BenchError::setup)?;
        let arrived = Arc::new(Arrived::default());
        let native = |name: &str| {
            let path = folder.join(name).display().to_string();
            let heartbeat = Nanos(u64::try_from(HEARTBEAT.as_nanos()).unwrap_or(u64::MAX));
            let settings = Settings { write: true, standby, heartbeat, ..Settings::new(&path) };
            NativePort::open(settings, self.pool.0.clone(), &self.processes).map_err(BenchError::setup)
        };
        let add = |name: &str, port: Box<dyn Port>| {
            change(self.fleet, |change| change.add_port(0, name, self.pool.1, port))
        };
        let counters = PortCounters::default;
        let source = Source { open: self.open.clone(), begun: None, next: 0, counters: counters() };
        let last = Last { arrived: arrived.clone(), expected: 0, process: 0, counters: counters() };
        let ends = [
            (add("source", Box::new(source))?, add("in", Box::new(native("in")?))?),
            (add("out", Box::new(native("out")?))?, add("last", Box::new(last))?),
        ];
        for (from, to) in ends {
            change(self.fleet, |change| change.link(End::Port(from), End::Port(to)))?;
        }
        Ok(Chain { folder, arrived })
    }
}

/// Removes what the sockets lay in.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> Result<T, BenchError> {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return Ok(found);
        }
        if begun.elapsed() > LONG {
            return Err(BenchError::Invalid(format!("{what}: not within {LONG:?}")));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Marsaglia's xorshift (2003).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

impl Chain {
    /// Ends the process that has the packets by a signal, at a random moment; how long it takes until a
    /// packet has passed the one that stands by, which is returned. `None`: it had them before, because the
    /// first one was taken for hung.
    fn end(
        &self,
        first: Function,
        signal: i32,
        size: usize,
        random: &mut Random,
    ) -> Result<(Function, Option<Duration>), BenchError> {
        let next = Function::start(&self.folder, size)?;
        until("packets pass the process that is to die", || self.arrived.by(first.number()))?;
        std::thread::sleep(Duration::from_micros(1000 + random.below(10_000)));
        let killed = Instant::now();
        first.signal(signal);
        let number = next.number();
        let came = until("packets pass the process that stood by", || self.arrived.by(number))?;
        Ok((next, came.checked_duration_since(killed)))
    }
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let folder = std::env::temp_dir().join(format!("superfluid-bench-death-{}", std::process::id()));
    fs::create_dir(&folder).map_err(BenchError::setup)?;
    let folder = Folder(folder);
    let pool = crate::guests::pool(BUFFERS, None)?;
    let fleet = Fleet::new(&[WorkerSettings::default()], Clock::calibrate(), |_| {});
    let fleet = fleet.map_err(BenchError::setup)?;
    let id = change(&fleet, |change| change.add_pool(pool.clone()))?;
    let open = Arc::new(AtomicBool::new(false));
    let around = Around {
        fleet: &fleet,
        pool: (pool.clone(), id),
        processes: Processes::default(),
        open: open.clone(),
    };
    let (chain, others) = (around.chain(folder.0.join("a"), 1)?, around.chain(folder.0.join("b"), 0)?);
    fleet.start(&[ThreadPlan::default()]).map_err(BenchError::setup)?;
    let beside = Function::start(&others.folder, 1)?;
    let mut function = Function::start(&chain.folder, SIZE)?;
    open.store(true, Relaxed);
    let (mut random, begun) = (Random(0x9e37_79b9_7f4a_7c15), Instant::now());
    let (mut takeovers, mut noticed, mut large) = (Vec::new(), Vec::new(), Vec::new());
    let mut too_early = 0;
    let micros = |span: Duration| span.as_nanos() as f64 / 1e3;
    while takeovers.len() < KILLS && begun.elapsed() < TIME {
        progress(begun.elapsed().as_secs_f64() / TIME.as_secs_f64() * 0.9, "processes that are killed");
        let hang = takeovers.len() % KILLS_PER_HANG == KILLS_PER_HANG - 1
            && noticed.len() * KILLS_PER_HANG < takeovers.len();
        let signal = if hang { libc::SIGSTOP } else { libc::SIGKILL };
        let (next, took) = chain.end(function, signal, SIZE, &mut random)?;
        function = next;
        let Some(took) = took else {
            too_early += 1;
            continue;
        };
        if hang {
            noticed.push(micros(took.saturating_sub(HEARTBEAT)) / 1e3);
        } else {
            takeovers.push(micros(took));
        }
    }
    for n in 0..LARGE.1 {
        progress(0.9 + n as f64 / LARGE.1 as f64 * 0.1, "large processes that are killed");
        // The one that is there has the other size.
        let (next, took) = chain.end(function, libc::SIGKILL, LARGE.0, &mut random)?;
        function = next;
        if n > 0 {
            large.extend(took.map(micros));
        }
    }
    open.store(false, Relaxed);
    // What is on its way arrives; what a process has comes back with its end.
    std::thread::sleep(Duration::from_millis(100));
    let account = fleet.account(false).map_err(BenchError::setup)?;
    let mut sent =
        account.ports.iter().filter(|port| port.name == "source").map(|port| port.counters.ledger.received);
    let sent = sent.next_back().unwrap_or(0);
    let arrived = others.arrived.packets.load(Relaxed);
    let lost = sent.abs_diff(arrived).max(others.arrived.gaps.load(Relaxed));
    drop((function, beside));
    let all = BUFFERS as usize;
    let back = until("buffers come back", || (pool.available() == all).then_some(all));
    let leaked = all - back.unwrap_or_else(|_| pool.available());
    fleet.stop().map_err(BenchError::setup)?;
    let one = |value: usize| [value as f64];
    Ok(vec![
        Measurement::new("kills", "processes", &one(takeovers.len())),
        Measurement::new("hangs", "processes", &one(noticed.len())),
        Measurement::new("taken-for-hung", "processes", &one(too_early)),
        Measurement::new("leaked", "buffers", &one(leaked)),
        Measurement::new("lost-by-others", "packets", &[lost as f64]),
        Measurement::new("takeover-p50-us", "us", &[percentile(&takeovers, 0.5)]),
        Measurement::new("takeover-p99-us", "us", &[percentile(&takeovers, 0.99)]),
        Measurement::new("takeover-1gib-us", "us", &large),
        Measurement::new("noticed-p99-ms", "ms", &[percentile(&noticed, 0.99)]),
    ])
}
