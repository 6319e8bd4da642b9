//! How long it takes until a function runs, and until it is gone, as a client sees it.

use super::{Daemon, spec, timed};
use crate::statistics::{median, percentile};
use crate::{BenchError, Measurement, RUNS};
use api::Kind;
use client::Change;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Functions of one run.
const FUNCTIONS: usize = 500;
/// Functions that are alive in the second measurement.
const ALIVE: usize = 10_000;
/// Bytes of the large image, and of what makes it large.
const LARGE: usize = 18 << 20;
/// Containers and processes of one run.
const OTHERS: usize = 15;

/// What creating and deleting took, by run.
#[derive(Default)]
struct Times {
    create: Vec<f64>,
    create_tail: Vec<f64>,
    delete: Vec<f64>,
    /// Without the way there and back.
    inside: Vec<f64>,
}

/// One run: functions come, and go again.
fn run_of(daemon: &Daemon, base: usize, times: &mut Times) -> Result<(), BenchError> {
    let (mut create, mut delete, mut nothing) = (vec![], vec![], vec![]);
    for n in base..base + FUNCTIONS {
        create.push(timed(|| daemon.put(Kind::Function, &format!("f{n}"), &spec(n)))?);
        nothing.push(timed(|| daemon.client.health().map_err(BenchError::setup))?);
    }
    for n in base..base + FUNCTIONS {
        let gone = || daemon.client.delete(Kind::Function, &format!("f{n}"), &Change::default());
        delete.push(timed(|| gone().map_err(BenchError::setup))?);
    }
    times.create.push(median(&create));
    times.create_tail.push(percentile(&create, 0.99));
    times.delete.push(median(&delete));
    times.inside.push(median(&create) - median(&nothing));
    Ok(())
}

/// Fills the daemon up to so many functions.
pub(crate) fn fill(daemon: &Daemon, from: usize, to: usize) -> Result<(), BenchError> {
    for n in from..to {
        daemon.put(Kind::Function, &format!("f{n}"), &spec(n))?;
    }
    Ok(())
}

fn both(progress: &mut dyn FnMut(f64, &str)) -> Result<(Times, Times, Daemon), BenchError> {
    let daemon = Daemon::start()?;
    daemon.halls(ALIVE + FUNCTIONS)?;
    let (mut few, mut many) = (Times::default(), Times::default());
    for run in 0..RUNS {
        progress(run as f64 / (3 * RUNS) as f64, "functions that come and go");
        run_of(&daemon, 0, &mut few)?;
    }
    progress(0.4, "ten thousand functions");
    fill(&daemon, 0, ALIVE)?;
    for run in 0..RUNS {
        progress((2 * RUNS + run) as f64 / (3 * RUNS) as f64, "functions beside ten thousand");
        run_of(&daemon, ALIVE, &mut many)?;
    }
    Ok((few, many, daemon))
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let us = |name: &str, times: &[f64]| Measurement::new(name, "us", times);
    let (few, many, daemon) = both(progress)?;
    drop(daemon);
    progress(0.9, "images of 2 KB and 18 MB");
    let sizes = sizes()?;
    progress(0.95, "containers and processes");
    let mut results = vec![
        us("api-p50-us", &few.create),
        us("api-p99-us", &few.create_tail),
        us("daemon-p50-us", &few.inside),
        us("api-p50-10000-us", &many.create),
    ];
    results.extend(others()?);
    results.push(Measurement::new("image-size-ratio", "x", &sizes));
    Ok(results)
}

pub(crate) fn delete(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let (few, many, _daemon) = both(progress)?;
    let ratio: Vec<f64> = many.delete.iter().zip(&few.delete).map(|(many, few)| many / few).collect();
    Ok(vec![
        Measurement::new("p50-us", "us", &few.delete),
        Measurement::new("p50-10000-us", "us", &many.delete),
        Measurement::new("10000-ratio", "x", &ratio),
    ])
}

/// A forwarder that has so many bytes beside, in a section that is never read.
fn padded(folder: &Path, name: &str, bytes: usize) -> Result<String, BenchError> {
    let small = crate::guests::stock("forwarder")?;
    let mut wasm = small.wasm().to_vec();
    if bytes > 0 {
        let noise: Vec<u8> =
            (0u32..).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).take(bytes).collect();
        wasm.extend(padding(&noise));
    }
    let path = folder.join(name);
    std::fs::write(&path, wasm).map_err(BenchError::setup)?;
    Ok(path.display().to_string())
}

/// A section of names with a part of an unknown kind.
fn padding(content: &[u8]) -> Vec<u8> {
    let leb = |mut value: usize| {
        let mut bytes = Vec::new();
        loop {
            let low = (value & 0x7f) as u8;
            value >>= 7;
            bytes.push(if value == 0 { low } else { low | 0x80 });
            if value == 0 {
                return bytes;
            }
        }
    };
    let part = [vec![100], leb(content.len()), content.to_vec()].concat();
    let body = [leb(4), b"name".to_vec(), part].concat();
    [vec![0], leb(body.len()), body].concat()
}

