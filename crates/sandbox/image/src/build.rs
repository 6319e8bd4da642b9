//! Builds an image from a function's folder, which holds `function.yaml` and the sources.

mod c;
mod rust;
mod smallest;
mod tool;

pub use smallest::{Smallest, build_smallest};

use crate::{AssembleError, Digest, Image, Lowered, Names, assemble};
use manifest::{Language, MAX_TEXT, Manifest};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use thiserror::Error;
use yaml_document::{self as yaml, Fault};

/// Name of the manifest's file in a function's folder.
pub const MANIFEST_FILE: &str = "function.yaml";

/// What a function's stack takes of its private memory, in bytes. It lies at address zero, so that a stack
/// that overflows leaves the memory and traps. It ends a quarter into a page: a function that needs little
/// stack and few statics has both on that page, and no other.
pub const STACK_BYTES: u32 = 65_536 + 1_024;

/// How an image is built.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Where compilers put what they make; kept between builds. Not the target folder of a cargo that is
    /// running: it would wait for itself.
    pub target_directory: PathBuf,
    /// Whether functions keep their names.
    pub names: Names,
}

/// What was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildReport {
    /// Bytes of the compiler's output.
    pub compiled_bytes: usize,
    /// Bytes of the image.
    pub image_bytes: usize,
    /// What the rewriting pass did.
    pub lowered: Lowered,
    /// The name of the image's content.
    pub digest: Digest,
    /// What the compiler had to say, warnings for instance; often empty.
    pub diagnostics: String,
}

/// Why no image was built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The manifest is wrong.
    #[error("{}", faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"))]
    Manifest {
        /// All that is wrong with it; at least one.
        faults: Vec<Fault>,
    },
    /// The folder has no source for the manifest's language.
    #[error("{}: no {wanted} for a function with `language: {language}`", path.display())]
    NoSource {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        wanted: &'static str,
        /// The language.
        language: Language,
    },
    /// A tool is not installed.
    #[error("{tool} is not installed; install it with `{install}`")]
    MissingTool {
        /// Which.
        tool: &'static str,
        /// The command that installs it.
        install: &'static str,
    },
    /// A compiler refused the sources.
    #[error("{tool} failed with {status}\n{diagnostics}")]
    Compiler {
        /// Which.
        tool: &'static str,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// What it said.
        diagnostics: String,
    },
    /// Cargo built something, but no module.
    #[error("cargo made no module of {}; the package needs a library", path.display())]
    NoModule {
        /// The package's manifest.
        path: PathBuf,
    },
    /// The function's own test fails with the image as it was built.
    #[error("{}: the function's own test fails with the image as it was built: {why}", path.display())]
    Test {
        /// The function's folder.
        path: PathBuf,
        /// What did not hold.
        why: String,
    },
    /// The module makes no image.
    #[error("{}: {source}", path.display())]
    Assemble {
        /// The function's folder.
        path: PathBuf,
        /// Why.
        source: AssembleError,
    },
}

/// A compiled module and what its compiler said.
struct Compiled {
    module: Vec<u8>,
    diagnostics: String,
}

/// What a compiler makes an effort for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Optimization {
    #[default]
    Speed,
    Size,
    SizeAboveAll,
}

impl Optimization {
    /// As rustc and clang both name it.
    const fn level(self) -> &'static str {
        match self {
            Optimization::Speed => "3",
            Optimization::Size => "s",
            Optimization::SizeAboveAll => "z",
        }
    }
}

/// A function's folder whose manifest has been read.
struct Source<'a> {
    directory: &'a Path,
    target: PathBuf,
    manifest: Manifest,
}

impl<'a> Source<'a> {
    fn open(directory: &'a Path, options: &BuildOptions) -> Result<Source<'a>, BuildError> {
        let manifest = read_manifest(directory)?;
        let target = std::path::absolute(&options.target_directory)
            .map_err(|source| BuildError::File { path: options.target_directory.clone(), source })?;
        Ok(Source { directory, target, manifest })
    }

    fn compile(&self, optimization: Optimization) -> Result<Compiled, BuildError> {
        match self.manifest.language {
            Language::Rust => rust::compile(self.directory, &self.target, optimization),
            Language::C => {
                c::compile(self.directory, &self.target, self.manifest.name.as_str(), optimization)
            }
        }
    }

    fn assemble(&self, module: &[u8], names: Names) -> Result<(Image, Lowered), BuildError> {
        assemble(module, &self.manifest.source, names)
            .map_err(|source| BuildError::Assemble { path: self.directory.to_owned(), source })
    }
}

/// Builds the image of the function in this folder.
///
/// The compiler runs with the caller's rights on the folder's sources, and cargo runs their build scripts:
/// build only what may run here. The image itself may then run anywhere.
///
/// # Errors
/// What the manifest, the tools, the sources or the module lack, with the command that installs a missing
/// tool.
pub fn build_directory(directory: &Path, options: &BuildOptions) -> Result<(Image, BuildReport), BuildError> {
    let source = Source::open(directory, options)?;
    let compiled = source.compile(Optimization::Speed)?;
    let (image, lowered) = source.assemble(&compiled.module, options.names)?;
    let report = report(&image, lowered, compiled);
    Ok((image, report))
}

fn report(image: &Image, lowered: Lowered, compiled: Compiled) -> BuildReport {
    BuildReport {
        compiled_bytes: compiled.module.len(),
        image_bytes: image.wasm().len(),
        lowered,
        digest: image.digest(),
        diagnostics: compiled.diagnostics,
    }
}

/// The manifest of the function in this folder.
///
/// # Errors
/// [`BuildError::File`] and [`BuildError::Manifest`].
pub fn read_manifest(directory: &Path) -> Result<Manifest, BuildError> {
    let path = &directory.join(MANIFEST_FILE);
    let mut bytes = Vec::new();
    local_file::open(path)
        .and_then(|file| file.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes))
        .map_err(|source| BuildError::File { path: path.to_owned(), source })?;
    let name = path.display().to_string();
    let text = yaml::text(&name, &bytes).map_err(|fault| BuildError::Manifest { faults: vec![fault] })?;
    Manifest::parse(&name, text).map_err(|faults| BuildError::Manifest { faults })
}

fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    let mut bytes = Vec::new();
    local_file::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|source| BuildError::File { path: path.to_owned(), source })?;
    Ok(bytes)
}

impl fmt::Display for BuildReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lowered { memory_copies, memory_fills, exported_globals, dropped_sections, .. } = self.lowered;
        writeln!(f, "digest    {}", self.digest)?;
        writeln!(f, "size      {} bytes (compiler's output: {})", self.image_bytes, self.compiled_bytes)?;
        write!(
            f,
            "rewritten {memory_copies} memory.copy, {memory_fills} memory.fill; {exported_globals} globals exported; \
             {dropped_sections} custom sections dropped"
        )
    }
}
