//! UNIX sockets of messages (`SOCK_SEQPACKET`), or of a stream, between processes of one host: which process
//! is at the other end, and descriptors with messages.
//!
//! 1. [`Listener::bind`] makes a socket at a path, in the place of a stale one; [`connect`] reaches one.
//! 2. [`peer`] says which process is at the other end, and its user; [`Users`] whether that may be there.
//! 3. [`send`] and [`receive`] pass messages and descriptors. Neither waits, by flags of each call: those of
//!    a descriptor may be shared with another process, which could change them.
//! 4. [`Endpoint`] is a socket at which one peer after another is met, on either side.
//! 5. [`Doorbells`] are how a port's worker, the thread at its socket ([`Attendant`]) and the peer wake each
//!    other.
//! 6. [`OpenError`] is why a port at a socket cannot be opened.
//! 7. A listener that is dropped removes its file, if it is still its own.

mod attendant;
mod doorbells;
mod endpoint;
mod listener;
mod messages;
mod open_error;
mod peer;
mod prompt;
mod users;

pub use attendant::{Attendant, HasBells};
pub use doorbells::{Doorbells, ring, timespec};
pub use endpoint::{Awaited, Endpoint, Opened, Side, Woken};
pub use listener::{Kind, Listener, connect, connect_as};
pub use messages::{receive, send};
pub use open_error::{OpenError, PATH_MAX, check_path};
pub use peer::{Peer, own_uid, peer};
pub use prompt::{Idling, be_prompt};
pub use users::{GUEST_USERS, Users};

#[cfg(test)]
mod tests;
