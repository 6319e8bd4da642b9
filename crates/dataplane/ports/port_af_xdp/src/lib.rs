//! The port on an interface of the kernel by AF_XDP: rings shared with the kernel, and the tenant's pool as
//! the memory that it receives into and sends from.
//!
//! The life of a port:
//! 1. [`AfXdpPort::open`] attaches a small XDP program to the interface and binds one socket to each of its
//!    receive queues, in the best mode that the driver has; [`AfXdpPort::waiting`] begins without the
//!    interface and takes it up when it appears.
//! 2. Buffers of the pool are lent to the kernel in each queue's fill ring, never more than a quarter of the
//!    pool.
//! 3. The program hands each frame to the socket of its queue; the kernel writes it into a lent buffer (in
//!    zero-copy mode the device does) and names that in the receive ring. `receive` makes a packet of it,
//!    where it is.
//! 4. `transmit` lends packets to the kernel in the transmit rings, by the hash of their flow, and wakes it
//!    once for the whole burst, never more than half of the pool; what comes back in the completion rings
//!    counts as delivered.
//! 5. When the interface goes away the port is down, says so, and takes it up again by its name in
//!    `maintain`.
//! 6. `close` detaches the program and counts what the rings still hold. Should the process end without, the
//!    program goes with its link.
//!
//! AF_XDP says nothing about checksums and segments. Module [`checksum`] finds the checksums that a kernel at
//! the other end left unfinished, and finishes those of packets that go out; a packet that is still to be
//! segmented is cut ([`virtio_net::Cut`]).
//!
//! Limits: Ethernet interfaces only. A frame must fit into a page, with 256 bytes or the pool's headroom
//! before it: 1,792 bytes in buffers of 2 KiB, 3,840 in larger ones; longer ones are lost in the kernel and
//! counted there. VLAN tags that the interface takes out of the bytes are lost. One thread works all queues
//! of a port.

pub mod checksum;
mod config;
mod driver;
mod error;
mod failure;
mod interface;
mod link;
mod notices;
mod open;
mod outgoing;
mod program;
mod queue;
mod ring;
mod segments;
mod socket;
mod umem;

#[cfg(test)]
mod tests;

pub use config::{Mode, SCHEMA, Settings, UmemChoice, UnfinishedChecksums};
pub use driver::AfXdpPort;
pub use error::OpenError;
