//! Descriptors that are put aside, for when the process has used up all that it may have.
//!
//! A connection that cannot be accepted for want of a descriptor stays in the listener's queue, and its
//! client waits for nothing. Giving up one of these makes room for it: an administrator is served then, and
//! others are told by the connection's end.

use crate::rights::Door;
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many are put aside; the last one is for clients that are not served.
const ASIDE: usize = 16;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Spare {
    files: Mutex<Vec<File>>,
}

impl Spare {
    /// Puts as many aside as there may be.
    pub fn new() -> Spare {
        let spare = Spare::default();
        spare.put_aside();
        spare
    }

    fn files(&self) -> MutexGuard<'_, Vec<File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes up for what was given up, as far as there are descriptors again.
    pub fn put_aside(&self) {
        let mut files = self.files();
        while files.len() < ASIDE {
            match File::open("/dev/null") {
                Ok(file) => files.push(file),
                Err(_) => return,
            }
        }
    }

    /// Gives one up for a client that comes by this door; false if there is none for it.
    pub fn give_up(&self, door: Door) -> bool {
        let mut files = self.files();
        match door {
            // The last one stays, so that others can always be told.
            Door::Administrators if files.len() < 2 => false,
            _ => files.pop().is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_have_all_but_one_which_serves_the_others_again_and_again() {
        let spare = Spare::new();
        assert_eq!((0..ASIDE).filter(|_| spare.give_up(Door::Administrators)).count(), ASIDE - 1);
        assert!(spare.give_up(Door::Tenants) && !spare.give_up(Door::Tenants));
        spare.put_aside();
        assert_eq!(spare.files().len(), ASIDE);
    }
}
