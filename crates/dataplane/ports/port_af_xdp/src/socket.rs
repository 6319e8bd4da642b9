// UNSAFETY: options, mappings and addresses of AF_XDP sockets have no safe wrapper. The kernel is the other
// side, so Miri cannot run it; the end-to-end tests do.
#![allow(unsafe_code)]
//! An AF_XDP socket: its memory, its four rings, where it is bound, and the calls that wake the kernel
//! (`linux/if_xdp.h`, `Documentation/networking/af_xdp.rst`).

use crate::ring::{Consumer, Layout, Mapping, Producer};
use kernel_interface::socket::{checked, get, open_socket, set};
use packet_memory::MemoryFile;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes that may wait for transmission inside the kernel: copies that the far end has not taken.
const TRANSMIT_BUFFER: c_int = 4 << 20;

/// Sets how many packets one system call sends in copy mode; since Linux 6.17, 32 before.
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;

/// `struct xdp_desc`: bytes in the UMEM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Descriptor {
    /// The first byte, from the UMEM's beginning.
    pub address: u64,
    /// How many.
    pub length: u32,
    /// Nothing that is used here.
    pub options: u32,
}

/// Entries in the rings of a socket, powers of two; one without a transmit ring only receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSizes {
    pub receive: u32,
    pub transmit: Option<u32>,
    pub completion: u32,
}

/// The rings of a socket.
#[derive(Debug)]
pub(crate) struct Rings {
    pub fill: Producer<u64>,
    pub received: Consumer<Descriptor>,
    pub transmit: Option<Producer<Descriptor>>,
    pub completed: Consumer<u64>,
}

/// How a socket is bound.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding<'a> {
    /// As the first, which says whether the kernel copies.
    First { zero_copy: bool },
    /// With the memory of another, and as that.
    Sharing(&'a Socket),
}

/// An AF_XDP socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    pub fn new() -> io::Result<Socket> {
        open_socket(libc::AF_XDP, libc::SOCK_RAW).map(Socket)
    }

    /// Makes `memory` the socket's UMEM, in chunks of `chunk` bytes. The kernel keeps the pages, whatever
    /// becomes of the mapping.
    pub fn register(&self, memory: &MemoryFile, chunk: u32, headroom: u32) -> io::Result<()> {
        let request = libc::xdp_umem_reg_v1 {
            addr: memory.base().as_ptr() as u64,
            len: memory.len() as u64,
            chunk_size: chunk,
            headroom,
        };
        set(&self.0, libc::SOL_XDP, libc::XDP_UMEM_REG, &request)
    }

    /// Makes the rings and maps them.
    pub fn make_rings(&self, sizes: RingSizes) -> io::Result<Rings> {
        set(&self.0, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &sizes.receive)?;
        set(&self.0, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &sizes.completion)?;
        set(&self.0, libc::SOL_XDP, libc::XDP_RX_RING, &sizes.receive)?;
        if let Some(entries) = sizes.transmit {
            set(&self.0, libc::SOL_XDP, libc::XDP_TX_RING, &entries)?;
            // Kernels before 6.17 do not know it and take 32 packets in a call.
            let _ = set(&self.0, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &entries);
            set(&self.0, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &TRANSMIT_BUFFER)
                .or_else(|_| set(&self.0, libc::SOL_SOCKET, libc::SO_SNDBUF, &TRANSMIT_BUFFER))?;
        }
        // SAFETY: the option's value is a structure of integers.
        let offsets: libc::xdp_mmap_offsets = unsafe { get(&self.0, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS) }?;
        let (mapping, layout) =
            self.map::<u64>(libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, &offsets.fr, sizes.receive)?;
        let fill = Producer::new(mapping, layout, sizes.receive).ok_or_else(unfit)?;
        let (mapping, layout) = self.map::<u64>(
            libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
            &offsets.cr,
            sizes.completion,
        )?;
        let completed = Consumer::new(mapping, layout, sizes.completion).ok_or_else(unfit)?;
        let (mapping, layout) =
            self.map::<Descriptor>(libc::XDP_PGOFF_RX_RING, &offsets.rx, sizes.receive)?;
        let received = Consumer::new(mapping, layout, sizes.receive).ok_or_else(unfit)?;
        let transmit = match sizes.transmit {
            Some(entries) => {
                let (mapping, layout) =
                    self.map::<Descriptor>(libc::XDP_PGOFF_TX_RING, &offsets.tx, entries)?;
                Some(Producer::new(mapping, layout, entries).ok_or_else(unfit)?)
            }
            None => None,
        };
        Ok(Rings { fill, received, transmit, completed })
    }

    fn map<T>(
        &self,
        offset: libc::off_t,
        parts: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<(Mapping, Layout)> {
        let place = |offset: u64| usize::try_from(offset).map_err(|_| unfit());
        let layout = Layout {
            producer: place(parts.producer)?,
            consumer: place(parts.consumer)?,
            flags: place(parts.flags)?,
            entries: place(parts.desc)?,
        };
        let length = layout.length::<T>(size);
        // SAFETY: a new shared mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                self.0.as_raw_fd(),
                offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok((Mapping { base, length }, layout))
    }

    /// Binds to a queue of an interface.
    pub fn bind(&self, index: i32, queue: u32, binding: Binding<'_>) -> io::Result<()> {
        let (flags, shared) = match binding {
            Binding::First { zero_copy: true } => (libc::XDP_ZEROCOPY | libc::XDP_USE_NEED_WAKEUP, 0),
            Binding::First { zero_copy: false } => (libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP, 0),
            // The others do as the first one does; saying so again is refused.
            Binding::Sharing(first) => (libc::XDP_SHARED_UMEM, first.0.as_raw_fd() as u32),
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: index as u32,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: shared,
        };
        let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: the address is a sockaddr_xdp of the length given.
        unsafe { checked(libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length)) }.map(|_| ())
    }

    /// Has the kernel look at the transmit ring; in copy mode it sends before it returns.
    #[inline]
    pub fn kick_transmit(&self) -> io::Result<()> {
        // SAFETY: no bytes, no address.
        let result = unsafe {
            libc::sendto(self.0.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Has the driver look at the fill ring.
    #[inline]
    pub fn kick_receive(&self) -> io::Result<()> {
        // SAFETY: no bytes, no address.
        let result = unsafe {
            libc::recvfrom(
                self.0.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// What the kernel counted since the socket was made.
    pub fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: the option's value is a structure of integers.
        unsafe { get(&self.0, libc::SOL_XDP, libc::XDP_STATISTICS) }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn unfit() -> io::Error {
    io::Error::other("the layout of the rings makes no sense")
}

/// One descriptor that is readable when any of these sockets is.
pub(crate) fn any_readable<'a>(sockets: impl IntoIterator<Item = &'a Socket>) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked before it is taken as a descriptor, and it is new, so owned
    // here alone.
    let any = unsafe {
        let fd = checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
        OwnedFd::from_raw_fd(fd)
    };
    for socket in sockets {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event is borrowed for the call.
        unsafe {
            checked(libc::epoll_ctl(any.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.0.as_raw_fd(), &mut event))?;
        }
    }
    Ok(any)
}
