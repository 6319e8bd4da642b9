// UNSAFETY: system calls that take pointers to plain structures. The kernel is the other side, so Miri cannot
// run it; the end-to-end tests of the ports do.
#![allow(unsafe_code)]
//! Sockets and their options.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What a system call returned; a negative result is an error, told by `errno`.
///
/// # Errors
/// The one in `errno`.
pub fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Opens a socket that never waits and that no child inherits.
///
/// # Errors
/// The kernel's.
pub fn open_socket(family: c_int, kind: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked before it is taken as a descriptor, and it is new, so owned
    // here alone.
    unsafe {
        let fd = checked(libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sets an option of a socket. Only for options whose values are structures of integers.
///
/// # Errors
/// The kernel's.
pub fn set<T>(fd: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
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

/// Reads an option of a socket; what the kernel does not fill stays zero.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// All-zero and all else is a value of `T`: a structure of integers.
pub unsafe fn get<T>(fd: &OwnedFd, level: c_int, option: c_int) -> io::Result<T> {
    // SAFETY: the caller vouches for `T`; the kernel writes at most the length that it is told.
    unsafe {
        let mut value: T = std::mem::zeroed();
        let mut length = size_of::<T>() as libc::socklen_t;
        checked(libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &mut length))?;
        Ok(value)
    }
}
