//! What is known of the device behind a port, for its processes, and where their asks go.

use crate::attendant::Desk;
use local_socket::HasBells;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Takes addresses that processes of a port ask for.
type Ask = dyn Fn(Vec<IpAddr>) + Send + Sync;

/// The device behind a port, as its processes are told of it: entries as functions read them
/// ([`nf_abi::DeviceEntry`]), of the interface 0. It may be there before the port, and be the same for
/// another port in its place.
pub struct DeviceTable {
    entries: Mutex<Arc<[u8]>>,
    ask: Box<Ask>,
    /// Those that hand it to processes.
    desks: Mutex<Vec<Weak<Desk>>>,
}

/// Of a port that is at no device: processes are told nothing, and what they ask for is lost.
impl Default for DeviceTable {
    fn default() -> DeviceTable {
        DeviceTable::new(drop)
    }
}

impl fmt::Debug for DeviceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceTable").field("bytes", &self.entries().len()).finish_non_exhaustive()
    }
}

impl DeviceTable {
    /// Nothing is known yet. `ask` takes addresses that processes ask for, at most [`nf_abi::MAX_ASKS`] at a
    /// time, on the port's own thread: it must not wait.
    pub fn new(ask: impl Fn(Vec<IpAddr>) + Send + Sync + 'static) -> DeviceTable {
        DeviceTable { entries: Mutex::default(), ask: Box::new(ask), desks: Mutex::default() }
    }

    /// It is this from now on: processes are told of it by the port's own thread. Does not wait for them.
    pub fn tell(&self, entries: Arc<[u8]>) {
        *self.entries.lock().unwrap_or_else(PoisonError::into_inner) = entries;
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        desks.retain(|desk| {
            desk.upgrade().is_some_and(|desk| {
                desk.bells().knock();
                true
            })
        });
    }

    /// What it is now.
    pub fn entries(&self) -> Arc<[u8]> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn ask(&self, addresses: Vec<IpAddr>) {
        (self.ask)(addresses);
    }

    /// The attendant of this desk hands it out.
    pub(crate) fn is_for(&self, desk: &Arc<Desk>) {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(desk));
    }
}
