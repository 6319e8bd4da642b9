//! Accounts to write.

use engine::{
    Account, DeviceAccount, InstanceAccount, PortAccount, PortDevicesAccount, SwitchAccount, WorkerTime,
};
use metrics::{Daemon, Function, Host, Notation};
use port::{PortCounters, PortStatus};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use telemetry::clock::{Clock, Cycles, Moment, Nanos};
use telemetry::histogram::{Histogram, Recorder};
use telemetry::{DropCounters, DropReason, Latencies, Ledger};
use virtual_device::{DeviceCounters, PortDevicesCounters};
use virtual_switch::SwitchCounters;

/// Names that a notation could trip over.
pub const HOSTILE: [&str; 12] = [
    "plain",
    "\"",
    "\\",
    "\\\"} 1",
    "a\nb",
    "\\n",
    "end\\",
    "},{=\"",
    "\t\r\0\u{1}\u{7f}",
    "\u{e9}\u{1f980}\u{2028}\u{202e}",
    " leading and trailing ",
    "# EOF\n# TYPE x counter",
];

pub static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::calibrate);

pub fn ledger(seed: u64) -> Ledger {
    let mut ledger = Ledger {
        received: seed,
        generated: seed + 1,
        copied: seed + 2,
        split: seed + 3,
        delivered: seed + 4,
        consumed: seed + 5,
        merged: seed + 6,
        ..Ledger::default()
    };
    for (n, reason) in (0..).zip(DropReason::ALL).filter(|(n, _)| seed.is_multiple_of(n + 1)) {
        ledger.dropped[*reason] = seed + n;
    }
    ledger
}

/// One whose numbers all follow from `seed`, and are not 0 unless that is.
pub fn function(name: &str, seed: u64) -> InstanceAccount {
    let own = |what: u64| HOSTILE.map(|name| (name.to_owned(), seed * what)).to_vec();
    InstanceAccount {
        name: name.to_owned(),
        ledger: ledger(seed),
        packets: seed * 3,
        bytes: seed * 5,
        calls: seed * 7,
        faults: seed * 11,
        restarts: seed * 13,
        missed: seed * 17,
        cycles: Cycles(seed * 19_000_000),
        promised: seed as f64 / 1000.0,
        throttled: Cycles(seed * 23_000_000),
        overruns: seed * 29,
        suspensions: seed * 31,
        memory_place: 0,
        frozen: false,
        memory: seed * 53,
        paused: seed.is_multiple_of(2),
        worker: (seed % 2) as u16,
        queue: seed * 37,
        in_flight: seed * 41,
        down: seed.is_multiple_of(3).then(|| "trapped".to_owned()),
        own_drops: own(43),
        counters: own(47),
        latencies: latencies(seed),
        report: None,
    }
}

/// Some, and none of the first.
fn latencies(seed: u64) -> Latencies {
    let mut counted = Latencies::default();
    counted.record(300, seed);
    counted.record(2_000_000_000, seed);
    counted
}

pub fn account(instances: Vec<InstanceAccount>) -> Account {
    let port = |(n, name): (u64, &&str)| PortAccount {
        name: (*name).to_owned(),
        status: match n % 3 {
            0 => PortStatus::Up,
            1 => PortStatus::Down("gone".to_owned()),
            _ => PortStatus::Finished,
        },
        counters: PortCounters {
            ledger: ledger(n),
            received_bytes: n * 3,
            delivered_bytes: n * 5,
            kernel_lost: n * 7,
        },
        in_flight: n * 11,
        details: vec![("checked", n), ("kicks", n * 13)],
        latencies: latencies(n),
    };
    let switch = |(n, name): (u64, &&str)| SwitchAccount {
        name: (*name).to_owned(),
        ports: n as usize,
        counters: SwitchCounters { learned: n + 3, aged: 1, flooded: n, no_source: n, ..Default::default() },
    };
    let device = |(n, name): (u64, &&str)| DeviceAccount {
        name: (*name).to_owned(),
        counters: DeviceCounters {
            from_ports: n,
            bytes_from_ports: n * 60,
            from_openers: n + 1,
            unreceived: n * 2,
            ..Default::default()
        },
        openers: n as usize + 2,
    };
    let at_port = |(n, name): (u64, &&str)| PortDevicesAccount {
        name: (*name).to_owned(),
        counters: PortDevicesCounters { received: n, unwanted: n + 5, ..Default::default() },
    };
    let worker = |n| WorkerTime { overhead: Cycles(n), asleep: Cycles(n << 32), ..WorkerTime::default() };
    Account {
        at_one_moment: true,
        at: Moment { cycles: Cycles(0), nanos: Nanos(1_700_000_000_123_456_789) },
        ledger: Ledger { received: 9, delivered: 4, ..Ledger::default() },
        in_flight: 5,
        ports: (0..).zip(&HOSTILE).map(port).collect(),
        instances,
        switches: (0..).zip(&HOSTILE).map(switch).collect(),
        devices: (0..).zip(&HOSTILE).map(device).collect(),
        port_devices: (0..).zip(&HOSTILE).map(at_port).collect(),
        workers: (1..=2).map(worker).collect(),
        pools: HOSTILE.map(|name| (name.to_owned(), 3, 4)).to_vec(),
    }
}

