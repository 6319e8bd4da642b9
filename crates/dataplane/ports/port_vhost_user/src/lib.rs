//! The port of a virtio network device that a virtual machine, or a program on DPDK, has by vhost-user: the
//! back end. Packets are copied between the tenant's pool and the memory of the guest.
//!
//! The life of a port:
//! 1. [`VhostUserPort::open`] starts a thread, the *attendant*. A server's listens at the socket, a client's
//!    connects to it, again every second until it can. The port is down.
//! 2. The attendant looks at the front end's user and carries its messages out: features, memory, and where
//!    the rings lie. A ring of which all is known runs; the port is up when one does.
//! 3. `transmit` copies packets into buffers that the guest has made available; a long packet lies in
//!    several. All of a flow go by one ring. `receive` copies what the guest has filled into buffers of the
//!    pool, from all rings in turn.
//! 4. The front end may stop rings, move memory and have writes logged at any moment; it is answered when the
//!    worker does not touch them any more.
//! 5. A front end that closes its socket, or writes what cannot be, takes the port down; the next one may
//!    come at once.
//! 6. `close` ends the attendant and the connection, and removes a server's socket.
//!
//! Every word of the shared memory is read once, checked, and then used; bytes are copied out before anything
//! looks at them. Memory that its owner takes away is survived. The worker makes no call that the guest can
//! make wait: it wakes the attendant, and that the guest.
//!
//! Limits: one front end; at most 16 pairs of split rings, which one thread works; no packed rings; memory in
//! pages of up to 2 MiB. No packet is passed without a copy.

mod attendant;
mod backend;
mod config;
mod counts;
mod cutting;
mod desk;
mod detached;
mod dirty;
mod driver;
mod fault;
mod features;
mod guest_memory;
mod message;
mod receive;
mod ring;
mod stream;
mod sync;
mod transmit;

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;

pub use config::{QUEUES_MAX, Role, SCHEMA, Settings};
pub use detached::Detached;
pub use driver::VhostUserPort;
pub use local_socket::OpenError;
pub use message::{HEADER, Header, Message, MessageError, PAYLOAD_MAX, Region, Request};
pub use ring::OutOfStep;
