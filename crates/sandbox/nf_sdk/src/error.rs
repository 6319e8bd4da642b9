//! Why a function could not be made.

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
