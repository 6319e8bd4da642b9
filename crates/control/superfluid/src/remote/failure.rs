//! What went wrong, and the exit status that says so.

use crate::Outcome;
use api::ProblemType;
use client::ClientError;
use std::fmt::Display;
use std::io::ErrorKind;

/// What a command gives: how it ended, or why it did not.
pub(crate) type Done = Result<Outcome, Failure>;

/// Why a command came to nothing: lines for standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    outcome: Outcome,
}

impl Failure {
    pub(crate) fn new(text: impl Display, outcome: Outcome) -> Failure {
        Failure { text: text.to_string(), outcome }
    }

    /// Says it.
    pub(crate) fn told(self) -> Outcome {
        console::error().line(&printable::lines(&self.text));
        self.outcome
    }

    /// What it says, in lines.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The same below a line.
    pub(crate) fn below(self, line: &str) -> Failure {
        Failure { text: format!("{line}\n{}", self.text), ..self }
    }

    /// The same with something behind its last line.
    pub(crate) fn with(mut self, more: &str) -> Failure {
        self.text.push_str(more);
        self
    }
}

impl Failure {
    /// What an error is told as, with what to do about it.
    pub(crate) fn from_client(error: &ClientError) -> String {
        let hint = match error {
            ClientError::Unreachable { kind: ErrorKind::NotFound | ErrorKind::ConnectionRefused, .. } => {
                "; does `superfluid daemon` run there? --socket names another socket"
            }
            ClientError::Unreachable { kind: ErrorKind::PermissionDenied, .. } => {
                "; the socket is for its owner and group alone"
            }
            ClientError::Refused(problem) if problem.problem_type() == Some(ProblemType::Unauthorized) => {
                "; --token-file or SUPERFLUID_TOKEN_FILE names the file with a token"
            }
            _ => "",
        };
        format!("{error}{hint}")
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure { text: Failure::from_client(&error), outcome: outcome(&error) }
    }
}

/// What an error means for the exit status.
pub(crate) fn outcome(error: &ClientError) -> Outcome {
    let kind = error.problem().and_then(api::Problem::problem_type);
    match kind {
        Some(
            ProblemType::Malformed
            | ProblemType::Invalid
            | ProblemType::TooLarge
            | ProblemType::UnsupportedMediaType,
        ) => Outcome::BadInput,
        Some(_) => Outcome::Failed,
        None if error.is_unreachable() => Outcome::Missing,
        None => Outcome::Failed,
    }
}

/// Writes to standard output. A reader that has seen enough is no failure.
pub(crate) fn print(text: &str) -> Done {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Outcome::Done),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            console::end();
            std::process::exit(0)
        }
        Err(error) => Err(Failure::new(format_args!("standard output: {error}"), Outcome::Failed)),
    }
}
