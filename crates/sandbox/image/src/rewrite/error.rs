//! Why the rewriting pass refused a module.

use thiserror::Error;

/// What the rewriting pass found in a compiler's output that no image can hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RewriteError {
    /// The file is larger than an image may be.
    #[error("the module is {found} bytes long, at most {allowed} are allowed")]
    TooLarge {
        /// Its length in bytes.
        found: usize,
        /// The longest one allowed.
        allowed: usize,
    },
    /// Not WebAssembly, or WebAssembly with a proposal that is not allowed.
    #[error("not a valid module: {message} (at byte {offset})")]
    Invalid {
        /// The validator's words.
        message: String,
        /// Where in the file.
        offset: usize,
    },
    /// The same inside one function.
    #[error("function `{function}` is not valid: {message} (at byte {offset})")]
    InvalidFunction {
        /// Its name, as far as the module tells it.
        function: String,
        /// The validator's words.
        message: String,
        /// Where in the file.
        offset: usize,
    },
    /// An instruction that is not lowered.
    #[error(
        "function `{function}` uses `{instruction}`; of the bulk instructions only memory.copy and memory.fill are lowered"
    )]
    Instruction {
        /// Name of the function.
        function: String,
        /// Name of the instruction.
        instruction: &'static str,
    },
    /// A data or element segment that is not copied when the instance starts.
    #[error("{kind} segment {index} is not active; only segments that are copied at the start are allowed")]
    Segment {
        /// `data` or `element`.
        kind: &'static str,
        /// Its number.
        index: u32,
    },
    /// An element segment for another table than the first, or with something else than functions in it.
    #[error("element segment {index} {reason}; it must place functions into table 0")]
    Elements {
        /// Its number.
        index: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A start function, which would run before any limit of the instance is in force.
    #[error("the module has a start function, `{function}`; do its work in sf_init")]
    Start {
        /// Name of the function.
        function: String,
    },
    /// An import of something else than a function.
    #[error("the module imports the {kind} `{module}.{name}`; only functions can be imported")]
    Import {
        /// memory, table or global.
        kind: &'static str,
        /// Module part of its name.
        module: String,
        /// Its name.
        name: String,
    },
    /// No memory, or several.
    #[error("the module defines {found} memories; exactly one is needed")]
    Memories {
        /// How many.
        found: u32,
    },
    /// The name is taken by an export of something else.
    #[error("the export `{name}` is something else than {needed}; choose another name for it")]
    Reserved {
        /// The export's name.
        name: String,
        /// What has to have that name.
        needed: String,
    },
    /// The outcome is still no valid image; what the module does is not supported.
    #[error("the module cannot be made into an image: {message}")]
    Unsupported {
        /// The validator's or the encoder's words.
        message: String,
    },
}
