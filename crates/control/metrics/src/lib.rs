//! What is counted, as Prometheus reads it and, in [`json`], as clients and scripts do: an
//! [`Account`](engine::Account) and a few facts beside it to text, in the two notations that there are.
//! Nothing here waits, makes requests or keeps anything.
//!
//! The life of a scrape:
//! 1. The server of the scrape takes an account of the fleet, and has a [`Host`] of it: with the clock that
//!    turns cycles into seconds, and the tenant and the image of each function.
//! 2. [`Host::write`] appends the host's families to a string, [`Daemon::write`] those of the program itself.
//! 3. [`Notation::end`] is what has to stand at the end.
//!
//! Each family is written once, as a whole, with its help, type and unit, and always in the same order;
//! samples are in the order of the account. [`families`] lists them, and `docs/metrics.md` is held to that
//! list by a test. Names follow the conventions of Prometheus: seconds and bytes, `_total` for what only
//! grows, sums over all labels make sense.
//!
//! Limits: the caller sees to it that no two functions, ports, switches or pools have the same name, and that
//! names are of bounded length; which characters they have does not matter. Text grows with the functions,
//! some 2 KB for each; beside it there is the text of each function's labels, once. A family that would have
//! a sample for each function and reason leaves out those that are 0: see [`Family::sparse`].

#![forbid(unsafe_code)]

mod background;
mod column;
mod container;
mod daemon;
mod device;
mod family;
mod function;
mod host;
pub mod json;
mod memory;
mod notation;
mod pool;
mod port;
mod station;
mod switch;
mod text;
mod worker;

pub use background::TenantBackground;
pub use container::Container;
pub use daemon::Daemon;
pub use family::{Family, Type};
pub use function::Function;
pub use host::Host;
pub use memory::{Memory, TenantMemory};
pub use notation::Notation;
pub use station::Station;

/// All families, in the order in which they are written: the host's, then the daemon's.
pub fn families() -> impl Iterator<Item = &'static Family> {
    host::families().chain(daemon::families())
}
