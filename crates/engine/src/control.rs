//! Messages to a worker, and what it tells.

use crate::berth::Berth;
use crate::meeting::Meeting;
use clock::Nanos;
use guest::{Events, LogLine};
use port::Bell;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Something that happened, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A guest trapped, ran too long, or could not be started again.
    Fault {
        /// The instance.
        instance: String,
        /// Why.
        reason: String,
        /// When it will be started again.
        retry_after: Nanos,
    },
    /// An instance was started again.
    Restarted {
        /// The instance.
        instance: String,
    },
    /// A function logged a line.
    Log {
        /// The instance.
        instance: String,
        /// What it said.
        line: LogLine,
    },
    /// A function told what it found.
    Found {
        /// The instance.
        instance: String,
        /// What.
        events: Events,
    },
    /// Something happened to a port.
    Port {
        /// The port.
        port: String,
        /// What.
        event: port::PortEvent,
    },
    /// All ports that can finish have, and nothing is in flight.
    Finished,
}

/// The worker has stopped; there is nobody to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker has stopped")]
pub struct Stopped;

pub(crate) enum Command {
    Stop,
    Meet(Arc<Meeting>),
}

/// Sends messages to a worker from anywhere. Each wakes it when it sleeps.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    commands: Sender<Command>,
    bell: Arc<Bell>,
    berth: Arc<Berth>,
}

impl Remote {
    pub(crate) fn send(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).map_err(|_| Stopped)?;
        self.bell.ring();
        Ok(())
    }

    /// Where the worker lies when its thread sleeps.
    pub(crate) fn berth(&self) -> &Berth {
        &self.berth
    }
}

/// The worker's end.
pub(crate) struct Mailbox {
    commands: Receiver<Command>,
    bell: Arc<Bell>,
    remote: Remote,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Command::Stop => "Stop",
            Command::Meet(_) => "Meet",
        })
    }
}

impl Mailbox {
    pub(crate) fn new(berth: Arc<Berth>) -> io::Result<Mailbox> {
        let bell = Arc::new(Bell::new()?);
        let (sender, commands) = channel();
        Ok(Mailbox { commands, bell: bell.clone(), remote: Remote { commands: sender, bell, berth } })
    }

    pub(crate) fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// The next message, if there is one.
    pub(crate) fn next(&self) -> Option<Command> {
        self.commands.try_recv().ok()
    }

    /// Rings when there is a message.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }
}
