// UNSAFETY: one call of `getsockopt` for an option that `rustix` does not have. It is run by the tests of
// `port_native`.
#![allow(unsafe_code)]
//! The process at the other end of a connection, and its user.

use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A process at the other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its number, as this process sees it.
    pub pid: u32,
    /// Its user when it connected, or began to listen.
    pub uid: u32,
    /// Readable when it is gone.
    pub pidfd: OwnedFd,
}

/// The user that this process runs as.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Which process is at the other end, from when it connected on.
///
/// # Errors
/// The process is gone, or the kernel does not say.
pub fn peer(connection: &OwnedFd) -> io::Result<Peer> {
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
