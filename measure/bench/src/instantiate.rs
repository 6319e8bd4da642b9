//! From an image to the first packet answered.

use crate::guests::{configuration, pool, program, stock};
use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use guest::Guest;
use guest_wasm::{InstanceSettings, Program, Sandbox, WasmGuest, watchdog};
use nf_abi::Verdict;
use packet_memory::{Packet, PageKind, Pool};
use std::sync::Arc;
use std::time::Instant;
use telemetry::clock::Moment;

/// Instances made in one run.
const INSTANCES: usize = 500;
/// Instances alive in the last measurement.
const ALIVE: usize = 10_000;
/// Buffers of 2 KiB: 16 MiB.
const BUFFERS: u32 = 8192;

struct Setup {
    sandbox: Sandbox,
    program: Arc<Program>,
    config: Vec<u8>,
    pool: Arc<Pool>,
    packet: [Packet; 1],
}

impl Setup {
    fn new(pages: PageKind) -> Result<Setup, BenchError> {
        let sandbox = Sandbox::new().map_err(BenchError::setup)?;
        let image = stock("forwarder")?;
        let pool = pool(BUFFERS, Some(pages)).map_err(|error| match pages {
            PageKind::Huge => BenchError::Setup(format!(
                "{error}; this bench needs {} huge pages: sysctl -w vm.nr_hugepages=64",
                BUFFERS as usize * 2048 / PageKind::Huge.size()
            )),
            PageKind::Ordinary => error,
        })?;
        let config = configuration(&image, "mode: swap")?;
        let mut packet = pool.allocate().ok_or_else(|| BenchError::Setup("an empty pool".into()))?;
        pool.write(&mut packet, &[0x02; 60]).map_err(BenchError::setup)?;
        Ok(Setup { program: program(&sandbox, &image)?, sandbox, config, pool, packet: [packet] })
    }

    /// Makes an instance and sends it a packet.
    fn answer(&mut self) -> Result<WasmGuest, BenchError> {
        let settings = InstanceSettings { config: self.config.clone(), ..InstanceSettings::default() };
        let mut guest = WasmGuest::new(&self.program, &self.pool, settings).map_err(BenchError::setup)?;
        let now = Moment { cycles: telemetry::clock::Cycles::now(), ..watchdog::clock().moment() };
        guest.process(&mut self.packet, now).map_err(BenchError::setup)?;
        if self.packet[0].record().verdict != Verdict::Interface(1).encode() {
            return Err(BenchError::Invalid("the first packet was not forwarded".into()));
        }
        Ok(guest)
    }

    /// Microseconds to the first answer: medians of runs. Shells are used again or made new.
    fn measure(&mut self, fresh: bool) -> Result<f64, BenchError> {
        let mut times = Vec::new();
        for _ in 0..INSTANCES {
            if fresh {
                self.sandbox.forget_pool(&self.pool);
            }
            let began = Instant::now();
            let guest = self.answer()?;
            times.push(began.elapsed().as_nanos() as f64 / 1e3);
            drop(guest);
        }
        Ok(median(&times))
    }

    fn end(self) {
        let [packet] = self.packet;
        self.pool.free(packet);
    }
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let mut huge = Setup::new(PageKind::Huge)?;
    let mut ordinary = Setup::new(PageKind::Ordinary)?;
    let (mut fresh, mut shell, mut fresh_4k, mut crowded) = (vec![], vec![], vec![], vec![]);
    for run in 0..RUNS {
        progress(run as f64 / (2 * RUNS) as f64, "new instances");
        fresh.push(huge.measure(true)?);
        shell.push(huge.measure(false)?);
        fresh_4k.push(ordinary.measure(true)?);
    }
    let mut alive = Vec::with_capacity(ALIVE);
    while alive.len() < ALIVE {
        progress(0.5 + 0.3 * alive.len() as f64 / ALIVE as f64, "ten thousand instances");
        let guest = huge.answer()?;
        alive.push(guest);
    }
    for run in 0..RUNS {
        progress(0.8 + 0.2 * run as f64 / RUNS as f64, "beside ten thousand");
        crowded.push(huge.measure(false)?);
    }
    drop(alive);
    huge.end();
    ordinary.end();
    Ok(vec![
        Measurement::new("fresh-us", "us", &fresh),
        Measurement::new("shell-us", "us", &shell),
        Measurement::new("shell-10000-us", "us", &crowded),
        Measurement::new("fresh-4k-us", "us", &fresh_4k),
    ])
}