/// What creating takes with the large image, over what it takes with the small one, in turns.
fn sizes() -> Result<Vec<f64>, BenchError> {
    let daemon = Daemon::start()?;
    daemon.halls(1)?;
    let images = [padded(daemon.folder(), "small.wasm", 0)?, padded(daemon.folder(), "large.wasm", LARGE)?];
    let of = |image: &str| json!({"image": image, "attach": {"left": "hall0"}});
    for (n, image) in images.iter().enumerate() {
        daemon.put(Kind::Function, &format!("warm{n}"), &of(image))?;
    }
    let mut ratios = Vec::new();
    for _ in 0..RUNS {
        let mut times = [vec![], vec![]];
        for _ in 0..FUNCTIONS / 10 {
            for (image, times) in images.iter().zip(&mut times) {
                times.push(timed(|| daemon.put(Kind::Function, "f", &of(image)))?);
                daemon.client.delete(Kind::Function, "f", &Change::default()).map_err(BenchError::setup)?;
            }
        }
        ratios.push(median(&times[1]) / median(&times[0]));
    }
    Ok(ratios)
}

/// A container and a process that do nothing, over a function: so many of each, one kind after the other, in
/// each run.
fn others() -> Result<Vec<Measurement>, BenchError> {
    let daemon = Daemon::start()?;
    daemon.halls(FUNCTIONS)?;
    let bundle = daemon.folder().join("bundle");
    let runc = container(&bundle);
    let (mut containers, mut processes) = (vec![], vec![]);
    for run in 0..RUNS {
        let (mut function, mut container, mut process) = (vec![], vec![], vec![]);
        for n in 0..OTHERS {
            let name = format!("f{}", run * OTHERS + n);
            function.push(timed(|| daemon.put(Kind::Function, &name, &spec(0)))?);
        }
        for _ in 0..OTHERS {
            let began = Instant::now();
            let status = Command::new("/bin/true").status().map_err(BenchError::setup)?;
            process.push(began.elapsed().as_nanos() as f64 / 1e3);
            if !status.success() {
                return Err(BenchError::Invalid("/bin/true failed".to_owned()));
            }
        }
        for n in (0..OTHERS).filter(|_| runc.is_ok()) {
            let id = format!("superfluid-bench-{}-{run}-{n}", std::process::id());
            let mut command = Command::new("runc");
            command.arg("run").arg("--bundle").arg(&bundle).arg(&id).stdin(Stdio::null());
            let began = Instant::now();
            let output = command.output().map_err(BenchError::setup)?;
            container.push(began.elapsed().as_nanos() as f64 / 1e3);
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(BenchError::Setup(format!("runc: {text}")));
            }
        }
        let ours = median(&function);
        containers.push(median(&container) / ours);
        processes.push(median(&process) / ours);
    }
    Ok(vec![
        match runc {
            Ok(()) => Measurement::new("runc-ratio", "x", &containers),
            Err(_) => Measurement::missing("runc-ratio", "x", "not-measured"),
        },
        Measurement::new("fork-exec-ratio", "x", &processes),
    ])
}

/// A bundle for runc whose container runs `true`, with the libraries that it needs.
fn container(bundle: &Path) -> Result<(), BenchError> {
    let root = bundle.join("rootfs");
    std::fs::create_dir_all(&root).map_err(BenchError::setup)?;
    let spec = Command::new("runc").arg("spec").arg("--bundle").arg(bundle).output();
    if !spec.map_err(BenchError::setup)?.status.success() {
        return Err(BenchError::Setup("runc spec failed".to_owned()));
    }
    let path = bundle.join("config.json");
    let text = std::fs::read(&path).map_err(BenchError::setup)?;
    let mut config: serde_json::Value = serde_json::from_slice(&text).map_err(BenchError::setup)?;
    config["process"]["terminal"] = json!(false);
    config["process"]["args"] = json!(["/bin/true"]);
    std::fs::write(&path, config.to_string()).map_err(BenchError::setup)?;
    let needed = Command::new("ldd").arg("/bin/true").output().map_err(BenchError::setup)?;
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    let libraries = needed.split_whitespace().filter(|word| word.starts_with('/'));
    for file in ["/bin/true"].into_iter().chain(libraries) {
        let to = root.join(file.trim_start_matches('/'));
        let folder = to.parent().unwrap_or(&root);
        std::fs::create_dir_all(folder).map_err(BenchError::setup)?;
        std::fs::copy(file, &to).map_err(BenchError::setup)?;
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).map_err(BenchError::setup)?;
    }
    Ok(())
}
