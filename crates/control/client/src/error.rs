//! What can go wrong between a client and the daemon.

use api::Problem;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Why there is no answer. One line, and one for each fault of a request that was refused.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The daemon could not be reached.
    #[error("{daemon} cannot be reached: {reason}")]
    Unreachable {
        /// The daemon, in words.
        daemon: String,
        /// Why.
        reason: String,
        /// The same for programs.
        kind: std::io::ErrorKind,
    },
    /// There is no connection in time.
    #[error("{daemon} did not take the connection within {limit:?}")]
    ConnectLate {
        /// The daemon, in words.
        daemon: String,
        /// [`crate::Settings::connect`].
        limit: Duration,
    },
    /// Nothing came.
    #[error("{daemon} was silent for {limit:?}")]
    Silent {
        /// The daemon, in words.
        daemon: String,
        /// [`crate::Settings::idle`].
        limit: Duration,
    },
    /// All in all it takes too long.
    #[error("{daemon} did not answer within {limit:?}")]
    Late {
        /// The daemon, in words.
        daemon: String,
        /// [`crate::Settings::total`].
        limit: Duration,
    },
    /// The connection ended before the answer did.
    #[error("{daemon} ended the connection: {reason}")]
    Died {
        /// The daemon, in words.
        daemon: String,
        /// What was seen of it.
        reason: String,
    },
    /// There is no trust.
    #[error("{daemon} cannot be trusted, or does not trust the certificate that it was shown: {reason}")]
    Tls {
        /// The daemon, in words.
        daemon: String,
        /// What was seen.
        reason: String,
    },
    /// The other side speaks something else.
    #[error("{daemon} does not speak HTTP as it should: {reason}")]
    NoHttp {
        /// The daemon, in words.
        daemon: String,
        /// What was seen.
        reason: String,
    },
    /// A refusal without a problem document: the answer is not a daemon's.
    #[error("{daemon} answered {status} with {found}; allowed: a problem document, application/problem+json")]
    Status {
        /// The daemon, in words.
        daemon: String,
        /// HTTP's status.
        status: u16,
        /// What came.
        found: String,
    },
    /// The answer is something else than was asked for.
    #[error("{daemon} sent {found}; allowed: {allowed}")]
    Type {
        /// The daemon, in words.
        daemon: String,
        /// The content type of what was sent.
        found: String,
        /// The one that was asked for.
        allowed: &'static str,
    },
    /// It is too large; no more than the limit was read.
    #[error("{daemon} sent more than {limit} bytes {what}")]
    Large {
        /// The daemon, in words.
        daemon: String,
        /// Of what.
        what: &'static str,
        /// Most bytes.
        limit: u64,
    },
    /// It cannot be read.
    #[error("{daemon} sent what cannot be read: {reason}; is it of another version?")]
    Unreadable {
        /// The daemon, in words.
        daemon: String,
        /// Where, and what was found.
        reason: String,
    },
    /// The daemon refuses.
    #[error("{}", Lines(.0))]
    Refused(Box<Problem>),
    /// The operation goes on, and the client does not wait any more.
    #[error("operation {id} goes on: {what} took longer than {limit:?}")]
    Unfinished {
        /// The operation.
        id: String,
        /// What is done.
        what: String,
        /// How long it was waited for.
        limit: Duration,
    },
}

impl ClientError {
    /// The problem document, if the daemon sent one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            ClientError::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether the daemon could not even be asked.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            ClientError::Unreachable { .. } | ClientError::ConnectLate { .. } | ClientError::Tls { .. }
        )
    }
}

/// A problem as lines: all its faults, or else what happened.
struct Lines<'a>(&'a Problem);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { title, detail, faults, .. } = self.0;
        if faults.is_empty() {
            return write!(f, "{title}: {detail}");
        }
        for (n, fault) in faults.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}
