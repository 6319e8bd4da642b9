// UNSAFETY: system calls on sockets that have no safe wrapper. The kernel is the other side, so Miri cannot run it; the
// end-to-end tests do.
#![allow(unsafe_code)]
//! Sockets and their options.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A socket that does not wait and does not outlive an exec.
pub(crate) fn open_socket(family: c_int, kind: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked before it is taken as a descriptor that nobody else has.
    unsafe {
        let fd = checked(libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Binds a packet socket to an interface, to receive frames of this protocol; none when it is 0.
pub(crate) fn bind(fd: &OwnedFd, index: i32, protocol: c_int) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (protocol as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is a sockaddr_ll of the length given.
    unsafe { checked(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length)) }.map(|_| ())
}

/// Sets how much may wait in the kernel, by one of the options that may exceed the limit set for all, or else by the plain
/// one. The kernel doubles the figure for its own overhead.
pub(crate) fn set_buffer(fd: &OwnedFd, forced: c_int, plain: c_int, bytes: u64) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX).min(c_int::MAX / 2);
    set(fd, libc::SOL_SOCKET, forced, &bytes).or_else(|_| set(fd, libc::SOL_SOCKET, plain, &bytes))
}

/// Sets an option.
pub(crate) fn set<T>(fd: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let value: *const T = value;
    // SAFETY: the kernel reads `size_of::<T>()` bytes at a value that is borrowed for the call.
    unsafe {
        checked(libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            value.cast::<c_void>(),
            size_of::<T>() as libc::socklen_t,
        ))
    }
    .map(|_| ())
}

/// Reads an option. Only for options whose values are plain integers or structures of such.
pub(crate) fn get<T>(fd: &OwnedFd, level: c_int, option: c_int) -> io::Result<T> {
    // SAFETY: callers ask for types for which all-zero is a value; the kernel writes at most the length it is told.
    unsafe {
        let mut value: T = std::mem::zeroed();
        let mut length = size_of::<T>() as libc::socklen_t;
        checked(libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &mut length))?;
        Ok(value)
    }
}

/// What a system call returned, or why it failed.
pub(crate) fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
