// UNSAFETY: system calls that have no safe wrapper: requests to the TAP driver, readv and writev straight
// into and out of packet memory. The kernel is the other side, so Miri cannot run it; the end-to-end tests
// do.
#![allow(unsafe_code)]
//! One queue of a TAP device: a descriptor of the driver's file.

use packet_memory::{Packet, Pool};
use std::ffi::{c_int, c_short, c_uint, c_ulong};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use virtio_net::VnetHeader;

/// The driver's file.
pub(crate) const DRIVER: &str = "/dev/net/tun";

/// What is in front of a packet.
pub(crate) type Header = [u8; VnetHeader::LENGTH];

/// A queue, attached to a device or not yet.
#[derive(Debug)]
pub(crate) struct Queue(OwnedFd);

impl Queue {
    /// Opens the driver's file.
    pub fn open(file: &str) -> io::Result<Queue> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(file)?;
        Ok(Queue(file.into()))
    }

    /// Attaches it to the device of this name, which is made if it is not there and the process may.
    pub fn attach(&self, name: &str, flags: c_int) -> io::Result<()> {
        let mut request = empty_request();
        for (place, byte) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = flags as c_short;
        self.request(libc::TUNSETIFF, &raw mut request as c_ulong).map(|_| ())
    }

    /// Name and flags of the device that it is attached to.
    pub fn describe(&self) -> io::Result<(String, c_int)> {
        let mut request = empty_request();
        self.request(libc::TUNGETIFF, &raw mut request as c_ulong)?;
        let name: Vec<u8> = request.ifr_name.iter().map(|&c| c as u8).take_while(|&byte| byte != 0).collect();
        // SAFETY: TUNGETIFF writes the flags into this field of the union, and zeroes are integers too.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        Ok((String::from_utf8_lossy(&name).into_owned(), c_int::from(flags as u16)))
    }

    /// The network namespace that the device is in.
    pub fn namespace(&self) -> io::Result<OwnedFd> {
        let fd = self.request(libc::TUNGETDEVNETNS, 0)?;
        // SAFETY: a descriptor that the kernel just made for this call.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Bytes in front of each packet.
    pub fn set_header_size(&self, bytes: usize) -> io::Result<()> {
        let bytes = bytes as c_int;
        self.request(libc::TUNSETVNETHDRSZ, &raw const bytes as c_ulong).map(|_| ())
    }

    /// What the kernel may leave to us.
    pub fn set_offload(&self, features: c_uint) -> io::Result<()> {
        self.request(libc::TUNSETOFFLOAD, c_ulong::from(features)).map(|_| ())
    }

    /// The device outlives its descriptors.
    pub fn set_persistent(&self) -> io::Result<()> {
        self.request(libc::TUNSETPERSIST, 1).map(|_| ())
    }

    /// The user that may open it without privileges.
    pub fn set_owner(&self, user: u32) -> io::Result<()> {
        self.request(libc::TUNSETOWNER, c_ulong::from(user)).map(|_| ())
    }

    /// Whose members may open it without privileges.
    pub fn set_group(&self, group: u32) -> io::Result<()> {
        self.request(libc::TUNSETGROUP, c_ulong::from(group)).map(|_| ())
    }

    /// Only for requests of the TAP driver whose argument is a number, or the address of a value that is as
    /// large as the request's and lives until the call returns.
    fn request(&self, request: libc::Ioctl, argument: c_ulong) -> io::Result<c_int> {
        // SAFETY: all callers are above and do so.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    /// Reads a packet: its header, its bytes into the buffer as far as there is room, the rest into
    /// `overflow`. Returns the packet's length; the packet's own is as before.
    #[inline]
    pub fn read(
        &self,
        header: &mut Header,
        pool: &Pool,
        packet: &mut Packet,
        overflow: &mut [u8],
    ) -> io::Result<usize> {
        let room = pool.room() as usize;
        let parts =
            [part(header), libc::iovec { iov_base: pool.data(packet).cast(), iov_len: room }, part(overflow)];
        self.read_parts(&parts)
    }

    /// Reads a packet and drops it; returns its length.
    pub fn discard(&self, header: &mut Header, overflow: &mut [u8]) -> io::Result<usize> {
        self.read_parts(&[part(header), part(overflow)])
    }

    /// Only for parts that are ours to write.
    #[inline]
    fn read_parts(&self, parts: &[libc::iovec]) -> io::Result<usize> {
        // SAFETY: the callers' parts are borrowed mutably, or a buffer of the pool from the packet's first
        // byte to the buffer's end, whose only owner lent it to us mutably; guests may read what is being
        // written, which harms only themselves.
        let length = unsafe { libc::readv(self.0.as_raw_fd(), parts.as_ptr(), parts.len() as c_int) };
        match usize::try_from(length) {
            Ok(length) => Ok(length.saturating_sub(VnetHeader::LENGTH)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// Writes a packet with this header.
    #[inline]
    pub fn write(&self, header: &mut Header, pool: &Pool, packet: &Packet) -> io::Result<()> {
        let data = libc::iovec { iov_base: pool.data(packet).cast(), iov_len: packet.length() as usize };
        let parts = [part(header), data];
        // SAFETY: the kernel reads the header, which is borrowed, and the packet's extent, which lies in its
        // buffer; that a guest may change the bytes meanwhile changes what is sent, nothing else.
        let written = unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr(), parts.len() as c_int) };
        if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl From<OwnedFd> for Queue {
    fn from(queue: OwnedFd) -> Queue {
        Queue(queue)
    }
}

impl From<Queue> for OwnedFd {
    fn from(queue: Queue) -> OwnedFd {
        queue.0
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[inline]
fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn empty_request() -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq: an empty name and an integer.
    unsafe { std::mem::zeroed() }
}
