//! How a port is, and what it waits for.

use std::os::fd::BorrowedFd;
use telemetry::clock::Nanos;

/// How a port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortStatus {
    /// Packets pass.
    Up,
    /// Packets do not pass; the reason in words. The port tries again by itself.
    Down(String),
    /// A source that has no more packets to give; it still transmits.
    Finished,
}

/// Something that happened to a port, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// It went down.
    WentDown(String),
    /// It came back.
    CameUp(String),
    /// Something worth telling that changes no state: a corrupt record in a capture, say.
    Notice(String),
}

/// What a sleeping worker waits for on behalf of a port. Empty when the port can only be written to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wake<'a> {
    /// Becomes readable when there is something to receive.
    pub readable: Option<BorrowedFd<'a>>,
    /// Becomes readable when the port is not what it was, because a peer has come or gone, until that has
    /// been taken note of. What there is to receive may wait outside, with a worker whose wake-ups are
    /// moderated; this may not.
    pub news: Option<BorrowedFd<'a>>,
    /// The time at which there will be something to receive; one that has passed means now.
    pub at: Option<Nanos>,
}

impl Wake<'_> {
    /// There is always something to receive: the worker is not to sleep.
    pub const NOW: Wake<'static> = Wake { readable: None, news: None, at: Some(Nanos(0)) };

    /// At a time that is known.
    pub const fn at(time: Nanos) -> Wake<'static> {
        Wake { readable: None, news: None, at: Some(time) }
    }
}
