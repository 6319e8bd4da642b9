//! A tenant's chain, and the daemon's own socket, beside a tenant that does what it can to be noticed.
//!
//! 1. A daemon with one worker runs the chain of a tenant of weight 3, at half of the load that the chain
//!    could carry alone.
//! 2. A tenant of weight 1 misbehaves beside it, in each [`Way`](tenant::Way) by itself, begun anew for each
//!    of three spans: what the chain forwards of what it is offered, in the worst of ten windows of a second,
//!    and its delay, over the one without: the median of those before each way, because a worker that
//!    moderates its wake-ups goes from one interval to another by itself. Of a way the median span counts:
//!    a processor that the host of a virtual machine takes away, or another program that uses the memory,
//!    costs a span as much as the worst neighbour does. What the host takes is printed beside it, and the
//!    chain's delay beside a program that only keeps the other processors busy (`other-program-p99-ratio`).
//! 3. It misbehaves in several ways at once, a crowd of clients takes what the sockets give, and others
//!    follow the log of a function whose specification has 4 MB: how long others wait for health.
//! 4. A function with a cap of 5% whose timer is always due, of a third tenant: the second one may owe time
//!    of its compilations for minutes. What it gets in windows of 0.3 s.

mod certificates;
mod crowd;
mod host;
mod metrics;
mod neighbour;
mod requests;
mod tenant;

use super::Daemon;
use crate::statistics::{median, percentile};
use crate::{BenchError, Measurement};
use api::Kind;
use certificates::{ADMINISTRATOR, Certificates};
use client::Change;
use crowd::{Crowd, health_times};
use neighbour::Neighbour;
use requests::Followers;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use telemetry::clock::{Clock, Cycles};
use tenant::{Hostile, Images, Way};

/// Windows of a second for each span of a way, and before it.
const WINDOWS: (usize, usize) = (10, 5);
/// Spans of a way.
const SPANS: usize = 3;
/// Requests for health on each of the two sockets.
const REQUESTS: usize = 500;
/// The cap, and the windows in which it is looked at.
const CAP: f64 = 0.05;
const CAP_WINDOWS: usize = 20;
const CAP_WINDOW: Duration = Duration::from_millis(300);
/// What goes on while health is asked for.
const MEANWHILE: [Way; 4] = [Way::SlowStart, Way::SlowExport, Way::Compiling, Way::Restarting];

pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    progress(0.0, "what the host leaves");
    let host = host::withheld()?;
    progress(0.0, "a chain alone");
    let (daemon, certificates) = start()?;
    let images = Arc::new(Images::new(&daemon));
    let neighbour = Neighbour::start(&daemon)?;
    let mut notes = vec![
        format!(
            "with all processors busy the host takes them away for {:.2}% of the time, for up to {:.1} ms",
            host.percent,
            host.longest.as_secs_f64() * 1e3
        ),
        format!(
            "the chain is offered {:.0} packets a second, half of what it carries alone",
            neighbour.rate()
        ),
    ];
    progress(0.0, "another program");
    let beside_program = {
        let _program = host::OtherProgram::start();
        (0..SPANS).map(|_| neighbour.watch(WINDOWS.1)).collect::<Result<Vec<_>, _>>()?
    };
    let mut seen = Vec::new();
    let ways = Way::ALL.len() as f64;
    for (n, way) in Way::ALL.into_iter().enumerate() {
        progress(n as f64 / (ways + 2.0), way.name());
        let before = neighbour.watch(WINDOWS.1)?;
        let mut beside = Vec::with_capacity(SPANS);
        for _ in 0..SPANS {
            let hostile = Hostile::begin(&daemon, &images, way)?;
            beside.push(neighbour.watch(WINDOWS.0)?);
            hostile.end()?;
        }
        let times: Vec<String> = beside.iter().map(|span| format!("{:.0}", span.p99 * 1e6)).collect();
        notes.push(format!(
            "{}: 99% of packets within {} us, {:.0} us before",
            way.name(),
            times.join(", "),
            before.p99 * 1e6
        ));
        seen.push((way, before, beside));
    }
    progress(ways / (ways + 2.0), "health while all of it goes on");
    let health = health(&daemon, &certificates, &images)?;
    progress((ways + 1.0) / (ways + 2.0), "a cap under a storm of timers");
    let shares = capped_shares(&daemon, &images)?;
    let error = shares.iter().map(|share| (share - CAP).abs() * 100.0).fold(0.0, f64::max);
    let (least_of_cap, most_of_cap) =
        shares.iter().fold((f64::INFINITY, 0.0f64), |(low, high), share| (low.min(*share), high.max(*share)));
    notes.push(format!(
        "a cap of {:.0}%: {:.2}% to {:.2}% of a core in windows of {} ms",
        CAP * 100.0,
        least_of_cap * 100.0,
        most_of_cap * 100.0,
        CAP_WINDOW.as_millis()
    ));
    let alone: Vec<f64> = seen.iter().map(|(_, before, _)| before.percent).collect();
    let without = median(&seen.iter().map(|(_, before, _)| before.p99).collect::<Vec<_>>());
    notes.push(format!("alone, 99% of packets within {:.0} us, median of all times", without * 1e6));
    let (mut percents, mut ratios, mut each) = (Vec::new(), Vec::new(), Vec::new());
    for (way, _, beside) in &seen {
        let forwarded: Vec<f64> = beside.iter().map(|span| span.percent).collect();
        let delays: Vec<f64> = beside.iter().map(|span| span.p99 / without).collect();
        percents.push(median(&forwarded));
        ratios.push(median(&delays));
        each.push(Measurement::new(&format!("neighbour-{}-percent", way.name()), "%", &forwarded));
        each.push(Measurement::new(&format!("neighbour-{}-p99-ratio", way.name()), "x", &delays));
    }
    let lowest = percents.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = ratios.iter().copied().fold(0.0, f64::max);
    let mut results = vec![
        one("neighbour-percent", "%", lowest),
        one("neighbour-p99-ratio", "x", highest),
        one("health-p99-ms", "ms", health),
        one("cap-error", "% of a core", error),
        Measurement::new("alone-percent", "%", &alone),
        Measurement::new("host-longest-ms", "ms", &[host.longest.as_secs_f64() * 1e3]),
        Measurement::new(
            "other-program-p99-ratio",
            "x",
            &beside_program.iter().map(|span| span.p99 / without).collect::<Vec<_>>(),
        ),
    ];
    results.extend(each);
    Ok((results, notes))
}

