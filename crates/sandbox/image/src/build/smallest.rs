//! Builds the smallest image that passes the function's own test.

use super::tool::Tool;
use super::{BuildError, BuildOptions, BuildReport, Compiled, Optimization, Source, report};
use crate::cut::{Decision, Goal, MOST_COST, Pass, Step, Trial, sections};
use crate::limits::PAGE_BYTES;
use crate::{Image, Names};
use manifest::Language;
use std::ffi::OsStr;
use std::process::Command;

const NO_TEST: &str = "the function has no test";

const WASM_OPT: Tool = Tool { name: "wasm-opt", install: "apt-get install --no-install-recommends binaryen" };

/// What wasm-opt may read and write: what the rewriting pass takes.
const WASM_OPT_FLAGS: [&str; 9] = [
    "-Os",
    "--mvp-features",
    "--enable-simd",
    "--enable-relaxed-simd",
    "--enable-sign-ext",
    "--enable-nontrapping-float-to-int",
    "--enable-bulk-memory",
    "--enable-mutable-globals",
    "--enable-multivalue",
];

/// An image that was cut as far as its test allows.
#[derive(Clone, Debug)]
pub struct Smallest {
    /// The image.
    pub image: Image,
    /// How it was built; sizes and digest are those of the image as it is now.
    pub report: BuildReport,
    /// Each cut, in the order in which they were tried.
    pub steps: Vec<Step>,
}

/// Builds the image of the function in this folder, and cuts it step by step. A cut stays when the image is
/// smaller, passes the function's own test, does with the test's packets exactly what the image as it was
/// built does, and, for [`Goal::Speed`], when packets cost no more than [`MOST_COST`] of what they did.
///
/// Without a trial nothing is cut that could matter: what code can notice stays as the compiler made it.
///
/// # Errors
/// As [`super::build_directory`]; also when the image as it was built does not pass its test.
pub fn build_smallest(
    directory: &std::path::Path,
    options: &BuildOptions,
    goal: Goal,
    mut trial: Option<&mut dyn Trial>,
) -> Result<Smallest, BuildError> {
    let source = Source::open(directory, options)?;
    let compiled = source.compile(Optimization::Speed)?;
    let (built, lowered) = source.assemble(&compiled.module, options.names)?;
    if let Some(trial) = &mut trial {
        trial.passes(&built).map_err(|why| BuildError::Test { path: directory.to_owned(), why })?;
    }
    let mut steps = Vec::new();
    rewriting(&compiled, &built, options.names, &mut steps);
    let mut cutter = Cutter { built: built.clone(), best: built, goal, trial, passes: Vec::new(), steps };
    for pass in Pass::ALL {
        cutter.pass(pass);
    }
    let module = cutter.other_flags(&source, options.names, &compiled);
    cutter.wasm_opt(&source, options.names, module.as_ref().unwrap_or(&compiled));
    cutter.memory();
    let Cutter { best: image, steps, .. } = cutter;
    let report = report(&image, lowered, compiled);
    Ok(Smallest { image, report, steps })
}

/// What the rewriting pass has made of the compiler's output, whatever else is done.
fn rewriting(compiled: &Compiled, built: &Image, names: Names, steps: &mut Vec<Step>) {
    let found = sections(&compiled.module);
    let manifest = sections(built.wasm()).others;
    let mut size = compiled.module.len() + manifest;
    let mut without = |name, what, bytes: usize, asked: bool| {
        let decision = match bytes {
            0 => Decision::Nothing,
            _ if asked => Decision::NotTried { why: "--names keeps them".into() },
            _ => Decision::Kept { cost: None },
        };
        let after = if matches!(decision, Decision::Kept { .. }) { size - bytes } else { size };
        steps.push(Step { name, what, before: size, after, decision });
        size = after;
    };
    without("names", "what traps and profilers call functions", found.names, names == Names::Kept);
    without("debug sections", "DWARF", found.debug, false);
    without("other sections", "producers, features: what the contract has no use for", found.others, false);
    steps.push(Step {
        name: "rewriting",
        what: "memory.copy and memory.fill as loops, globals exported, numbers in as few bytes as they need",
        before: size,
        after: built.wasm().len(),
        decision: Decision::Kept { cost: None },
    });
}

struct Cutter<'t> {
    built: Image,
    best: Image,
    goal: Goal,
    trial: Option<&'t mut dyn Trial>,
    /// Those that stayed.
    passes: Vec<Pass>,
    steps: Vec<Step>,
}

