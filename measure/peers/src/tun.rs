// UNSAFETY: making a TUN device is one ioctl without a safe wrapper, which reads and writes a struct on the
// stack; the test runs it.
#![allow(unsafe_code)]
//! A TUN device: IP packets that this process puts into a namespace's kernel, and takes out of it.

use crate::PeerError;
use crate::error::kernel;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use testbed::Namespace;

/// `linux/if_tun.h`: IP without a header before it.
const FLAGS: libc::c_short = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;

/// A TUN device, gone with this value.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Makes one in a namespace, of a name of at most 15 bytes.
    ///
    /// # Errors
    /// [`PeerError::Kernel`]: no TUN devices, no right to make one, or a name that is taken.
    pub fn new(namespace: &Namespace, name: &str) -> Result<Tun, PeerError> {
        let made = namespace.enter(|| -> io::Result<OwnedFd> {
            let device =
                open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
            // SAFETY: all-zero is a valid `ifreq`; the kernel reads and writes this one, which outlives the
            // call.
            let status = unsafe {
                let mut request: libc::ifreq = std::mem::zeroed();
                for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
                    *to = from as libc::c_char;
                }
                request.ifr_ifru.ifru_flags = FLAGS;
                libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request)
            };
            if status == 0 { Ok(device) } else { Err(io::Error::last_os_error()) }
        });
        made.map(Tun).map_err(kernel("making a TUN device"))
    }

    /// Puts a packet in. The kernel has routed it when this returns. What it cannot read as IP is lost.
    ///
    /// # Errors
    /// [`PeerError::Kernel`].
    pub fn put(&self, packet: &[u8]) -> Result<(), PeerError> {
        match write(&self.0, packet) {
            Ok(_) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(kernel("writing to a TUN device")(error)),
        }
    }

    /// Takes a packet out, if there is one.
    ///
    /// # Errors
    /// [`PeerError::Kernel`].
    pub fn take<'a>(&self, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, PeerError> {
        match read(&self.0, &mut *buffer) {
            Ok(length) => Ok(buffer.get(..length)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(kernel("reading from a TUN device")(error)),
        }
    }
}
