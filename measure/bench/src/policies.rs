//! From a port to the openers of 1,000 devices over it, by policies of several kinds, and of one.
//!
//! Each device has a policy for a VLAN, a VNI, a network or a port, in equal parts, and packets are for any
//! of them at random, so that nearly each one of a batch goes another way. What is counted is what a packet
//! takes more than over a plain wire between the same ends.

mod tunnels;

use crate::feed::{Counter, Feed, Frames, drive};
use crate::frames::{BATCH, DISTINCT, Numbers};
use crate::guests::pool;
use crate::{BenchError, Measurement, RUNS};
use capture::Filter;
use classifier::Rule;
use engine::{Target, Worker, WorkerSettings};
use packet_memory::Pool;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use telemetry::clock::Clock;
use virtual_device::{Device, DeviceSettings, Mode, Opener, PortDevices, Share, SwitchPort};

/// Devices at the port.
const DEVICES: u16 = 1000;
/// Packets of one run.
const PACKETS: usize = 2 * DISTINCT;

/// Runs all parts.
pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let mut results = Vec::new();
    classify(progress, &mut results)?;
    tunnels::run(progress, &mut results)?;
    Ok(results)
}

fn classify(progress: &mut dyn FnMut(f64, &str), into: &mut Vec<Measurement>) -> Result<(), BenchError> {
    let packets = pool(4096, None)?;
    let mut numbers = Numbers(7);
    let frames = (0..DISTINCT).map(|n| frame(numbers.below(u64::from(DEVICES)) as u16, n as u32));
    let frames = Arc::new(frames.collect::<Vec<_>>());
    let many = (0..DEVICES).map(policy).collect::<Vec<_>>();
    let mut wire = Line::new(&frames, &packets, &[])?;
    let mut one = Line::new(&frames, &packets, &["udp or vlan".to_owned()])?;
    let mut all = Line::new(&frames, &packets, &many)?;
    let (mut costs, mut ratios, mut single) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=RUNS {
        progress(round as f64 / (RUNS + 1) as f64, "1,000 devices at a port");
        let (wire, one, all) = (wire.run(PACKETS)?, one.run(PACKETS)?, all.run(PACKETS)?);
        if round > 0 {
            costs.push(all - wire);
            single.push(one - wire);
            ratios.push((all - wire) / (one - wire));
        }
    }
    for line in [wire, one, all] {
        line.check()?;
    }
    into.push(Measurement::new("classify-ns", "ns", &costs));
    into.push(Measurement::new("classify-1000-ratio", "x", &ratios));
    into.push(Measurement::new("classify-1-ns", "ns", &single));
    Ok(())
}

/// What a device wants.
fn policy(device: u16) -> String {
    let of_kind = device / 4;
    match device % 4 {
        0 => format!("vlan {}", 1 + of_kind),
        1 => format!("udp port 4789 and vni {}", 10_000 + u32::from(of_kind)),
        2 => format!("dst net 10.{}.0.0/16", of_kind),
        _ => format!("udp dst port {}", 20_000 + of_kind),
    }
}

/// A frame of UDP that one device wants and no other, of about 60 bytes, or 110 in a tunnel.
fn frame(device: u16, number: u32) -> Vec<u8> {
    let of_kind = device / 4;
    let [_, a, b, c] = number.to_be_bytes();
    let source = [172, 16 | (a & 1), b, c];
    let outside = [192, 0, 2, 1 + (c & 63)];
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, a, b, c];
    match device % 4 {
        0 => {
            frame.extend([0x81, 0]);
            frame.extend((1 + of_kind).to_be_bytes());
            datagram(&mut frame, source, outside, 5000, &[0; 22]);
        }
        1 => {
            let mut inner = vec![8, 0, 0, 0];
            inner.extend(((10_000 + u32::from(of_kind)) << 8).to_be_bytes());
            inner.extend([2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 4]);
            datagram(&mut inner, outside, source, 6000, &[0; 22]);
            datagram(&mut frame, source, outside, 4789, &inner);
        }
        2 => datagram(&mut frame, source, [10, of_kind as u8, b, c], 5000, &[0; 22]),
        _ => datagram(&mut frame, source, outside, 20_000 + of_kind, &[0; 22]),
    }
    frame
}

