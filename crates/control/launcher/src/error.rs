//! Why the launcher does not start, and why it does not do what it is asked.

use std::io;
use std::path::PathBuf;
use yaml_document::Fault;

/// Why the launcher does not run.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// It has not the rights that its work needs.
    #[error("this is user {0}; the launcher has to be root (user 0), whose rights it keeps from the daemon")]
    NotRoot(u32),
    /// The file of permits is wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Permits(Vec<Fault>),
    /// The file of permits can be written by others than root.
    #[error("{path}: {found}; allowed: a file of root that no other user may write")]
    PermitsOwner {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        found: String,
    },
    /// Another launcher runs.
    #[error("{0}: another launcher uses this folder")]
    InUse(PathBuf),
    /// A file or folder of its own.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl LauncherError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> LauncherError {
        let path = path.into();
        move |source| LauncherError::File { path, source }
    }
}

/// Why a request is not carried out: one line, with what was found and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    /// A refusal; characters that hide or forge a line are escaped.
    pub fn new(what: impl AsRef<str>) -> Refusal {
        Refusal(printable::harmless(what.as_ref(), 1024))
    }

    pub(crate) fn of<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Refusal {
        move |error| Refusal::new(format!("{what}: {error}"))
    }
}
