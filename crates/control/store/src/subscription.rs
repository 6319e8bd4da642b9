//! Callbacks that are told of each commit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::object::Revision;

type Told = Box<dyn Fn(Revision) + Send + Sync>;

#[derive(Default)]
struct List {
    next: u64,
    told: BTreeMap<u64, Arc<Told>>,
}

/// The callbacks.
#[derive(Default)]
pub(crate) struct Subscribers(Arc<RwLock<List>>);

impl Subscribers {
    pub fn add(&self, told: Told) -> Subscription {
        let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let number = list.next;
        list.next += 1;
        list.told.insert(number, Arc::new(told));
        Subscription { number, list: self.0.clone() }
    }

    pub fn tell(&self, revision: Revision) {
        let list = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if list.told.is_empty() {
            return;
        }
        // Called without the lock, so that they may subscribe and drop subscriptions.
        let told: Vec<_> = list.told.values().cloned().collect();
        drop(list);
        for told in told {
            told(revision);
        }
    }
}

/// Being told of commits; ends when it is dropped, but for a call that is under way.
#[must_use = "a subscription ends when it is dropped"]
pub struct Subscription {
    number: u64,
    list: Arc<RwLock<List>>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({})", self.number)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.list.write().unwrap_or_else(PoisonError::into_inner).told.remove(&self.number);
    }
}
