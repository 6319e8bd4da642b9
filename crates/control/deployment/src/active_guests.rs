//! Which guest of each function is active, where the ports of those find it whose guests stand by each other.

use kernel_interface::{ActiveGuest, OnActive};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wiring::{STANDBY_MAX, standby_link};

/// By function. One that nothing was said of has its first guest active.
#[derive(Clone, Debug, Default)]
pub struct ActiveGuests(Arc<Mutex<HashMap<String, ActiveGuest>>>);

impl ActiveGuests {
    /// That of a function: what is said by it its ports find, also those that are opened later.
    pub fn of(&self, function: &str) -> ActiveGuest {
        self.all().entry(function.to_owned()).or_default().clone()
    }

    /// Keeps those of the functions alone for which this holds, and those that a port has still, or already.
    pub fn retain(&self, stays: impl Fn(&str) -> bool) {
        self.all().retain(|function, active| stays(function) || active.is_shared());
    }

    /// The place of a function's port, with its interface at the first guest.
    pub(crate) fn place(&self, function: &str, first: &str) -> OnActive {
        let interfaces = (0..=STANDBY_MAX).map(|number| standby_link(first, number));
        OnActive::new(&self.of(function), interfaces.collect())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, ActiveGuest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_comes_back_begins_with_its_first_guest() {
        let all = ActiveGuests::default();
        let mut place = all.place("ids", "sfg0123456789-1");
        all.of("ids").say(2, Some(1));
        assert_eq!(place.turn().as_deref(), Some("sfg012345678921"));
        assert_eq!(all.place("web", "sfg1123456789-1").interface(), Some("sfg1123456789-1"));
        all.retain(|function| function != "ids");
        assert_eq!(all.of("ids").number(), 2, "a port has it");
        drop(place);
        all.retain(|function| function != "ids");
        assert_eq!(all.place("ids", "sfg0123456789-1").interface(), Some("sfg0123456789-1"));
    }
}
