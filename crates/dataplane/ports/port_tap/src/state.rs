//! What a port thinks of its device, decided without a system call.

use port::attachment::Action;

/// What is known of the device that the queues belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// There is none, or the port has none yet.
    Absent,
    /// It is there; `moved` to another network namespace than the port's own.
    Present { up: bool, carrier: bool, moved: bool },
    /// It is in a network namespace into which the port may not look.
    Hidden,
}

/// What follows from what is there.
pub(crate) fn decide(name: &str, presence: Presence) -> Action {
    match presence {
        Presence::Absent => Action::Open,
        // A packet that it refuses because it is switched off will tell.
        Presence::Hidden => Action::Up,
        Presence::Present { up: false, moved: false, .. } => Action::Down(format!(
            "interface `{name}` is switched off; `ip link set {name} up` switches it on"
        )),
        Presence::Present { up: false, moved: true, .. } => Action::Down(format!(
            "interface `{name}` is switched off in the network namespace that it was moved to; `ip link set {name} up` \
             there switches it on"
        )),
        Presence::Present { carrier: false, .. } => {
            Action::Down(format!("interface `{name}` has no carrier"))
        }
        Presence::Present { .. } => Action::Up,
    }
}
