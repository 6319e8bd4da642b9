//! What a port thinks of its interface, decided without a system call.

use crate::{Inquiry, Owner, Presence};
use port::attachment::Action;

/// Whether an interface can have this name.
pub fn is_name(name: &str) -> bool {
    let bad = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    !name.is_empty() && name.len() < libc::IFNAMSIZ && !name.contains(bad)
}

/// Why an interface is not to be opened by this program: it is that of a guest of another one.
pub fn is_anothers(inquiry: &Inquiry, name: &str, owner: Option<Owner>) -> Option<String> {
    let is_anothers = owner?.is_anothers(inquiry.address(name).ok()?);
    is_anothers.then(|| {
        format!("interface `{name}` is that of another program's guest, whose function has the same name")
    })
}

/// Looks at the interface, and decides; `owner` is this program where the interface is that of a guest.
pub fn assess(inquiry: &Inquiry, name: &str, bound_to: Option<i32>, owner: Option<Owner>) -> Action {
    match inquiry.presence(name) {
        Ok(presence) => match decide(name, presence, bound_to) {
            Action::Open => is_anothers(inquiry, name, owner).map_or(Action::Open, Action::Down),
            action => action,
        },
        Err(error) => Action::Down(format!("interface `{name}`: {error}")),
    }
}

/// Compares what is there with what the sockets are bound to (`None`: no sockets, or to nothing any more).
/// One that is switched off is not opened: nothing could pass.
pub(crate) fn decide(name: &str, presence: Presence, bound_to: Option<i32>) -> Action {
    match presence {
        Presence::Absent => Action::Down(format!("interface `{name}` is not there; waiting for it")),
        Presence::Present { up: false, .. } => Action::Down(format!(
            "interface `{name}` is switched off; `ip link set {name} up` switches it on"
        )),
        Presence::Present { index, .. } if bound_to != Some(index) => Action::Open,
        Presence::Present { carrier: false, .. } => {
            Action::Down(format!("interface `{name}` has no carrier; its other end is off or unplugged"))
        }
        Presence::Present { .. } => Action::Up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_kernel_takes() {
        assert!(is_name("eth0") && is_name("fifteen_bytes_0"));
        for bad in ["", "a/b", "a:0", "a b", "a\0", "sixteen_bytes_00"] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn an_interface_is_judged_by_its_number_and_flags() {
        let there = |index, up, carrier| Presence::Present { index, up, carrier };
        assert_eq!(decide("a", there(3, true, true), Some(3)), Action::Up);
        assert_eq!(decide("a", there(4, true, true), Some(3)), Action::Open);
        assert_eq!(decide("a", there(4, true, true), Some(-1)), Action::Open);
        assert_eq!(decide("a", there(4, true, true), None), Action::Open);
        assert_eq!(decide("a", there(4, true, false), None), Action::Open);
        let down = |action: Action| match action {
            Action::Down(reason) => reason,
            other => panic!("{other:?}"),
        };
        for bound_to in [None, Some(-1), Some(3)] {
            assert!(down(decide("a", Presence::Absent, bound_to)).contains("not there"));
            assert!(down(decide("a", there(3, false, false), bound_to)).contains("ip link set a up"));
        }
        assert!(down(decide("a", there(3, true, false), Some(3))).contains("carrier"));
    }
}
