//! Why a port at a socket cannot be opened.

use std::fmt;
use std::io;

/// Longest path of a socket: what `sockaddr_un` holds, less the zero at its end.
pub const PATH_MAX: usize = 107;

/// Why a port cannot be opened, and will not be.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A setting that is not allowed.
    #[error("{0}: found {1}; allowed: {2}")]
    Setting(&'static str, String, &'static str),
    /// No descriptors or threads are left.
    #[error("socket `{0}`: {1}")]
    System(String, io::Error),
}

impl OpenError {
    /// That a value is not allowed.
    pub fn setting(key: &'static str, found: impl fmt::Display, allowed: &'static str) -> OpenError {
        OpenError::Setting(key, format!("`{found}`"), allowed)
    }
}

/// Checks the path of a port's `socket`.
///
/// # Errors
/// [`OpenError::Setting`].
pub fn check_path(path: &str) -> Result<(), OpenError> {
    if path.starts_with('/') && path.len() <= PATH_MAX {
        return Ok(());
    }
    Err(OpenError::setting("socket", path, "a path from the root on, of at most 107 bytes"))
}
