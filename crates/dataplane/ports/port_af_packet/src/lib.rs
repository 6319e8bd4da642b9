//! The port on an interface of the kernel: packet sockets with memory-mapped rings.
//!
//! The life of a port:
//! 1. [`AfPacketPort::open`] binds a packet socket to the interface, with virtio-net headers on, and maps its
//!    receive ring (TPACKET_V2); a second socket has the transmit ring. [`AfPacketPort::waiting`] begins
//!    without the interface and takes it up when it appears. Rings are set up before, of so many ports at a
//!    time.
//! 2. The kernel puts each frame into a slot of the ring and wakes the worker. A frame that is longer than a
//!    slot is whole in the socket's queue, and the slot says so.
//! 3. `receive` reads the slots (module [`slot`]) and copies each frame once, into a buffer of the pool; long
//!    ones come from the queue in their place. A VLAN tag that the kernel took off goes back into the bytes,
//!    checksum and segmentation state go into the record. A frame that is longer than a buffer and was left
//!    to be segmented is cut ([`virtio_net::Cut`]).
//! 4. `transmit` copies packets into slots, and one system call hands all of them over. From the first one on
//!    that a slot cannot take, the batch is sent straight from the pool, up to 64 packets in one system call.
//! 5. A packet in a slot is delivered when the kernel completed it; until then it is in flight. While all
//!    slots are, packets go by message.
//! 6. When the interface goes away the port is down, says so, and takes it up again by its name in
//!    `maintain`.
//! 7. `close` waits a moment for what is in flight, and counts what the rings still hold.
//!
//! Limits: Ethernet interfaces only. A frame that does not fit into a buffer of the pool and is not TCP or
//! UDP left to be segmented is dropped. Of frames with two VLAN tags the outer one is put back, the inner one
//! was never taken off. An MTU that was made smaller is noticed in `maintain`; until then the driver judges
//! what is longer.

mod config;
mod cutting;
mod driver;
mod error;
mod inquiry;
mod intake;
mod link;
mod receive_ring;
mod send_ring;
pub mod slot;
mod slots;
mod socket;
mod system;

#[cfg(test)]
mod tests;

pub use config::{SCHEMA, Settings};
pub use driver::AfPacketPort;
pub use error::OpenError;
pub use inquiry::missing;
