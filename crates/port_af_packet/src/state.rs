//! What a port thinks of its interface, decided without a system call.

use crate::socket::Presence;
use port::{PortEvent, PortStatus};

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

/// The status and what is to be told about its changes.
#[derive(Debug)]
pub(crate) struct State {
    status: PortStatus,
    events: Vec<PortEvent>,
}

impl State {
    pub fn new(status: PortStatus) -> State {
        State { status, events: Vec::new() }
    }

    pub fn status(&self) -> &PortStatus {
        &self.status
    }

    pub fn is_up(&self) -> bool {
        self.status == PortStatus::Up
    }

    pub fn up(&mut self, how: &str) {
        if !self.is_up() {
            self.status = PortStatus::Up;
            self.events.push(PortEvent::CameUp(how.to_owned()));
        }
    }

    /// A change of the reason alone is no event: the port was down before.
    pub fn down(&mut self, reason: String) {
        if self.is_up() {
            self.events.push(PortEvent::WentDown(reason.clone()));
        }
        self.status = PortStatus::Down(reason);
    }

    pub fn notice(&mut self, words: String) {
        self.events.push(PortEvent::Notice(words));
    }

    pub fn take_events(&mut self) -> Vec<PortEvent> {
        std::mem::take(&mut self.events)
    }
}
