//! What a native network function uses: packets of its tenant's pool, by rings that it shares with the
//! engine.
//!
//! `include/superfluid_native.h` is the same for C, with `libsuperfluid_native.so` and `.a`, which this crate
//! is too. The life of a function:
//! 1. [`Attachment::attach`] connects to the socket of a `native` port, once for each of its interfaces.
//! 2. [`Attachment::receive`] takes packets out of the ring; [`Attachment::data`] is where one lies.
//! 3. Each packet ends by [`Attachment::send`], of any attachment to the same pool, or by
//!    [`Attachment::release`].
//! 4. [`Attachment::allocate`] makes packets of empty buffers, which the engine gives when they are asked
//!    for: a process touches no free list.
//! 5. [`wait`] sleeps until there is something to receive, and shows the engine that the process lives;
//!    [`poll`] also until there is room for packets that could not be sent.
//! 6. [`Attachment::devices_changed`] and [`Attachment::devices`] say what the device behind a port is, where
//!    it has addresses, and which neighbours it has; [`Attachment::ask`] asks for one.
//!
//! The thread that attaches holds a robust mutex in the memory of the rings until the attachment is dropped:
//! its end, which is mostly the process's, is what the engine learns first of that. It has to live as long as
//! the attachment.
//!
//! Limits: Linux, x86-64 and others with little-endian order; an attachment is used by one thread at a time.
//! What the engine does not have noted as this process's it does not take back: a packet that is sent or
//! released twice counts as a fault there, and is nothing else.

mod attachment;
mod c_api;
mod devices;
mod owner;
mod waiting;

pub use attachment::{AttachError, Attachment};
pub use native_abi::{Descriptor as Packet, VERSION, flags};
pub use nf_abi::{DeviceEntry, NeighbourState};
pub use waiting::{Interest, Woken, poll, wait};
