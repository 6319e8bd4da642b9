//! What it costs a packet that a device takes the headers of VXLAN off it, and puts them on.

use crate::feed::{Counter, Feed, Frames, drive};
use crate::frames::{BATCH, DISTINCT};
use crate::guests::pool;
use crate::{BenchError, Measurement, RUNS};
use encapsulation::{Encapsulation, Front, LayerKind, LayerSettings, Outer};
use engine::{Target, Worker, WorkerSettings};
use packet_memory::{Packet, Pool};
use port::{Port, PortCounters, Wake};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use telemetry::clock::{Clock, Nanos};
use virtual_device::{Device, DeviceSettings, Mode, Opener, Share, SwitchPort, Tunnels};

/// Packets of one run.
const PACKETS: usize = 2 * DISTINCT;
/// Bytes of a packet inside, and of the headers around it.
const INSIDE: usize = 60;
const AROUND: usize = 50;
/// The plugs of the device.
const PORT: SwitchPort = SwitchPort(0);
const OPENER: SwitchPort = SwitchPort(1);

pub(super) fn run(
    progress: &mut dyn FnMut(f64, &str),
    into: &mut Vec<Measurement>,
) -> Result<(), BenchError> {
    let packets = pool(4096, None)?;
    packets.keep_headers();
    let vxlan = vxlan()?;
    let plain: Vec<Vec<u8>> = (0..DISTINCT as u32).map(frame).collect();
    let tunnelled = plain.iter().map(|frame| around(&vxlan, frame)).collect::<Result<Vec<_>, _>>()?;
    let (plain, tunnelled) = (Arc::new(plain), Arc::new(tunnelled));
    let off = Tunnels { decapsulate: vec![LayerKind::Vxlan], encapsulate: None, next_hop: None };
    let on = Tunnels { decapsulate: Vec::new(), encapsulate: Some(vxlan), next_hop: None };
    for (name, frames, tunnels, way, length) in [
        ("vxlan-off-ns", &tunnelled, off, [PORT, OPENER], INSIDE),
        ("vxlan-on-ns", &plain, on, [OPENER, PORT], INSIDE + AROUND),
    ] {
        let mut without = Line::new(frames, &packets, None, way)?;
        let mut with = Line::new(frames, &packets, Some(tunnels), way)?;
        let mut costs = Vec::new();
        for round in 0..=RUNS {
            progress(round as f64 / (RUNS + 1) as f64, name);
            let (without, with) = (without.run(PACKETS)?, with.run(PACKETS)?);
            if round > 0 {
                costs.push(with - without);
            }
        }
        without.check(frames.first().map_or(0, Vec::len))?;
        with.check(length)?;
        into.push(Measurement::new(name, "ns", &costs));
    }
    Ok(())
}

fn vxlan() -> Result<Encapsulation, BenchError> {
    let outer = Outer {
        local: Ipv4Addr::new(192, 0, 2, 1).into(),
        remote: Ipv4Addr::new(192, 0, 2, 2).into(),
        ttl: 64,
        services: None,
        dont_fragment: true,
        checksum: false,
        link: ([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]),
    };
    Encapsulation::new(&[LayerSettings::Vxlan { vni: 7, outer }]).map_err(BenchError::setup)
}

/// A frame of UDP of a flow of its own.
fn frame(number: u32) -> Vec<u8> {
    let [_, a, b, c] = number.to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 3, 2, 0, 0, a, b, c, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend([10, a, b, c, 10, 9, 9, 9, 0x10, b, 0, 53, 0, 26, 0, 0]);
    frame.resize(INSIDE, 0);
    frame
}

fn around(vxlan: &Encapsulation, frame: &[u8]) -> Result<Vec<u8>, BenchError> {
    let mut front = Front::NONE;
    let hash = packet::symmetric_flow_hash(frame).0;
    vxlan.put_on(frame, frame.len() as u32, hash, 1, &mut front).map_err(BenchError::setup)?;
    Ok([front.bytes(), frame].concat())
}

/// A sink that knows how long the last packet was.
struct Sink {
    end: Counter,
    length: Arc<AtomicU64>,
}

impl Port for Sink {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.end.receive(pool, now, budget, out);
    }

    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        self.length.store(packets.last().map_or(0, |last| last.length().into()), Relaxed);
        self.end.transmit(pool, now, packets);
    }

    fn wake(&self) -> Wake<'_> {
        self.end.wake()
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn backlog(&self) -> usize {
        self.end.backlog()
    }

    fn counters(&self) -> &PortCounters {
        self.end.counters()
    }
}

/// A worker with a device between a feed and a sink.
struct Line {
    worker: Worker,
    delivered: Arc<AtomicU64>,
    length: Arc<AtomicU64>,
}

impl Line {
    /// Packets come in by the first plug and leave by the second.
    fn new(
        frames: &Arc<Vec<Vec<u8>>>,
        pool: &Arc<Pool>,
        tunnels: Option<Tunnels>,
        [from, to]: [SwitchPort; 2],
    ) -> Result<Line, BenchError> {
        let worker = Worker::new(WorkerSettings::default(), Clock::calibrate(), |_| {});
        let mut worker = worker.map_err(BenchError::setup)?;
        let pool = worker.add_pool(pool.clone()).map_err(BenchError::setup)?;
        let delivered = Arc::new(AtomicU64::new(0));
        let feed = Feed::open(Frames::Whole(frames.clone())).at_most(BATCH);
        let source = Target::Port(worker.add_port("feed", pool, Box::new(feed)));
        let length = Arc::new(AtomicU64::new(0));
        let sink = Sink { end: Counter::new(delivered.clone()), length: length.clone() };
        let sink = Target::Port(worker.add_port("sink", pool, Box::new(sink)));
        let opener = Opener { plug: OPENER, side: None, receives: true };
        let mut settings = DeviceSettings::new(Mode::Direct, Share::Single, vec![PORT], vec![opener]);
        settings.tunnels.extend(tunnels.map(|tunnels| (0, Arc::new(tunnels))));
        let device = worker.add_switch("device", Arc::new(Device::new(settings, None)));
        let device = device.map_err(BenchError::setup)?;
        worker.lead(source, Target::Switch(device, from)).map_err(BenchError::setup)?;
        worker.lead(Target::Switch(device, to), sink).map_err(BenchError::setup)?;
        Ok(Line { worker, delivered, length })
    }

    /// Sends packets through; nanoseconds a packet.
    fn run(&mut self, packets: usize) -> Result<f64, BenchError> {
        drive(&mut self.worker, &self.delivered, packets)
    }

    /// Checks that nothing was lost, and that packets left with so many bytes.
    fn check(mut self, length: usize) -> Result<(), BenchError> {
        let account = self.worker.account(false);
        account.balance().map_err(BenchError::setup)?;
        let (lost, found) = (account.ledger.dropped.total(), self.length.load(Relaxed));
        if lost > 0 || found != length as u64 {
            let words = format!("{lost} packets were lost, the last one had {found} bytes, not {length}");
            return Err(BenchError::Invalid(words));
        }
        Ok(())
    }
}
