//! What the engine and a native process agree on: descriptors, the layout of the memory of their rings,
//! messages.
//!
//! `include/superfluid_native.h` says the same in C. The life of an attachment:
//! 1. The process connects to the socket of a `native` port and sends a [`Hello`].
//! 2. The port answers with an [`Answer`]: attached, with descriptors of the tenant's pool and of the memory
//!    of the rings, and of a socket for devices if the greeting wants one, or refused, with the reason.
//! 3. Packets pass as [`Descriptor`]s through rings that lie where [`Layout`] says.
//! 4. A side that finds the other asleep sends [`Answer::Wake`], which carries nothing.
//! 5. By the socket for devices the process is told of the device behind the port, and asks for neighbours
//!    ([`mod@devices`]).
//!
//! Everything is little-endian. Whatever is read here was written by the other side, which may be hostile: it
//! is read from a copy, and nothing is believed beyond what the types say.
//!
//! Limits: layouts and messages alone; no memory is mapped and no socket is opened here.

mod descriptor;
pub mod devices;
mod layout;
mod messages;

pub use descriptor::{Descriptor, WORDS, flags};
pub use layout::{Layout, Ring, SIZE_MAX, SIZE_MIN, owner, words};
pub use messages::{Answer, Attached, CONFIG_MAX, Hello, MESSAGE_MAX, MessageError, REASON_MAX};

/// Version of the contract: of layouts, messages and the library's interface.
pub const VERSION: u32 = 1;
