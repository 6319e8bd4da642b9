//! How much later packets are that go through Suricata, inline between two memif ports, than by a plain wire.
//!
//! Packets go one at a time, a millisecond after each other, through a worker that works and sleeps as it
//! does in the program. Suricata's thread for the way there has a processor, and the worker has the other
//! one; its thread for the way back, which has nothing to do and polls, has what the first one leaves.

use super::feeder::Watched;
use super::{Frames, RING, Stage, datagrams, rules};
use crate::guests::pool;
use crate::statistics::percentile;
use crate::{BenchError, Measurement, RUNS};
use engine::{Target, Worker, WorkerSettings};
use packet_memory::{Packet, Pool};
use peers::{Cores, Folder, Inspector, Parsers, Taking};
use port::{Port, PortCounters, Wake};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use telemetry::clock::{Clock, Nanos};
use testbed::Namespace;

/// Packets of a run.
const PACKETS: usize = 1000;
/// Between two packets.
const EVERY: Nanos = Nanos::from_millis(1);
/// Longest time for a run, and until Suricata is there.
const LIMIT: Duration = Duration::from_secs(60);

/// When the packet on its way left, in nanoseconds from a beginning.
struct Watch {
    began: Instant,
    left: AtomicU64,
    took: Mutex<Vec<f64>>,
}

/// Gives a packet at each tick, if the one before has arrived.
struct Ticks {
    watch: Arc<Watch>,
    frames: Frames,
    next: Nanos,
    number: usize,
    counters: PortCounters,
}

