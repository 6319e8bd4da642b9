//! A stream that the host writes, on a thread of its own.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

/// Where the host writes what one client reads. The stream ends when this is dropped.
pub struct Outlet {
    bytes: mpsc::Sender<Bytes>,
    ending: watch::Receiver<bool>,
}

impl Outlet {
    pub(crate) fn new(bytes: mpsc::Sender<Bytes>, ending: watch::Receiver<bool>) -> Outlet {
        Outlet { bytes, ending }
    }

    /// Whether the client reads. The server's end ends streams, too.
    pub fn is_open(&self) -> bool {
        !self.bytes.is_closed() && !*self.ending.borrow()
    }

    /// Writes; waits while the client takes nothing, for as long as that may be. False when the client does
    /// not read any more.
    ///
    /// # Panics
    /// On a thread of the server.
    #[must_use]
    pub fn write(&self, bytes: Vec<u8>) -> bool {
        self.is_open() && self.bytes.blocking_send(bytes.into()).is_ok()
    }
}
