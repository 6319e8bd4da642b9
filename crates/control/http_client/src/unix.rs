//! HTTP over a UNIX socket: a connector and a transport for the HTTP library, whose interface for these may
//! change with its minor versions.

use crate::{Limits, configured};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout as Way};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, Error, Timeout, http};

/// What speaks HTTP over the UNIX socket at a path. The host in an address has no meaning.
pub fn unix_agent(path: &Path, limits: Limits) -> Agent {
    Agent::with_parts(configured(limits).build(), Socket(path.to_owned()), NoResolver)
}

/// A socket's path is not looked up.
#[derive(Debug)]
struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(&self, _: &http::Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        // At least one is wanted; the connector has no use for it.
        let mut addresses = self.empty();
        addresses.push(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        Ok(addresses)
    }
}

#[derive(Debug)]
struct Socket(PathBuf);

impl Connector for Socket {
    type Out = Connection;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Connection>, Error> {
        let limit = details.timeout.not_zero().map(|limit| *limit);
        let stream = match connect(&self.0, limit) {
            Err(Errno::AGAIN) => return Err(Error::Timeout(Timeout::Connect)),
            connected => connected.map_err(io::Error::from)?,
        };
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Connection { stream, buffers, unsent: Vec::new() }))
    }
}

/// Connects; a daemon that takes no connections is waited for as long as `limit` says, and no longer.
fn connect(path: &Path, limit: Option<Duration>) -> Result<UnixStream, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, Way::Send, limit)?;
    rustix::net::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    buffers: LazyBuffers,
    /// A request's head waits for its body, so that the daemon is woken once for both.
    unsent: Vec<u8>,
}

/// So much waits at most until it is sent.
const MOST_UNSENT: usize = 32 << 10;

impl Connection {
    fn send(&mut self, timeout: NextTimeout) -> Result<(), Error> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(left(timeout)?)?;
        let sent = self.stream.write_all(&self.unsent).map_err(|error| told(error, timeout));
        self.unsent.clear();
        sent
    }
}

/// What is left of a limit, if there is one.
fn left(timeout: NextTimeout) -> Result<Option<Duration>, Error> {
    if timeout.after.is_zero() {
        return Err(Error::Timeout(timeout.reason));
    }
    Ok(timeout.not_zero().map(|left| *left))
}

fn told(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.unsent.extend_from_slice(&self.buffers.output()[..amount]);
        if self.unsent.len() < MOST_UNSENT { Ok(()) } else { self.send(timeout) }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.send(timeout)?;
        let timeout = timeout.for_read();
        let limit = left(timeout)?;
        let began = Instant::now();
        let room = self.buffers.input_append_buf();
        let amount = loop {
            let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::Timeout(timeout.reason));
            }
            self.stream.set_read_timeout(left)?;
            match self.stream.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(|error| told(error, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// A connection at rest has nothing to read. Something would be an end, or an answer without a request.
    fn is_open(&mut self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(&self.stream, &mut [0; 1][..], flags), Err(Errno::AGAIN))
    }
}
