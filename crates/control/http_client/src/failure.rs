//! What can go wrong with a question, and reading what it is answered with.

use printable::harmless;
use std::io::{ErrorKind, Read};
use thiserror::Error;
use ureq::{Body, Timeout};

/// Longest text of a reason, in characters.
const LONGEST: usize = 160;

/// Why there is no answer. Texts of the other side's are short and cannot control a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The host cannot be reached.
    #[error("it cannot be reached: {reason}")]
    Unreachable {
        /// Why.
        reason: String,
        /// The same for programs.
        kind: ErrorKind,
    },
    /// There is no connection in time.
    #[error("it did not take the connection in time")]
    ConnectLate,
    /// Nothing came for as long as may be.
    #[error("it was silent for too long")]
    Silent,
    /// All in all it takes too long.
    #[error("it took too long")]
    Late,
    /// The connection ended before the answer did.
    #[error("it ended the connection: {0}")]
    Died(String),
    /// There is no trust.
    #[error("there is no trust: {0}")]
    Tls(String),
    /// The other side speaks something else.
    #[error("it does not speak HTTP as it should: {0}")]
    NoHttp(String),
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Failure {
        let reason = harmless(&error.to_string(), LONGEST);
        match error {
            ureq::Error::Timeout(Timeout::PerRead | Timeout::PerWrite) => Failure::Silent,
            ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => Failure::ConnectLate,
            ureq::Error::Timeout(_) => Failure::Late,
            ureq::Error::HostNotFound => {
                Failure::Unreachable { reason: "there is no such host".to_owned(), kind: ErrorKind::NotFound }
            }
            ureq::Error::ConnectionFailed => Failure::Unreachable { reason, kind: ErrorKind::Other },
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => Failure::Tls(reason),
            ureq::Error::Io(error) => {
                // The system's words, without the library's before them.
                let (reason, kind) = (harmless(&error.to_string(), LONGEST), error.kind());
                match kind {
                    ErrorKind::InvalidData => Failure::Tls(reason),
                    ErrorKind::UnexpectedEof
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::BrokenPipe => Failure::Died(reason),
                    // Names that mean nothing and addresses that lead nowhere, under names of the system's.
                    _ => Failure::Unreachable { reason, kind },
                }
            }
            _ => Failure::NoHttp(reason),
        }
    }
}

impl From<std::io::Error> for Failure {
    /// Of a reader of a body.
    fn from(error: std::io::Error) -> Failure {
        Failure::from(ureq::Error::from(error))
    }
}

/// Why a body was not read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BodyFault {
    /// It has more bytes than were agreed to; how many, if it says so.
    #[error("it is too large")]
    Large(Option<u64>),
    /// It did not come.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Reads a body, if it has at most so many bytes.
///
/// # Errors
/// [`BodyFault`]; no more than one byte beyond the limit was read.
pub fn bytes(body: Body, most: u64) -> Result<Vec<u8>, BodyFault> {
    if let Some(found) = body.content_length().filter(|found| *found > most) {
        return Err(BodyFault::Large(Some(found)));
    }
    let mut bytes = Vec::new();
    let reader = body.into_with_config().limit(most.saturating_add(2)).reader();
    reader.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(Failure::from)?;
    if bytes.len() as u64 > most { Err(BodyFault::Large(None)) } else { Ok(bytes) }
}
