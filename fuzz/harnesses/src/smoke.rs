//! Replays seeds and mutates them, within a bound of time: finds what needs no guidance by coverage.
//!
//! 1. [`seeds`] reads a harness's seeds.
//! 2. [`smoke`] replays each, and then runs mutations of them until its time is over. The same seed of the
//!    generator gives the same mutations in the same order.
//! 3. A panic ends it with the [`Finding`]: the input, to be kept as a seed.
//!
//! Limits: an abort, as of a stack that overflows, ends the process without a finding; an input that takes
//! for ever is told by who calls, which knows what runs from [`Progress`].

use crate::Harness;
use crate::mutate::mutate;
use fastrand::Rng;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest input that is made by mutation, in bytes; longer seeds stay as long as they are.
pub const LONGEST: usize = 4096;

/// An input on which a harness panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The harness.
    pub name: &'static str,
    /// The input.
    pub input: Vec<u8>,
}

/// What runs at the moment, and since when.
#[derive(Debug, Default)]
pub struct Progress(Mutex<Option<(Instant, Finding)>>);

impl Progress {
    fn set(&self, running: Option<Finding>) {
        let mut slot = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *slot = running.map(|finding| (Instant::now(), finding));
    }

    /// The input that has been running for longer than this.
    pub fn stuck(&self, longer: Duration) -> Option<Finding> {
        let slot = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slot.as_ref().filter(|(since, _)| since.elapsed() > longer).map(|(_, finding)| finding.clone())
    }
}

/// The seeds of a harness, in the order of their names.
///
/// # Errors
/// What the file system says, with the path.
pub fn seeds(folder: &Path, harness: &Harness) -> io::Result<Vec<Vec<u8>>> {
    let folder = folder.join(harness.name);
    let told =
        |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(|error| told(&folder, error))?;
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).map_err(|error| told(path, error))).collect()
}

/// Replays `seeds` and runs mutations of them for as long as `goes_on`, which is told how many inputs were
/// run, says so. Returns how many.
///
/// # Errors
/// The first input on which the harness panicked.
pub fn smoke(
    harness: &Harness,
    seeds: &[Vec<u8>],
    seed: u64,
    progress: &Progress,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Result<u64, Finding> {
    let run = |input: &[u8]| {
        let finding = || Finding { name: harness.name, input: input.to_vec() };
        progress.set(Some(finding()));
        let outcome = catch_unwind(AssertUnwindSafe(|| (harness.run)(input)));
        progress.set(None);
        outcome.map_err(|_| finding())
    };
    let mut count = 0;
    for input in seeds {
        run(input)?;
        count += 1;
    }
    let mut rng = Rng::with_seed(seed);
    let longest = seeds.iter().map(Vec::len).max().unwrap_or(0).max(LONGEST);
    let pick = |rng: &mut Rng| if seeds.is_empty() { &[][..] } else { &seeds[rng.usize(0..seeds.len())][..] };
    while goes_on(count) {
        let mut input = pick(&mut rng).to_vec();
        let other = pick(&mut rng);
        mutate(&mut rng, &mut input, other, longest);
        run(&input)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HARNESSES;

    const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

    fn fails(data: &[u8]) {
        assert!(!data.windows(2).any(|pair| pair == [0xff, 0xff]), "two of them");
    }

    const FAILING: Harness = Harness { name: "fails", run: fails };

    #[test]
    fn a_claim_that_does_not_hold_is_found_the_same_way_each_time() {
        let seeds = [vec![1, 2, 3, 4, 5, 6, 7, 8], vec![0; 64]];
        let find = || smoke(&FAILING, &seeds, 7, &Progress::default(), |count| count < 100_000);
        let found = find().expect_err("two neighbours become 0xff before long");
        assert!(found.input.windows(2).any(|pair| pair == [0xff, 0xff]));
        assert_eq!(find(), Err(found));
        let kept = [vec![0xff, 0xff]];
        let replayed = smoke(&FAILING, &kept, 7, &Progress::default(), |_| false);
        assert_eq!(replayed, Err(Finding { name: "fails", input: vec![0xff, 0xff] }), "a seed is replayed");
    }

    #[test]
    fn what_is_made_is_no_longer_than_allowed_and_differs() {
        let seen = Mutex::new(std::collections::BTreeSet::new());
        let mut rng = Rng::with_seed(1);
        for _ in 0..10_000 {
            let mut input = vec![9; 100];
            mutate(&mut rng, &mut input, &[1, 2, 3], 128);
            assert!(input.len() <= 128);
            seen.lock().expect("one thread").insert(input);
        }
        assert!(seen.into_inner().expect("one thread").len() > 5_000);
    }

    /// One list in four places: the harnesses, the seeds, the targets for libFuzzer, and their files.
    #[test]
    fn every_harness_has_seeds_and_a_target() {
        let manifest = std::fs::read_to_string(format!("{FUZZ}/Cargo.toml")).expect("the targets");
        let mut targets: Vec<&str> = manifest
            .lines()
            .skip_while(|line| *line != "[[bin]]")
            .filter_map(|l| l.strip_prefix("name = "))
            .collect();
        targets.sort_unstable();
        let names: Vec<String> = HARNESSES.iter().map(|harness| format!("\"{}\"", harness.name)).collect();
        assert_eq!(targets, names);
        let mut bytes = 0;
        for harness in HARNESSES {
            let target = std::fs::read_to_string(format!("{FUZZ}/fuzz_targets/{}.rs", harness.name))
                .expect("its file");
            assert!(target.contains(&format!("harnesses::run(\"{}\", data)", harness.name)), "{target}");
            let seeds = seeds(&Path::new(FUZZ).join("seeds"), harness).expect("seeds");
            assert!(!seeds.is_empty(), "{} has none", harness.name);
            bytes += seeds.iter().map(Vec::len).sum::<usize>();
        }
        let folders = std::fs::read_dir(format!("{FUZZ}/seeds")).expect("the seeds").count();
        assert_eq!(folders, HARNESSES.len(), "a folder of seeds that no harness has");
        assert!(bytes < 1 << 20, "{bytes} bytes of seeds; a clone is to stay small");
    }
}
