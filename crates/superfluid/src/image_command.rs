//! `superfluid image`: build and inspect.

use crate::Outcome;
use crate::catalog::Catalog;
use crate::cli::ImageCommand;
use image::{BuildOptions, Names, build_directory, inspect};
use std::path::{Path, PathBuf};

pub(crate) fn image(command: &ImageCommand) -> Outcome {
    match command {
        ImageCommand::Build { directory, output, names } => build(directory, output.as_deref(), *names),
        ImageCommand::Inspect { image } => match Catalog::new(Path::new(".")).load(image) {
            Ok(image) => {
                print!("{}", inspect(&image));
                Outcome::Done
            }
            Err(reason) => {
                eprintln!("{image}: {reason}");
                Outcome::BadInput
            }
        },
    }
}

fn build(directory: &Path, output: Option<&Path>, names: bool) -> Outcome {
    let options = BuildOptions {
        target_directory: directory.join("target"),
        names: if names { Names::Kept } else { Names::Dropped },
    };
    let (image, report) = match build_directory(directory, &options) {
        Ok(built) => built,
        Err(error) => {
            eprintln!("{error}");
            return Outcome::BadInput;
        }
    };
    if !report.diagnostics.is_empty() {
        eprint!("{}", report.diagnostics);
    }
    let default = PathBuf::from(format!("{}.wasm", image.manifest().name.as_str()));
    let output = output.unwrap_or(&default);
    // Whoever reads the file meanwhile sees the old image or the new one.
    let unfinished = output.with_extension("wasm.tmp");
    let written =
        std::fs::write(&unfinished, image.wasm()).and_then(|()| std::fs::rename(&unfinished, output));
    if let Err(error) = written {
        eprintln!("{}: {error}", output.display());
        return Outcome::Failed;
    }
    println!("{}", output.display());
    println!("{report}");
    Outcome::Done
}
