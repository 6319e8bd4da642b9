// UNSAFETY: a packet socket is bound by an address of its own kind. The kernel is the other side, so Miri
// cannot run it; the end-to-end tests do.
#![allow(unsafe_code)]
//! Packet sockets: where they are bound, and how much they hold.

use kernel_interface::socket::{checked, set};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

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

/// Sets how much may wait in the kernel, by one of the options that may exceed the limit set for all, or else
/// by the plain one. The kernel doubles the figure for its own overhead.
pub(crate) fn set_buffer(fd: &OwnedFd, forced: c_int, plain: c_int, bytes: u64) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX).min(c_int::MAX / 2);
    set(fd, libc::SOL_SOCKET, forced, &bytes).or_else(|_| set(fd, libc::SOL_SOCKET, plain, &bytes))
}
