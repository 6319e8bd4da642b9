//! Applications through a stateful firewall between two TAP devices, beside the kernel's bridge with the same
//! rules in nftables, and beside a veth pair with nothing in between.
//!
//! 1. Requests a second of redis (GET and SET of 3 bytes, 50 connections) and of memcached (nine GETs to a
//!    SET, 16 connections), by `redis-benchmark` and `memcaslap`.
//! 2. The median of sockperf's latency one way: half of a round trip of 14 bytes of UDP, one at a time.
//!
//! Each is run through one and the other in turns.

use crate::between_hosts::{Allowed, Bridged, Firewalled, Rules, Served, bare};
use crate::{BenchError, Measurement, RUNS};
use std::time::Duration;
use testbed::{Hosts, SERVER};

const REDIS: u16 = 6379;
const MEMCACHED: u16 = 11211;
const SOCKPERF: u16 = 11111;
const ALLOWED: &[Allowed] = &[("tcp", REDIS), ("tcp", MEMCACHED), ("udp", SOCKPERF)];

/// Longest time for one run of a client.
const LIMIT: Duration = Duration::from_secs(60);

/// Programs and their packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-benchmark", "redis-tools"),
    ("memcached", "memcached"),
    ("memcaslap", "libmemcached-tools"),
    ("sockperf", "sockperf"),
];

/// One application: how its server is started, how it is asked, and how the answer is read.
struct Application {
    name: &'static str,
    port: u16,
    server: &'static str,
    serve: &'static [&'static str],
    /// The client's command line, with the server's address put in.
    ask: &'static str,
    /// What is read from what the client prints.
    read: fn(&str) -> Option<f64>,
    unit: &'static str,
}

const APPLICATIONS: &[Application] = &[
    Application {
        name: "redis",
        port: REDIS,
        server: "redis-server",
        serve: &["--bind", SERVER, "--save", "", "--appendonly", "no", "--protected-mode", "no"],
        ask: "redis-benchmark -h ADDRESS -t get,set -n 30000 -c 50 --csv",
        read: redis,
        unit: "requests/s",
    },
    Application {
        name: "memcached",
        port: MEMCACHED,
        server: "memcached",
        serve: &["-u", "nobody", "-l", SERVER, "-m", "64"],
        ask: "memcaslap --servers=ADDRESS:11211 --time=2s --threads=1 --concurrency=16",
        read: memcached,
        unit: "requests/s",
    },
    Application {
        name: "latency",
        port: SOCKPERF,
        server: "sockperf",
        serve: &["server", "-i", SERVER, "-p", "11111"],
        ask: "sockperf ping-pong -i ADDRESS -p 11111 -t 2",
        read: latency,
        unit: "us",
    },
];

/// What stands between the hosts.
const SIDES: [&str; 3] = ["firewall", "bridge", "bare"];

pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    peers::missing_of(PROGRAMS).map_err(BenchError::setup)?;
    progress(0.0, "hosts");
    let bridged = Bridged::filtered(ALLOWED)?;
    let bare = bare()?;
    progress(0.0, "the program, with a firewall between two TAP devices");
    let firewalled = Firewalled::start(ALLOWED)?;
    let mut results = Vec::new();
    for (n, application) in APPLICATIONS.iter().enumerate() {
        let sides = [&firewalled.hosts, &bridged.hosts, &bare];
        let mut progress = |part: f64, side: &str| {
            let what = format!("{}, {side}", application.name);
            progress((n as f64 + part) / APPLICATIONS.len() as f64, &what);
        };
        application.measure(sides, &mut progress, &mut results)?;
    }
    firewalled.end()?;
    let mut notes = Vec::new();
    if bridged.rules == Rules::Untracked {
        notes.push(
            "the kernel tracks no connections of a bridge (nf_conntrack_bridge is missing): its rules \
                    name ports both ways"
                .to_owned(),
        );
    }
    Ok((results, notes))
}

impl Application {
    fn measure(
        &self,
        sides: [&Hosts; 3],
        progress: &mut dyn FnMut(f64, &str),
        into: &mut Vec<Measurement>,
    ) -> Result<(), BenchError> {
        let mut servers = Vec::new();
        for hosts in sides {
            servers.push(Served::start(&hosts.server, self.server, self.serve, self.port)?);
        }
        let command = self.ask.replace("ADDRESS", SERVER);
        let mut found = [const { Vec::new() }; 3];
        // The first turn warms up and is not counted.
        for turn in 0..=RUNS {
            for (side, hosts) in sides.iter().enumerate() {
                progress((3 * turn + side) as f64 / (3 * RUNS + 3) as f64, SIDES[side]);
                servers[side].expect_running()?;
                let printed = hosts.client.run(&command, LIMIT).map_err(BenchError::setup)?.stdout;
                let value = (self.read)(&printed).ok_or_else(|| {
                    BenchError::Invalid(format!("`{command}` printed no figure: {printed}"))
                })?;
                if turn > 0 {
                    found[side].push(value);
                }
            }
        }
        let ratios: Vec<f64> = found[0].iter().zip(&found[1]).map(|(ours, theirs)| ours / theirs).collect();
        into.push(Measurement::new(&format!("{}-ratio", self.name), "x", &ratios));
        for (side, values) in SIDES.iter().zip(&found) {
            into.push(Measurement::new(&format!("{}-{side}", self.name), self.unit, values));
        }
        Ok(())
    }
}

/// Requests a second: the harmonic mean of what was asked, each as often.
fn redis(printed: &str) -> Option<f64> {
    let rates: Vec<f64> = ["\"SET\",\"", "\"GET\",\""]
        .iter()
        .map(|kind| printed.lines().find_map(|line| line.strip_prefix(kind)?.split('"').next()?.parse().ok()))
        .collect::<Option<_>>()?;
    Some(rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>())
}

/// What stands behind `TPS:`, if no answer was missing.
fn memcached(printed: &str) -> Option<f64> {
    printed.split("TPS: ").nth(1)?.split_whitespace().next()?.parse().ok()
}

/// The median, in microseconds.
fn latency(printed: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.contains("percentile 50.000 ="))?;
    line.rsplit('=').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_where_clients_print_them() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"20000.00\",\"1.793\"\n\"GET\",\"60000.00\",\"2\"\n";
        assert_eq!(redis(csv).map(f64::round), Some(30000.0));
        assert_eq!(redis("\"SET\",\"20000.00\"\n"), None);
        assert_eq!(memcached("Run time: 2.0s Ops: 64236 TPS: 32110 Net_rate: 35.9M/s\n"), Some(32110.0));
        let percentiles =
            "sockperf: ---> percentile 75.000 =    7.410\nsockperf: ---> percentile 50.000 =    7.375\n";
        assert_eq!(latency(percentiles), Some(7.375));
        assert!(latency("").is_none() && memcached("").is_none());
    }
}
