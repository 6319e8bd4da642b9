//! How many functions a host holds: alive, each of which forwards when it is sent a packet, and paused.

use super::{Daemon, spec, timed};
use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use api::Kind;
use serde_json::json;
use std::time::{Duration, Instant};

/// Functions that live at a time.
const LIVE: usize = 20_000;
/// Functions of one chain.
const PER_CHAIN: usize = 100;
/// Functions that are paused at a time.
const PAUSED: usize = 100_000;
/// Mappings that the kernel must allow for that: a function takes three, five if it is preemptible.
const MAPPINGS: u64 = 6 * LIVE as u64;
/// For how long it is looked whether anything is done.
const IDLE: Duration = Duration::from_secs(5);
/// Longest time until everything has been sent a packet, or is frozen.
const TIME_LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let allowed = std::fs::read_to_string("/proc/sys/vm/max_map_count").map_err(BenchError::setup)?;
    if allowed.trim().parse::<u64>().unwrap_or(0) < MAPPINGS {
        return Err(BenchError::Setup(format!(
            "{LIVE} functions take {MAPPINGS} mappings, and the kernel allows {}: sysctl -w vm.max_map_count={MAPPINGS}",
            allowed.trim()
        )));
    }
    let mut results = live(&mut |done, what| progress(done * 0.4, what))?;
    results.extend(paused(&mut |done, what| progress(0.4 + done * 0.6, what))?);
    Ok(results)
}

/// Functions in chains: a packet that comes out at the end of one has been forwarded by each of it.
fn live(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let daemon = Daemon::start()?;
    let chains = LIVE / PER_CHAIN;
    let spec = |n: usize| match n % PER_CHAIN {
        0 => json!({"image": "forwarder"}),
        _ => json!({"image": "forwarder", "attach": {"left": format!("f{}:right", n - 1)}}),
    };
    daemon.put(Kind::Function, "f0", &spec(0))?;
    let own = |daemon: &Daemon| Ok::<f64, BenchError>(daemon.kib("RssAnon")? + daemon.kib("VmPTE")?);
    let before = own(&daemon)?;
    for n in 1..LIVE {
        if n % 500 == 0 {
            progress(0.7 * n as f64 / LIVE as f64, "functions that live");
        }
        daemon.put(Kind::Function, &format!("f{n}"), &spec(n))?;
    }
    progress(0.7, "functions that have nothing to do");
    // What was made just now has settled.
    std::thread::sleep(Duration::from_secs(2));
    let (began, used) = (Instant::now(), daemon.processor_time()?);
    std::thread::sleep(IDLE);
    let idle = (daemon.processor_time()? - used).as_secs_f64() / began.elapsed().as_secs_f64();
    progress(0.8, "a packet for each of them");
    for chain in 0..chains {
        daemon.put(
            Kind::Port,
            &format!("source{chain}"),
            &json!({"type": "generator", "flows": 1, "count": 1}),
        )?;
        daemon.put(Kind::Port, &format!("sink{chain}"), &json!({"type": "sink"}))?;
        let (first, last) = (chain * PER_CHAIN, (chain + 1) * PER_CHAIN - 1);
        let wires = [
            (format!("f{last}:right"), format!("sink{chain}")),
            (format!("f{first}:left"), format!("source{chain}")),
        ];
        for (a, b) in wires {
            daemon.put(Kind::Wire, &api::wire_name(&a, &b).map_err(BenchError::setup)?, &json!([a, b]))?;
        }
    }
    let began = Instant::now();
    let mut forwarded = 0;
    while forwarded < LIVE && began.elapsed() < TIME_LIMIT {
        forwarded = working(&daemon)?;
        progress(0.8 + 0.2 * forwarded as f64 / LIVE as f64, "a packet for each of them");
        std::thread::sleep(Duration::from_millis(200));
    }
    let each = (own(&daemon)? - before) / (LIVE - 1) as f64;
    Ok(vec![
        Measurement::new("live", "functions", &[forwarded as f64]),
        Measurement::new("private-kib", "KiB", &[each]),
        Measurement::new("idle-percent", "%", &[100.0 * idle]),
    ])
}

/// How many functions have forwarded a packet.
fn working(daemon: &Daemon) -> Result<usize, BenchError> {
    let account = daemon.client.account().map_err(BenchError::setup)?;
    let functions = account["functions"]
        .as_object()
        .ok_or_else(|| BenchError::Setup("the account has no functions".to_owned()))?;
    let forwarded = |function: &serde_json::Value| {
        let dropped: u64 =
            function["drops"].as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
        function["packets"].as_u64().unwrap_or(0) > 0 && dropped == 0
    };
    Ok(functions.values().filter(|function| forwarded(function)).count())
}

fn paused(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let daemon = Daemon::start()?;
    daemon.halls(PAUSED)?;
    let before = daemon.kib("RssAnon")? + daemon.kib("VmPTE")?;
    for n in 0..PAUSED {
        if n % 500 == 0 {
            progress(0.9 * n as f64 / PAUSED as f64, "functions that are paused");
        }
        let name = format!("f{n}");
        daemon.put(Kind::Function, &name, &spec(n))?;
        daemon.client.pause(&name, false).map_err(BenchError::setup)?;
    }
    let began = Instant::now();
    let mut frozen = 0;
    while frozen < PAUSED && began.elapsed() < TIME_LIMIT {
        std::thread::sleep(Duration::from_secs(1));
        frozen = standing(&daemon)?;
    }
    let each = (daemon.kib("RssAnon")? + daemon.kib("VmPTE")? - before) / PAUSED as f64;
    let mut resumes = Vec::new();
    for run in 0..RUNS {
        let mut times = Vec::new();
        for n in 0..100 {
            let name = format!("f{}", (run * 100 + n) * PAUSED / (RUNS * 100));
            times.push(timed(|| daemon.client.resume(&name, false).map_err(BenchError::setup))?);
        }
        resumes.push(median(&times));
    }
    Ok(vec![
        Measurement::new("paused", "functions", &[frozen as f64]),
        Measurement::new("resume-us", "us", &resumes),
        Measurement::new("paused-kib", "KiB", &[each]),
    ])
}

/// How many functions are frozen.
fn standing(daemon: &Daemon) -> Result<usize, BenchError> {
    let account = daemon.client.account().map_err(BenchError::setup)?;
    let functions = account["functions"]
        .as_object()
        .ok_or_else(|| BenchError::Setup("the account has no functions".to_owned()))?;
    Ok(functions.values().filter(|function| function["frozen"] == true).count())
}
