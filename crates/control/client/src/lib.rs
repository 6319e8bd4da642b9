//! Speaks to the daemon: HTTP/1.1 over its UNIX socket, or over TCP with certificates on both sides, one
//! question after the other, with the types of [`api`].
//!
//! The life of a question:
//! 1. [`Client::new`] takes [`Settings`]: where the daemon is, and how long it is waited for. Nothing is
//!    connected yet.
//! 2. A call such as [`Client::put`] writes a path and a body; a connection is made, or one that is kept is
//!    taken.
//! 3. The answer is read as far as the limits go: its content type must be what was asked for, its length is
//!    bounded, and it must be whole.
//! 4. What the daemon refuses is a [`ClientError::Refused`] with its problem document, shown with one line
//!    for each fault.
//! 5. Work that takes long is [`Answer::Later`]: [`Client::wait_for`] watches it to its end.
//! 6. [`Client::events`] and [`Client::logs`] are iterators of lines that end when the daemon ends them.
//!
//! The answering side is not trusted more than is needed: texts of its that are shown cannot control a
//! terminal.
//!
//! Limits: an answer of [`Settings::largest_answer`] bytes, a line of a stream of 1 MiB, a header of 32 KiB;
//! redirects are not followed and proxies not used. Blocking: a call returns when it is answered, or when its
//! time is up.

#![forbid(unsafe_code)]

mod answer;
mod calls;
mod changes;
mod error;
mod exchange;
mod functions;
mod lines;
mod registry_logins;
mod secret;
mod settings;
mod tls;
mod tokens;

pub use answer::{Answer, Step, Written};
pub use calls::Page;
pub use changes::{Change, Only};
pub use error::ClientError;
pub use lines::{Lines, Packets};
pub use printable::harmless;
pub use secret::Secret;
pub use settings::{Address, Settings, SettingsError, Tls};

use http_client::Agent;

/// See the module's documentation. It may be used by several threads.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    settings: Settings,
}

impl Client {
    /// A client with these settings.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(settings: Settings) -> Result<Client, SettingsError> {
        settings.check()?;
        let agent = match &settings.address {
            Address::Unix(path) => http_client::unix_agent(path, settings.limits()),
            Address::Tls(tls) => tls::agent(tls, &settings)?,
        };
        Ok(Client { agent, settings })
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
