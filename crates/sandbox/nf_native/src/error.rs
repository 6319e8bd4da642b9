//! Why a function does not start.

use superfluid_native::AttachError;

/// Why a function does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The arguments are not what they have to be.
    #[error("{0}\n{usage}", usage = crate::USAGE)]
    Arguments(String),
    /// The manifest or the configuration is wrong: all that is, a line each.
    #[error("{0}")]
    Faults(String),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A port cannot be attached to.
    #[error("{socket}: {source}")]
    Attach {
        /// Its socket.
        socket: String,
        /// Why.
        source: AttachError,
    },
    /// A port is not what this function needs.
    #[error("{socket}: {reason}")]
    Port {
        /// Its socket.
        socket: String,
        /// What was found, and what is allowed.
        reason: String,
    },
    /// The function refuses its configuration.
    #[error("the function does not start: {0}")]
    Refused(nf_sdk::Error),
}
