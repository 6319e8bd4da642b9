//! `superfluid image`: build and inspect; `image_registry` has the rest.

use crate::Outcome;
use crate::cli::{BuildGoal, BuildOptions, ImageCommand};
use crate::image_registry;
use crate::manual::print;
use crate::output::{Format, Listing};
use crate::output_file;
use crate::progress::Progress;
use deployment::Catalog;
use function_test::{ImageTest, Judge, TEST_FILE};
use image::cut::{Decision, Goal, Step, Trial};
use image::{Image, Names, Smallest, build_directory, build_smallest, inspect, read_manifest};
use serde_json::json;
use std::path::{Path, PathBuf};

pub(crate) fn image(command: &ImageCommand) -> Outcome {
    match command {
        ImageCommand::Build(options) => build(options),
        ImageCommand::Inspect { image } => match Catalog::new(Path::new(".")).load(image) {
            Ok(image) => print(inspect(&image).to_string().as_bytes()),
            Err(reason) => {
                console::error().line(&format!("{image}: {reason}"));
                Outcome::BadInput
            }
        },
        ImageCommand::Push { image, reference, registry } => image_registry::push(image, reference, registry),
        ImageCommand::Pull { reference, output, registry, kept } => {
            image_registry::pull(reference, output.as_deref(), registry, kept)
        }
        ImageCommand::Ls { output, kept } => image_registry::list(*output, kept),
    }
}

fn build(options: &BuildOptions) -> Outcome {
    let progress = Progress::begin(&format!("building {}", options.directory.display()), options.format);
    match build_image(options, progress) {
        Ok(built) => show(options, &built),
        Err(reason) => {
            console::error().line(&reason);
            Outcome::BadInput
        }
    }
}

fn build_image(options: &BuildOptions, progress: Progress) -> Result<Smallest, String> {
    let directory = &options.directory;
    let settings = image::BuildOptions {
        target_directory: directory.join("target"),
        names: if options.names { Names::Kept } else { Names::Dropped },
    };
    if options.no_cut {
        let (image, report) = build_directory(directory, &settings).map_err(|error| error.to_string())?;
        return Ok(Smallest { image, report, steps: Vec::new() });
    }
    let manifest = read_manifest(directory).map_err(|error| error.to_string())?;
    let test = ImageTest::open(directory, &manifest).map_err(|error| error.to_string())?;
    let mut judge = match test {
        Some(test) => Some(Judge::new(test).map_err(|error| error.to_string())?),
        None => None,
    };
    let goal = match options.goal {
        BuildGoal::Speed => Goal::Speed,
        BuildGoal::Size => Goal::Size,
    };
    let trial = judge.as_mut().map(|judge| judge as &mut dyn Trial);
    let built = build_smallest(directory, &settings, goal, trial).map_err(|error| error.to_string())?;
    drop(progress);
    match &judge {
        Some(judge) => console::error().line(&format!(
            "{}: passed (cases: {}, packets: {})",
            directory.join(TEST_FILE).display(),
            judge.test().cases(),
            judge.test().packets()
        )),
        None => console::error().line(&format!(
            "{}: the function has no test of its image, so nothing is cut that code could notice",
            directory.join(TEST_FILE).display()
        )),
    }
    Ok(built)
}

fn show(options: &BuildOptions, built: &Smallest) -> Outcome {
    let Smallest { image, report, steps } = built;
    if !report.diagnostics.is_empty() {
        console::error().write(report.diagnostics.as_str());
    }
    let output = options.output.clone().unwrap_or_else(|| default_output(image));
    if let Err(error) = output_file::write(&output, image.wasm()) {
        console::error().line(&format!("{}: {error}", output.display()));
        return Outcome::Failed;
    }
    let summary = format!("{}\n{report}", output.display());
    let mut text = String::new();
    match options.format {
        Format::Json | Format::Yaml => console::error().line(&summary),
        Format::Table | Format::Wide => text = format!("{summary}\n"),
    }
    if !steps.is_empty() {
        text.push_str(&table(steps).shown(options.format));
    }
    print(text.as_bytes())
}

fn default_output(image: &Image) -> PathBuf {
    PathBuf::from(format!("{}.wasm", image.manifest().name.as_str()))
}

/// What was cut, what that saved, and why what was not cut was not.
fn table(steps: &[Step]) -> Listing {
    let mut listing = Listing::new(&["CUT", "BEFORE", "AFTER", "SAVED", "COST", "KEPT", "WHY"], &["WHAT"]);
    for step in steps {
        let (kept, why, cost) = match &step.decision {
            Decision::Kept { cost } => ("yes", "", *cost),
            Decision::Refused { why, cost } => ("no", why.as_str(), *cost),
            Decision::Nothing => ("no", "saves nothing", None),
            Decision::NotTried { why } => ("-", why.as_str(), None),
        };
        let shown_cost = cost.map_or_else(|| "-".to_owned(), |cost| format!("{:+.1}%", (cost - 1.0) * 100.0));
        listing.add(
            vec![
                step.name.to_owned(),
                step.before.to_string(),
                step.after.to_string(),
                step.saved().to_string(),
                shown_cost,
                kept.to_owned(),
                why.to_owned(),
                step.what.to_owned(),
            ],
            json!({
                "cut": step.name,
                "what": step.what,
                "before_bytes": step.before,
                "after_bytes": step.after,
                "saved_bytes": step.saved(),
                "tried": !matches!(step.decision, Decision::NotTried { .. }),
                "kept": kept == "yes",
                "why": why,
                "cost_ratio": cost,
            }),
        );
    }
    listing
}
