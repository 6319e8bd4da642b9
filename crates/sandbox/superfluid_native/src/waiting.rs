//! Sleeping until there is something to receive, or to know.

use crate::Attachment;
use crate::attachment::{drain, longest_sleep, sleeps};
use native_ring::sleep;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::time::{Duration, Instant};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There is something to receive by at least one attachment, or the device behind one has changed.
    Something,
    /// The time is over.
    Timeout,
    /// The attachment of this number is no more: the port was closed, or has cut the process off.
    Closed(usize),
}

/// Sleeps until there is something to receive by one of the attachments or its device has changed, for
/// `timeout` at most; `None`: for ever. Shows the engine that the process lives, also while it sleeps.
pub fn wait(attachments: &mut [&mut Attachment], timeout: Option<Duration>) -> Woken {
    let until = timeout.map(|span| Instant::now() + span);
    loop {
        attachments.iter_mut().for_each(|attachment| attachment.beat());
        attachments.iter().for_each(|attachment| sleep::will_sleep(sleeps(attachment)));
        let ready = attachments
            .iter()
            .any(|attachment| attachment.has_something() || attachment.has_devices_to_read());
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let span = attachments.iter().map(|attachment| longest_sleep(attachment)).min();
        let span = Duration::from_millis(span.map_or(1000, u64::from)).min(left.unwrap_or(Duration::MAX));
        if !ready {
            let mut fds: Vec<PollFd<'_>> =
                attachments.iter().map(|attachment| PollFd::new(&attachment.socket, PollFlags::IN)).collect();
            let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
            let _ = poll(&mut fds, Some(&span));
        }
        attachments.iter().for_each(|attachment| sleep::awake(sleeps(attachment)));
        let closed = attachments.iter().position(|attachment| attachment.is_broken() || !drain(attachment));
        let told = attachments.iter_mut().fold(false, |told, attachment| attachment.read_devices() | told);
        let has_something = told || attachments.iter().any(|attachment| attachment.has_something());
        if has_something && closed.is_none() {
            return Woken::Something;
        }
        if let Some(closed) = closed {
            return Woken::Closed(closed);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Woken::Timeout;
        }
    }
}
