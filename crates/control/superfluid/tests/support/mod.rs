//! What the tests of the program share: a daemon of a test's own, requests to it, and commands that ask it.
//!
//! 1. A test makes a folder, and says with [`daemon::Options`] how the daemon there is to be.
//! 2. [`daemon::Options::start`] starts it, and waits until it listens.
//! 3. Commands are run as a user types them ([`commands::Commands`], which a daemon has), or requests are
//!    sent ([`http`]).
//! 4. It ends with [`daemon::Daemon::end`], as an operator does it, or [`daemon::Daemon::kill`], as a fault
//!    does; when it is dropped, if not before.

pub mod cache;
pub mod commands;
pub mod containers;
pub mod daemon;
pub mod http;
pub mod launcher;
pub mod layouts;
pub mod seen;
