//! Two ports that share one capture: which packets are whose, and in which order they come.
//!
//! 1. The port that reads a capture with sides offers its source under its own name; the port that is the
//!    other side of it asks for the name. Whichever is opened first makes the place where they meet.
//! 2. Both take packets through a [`Reader`], each its own side's. A source is in its place from the first
//!    poll of the port that reads it ([`Reader::begin`]): one that was opened and given up has changed
//!    nothing.
//! 3. A port that is replaced begins with its new source in the same place; the reader of the old one has
//!    ended.
//!
//! Limits: packets of a side that no port takes are passed over, and counted.

use super::sides::Side;
use super::source::Source;
use crate::Wake;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The places where ports of one configuration meet, by the name of the port that reads.
#[derive(Clone, Default)]
pub struct Meetings(Arc<Mutex<HashMap<String, Weak<Mutex<Shared>>>>>);

/// What two ports share.
#[derive(Default)]
pub(super) struct Shared {
    source: Option<Source>,
    /// Counts the sources that were here.
    epoch: u64,
    /// Ports that take the outer side.
    outer: usize,
}

/// One port's way to its packets.
pub(super) struct Reader {
    shared: Arc<Mutex<Shared>>,
    side: Side,
    epoch: u64,
    /// Until it begins.
    offered: Option<Source>,
}

impl Meetings {
    fn place(&self, name: &str) -> Arc<Mutex<Shared>> {
        let mut places = lock(&self.0);
        places.retain(|_, place| place.strong_count() > 0);
        if let Some(place) = places.get(name).and_then(Weak::upgrade) {
            return place;
        }
        let place = Arc::default();
        places.insert(name.to_owned(), Arc::downgrade(&place));
        place
    }

    /// The reader of a capture with sides, by the port of that name.
    pub(super) fn offer(&self, name: &str, source: Source) -> Reader {
        Reader { shared: self.place(name), side: Side::Inside, epoch: 0, offered: Some(source) }
    }

    /// The reader of the other side of what the port of that name reads.
    pub(super) fn ask(&self, name: &str) -> Reader {
        let shared = self.place(name);
        let mut place = lock(&shared);
        place.outer += 1;
        place.agree();
        drop(place);
        Reader { shared, side: Side::Outside, epoch: 0, offered: None }
    }
}

impl fmt::Debug for Meetings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meetings").field("places", &lock(&self.0).len()).finish()
    }
}

impl Shared {
    fn agree(&mut self) {
        let outer = self.outer > 0;
        if let Some(source) = &mut self.source {
            source.set_taken(Side::Outside, outer);
        }
    }
}

impl Reader {
    /// The reader of a capture without another side.
    pub fn alone(source: Source) -> Reader {
        Reader { shared: Arc::default(), side: Side::Inside, epoch: 0, offered: Some(source) }
    }

    /// Puts the source that it was made with in its place.
    pub fn begin(&mut self) {
        let Some(source) = self.offered.take() else { return };
        let mut place = lock(&self.shared);
        place.source = Some(source);
        place.epoch += 1;
        place.agree();
        self.epoch = place.epoch;
    }

    /// As [`crate::Port::wake`].
    pub fn wake(&self) -> Wake<'static> {
        match self.offered {
            Some(_) => Wake::NOW,
            None => self.with(|source, _| source.wake()).unwrap_or_default(),
        }
    }

    /// The side whose packets it takes.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Does something with the source; `None` before it began, and when there is none or another one in its
    /// place.
    pub fn with<T>(&self, act: impl FnOnce(&mut Source, Side) -> T) -> Option<T> {
        let mut place = lock(&self.shared);
        let stands = self.side == Side::Outside || self.offered.is_none() && self.epoch == place.epoch;
        place.source.as_mut().filter(|_| stands).map(|source| act(source, self.side))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut place = lock(&self.shared);
        match self.side {
            Side::Inside if self.epoch == place.epoch => place.source = None,
            Side::Inside => {}
            Side::Outside => {
                place.outer -= 1;
                place.agree();
            }
        }
    }
}

/// What a thread that panicked left behind is whole: no step here is taken by halves.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
