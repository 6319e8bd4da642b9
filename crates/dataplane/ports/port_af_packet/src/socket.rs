// UNSAFETY: system calls that have no safe wrapper: sendmmsg and recvmsg straight from and into packet
// memory. The kernel is the other side, so Miri cannot run it; the end-to-end tests do.
#![allow(unsafe_code)]
//! The packet socket: what it says of itself, and frames by message: all that are longer than a slot of a
//! ring.

use crate::intake::{ADDRESSES, LongFrame, LongFrames};
use crate::slot::VlanTag;
use kernel_interface::socket::{checked, get};
use packet_memory::{Packet, Pool};
use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use virtio_net::VnetHeader;

/// Most packets in one system call.
const SEND_BATCH: usize = 64;

/// Pointers for one `sendmmsg`, kept so that they need no clearing.
struct Batch {
    headers: [[u8; VnetHeader::LENGTH]; SEND_BATCH],
    parts: [[libc::iovec; 2]; SEND_BATCH],
    messages: [libc::mmsghdr; SEND_BATCH],
}

// SAFETY: the pointers inside are written before each use and never followed by us.
unsafe impl Send for Batch {}

/// A packet socket bound to an interface.
pub(crate) struct Socket {
    fd: OwnedFd,
    vnet: bool,
    batch: Box<Batch>,
}

impl Socket {
    /// Takes over a packet socket; `vnet` says whether it carries virtio-net headers.
    pub fn new(fd: OwnedFd, vnet: bool) -> Socket {
        // SAFETY: all-zero is a valid value of these: integers and null pointers.
        let batch = Box::new(unsafe { std::mem::zeroed() });
        Socket { fd, vnet, batch }
    }

    /// The number of the interface that the socket is bound to; -1 when that is gone.
    pub fn bound_to(&self) -> io::Result<i32> {
        // SAFETY: all-zero is a valid sockaddr_ll, and the kernel writes at most the length it is told.
        unsafe {
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            checked(libc::getsockname(self.fd.as_raw_fd(), (&raw mut address).cast(), &mut length))?;
            Ok(address.sll_ifindex)
        }
    }

    /// What happened to the interface since the last call, if something did.
    pub fn pending_error(&self) -> Option<io::Error> {
        // SAFETY: an integer.
        match unsafe { get::<c_int>(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR) } {
            Ok(0) => None,
            Ok(number) => Some(io::Error::from_raw_os_error(number)),
            Err(error) => Some(error),
        }
    }

    /// Frames lost because the ring was full, since the last call.
    pub fn lost(&self) -> u64 {
        // SAFETY: a structure of integers.
        unsafe { get::<libc::tpacket_stats>(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS) }
            .map_or(0, |statistics| u64::from(statistics.tp_drops))
    }

    /// Bytes that may wait for transmission.
    pub fn transmit_buffer(&self) -> u64 {
        // SAFETY: an integer.
        unsafe { get::<c_int>(&self.fd, libc::SOL_SOCKET, libc::SO_SNDBUF) }
            .map_or(0, |bytes| bytes.max(0) as u64)
    }

    /// Sends the first of `packets`, at most [`SEND_BATCH`], as far as the kernel takes them; returns how
    /// many, one at least.
    ///
    /// # Errors
    /// Why it did not take the very first.
    #[inline]
    pub fn send(&mut self, pool: &Pool, packets: &[Packet]) -> io::Result<usize> {
        let count = packets.len().min(SEND_BATCH);
        let Batch { headers, parts, messages } = &mut *self.batch;
        for (n, packet) in packets[..count].iter().enumerate() {
            headers[n] = VnetHeader::of(packet.record()).to_bytes();
            parts[n] = [
                libc::iovec { iov_base: headers[n].as_mut_ptr().cast(), iov_len: VnetHeader::LENGTH },
                libc::iovec { iov_base: pool.data(packet).cast(), iov_len: packet.length() as usize },
            ];
            let skipped = usize::from(!self.vnet);
            messages[n].msg_hdr.msg_iov = parts[n][skipped..].as_mut_ptr();
            messages[n].msg_hdr.msg_iovlen = 2 - skipped;
        }
        // SAFETY: the first `count` messages were just pointed at headers and parts that live in `self`, and
        // at packets that are borrowed; the kernel reads all of them before it returns. A packet's extent
        // lies in its buffer; that a guest may change the bytes meanwhile changes what is sent, nothing else.
        let sent = unsafe {
            checked(libc::sendmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                count as c_uint,
                libc::MSG_DONTWAIT,
            ))
        };
        sent.map(|sent| sent as usize)
    }
}

