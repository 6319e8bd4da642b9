//! How a port is, over time.

use crate::{PortEvent, PortStatus};

/// The status of a port and what is to be told about its changes: for ports whose outside comes and goes.
#[derive(Debug)]
pub struct Condition {
    status: PortStatus,
    events: Vec<PortEvent>,
}

impl Condition {
    /// As it is from the beginning, which is no event.
    pub fn new(status: PortStatus) -> Condition {
        Condition { status, events: Vec::new() }
    }

    /// How the port is.
    pub fn status(&self) -> &PortStatus {
        &self.status
    }

    /// Whether packets pass.
    pub fn is_up(&self) -> bool {
        self.status == PortStatus::Up
    }

    /// Packets pass; told when they did not.
    pub fn up(&mut self, how: &str) {
        if !self.is_up() {
            self.status = PortStatus::Up;
            self.events.push(PortEvent::CameUp(how.to_owned()));
        }
    }

    /// Packets do not pass. A change of the reason alone is no event: the port was down before.
    pub fn down(&mut self, reason: String) {
        if self.is_up() {
            self.events.push(PortEvent::WentDown(reason.clone()));
        }
        self.status = PortStatus::Down(reason);
    }

    /// Something to be told that changes no state.
    pub fn notice(&mut self, words: String) {
        self.events.push(PortEvent::Notice(words));
    }

    /// What is to be told, oldest first.
    pub fn take_events(&mut self) -> Vec<PortEvent> {
        std::mem::take(&mut self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_once() {
        let mut state = Condition::new(PortStatus::Up);
        state.down("one".into());
        state.down("two".into());
        assert_eq!(state.status(), &PortStatus::Down("two".into()));
        state.up("back");
        state.up("back");
        let expected = [PortEvent::WentDown("one".into()), PortEvent::CameUp("back".into())];
        assert_eq!(state.take_events(), expected);
        assert_eq!(state.take_events(), []);
    }
}
