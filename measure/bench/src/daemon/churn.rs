//! Functions that come and go by the thousand beside a chain that works: what the chain notices of it.
//!
//! The chain has a processor; the thread that makes and ends functions has the other one, and so has the
//! worker that the functions are on.

use crate::feed::Frames;
use crate::functions::ten_rules;
use crate::guests::{change, stock};
use crate::hypernf::rig::{Kit, Nf, Plan, Prepared, Rig, Shape, Source};
use crate::hypernf::timing::{Pace, Timing};
use crate::statistics::percentile;
use crate::{BenchError, Measurement, RUNS};
use engine::{End, SwitchId};
use plots::Model;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use virtual_switch::{Switch, SwitchSettings};

/// Functions that are created in a second, and as many deleted.
const RATE: u64 = 10_000;
/// Functions that are alive at a time beside the chain.
const ALIVE: usize = 100;
/// Functions of the chain.
const CHAIN: usize = 5;
const WARM_UP: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(500);

/// Where functions come and go.
struct Yard<'a> {
    rig: &'a Rig,
    kit: &'a Kit,
    what: &'a Prepared,
    switch: SwitchId,
    table: Arc<Switch>,
}

impl Yard<'_> {
    /// Creates and deletes functions at the rate until it is told to end; functions a second.
    fn work(&self, ends: &AtomicBool) -> Result<f64, BenchError> {
        let mut alive = std::collections::VecDeque::new();
        let (began, mut made) = (Instant::now(), 0u64);
        while !ends.load(Relaxed) {
            if made >= RATE * began.elapsed().as_micros() as u64 / 1_000_000 {
                std::hint::spin_loop();
                continue;
            }
            let (setup, guest) = self.rig.function(self.kit, self.what, "passing")?;
            let (port, worker) = (self.table.attach().map_err(BenchError::setup)?, self.rig.spare_worker());
            let id = change(&self.rig.fleet, |change| {
                let id = change.add_instance(worker, setup, guest)?;
                change.link(End::Instance(id, 0), End::Switch(self.switch, port))?;
                Ok(id)
            })?;
            alive.push_back((id, port));
            if alive.len() > ALIVE
                && let Some((id, port)) = alive.pop_front()
            {
                drop(change(&self.rig.fleet, |change| change.remove_instance(id))?);
                self.table.detach(port);
            }
            made += 1;
        }
        let rate = made as f64 / began.elapsed().as_secs_f64();
        for (id, port) in alive {
            drop(change(&self.rig.fleet, |change| change.remove_instance(id))?);
            self.table.detach(port);
        }
        Ok(rate)
    }
}

/// Does something with a rig while functions come and go; what it gave, and functions a second.
fn beside<T>(
    kit: &Kit,
    rig: &Rig,
    what: &Prepared,
    deed: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, f64), BenchError> {
    let table = Switch::new(SwitchSettings { entries: 1024, ..SwitchSettings::default() });
    let table = Arc::new(table.map_err(BenchError::setup)?);
    let switch = change(&rig.fleet, |change| change.add_switch("yard", table.clone(), None))?;
    let yard = Yard { rig, kit, what, switch, table };
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| yard.work(&ends));
        let done = deed();
        ends.store(true, Relaxed);
        let rate = working
            .join()
            .map_err(|_| BenchError::Setup("the thread that makes functions broke".to_owned()))??;
        Ok((done?, rate))
    })
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let kit = Kit::new(16_384)?;
    let ten = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let passing = kit.prepare(stock("forwarder")?, "mode: swap")?;
    let frames = Frames::Computed { size: 256 };
    let nf = Nf::new(&ten, frames.clone());
    let chain = |source: Source, timing| {
        let functions = vec![Nf { source, ..nf.clone() }; CHAIN];
        let plan = Plan::cores(Model::Hyper, functions, vec![0], 0);
        Plan { shape: Shape::WiredChain, timing, spare: vec![1], ..plan }
    };
    let (mut percents, mut rates, mut ratios) = (vec![], vec![], vec![]);
    for run in 0..RUNS {
        progress(run as f64 / RUNS as f64, "throughput while functions come and go");
        let rig = chain(Source::Saturated(frames.clone()), None).build(&kit)?;
        rig.start()?;
        let one = |rates: &[f64]| rates.first().copied().unwrap_or(f64::NAN);
        let alone = one(&rig.measure(WARM_UP, WINDOW)?);
        let (with, rate) = beside(&kit, &rig, &passing, || Ok(one(&rig.measure(WARM_UP, WINDOW)?)))?;
        rig.end()?;
        percents.push(100.0 * with / alone);
        rates.push(rate);

        progress((run as f64 + 0.5) / RUNS as f64, "delay while functions come and go");
        let timing = Timing::new(kit.clock);
        let pace = Pace { frames: frames.clone(), rate: alone * 0.5, clock: kit.clock };
        let rig = chain(Source::Paced(pace), Some(timing.clone())).build(&kit)?;
        rig.start()?;
        let tail = || {
            std::thread::sleep(WARM_UP);
            timing.take();
            std::thread::sleep(WINDOW);
            let times: Vec<f64> = timing.take().into_iter().map(|nanos| nanos as f64 / 1e3).collect();
            match times.len() {
                0..1000 => Err(BenchError::Invalid(format!("only {} packets came through", times.len()))),
                _ => Ok(percentile(&times, 0.99)),
            }
        };
        let alone = tail()?;
        let (with, _) = beside(&kit, &rig, &passing, tail)?;
        rig.end()?;
        ratios.push(with / alone);
    }
    Ok(vec![
        Measurement::new("throughput-percent", "%", &percents),
        Measurement::new("p99-ratio", "x", &ratios),
        Measurement::new("created-per-s", "1/s", &rates),
    ])
}
