//! Loads that change every second, and functions that come and go (HyperNF, section 5.1, figures 10 to 12).

use super::feed::Frames;
use super::rig::{Kit, Nf, Plan, Prepared, Source, generator};
use super::{Found, Progress, verdicts};
use crate::frames::Numbers;
use crate::functions::ten_rules;
use crate::guests::stock;
use crate::statistics::median;
use crate::{BenchError, Measurement};
use plots::{Axis, Experiment, Figure, Model, PaperNumber, Reading, Role, Series, paper};
use port::generator::Load;
use std::time::{Duration, Instant};

/// Functions, of which fewer work at the beginning and at the end of the last scenario.
const FUNCTIONS: usize = 30;
const FEWEST: usize = 15;
/// Seconds that each scenario takes with each model.
const SECONDS: usize = 24;
/// A second counts in which at most this part of what can be forwarded is offered.
const COUNTED: f64 = 0.9;
/// How often `hyper` plays each scenario.
const PLAYS: usize = 3;
const SIZE: u32 = 256;

/// What is offered to each function in each second, in packets.
type Script = Vec<[u64; FUNCTIONS]>;

/// Divides a sum among some of the functions: a few large ones and many small.
fn divide(total: f64, among: usize, numbers: &mut Numbers) -> [u64; FUNCTIONS] {
    let mut parts = [0.0; FUNCTIONS];
    for part in &mut parts[..among] {
        let uniform = (numbers.below(1_000_000) + 1) as f64 / 1e6;
        *part = -uniform.ln();
    }
    let sum: f64 = parts.iter().sum();
    parts.map(|part| (part / sum * total) as u64)
}

/// How many functions work in a second of the last scenario: three more every two seconds up to the middle,
/// and fewer again.
fn working(second: usize) -> usize {
    let step = (second.min(SECONDS - 1 - second) / 2) * 3;
    (FEWEST + step).min(FUNCTIONS)
}

/// The three scenarios, of a capacity in packets a second.
fn scripts(capacity: f64) -> Vec<Script> {
    let mut numbers = Numbers(2017);
    let traffic = (0..SECONDS).map(|_| divide(capacity * 0.7, FUNCTIONS, &mut numbers)).collect();
    let level = |numbers: &mut Numbers| 0.2 + 0.7 * numbers.below(1_000_000) as f64 / 1e6;
    let cumulative = (0..SECONDS)
        .map(|_| {
            let level = level(&mut numbers);
            divide(capacity * level, FUNCTIONS, &mut numbers)
        })
        .collect();
    let functions = (0..SECONDS)
        .map(|second| {
            let level = level(&mut numbers);
            divide(capacity * level, working(second), &mut numbers)
        })
        .collect();
    vec![traffic, cumulative, functions]
}

/// Packets that came out in each second.
fn play(
    kit: &Kit,
    what: &Prepared,
    model: Model,
    script: &Script,
    pausing: bool,
) -> Result<Vec<u64>, BenchError> {
    let functions = (0..FUNCTIONS).map(|n| {
        let schedule = script.iter().zip(0..).map(|(rates, second)| Load {
            from: second,
            to: second + 1,
            rate: rates[n],
            flows: None,
        });
        let config = port::generator::Config {
            flows: 4096,
            // Loads of nothing are silent, and keep the schedule going to its end.
            schedule: schedule.collect(),
            batch: 16,
            ..generator(SIZE, n as u64)
        };
        Nf { source: Source::Generated(config), ..Nf::new(what, Frames::Computed { size: 64 }) }
    });
    let rig = Plan::cores(model, functions.collect(), vec![0, 1], 1).build(kit)?;
    let pause = |second: usize| -> Result<(), BenchError> {
        let now = working(second);
        for (n, instance) in rig.instances.iter().enumerate() {
            let done = if n < now { rig.fleet.resume(*instance) } else { rig.fleet.pause(*instance) };
            done.map_err(BenchError::setup)?;
        }
        Ok(())
    };
    if pausing {
        pause(0)?;
    }
    let mut balancer = rig.balancer();
    let began = Instant::now();
    rig.start()?;
    let mut forwarded = Vec::new();
    let mut before = 0;
    for second in 0..script.len() {
        if pausing && second > 0 && working(second) != working(second - 1) {
            pause(second)?;
        }
        let until = began + Duration::from_secs(second as u64 + 1);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            std::thread::sleep(left.min(balancer.pause()));
            balancer.look(&rig.fleet);
        }
        let now: u64 = rig.counts().iter().sum();
        forwarded.push(now - before);
        before = now;
    }
    rig.end()?;
    Ok(forwarded)
}

/// What thirty functions forward now that get all they can take, from generators like those of [`play`].
fn capacity(kit: &Kit, what: &Prepared) -> Result<f64, BenchError> {
    let config = port::generator::Config { flows: 4096, ..generator(SIZE, 1) };
    let nf = Nf { source: Source::Generated(config), ..Nf::new(what, Frames::Computed { size: 64 }) };
    let rig = Plan::cores(Model::Hyper, vec![nf; FUNCTIONS], vec![0, 1], 1).build(kit)?;
    rig.start()?;
    let rates = rig.measure(Duration::from_millis(250), Duration::from_millis(750))?;
    rig.end()?;
    Ok(rates.iter().sum::<f64>())
}

