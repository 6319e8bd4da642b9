//! What a port asks of an interface while it is open.

use kernel_interface::socket::{open_socket, set};
use std::io;
use std::os::fd::OwnedFd;

/// Makes the interface receive frames for other hosts as long as the result lives.
pub(crate) fn promiscuous(index: i32) -> io::Result<OwnedFd> {
    // A packet socket of no protocol receives nothing; it only has the membership.
    let fd = open_socket(libc::AF_PACKET, libc::SOCK_RAW)?;
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    Ok(fd)
}