impl Port for Ticks {
    fn receive(&mut self, pool: &Pool, now: Nanos, _budget: usize, out: &mut Vec<Packet>) {
        if now < self.next || self.watch.left.load(Relaxed) > 0 {
            return;
        }
        let Some(mut packet) = pool.allocate() else { return };
        self.next = Nanos(now.0 + EVERY.0);
        if pool.write(&mut packet, &self.frames[self.number % self.frames.len()]).is_err() {
            return pool.free(packet);
        }
        self.number += 1;
        self.counters.ledger.generated += 1;
        out.push(packet);
        self.watch.left.store(self.watch.began.elapsed().as_nanos() as u64, Relaxed);
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        crate::feed::deliver(&mut self.counters, pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        // Until the packet arrives another port has what wakes the worker.
        if self.watch.left.load(Relaxed) > 0 { Wake::default() } else { Wake::at(self.next) }
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// Where packets arrive.
struct Arrivals {
    watch: Arc<Watch>,
    counters: PortCounters,
}

impl Port for Arrivals {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        let took =
            (self.watch.began.elapsed().as_nanos() as u64).saturating_sub(self.watch.left.swap(0, Relaxed));
        self.watch.took.lock().unwrap_or_else(PoisonError::into_inner).push(took as f64 / 1e3);
        crate::feed::deliver(&mut self.counters, pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// A worker that packets go through one at a time.
struct Line {
    worker: Worker,
    watch: Arc<Watch>,
    rings: Vec<Arc<AtomicUsize>>,
    cores: Cores,
}

impl Line {
    /// By a wire, or by two memif ports, whose sockets these are.
    fn new(
        frames: Frames,
        sockets: Option<&[std::path::PathBuf; 2]>,
        cores: Cores,
    ) -> Result<Line, BenchError> {
        let clock = Clock::calibrate();
        let mut worker = Worker::new(WorkerSettings::default(), clock, |_| {}).map_err(BenchError::setup)?;
        let pool_id = worker.add_pool(pool(2048, None)?).map_err(BenchError::setup)?;
        let watch =
            Arc::new(Watch { began: Instant::now(), left: AtomicU64::new(0), took: Mutex::default() });
        let counters = PortCounters::default();
        let ticks =
            Ticks { watch: watch.clone(), frames, next: Nanos(0), number: 0, counters: counters.clone() };
        let ticks = Target::Port(worker.add_port("ticks", pool_id, Box::new(ticks)));
        let arrivals = Arrivals { watch: watch.clone(), counters };
        let arrivals = Target::Port(worker.add_port("arrivals", pool_id, Box::new(arrivals)));
        let mut rings = Vec::new();
        match sockets {
            None => worker.link(ticks, arrivals).map_err(BenchError::setup)?,
            Some(sockets) => {
                for (socket, end) in sockets.iter().zip([ticks, arrivals]) {
                    let (mut port, room) = Watched::open(socket, RING)?;
                    port.maintain(clock.now());
                    rings.push(room);
                    let port = Target::Port(worker.add_port("ids", pool_id, Box::new(port)));
                    worker.link(end, port).map_err(BenchError::setup)?;
                }
            }
        }
        // Nothing is sent until it is let.
        watch.left.store(u64::MAX, Relaxed);
        Ok(Line { worker, watch, rings, cores })
    }

    /// Waits until Suricata is at both ports.
    fn connect(&mut self) -> Result<(), BenchError> {
        let began = Instant::now();
        while self.rings.iter().any(|room| room.load(Relaxed) < RING) {
            self.worker.turn();
            std::thread::sleep(Duration::from_millis(1));
            if began.elapsed() > LIMIT {
                return Err(BenchError::Invalid("Suricata does not come to its memif".into()));
            }
        }
        Ok(())
    }

    /// Microseconds of a packet, the median.
    fn run(&mut self) -> Result<f64, BenchError> {
        let _claim = Cores::claim(self.cores.sender).map_err(BenchError::setup)?;
        let began = Instant::now();
        let watch = self.watch.clone();
        let all = || watch.took.lock().unwrap_or_else(PoisonError::into_inner);
        all().clear();
        watch.left.store(0, Relaxed);
        while all().len() < PACKETS {
            self.worker.step();
            if began.elapsed() > LIMIT {
                let count = all().len();
                return Err(BenchError::Invalid(format!("a packet was lost after {count} of {PACKETS}")));
            }
        }
        // Whether or not another one has left.
        while watch.left.load(Relaxed) > 0 && began.elapsed() < LIMIT {
            self.worker.step();
        }
        watch.left.store(u64::MAX, Relaxed);
        Ok(percentile(&all(), 0.5))
    }
}

pub(super) fn run(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    (stage.progress)(0.6, "latency");
    let (cores, frames) = (stage.cores, datagrams());
    let mut plain = Line::new(frames.clone(), None, cores)?;
    let folder = Folder::new().map_err(BenchError::setup)?;
    let sockets = ["left.sock", "right.sock"].map(|name| folder.file(name));
    let mut inline = Line::new(frames, Some(&sockets), cores)?;
    let namespace = Namespace::new().map_err(BenchError::setup)?;
    let [left, right] = &sockets;
    let peer =
        Inspector::start(&namespace, &rules(), Parsers::Messages, Taking::Inline([left, right], RING), cores)
            .map_err(BenchError::setup)?;
    stage.note("latency, Suricata", &peer.configuration);
    inline.connect()?;
    let (mut added, mut wires) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        (stage.progress)(0.6 + 0.15 * run as f64 / RUNS as f64, "latency");
        let wire = plain.run()?;
        let through = inline.run()?;
        // The first one warms up.
        if run > 0 {
            added.push(through - wire);
            wires.push(wire);
        }
    }
    for line in [plain, inline] {
        let account = line.worker.stop();
        account.balance().map_err(BenchError::setup)?;
        if account.ledger.dropped.total() > 0 {
            return Err(BenchError::Invalid(format!("packets were lost: {:?}", account.ledger.dropped)));
        }
    }
    peer.finish().map_err(BenchError::setup)?;
    stage.results.push(Measurement::new("latency-us", "us", &added));
    stage.results.push(Measurement::new("wire-us", "us", &wires));
    Ok(())
}
