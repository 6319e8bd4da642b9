// UNSAFETY: requests about interfaces have no safe wrapper. The kernel is the other side, so Miri cannot run
// it; the end-to-end tests of the ports do.
#![allow(unsafe_code)]
//! What the kernel says about an interface.

use crate::socket::{checked, open_socket};
use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// `linux/ethtool.h`: commands.
mod ethtool {
    pub const GET_DRIVER: u32 = 0x03;
    pub const GET_TX_CHECKSUM: u32 = 0x16;
    pub const GET_FLAGS: u32 = 0x25;
    pub const GET_GRO: u32 = 0x2b;
    pub const GET_CHANNELS: u32 = 0x3c;
}

/// Bits of what [`Inquiry::features`] answers (`linux/ethtool.h`).
pub mod features {
    /// VLAN tags are taken out of the frames that it receives.
    pub const RX_VLAN: u32 = 1 << 8;
    /// Large receive offload.
    pub const LRO: u32 = 1 << 15;
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// `struct ethtool_channels`; the counts are of queue pairs that are in use.
#[repr(C)]
#[derive(Default)]
struct EthtoolChannels {
    command: u32,
    max: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo`, of which only the driver's name is looked at.
#[repr(C)]
struct EthtoolDriver {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// What the kernel says of an interface name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
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

/// How many queues an interface has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCounts {
    /// Queues that receive.
    pub receive: u32,
    /// Queues that transmit.
    pub transmit: u32,
}

/// A way to ask about interfaces that lasts longer than any of them. Stays in the network namespace in which
/// it was made.
#[derive(Debug)]
pub struct Inquiry(OwnedFd);

impl Inquiry {
    /// Opens it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new() -> io::Result<Inquiry> {
        Ok(Inquiry(open_socket(libc::AF_UNIX, libc::SOCK_DGRAM)?))
    }

    /// Whether and how an interface of this name is there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn presence(&self, name: &str) -> io::Result<Presence> {
        let absent = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
        let mut request = request(name);
        // SAFETY: both commands read the name and write into the union, inside `request`; each is then read
        // by the field that the command fills.
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
    ///
    /// # Errors
    /// The kernel's.
    pub fn hardware_type(&self, name: &str) -> io::Result<u16> {
        let mut request = request(name);
        // SAFETY: as in `presence`.
        unsafe {
            checked(libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request))?;
            Ok(request.ifr_ifru.ifru_hwaddr.sa_family)
        }
    }

    /// Its link-layer address, or the first bytes of it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn address(&self, name: &str) -> io::Result<[u8; 6]> {
        let mut request = request(name);
        // SAFETY: as in `presence`.
        unsafe {
            checked(libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request))?;
            let bytes = request.ifr_ifru.ifru_hwaddr.sa_data;
            Ok(std::array::from_fn(|at| bytes[at] as u8))
        }
    }

    /// Most bytes of payload in a frame.
    ///
    /// # Errors
    /// The kernel's.
    pub fn mtu(&self, name: &str) -> io::Result<u32> {
        let mut request = request(name);
        // SAFETY: as in `presence`.
        unsafe {
            checked(libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFMTU, &mut request))?;
            Ok(u32::try_from(request.ifr_ifru.ifru_mtu).unwrap_or(0))
        }
    }

    /// Queues in use; `None` when the driver does not say.
    pub fn queues(&self, name: &str) -> Option<QueueCounts> {
        let mut channels = EthtoolChannels { command: ethtool::GET_CHANNELS, ..EthtoolChannels::default() };
        // SAFETY: the command fills a `struct ethtool_channels`.
        unsafe { self.ethtool(name, &mut channels) }.ok()?;
        let EthtoolChannels { receive, transmit, combined, .. } = channels;
        let counts = QueueCounts {
            receive: receive.saturating_add(combined),
            transmit: transmit.saturating_add(combined),
        };
        (counts.receive > 0).then_some(counts)
    }

    /// Name of the driver; empty when it has none.
    pub fn driver(&self, name: &str) -> String {
        let mut driver = EthtoolDriver { command: ethtool::GET_DRIVER, driver: [0; 32], rest: [0; 160] };
        // SAFETY: the command fills a `struct ethtool_drvinfo`.
        match unsafe { self.ethtool(name, &mut driver) } {
            Ok(()) => CStr::from_bytes_until_nul(&driver.driver)
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Features that are on, of [`features`]; none when the driver does not say.
    pub fn features(&self, name: &str) -> u32 {
        self.value(name, ethtool::GET_FLAGS)
    }

    /// Whether frames that it receives may have been merged.
    pub fn merges(&self, name: &str) -> bool {
        self.value(name, ethtool::GET_GRO) != 0
    }

    /// Whether checksums are left to it in frames that are sent.
    pub fn completes_checksums(&self, name: &str) -> bool {
        self.value(name, ethtool::GET_TX_CHECKSUM) != 0
    }

    /// A value by ethtool; 0 when the driver has none.
    fn value(&self, name: &str, command: u32) -> u32 {
        let mut value = EthtoolValue { command, data: 0 };
        // SAFETY: these commands fill a `struct ethtool_value`.
        let told = unsafe { self.ethtool(name, &mut value) };
        told.map_or(0, |()| value.data)
    }

    /// # Safety
    /// `T` begins with a command that fills a structure laid out as `T`.
    unsafe fn ethtool<T>(&self, name: &str, value: &mut T) -> io::Result<()> {
        let mut request = request(name);
        request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
        // SAFETY: the kernel reads and writes `value`, which is borrowed for the call and is what the command
        // takes.
        checked(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCETHTOOL, &mut request) }).map(|_| ())
    }
}

/// Names of the interfaces that there are, to put beside one that is not there.
pub fn present() -> Vec<String> {
    // Where processes of others are hidden (`ProcSubset=pid`), /proc has no `net`.
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
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
