//! Network interfaces of the kernel, as the ports on them see them: what there is to ask about one, and
//! sockets.
//!
//! 1. [`Inquiry`] is opened once by a port and lasts as long as it; it stays in the network namespace in
//!    which it was made.
//! 2. [`Inquiry::presence`] says whether an interface is there and can pass packets; the rest says what it is
//!    like.
//! 3. [`assess`] compares that with what the port's sockets are bound to, and says what is to be done.
//! 4. [`socket`] opens sockets and sets their options; [`beside`] does what takes the kernel long.
//! 5. [`OnActive`] says which interface a port is on whose guests stand by each other.
//!
//! Limits: requests by name (`ioctl`), so that names are at most 15 bytes, which ports check before.

mod active_guest;
pub mod beside;
mod inquiry;
mod owner;
pub mod socket;
mod state;

pub use active_guest::{ActiveGuest, OnActive};
pub use inquiry::{Inquiry, Presence, QueueCounts, features, present};
pub use owner::Owner;
pub use state::{assess, is_anothers, is_name};
