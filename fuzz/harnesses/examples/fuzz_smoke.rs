//! Replays the seeds of every harness and mutates them for a bounded time.
//!
//! `fuzz_smoke [SECONDS [SEED [TARGET...]]]`: SECONDS for all of them together (100), SEED of the mutations
//! (1). An input that fails is written to `fuzz/artifacts/TARGET`, and the exit status is 1.

use harnesses::smoke::{Finding, Progress, seeds, smoke};
use harnesses::{HARNESSES, Harness};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// No input takes a thousandth of it on a machine that does nothing else.
const STUCK: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz_smoke: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all claims held.
fn run() -> Result<bool, String> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |what: &str, usual: u64| match arguments.next() {
        Some(text) => text.parse().map_err(|_| format!("{what}: found `{text}`; allowed: a whole number")),
        None => Ok(usual),
    };
    let (seconds, seed) = (number("SECONDS", 100)?, number("SEED", 1)?);
    let names: Vec<String> = arguments.collect();
    let chosen: Vec<&Harness> = HARNESSES
        .iter()
        .filter(|harness| names.is_empty() || names.iter().any(|name| name == harness.name))
        .collect();
    if let Some(name) = names.iter().find(|name| chosen.iter().all(|harness| harness.name != **name)) {
        return Err(format!("there is no target `{name}`; `fuzz/seeds` has a folder for each"));
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(chosen.len());
    let share = Duration::from_secs(seconds) * threads as u32 / chosen.len() as u32;
    let (next, progress) = (AtomicUsize::new(0), Vec::from_iter((0..threads).map(|_| Progress::default())));
    let outcomes = std::thread::scope(|scope| {
        let (chosen, next) = (&chosen, &next);
        let spawn = |progress| scope.spawn(move || work(chosen, next, share, seed, progress));
        let workers = Vec::from_iter(progress.iter().map(spawn));
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            if let Some(stuck) = progress.iter().find_map(|progress| progress.stuck(STUCK)) {
                eprintln!("{}: ran for more than {} s on {}", stuck.name, STUCK.as_secs(), kept(&stuck));
                std::process::exit(1);
            }
        }
        workers.into_iter().map(|worker| worker.join().unwrap_or(Ok(false))).collect::<Vec<_>>()
    });
    outcomes.into_iter().try_fold(true, |all, held| Ok(all & held?))
}

/// Runs the next harness until there is none; whether all claims held.
fn work(
    chosen: &[&Harness],
    next: &AtomicUsize,
    share: Duration,
    seed: u64,
    progress: &Progress,
) -> Result<bool, String> {
    let mut held = true;
    while let Some(harness) = chosen.get(next.fetch_add(1, Relaxed)) {
        let seeds = seeds(&Path::new(FUZZ).join("seeds"), harness).map_err(|error| error.to_string())?;
        let until = Instant::now() + share;
        match smoke(harness, &seeds, seed, progress, |_| Instant::now() < until) {
            Ok(count) => println!("{}: {} seeds, {count} inputs", harness.name, seeds.len()),
            Err(finding) => {
                eprintln!("{}: failed on {}", finding.name, kept(&finding));
                held = false;
            }
        }
    }
    Ok(held)
}

/// Writes an input where it can be looked at, and says where.
fn kept(finding: &Finding) -> String {
    let folder = Path::new(FUZZ).join("artifacts").join(finding.name);
    let digest = finding
        .input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let path = folder.join(format!("smoke-{digest:016x}"));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, &finding.input));
    match written {
        Ok(()) => format!(
            "{}, which goes into fuzz/seeds/{} with the change that mends it",
            path.display(),
            finding.name
        ),
        Err(error) => {
            format!("an input that could not be written ({}: {error}): {:?}", path.display(), finding.input)
        }
    }
}
