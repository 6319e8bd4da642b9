//! Runs a function's own test on images.

use crate::run::Limit;
use crate::{ImageTest, compare, cost, run};
use guest_wasm::{Program, Sandbox, SandboxError};
use image::cut::{MOST_COST, Trial};
use image::{Digest, Image};
use nf_abi::Verdict;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often a cost that is too high is measured again: noise makes a packet dearer, never cheaper.
const ATTEMPTS: usize = 4;

/// Longest time that all cases may take, with one image.
const LONGEST: Duration = Duration::from_secs(30);

/// What an image did in a case, for those who compare it with something that is no image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The case's name.
    pub name: String,
    /// The configuration, as the function reads it.
    pub config: Vec<u8>,
    /// How long the case lasts, in nanoseconds.
    pub length: u64,
    /// Whether the function is told of devices.
    pub has_devices: bool,
    /// The packets that it was shown, in order.
    pub packets: Vec<RanPacket>,
    /// Packets that it made or gave up: their verdict, and their bytes.
    pub emitted: Vec<(Option<Verdict>, Vec<u8>)>,
    /// Its counters at the end.
    pub counters: Vec<u64>,
}

/// A packet that an image was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RanPacket {
    /// The interface that it came in by.
    pub ingress: u16,
    /// Its mark.
    pub mark: u64,
    /// Its bytes before.
    pub bytes: Vec<u8>,
    /// What was decided; `None`: nothing that the function may decide.
    pub verdict: Option<Verdict>,
    /// Its bytes after that.
    pub became: Vec<u8>,
}

/// Judges images of one function by its own test.
pub struct Judge {
    sandbox: Sandbox,
    test: ImageTest,
    programs: BTreeMap<Digest, Arc<Program>>,
    pub(crate) longest: Duration,
}

impl Judge {
    /// Prepares a sandbox.
    ///
    /// # Errors
    /// [`SandboxError`] when this processor lacks what compiled code needs.
    pub fn new(test: ImageTest) -> Result<Judge, SandboxError> {
        Ok(Judge { sandbox: Sandbox::new()?, test, programs: BTreeMap::new(), longest: LONGEST })
    }

    /// The test.
    pub fn test(&self) -> &ImageTest {
        &self.test
    }

    /// What an image does in each case.
    ///
    /// # Errors
    /// Why there is no outcome: it does not start, it trapped.
    pub fn runs(&mut self, image: &Image) -> Result<Vec<Ran>, String> {
        let program = self.program(image)?;
        let limit = Limit::new(self.longest);
        let run = |case: &crate::Case| {
            let outcome = run::run(case, &program, &self.sandbox, limit)?;
            let shown = case.packets.iter().flat_map(|shown| std::iter::repeat_n(shown, shown.times));
            let packets = shown.zip(outcome.packets).map(|(shown, seen)| RanPacket {
                ingress: shown.ingress,
                mark: shown.mark,
                bytes: shown.bytes.clone(),
                verdict: Verdict::decode(seen.verdict),
                became: seen.bytes,
            });
            let emitted = outcome.emitted.into_iter();
            Ok(Ran {
                name: case.name.clone(),
                config: case.config.clone(),
                length: case.packets.last().map_or(0, |last| last.at),
                has_devices: !case.devices.is_empty(),
                packets: packets.collect(),
                emitted: emitted.map(|seen| (Verdict::decode(seen.verdict), seen.bytes)).collect(),
                counters: outcome.counters,
            })
        };
        self.test.cases.iter().map(run).collect()
    }

    fn program(&mut self, image: &Image) -> Result<Arc<Program>, String> {
        if let Some(program) = self.programs.get(&image.digest()) {
            return Ok(program.clone());
        }
        let program = self.sandbox.compile(image.wasm(), image.into()).map_err(|error| error.to_string())?;
        self.programs.insert(image.digest(), program.clone());
        Ok(program)
    }
}

impl Trial for Judge {
    fn passes(&mut self, image: &Image) -> Result<(), String> {
        let program = self.program(image)?;
        let limit = Limit::new(self.longest);
        self.test.cases.iter().try_for_each(|case| {
            let outcome = run::run(case, &program, &self.sandbox, limit)?;
            compare::wanted(case, &outcome, image.manifest())
        })
    }

    fn same(&mut self, built: &Image, cut: &Image) -> Result<(), String> {
        let (built, cut) = (self.program(built)?, self.program(cut)?);
        let limit = Limit::new(2 * self.longest);
        self.test.cases.iter().try_for_each(|case| {
            let before = run::run(case, &built, &self.sandbox, limit)?;
            compare::same(case, &before, &run::run(case, &cut, &self.sandbox, limit)?)
        })
    }

    fn cost(&mut self, built: &Image, cut: &Image) -> Result<f64, String> {
        let (built, cut) = (self.program(built)?, self.program(cut)?);
        let mut least = f64::INFINITY;
        for _ in 0..ATTEMPTS {
            least = least.min(cost::ratio(&self.test, &built, &cut, &self.sandbox)?);
            if least <= MOST_COST {
                break;
            }
        }
        Ok(least)
    }
}
