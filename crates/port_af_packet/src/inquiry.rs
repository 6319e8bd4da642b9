// UNSAFETY: interface requests (ioctl) have no safe wrapper. The kernel is the other side, so Miri cannot run it; the
// end-to-end tests do.
#![allow(unsafe_code)]
//! What the kernel says about an interface.

use crate::intake::HEADER;
use crate::system::{checked, open_socket};
use crate::{OpenError, Settings};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

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

    /// Longest frame that may be sent without being cut, VLAN tags not counted; 0 when nobody says.
    pub fn longest_frame(&self, name: &str) -> usize {
        let mut request = request(name);
        // SAFETY: as in `presence`.
        let mtu = unsafe {
            match checked(libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFMTU, &mut request)) {
                Ok(_) => request.ifr_ifru.ifru_mtu,
                Err(_) => return 0,
            }
        };
        usize::try_from(mtu).map_or(0, |mtu| mtu + HEADER)
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
pub(crate) fn check_kind(inquiry: &Inquiry, settings: &Settings) -> Result<(), OpenError> {
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

/// An interface request for a name that was checked to be short enough.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq: an empty name and an integer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request
}

/// An error of a system call that has no reason to fail.
pub(crate) fn system(name: &str, operation: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    let interface = name.to_owned();
    move |source| OpenError::System { interface, operation, source }
}

/// Names of the interfaces that there are, to put beside one that is not there.
pub(crate) fn present() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}
