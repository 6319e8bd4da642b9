//! The port of a shared-memory packet interface (memif, version 2.0), as DPDK, VPP and Open vSwitch speak it:
//! packets are copied between the tenant's pool and memory that the port shares with one peer, or lie in the
//! pool that a peer which may write has.
//!
//! The life of a port:
//! 1. [`MemifPort::open`] starts a thread, the *attendant*. A master's listens at the socket, a slave's
//!    connects to it, again every second until it can. The port is down.
//! 2. The attendant looks at the peer's user and carries out the handshake: the slave makes the memory and
//!    hands it over ([`Handshake`]). It leaves the ends of all rings for the worker to find; the port is up.
//! 3. `transmit` copies packets into the peer's empty buffers, or the port's own; a long packet lies in
//!    several. All of a flow go by one ring. `receive` copies what the peer has filled into buffers of the
//!    pool, from all rings in turn.
//!    Where the peer has the pool, packets are exchanged instead (`lent`): one that is sent for one that the
//!    peer has taken, an empty one for one that it has filled.
//! 4. A peer that closes its socket, disconnects, or writes what cannot be takes the port down; the next one
//!    may come at once.
//! 5. `close` ends the attendant and the connection, and removes a master's socket.
//!
//! Every word of the rings is read once, checked, and then used; bytes are copied out before anything looks
//! at them, but for those of the pool that a peer may write to: these lie as any packet's do, of which each
//! reader copies what it looks at. The worker makes no call that the peer can make wait: it wakes the
//! attendant, and that the peer.
//!
//! Limits: one peer; at most 16 rings each way, which one thread works; Ethernet frames; a slave alone passes
//! packets without a copy, of a pool of ordinary pages. Neither checksum nor segmentation state passes the
//! interface: both are completed before.

mod attendant;
mod config;
mod copying;
mod counts;
mod desk;
mod driver;
mod ends;
mod handshake;
mod lent;
mod message;
mod offer;
mod regions;
mod ring;
mod sync;

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;

pub use config::{QUEUES_MAX, Role, SCHEMA, Settings};
pub use driver::MemifPort;
pub use ends::{OutOfStep, Receiver, Sender, Unsent};
pub use handshake::{Answer, Handshake, Joined};
pub use lent::{Lender, Peers};
pub use local_socket::OpenError;
pub use message::{AddRing, Hello, Init, LENGTH, Message, MessageError, VERSION};
