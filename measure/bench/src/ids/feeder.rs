//! A worker that sends frames out of memory by memif ports, or by a port of the kernel's, and loses none.
//!
//! Its source looks at the ports' rings: it stops when one is nearly full and goes on when all are half
//! empty, so that Suricata always has something to do, and the thread sleeps seldom.

use super::Frames;
use crate::guests::pool;
use crate::{BenchError, Measurement};
use engine::{Target, Worker, WorkerSettings};
use packet_memory::{Packet, Pool};
use peers::{Cores, thread_time};
use port::{Port, PortCounters, PortEvent, PortStatus, Wake};
use port_memif::{MemifPort, Role, Settings};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use telemetry::clock::{Clock, Nanos};
use virtual_device::{Balance, Device, DeviceSettings, Mode, Opener, Share, SwitchPort};

/// Buffers of the worker: those that are in use stay in the processor's caches.
const BUFFERS: u32 = 2048;
/// How long it sleeps when there is no room.
const PAUSE: Duration = Duration::from_micros(200);
/// Longest time until the other end is there, and for what it is sent.
const LIMIT: Duration = Duration::from_secs(60);

/// A memif port whose room others can see.
pub(super) struct Watched {
    port: MemifPort,
    room: Arc<AtomicUsize>,
}

impl Watched {
    /// The master of a socket, and its room.
    pub(super) fn open(socket: &Path, ring: usize) -> Result<(Watched, Arc<AtomicUsize>), BenchError> {
        let settings =
            Settings { ring: ring as u32, ..Settings::new(Role::Master, &socket.display().to_string()) };
        let port = MemifPort::open(settings).map_err(BenchError::setup)?;
        let room = Arc::new(AtomicUsize::new(0));
        Ok((Watched { port, room: room.clone() }, room))
    }

    fn note(&self) {
        self.room.store(self.port.room_in_rings(), Relaxed);
    }
}

impl Port for Watched {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.port.receive(pool, now, budget, out);
        self.note();
    }

    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        self.port.transmit(pool, now, packets);
        self.note();
    }

    fn wake(&self) -> Wake<'_> {
        self.port.wake()
    }

    fn status(&self) -> PortStatus {
        self.port.status()
    }

    fn maintain(&mut self, now: Nanos) -> Vec<PortEvent> {
        self.port.maintain(now)
    }

    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }

    fn backlog(&self) -> usize {
        self.port.backlog()
    }

    fn reads_flow_hash(&self) -> bool {
        self.port.reads_flow_hash()
    }

    fn close(&mut self, pool: &Pool) -> Result<(), String> {
        self.port.close(pool)
    }
}

/// Gives frames in turn, as many as are asked for and as there is room for.
struct Source {
    frames: Frames,
    next: usize,
    left: Arc<AtomicUsize>,
    rings: Vec<Arc<AtomicUsize>>,
    /// Buffers of each.
    ring: usize,
    rests: bool,
    counters: PortCounters,
}

impl Port for Source {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let left = self.left.load(Relaxed);
        // All may go into the fullest one.
        let room = room(&self.rings);
        if room < budget {
            self.rests = true;
        } else if room >= self.ring / 2 {
            self.rests = false;
        }
        if self.rests || left == 0 {
            return;
        }
        let first = out.len();
        let count = pool.allocate_batch(budget.min(left), out);
        for packet in &mut out[first..] {
            let written = pool.write(packet, &self.frames[self.next]);
            debug_assert!(written.is_ok(), "a frame fits into a buffer");
            self.next = if self.next + 1 < self.frames.len() { self.next + 1 } else { 0 };
        }
        self.left.store(left - count, Relaxed);
        self.counters.ledger.generated += count as u64;
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
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

/// Room of the fullest one.
fn room(rings: &[Arc<AtomicUsize>]) -> usize {
    rings.iter().map(|room| room.load(Relaxed)).min().unwrap_or(usize::MAX)
}

/// See the module's documentation.
pub(super) struct Feeder {
    worker: Worker,
    left: Arc<AtomicUsize>,
    rings: Vec<Arc<AtomicUsize>>,
    /// Buffers of each.
    ring: usize,
    /// Frames that were sent.
    sent: u64,
    core: usize,
}

impl Feeder {
    /// By the masters of these sockets: by a wire where there is one, else by a bond over all of them that
    /// gives each its flows.
    pub(super) fn memif(
        frames: Frames,
        sockets: &[&Path],
        ring: usize,
        cores: Cores,
    ) -> Result<Feeder, BenchError> {
        let (mut ends, mut rings): (Vec<Box<dyn Port>>, _) = (Vec::new(), Vec::new());
        for socket in sockets {
            let (port, room) = Watched::open(socket, ring)?;
            ends.push(Box::new(port));
            rings.push(room);
        }
        Feeder::new(frames, ends, rings, ring, cores)
    }

    /// By a port of the kernel's, which has room for everything.
    pub(super) fn kernel(frames: Frames, port: Box<dyn Port>, cores: Cores) -> Result<Feeder, BenchError> {
        Feeder::new(frames, vec![port], Vec::new(), 0, cores)
    }

