//! Saving, restoring and freezing, of a firewall full of flows and of a small forwarder; and the memory of
//! functions that begin as one snapshot, which the daemon makes.

use crate::daemon::clones;
use crate::frames::{BATCH, Flow, Frame, fill};
use crate::guests::{configuration, pool, program, stock};
use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use guest::Guest;
use guest_wasm::{InstanceSettings, Program, Sandbox, restore, watchdog};
use nf_abi::Verdict;
use packet_memory::{Packet, Pool};
use snapshot::Saved;
use std::sync::Arc;
use std::time::Instant;
use telemetry::clock::Moment;

/// Flows in the firewall.
const FLOWS: u32 = 10_000;
/// How often each is done in one run.
const TURNS: usize = 20;

/// A function and packets for it.
struct Subject {
    program: Arc<Program>,
    pool: Arc<Pool>,
    settings: InstanceSettings,
    buffers: Vec<Packet>,
    frames: Vec<Frame>,
}

fn now() -> Moment {
    watchdog::clock().moment()
}

impl Subject {
    fn new(sandbox: &Sandbox, name: &str, config: &str, flows: u32) -> Result<Subject, BenchError> {
        let image = stock(name)?;
        let pool = pool(128, None)?;
        let settings =
            InstanceSettings { config: configuration(&image, config)?, ..InstanceSettings::default() };
        let mut buffers = Vec::new();
        pool.allocate_batch(BATCH, &mut buffers);
        let flow = |n: u32| Flow {
            source: 0x0a00_0000 | n,
            destination: 0xc612_0000 | n & 0xffff,
            source_port: 1024 + (n % 60_000) as u16,
            destination_port: 443,
            protocol: 17,
        };
        let frames = (0..flows).map(|n| flow(n).frame(0, n)).collect();
        Ok(Subject { program: program(sandbox, &image)?, pool, settings, buffers, frames })
    }

    /// Shows the packets from `first` on; every one must pass.
    fn show(&mut self, guest: &mut dyn Guest, first: usize, count: usize) -> Result<(), BenchError> {
        for frames in self.frames[first..first + count].chunks(BATCH) {
            let batch = &mut self.buffers[..frames.len()];
            fill(&self.pool, batch, frames, |_| 0);
            guest.process(batch, now()).map_err(BenchError::setup)?;
            let passed = Verdict::Interface(1).encode();
            if batch.iter().any(|packet| packet.record().verdict != passed) {
                return Err(BenchError::Invalid("a packet did not pass".into()));
            }
        }
        Ok(())
    }

    fn started(&mut self) -> Result<Box<dyn Guest>, BenchError> {
        let mut guest =
            guest_wasm::start(&self.program, &self.pool, self.settings.clone()).map_err(BenchError::setup)?;
        self.show(&mut *guest, 0, self.frames.len())?;
        Ok(guest)
    }

    fn end(mut self) {
        self.pool.free_batch(self.buffers.drain(..));
    }
}

/// Times of one subject, in microseconds, a median for each run.
#[derive(Default)]
struct Times {
    save: Vec<f64>,
    restore: Vec<f64>,
    freeze: Vec<f64>,
    thaw: Vec<f64>,
}

fn since(began: Instant) -> f64 {
    began.elapsed().as_nanos() as f64 / 1e3
}

/// Saves to bytes with their checksums; restores from bytes to the first packet answered; freezes and thaws.
fn measure(subject: &mut Subject, times: &mut Times) -> Result<(usize, usize), BenchError> {
    let (mut save, mut back, mut freeze, mut thaw) = (vec![], vec![], vec![], vec![]);
    let mut guest = subject.started()?;
    let (mut bytes, mut footprint) = (Vec::new(), 0);
    for _ in 0..TURNS {
        let began = Instant::now();
        let saved = guest.save().map_err(BenchError::setup)?;
        let parts = saved.parts().map_err(BenchError::setup)?;
        save.push(since(began));
        bytes = parts.into_vec();

        let settings = subject.settings.clone();
        let began = Instant::now();
        let saved = Saved::decode(&bytes).map_err(BenchError::setup)?;
        let mut again =
            restore(&subject.program, &subject.pool, settings, &saved).map_err(BenchError::setup)?;
        subject.show(&mut *again, 0, 1)?;
        back.push(since(began));
        drop(again);

        let began = Instant::now();
        let frozen = guest.freeze().map_err(|refused| BenchError::setup(refused.error))?;
        freeze.push(since(began));
        footprint = frozen.footprint();
        let began = Instant::now();
        guest = frozen.thaw().map_err(|refused| BenchError::Setup(refused.reason))?;
        thaw.push(since(began));
        subject.show(&mut *guest, 0, 1)?;
    }
    times.save.push(median(&save));
    times.restore.push(median(&back));
    times.freeze.push(median(&freeze));
    times.thaw.push(median(&thaw));
    Ok((bytes.len(), footprint))
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let rules = "max_flows: 65536\nrules:\n  - {action: accept, protocol: udp}\n";
    let mut firewall = Subject::new(&sandbox, "firewall", rules, FLOWS)?;
    let mut forwarder = Subject::new(&sandbox, "forwarder", "mode: swap", 64)?;
    let (mut large, mut small) = (Times::default(), Times::default());
    let (mut bytes, mut frozen, mut ratios) = (vec![], vec![], vec![]);
    for run in 0..RUNS {
        progress(run as f64 / (2 * RUNS) as f64, "saving and restoring");
        bytes.push(measure(&mut firewall, &mut large)?.0 as f64 / 1024.0);
        frozen.push(measure(&mut forwarder, &mut small)?.1 as f64);
    }
    for run in 0..RUNS {
        progress((RUNS + run) as f64 / (2 * RUNS) as f64, "a thousand clones");
        ratios.push(clones::ratio()?);
    }
    firewall.end();
    forwarder.end();
    let us = |name: &str, times: &[f64]| Measurement::new(name, "us", times);
    Ok(vec![
        us("save-us", &large.save),
        us("restore-us", &large.restore),
        us("save-small-us", &small.save),
        us("restore-small-us", &small.restore),
        Measurement::new("bytes-kib", "KiB", &bytes),
        Measurement::new("freeze-us", "us", &large.freeze),
        us("thaw-us", &large.thaw),
        Measurement::new("freeze-small-us", "us", &small.freeze),
        Measurement::new("thaw-small-us", "us", &small.thaw),
        Measurement::new("frozen-small-bytes", "bytes", &frozen),
        Measurement::new("clones-ratio", "x", &ratios),
    ])
}
