//! The early hint of a process's end: a thread that waits at the word that a robust mutex of the process's
//! begins with.
//!
//! The kernel writes to the word when the thread that holds the mutex ends, before it takes the process's
//! memory away; a pidfd is readable only afterwards, which for a process of 64 MiB is milliseconds later. The
//! word is the process's: what it writes there costs it its packets, and this thread no more than [`ROUNDS`]
//! rounds. Buffers are not taken back by this.

use crate::session::Line;
use native_abi::{owner, words};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait};
use rustix::time::Timespec;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// How often the word may change without a death.
const ROUNDS: u32 = 64;
/// How long a wait lasts before it is looked whether the attachment is still there: of a process that has not
/// taken its mutex yet, and else.
const SHORT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const LONG: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Short waits until a process counts as one that takes none.
const ABSENT_AFTER: u32 = 500;

/// Waits for the end of the thread that attached; `tell` is called once, when it has ended.
pub(crate) fn begin(line: Arc<Line>, tell: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let waiting = move || {
        if has_died(&line) {
            line.dying.store(true, Release);
            tell();
        }
    };
    std::thread::Builder::new().name("native-hint".into()).spawn(waiting).map(drop)
}

/// Whether the thread has died, rather than the attachment ended otherwise or the word made no sense.
fn has_died(line: &Line) -> bool {
    let word = line.memory.word(words::OWNER);
    let (mut rounds, mut absent) = (0, 0);
    while rounds < ROUNDS && absent < ABSENT_AFTER && !line.has_ended() {
        let seen = word.load(Acquire);
        if seen & owner::DIED != 0 {
            return true;
        }
        let (expected, longest) = match seen & owner::THREAD {
            0 => {
                absent += 1;
                (seen, SHORT)
            }
            _ => (word.fetch_or(owner::WAITED_FOR, AcqRel) | owner::WAITED_FOR, LONG),
        };
        if expected & owner::DIED != 0 {
            return true;
        }
        match wait(word, Flags::empty(), expected, Some(&longest)) {
            Err(Errno::TIMEDOUT) => {}
            _ => rounds += 1,
        }
    }
    false
}
