//! `superfluid image`: build and inspect; `image_registry` has the rest.

use crate::Outcome;
use crate::cli::ImageCommand;
use crate::image_registry;
use host::Catalog;
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
        ImageCommand::Push { image, reference, registry } => image_registry::push(image, reference, registry),
        ImageCommand::Pull { reference, output, registry, kept } => {
            image_registry::pull(reference, output.as_deref(), registry, kept)
        }
        ImageCommand::Ls { output, kept } => image_registry::list(*output, kept),
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
    if let Err(error) = write(output, image.wasm()) {
        eprintln!("{}: {error}", output.display());
        return Outcome::Failed;
    }
    println!("{}", output.display());
    println!("{report}");
    Outcome::Done
}

/// Writes an image, so that whoever reads the file meanwhile sees the old one or the new one.
pub(crate) fn write(path: &Path, wasm: &[u8]) -> std::io::Result<()> {
    let unfinished = path.with_extension("wasm.tmp");
    std::fs::write(&unfinished, wasm).and_then(|()| std::fs::rename(&unfinished, path))
}
