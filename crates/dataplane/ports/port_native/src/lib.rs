//! The port of a native process: the tenant's pool in the process's own memory, and descriptors through
//! shared rings.
//!
//! The life of a port:
//! 1. [`NativePort::open`] makes the socket and a thread that waits at it, the *attendant*; the port is down.
//! 2. A process of the user that the settings name connects. The attendant hands it the pool, read-only or
//!    for writing, and the memory of the rings, and leaves the engine's ends for the port to find.
//! 3. `transmit` gives packets to the process; its buffers are noted as the process's (`custody`). `receive`
//!    takes those back that the process sends or returns, and believes nothing but that: what the process
//!    does not have is a fault.
//! 4. A process that closes the socket, is out of step or ends takes the port down. Its buffers come back
//!    when it is gone, because it can touch them until then; the next process may attach at once.
//! 5. Where `standby` says so, further processes may be attached. The first of them takes over when the one
//!    before it ends, which a hint of the kernel's tells before the process is gone, hangs or closes its
//!    socket.
//! 6. Where the process is a guest's of the launcher's, it is told of when it is to be ended
//!    ([`Processes::when_failed`]): it hung for longer than its heartbeat and a grace, or was cut off and
//!    lives on.
//! 7. Processes that want to know are told of the device behind the port, and ask for neighbours, by a socket
//!    of their own, at which the attendant alone is ([`DeviceTable`]).
//! 8. `close` ends the attendant, removes the socket and gives up what the rings hold.
//!
//! Ports that one process attaches to share what it has, as far as their pool is one: a packet that it got by
//! one port it may send by another, without a copy.
//!
//! Limits: one process at a port has its packets. The worker never waits for the process, and makes no system
//! call but to wake it. A process that shares its memory with others (`fork`) is gone when it is gone itself:
//! what its children write reaches packets of its own tenant alone.

mod attendant;
mod belief;
mod config;
mod custody;
mod device_line;
mod device_table;
mod driver;
mod hint;
mod processes;
mod pulse;
mod session;
mod suspects;

#[cfg(test)]
mod tests;

pub use belief::believe;
pub use config::{SCHEMA, Settings};
pub use custody::{Custody, Lent};
pub use device_table::DeviceTable;
pub use driver::NativePort;
pub use local_socket::OpenError;
pub use processes::Processes;
pub use pulse::{Failed, Failure};
