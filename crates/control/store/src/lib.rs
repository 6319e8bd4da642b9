//! The desired state of a host on disk: objects, each of a kind and with a name, that survive whatever
//! happens to the process and to the machine.
//!
//! The life of a store:
//! 1. [`Store::open`] locks its folder, makes a store if there is none, reads all objects, and compares them
//!    with their checksums, with the sum of all, and with how far the disk was known to be. What is damaged
//!    is not opened.
//! 2. [`Store::read`] and [`Store::list`] answer from memory; bytes are shared, not copied.
//! 3. [`Store::commit`] carries out several [`Change`]s at once, or none, if their [`Precondition`]s hold,
//!    and returns a [`Revision`], which is the version of each object that was written. The changes are in
//!    the system's hands then: they survive `kill -9` of the process.
//! 4. A thread writes what was committed to disk, in groups, within 10 ms if the disk takes no longer.
//!    [`Store::wait_durable`] and [`Store::when_durable`] wait for that.
//! 5. A follower lists the objects, subscribes ([`Store::subscribe`]) and asks for the
//!    [`changes_after`](Store::changes_after) the list's revision; one that comes too late is told that they
//!    are [`Gone`].
//! 6. [`Store::back_up`] writes a copy while all this goes on.
//! 7. Dropping the store writes what is left to disk and gives the folder free.
//!
//! What is promised:
//! - *Acknowledged* (`commit` returned): the commit is whole after the process ends in any way. A crash of
//!   the whole machine can lose the last commits that were not durable yet, and then the last ones only, each
//!   as a whole.
//! - *Durable*: the commit is there after a crash of the machine. A store in which one is missing is not
//!   opened ([`OpenError::Lost`]); nor is one in which any object is not what was written
//!   ([`OpenError::Damaged`]). Damage to what is not in use (free pages, a log that was carried over) goes
//!   unnoticed and does no harm.
//! - *Revisions* only grow, also over restarts. After a crash some are skipped, because they may have been
//!   given to commits that were lost.
//! - *A full disk* fails commits with [`CommitError::DiskFull`]; reads go on, and commits succeed once there
//!   is space.
//! - *A disk that fails to write what the system had accepted* ends all commits until the store is opened
//!   again ([`NotDurable::Failed`]): the system may have dropped the data, and a second attempt would seem to
//!   succeed. Reads go on.
//!
//! Limits: all objects are in memory ([`Settings::max_bytes`]), with some 160 bytes beside name and value.
//! One process at a time; commits one after the other. The memory of changes ends with the process. The file
//! `durable`, which tells lost commits, is written after the disk has them and without waiting for it, so
//! that after a crash of the machine it can be some seconds behind. If it is removed, the store is taken as
//! it is. To open a store takes some 100 KiB of free disk. The folder must be on a file system of this host:
//! memory is shared through it between the store's connections.
//!
//! Why SQLite is below, and what else was considered: `docs/decisions/021-desired-state-in-sqlite.md`.

#![forbid(unsafe_code)]

mod back_up;
pub mod backup;
mod carry;
mod durability;
mod error;
mod folder;
mod history;
mod index;
mod mark;
mod object;
mod room;
mod settings;
mod store;
mod subscription;
mod table;
#[cfg(test)]
mod tests;

pub use error::{BackUpError, CommitError, Gone, NotDurable, OpenError};
pub use object::{Change, Changed, Happened, Object, Page, Precondition, Revision, Write};
pub use settings::{CHANGES_MAX, KIND_MAX, NAME_MAX, PAGE_MAX, Settings, VALUE_MAX};
pub use store::{Standing, Store};
pub use subscription::Subscription;
