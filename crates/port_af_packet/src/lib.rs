//! The port on an interface of the kernel: a packet socket with a memory-mapped receive ring.
//!
//! The life of a port:
//! 1. [`AfPacketPort::open`] binds a packet socket to the interface, with virtio-net headers on, and maps the ring
//!    (TPACKET_V3); [`AfPacketPort::waiting`] begins without the interface and takes it up when it appears.
//! 2. The kernel fills a block of the ring and gives it over when it is full or [`Settings::retire`] has passed.
//! 3. `receive` walks the block (module [`block`]) and copies each frame once, into a buffer of the pool; a VLAN tag
//!    that the kernel took off goes back into the bytes, checksum and segmentation state go into the record.
//! 4. `transmit` sends straight from the pool, up to 64 packets in one system call, with the record's state in front.
//! 5. When the interface goes away the port is down, says so, and takes it up again by its name in `maintain`.
//! 6. `close` counts what the ring still holds.
//!
//! Limits: Ethernet interfaces only. A frame waits in the ring until its block is given over: up to the retire time,
//! 1 ms at best, more on kernels whose timers are coarser (4 to 8 ms on a 250 Hz kernel before 6.18). A frame that
//! does not fit into a buffer of the pool is dropped, never cut. Of frames with two VLAN tags the outer one is put
//! back, the inner one was never taken off.

pub mod block;
mod config;
mod driver;
mod error;
mod intake;
mod ring;
mod socket;
mod state;

#[cfg(test)]
mod tests;

pub use config::{SCHEMA, Settings};
pub use driver::AfPacketPort;
pub use error::OpenError;
