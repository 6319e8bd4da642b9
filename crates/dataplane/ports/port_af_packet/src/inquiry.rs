//! What the port asks of an interface before it takes it.

use crate::intake::HEADER;
use crate::{OpenError, Settings};
use kernel_interface::{Inquiry, Presence, features, present};
use std::io;

/// What there is to say of an interface that is not there; `None`: it is, or the kernel does not say.
pub fn missing(interface: &str) -> Option<OpenError> {
    let presence = Inquiry::new().and_then(|inquiry| inquiry.presence(interface)).ok()?;
    let interface = interface.to_owned();
    (presence == Presence::Absent).then(|| OpenError::NoInterface { interface, present: present() })
}

/// Longest frame that may be sent without being cut, VLAN tags not counted; 0 when the interface's MTU is not
/// known.
pub(crate) fn longest_frame(inquiry: &Inquiry, name: &str) -> usize {
    inquiry.mtu(name).map_or(0, |mtu| mtu as usize + HEADER)
}

/// Refuses interfaces that merge frames, or leave checksums out, in a way that the port could not carry.
pub(crate) fn check_kind(inquiry: &Inquiry, settings: &Settings) -> Result<(), OpenError> {
    let name = settings.interface.as_str();
    let hardware_type = inquiry.hardware_type(name).map_err(system(name, "asking for its kind"))?;
    if hardware_type != libc::ARPHRD_ETHER {
        return Err(OpenError::NotEthernet { interface: name.to_owned(), hardware_type });
    }
    let mut switches = Vec::new();
    if inquiry.features(name) & features::LRO != 0 {
        switches.push("lro off");
    }
    if !settings.offload {
        if inquiry.merges(name) {
            switches.push("gro off");
        }
        if inquiry.completes_checksums(name) {
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

/// An error of a system call that has no reason to fail.
pub(crate) fn system(name: &str, operation: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    let interface = name.to_owned();
    move |source| OpenError::System { interface, operation, source }
}
