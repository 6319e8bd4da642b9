//! What can be set.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How the server is set up. [`Settings::new`] gives the usual.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The UNIX socket.
    pub socket: Socket,
    /// TCP beside it.
    pub tcp: Option<Tcp>,
    /// Where changes are written down.
    pub audit: Audit,
    /// What clients can use up at most.
    pub limits: Limits,
    /// Where spans of calls go, if anywhere.
    pub spans: Option<spans::Settings>,
    /// What `/v1/health` calls the program's version.
    pub version: String,
}

impl Settings {
    /// A server on a UNIX socket alone, for its own user alone, that writes changes to `audit`.
    pub fn new(socket: impl Into<PathBuf>, audit: impl Into<PathBuf>) -> Settings {
        Settings {
            socket: Socket { path: socket.into(), mode: 0o600, owner: None, group: None },
            tcp: None,
            audit: Audit { file: audit.into(), bytes: 16 << 20, kept: 8 },
            limits: Limits::default(),
            spans: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// The UNIX socket.
#[derive(Clone, Debug)]
pub struct Socket {
    /// Its path; at most 107 bytes, which is what the kernel takes.
    pub path: PathBuf,
    /// Who may connect: the file's permissions, such as `0o660`.
    pub mode: u32,
    /// The user who owns it, by number; else the daemon's own.
    pub owner: Option<u32>,
    /// Its group, by number; else the daemon's own.
    pub group: Option<u32>,
}

/// TCP, for clients that show a certificate.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The server's certificate and those between it and the root, as PEM.
    pub certificate: PathBuf,
    /// The key of it, as PEM.
    pub key: PathBuf,
    /// Who signs clients' certificates, as PEM.
    pub client_ca: PathBuf,
}

/// The audit log.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The file; older ones have `.1`, `.2` and so on behind their name.
    pub file: PathBuf,
    /// From this size on a new file is begun.
    pub bytes: u64,
    /// Older files that are kept.
    pub kept: u32,
}

/// What clients can use up at most.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time; the next is told so and closed.
    pub connections: usize,
    /// Bytes of a request's line and headers.
    pub header_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of all bodies that are being received or worked on.
    pub all_bodies_bytes: usize,
    /// Time for a request's headers to come, and for which a connection may rest between requests.
    pub header_time: Duration,
    /// Time for a body to come, and for which a request waits until others are done.
    pub body_time: Duration,
    /// Time in which a client must take some of what it is sent.
    pub write_time: Duration,
    /// Time for which a request waits for an operation that it began, before it is answered with the operation.
    pub patience: Duration,
    /// The same with `wait=true`.
    pub longest_wait: Duration,
    /// Operations that are not ended.
    pub operations: usize,
    /// Operations that are worked on at a time.
    pub operations_at_once: usize,
    /// Ended operations that are kept to be looked at.
    pub operations_kept: usize,
    /// After how long a stream on which nothing happens says that it is alive.
    pub alive: Duration,
    /// Time for requests to come to their end when the server does.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 256,
            header_bytes: 16 << 10,
            headers: 64,
            body_bytes: 4 << 20,
            all_bodies_bytes: 64 << 20,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            patience: Duration::from_secs(1),
            longest_wait: Duration::from_secs(600),
            operations: 64,
            operations_at_once: 2,
            operations_kept: 256,
            alive: Duration::from_secs(15),
            grace: Duration::from_secs(10),
        }
    }
}
