//! What the attendant leaves for the worker, and the worker for the attendant.

use crate::handshake::Joined;
use local_socket::{Doorbells, HasBells};
use rustix::net::Shutdown;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// A connection, for both.
#[derive(Debug)]
pub(crate) struct Line {
    pub socket: OwnedFd,
    /// The attendant found it closed.
    pub ended: AtomicBool,
    /// The worker has hung up, because of what the peer wrote.
    pub cut_off: AtomicBool,
}

impl Line {
    /// The peer is not to be talked to any more.
    pub fn hang_up(&self) {
        // Fails when the other side did the same.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

/// What the worker has of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub line: Arc<Line>,
    pub joined: Joined,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Desk {
    session: Mutex<Option<Session>>,
    /// Why there is no session.
    reason: Mutex<String>,
    /// Connections that came to no agreement.
    pub refused: AtomicU64,
    pub bells: Doorbells,
}

impl Desk {
    pub fn new() -> io::Result<Desk> {
        Ok(Desk {
            session: Mutex::new(None),
            reason: Mutex::new(String::new()),
            refused: AtomicU64::new(0),
            bells: Doorbells::new()?,
        })
    }

    /// A session that has begun.
    pub fn take_session(&self) -> Option<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Why there is none.
    pub fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leaves a session.
    pub fn begin(&self, session: Session) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        self.bells.announce();
    }

    /// Says why there is none.
    pub fn tell(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        self.bells.announce();
    }
}

impl HasBells for Desk {
    fn bells(&self) -> &Doorbells {
        &self.bells
    }
}
