//! The early hint of a process's end: a thread that waits at the word that a robust mutex of the process's
//! begins with.
//!
//! The kernel writes to the word when the thread that holds the mutex ends, before it takes the process's
//! memory away; a pidfd is readable only afterwards, which for a process of 64 MiB is milliseconds later. The
//! word is the process's: what it writes there costs it its packets, and this thread no more than [`ROUNDS`]
//! rounds. Buffers are not taken back by this. The thread ends with the attachment: a process that attaches
//! and leaves again and again has no more of them than attachments.

use crate::session::Line;
use local_socket::be_prompt;
use native_abi::{owner, words};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait, wake};
use rustix::time::Timespec;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// How often the word may change without a death.
const ROUNDS: u32 = 64;
/// How long a wait lasts before it is looked whether the attachment is still there: of a process that has not
/// taken its mutex yet, and else. Tests see by a long one that [`end`] ends it.
const SHORT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const LONG: Timespec = Timespec { tv_sec: if cfg!(test) { 3600 } else { 1 }, tv_nsec: 0 };
/// Short waits until a process counts as one that takes none.
const ABSENT_AFTER: u32 = 500;

/// Waits for the end of the thread that attached; `tell` is called once, when it has ended.
pub(crate) fn begin(line: Arc<Line>, tell: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let waiting = move || {
        be_prompt();
        if has_died(&line) {
            line.dying.store(true, Release);
            tell();
        }
    };
    std::thread::Builder::new().name("native-hint".into()).spawn(waiting).map(drop)
}

/// An attachment has ended, which its thread learns at once if it waits; one that was just about to finds out
/// when its wait is over.
pub(crate) fn end(line: &Line) {
    // There may be no such thread.
    let _ = wake(line.memory.word(words::OWNER), Flags::empty(), u32::MAX);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::Processes;
    use native_abi::{Layout, SIZE_MIN};
    use native_ring::SharedMemory;
    use packet_memory::{PageKind, Pool, PoolConfig};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    #[test]
    fn the_thread_ends_with_its_attachment() {
        let config = PoolConfig { buffers: 64, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
        let pool = Arc::new(Pool::new("test", config).expect("a small pool"));
        let (one, other) = UnixStream::pair().expect("a pair");
        let pid = std::process::id();
        let process = Processes::default().join((pid, other.into()), (None, "a.sock"), &pool, 1);
        let layout = Layout::new(SIZE_MIN, SIZE_MIN).expect("a size");
        let (memory, _) = SharedMemory::create("rings", layout.bytes()).expect("memory");
        let line = Arc::new(Line {
            socket: one.into(),
            memory: Arc::new(memory),
            process,
            ended: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            hung: AtomicBool::new(false),
            dying: AtomicBool::new(false),
        });
        // A mutex that is held.
        let word = line.memory.word(words::OWNER);
        word.store(1, Release);
        let (tell, told) = channel();
        let waits = line.clone();
        std::thread::spawn(move || tell.send(has_died(&waits)));
        let begin = Instant::now();
        while word.load(Acquire) & owner::WAITED_FOR == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "it begins to wait");
            std::thread::yield_now();
        }
        line.end();
        // It may still be about to wait.
        let died = loop {
            end(&line);
            if let Ok(died) = told.recv_timeout(Duration::from_millis(10)) {
                break died;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "it ends");
        };
        assert!(!died);
    }
}
