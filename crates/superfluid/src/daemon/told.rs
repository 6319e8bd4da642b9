//! What the workers tell, and whom it is handed to.

use super::controller::lock;
use super::logs::Logs;
use api::Kind;
use daemon::Notices;
use engine::Event;
use port::PortEvent;
use std::sync::{Mutex, OnceLock};

/// What the workers tell.
#[derive(Default)]
pub(super) struct Told {
    pub(super) notices: OnceLock<Notices>,
    pub(super) logs: Mutex<Logs>,
}

impl Told {
    /// Hands one thing on.
    pub(super) fn take(&self, event: Event) {
        let tell = |kind, name: &str, what, text: &str| {
            if let Some(notices) = self.notices.get() {
                notices.tell(kind, name, what, text);
            }
        };
        match event {
            Event::Fault { instance, reason, retry_after } => {
                let ms = retry_after.0 / 1_000_000;
                tell(Kind::Function, &instance, "fault", &format!("{reason}; started again in {ms} ms"));
            }
            Event::Restarted { instance } => tell(Kind::Function, &instance, "restarted", "it runs again"),
            Event::Log { instance, line } => {
                lock(&self.logs).add(&instance, line);
                if let Some(notices) = self.notices.get() {
                    notices.logged();
                }
            }
            Event::Found { instance, events } => {
                for line in &events.lines {
                    tell(Kind::Function, &instance, "found", line);
                }
                if events.lost > 0 {
                    let text = format!("{} more found no room", events.lost);
                    tell(Kind::Function, &instance, "found", &text);
                }
            }
            Event::Port { port, event } => match event {
                PortEvent::WentDown(text) => tell(Kind::Port, &port, "down", &text),
                PortEvent::CameUp(text) => tell(Kind::Port, &port, "up", &text),
                PortEvent::Notice(text) => tell(Kind::Port, &port, "notice", &text),
            },
            Event::Finished => {}
        }
    }
}
