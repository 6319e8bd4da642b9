// UNSAFETY: one call of `getsockopt` for an option that `rustix` does not have. It is run by the tests of this crate.
#![allow(unsafe_code)]
//! The socket at which processes attach, and their users.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, connect, listen, sendmsg, socket_with, sockopt::socket_peercred,
};
use rustix::process::{PidfdFlags, pidfd_open};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4;

/// A socket that listens, and the file that it is known by.
#[derive(Debug)]
pub(crate) struct Listener {
    pub socket: OwnedFd,
    path: PathBuf,
    /// Device and number of the file: another one of its name is another's.
    file: (u64, u64),
}

/// A process at the other end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub pid: u32,
    pub uid: u32,
    pub pidfd: OwnedFd,
}

impl Listener {
    /// Listens at a path, for processes of a user.
    ///
    /// # Errors
    /// Why not, in words for the operator.
    pub fn bind(path: &str, uid: u32) -> Result<Listener, String> {
        let told = |what: &str, error: io::Error| format!("socket `{path}`: {what}: {error}");
        let address = SocketAddrUnix::new(path).map_err(|error| told("its path", error.into()))?;
        remove_stale(Path::new(path), &address)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|error| told("a socket", error.into()))?;
        bind(&socket, &address).map_err(|error| told("making it", error.into()))?;
        // Its user is looked at when a process connects. Processes of other users cannot even do that where the
        // mode can say so.
        let mode = if uid == own_uid() { 0o600 } else { 0o666 };
        let kept = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .and_then(|()| std::fs::symlink_metadata(path));
        let kept = kept.map_err(|error| told("its mode", error))?;
        listen(&socket, BACKLOG).map_err(|error| told("listening", error.into()))?;
        Ok(Listener { socket, path: path.into(), file: (kept.dev(), kept.ino()) })
    }

    /// The next connection; `None` when none waits.
    pub fn accept(&self) -> Option<OwnedFd> {
        accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that nothing listens at any more. What else is in the way stays.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), String> {
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
    let probe = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    match probe.and_then(|probe| connect(&probe, address)) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(|error| told(error.to_string())),
        Err(Errno::PROTOTYPE) | Ok(()) | Err(Errno::AGAIN) => {
            Err(told("another program or port listens there".into()))
        }
        Err(error) => Err(told(error.to_string())),
    }
}

/// The user that this process runs as.
pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Who is at the other end, from when it connected on.
///
/// # Errors
/// The process is gone, or the kernel does not say.
pub(crate) fn peer(connection: &OwnedFd) -> io::Result<Peer> {
    let found = socket_peercred(connection)?;
    let pidfd = match peer_pidfd(connection) {
        // Before Linux 6.5: by its number, which is another's only if the process is gone already.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            pidfd_open(found.pid, PidfdFlags::empty())?
        }
        other => other?,
    };
    let pid = u32::try_from(found.pid.as_raw_nonzero().get()).unwrap_or(0);
    Ok(Peer { pid, uid: found.uid.as_raw(), pidfd })
}

/// `SO_PEERPIDFD` of `asm-generic/socket.h`.
const SO_PEERPIDFD: libc::c_int = 77;

fn peer_pidfd(connection: &OwnedFd) -> io::Result<OwnedFd> {
    let mut descriptor: libc::c_int = -1;
    let mut length = size_of_val(&descriptor) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `descriptor`.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut descriptor).cast(),
            &raw mut length,
        )
    };
    if result < 0 || descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Sends a message, with descriptors if there are any. Never waits.
///
/// # Errors
/// The other side has closed, or does not read.
pub(crate) fn send(connection: &OwnedFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("more descriptors than a message takes"));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(connection, &[IoSlice::new(message)], &mut control, flags)?;
    Ok(())
}
