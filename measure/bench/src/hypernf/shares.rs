//! How exactly functions get the processor that they were promised (HyperNF, section 4.3, table 1 and figure
//! 8).

use super::devices::Devices;
use super::feed::Frames;
use super::rig::{Kit, Nf, Plan, Prepared, Rig, bridge};
use super::{Found, Progress, verdicts};
use crate::functions::ten_rules;
use crate::guests::stock;
use crate::statistics::median;
use crate::{BenchError, Measurement};
use cpu_share::{Claim, Weight};
use plots::{Axis, Experiment, Figure, Model, Reading, Series, paper};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds of every comparison; in each, every side has its turn.
const ROUNDS: usize = 25;
const WARM_UP: Duration = Duration::from_millis(10);
const WINDOW: Duration = Duration::from_millis(100);

/// For a function with a small share: it has more than ten turns in this time.
const LONG_WINDOW: Duration = Duration::from_millis(2000);
const LONG_ROUNDS: usize = 15;

/// Longer than a turn of any function, and shorter than the time between two turns of one with a small share.
const AFTER_TURN: Duration = Duration::from_millis(4);

/// Parts of the processor that the two functions are promised, in percent.
const SHARES: [(u32, u32); 3] = [(50, 50), (70, 30), (30, 70)];

fn claim(weight: u32) -> Claim {
    Claim { weight: Weight::new(weight).unwrap_or(Weight::DEFAULT), ..Claim::default() }
}

/// Functions that are set up once. Sides that are compared differ in which functions have packets and in what
/// is promised, not in where anything lies in memory.
struct Compared(Rig);

impl Compared {
    fn new(kit: &Kit, plan: &Plan) -> Result<Compared, BenchError> {
        let rig = plan.build(kit)?;
        rig.start()?;
        Ok(Compared(rig))
    }

    /// Packets a second of one function while it alone has any.
    fn alone(&self, function: usize) -> Result<f64, BenchError> {
        Ok(self.rates(|n| n == function, WINDOW)?[function])
    }

    /// Packets a second of each while all have as many as they can take.
    fn together(&self, window: Duration) -> Result<Vec<f64>, BenchError> {
        self.rates(|_| true, window)
    }

    fn rates(&self, busy: impl Fn(usize) -> bool, window: Duration) -> Result<Vec<f64>, BenchError> {
        let rates = self.0.measure_those(&busy, WARM_UP, window)?;
        if rates.iter().enumerate().any(|(n, rate)| busy(n) && *rate == 0.0) {
            return Err(BenchError::Invalid("a function forwards nothing".into()));
        }
        Ok(rates)
    }

    /// The same in a window that begins and ends when a turn of one function has just ended: it has so few
    /// turns that a part of one would count.
    fn together_in_whole_turns(&self, whose: usize, window: Duration) -> Result<Vec<f64>, BenchError> {
        self.0.open(true)?;
        self.await_turn(whose)?;
        let (before, began) = (self.0.counts(), Instant::now());
        std::thread::sleep(window);
        self.await_turn(whose)?;
        let (after, took) = (self.0.counts(), began.elapsed().as_secs_f64());
        self.0.open(false)?;
        Ok(before.iter().zip(&after).map(|(before, after)| (after - before) as f64 / took).collect())
    }

    /// Waits until a function has had a turn: something has come out, and nothing more does.
    fn await_turn(&self, whose: usize) -> Result<(), BenchError> {
        let began = Instant::now();
        let mut seen = self.0.counts()[whose];
        let mut had_one = false;
        while began.elapsed() < 10 * LONG_WINDOW {
            std::thread::sleep(AFTER_TURN);
            let now = self.0.counts()[whose];
            if had_one && now == seen {
                return Ok(());
            }
            had_one |= now != seen;
            seen = now;
        }
        Err(BenchError::Invalid("a function has no turns".into()))
    }

    fn promise(&self, function: usize, weight: u32) -> Result<(), BenchError> {
        self.0.fleet.set_claim(self.0.instances[function], claim(weight)).map_err(BenchError::setup)
    }
}

/// Deviation of what a function got from its part of what it gets alone, in percent.
fn error(got: f64, alone: f64, share: f64) -> f64 {
    (got - alone * share) / (alone * share) * 100.0
}

/// Of the functions' deviations, round by round, those of the function whose median is worst; signs are such
/// that the median is positive.
fn worse(errors: &[Vec<f64>]) -> Vec<f64> {
    let worst = errors.iter().max_by(|a, b| median(a).abs().total_cmp(&median(b).abs()));
    let Some(worst) = worst else { return Vec::new() };
    let sign = if median(worst) < 0.0 { -1.0 } else { 1.0 };
    worst.iter().map(|error| error * sign).collect()
}