/// Two functions of which it is measured how long their calls take.
pub fn hostile_account() -> Account {
    account((0..).zip(HOSTILE).map(|(seed, name)| function(name, seed)).collect())
}

pub fn histogram() -> Histogram {
    let mut recorder = Recorder::new();
    [1, 128, 129, 1 << 20, 1 << 30, 1 << 31, 1 << 50].iter().for_each(|value| recorder.record(*value));
    recorder.histogram()
}

/// The name of a container.
pub fn guest(name: &str) -> String {
    format!("guest {name}")
}

/// The whole text, as the daemon answers it.
pub fn text<'a>(account: &Account, notation: Notation, of: &dyn Fn(&str) -> Function<'a>) -> String {
    let functions: Vec<_> = account.instances.iter().map(|function| of(&function.name)).collect();
    let background = metrics::TenantBackground { name: "t\"1", used: Nanos(1_500_000_000), waiting: 3 };
    let tenant = metrics::TenantMemory { name: "t\"1", promised: 2 << 20, reserve: 0, limit: Some(4 << 20) };
    let containers = HOSTILE.map(|name| metrics::Container {
        name: guest(name),
        tenant: "t\"1".to_owned(),
        up: true,
        starting: false,
        faults: 2,
        restarts: 1,
        used: Nanos(2_500_000_000),
        engine: Nanos(500_000_000),
        promised: 0.25,
        memory: 3 << 20,
        image: "web\"\n".to_owned(),
        digest: "sha256:11".to_owned(),
        events: (9, 8),
        worker: Some(1),
        packets: 40,
        bytes: 4000,
        queue: 2,
        dropped: {
            let mut dropped = DropCounters::default();
            dropped[DropReason::PortFull] = 6;
            dropped
        },
        missed: 7,
        latencies: {
            let mut latencies = Latencies::default();
            latencies.record(200, 40);
            latencies
        },
    });
    let stations = HOSTILE.map(|name| metrics::Station {
        device: name.to_owned(),
        received: 9,
        ignored: 4,
        sent: 5,
        dropped: vec![("malformed", 1), ("missed", 0)],
        neighbours: 2,
    });
    let mut text = String::new();
    Host {
        account,
        clock: *CLOCK,
        busy: &[Cycles(1 << 33), Cycles(1 << 34)],
        version: "1.2.3 \"x\"",
        started: Nanos(1_600_000_000_000_000_000),
        functions: &functions,
        containers: &containers,
        memory: metrics::Memory { tenants: &[tenant], promised: 3 << 20, limit: Some(1 << 30) },
        background: &[background],
        stations: &stations,
    }
    .write(notation, &mut text);
    let requests = BTreeMap::from([(200, 5), (404, 1)]);
    Daemon {
        requests: &requests,
        page_refusals: [4, 5, 6],
        refused_connections: 1,
        lost_audit_lines: 2,
        spans: [7, 8, 9],
        connections: 2,
        operations: 3,
        page_sessions: 4,
        revision: 1 << 52,
    }
    .write(notation, &mut text);
    text.push_str(notation.end());
    text
}
