//! The early hint of a process's end: a thread that waits at the word that a robust mutex of the process's
//! begins with.
//!
//! The kernel writes to the word when the thread that holds the mutex ends, before it takes the process's
//! memory away; a pidfd is readable only afterwards, which for a process of 64 MiB is milliseconds later. The
//! word is the process's: what it writes there costs it its packets, and this thread no more than [`ROUNDS`]
//! rounds. Buffers are not taken back by this. The thread ends with the attachment: a process that attaches
//! and leaves again and again has no more of them than attachments.

use crate::session::Line;
use local_socket::{Idling, be_prompt};
use native_abi::{owner, words};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait, wake};
use rustix::time::Timespec;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, io};

/// How often the word may change without a death.
const ROUNDS: u32 = 64;
/// How long a wait lasts before it is looked whether the attachment is still there: of a process that has not
/// taken its mutex yet, and else. Tests see by a long one that [`end`] ends it.
const SHORT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const LONG: Timespec = Timespec { tv_sec: if cfg!(test) { 3600 } else { 1 }, tv_nsec: 0 };
/// Short waits until a process counts as one that takes none.
const ABSENT_AFTER: u32 = 500;

/// How long a thread stays when it has told of an end, and for how long the process that ends has to wait
/// for others: the next one has the packets by then. The thread's own end can wait as well.
const AFTERWARDS: Duration = Duration::from_millis(20);

/// Those that are to be told of the end of a process.
#[derive(Default)]
pub(crate) struct Hints(Mutex<Vec<Hint>>);

struct Hint {
    line: Weak<Line>,
    tell: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hints", self.all().len())
    }
}

impl Hints {
    fn all(&self) -> MutexGuard<'_, Vec<Hint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that holds the mutex of a line has died: those of all that it attached learn of it. Its
    /// mutexes are let go one after the other, with the threads that wait for them in between.
    fn tell(&self, died: &Arc<Line>, thread: u32) {
        let is_theirs = |line: &Arc<Line>| {
            let word = line.memory.word(words::OWNER).load(Acquire);
            // One that was let go already names none any more.
            let is_same = thread != 0 && word & owner::THREAD == thread;
            Arc::ptr_eq(line, died) || is_same || word & owner::DIED != 0
        };
        let theirs = |hint: &Hint| Some((hint.line.upgrade().filter(is_theirs)?, hint.tell.clone()));
        // What is told takes the processor at once: nothing is locked meanwhile.
        let theirs: Vec<_> = self.all().iter().filter_map(theirs).collect();
        theirs.iter().for_each(|(line, _)| line.dying.store(true, Release));
        theirs.iter().for_each(|(_, tell)| tell());
    }

    /// Those of other lines stay.
    fn leave(&self, gone: &Arc<Line>) {
        self.all().retain(|hint| hint.line.upgrade().is_some_and(|line| !Arc::ptr_eq(&line, gone)));
    }
}

/// Waits for the end of the thread that attached; `tell` is called when it has ended, once or twice.
pub(crate) fn begin(line: Arc<Line>, tell: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
    line.process.hints.all().push(Hint { line: Arc::downgrade(&line), tell: Arc::new(tell) });
    let waits = line.clone();
    let waiting = move || {
        be_prompt();
        let died = has_died(&waits);
        if let Some(thread) = died {
            // Its memory is yet to be taken away, for which it has the processor that others wait for.
            let idling = (!waits.process.is_gone()).then(|| Idling::begin(waits.process.pid)).flatten();
            waits.process.hints.tell(&waits, thread);
            std::thread::sleep(AFTERWARDS);
            if let Some(idling) = idling
                && waits.process.is_gone()
            {
                idling.forget();
            }
        }
        waits.process.hints.leave(&waits);
    };
    let begun = std::thread::Builder::new().name("native-hint".into()).spawn(waiting);
    if begun.is_err() {
        line.process.hints.leave(&line);
    }
    begun.map(drop)
}

/// An attachment has ended, which its thread learns at once if it waits; one that was just about to finds out
/// when its wait is over.
pub(crate) fn end(line: &Line) {
    // There may be no such thread.
    let _ = wake(line.memory.word(words::OWNER), Flags::empty(), u32::MAX);
}