    fn new(
        frames: Frames,
        ends: Vec<Box<dyn Port>>,
        rings: Vec<Arc<AtomicUsize>>,
        ring: usize,
        cores: Cores,
    ) -> Result<Feeder, BenchError> {
        let clock = Clock::calibrate();
        let mut worker = Worker::new(WorkerSettings::default(), clock, |_| {}).map_err(BenchError::setup)?;
        let pool_id = worker.add_pool(pool(BUFFERS, None)?).map_err(BenchError::setup)?;
        let left = Arc::new(AtomicUsize::new(0));
        let (rooms, count) = (rings.clone(), ends.len());
        let counters = PortCounters::default();
        let source =
            Source { frames, next: 0, left: left.clone(), rings: rooms, ring, rests: false, counters };
        let source = Target::Port(worker.add_port("source", pool_id, Box::new(source)));
        let mut add = |(number, mut port): (usize, Box<dyn Port>)| {
            port.maintain(clock.now());
            Target::Port(worker.add_port(&format!("ids-{number}"), pool_id, port))
        };
        let ports: Vec<Target> = ends.into_iter().enumerate().map(&mut add).collect();
        match ports[..] {
            [port] => worker.link(source, port).map_err(BenchError::setup)?,
            _ => {
                let bond = worker.add_switch("bond", bond(count)).map_err(BenchError::setup)?;
                let plugs = (0..).map(|plug| Target::Switch(bond, SwitchPort(plug)));
                for (end, plug) in ports.into_iter().chain([source]).zip(plugs) {
                    worker.link(end, plug).map_err(BenchError::setup)?;
                }
            }
        }
        Ok(Feeder { worker, left, rings, ring, sent: 0, core: cores.sender })
    }

    /// Waits until every port's peer takes packets.
    pub(super) fn connect(&mut self) -> Result<(), BenchError> {
        self.until("Suricata does not come to its memif", |feeder| {
            feeder.rings.iter().all(|room| room.load(Relaxed) == feeder.ring)
        })
    }

    /// Waits until all that was sent has been taken.
    pub(super) fn drain(&mut self) -> Result<(), BenchError> {
        self.connect()
    }

    /// Waits until the peer of one port takes packets.
    pub(super) fn connect_one(&mut self, ring: usize) -> Result<(), BenchError> {
        self.until("Suricata does not come to its memif", |feeder| {
            feeder.rings.get(ring).is_some_and(|room| room.load(Relaxed) == feeder.ring)
        })
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Feeder) -> bool) -> Result<(), BenchError> {
        let began = Instant::now();
        while !is_so(self) {
            self.worker.turn();
            std::thread::sleep(PAUSE);
            if began.elapsed() > LIMIT {
                return Err(BenchError::Invalid(format!("{what} within {LIMIT:?}")));
            }
        }
        Ok(())
    }

    /// Waits without sleeping until the peer of one port has taken all.
    pub(super) fn drained(&mut self, ring: usize) -> Result<(), BenchError> {
        let began = Instant::now();
        while self.rings[ring].load(Relaxed) < self.ring {
            self.worker.turn();
            if began.elapsed() > LIMIT {
                return Err(BenchError::Invalid(format!("Suricata took nothing for {LIMIT:?}")));
            }
        }
        Ok(())
    }

    /// Packets that the peer of its first port has not taken yet.
    pub(super) fn waiting(&self) -> usize {
        self.ring - room(&self.rings).min(self.ring)
    }

    /// Sends so many frames; the processor time that took.
    pub(super) fn send(&mut self, count: usize) -> Result<Duration, BenchError> {
        let _claim = Cores::claim(self.core).map_err(BenchError::setup)?;
        let (began, before) = (Instant::now(), self.time()?);
        self.left.store(count, Relaxed);
        let mut last = count;
        while last > 0 {
            self.worker.turn();
            let left = self.left.load(Relaxed);
            if left == last {
                std::thread::sleep(PAUSE);
            }
            last = left;
            if began.elapsed() > LIMIT {
                return Err(BenchError::Invalid(format!("{left} of {count} frames could not be sent")));
            }
        }
        self.sent += count as u64;
        Ok(self.time()?.saturating_sub(before))
    }

    /// Sends until the fullest ring has no room; how many frames, and the processor time that took.
    pub(super) fn fill(&mut self) -> Result<(u64, Duration), BenchError> {
        let _claim = Cores::claim(self.core).map_err(BenchError::setup)?;
        let before = self.time()?;
        let all = usize::MAX / 2;
        self.left.store(all, Relaxed);
        let mut last = all;
        loop {
            self.worker.turn();
            let left = self.left.load(Relaxed);
            if left == last {
                break;
            }
            last = left;
        }
        self.left.store(0, Relaxed);
        let count = (all - last) as u64;
        self.sent += count;
        Ok((count, self.time()?.saturating_sub(before)))
    }

    /// Processor time of this thread, with what the kernel does in its name.
    fn time(&self) -> Result<Duration, BenchError> {
        thread_time().map_err(BenchError::setup)
    }

    /// Ends it; how many frames it has sent, none of which was lost on our side.
    pub(super) fn finish(self) -> Result<u64, BenchError> {
        let account = self.worker.stop();
        account.balance().map_err(BenchError::setup)?;
        let lost = account.ledger.dropped.total();
        if lost > 0 || account.ledger.generated != self.sent {
            let sent = self.sent;
            return Err(BenchError::Invalid(format!("of {sent} packets {lost} were lost on our side")));
        }
        Ok(self.sent)
    }
}

/// A bond by flow: its ports are at the first plugs, its opener at the next.
fn bond(ports: usize) -> Arc<Device> {
    let plug = |number: usize| SwitchPort(number as u16);
    let openers = vec![Opener { plug: plug(ports), side: None, receives: true }];
    let ports = (0..ports).map(plug).collect();
    Arc::new(Device::new(DeviceSettings::new(Mode::Bond(Balance::Flow), Share::Single, ports, openers), None))
}

/// What a packet takes, in nanoseconds.
pub(super) fn nanoseconds(name: &str, runs: &[f64]) -> Measurement {
    Measurement::new(name, "ns", runs)
}
