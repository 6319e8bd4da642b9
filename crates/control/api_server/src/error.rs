//! Why the server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server does not start. Nothing listens then, and no file is left behind.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another daemon answers on the socket.
    #[error("{0}: another daemon answers on this socket; one at a time is allowed")]
    InUse(PathBuf),
    /// Both sockets have one path.
    #[error("{0}: found as the administrators' socket and as the tenants'; allowed: two paths")]
    OneSocket(PathBuf),
    /// There is something else of this name.
    #[error("{0}: there is a file of this name that is no socket; choose another path, or remove it")]
    NotASocket(PathBuf),
    /// The path is too long for a socket.
    #[error("{path}: found a path of {found} bytes; allowed for a socket: at most {allowed}")]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        found: usize,
        /// What the kernel takes.
        allowed: usize,
    },
    /// Permissions that are none.
    #[error("the socket's mode: found {0:o} (octal); allowed: 0 to 777")]
    Mode(u32),
    /// The system refused something with a file.
    #[error("{path}: {what}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The system refused the address.
    #[error("{address}: cannot listen: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// Metrics are given in the clear on loopback alone.
    #[error(
        "metrics over plain HTTP: found {0}; allowed: a loopback address, such as 127.0.0.1:9100 or [::1]:9100"
    )]
    NotLoopback(SocketAddr),
    /// The page is encrypted wherever it is not on loopback.
    #[error(
        "the page: found {0} without a certificate; allowed: a loopback address, such as 127.0.0.1:8800, or any with --tls-cert and --tls-key"
    )]
    PageInTheClear(SocketAddr),
    /// A certificate or a key cannot be used.
    #[error("{path}: {what}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What was found, and what is allowed.
        what: String,
    },
    /// The system refused what the server runs on.
    #[error("cannot start the server: {0}")]
    Runtime(io::Error),
    /// What an older program wrote cannot be given the tenant that it had.
    #[error(
        "the store's objects without a tenant: they cannot be written anew with the tenant that they had: {0}"
    )]
    Tenancy(String),
    /// An object in the store is none.
    #[error(
        "the store's {object}: {what}; it was written by a newer version of the program, or by another one"
    )]
    Object {
        /// Kind and name.
        object: String,
        /// What was found.
        what: String,
    },
}