/// The rest of a frame with an IPv4 datagram of UDP, from the EtherType on.
fn datagram(frame: &mut Vec<u8>, source: [u8; 4], destination: [u8; 4], port: u16, payload: &[u8]) {
    let length = payload.len() as u16;
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((28 + length).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(source.into_iter().chain(destination));
    frame.extend(4000u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend((8 + length).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
}

/// A worker with a feed, and devices over it whose openers are one sink.
struct Line {
    worker: Worker,
    delivered: Arc<AtomicU64>,
    devices: usize,
}

impl Line {
    /// With a device for each policy; with none, the feed is wired to the sink.
    fn new(frames: &Arc<Vec<Vec<u8>>>, pool: &Arc<Pool>, policies: &[String]) -> Result<Line, BenchError> {
        let worker = Worker::new(WorkerSettings::default(), Clock::calibrate(), |_| {});
        let mut worker = worker.map_err(BenchError::setup)?;
        let pool = worker.add_pool(pool.clone()).map_err(BenchError::setup)?;
        let delivered = Arc::new(AtomicU64::new(0));
        let feed = Feed::open(Frames::Whole(frames.clone())).at_most(BATCH);
        let source = Target::Port(worker.add_port("feed", pool, Box::new(feed)));
        let sink = Target::Port(worker.add_port("sink", pool, Box::new(Counter::new(delivered.clone()))));
        if policies.is_empty() {
            worker.lead(source, sink).map_err(BenchError::setup)?;
            return Ok(Line { worker, delivered, devices: 0 });
        }
        let rules = policies.iter().zip(1..).map(|(policy, plug)| {
            let filter = Some(Filter::parse(policy).map_err(BenchError::setup)?);
            Ok((Rule { filter, priority: 100, class: 0, observes: false }, SwitchPort(plug)))
        });
        let rules = rules.collect::<Result<Vec<_>, BenchError>>()?;
        let at_port = Arc::new(PortDevices::new(SwitchPort(0), rules, None));
        let classifier = worker.add_switch("port", at_port).map_err(BenchError::setup)?;
        worker.link(source, Target::Switch(classifier, SwitchPort(0))).map_err(BenchError::setup)?;
        for plug in 1..=policies.len() as u16 {
            let opener = Opener { plug: SwitchPort(1), side: None, receives: true };
            let settings =
                DeviceSettings::new(Mode::Direct, Share::Single, vec![SwitchPort(0)], vec![opener]);
            let device = worker.add_switch("device", Arc::new(Device::new(settings, None)));
            let device = device.map_err(BenchError::setup)?;
            let (outside, opener) =
                (Target::Switch(device, SwitchPort(0)), Target::Switch(device, SwitchPort(1)));
            worker.link(Target::Switch(classifier, SwitchPort(plug)), outside).map_err(BenchError::setup)?;
            worker.lead(opener, sink).map_err(BenchError::setup)?;
        }
        Ok(Line { worker, delivered, devices: policies.len() })
    }

    /// Sends packets through; nanoseconds a packet.
    fn run(&mut self, packets: usize) -> Result<f64, BenchError> {
        drive(&mut self.worker, &self.delivered, packets)
    }

    /// Checks that nothing was lost, and that every device got its part.
    fn check(mut self) -> Result<(), BenchError> {
        let account = self.worker.account(false);
        account.balance().map_err(BenchError::setup)?;
        let got: Vec<u64> = account.devices.iter().map(|device| device.counters.from_ports).collect();
        let all: u64 = got.iter().sum();
        let fair = |got: &u64| *got > all / self.devices as u64 / 2 && *got < 2 * all / self.devices as u64;
        if account.ledger.dropped.total() > 0 || got.len() != self.devices || !got.iter().all(fair) {
            let lost = account.ledger.dropped.total();
            return Err(BenchError::Invalid(format!("{lost} packets were lost, devices got {got:?}")));
        }
        Ok(())
    }
}
