//! Sleeping until there is something to receive, or to know, or room to send.

use crate::Attachment;
use crate::attachment::{drain, longest_sleep, sender_sleeps, sleeps};
use native_ring::sleep;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::time::{Duration, Instant};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There is what was waited for by at least one attachment.
    Something,
    /// The time is over, or a signal's handler has run.
    Timeout,
    /// The attachment of this number is no more: the port was closed, or has cut the process off.
    Closed(usize),
}

/// What is waited for by an attachment. With neither the engine is shown that the process lives, and no more.
#[derive(Debug)]
pub struct Interest<'a> {
    /// By which it is waited.
    pub attachment: &'a mut Attachment,
    /// Something to receive, or a change of the device behind the port.
    pub receive: bool,
    /// Room for packets to send. A process that found none is woken when half of the ring is free.
    pub send: bool,
}

impl Interest<'_> {
    /// Before it is looked, so that the other side sees it.
    fn will_sleep(&self) {
        if self.receive {
            sleep::will_sleep(sleeps(self.attachment));
        }
        if self.send {
            sleep::will_sleep(sender_sleeps(self.attachment));
        }
    }

    fn awake(&self) {
        if self.receive {
            sleep::awake(sleeps(self.attachment));
        }
        if self.send {
            sleep::awake(sender_sleeps(self.attachment));
        }
    }

    fn is_met(&self) -> bool {
        (self.receive && self.attachment.has_something()) || (self.send && self.attachment.has_room())
    }
}

/// Sleeps until there is something to receive by one of the attachments or its device has changed, for
/// `timeout` at most; `None`: for ever. A handler of a signal that runs meanwhile ends the wait, so that what
/// it noted is looked at. Shows the engine that the process lives, also while it sleeps.
pub fn wait(attachments: &mut [&mut Attachment], timeout: Option<Duration>) -> Woken {
    let interest = |attachment| Interest { attachment, receive: true, send: false };
    let mut interests: Vec<Interest<'_>> =
        attachments.iter_mut().map(|attachment| interest(&mut **attachment)).collect();
    poll(&mut interests, timeout)
}

/// Sleeps until there is something of what is waited for, for `timeout` at most; `None`: for ever. Shows the
/// engine by all of the attachments that the process lives, also while it sleeps.
pub fn poll(interests: &mut [Interest<'_>], timeout: Option<Duration>) -> Woken {
    let until = timeout.map(|span| Instant::now() + span);
    loop {
        interests.iter_mut().for_each(|one| one.attachment.beat());
        interests.iter().for_each(Interest::will_sleep);
        let ready =
            interests.iter().any(|one| one.is_met() || (one.receive && one.attachment.has_devices_to_read()));
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let span = interests.iter().map(|one| longest_sleep(one.attachment)).min();
        let span = Duration::from_millis(span.map_or(1000, u64::from)).min(left.unwrap_or(Duration::MAX));
        let mut interrupted = false;
        if !ready {
            let mut fds: Vec<PollFd<'_>> =
                interests.iter().map(|one| PollFd::new(&one.attachment.socket, PollFlags::IN)).collect();
            let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
            interrupted = rustix::event::poll(&mut fds, Some(&span)) == Err(Errno::INTR);
        }
        interests.iter().for_each(Interest::awake);
        let closed = interests.iter().position(|one| one.attachment.is_broken() || !drain(one.attachment));
        let told = interests
            .iter_mut()
            .filter(|one| one.receive)
            .fold(false, |told, one| one.attachment.read_devices() | told);
        let has_something = told || interests.iter().any(Interest::is_met);
        if has_something && closed.is_none() {
            return Woken::Something;
        }
        if let Some(closed) = closed {
            return Woken::Closed(closed);
        }
        if interrupted || until.is_some_and(|until| Instant::now() >= until) {
            return Woken::Timeout;
        }
    }
}