impl Socket {
    /// Receives the oldest frame of the queue. Only for parts that are ours to write.
    fn receive(&self, parts: &mut [libc::iovec]) -> io::Result<usize> {
        // SAFETY: all-zero is a valid msghdr. The callers' parts are borrowed mutably, or a packet's extent,
        // which lies in its buffer and whose only owner lent it to us mutably; guests may read what is being
        // written, which harms only themselves.
        let length = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = parts.as_mut_ptr();
            message.msg_iovlen = parts.len();
            libc::recvmsg(self.fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT | libc::MSG_TRUNC)
        };
        usize::try_from(length).map_err(|_| io::Error::last_os_error())
    }

    /// As [`Socket::receive`]. An error of the interface is told by whatever call comes first, once; looking
    /// at the interface finds it as well.
    fn receive_despite_error(&self, parts: &mut [libc::iovec]) -> io::Result<usize> {
        self.receive(parts).or_else(|_| self.receive(parts))
    }
}

impl LongFrames for Socket {
    fn take(&mut self, pool: &Pool, packet: &mut Packet, tagged: bool) -> io::Result<LongFrame> {
        let mut header = [0; VnetHeader::LENGTH];
        let (data, length) = (pool.data(packet), packet.length() as usize);
        // Behind the addresses there is room for a tag, if there is one.
        let first = if tagged { ADDRESSES.min(length) } else { length };
        let skipped = if tagged { (ADDRESSES + VlanTag::LENGTH).min(length) } else { length };
        let mut parts = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: VnetHeader::LENGTH },
            libc::iovec { iov_base: data.cast(), iov_len: first },
            libc::iovec { iov_base: data.wrapping_add(skipped).cast(), iov_len: length - skipped },
        ];
        let in_front = if self.vnet { VnetHeader::LENGTH } else { 0 };
        let received = self.receive_despite_error(&mut parts[usize::from(!self.vnet)..])?;
        let vnet = self.vnet.then(|| VnetHeader::from_bytes(&header));
        Ok(LongFrame { length: received.saturating_sub(in_front), vnet })
    }

    fn read(&mut self, into: &mut [u8], tagged: bool) -> io::Result<LongFrame> {
        let mut header = [0; VnetHeader::LENGTH];
        let length = into.len();
        let first = if tagged { ADDRESSES.min(length) } else { length };
        let (front, rest) = into.split_at_mut(first);
        let rest = rest.get_mut(if tagged { VlanTag::LENGTH } else { 0 }..).unwrap_or_default();
        let mut parts = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: VnetHeader::LENGTH },
            libc::iovec { iov_base: front.as_mut_ptr().cast(), iov_len: front.len() },
            libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() },
        ];
        let in_front = if self.vnet { VnetHeader::LENGTH } else { 0 };
        let received = self.receive_despite_error(&mut parts[usize::from(!self.vnet)..])?;
        let vnet = self.vnet.then(|| VnetHeader::from_bytes(&header));
        Ok(LongFrame { length: received.saturating_sub(in_front), vnet })
    }

    fn discard(&mut self) -> io::Result<()> {
        // A header that is to come must have room.
        let mut header = [0; VnetHeader::LENGTH];
        let part = libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: VnetHeader::LENGTH };
        self.receive_despite_error(&mut [part]).map(|_| ())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
