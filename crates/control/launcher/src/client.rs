//! The client of the launcher's socket.

use crate::stream::receive;
use crate::{ANSWER_MAX, Answer, Queues, REQUEST_MAX, Request, Start};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What refusals of requests begin with that are none.
pub(crate) const UNREAD: &str = "the request:";
/// What they begin with where the user is none that the launcher serves.
pub(crate) const NOT_SERVED: &str = "user ";

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
    /// It serves other users.
    #[error("the launcher at {path} does not serve this one: {reason}")]
    NotServed {
        /// The socket.
        path: PathBuf,
        /// Which it serves.
        reason: String,
    },
    /// It would not read a request of this length.
    #[error("the request has {found} bytes; allowed: at most {REQUEST_MAX}, by a shorter `command` say")]
    TooLong {
        /// Bytes of its line.
        found: usize,
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
            Answer::Done | Answer::Guests(_) | Answer::Used(_) | Answer::Queues(_) => {
                "it is the answer to another question".to_owned()
            }
        };
        ClientError::Answer { path: self.path.clone(), reason }
    }

    /// The queues of a guest's TAP devices, by their outer names, by a connection of their own.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn queues(path: &Path, name: &str) -> Result<Vec<(String, OwnedFd)>, ClientError> {
        let mut launcher = Launcher::connect(path)?;
        launcher.say(&Request::Queues(Queues { name: name.to_owned() }))?;
        let (line, queues) =
            receive(launcher.stream.get_ref(), ANSWER_MAX).map_err(|source| launcher.gone(source))?;
        match launcher.read(&line)? {
            Answer::Queues(names) if names.len() == queues.len() => {
                Ok(names.into_iter().zip(queues).collect())
            }
            Answer::Queues(names) => {
                let reason = format!("it names {} queues and hands over {}", names.len(), queues.len());
                Err(ClientError::Answer { path: path.to_owned(), reason })
            }
            other => Err(launcher.unexpected(&other)),
        }
    }

    /// Whether it would start this, by a connection of its own; if not, why. One that does not know the
    /// question has not answered it.
    ///
    /// # Errors
    /// [`ClientError`]; also when there is no answer within that time.
    pub fn check(path: &Path, start: &Start, within: Duration) -> Result<Result<(), String>, ClientError> {
        let mut launcher = Launcher::connect(path)?;
        for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
            set(launcher.stream.get_ref(), Some(within)).map_err(|source| launcher.gone(source))?;
        }
        match launcher.ask(&Request::Check(Box::new(start.clone())))? {
            Answer::Done => Ok(Ok(())),
            Answer::Refused(reason) if reason.starts_with(NOT_SERVED) => {
                Err(ClientError::NotServed { path: path.to_owned(), reason })
            }
            Answer::Refused(reason) if !reason.starts_with(UNREAD) => Ok(Err(reason)),
            other => Err(launcher.unexpected(&other)),
        }
    }

    /// Asks, and waits for the answer: a start unpacks an image, a list may wait for a change.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&mut self, request: &Request) -> Result<Answer, ClientError> {
        self.say(request)?;
        let mut line = Vec::new();
        let read = (&mut self.stream).take(ANSWER_MAX as u64).read_until(b'\n', &mut line);
        read.map_err(|source| self.gone(source))?;
        self.read(&line)
    }

    fn say(&mut self, request: &Request) -> Result<(), ClientError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.wrong(&error))?;
        line.push(b'\n');
        if line.len() > REQUEST_MAX {
            return Err(ClientError::TooLong { found: line.len() });
        }
        let said = self.stream.get_mut().write_all(&line);
        said.map_err(|source| self.gone(source))
    }

    fn read(&self, line: &[u8]) -> Result<Answer, ClientError> {
        if line.is_empty() {
            return Err(self.gone(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_slice(line).map_err(|error| self.wrong(&error))
    }

    fn gone(&self, source: io::Error) -> ClientError {
        ClientError::Gone { path: self.path.clone(), source }
    }

    fn wrong(&self, error: &serde_json::Error) -> ClientError {
        ClientError::Answer { path: self.path.clone(), reason: error.to_string() }
    }
}