/// Deviations of two functions at each of [`SHARES`], by function and round.
fn pair(
    kit: &Kit,
    plan: &Plan,
    rounds: usize,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Vec<Vec<f64>>>, BenchError> {
    let mut errors = vec![vec![Vec::new(); 2]; SHARES.len()];
    let compared = Compared::new(kit, plan)?;
    for round in 0..rounds {
        progress(round);
        for (n, shares) in SHARES.into_iter().enumerate() {
            let shares = [shares.0, shares.1];
            for (function, share) in shares.into_iter().enumerate() {
                compared.promise(function, share)?;
            }
            let first = compared.alone(0)?;
            let got = compared.together(WINDOW)?;
            let alone = [first, compared.alone(1)?];
            for (function, share) in shares.into_iter().enumerate() {
                errors[n][function].push(error(got[function], alone[function], f64::from(share) / 100.0));
            }
        }
    }
    compared.0.end()?;
    Ok(errors)
}

/// The functions of the paper's table 1.
struct Table1 {
    bridge: Prepared,
    ten: Prepared,
    fifty: Prepared,
}

impl Table1 {
    fn new(kit: &Kit) -> Result<Table1, BenchError> {
        let firewall = stock("firewall")?;
        Ok(Table1 {
            bridge: bridge(kit)?,
            ten: kit.prepare(firewall.clone(), &ten_rules(10))?,
            fifty: kit.prepare(firewall, &ten_rules(50))?,
        })
    }

    /// Configurations A and B.
    fn setups(&self) -> [(&'static str, [Nf; 2]); 2] {
        let sized = |size| Frames::Computed { size };
        [
            ("a", [Nf::new(&self.bridge, sized(64)), Nf::new(&self.fifty, sized(1472))]),
            ("b", [Nf::new(&self.ten, sized(1024)), Nf::new(&self.fifty, sized(512))]),
        ]
    }
}

/// Deviations of the functions of table 1 into ports whose work is theirs: devices of the kernel, or memory.
/// Those of the worst, by round, and the medians of all.
fn at_ports(
    kit: &Kit,
    table: &Table1,
    devices: Option<Arc<Devices>>,
    begin: f64,
    progress: Progress<'_>,
) -> Result<(Vec<f64>, Vec<Reading>), BenchError> {
    let (mut found, mut bars) = (Vec::new(), Vec::new());
    for (s, (setup, functions)) in table.setups().into_iter().enumerate() {
        let plan = Plan::one_core(Model::Hyper, functions.into());
        let plan = Plan { copies: devices.is_none(), devices: devices.clone(), ..plan };
        let errors = pair(kit, &plan, ROUNDS, &mut |round| {
            let part = begin + 0.1 * (s as f64 + round as f64 / ROUNDS as f64) / 2.0;
            progress(part, &format!("shares at ports, setup {setup}"));
        })?;
        for errors in errors {
            let runs = worse(&errors);
            bars.push(Reading::median(&runs));
            found.push(runs);
        }
    }
    let worst = found.into_iter().max_by(|a, b| median(a).total_cmp(&median(b))).unwrap_or_default();
    Ok((worst, bars))
}

/// Groups of functions that are all alike, each promised a part: deviations by group and round.
fn many(
    kit: &Kit,
    plan: &Plan,
    groups: &[(Vec<usize>, f64)],
    rounds: usize,
    measure: impl Fn(&Compared) -> Result<Vec<f64>, BenchError>,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Vec<f64>>, BenchError> {
    let mut errors = vec![Vec::new(); groups.len()];
    let compared = Compared::new(kit, plan)?;
    for round in 0..rounds {
        progress(round);
        // Each has its turn to be the one that is alone, before and after.
        let member = round % plan.functions.len();
        let before = compared.alone(member)?;
        let got = measure(&compared)?;
        let alone = (before + compared.alone(member)?) / 2.0;
        for (errors, (members, share)) in errors.iter_mut().zip(groups) {
            let got: f64 = members.iter().map(|member| got[*member]).sum();
            errors.push(error(got, alone, *share));
        }
    }
    compared.0.end()?;
    Ok(errors)
}

pub(crate) fn run(progress: Progress<'_>) -> Result<Found, BenchError> {
    let kit = Kit::new(16_384)?;
    let table = Table1::new(&kit)?;
    let mut results = Vec::new();
    let mut figure = Figure::bars(
        "Deviation from the promised share, the worse of two functions",
        "setup of table 1, promised shares",
        ["A 50/50", "A 70/30", "A 30/70", "B 50/50", "B 70/30", "B 30/70"],
        Axis::linear("absolute deviation", "%"),
    );
    let models = [Model::Hyper, Model::Split, Model::Merge];
    for (m, model) in models.into_iter().enumerate() {
        // The others' deviations are large: fewer rounds show them.
        let rounds = if model == Model::Hyper { ROUNDS } else { 5 };
        let mut bars = Vec::new();
        for (s, (setup, functions)) in table.setups().into_iter().enumerate() {
            let mut tell = |round: usize| {
                let part = (m as f64 + (s as f64 + round as f64 / rounds as f64) / 2.0) / 6.0;
                progress(part, &format!("shares, setup {setup}, {}", model.name()));
            };
            let errors = pair(&kit, &Plan::one_core(model, functions.into()), rounds, &mut tell)?;
            for ((first, second), errors) in SHARES.into_iter().zip(errors) {
                let runs = worse(&errors);
                bars.push(Reading::median(&runs));
                if model == Model::Hyper {
                    let name = format!("{setup}-{first}-{second}-error");
                    results.push(Measurement::new(&name, "%", &runs));
                }
            }
        }
        figure = figure.group(model.name(), model.role(), bars);
    }

    let (worst, _) = at_ports(&kit, &table, None, 0.45, progress)?;
    results.push(Measurement::new("memory-port-error", "%", &worst));
    let (worst, bars) = at_ports(&kit, &table, Some(Arc::new(Devices::new(2)?)), 0.55, progress)?;
    results.push(Measurement::new("port-error", "%", &worst));
    figure = figure.group("hyper, into devices", plots::Role::Second(Model::Hyper), bars);

    let ten = Nf::new(&table.ten, Frames::Computed { size: 64 });
    let all: u32 = (0..8).map(|n| 1 << n).sum();
    let groups: Vec<_> = (0..8).map(|n| (vec![n], f64::from(1 << n) / f64::from(all))).collect();
    let plan = Plan::one_core(Model::Hyper, (0..8).map(|n| ten.clone().claim(claim(1 << n))).collect());
    let together = |compared: &Compared| compared.together_in_whole_turns(0, LONG_WINDOW);
    let eight = many(&kit, &plan, &groups, LONG_ROUNDS, together, &mut |round| {
        progress(0.6 + 0.2 * round as f64 / LONG_ROUNDS as f64, "shares, eight functions");
    })?;
    results.push(Measurement::new("eight-error", "%", &worse(&eight)));

    let groups = [((0..3).collect(), 0.5), ((3..33).collect(), 0.5)];
    let of = |tenant| Nf { tenant: Some(tenant), ..ten.clone() };
    let functions = (0..33).map(|n| of(usize::from(n >= 3))).collect();
    let plan = Plan { tenants: vec![Claim::default(); 2], ..Plan::one_core(Model::Hyper, functions) };
    let together = |compared: &Compared| compared.together(4 * WINDOW);
    let tenants = many(&kit, &plan, &groups, ROUNDS, together, &mut |round| {
        progress(0.8 + 0.2 * round as f64 / ROUNDS as f64, "shares, two tenants");
    })?;
    results.push(Measurement::new("tenants-error", "%", &worse(&tenants)));

    let mut weights = Series::new("measured", Model::Hyper.role());
    for (n, errors) in eight.iter().enumerate() {
        weights.push(f64::from(1 << n), Reading::median(errors));
    }
    let experiment = Experiment::new(
        "fig-8",
        "Fig. 8: exact shares",
        "Two functions that could each use the whole processor are promised parts of it. How far is what each forwards from \
         its part of what it forwards alone?",
    )
    .setup("Setups as in table 1: A is a bridge (64 B) beside a firewall of 50 rules (1,472 B), B a firewall of 10 rules (1,024 B) beside one of 50 (512 B).")
    .setup("Each function has its own two switches, a source that always has packets, and a sink; all of that is charged to it.")
    .setup("Functions are set up once; alone, the others have no packets. Alone and together take turns; each deviation is of one \
            round, and the median of the rounds is shown.")
    .setup("split: both workers have a processor, and work half of the time. merge: both share one.")
    .setup("Into devices: sinks are af_packet ports on veth pairs, worked in the functions' context.")
    .paper(paper::fig_8())
    .paper(paper::fig_8_ports())
    .figure(figure)
    .figure(Figure::lines(
        "Eight functions of weights 1 to 128: deviation of each",
        Axis::log("weight", "").ticks((0..8).map(|n| f64::from(1 << n))),
        Axis::linear("deviation", "%"),
        [weights],
    ));
    Ok(Found::new(verdicts("shares", experiment, &results), results))
}
