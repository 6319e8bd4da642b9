//! The four models side by side: single functions, no function, static splits, batches (HyperNF, figures 2, 3
//! and 6).

use super::feed::{Counter, Feed, Frames};
use super::rig::{Kit, Nf, Plan, Prepared, bridge};
use super::{Found, Progress, verdicts};
use crate::chain::last_rule_flow;
use crate::dpi_load::{OneFile, payload, rules};
use crate::frames::{BATCH, Frame, Numbers};
use crate::functions::ten_rules;
use crate::guests::{configuration_with, stock};
use crate::routes;
use crate::statistics::median;
use crate::{BenchError, Measurement};
use peers::Cores;
use plots::{Axis, Experiment, Figure, Mark, Model, Place, Reading, Role, Series, paper};
use port::relay::one_way;
use port::{Bell, Port};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SIZES: [usize; 4] = [64, 256, 1024, 1500];
const ROUNDS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(30);
const WINDOW: Duration = Duration::from_millis(100);

/// Packets a second of a plan with one function.
fn rate(kit: &Kit, plan: &Plan) -> Result<f64, BenchError> {
    let rig = plan.build(kit)?;
    rig.start()?;
    let rates = rig.measure(WARM_UP, WINDOW)?;
    rig.end()?;
    match rates[..] {
        [rate] if rate > 0.0 => Ok(rate),
        _ => Err(BenchError::Invalid("nothing was forwarded".into())),
    }
}

/// Rates by model and round, all models in turn.
fn rounds(
    models: &[Model],
    mut of: impl FnMut(Model) -> Result<f64, BenchError>,
) -> Result<Vec<Vec<f64>>, BenchError> {
    let mut rates = vec![Vec::new(); models.len()];
    for _ in 0..ROUNDS {
        for (rates, model) in rates.iter_mut().zip(models) {
            rates.push(of(*model)?);
        }
    }
    Ok(rates)
}

/// The first model's rate over the best of the others, round by round.
fn over_best(rates: &[Vec<f64>]) -> Vec<f64> {
    (0..rates[0].len())
        .map(|round| {
            let best = rates[1..].iter().map(|rates| rates[round]).fold(0.0, f64::max);
            rates[0][round] / best
        })
        .collect()
}