/// The number of the thread, if it has died, rather than the attachment ended otherwise or the word made no
/// sense; 0 if it is not known.
fn has_died(line: &Line) -> Option<u32> {
    let word = line.memory.word(words::OWNER);
    let (mut rounds, mut absent, mut thread) = (0, 0, 0);
    while rounds < ROUNDS && absent < ABSENT_AFTER && !line.has_ended() {
        let seen = word.load(Acquire);
        if seen & owner::DIED != 0 {
            return Some(thread);
        }
        let (expected, longest) = match seen & owner::THREAD {
            0 => {
                absent += 1;
                (seen, SHORT)
            }
            holder => {
                // The word names none any more when it has died.
                thread = holder;
                (word.fetch_or(owner::WAITED_FOR, AcqRel) | owner::WAITED_FOR, LONG)
            }
        };
        if expected & owner::DIED != 0 {
            return Some(thread);
        }
        match wait(word, Flags::empty(), expected, Some(&longest)) {
            Err(Errno::TIMEDOUT) => {}
            _ => rounds += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::Processes;
    use native_abi::{Layout, SIZE_MIN};
    use native_ring::SharedMemory;
    use packet_memory::{PageKind, Pool, PoolConfig};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    /// Lines of one process, of which the first thread has attached some, and another one others.
    fn lines(threads: &[u32]) -> Vec<Arc<Line>> {
        let config = PoolConfig { buffers: 64, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
        let pool = Arc::new(Pool::new("test", config).expect("a small pool"));
        let (processes, layout) = (Processes::default(), Layout::new(SIZE_MIN, SIZE_MIN).expect("a size"));
        let pid = std::process::id();
        let line = |thread: &u32| {
            let (one, other) = UnixStream::pair().expect("a pair");
            let process = processes.join((pid, other.into()), (None, "a.sock"), &pool, 1);
            let (memory, _) = SharedMemory::create("rings", layout.bytes()).expect("memory");
            // A mutex that is held.
            memory.word(words::OWNER).store(*thread, Release);
            Arc::new(Line::new(one.into(), memory, process))
        };
        threads.iter().map(line).collect()
    }

    fn is_waited_for(line: &Line) -> bool {
        line.memory.word(words::OWNER).load(Acquire) & owner::WAITED_FOR != 0
    }

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_death_is_told_for_all_that_the_thread_attached_and_for_nothing_else() {
        let lines = lines(&[7, 7, 8]);
        let (tell, told) = channel();
        for (n, line) in lines.iter().enumerate() {
            let tell = tell.clone();
            begin(line.clone(), move || tell.send(n).expect("it is heard")).expect("a thread");
        }
        until("they begin to wait", || lines.iter().all(|line| is_waited_for(line)));
        // As the kernel does: the thread's number is gone.
        let word = lines[0].memory.word(words::OWNER);
        word.store(owner::DIED | owner::WAITED_FOR, Release);
        wake(word, Flags::empty(), 1).expect("it waits");
        let mut both = [(); 2].map(|()| told.recv_timeout(Duration::from_secs(20)).expect("told"));
        both.sort();
        assert_eq!(both, [0, 1]);
        assert_eq!(
            lines.iter().map(|line| line.dying.load(Acquire)).collect::<Vec<_>>(),
            [true, true, false]
        );
        until("the first one is told of no more", || lines[0].process.hints.all().len() == 2);
        for line in &lines {
            line.end();
            until("its thread ends", || {
                end(line);
                Arc::strong_count(line) == 1
            });
        }
        assert!(told.try_recv().is_err() && lines[0].process.hints.all().is_empty());
    }

    #[test]
    fn the_thread_ends_with_its_attachment() {
        let line = lines(&[1]).remove(0);
        let (tell, told) = channel();
        let waits = line.clone();
        std::thread::spawn(move || tell.send(has_died(&waits)));
        until("it begins to wait", || is_waited_for(&line));
        line.end();
        let mut died = None;
        // It may still be about to wait.
        until("it ends", || {
            end(&line);
            died = told.try_recv().ok();
            died.is_some()
        });
        assert_eq!(died, Some(None));
    }
}
