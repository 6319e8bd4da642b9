//! The thread that holds a guest: it takes its output, and notices its end.

use crate::guests::Guests;
use crate::log::Log;
use crate::output::OutputRate;
use crate::request::Ended;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Instant;

/// Most bytes that are read of a guest that has ended: as many as a pipe of a user holds.
const LAST: usize = 1 << 20;

/// Watches until the guest has ended, and has its traces removed then.
pub(crate) fn begin(
    guests: &Arc<Guests>,
    name: &str,
    held: OwnedFd,
    output: File,
    log: Arc<Mutex<Log>>,
) -> std::io::Result<()> {
    let (guests, name) = (Arc::clone(guests), name.to_owned());
    let watch = move || {
        let ended = until_end(&held, output, &log);
        guests.has_ended(&name, ended);
    };
    Builder::new().name("guest".into()).spawn(watch).map(drop)
}

fn until_end(held: &OwnedFd, mut output: File, log: &Mutex<Log>) -> Ended {
    let began = Instant::now();
    let mut rate = OutputRate::new(began.elapsed());
    loop {
        let allowed = rate.allows(began.elapsed());
        let mut both = [
            PollFd::from_borrowed_fd(held.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN),
        ];
        // An interrupted wait is tried again.
        let _ = match allowed {
            0 => poll(&mut both[..1], Timespec::try_from(OutputRate::PAUSE).ok().as_ref()),
            _ => poll(&mut both, None),
        };
        if !both[0].revents().is_empty() {
            drain(&mut output, log, LAST);
            return how(held);
        }
        rate.took(drain(&mut output, log, allowed));
    }
}

/// Takes what is there, but no more than so many bytes; how many they were. A guest that writes faster than
/// it is read waits at its pipe.
fn drain(output: &mut File, log: &Mutex<Log>, most: usize) -> usize {
    let (mut bytes, mut taken) = ([0; 16 << 10], 0);
    while taken < most {
        let room = bytes.len().min(most - taken);
        // It does not block.
        let Ok(read @ 1..) = output.read(&mut bytes[..room]) else { break };
        log.lock().unwrap_or_else(PoisonError::into_inner).take(&bytes[..read]);
        taken += read;
        if read < room {
            break;
        }
    }
    taken
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, OFlags};
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_guest_that_never_stops_writing_is_read_no_further_than_it_may_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("output");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_bits_truncate(0o600), 0).expect("a pipe");
        let open = |more| {
            let flags = OFlags::RDWR | OFlags::CLOEXEC | more;
            File::from(rustix::fs::open(&path, flags, Mode::empty()).expect("it opens"))
        };
        let (mut output, mut to) = (open(OFlags::NONBLOCK), open(OFlags::NONBLOCK));
        let log = Mutex::new(Log::default());
        let mut fill = move || while to.write(&[b'y'; 4096]).is_ok() {};
        fill();
        assert_eq!(drain(&mut output, &log, 10_000), 10_000, "the rest stays in the pipe");
        assert_eq!(drain(&mut output, &log, 0), 0);
        assert_eq!(drain(&mut output, &log, LAST), 65_536 - 10_000);
        // One that goes on while it is read.
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writes = scope.spawn(|| {
                while !ends.load(Relaxed) {
                    fill();
                }
            });
            let mut taken = 0;
            while taken < 4 * LAST {
                let read = drain(&mut output, &log, LAST);
                assert!(read <= LAST);
                taken += read;
            }
            ends.store(true, Relaxed);
            writes.join().expect("it ends");
        });
    }
}
