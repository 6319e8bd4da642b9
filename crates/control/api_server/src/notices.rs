//! How the host tells what happens: to clients that follow at that moment, without waiting for them, and to
//! what keeps it for an hour.

use crate::past::Past;
use crate::time;
use api::{Event, Kind};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::sync::{broadcast, watch};

/// Notices that a slow reader may be behind before it loses the oldest.
const KEPT: usize = 1024;

/// From so many functions on that were followed, those that none follows any more are forgotten.
const MANY: usize = 64;

/// By this the host tells what happens. Clones tell the same readers. Telling never waits.
#[derive(Clone, Debug)]
pub struct Notices {
    events: broadcast::Sender<Arc<Event>>,
    /// By function: what wakes those that follow it, and no others.
    followed: Arc<Mutex<HashMap<String, watch::Sender<u64>>>>,
    past: Arc<Past>,
}

impl Notices {
    /// With no readers yet.
    pub(crate) fn keeping(past: Arc<Past>) -> Notices {
        Notices { events: broadcast::Sender::new(KEPT), followed: Arc::default(), past }
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<u64>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened to an object: `what` in one word, `text` for the operator.
    pub fn tell(&self, kind: Kind, name: &str, what: &str, text: &str) {
        let now = SystemTime::now();
        // Kept first: a client that begins to follow and then asks for the past misses nothing.
        self.past.notice(now, kind, name, what, text);
        if self.events.receiver_count() > 0 {
            let (name, what, text) = (name.to_owned(), what.to_owned(), text.to_owned());
            // That all readers left just now is no loss.
            let _ =
                self.events.send(Arc::new(Event::Notice { time: time::told(now), kind, name, what, text }));
        }
    }

    /// A function wrote to its log, or something of it is kept: clients that follow it look again.
    pub fn logged(&self, function: &str) {
        if let Some(followers) = self.followed().get(function) {
            followers.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    pub(crate) fn follow(&self) -> broadcast::Receiver<Arc<Event>> {
        self.events.subscribe()
    }

    /// Tells when a function of this name is [logged](Notices::logged).
    pub(crate) fn follow_function(&self, function: &str) -> watch::Receiver<u64> {
        let mut followed = self.followed();
        if followed.len() >= MANY && !followed.contains_key(function) {
            followed.retain(|_, followers| followers.receiver_count() > 0);
        }
        followed.entry(function.to_owned()).or_default().subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_told_of_their_function_alone_and_those_that_leave_are_forgotten() {
        let owners = Arc::new(crate::owners::Owners::new(&[], 0));
        let notices = Notices::keeping(Arc::new(Past::new(owners)));
        let [mine, other] = ["mine", "other"].map(|name| notices.follow_function(name));
        notices.logged("mine");
        notices.logged("unknown");
        assert!(mine.has_changed().expect("is told") && !other.has_changed().expect("is not"));
        for n in 0..10 * MANY {
            drop(notices.follow_function(&format!("f{n}")));
        }
        assert!(notices.followed().len() <= MANY + 1);
        notices.logged("other");
        assert!(other.has_changed().expect("is still told"));
    }
}
