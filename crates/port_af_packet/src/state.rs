//! What a port thinks of its interface, decided without a system call.

use kernel_interface::Presence;

/// What is to be done after looking at the interface.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Packets pass.
    Up,
    /// Packets do not pass, for this reason.
    Down(String),
    /// A socket must be opened: there is none, or it is bound to an interface that is no more.
    Open,
}

/// Compares what is there with what the socket is bound to (`None`: no socket).
pub(crate) fn decide(name: &str, presence: Presence, bound_to: Option<i32>) -> Action {
    match presence {
        Presence::Absent => Action::Down(format!("interface `{name}` is not there; waiting for it")),
        Presence::Present { index, .. } if bound_to != Some(index) => Action::Open,
        Presence::Present { up: false, .. } => Action::Down(format!(
            "interface `{name}` is switched off; `ip link set {name} up` switches it on"
        )),
        Presence::Present { carrier: false, .. } => {
            Action::Down(format!("interface `{name}` has no carrier; its other end is off or unplugged"))
        }
        Presence::Present { .. } => Action::Up,
    }
}
