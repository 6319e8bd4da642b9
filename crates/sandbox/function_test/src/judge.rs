//! Runs a function's own test on images.

use crate::run::Limit;
use crate::{ImageTest, compare, cost, run};
use guest_wasm::{Program, Sandbox, SandboxError};
use image::cut::{MOST_COST, Trial};
use image::{Digest, Image};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often a cost that is too high is measured again: noise makes a packet dearer, never cheaper.
const ATTEMPTS: usize = 4;

/// Longest time that all cases may take, with one image.
const LONGEST: Duration = Duration::from_secs(30);

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
