//! A port without a socket or a thread, which is told each message: for fuzzing.

use crate::backend::Backend;
use crate::desk::Desk;
use crate::{Message, Settings, VhostUserPort};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// See the module's documentation.
#[derive(Debug)]
pub struct Detached {
    port: VhostUserPort,
    backend: Backend,
}

impl Detached {
    /// A port with these settings, of which the socket is not made.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(settings: Settings) -> io::Result<Detached> {
        let desk = Arc::new(Desk::new()?);
        let backend = Backend::new(&settings, &desk);
        Ok(Detached { port: VhostUserPort::at(settings, desk), backend })
    }

    /// Carries a message out; the bytes of its answer, if there is one.
    ///
    /// # Errors
    /// Why the connection would be over.
    pub fn read(&mut self, message: Message, descriptors: Vec<OwnedFd>) -> Result<Option<Vec<u8>>, String> {
        self.backend.read(message, descriptors).map(|answer| answer.map(|answer| answer.to_bytes()))
    }

    /// The port.
    pub fn port(&mut self) -> &mut VhostUserPort {
        &mut self.port
    }
}
