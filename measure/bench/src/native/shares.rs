//! What containers and functions get of a processor that they share, of what they are promised.
//!
//! 1. Two containers beside one worker, of weights 70 and 30, whose processes spin without end while packets
//!    come to both: what the engine did for their packets, as it was charged, and what their processes used,
//!    as the kernel counts it for their control groups.
//! 2. Two functions that always have packets, beside a container of 100 spinning processes on their worker's
//!    processor.

use crate::daemon::Daemon;
use crate::daemon::containers::{BUSYBOX, Folder, Launcher, group, installed};
use crate::{BenchError, Measurement, RUNS};
use ::peers::Cores;
use api::FunctionStatus;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use telemetry::clock::{Clock, Cycles};
use testbed::Namespace;

/// How long shares are measured for each figure.
const WINDOW: Duration = Duration::from_secs(2);
/// How long limits have to settle before.
const SETTLE: Duration = Duration::from_secs(4);
/// Longest time until containers run and their interfaces are open.
const START: Duration = Duration::from_secs(90);
/// What comes to the two containers.
const RATES: [(&str, &str); 2] = [("seventy", "60kpps"), ("thirty", "20kpps")];
const SPINNING: u32 = 100;

/// What is said where it cannot be measured.
pub(super) fn missing() -> Vec<Measurement> {
    vec![
        Measurement::missing("share-error", "%", "not-measured"),
        Measurement::missing("neighbour-percent", "%", "not-measured"),
    ]
}

/// A daemon with one worker, and a launcher.
struct Rig {
    daemon: Daemon,
    // It ends containers, which the daemon would start again, and its folder is needed for that.
    _launcher: Launcher,
    folder: Folder,
    clock: Clock,
}

/// What something has used, in seconds of a processor.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    engine: f64,
    processes: f64,
}

impl Rig {
    fn start(namespace: &Namespace, worker: usize) -> Result<Rig, BenchError> {
        let program = crate::product::superfluid()?;
        let folder =
            Folder::make(&[(BUSYBOX.into(), "bin/sleep".into()), (BUSYBOX.into(), "bin/sh".into())])?;
        let launcher = namespace.enter(|| Launcher::start(&program, folder.path()))?;
        let socket = folder.path().join("launcher.sock").display().to_string();
        let arguments = || Ok((vec!["--launcher".to_owned(), socket], None));
        let mut daemon = namespace.enter(|| Daemon::start_with(|_| arguments()))?;
        let clock = Clock::calibrate();
        // Its workers are made when it starts.
        daemon.apply(&json!({"superfluid": 1, "workers": {"processors": [worker]}}))?;
        namespace.enter(|| daemon.restart())?;
        Ok(Rig { daemon, _launcher: launcher, folder, clock })
    }

    /// A container beside the worker, with so many processes that spin.
    fn spinning(&self, weight: u32, processes: u32, wired: bool) -> Value {
        let line =
            format!("i=0; while [ $i -lt {processes} ]; do (while :; do :; done) & i=$((i+1)); done; wait");
        let mut spec = json!({
            "guest": "container", "image": self.folder.path().join("image"), "command": ["/bin/sh", "-c", line],
            "memory": "256MiB", "processes": processes + 16, "cpu": {"weight": weight}, "worker": 0,
        });
        if wired {
            spec["interfaces"] = json!({"in": {}});
        }
        spec
    }

