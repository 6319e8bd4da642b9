//! The port on a TAP device: Ethernet between the kernel and this process, with unfinished checksums and
//! segments of up to 64 KiB.
//!
//! The life of a port:
//! 1. [`TapPort::open`] makes the device, or takes one that is there, with virtio-net headers and a
//!    descriptor for each queue, and sets its MTU, address, owner and state; [`TapPort::waiting`] begins
//!    without it.
//! 2. With the first packet the port knows how long a buffer of the pool is, and tells the kernel how much
//!    checksumming and segmentation it may leave to us: segments are never longer than a buffer has room for.
//! 3. `receive` reads each packet straight into a buffer of the pool, from all queues in turn; the header in
//!    front of it goes into the record.
//! 4. `transmit` writes each packet straight from the pool, a flow always by the same queue.
//! 5. The device may move to another network namespace: the port follows it. When it goes away the port is
//!    down, says so, and makes or takes it again in `maintain`.
//! 6. `close` counts what the queues still hold. They are closed when the port is dropped: to remove a device
//!    takes the kernel some 20 ms, for which no worker waits.
//!
//! Devices of guests are made by another process, which hands their queues to this one ([`Handed`],
//! [`TapPort::handed`]): the rest is the same.
//!
//! Limits: TAP devices only (Ethernet), one system call for each packet: the kernel has no other interface to
//! them that an ordinary process may use, see the README. VLAN tags are in the bytes. A packet that does not
//! fit into a buffer is dropped, never cut.

mod accounts;
mod config;
mod device;
mod driver;
mod error;
mod handed;
mod inquiry;
mod intake;
mod link;
mod offload;
mod queue;
mod state;

#[cfg(test)]
mod tests;

pub use config::{DeviceState, MAX_QUEUES, SCHEMA, Settings};
pub use driver::TapPort;
pub use error::OpenError;
pub use handed::{Handed, make, open_queue};
