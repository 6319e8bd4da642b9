// UNSAFETY: system calls that have no safe wrapper: packet socket options, interface requests, sendmmsg straight from
// packet memory. The kernel is the other side, so Miri cannot run it; the end-to-end tests do.
#![allow(unsafe_code)]
//! The packet socket, and what the kernel says about the interface.

use crate::ring::{BLOCK, Ring};
use crate::{OpenError, Settings};
use packet_memory::{Packet, Pool};
use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use virtio_net::VnetHeader;

/// Most packets in one system call.
pub(crate) const SEND_BATCH: usize = 64;

/// What is asked for when the settings say nothing of the transmit buffer.
const TRANSMIT_BUFFER: u64 = 4 << 20;

/// `linux/ethtool.h`: commands that read one value, and the bit of large receive offload in the flags.
mod ethtool {
    pub const GET_TX_CHECKSUM: u32 = 0x16;
    pub const GET_FLAGS: u32 = 0x25;
    pub const GET_GRO: u32 = 0x2b;
    pub const FLAG_LRO: u32 = 1 << 15;
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// What the kernel says of an interface name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// No interface has it.
    Absent,
    /// One has.
    Present {
        /// The interface's number; another one after it was made anew.
        index: i32,
        /// It is switched on.
        up: bool,
        /// It has a carrier.
        carrier: bool,
    },
}

/// A way to ask about interfaces that lasts longer than any packet socket. Stays in the network namespace in which
/// it was made.
#[derive(Debug)]
pub(crate) struct Inquiry(OwnedFd);

impl Inquiry {
    pub fn new() -> io::Result<Inquiry> {
        Ok(Inquiry(open_socket(libc::AF_UNIX, libc::SOCK_DGRAM)?))
    }

    /// Whether and how an interface of this name is there.
    pub fn presence(&self, name: &str) -> io::Result<Presence> {
        let absent = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
        let mut request = request(name);
        // SAFETY: both commands read the name and write into the union, inside `request`; each is then read by the
        // field that the command fills.
        let (index, flags) = unsafe {
            match checked(libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFINDEX, &mut request)) {
                Err(error) if absent(&error) => return Ok(Presence::Absent),
                other => other?,
            };
            let index = request.ifr_ifru.ifru_ifindex;
            match checked(libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFFLAGS, &mut request)) {
                Err(error) if absent(&error) => return Ok(Presence::Absent),
                other => other?,
            };
            (index, c_int::from(request.ifr_ifru.ifru_flags))
        };
        Ok(Presence::Present {
            index,
            up: flags & libc::IFF_UP != 0,
            carrier: flags & libc::IFF_RUNNING != 0,
        })
    }

    /// The `ARPHRD_` number of its kind.
    fn hardware_type(&self, name: &str) -> io::Result<u16> {
        let mut request = request(name);
        // SAFETY: as in `presence`.
        unsafe {
            checked(libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request))?;
            Ok(request.ifr_ifru.ifru_hwaddr.sa_family)
        }
    }

    /// A value by ethtool; 0 when the driver has none.
    fn ethtool(&self, name: &str, command: u32) -> u32 {
        let mut value = EthtoolValue { command, data: 0 };
        let mut request = request(name);
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: these commands take a `struct ethtool_value`, which outlives the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCETHTOOL, &mut request) };
        if result < 0 { 0 } else { value.data }
    }
}

