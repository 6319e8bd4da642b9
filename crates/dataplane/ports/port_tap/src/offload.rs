//! What the kernel may leave to the receivers of the packets.

use std::ffi::c_uint;

/// The longest segment that the kernel makes unless it is told more; what one shorter than it is called
/// there.
const LONGEST: u32 = 65_536;

/// A VLAN tag is put into the bytes after the kernel has looked at the length.
const VLAN_TAG: u32 = 4;

/// Checksums.
pub(crate) const CHECKSUM: c_uint = libc::TUN_F_CSUM;

/// Checksums and segments of TCP.
pub(crate) const TCP: c_uint = CHECKSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// All that, and segments of UDP. Kernels before 6.2 do not know them.
pub(crate) const UDP: c_uint = TCP | libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// What a pool's buffers allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The kernel makes packets that are still to be cut shorter than this; `None`: it makes none.
    pub gso_max_size: Option<u32>,
}

/// Segments that are not worth having are not asked for: two of the device's packets are the least. `room` is
/// what a buffer has for a packet.
pub(crate) fn plan(room: u32, mtu: u32, wanted: bool) -> Plan {
    // Shorter than the maximum, with a tag as long as the room: the maximum is three less than the room.
    let most = (room + 1).saturating_sub(VLAN_TAG).min(LONGEST);
    let worth = mtu.saturating_add(14).saturating_mul(2);
    Plan { gso_max_size: (wanted && most > worth).then_some(most) }
}

/// Whether a device makes segments that fit.
pub(crate) fn fits(plan: Plan, gso_max_size: u32) -> bool {
    plan.gso_max_size.is_some_and(|most| gso_max_size != 0 && gso_max_size <= most)
}
