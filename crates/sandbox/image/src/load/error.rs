//! Why an image was refused.

use thiserror::Error;
use yaml_document::Fault;

/// What was found in an image that is not allowed there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// The file is larger than an image may be.
    #[error("the image is {found} bytes long, at most {allowed} are allowed")]
    TooLarge {
        /// Its length in bytes.
        found: usize,
        /// The longest one allowed.
        allowed: usize,
    },
    /// Not WebAssembly, or WebAssembly with a proposal that is not allowed.
    #[error("not a valid image: {message} (at byte {offset}); was it made by `superfluid image build`?")]
    Invalid {
        /// The validator's words.
        message: String,
        /// Where in the file.
        offset: usize,
    },
    /// The same inside one function.
    #[error("function `{function}` is not valid: {message} (at byte {offset})")]
    InvalidFunction {
        /// Its name, as far as the image tells it.
        function: String,
        /// The validator's words.
        message: String,
        /// Where in the file.
        offset: usize,
    },
    /// More of something than an image may have.
    #[error("{found} {what}, at most {allowed} are allowed")]
    TooMany {
        /// What is counted, in the plural.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// The most allowed.
        allowed: u64,
    },
    /// A function that is too long, has too many locals or is nested too deeply.
    #[error("function `{function}` has {found} {what}, at most {allowed} are allowed")]
    TooMuch {
        /// Its name, as far as the image tells it.
        function: String,
        /// What is counted, in the plural.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// The most allowed.
        allowed: u64,
    },
    /// An import that the host does not offer.
    #[error("it imports `{module}.{name}`; allowed are from `{}`: {allowed}", nf_abi::IMPORT_MODULE)]
    Import {
        /// Module part of its name.
        module: String,
        /// Its name.
        name: String,
        /// The names that the host offers.
        allowed: String,
    },
    /// A host call imported with another type than it has, or something else than a function under its name.
    #[error("it imports `{name}` as {found}; it is a function {needed}")]
    ImportType {
        /// Name of the host call.
        name: &'static str,
        /// What the image imports.
        found: String,
        /// Type of the host call.
        needed: String,
    },
    /// A host call imported twice.
    #[error("it imports `{name}` twice")]
    ImportTwice {
        /// Name of the host call.
        name: &'static str,
    },
    /// An export of the contract is missing.
    #[error("it exports no `{name}`, which must be {needed}")]
    MissingExport {
        /// The export's name.
        name: &'static str,
        /// What it must be.
        needed: String,
    },
    /// An export of the contract is something else.
    #[error("it exports `{name}` as {found}; it must be {needed}")]
    ExportType {
        /// The export's name.
        name: String,
        /// What is exported.
        found: String,
        /// What it must be.
        needed: String,
    },
    /// An export with the host's prefix that the contract does not have.
    #[error("it exports `{name}`, and names with `sf_` are the contract's: {allowed}{}", hint(nearest))]
    UnknownExport {
        /// The export's name.
        name: String,
        /// The names of the contract.
        allowed: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// No memory, or several.
    #[error("it defines {found} memories; exactly one is needed")]
    Memories {
        /// How many.
        found: u64,
    },
    /// The memory has a maximum of its own.
    #[error(
        "its memory has a maximum of {pages} pages; the manifest's memory_limit says how far a memory grows"
    )]
    MemoryMaximum {
        /// The maximum found.
        pages: u64,
    },
    /// The memory begins larger than it may ever be.
    #[error("its memory begins with {found} bytes; allowed are {allowed} (the manifest's memory_limit)")]
    MemoryMinimum {
        /// Bytes that the memory begins with.
        found: u64,
        /// Bytes that it may have.
        allowed: u64,
    },
    /// A segment that does not fit where it is to be copied, so that no instance could start.
    #[error("{kind} segment {index} ends at {end}, behind the end of its {place} at {size}")]
    Segment {
        /// `data` or `element`.
        kind: &'static str,
        /// Its number.
        index: u32,
        /// Where it ends.
        end: u64,
        /// `memory` or `table`.
        place: &'static str,
        /// Size of that at the start.
        size: u64,
    },
    /// A mutable global that snapshots cannot see.
    #[error("global {index} is mutable and not exported; `superfluid image build` exports all of them")]
    HiddenGlobal {
        /// Its number.
        index: u32,
    },
    /// A start function.
    #[error("it has a start function, `{function}`; its work belongs into sf_init")]
    Start {
        /// Its name, as far as the image tells it.
        function: String,
    },
    /// A custom section that an image does not have.
    #[error(
        "it has a custom section `{name}`; allowed are `{}` and `name`, once each",
        nf_abi::MANIFEST_SECTION
    )]
    CustomSection {
        /// Name of the section.
        name: String,
    },
    /// No manifest.
    #[error(
        "it has no manifest (custom section `{}`); `superfluid image build` makes images",
        nf_abi::MANIFEST_SECTION
    )]
    NoManifest,
    /// The manifest is wrong.
    #[error("{}", lines(faults))]
    Manifest {
        /// All that is wrong with it; at least one.
        faults: Vec<Fault>,
    },
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

fn hint(nearest: &Option<&'static str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}
