//! The thread that holds a guest: it takes its output, and notices its end.

use crate::guests::Guests;
use crate::request::Ended;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::Builder;

/// Watches until the guest has ended, and has its traces removed then.
pub(crate) fn begin(guests: &Arc<Guests>, name: &str, held: OwnedFd, output: File) -> std::io::Result<()> {
    let (guests, name) = (Arc::clone(guests), name.to_owned());
    let watch = move || {
        let ended = until_end(&guests, &name, &held, output);
        guests.has_ended(&name, ended);
    };
    Builder::new().name("guest".into()).spawn(watch).map(drop)
}

fn until_end(guests: &Guests, name: &str, held: &OwnedFd, mut output: File) -> Ended {
    loop {
        let mut both = [
            PollFd::from_borrowed_fd(held.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN),
        ];
        // An interrupted wait is tried again.
        let _ = poll(&mut both, None);
        let ended = !both[0].revents().is_empty();
        if both[1].revents().contains(PollFlags::IN) {
            drain(guests, name, &mut output);
        }
        if ended {
            drain(guests, name, &mut output);
            return how(held);
        }
    }
}

/// Takes what is there. A guest that writes faster than this reads it waits at its pipe.
fn drain(guests: &Guests, name: &str, output: &mut File) {
    let mut bytes = [0; 16 << 10];
    // It does not block.
    while let Ok(read @ 1..) = output.read(&mut bytes) {
        guests.has_written(name, &bytes[..read]);
        if read < bytes.len() {
            break;
        }
    }
}

/// How a process ended; a launcher is told of those alone that it, or a runtime below it, started.
fn how(held: &OwnedFd) -> Ended {
    let status = waitid(WaitId::PidFd(held.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    match status {
        Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Ended::Status(status),
            (None, Some(signal)) => Ended::Signal(signal),
            (None, None) => Ended::Unknown,
        },
        _ => Ended::Unknown,
    }
}