/// Refuses interfaces that merge frames, or leave checksums out, in a way that the port could not carry.
fn check_kind(inquiry: &Inquiry, settings: &Settings) -> Result<(), OpenError> {
    let name = settings.interface.as_str();
    let hardware_type = inquiry.hardware_type(name).map_err(system(name, "asking for its kind"))?;
    if hardware_type != libc::ARPHRD_ETHER {
        return Err(OpenError::NotEthernet { interface: name.to_owned(), hardware_type });
    }
    let on = |command, bits| inquiry.ethtool(name, command) & bits != 0;
    let mut switches = Vec::new();
    if on(ethtool::GET_FLAGS, ethtool::FLAG_LRO) {
        switches.push("lro off");
    }
    if !settings.offload {
        if on(ethtool::GET_GRO, !0) {
            switches.push("gro off");
        }
        if on(ethtool::GET_TX_CHECKSUM, !0) {
            switches.push("tx off");
        }
    }
    if switches.is_empty() {
        return Ok(());
    }
    let why = match settings.offload {
        true => "its large receive offload merges frames without saying of what size they were",
        false => "`offload: off` carries no segmentation and no unfinished checksum, and its offloads are on",
    };
    Err(OpenError::Offloads { interface: name.to_owned(), why, switches: switches.join(" ") })
}

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
    /// Opens, sets up and binds; nothing is received before everything is in place.
    pub fn open(inquiry: &Inquiry, settings: &Settings) -> Result<(Socket, Ring), OpenError> {
        let name = settings.interface.as_str();
        let Presence::Present { index, .. } =
            inquiry.presence(name).map_err(system(name, "asking for its number"))?
        else {
            return Err(OpenError::NoInterface { interface: name.to_owned(), present: present() });
        };
        let fd =
            open_socket(libc::AF_PACKET, libc::SOCK_RAW).map_err(|source| match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => OpenError::NoPermission { interface: name.to_owned() },
                _ => OpenError::System {
                    interface: name.to_owned(),
                    operation: "opening a packet socket",
                    source,
                },
            })?;
        check_kind(inquiry, settings)?;

        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(system(name, "asking for a ring of version 3"))?;
        if settings.offload {
            set(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)
                .map_err(|source| OpenError::NoVnetHeader { interface: name.to_owned(), source })?;
        }
        // Kernels before 4.20 do not know it; then the frames' own packet type tells.
        let _ = set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        set_transmit_buffer(&fd, settings.transmit_buffer.unwrap_or(TRANSMIT_BUFFER))
            .map_err(system(name, "setting the transmit buffer"))?;

        let ring = make_ring(&fd, settings)?;
        bind(&fd, index).map_err(system(name, "binding to it"))?;
        if settings.promiscuous {
            let membership = libc::packet_mreq {
                mr_ifindex: index,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            set(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
                .map_err(system(name, "making it promiscuous"))?;
        }
        // SAFETY: all-zero is a valid value of these: integers and null pointers.
        let batch = Box::new(unsafe { std::mem::zeroed() });
        Ok((Socket { fd, vnet: settings.offload, batch }, ring))
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
        match get::<c_int>(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR) {
            Ok(0) => None,
            Ok(number) => Some(io::Error::from_raw_os_error(number)),
            Err(error) => Some(error),
        }
    }

    /// Frames lost because the ring was full, since the last call.
    pub fn lost(&self) -> u64 {
        get::<libc::tpacket_stats_v3>(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)
            .map_or(0, |statistics| u64::from(statistics.tp_drops))
    }

    /// Bytes that may wait for transmission.
    pub fn transmit_buffer(&self) -> u64 {
        get::<c_int>(&self.fd, libc::SOL_SOCKET, libc::SO_SNDBUF).map_or(0, |bytes| bytes.max(0) as u64)
    }

    /// Sends the first of `packets`, at most [`SEND_BATCH`], as far as the kernel takes them; returns how many, one
    /// at least.
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
        // SAFETY: the first `count` messages were just pointed at headers and parts that live in `self`, and at
        // packets that are borrowed; the kernel reads all of them before it returns. A packet's extent lies in its
        // buffer; that a guest may change the bytes meanwhile changes what is sent, nothing else.
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

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn make_ring(fd: &OwnedFd, settings: &Settings) -> Result<Ring, OpenError> {
    let blocks = (settings.ring / BLOCK as u64).clamp(2, (1 << 30) / BLOCK as u64) as usize;
    let retire = settings.retire.0.div_ceil(1_000_000).clamp(1, 1_000) as c_uint;
    let request = libc::tpacket_req3 {
        tp_block_size: BLOCK as c_uint,
        tp_block_nr: blocks as c_uint,
        // Version 3 lays frames out by their own length; the size is only checked for consistency.
        tp_frame_size: BLOCK as c_uint,
        tp_frame_nr: blocks as c_uint,
        tp_retire_blk_tov: retire,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
        .and_then(|()| Ring::map(fd.as_fd(), blocks))
        .map_err(|source| OpenError::Ring {
            interface: settings.interface.clone(),
            bytes: blocks * BLOCK,
            source,
        })
}

fn bind(fd: &OwnedFd, index: i32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
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

/// The kernel doubles the figure for its own overhead; what an unprivileged process asks for beyond
/// `net.core.wmem_max` is cut to that.
fn set_transmit_buffer(fd: &OwnedFd, bytes: u64) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX / 2);
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
        .or_else(|_| set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))
}

fn open_socket(family: c_int, kind: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked before it is taken as a descriptor that nobody else has.
    unsafe {
        let fd = checked(libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// An interface request for a name that was checked to be short enough.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq: an empty name and an integer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request
}

fn set<T>(fd: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
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

/// Only for options whose values are plain integers or structures of such.
fn get<T>(fd: &OwnedFd, level: c_int, option: c_int) -> io::Result<T> {
    // SAFETY: callers ask for types for which all-zero is a value; the kernel writes at most the length it is told.
    unsafe {
        let mut value: T = std::mem::zeroed();
        let mut length = size_of::<T>() as libc::socklen_t;
        checked(libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &mut length))?;
        Ok(value)
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn system(name: &str, operation: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    let interface = name.to_owned();
    move |source| OpenError::System { interface, operation, source }
}

/// Names of the interfaces that there are, to put beside one that is not there.
fn present() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}