    fn running(&self, names: &[&str]) -> Result<(), BenchError> {
        let began = Instant::now();
        for name in names {
            loop {
                let status = self.daemon.status(name)?;
                if status.state == api::FunctionState::Running && status.promised_share > 0.0 {
                    break;
                }
                if began.elapsed() > START {
                    return Err(BenchError::Setup(format!("`{name}` does not run: {:?}", status.reason)));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }

    fn seconds(&self, cycles: u64) -> f64 {
        self.clock.span(Cycles(cycles)).as_secs_f64()
    }

    /// Of a container: what it was charged, and what the kernel counts.
    fn container(&self, name: &str) -> Result<(Used, FunctionStatus), BenchError> {
        let status = self.daemon.status(name)?;
        let engine = status.processor.map_or(0, |processor| processor.engine_cycles);
        let processes = processor_time(&format!("{}-beside/{name}", group(self.folder.path())))?;
        Ok((Used { engine: self.seconds(engine), processes }, status))
    }
}

/// Seconds of a processor that a control group has used.
fn processor_time(group: &str) -> Result<f64, BenchError> {
    let root = Path::new("/sys/fs/cgroup");
    let read = |path: PathBuf| std::fs::read_to_string(path).ok();
    for hierarchy in ["cpuacct", "cpu,cpuacct"] {
        if let Some(text) = read(root.join(hierarchy).join(group).join("cpuacct.usage")) {
            return text.trim().parse::<f64>().map(|nanos| nanos / 1e9).map_err(BenchError::setup);
        }
    }
    let stat = read(root.join(group).join("cpu.stat")).unwrap_or_default();
    let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse::<f64>().ok());
    let none = || BenchError::Setup(format!("no control group {group} counts processor time"));
    usage.map(|micros| micros / 1e6).ok_or_else(none)
}

pub(super) fn run(
    cores: Cores,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    installed()?;
    let namespace = Namespace::new().map_err(BenchError::setup)?;
    let mut notes = Vec::new();
    let errors = seventy_and_thirty(&namespace, cores, progress, &mut notes)?;
    let neighbours = beside_spinning(&namespace, cores, progress, &mut notes)?;
    let results = vec![
        Measurement::new("share-error", "%", &errors),
        Measurement::new("neighbour-percent", "%", &neighbours),
    ];
    Ok((results, notes))
}

/// By how much the worse of two containers misses what it is promised, in percent of the processor.
fn seventy_and_thirty(
    namespace: &Namespace,
    cores: Cores,
    progress: &mut dyn FnMut(f64, &str),
    notes: &mut Vec<String>,
) -> Result<Vec<f64>, BenchError> {
    let rig = Rig::start(namespace, cores.device)?;
    let mut functions = serde_json::Map::new();
    let (mut ports, mut chains) = (serde_json::Map::new(), serde_json::Map::new());
    for ((name, rate), weight) in RATES.into_iter().zip([70, 30]) {
        functions.insert(name.to_owned(), rig.spinning(weight, 2, true));
        ports.insert(format!("to-{name}"), json!({"type": "generator", "flows": 16, "rate": rate}));
        chains.insert(name.to_owned(), json!([format!("to-{name}"), name]));
    }
    let document = json!({
        "superfluid": 1, "workers": {"processors": [cores.device]}, "functions": functions, "ports": ports, "chains": chains,
    });
    rig.daemon.apply(&document)?;
    rig.running(&RATES.map(|(name, _)| name))?;
    let mut errors = Vec::new();
    let mut sums = [Used::default(); 2];
    for run in 0..RUNS {
        progress(run as f64 / RUNS as f64, "two containers of 70 and 30");
        let read = || -> Result<Vec<(Used, FunctionStatus)>, BenchError> {
            RATES.iter().map(|(name, _)| rig.container(name)).collect()
        };
        let (before, began) = (read()?, Instant::now());
        std::thread::sleep(WINDOW);
        let (after, passed) = (read()?, began.elapsed().as_secs_f64());
        let mut worst: f64 = 0.0;
        for (n, (now, then)) in after.iter().zip(&before).enumerate() {
            let engine = (now.0.engine - then.0.engine) / passed;
            let processes = (now.0.processes - then.0.processes) / passed;
            sums[n].engine += engine / RUNS as f64;
            sums[n].processes += processes / RUNS as f64;
            worst = worst.max((engine + processes - now.1.promised_share).abs());
        }
        errors.push(100.0 * worst);
    }
    for ((name, rate), Used { engine, processes }) in RATES.iter().zip(sums) {
        notes.push(format!(
            "{name}: {:.1}% for packets ({rate}), {:.1}% by its processes, together {:.1}%",
            100.0 * engine,
            100.0 * processes,
            100.0 * (engine + processes)
        ));
    }
    Ok(errors)
}

/// What the worse of two functions gets beside a hundred processes that spin, in percent of what it is
/// promised.
fn beside_spinning(
    namespace: &Namespace,
    cores: Cores,
    progress: &mut dyn FnMut(f64, &str),
    notes: &mut Vec<String>,
) -> Result<Vec<f64>, BenchError> {
    let rig = Rig::start(namespace, cores.device)?;
    let document = json!({
        "superfluid": 1,
        "workers": {"processors": [cores.device]},
        "ports": {
            "a": {"type": "generator", "flows": 1000}, "b": {"type": "generator", "flows": 1000},
            "end-a": {"type": "sink"}, "end-b": {"type": "sink"},
        },
        "functions": {
            "one": {"image": "forwarder"}, "other": {"image": "forwarder"},
            "hog": rig.spinning(100, SPINNING, false),
        },
        "chains": {"one": ["a", "one", "end-a"], "other": ["b", "other", "end-b"]},
    });
    rig.daemon.apply(&document)?;
    rig.running(&["hog"])?;
    let (mut percents, mut of_hog, mut promised) = (Vec::new(), 0.0, 0.0);
    for run in 0..RUNS {
        progress(run as f64 / RUNS as f64, "functions beside a hundred spinning processes");
        let read = || -> Result<Vec<FunctionStatus>, BenchError> {
            ["one", "other"].iter().map(|name| rig.daemon.status(name)).collect()
        };
        let (before, hog, began) = (read()?, rig.container("hog")?, Instant::now());
        std::thread::sleep(WINDOW);
        let (after, later, passed) = (read()?, rig.container("hog")?, began.elapsed().as_secs_f64());
        let percent = after
            .iter()
            .zip(&before)
            .map(|(now, then)| 100.0 * rig.seconds(now.cycles - then.cycles) / passed / now.promised_share);
        percents.push(percent.fold(f64::INFINITY, f64::min));
        of_hog += 100.0 * (later.0.processes - hog.0.processes) / passed / RUNS as f64;
        promised = 100.0 * later.1.promised_share;
    }
    notes.push(format!(
        "the {SPINNING} spinning processes got {of_hog:.1}% of the processor, of {promised:.1}% promised"
    ));
    Ok(percents)
}
