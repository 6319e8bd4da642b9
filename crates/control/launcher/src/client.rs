//! The client of the launcher's socket.

use crate::{ANSWER_MAX, Answer, Request};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A connection to the launcher.
#[derive(Debug)]
pub struct Launcher {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No launcher listens there, or it has ended.
    #[error("the launcher at {path}: {source}; it is started by `systemctl start superfluid-launcher`")]
    Gone {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What it says is no answer.
    #[error("the launcher at {path}: its answer: {reason}")]
    Answer {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Launcher {
    /// Connects.
    ///
    /// # Errors
    /// [`ClientError::Gone`].
    pub fn connect(path: &Path) -> Result<Launcher, ClientError> {
        let stream = UnixStream::connect(path);
        let stream = stream.map_err(|source| ClientError::Gone { path: path.to_owned(), source })?;
        Ok(Launcher { path: path.to_owned(), stream: BufReader::new(stream) })
    }

    /// An answer that is none to what was asked.
    pub fn unexpected(&self, answer: &Answer) -> ClientError {
        let reason = match answer {
            Answer::Refused(reason) => format!("it refuses: {reason}"),
            Answer::Done | Answer::Guests(_) | Answer::Used(_) => {
                "it is the answer to another question".to_owned()
            }
        };
        ClientError::Answer { path: self.path.clone(), reason }
    }

    /// Asks, and waits for the answer: a start unpacks an image, a list may wait for a change.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&mut self, request: &Request) -> Result<Answer, ClientError> {
        let gone = |source| ClientError::Gone { path: self.path.clone(), source };
        let wrong = |reason: String| ClientError::Answer { path: self.path.clone(), reason };
        let mut line = serde_json::to_vec(request).map_err(|error| wrong(error.to_string()))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(gone)?;
        line.clear();
        let read = (&mut self.stream).take(ANSWER_MAX as u64).read_until(b'\n', &mut line).map_err(gone)?;
        if read == 0 {
            return Err(gone(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_slice(&line).map_err(|error| wrong(error.to_string()))
    }
}