fn one(name: &str, unit: &'static str, value: f64) -> Measurement {
    Measurement::new(name, unit, &[value])
}

/// A daemon with all of its sockets.
fn start() -> Result<(Daemon, Certificates), BenchError> {
    let mut made = None;
    let daemon = Daemon::start_with(|folder| {
        let certificates = Certificates::make(folder)?;
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(BenchError::setup)?;
        let address = listener.local_addr().map_err(BenchError::setup)?;
        drop(listener);
        let path = |path: &std::path::Path| path.display().to_string();
        let arguments = [
            ("--tenants-socket", path(&folder.join("tenants"))),
            ("--listen", address.to_string()),
            ("--tls-cert", path(&certificates.server)),
            ("--tls-key", path(&certificates.server_key)),
            ("--tls-client-ca", path(&certificates.authority)),
            ("--tls-admin", ADMINISTRATOR.to_owned()),
        ];
        made = Some(certificates);
        Ok((
            arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect(),
            Some(address),
        ))
    })?;
    let certificates = made.ok_or_else(|| BenchError::Setup("no certificates".to_owned()))?;
    Ok((daemon, certificates))
}

/// The 99th percentile of requests for health in milliseconds, the slower one of the two sockets.
fn health(daemon: &Daemon, certificates: &Certificates, images: &Arc<Images>) -> Result<f64, BenchError> {
    let hostile = MEANWHILE
        .into_iter()
        .map(|way| Hostile::begin(daemon, images, way))
        .collect::<Result<Vec<_>, _>>()?;
    let crowd = Crowd::gather(daemon)?;
    let followers = Followers::gather(daemon, daemon.folder().join("chatty.wasm"))?;
    let times = health_times(daemon, certificates, REQUESTS);
    followers.leave()?;
    crowd.leave()?;
    for hostile in hostile {
        hostile.end()?;
    }
    let (socket, encrypted) = times?;
    Ok(percentile(&socket, 0.99).max(percentile(&encrypted, 0.99)))
}

/// What a function with a cap whose timer is always due gets of a core, in each window.
fn capped_shares(daemon: &Daemon, images: &Images) -> Result<Vec<f64>, BenchError> {
    const NAME: &str = "capped";
    daemon.put(Kind::Function, NAME, &tenant::capped(images, "5%")?)?;
    let clock = Clock::calibrate();
    let read = || {
        let asked = Instant::now();
        let cycles = daemon.status(NAME)?.cycles;
        Ok::<_, BenchError>((asked + asked.elapsed() / 2, cycles))
    };
    sleep(CAP_WINDOW);
    let mut last = read()?;
    let mut shares = Vec::with_capacity(CAP_WINDOWS);
    for _ in 0..CAP_WINDOWS {
        sleep(CAP_WINDOW);
        let next = read()?;
        let used = clock.span(Cycles(next.1.saturating_sub(last.1))).as_secs_f64();
        shares.push(used / next.0.duration_since(last.0).as_secs_f64());
        last = next;
    }
    daemon.client.delete(Kind::Function, NAME, &Change::default()).map_err(BenchError::setup)?;
    Ok(shares)
}