/// Payloads of UDP packets to inspect; a few thousand are enough to be no pattern.
fn inspected(size: usize) -> Frames {
    let mut numbers = Numbers(11);
    let whole = (0..8192).map(|n| {
        let head: Frame = last_rule_flow(&mut numbers).frame(0, n);
        let mut frame = head.to_vec();
        if size > 42 {
            frame.truncate(42);
            frame.extend(payload(size - 42, &mut numbers));
        }
        let ip = (size - 14) as u16;
        frame[16..18].copy_from_slice(&ip.to_be_bytes());
        frame[38..40].copy_from_slice(&(ip - 20).to_be_bytes());
        // The header's checksum changes with its length.
        frame[24..26].copy_from_slice(&[0, 0]);
        let sum: u32 = frame[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
        frame
    });
    Frames::Whole(Arc::new(whole.collect()))
}

/// A DPI with a hundred contents, looked for in every UDP packet.
fn inspector(kit: &Kit) -> Result<Prepared, BenchError> {
    let image = stock("dpi")?;
    let text =
        rules(100, &mut Numbers(5)).replace("alert tcp", "alert udp").replace("flow:established; ", "");
    let config = configuration_with(&image, "rules: contents.rules", &OneFile(text))?;
    kit.prepare_with(image, config)
}

/// A router with ten routes, by one of which all packets go.
fn router(kit: &Kit) -> Result<Prepared, BenchError> {
    let others: String = (0..9).map(|n| format!("{{to: 10.{n}.0.0/16, via: 192.0.2.{}}}, ", 2 + n)).collect();
    let routes = format!("routes: [{others}{{to: 198.18.0.0/15, via: 192.0.2.2}}]");
    kit.prepare(stock("router")?, &routes::configuration(&routes))
}

/// A function for each figure.
fn cells(kit: &Kit, progress: Progress<'_>) -> Result<(Vec<Experiment>, Vec<f64>), BenchError> {
    let ten = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let sized = |size| Frames::Computed { size };
    let functions = [
        ("fig-6b", "a bridge", bridge(kit)?, paper::fig_6b()),
        ("fig-6c", "a firewall of ten rules", ten, paper::fig_6c()),
        ("fig-6d", "a router of ten routes", router(kit)?, paper::fig_6d()),
        ("dpi", "a DPI of a hundred contents", inspector(kit)?, paper::inspection()),
    ];
    let mut worst: Option<Vec<f64>> = None;
    let mut experiments = Vec::new();
    for (f, (id, name, what, numbers)) in functions.into_iter().enumerate() {
        let mut curves: Vec<_> = Model::ALL.map(|model| Series::new(model.name(), model.role())).into();
        for (s, size) in SIZES.into_iter().enumerate() {
            progress((f * SIZES.len() + s) as f64 / 16.0 * 0.45, &format!("{name}, {size} B, four models"));
            let from = if id == "dpi" { inspected(size) } else { sized(size) };
            let nf = Nf::new(&what, from);
            let rates = rounds(&Model::ALL, |model| rate(kit, &Plan::one_core(model, vec![nf.clone()])))?;
            for (curve, rates) in curves.iter_mut().zip(&rates) {
                let millions: Vec<f64> = rates.iter().map(|rate| rate / 1e6).collect();
                curve.push(size as f64, Reading::median(&millions));
            }
            let ratios = over_best(&rates);
            if worst.as_ref().is_none_or(|worst| median(&ratios) < median(worst)) {
                worst = Some(ratios);
            }
        }
        experiments.push(
            Experiment::new(
                id,
                format!(
                    "{}: {name}",
                    if id == "dpi" { "Single function".to_owned() } else { id.replace("fig-", "Fig. ") }
                ),
                "Which model forwards most with one processor's worth of time?",
            )
            .setup(
                "hyper and merge have one processor; split and mix have two, of which each worker uses half.",
            )
            .paper(numbers)
            .figure(Figure::lines(
                format!("Throughput of {name}"),
                Axis::log("packet size", "B").ticks(SIZES.map(|size| size as f64)),
                Axis::linear("throughput", "Mp/s"),
                curves,
            )),
        );
    }
    Ok((experiments, worst.unwrap_or_default()))
}

/// Sender to receiver, without a function.
fn raw(kit: &Kit, progress: Progress<'_>) -> Result<(Experiment, Vec<f64>), BenchError> {
    let mut curves: Vec<_> = Model::ALL.map(|model| Series::new(model.name(), model.role())).into();
    let mut at_64 = Vec::new();
    for (s, size) in SIZES.into_iter().enumerate() {
        progress(0.45 + 0.1 * s as f64 / 4.0, "sender to receiver");
        let frames = Frames::Computed { size };
        let rates = rounds(&Model::ALL, |model| {
            let plan = Plan::one_core(model, Vec::new());
            let mut rig = plan.build(kit)?;
            let source = Box::new(Feed::new(frames.clone(), 0, rig.gate()));
            let sink = Box::new(Counter::new(rig.count()));
            rig.add_pair(source, sink)?;
            rig.start()?;
            let rates = rig.measure(WARM_UP, WINDOW)?;
            rig.end()?;
            rates
                .first()
                .copied()
                .filter(|rate| *rate > 0.0)
                .ok_or_else(|| BenchError::Invalid("nothing arrived".into()))
        })?;
        for (curve, rates) in curves.iter_mut().zip(&rates) {
            let millions: Vec<f64> = rates.iter().map(|rate| rate / 1e6).collect();
            curve.push(size as f64, Reading::median(&millions));
        }
        if size == 64 {
            at_64 = rates[0].iter().zip(&rates[1]).map(|(hyper, split)| hyper / split).collect();
        }
    }
    let experiment = Experiment::new(
        "fig-6a",
        "Fig. 6a: sender to receiver",
        "How many packets pass the switch when nothing is done to them?",
    )
    .setup("Sender and receiver are on the function's worker; the switch is executed there (hyper) or on the I/O worker.")
    .paper(paper::fig_6a())
    .figure(Figure::lines(
        "Sender to receiver through a switch",
        Axis::log("packet size", "B").ticks(SIZES.map(|size| size as f64)),
        Axis::linear("throughput", "Mp/s"),
        curves,
    ));
    Ok((experiment, at_64))
}

/// All ways of dividing one processor's worth between function and I/O.
fn static_split(kit: &Kit, progress: Progress<'_>) -> Result<(Experiment, Vec<f64>), BenchError> {
    const PARTS: [u32; 7] = [20, 30, 40, 50, 60, 70, 80];
    let (mut worst, mut curves, mut marks): (Option<Vec<f64>>, Vec<Series>, Vec<Mark>) = Default::default();
    for (c, (rules, size)) in [(10, 64), (10, 1024), (50, 64), (50, 1024)].into_iter().enumerate() {
        progress(0.55 + 0.2 * c as f64 / 4.0, "static splits");
        let what = kit.prepare(stock("firewall")?, &ten_rules(rules))?;
        let nf = Nf::new(&what, Frames::Computed { size });
        let mut rates = vec![Vec::new(); PARTS.len() + 1];
        for _ in 0..ROUNDS {
            rates[0].push(rate(kit, &Plan::one_core(Model::Hyper, vec![nf.clone()]))?);
            for (n, part) in PARTS.into_iter().enumerate() {
                let plan =
                    Plan { duty: Some((part, 100 - part)), ..Plan::one_core(Model::Split, vec![nf.clone()]) };
                rates[n + 1].push(rate(kit, &plan)?);
            }
        }
        let ratios = over_best(&rates);
        if worst.as_ref().is_none_or(|worst| median(&ratios) < median(worst)) {
            worst = Some(ratios);
        }
        let name = format!("split, {rules} rules, {size} B");
        let mut curve = Series::new(name, Role::Other(c as u8));
        for (part, rates) in PARTS.into_iter().zip(&rates[1..]) {
            let millions: Vec<f64> = rates.iter().map(|rate| rate / 1e6).collect();
            curve.push(f64::from(part), Reading::median(&millions));
        }
        curves.push(curve);
        marks.push(Mark::promise(
            format!("hyper, {rules} rules, {size} B"),
            Place::Level(median(&rates[0]) / 1e6),
        ));
    }
    let figure = Figure::lines(
        "Throughput by the function's part of the processor's time",
        Axis::linear("function's part; I/O has the rest", "%").ticks(PARTS.map(f64::from)),
        Axis::linear("throughput", "Mp/s"),
        curves,
    );
    let experiment = Experiment::new("fig-2", "Fig. 2: static splits", "Is there a division between function and I/O that is right for all?")
        .setup("Two processors; the function's worker works for one part of its time, the I/O worker for the rest, so that both together have one processor's worth.")
        .paper(paper::fig_2())
        .figure(marks.into_iter().fold(figure, Figure::mark));
    Ok((experiment, worst.unwrap_or_default()))
}

/// What going from a function to its I/O and back costs, by the size of batches.
fn batches(kit: &Kit, progress: Progress<'_>) -> Result<(Experiment, Vec<f64>), BenchError> {
    const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
    let nf = Nf::new(&bridge(kit)?, Frames::Computed { size: 64 });
    let mut curves: Vec<_> = Model::ALL.map(|model| Series::new(model.name(), model.role())).into();
    let mut costs = vec![vec![Vec::new(); BATCHES.len()]; Model::ALL.len()];
    for round in 0..ROUNDS {
        progress(0.75 + 0.25 * round as f64 / ROUNDS as f64, "batches");
        for (m, model) in Model::ALL.into_iter().enumerate() {
            for (b, batch) in BATCHES.into_iter().enumerate() {
                let mut plan = Plan::one_core(model, vec![nf.clone()]);
                plan.settings.batch = batch;
                costs[m][b].push(1e9 / rate(kit, &plan)?);
            }
        }
    }
    for (curve, costs) in curves.iter_mut().zip(&costs) {
        for (batch, costs) in BATCHES.into_iter().zip(costs) {
            curve.push(batch as f64, Reading::median(costs));
        }
    }
    // A packet costs a part that is its own, and its part of what a batch costs: the difference between
    // batches of one and of 64 gives the latter.
    let of_batch = |round: usize| (costs[0][0][round] - costs[0][6][round]) / (1.0 - 1.0 / 64.0);
    let overhead = (0..ROUNDS).map(|round| of_batch(round) / 32.0).collect();
    let experiment = Experiment::new(
        "fig-3",
        "Fig. 3: what synchronisation costs a packet",
        "How much of a packet's cost is going between function and I/O, and how large must batches be to hide it?",
    )
    .setup("A bridge, 64 B; batches are what the engine hands to the function at once, and what ports are polled for.")
    .setup("hyper's part of a batch at 32: what a batch costs beside its packets, from batches of 1 and 64, over 32.")
    .paper(paper::fig_3())
    .figure(Figure::lines(
        "Cost of a packet by batch",
        Axis::log("packets in a batch", "").ticks(BATCHES.map(|batch| batch as f64)),
        Axis::linear("cost of a packet", "ns"),
        curves,
    ));
    Ok((experiment, overhead))
}

/// What handing a packet to another worker costs when both run: nanoseconds a packet in batches of 32, taking
/// a buffer before and giving it back afterwards included.
fn hand_off(kit: &Kit) -> Result<f64, BenchError> {
    let bell = || Bell::new().map(Arc::new).map_err(BenchError::setup);
    let (mut here, mut there) = one_way(bell()?, bell()?);
    let stop = AtomicBool::new(false);
    let (pool, now) = (&kit.pool, kit.clock.now());
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let _claim = Cores::claim(0);
            let mut batch = Vec::with_capacity(BATCH);
            while !stop.load(Relaxed) {
                if here.room() >= BATCH {
                    pool.allocate_batch(BATCH, &mut batch);
                    here.transmit(pool, now, &mut batch);
                } else {
                    std::hint::spin_loop();
                }
            }
        });
        let claim = Cores::claim(1);
        let mut batch = Vec::with_capacity(BATCH);
        let mut receive = |time: Duration| {
            let (began, mut count) = (Instant::now(), 0u64);
            while began.elapsed() < time {
                for _ in 0..64 {
                    there.receive(pool, now, BATCH, &mut batch);
                    count += batch.len() as u64;
                    pool.free_batch(batch.drain(..));
                }
            }
            began.elapsed().as_nanos() as f64 / count.max(1) as f64
        };
        receive(WARM_UP);
        let cost = receive(WINDOW);
        stop.store(true, Relaxed);
        drop(sender.join());
        receive(Duration::from_millis(1));
        claim.map(|_| cost).map_err(BenchError::setup)
    })
}

pub(crate) fn run(progress: Progress<'_>) -> Result<Found, BenchError> {
    let kit = Kit::new(16_384)?;
    let (mut experiments, worst) = cells(&kit, progress)?;
    let (raw, raw_ratio) = raw(&kit, progress)?;
    let (split, split_ratio) = static_split(&kit, progress)?;
    let (batch, overhead) = batches(&kit, progress)?;
    let hand_offs = (0..ROUNDS).map(|_| hand_off(&kit)).collect::<Result<Vec<_>, _>>()?;
    let results = vec![
        Measurement::new("worst-ratio", "x", &worst),
        Measurement::new("raw-64-ratio", "x", &raw_ratio),
        Measurement::new("static-split-ratio", "x", &split_ratio),
        Measurement::new("batch-overhead-ns", "ns", &overhead),
        Measurement::new("split-hand-off-ns", "ns", &hand_offs),
    ];
    let first = experiments.remove(0);
    let mut all = vec![verdicts("models", first, &results[..1])];
    all.append(&mut experiments);
    all.push(verdicts("models", raw, &results[1..2]));
    all.push(verdicts("models", split, &results[2..3]));
    all.push(verdicts("models", batch, &results[3..]));
    Ok(Found { results, experiments: all })
}
