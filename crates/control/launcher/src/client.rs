//! The client of the launcher's socket.

use crate::keeper::is_of;
use crate::stream::receive;
use crate::{ANSWER_MAX, Answer, List, Queues, REQUEST_MAX, Request, Start};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::collections::BTreeSet;
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

fn gone(path: &Path, source: io::Error) -> ClientError {
    // What a time that is over is called by the kernel says nothing.
    let source = match source.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "it does not answer in time"),
        _ => source,
    };
    ClientError::Gone { path: path.to_owned(), source }
}

/// A connection on which nothing takes longer than this, to connect neither: where a launcher that hangs has
/// not taken those before, the kernel waits until it does.
fn connected(path: &Path, within: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    for of in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, of, Some(within))?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
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

    /// Names of the guests that it has of others than this keeper, by a connection of its own.
    ///
    /// # Errors
    /// [`ClientError`]; also when there is no answer within that time.
    pub fn others(path: &Path, keeper: &str, within: Duration) -> Result<BTreeSet<String>, ClientError> {
        let stream = connected(path, within).map_err(|source| gone(path, source))?;
        let mut launcher = Launcher { path: path.to_owned(), stream: BufReader::new(stream) };
        match launcher.ask(&Request::List(List { after: None, wait_ms: 0, log_of: None }))? {
            Answer::Guests(listed) => {
                let others = listed.guests.into_iter().filter(|guest| !is_of(guest, keeper));
                Ok(others.map(|guest| guest.name).collect())
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
        let stream = connected(path, within).map_err(|source| gone(path, source))?;
        let mut launcher = Launcher { path: path.to_owned(), stream: BufReader::new(stream) };
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
        gone(&self.path, source)
    }

    fn wrong(&self, error: &serde_json::Error) -> ClientError {
        ClientError::Answer { path: self.path.clone(), reason: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_launcher_that_takes_no_connections_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("launcher.sock");
        let flags = SocketFlags::CLOEXEC;
        let socket =
            |flags| socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket");
        let (listener, address) = (socket(flags), SocketAddrUnix::new(&path).expect("an address"));
        rustix::net::bind(&listener, &address).expect("bound");
        rustix::net::listen(&listener, 1).expect("it listens");
        // Those that wait to be taken, until no further one may.
        let mut waiting = Vec::new();
        let refused = loop {
            let one = socket(flags | SocketFlags::NONBLOCK);
            match rustix::net::connect(&one, &address) {
                Ok(()) => waiting.push(one),
                Err(error) => break error,
            }
        };
        assert_eq!(refused, rustix::io::Errno::AGAIN, "after {}", waiting.len());
        let start = serde_json::json!({"name": "a", "tenant": "blue", "limits": {"memory": 1}});
        let start: Start = serde_json::from_value(start).expect("a start");
        let (tell, told) = channel();
        std::thread::spawn(move || tell.send(Launcher::check(&path, &start, Duration::from_millis(50))));
        let answer = told.recv_timeout(Duration::from_secs(20)).expect("it is over in time");
        let told = answer.expect_err("no answer").to_string();
        assert!(told.contains("launcher.sock: it does not answer in time"), "{told}");
    }
}
