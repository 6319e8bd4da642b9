//! Why a cut was not made.

use super::parts::Missing;
use thiserror::Error;
use wasm_encoder::reencode;

/// Why a pass left a module as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CutError {
    /// The pass does not know what to do with this.
    #[error("{0} is left alone")]
    Unsupported(&'static str),
    /// What was to be cut is not a valid module.
    #[error("not a valid module: {0}")]
    Invalid(String),
    /// What the pass made is not an image. That is a fault of the pass.
    #[error("the outcome is no image: {0}")]
    Outcome(String),
}

impl From<wasmparser::BinaryReaderError> for CutError {
    fn from(error: wasmparser::BinaryReaderError) -> CutError {
        CutError::Invalid(error.message().to_owned())
    }
}

impl From<reencode::Error<Missing>> for CutError {
    fn from(error: reencode::Error<Missing>) -> CutError {
        match error {
            reencode::Error::UserError(Missing) => CutError::Outcome(Missing.to_string()),
            other => CutError::Invalid(other.to_string()),
        }
    }
}
