//! Ports at guests that stand by each other: a port has an interface at each of them, and is on that of the
//! one that is active.
//!
//! 1. What knows the guests says which of them is active ([`ActiveGuest::say`]), and has the function's ports
//!    looked after.
//! 2. Each port that is [on](OnActive) one of these interfaces finds at its next look that it is to be on
//!    another one ([`OnActive::turn`]), lets go of what it has and takes that, as it takes an interface that
//!    has come back.
//!
//! Limits: which one it is says nothing of whether that one runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Which of a function's guests is active, and how many others are ready.
#[derive(Clone, Debug, Default)]
pub struct ActiveGuest(Arc<AtomicU32>);

impl ActiveGuest {
    /// Says it: the number of the active one, 0 for the first, and how many stand by, if others are to.
    pub fn say(&self, number: u8, standing_by: Option<u8>) {
        let [others, ready] = standing_by.map_or([0, 0], |ready| [1, ready]);
        self.0.store(u32::from_le_bytes([number, ready, others, 1]), Relaxed);
    }

    /// Whether it has been said yet.
    fn is_said(&self) -> bool {
        self.0.load(Relaxed).to_le_bytes()[3] > 0
    }

    /// Whether a port has it, or what says it.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// The number of the active one.
    pub fn number(&self) -> u8 {
        self.0.load(Relaxed).to_le_bytes()[0]
    }

    /// How many stand by; `None`: none is to.
    pub fn standing_by(&self) -> Option<u8> {
        let [_, ready, others, _] = self.0.load(Relaxed).to_le_bytes();
        (others > 0).then_some(ready)
    }
}

/// A port's place at the active guest.
#[derive(Clone, Debug)]
pub struct OnActive {
    active: ActiveGuest,
    /// The port's interface at each of them.
    interfaces: Vec<String>,
    /// Which one the port is on.
    number: u8,
    /// Whether that was said, and not only begun with.
    is_said: bool,
    takeovers: u64,
}

/// That of the same port.
impl PartialEq for OnActive {
    fn eq(&self, other: &OnActive) -> bool {
        Arc::ptr_eq(&self.active.0, &other.active.0) && self.interfaces == other.interfaces
    }
}

impl Eq for OnActive {}

impl OnActive {
    /// That of a port with these interfaces, by the guests' numbers; at the active one.
    pub fn new(active: &ActiveGuest, interfaces: Vec<String>) -> OnActive {
        let (number, is_said) = (active.number(), active.is_said());
        OnActive { active: active.clone(), interfaces, number, is_said, takeovers: 0 }
    }

    /// The interface that the port is on.
    pub fn interface(&self) -> Option<&str> {
        self.interfaces.get(usize::from(self.number)).map(String::as_str)
    }

    /// The interface to go to, when another guest has become active, or was when that was first said: after a
    /// daemon's start the one that was active before is found, and has taken over from none.
    pub fn turn(&mut self) -> Option<String> {
        let was_said = std::mem::replace(&mut self.is_said, self.active.is_said());
        let number = self.active.number();
        let interface = self.interfaces.get(usize::from(number)).filter(|_| number != self.number)?;
        self.number = number;
        self.takeovers += u64::from(was_said);
        Some(interface.clone())
    }

    /// Whether another one may have to be gone to soon.
    pub fn may_turn(&self) -> bool {
        self.active.standing_by().is_some_and(|ready| ready > 0)
    }

    /// What a port counts of it, by the names that native ports have for the same.
    pub fn details(&self, is_up: bool) -> Vec<(&'static str, u64)> {
        let standing_by = self.active.standing_by();
        if standing_by.is_none() && self.takeovers == 0 {
            return Vec::new();
        }
        vec![
            ("active_guest", u64::from(self.number)),
            ("processes_attached", u64::from(is_up)),
            ("processes_standby", u64::from(standing_by.unwrap_or(0))),
            ("takeovers", self.takeovers),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_where_the_active_guest_is() {
        let active = ActiveGuest::default();
        let names = || vec!["sfg-0".to_owned(), "sfg10".to_owned()];
        let mut on = OnActive::new(&active, names());
        assert_eq!((on.turn(), on.interface(), on.may_turn()), (None, Some("sfg-0"), false));
        assert_eq!(on.details(true), []);
        active.say(0, Some(1));
        assert_eq!((on.turn(), on.may_turn(), active.standing_by()), (None, true, Some(1)));
        active.say(1, Some(0));
        assert_eq!([on.turn(), on.turn()], [Some("sfg10".to_owned()), None]);
        assert_eq!((on.interface(), on.may_turn()), (Some("sfg10"), false));
        let counted =
            [("active_guest", 1), ("processes_attached", 0), ("processes_standby", 0), ("takeovers", 1)];
        assert_eq!(on.details(false), counted);
        assert_eq!(OnActive::new(&active, names()).interface(), Some("sfg10"), "one that is opened later");
        let found = ActiveGuest::default();
        let mut finds = OnActive::new(&found, names());
        found.say(1, Some(1));
        assert_eq!(finds.turn().as_deref(), Some("sfg10"), "it was active before");
        assert_eq!(finds.details(true).last(), Some(&("takeovers", 0)));
        found.say(0, Some(1));
        assert_eq!(finds.turn().as_deref(), Some("sfg-0"));
        assert_eq!(finds.details(true).last(), Some(&("takeovers", 1)));
        active.say(2, None);
        assert_eq!((on.turn(), on.interface()), (None, Some("sfg10")), "there is no such guest");
        active.say(0, None);
        assert_eq!((on.turn().as_deref(), active.standing_by()), (Some("sfg-0"), None));
    }
}
