//! How the host tells what happens: to clients that follow at that moment, and without waiting for them.

use crate::time;
use api::{Event, Kind};
use std::sync::Arc;
use tokio::sync::{broadcast, watch};

/// Notices that a slow reader may be behind before it loses the oldest.
const KEPT: usize = 1024;

/// By this the host tells what happens. Clones tell the same readers. Telling never waits.
#[derive(Clone, Debug)]
pub struct Notices {
    events: broadcast::Sender<Arc<Event>>,
    logged: watch::Sender<u64>,
}

impl Notices {
    /// With no readers yet.
    #[must_use]
    pub fn new() -> Notices {
        Notices { events: broadcast::Sender::new(KEPT), logged: watch::Sender::new(0) }
    }

    /// Something happened to an object: `what` in one word, `text` for the operator.
    pub fn tell(&self, kind: Kind, name: &str, what: &str, text: &str) {
        if self.events.receiver_count() > 0 {
            let (name, what, text) = (name.to_owned(), what.to_owned(), text.to_owned());
            // That all readers left just now is no loss.
            let _ = self.events.send(Arc::new(Event::Notice { time: time::now(), kind, name, what, text }));
        }
    }

    /// A function wrote to its log: clients that follow one look again.
    pub fn logged(&self) {
        if self.logged.receiver_count() > 0 {
            self.logged.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    pub(crate) fn follow(&self) -> broadcast::Receiver<Arc<Event>> {
        self.events.subscribe()
    }

    pub(crate) fn follow_logs(&self) -> watch::Receiver<u64> {
        self.logged.subscribe()
    }
}

impl Default for Notices {
    fn default() -> Self {
        Notices::new()
    }
}
