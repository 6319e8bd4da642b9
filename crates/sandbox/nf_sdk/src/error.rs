//! Why a function could not be made.

use crate::json::decimal;
use alloc::string::String;
use core::fmt;

/// Why [`crate::NetworkFunction::new`] refused. The sandbox logs the text and answers `sf_init` with the
/// number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The configuration is not what the contract says (CBOR with definite lengths, a map by key).
    Malformed,
    /// A key is not there.
    Missing(String),
    /// A key's value is of another type.
    WrongType(String),
    /// The configuration is in order but cannot be used; the text says which key and why. Several lines are
    /// logged as such.
    Refused(String),
}

impl Error {
    /// [`Error::Refused`], with a text of these parts.
    pub fn refused(parts: &[&str]) -> Error {
        Error::Refused(parts.concat())
    }

    /// This error in an entry of a list, numbered from 0: `LIST[NUMBER]: ` and the message.
    pub fn in_entry(&self, list: &str, number: usize) -> Error {
        Error::refused(&[list, "[", &decimal(number as u64), "]: ", &self.message()])
    }

    /// A list with more entries than are allowed.
    pub fn too_many(list: &str, found: usize, most: usize) -> Error {
        let (found, most) = (decimal(found as u64), decimal(most as u64));
        Error::refused(&[list, ": ", &found, " entries; allowed: at most ", &most])
    }

    /// What `sf_init` answers: 1 to 4, in the order of the variants.
    pub fn number(&self) -> i32 {
        match self {
            Error::Malformed => 1,
            Error::Missing(_) => 2,
            Error::WrongType(_) => 3,
            Error::Refused(_) => 4,
        }
    }

    /// The message, without the formatting machinery, which would be most of a small image.
    pub fn message(&self) -> String {
        let (before, subject) = match self {
            Error::Malformed => ("the configuration is not well-formed", ""),
            Error::Missing(key) => ("missing key: ", key.as_str()),
            Error::WrongType(key) => ("wrong type of value for key: ", key.as_str()),
            Error::Refused(text) => ("", text.as_str()),
        };
        let mut message = String::from(before);
        message.push_str(subject);
        message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl core::error::Error for Error {}