/// What `hyper` forwards of a scenario in each second, in each play, and the worst second's part of what is
/// offered, if enough seconds count. A second of a play counts that offers at most [`COUNTED`] of what the
/// machine could forward before the play and after it.
fn plays(
    kit: &Kit,
    what: &Prepared,
    script: &Script,
    pausing: bool,
    progress: &mut dyn FnMut(usize),
) -> Result<(Vec<Vec<f64>>, Option<f64>), BenchError> {
    let (mut forwarded, mut parts) = (vec![Vec::new(); SECONDS], vec![Vec::new(); SECONDS]);
    let mut before = capacity(kit, what)?;
    for n in 0..PLAYS {
        progress(n);
        let counts = play(kit, what, Model::Hyper, script, pausing)?;
        let after = capacity(kit, what)?;
        for (second, (count, rates)) in counts.into_iter().zip(script).enumerate() {
            let offered = rates.iter().sum::<u64>() as f64;
            forwarded[second].push(count as f64);
            if offered <= COUNTED * before.min(after) {
                parts[second].push(count as f64 / offered);
            }
        }
        before = after;
    }
    // What most plays of a second say; one in which the host took the processors away says nothing of them.
    let counted = parts.iter().filter(|parts| parts.len() * 2 > PLAYS).map(|parts| median(parts));
    let counted: Vec<_> = counted.collect();
    // Where what the machine can forward changes too much, too few seconds offer less, and say nothing.
    let worst = counted.iter().copied().reduce(f64::min).filter(|_| counted.len() >= SECONDS / 3);
    Ok((forwarded, worst))
}

pub(crate) fn run(progress: Progress<'_>) -> Result<Found, BenchError> {
    let kit = Kit::new(65_536)?;
    let what = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let scenarios: [(&str, &str, &str, Vec<PaperNumber>); 3] = [
        ("fig-10", "traffic", "Fig. 10: the load of each function changes", paper::fig_10()),
        ("fig-11", "cumulative", "Fig. 11: the load of all changes", paper::fig_11()),
        ("fig-12", "functions", "Fig. 12: functions come and go", paper::fig_12()),
    ];
    let (mut results, mut experiments) = (Vec::new(), Vec::new());
    for (s, (id, name, title, numbers)) in scenarios.into_iter().enumerate() {
        progress(s as f64 / 3.0, "capacity");
        let now = (0..3).map(|_| capacity(&kit, &what)).collect::<Result<Vec<_>, _>>()?;
        let capacity = median(&now);
        let script = scripts(capacity).swap_remove(s);
        let offered: Vec<u64> = script.iter().map(|rates| rates.iter().sum()).collect();
        let mut line = Series::new("offered", Role::Offered);
        for (second, offered) in offered.iter().enumerate() {
            line.push(second as f64 + 1.0, *offered as f64 / 1e6);
        }
        let mut curves = vec![line];
        let mut totals = Vec::new();
        let mut worst = None;
        for (m, model) in Model::ALL.into_iter().enumerate() {
            let mut tell = |play: usize| {
                let part = (m + play) as f64 / (Model::ALL.len() + PLAYS - 1) as f64;
                progress((s as f64 + part) / 3.0, &format!("{title}, {}", model.name()));
            };
            let forwarded = if model == Model::Hyper {
                let (forwarded, least) = plays(&kit, &what, &script, name == "functions", &mut tell)?;
                worst = least;
                forwarded
            } else {
                tell(PLAYS - 1);
                let counts = play(&kit, &what, model, &script, name == "functions")?;
                counts.into_iter().map(|count| vec![count as f64]).collect()
            };
            let mut curve = Series::new(model.name(), model.role());
            for (second, plays) in forwarded.iter().enumerate() {
                let plays: Vec<_> = plays.iter().map(|count| count / 1e6).collect();
                curve.push(second as f64 + 1.0, Reading::median(&plays));
            }
            totals.push(forwarded.iter().map(|plays| median(plays)).sum::<f64>());
            curves.push(curve);
        }
        let result = match worst {
            Some(worst) => Measurement::new(name, "x", &[worst]),
            None => Measurement::missing(name, "x", "not-measured"),
        };
        let highest = totals[1..].iter().all(|others| totals[0] >= *others);
        let all = Measurement::new(&format!("{name}-highest"), "true", &[if highest { 1.0 } else { 0.0 }]);
        let figures = [result, all];
        let experiment = Experiment::new(id, title, "Is what is offered forwarded, whatever changes?")
            .setup(format!("30 firewalls of ten rules on two processors, one of which split sets aside for I/O; 256 B; generators follow a script, the same for all models; at most {:.1} Mp/s can be forwarded.", capacity / 1e6))
            .setup("hyper plays each scenario three times, and a second's median counts, of plays before and after which the machine could \
                    forward what the second offers and a ninth more; the worst such second is the result.")
            .paper(numbers)
            .figure(Figure::lines(
                "Forwarded in each second",
                Axis::linear("time", "s"),
                Axis::linear("throughput", "Mp/s"),
                curves,
            ));
        experiments.push(verdicts("dynamic", experiment, &figures));
        results.extend(figures);
    }
    Ok(Found { results, experiments })
}