impl Cutter<'_> {
    fn pass(&mut self, pass: Pass) {
        let made = if self.trial.is_none() && !pass.is_harmless() {
            Err(Decision::NotTried { why: NO_TEST.into() })
        } else {
            pass.apply(&self.best).map_err(|error| Decision::NotTried { why: error.to_string() })
        };
        if self.step(pass.name(), pass.what(), made) {
            self.passes.push(pass);
        }
    }

    /// Tries one cut; whether it stays.
    fn step(&mut self, name: &'static str, what: &'static str, made: Result<Image, Decision>) -> bool {
        let before = self.best.wasm().len();
        let (after, decision) = match made {
            Ok(cut) => {
                let after = cut.wasm().len();
                let decision = if after < before { self.judge(&cut) } else { Decision::Nothing };
                if matches!(decision, Decision::Kept { .. }) {
                    self.best = cut;
                }
                (after, decision)
            }
            Err(decision) => (before, decision),
        };
        let kept = matches!(decision, Decision::Kept { .. });
        self.steps.push(Step { name, what, before, after, decision });
        kept
    }

    fn judge(&mut self, cut: &Image) -> Decision {
        let Some(trial) = &mut self.trial else { return Decision::Kept { cost: None } };
        if let Err(why) = trial.passes(cut).and_then(|()| trial.same(&self.built, cut)) {
            return Decision::Refused { why, cost: None };
        }
        match trial.cost(&self.built, cut) {
            Ok(cost) if self.goal == Goal::Speed && cost > MOST_COST => {
                let why = format!("packets cost {:.1}% more", (cost - 1.0) * 100.0);
                Decision::Refused { why, cost: Some(cost) }
            }
            Ok(cost) => Decision::Kept { cost: Some(cost) },
            Err(why) => Decision::Refused { why, cost: None },
        }
    }

    /// An image of another module, with the cuts that stayed.
    fn finished(&self, source: &Source<'_>, module: &[u8], names: Names) -> Result<Image, Decision> {
        let refused = |why: String| Decision::Refused { why, cost: None };
        let (mut image, _) = source.assemble(module, names).map_err(|error| refused(error.to_string()))?;
        for pass in &self.passes {
            image = pass.apply(&image).map_err(|error| refused(error.to_string()))?;
        }
        Ok(image)
    }

    /// The compiler's own ways to make less; the module of the smallest image, when it is one of these.
    fn other_flags(&mut self, source: &Source<'_>, names: Names, compiled: &Compiled) -> Option<Compiled> {
        let mut smallest = None;
        for (optimization, name) in
            [(Optimization::Size, "opt-level s"), (Optimization::SizeAboveAll, "opt-level z")]
        {
            let what = "the compiler makes less code instead of fast code";
            if self.trial.is_none() {
                self.step(name, what, Err(Decision::NotTried { why: NO_TEST.into() }));
                continue;
            }
            let module = source.compile(optimization);
            let made = match &module {
                Ok(module) if module.module == compiled.module => Err(Decision::Nothing),
                Ok(module) => self.finished(source, &module.module, names),
                Err(error) => Err(Decision::Refused { why: error.to_string(), cost: None }),
            };
            if self.step(name, what, made) {
                smallest = module.ok();
            }
        }
        if source.manifest.language == Language::Rust {
            let why = "needs a nightly toolchain, which builds the standard library anew";
            let what = "panics without their messages, in the standard library as well";
            self.step("panic immediate-abort", what, Err(Decision::NotTried { why: why.into() }));
        }
        smallest
    }

    fn wasm_opt(&mut self, source: &Source<'_>, names: Names, compiled: &Compiled) {
        let made = match &self.trial {
            None => Err(Decision::NotTried { why: NO_TEST.into() }),
            Some(_) => match run_wasm_opt(source, &compiled.module) {
                Ok(module) => self.finished(source, &module, names),
                Err(BuildError::MissingTool { tool, .. }) => {
                    Err(Decision::NotTried { why: format!("{tool} is not installed") })
                }
                Err(error) => Err(Decision::Refused { why: one_line(&error.to_string()), cost: None }),
            },
        };
        self.step("wasm-opt", "Binaryen's optimizer, on the compiler's output", made);
    }

    /// What the function needs at its start cannot be told from outside: its statics end where only the
    /// linker knows.
    fn memory(&mut self) {
        let pages = self.best.facts().memory_bytes / PAGE_BYTES;
        let why = format!("the linker's {pages} pages are the stack and the statics, rounded up");
        self.step("memory minimum", "takes no byte of the image", Err(Decision::NotTried { why }));
    }
}

fn run_wasm_opt(source: &Source<'_>, module: &[u8]) -> Result<Vec<u8>, BuildError> {
    let work =
        source.target.join("wasm-opt").join(format!("{}-{}", source.manifest.name, std::process::id()));
    let file = |source| BuildError::File { path: work.clone(), source };
    std::fs::create_dir_all(&work).map_err(file)?;
    let (input, output) = (work.join("in.wasm"), work.join("out.wasm"));
    let made = std::fs::write(&input, module).map_err(file).and_then(|()| {
        WASM_OPT.run(Command::new(WASM_OPT.name).args(WASM_OPT_FLAGS).args([
            OsStr::new("-g"),
            input.as_os_str(),
            OsStr::new("-o"),
            output.as_os_str(),
        ]))?;
        super::read(&output)
    });
    // What is left behind would be a pity, not an error.
    let _ = std::fs::remove_dir_all(&work);
    made
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
