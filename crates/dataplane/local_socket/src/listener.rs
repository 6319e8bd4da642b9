//! A socket at a path, at which processes of some users connect.

use crate::Users;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4;

/// What a socket passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Messages, which keep their boundaries.
    Messages,
    /// A stream of bytes.
    Stream,
}

impl Kind {
    fn of_socket(self) -> SocketType {
        match self {
            Kind::Messages => SocketType::SEQPACKET,
            Kind::Stream => SocketType::STREAM,
        }
    }
}

/// A socket that listens, and the file that it is known by.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and number of the file: another one of its name is another's.
    file: (u64, u64),
}

impl Listener {
    /// Listens at a path for messages, from processes of these users.
    ///
    /// # Errors
    /// Why not, in words for the operator.
    pub fn bind(path: &str, users: Users) -> Result<Listener, String> {
        Listener::bind_as(Kind::Messages, path, users)
    }

    /// Listens at a path, for processes of these users.
    ///
    /// # Errors
    /// Why not, in words for the operator.
    pub fn bind_as(kind: Kind, path: &str, users: Users) -> Result<Listener, String> {
        let told = |what: &str, error: io::Error| format!("socket `{path}`: {what}: {error}");
        let address = SocketAddrUnix::new(path).map_err(|error| told("its path", error.into()))?;
        remove_stale(kind, Path::new(path), &address)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, kind.of_socket(), flags, None)
            .map_err(|error| told("a socket", error.into()))?;
        bind(&socket, &address).map_err(|error| told("making it", error.into()))?;
        // Its user is looked at when a process connects. Processes of other users cannot even do that where
        // the mode can say so.
        let mode = if users == Users::own() { 0o600 } else { 0o666 };
        let kept = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .and_then(|()| std::fs::symlink_metadata(path));
        let kept = kept.map_err(|error| told("its mode", error))?;
        listen(&socket, BACKLOG).map_err(|error| told("listening", error.into()))?;
        Ok(Listener { socket, path: path.into(), file: (kept.dev(), kept.ino()) })
    }

    /// Whether its file is still where it was made: another program may have removed the folder.
    pub fn is_in_place(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.file)
    }

    /// Readable when a connection waits.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next connection; `None` when none waits.
    pub fn accept(&self) -> Option<OwnedFd> {
        accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.is_in_place() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Connects to a socket for messages that listens at a path. Never waits: one whose queue is full is an
/// error.
///
/// # Errors
/// Nothing listens there, or it may not be reached.
pub fn connect(path: &str) -> io::Result<OwnedFd> {
    connect_as(Kind::Messages, path)
}

/// The same for a socket of this kind.
///
/// # Errors
/// As [`connect`].
pub fn connect_as(kind: Kind, path: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind.of_socket(), flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Removes a socket that nothing listens at any more. What else is in the way stays.
fn remove_stale(kind: Kind, path: &Path, address: &SocketAddrUnix) -> Result<(), String> {
    let told = |what: String| format!("socket `{}`: {what}", path.display());
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(told(error.to_string())),
    };
    if !found.file_type().is_socket() {
        return Err(told("found a file that is no socket; allowed: a path where nothing is".into()));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, kind.of_socket(), flags, None);
    match probe.and_then(|probe| rustix::net::connect(&probe, address)) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(|error| told(error.to_string())),
        Err(Errno::PROTOTYPE) | Ok(()) | Err(Errno::AGAIN) => {
            Err(told("another program or port listens there".into()))
        }
        Err(error) => Err(told(error.to_string())),
    }
}
