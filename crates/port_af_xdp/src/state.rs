//! What a port thinks of its interface, decided without a system call.

use kernel_interface::Presence;

/// What is to be done after looking at the interface.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Packets pass.
    Up,
    /// Packets do not pass, for this reason.
    Down(String),
    /// Sockets must be opened: there are none, or they are bound to an interface that is no more.
    Open,
}

/// Compares what is there with what the sockets are bound to (`None`: no sockets, or to nothing any more). One that is
/// switched off is not opened: nothing could pass.
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
