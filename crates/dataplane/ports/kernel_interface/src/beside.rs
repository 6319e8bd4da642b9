//! What the kernel takes its time for, on threads beside the workers. It gives a packet socket a ring, and
//! takes one back, after a grace period of its RCU: 8 ms and more each time, for which a worker would stand
//! still.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::iter::once;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, sleep};
use std::time::Duration;

/// So many wait for the kernel at a time.
const THREADS: usize = 8;

/// A worker has duplicates of its ports' descriptors while it sleeps, and is woken when a port goes. If it
/// closed the last one, it would be the one that waits for the kernel.
const AWHILE: Duration = Duration::from_millis(100);

type Job = Box<dyn FnOnce() + Send>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the threads, unless they have begun. They may run where the thread may that calls this first, so
/// that is not to be a worker's.
pub fn prepare() {
    threads();
}

fn threads() -> Option<&'static Sender<Job>> {
    static JOBS: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let begin = || {
        let (sender, jobs) = channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        let begun = (0..THREADS).filter(|_| {
            let jobs = jobs.clone();
            let next = move || lock(&jobs).recv();
            let serve = move || {
                while let Ok(job) = next() {
                    job();
                }
            };
            Builder::new().name("port-opener".into()).spawn(serve).is_ok()
        });
        (begun.count() > 0).then_some(sender)
    };
    JOBS.get_or_init(begin).as_ref()
}

/// Jobs that were begun and have not ended.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// One of [`BEGUN`], until it is dropped.
struct Counted;

impl Counted {
    fn new() -> Counted {
        BEGUN.fetch_add(1, Relaxed);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        BEGUN.fetch_sub(1, Relaxed);
    }
}

/// So much is there at most that is not needed yet: it takes memory of the kernel's.
const MOST_EARLY: usize = 16;

/// How much of it there is.
static EARLY: AtomicUsize = AtomicUsize::new(0);

/// A place for something that is not needed yet, until it is dropped.
#[derive(Debug)]
pub struct Early(());

impl Early {
    /// One, if there is one, and a thread to make it: half of the threads are for what is needed.
    pub fn take() -> Option<Early> {
        if BEGUN.load(Relaxed) >= THREADS / 2 {
            return None;
        }
        let one_more = |taken: usize| (taken < MOST_EARLY).then_some(taken + 1);
        EARLY.fetch_update(Relaxed, Relaxed, one_more).ok().map(|_| Early(()))
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        EARLY.fetch_sub(1, Relaxed);
    }
}

/// Does it soon. Where the system has no threads it is done here.
fn run(job: impl FnOnce() + Send + 'static) {
    let counted = Counted::new();
    let job: Job = Box::new(move || {
        let _until_it_ends = counted;
        job();
    });
    let left = match threads() {
        Some(threads) => threads.send(job).err(),
        None => Some(SendError(job)),
    };
    if let Some(SendError(job)) = left {
        job();
    }
}

/// Drops a value there, a while later: until then a worker that sleeps may have a descriptor of its own of
/// what it holds ([`AWHILE`]).
pub fn let_go(value: impl Send + 'static) {
    static CLOSER: OnceLock<Option<Sender<Box<dyn Send>>>> = OnceLock::new();
    let begin = || {
        let (sender, values) = channel::<Box<dyn Send>>();
        let serve = move || {
            while let Ok(first) = values.recv() {
                let some: Vec<_> = once(first).chain(values.try_iter()).collect();
                sleep(AWHILE);
                some.into_iter().for_each(|value| run(move || drop(value)));
            }
        };
        Builder::new().name("port-closer".into()).spawn(serve).is_ok().then_some(sender)
    };
    match CLOSER.get_or_init(begin) {
        // The thread lasts as long as the program.
        Some(closer) => drop(closer.send(Box::new(value))),
        None => run(move || drop(value)),
    }
}

/// Something that is being made there. What is made for one that was dropped is dropped there too.
#[derive(Debug)]
pub struct Pending<T>(Arc<Made<T>>);

#[derive(Debug)]
struct Made<T> {
    value: Mutex<Option<T>>,
    is_made: OwnedFd,
}

impl<T: Send + 'static> Pending<T> {
    /// Begins it.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn begin(make: impl FnOnce() -> T + Send + 'static) -> io::Result<Pending<T>> {
        let is_made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let made = Arc::new(Made { value: Mutex::new(None), is_made });
        let to = made.clone();
        run(move || {
            let value = make();
            *lock(&to.value) = Some(value);
            // It was 0, so that there is room for one.
            let _ = rustix::io::write(&to.is_made, &1_u64.to_ne_bytes());
        });
        Ok(Pending(made))
    }

    /// Whether it has been made and not been taken.
    pub fn is_made(&self) -> bool {
        lock(&self.0.value).is_some()
    }

    /// It, once, when it has been made.
    pub fn take(&self) -> Option<T> {
        lock(&self.0.value).take()
    }

    /// It, when it has been made. What is begun here may wait for what was begun here before: all is begun in
    /// its order.
    ///
    /// # Errors
    /// It never will be: the thread that made it ended.
    pub fn wait(self) -> io::Result<T> {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        loop {
            // An interrupted wait is one more look.
            let _ = poll(&mut [PollFd::from_borrowed_fd(self.readable(), PollFlags::IN)], Some(&second));
            // Before it is looked for: what has it by then has made it.
            let is_alone = Arc::strong_count(&self.0) == 1;
            match self.take() {
                Some(value) => return Ok(value),
                None if is_alone => return Err(io::Error::other("what makes it has ended")),
                None => {}
            }
        }
    }

    /// Readable from when it has been made.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.0.is_made.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, RecvTimeoutError};
    use std::thread::{ThreadId, current};

    /// What only a hang meets.
    const LIMIT: Duration = Duration::from_secs(20);

    /// Tells on which thread it is dropped.
    struct Tells(Sender<ThreadId>);

    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.send(current().id());
        }
    }

    fn is_elsewhere(told: &Receiver<ThreadId>) {
        assert_ne!(told.recv_timeout(LIMIT).expect("it is dropped"), current().id());
    }

    #[test]
    fn it_is_made_and_let_go_by_other_threads() {
        let (go, may_go) = channel::<()>();
        let pending =
            Pending::begin(move || (may_go.recv_timeout(LIMIT), current().id())).expect("it begins");
        let is_readable = |span: i64| {
            let span = Timespec { tv_sec: span, tv_nsec: 0 };
            poll(&mut [PollFd::from_borrowed_fd(pending.readable(), PollFlags::IN)], Some(&span)) == Ok(1)
        };
        assert!(!pending.is_made() && !is_readable(0));
        assert_eq!(pending.take(), None);
        go.send(()).expect("it waits");
        assert!(is_readable(20) && pending.is_made());
        let (heard, by) = pending.take().expect("it has been made");
        assert_eq!(heard, Ok(()));
        assert_ne!(by, current().id());
        assert!(!pending.is_made(), "it is given once");
        let (tell, told) = channel();
        let_go(Tells(tell));
        is_elsewhere(&told);
    }

    #[test]
    fn what_is_made_of_another_waits_for_it() {
        let (go, may_go) = channel::<()>();
        let first = Pending::begin(move || may_go.recv_timeout(LIMIT)).expect("it begins");
        let second = Pending::begin(move || first.wait().map(|heard| (heard, 7))).expect("it begins");
        assert!(!second.is_made());
        go.send(()).expect("it waits");
        assert_eq!(second.wait().expect("it is made").expect("so is the first"), (Ok(()), 7));
        let never = Pending::<u8>::begin(|| std::panic::resume_unwind(Box::new(()))).expect("it begins");
        assert!(never.wait().is_err(), "no thread waits for ever");
    }

    #[test]
    fn there_are_so_many_places_for_what_is_not_needed_yet() {
        let begun = std::time::Instant::now();
        let mut taken = Vec::new();
        // Other tests have the threads meanwhile.
        let more = |taken: &mut Vec<Early>, wanted: usize| {
            while taken.len() < wanted {
                assert!(begun.elapsed() < LIMIT, "{} places", taken.len());
                taken.extend(Early::take());
            }
        };
        more(&mut taken, MOST_EARLY);
        assert!(Early::take().is_none(), "one more than there are");
        taken.pop();
        more(&mut taken, MOST_EARLY);
    }

    #[test]
    fn what_is_no_more_wanted_is_let_go_as_well() {
        let ((tell, told), (go, may_go)) = (channel(), channel::<()>());
        let make = move || {
            let waited = may_go.recv_timeout(LIMIT);
            (Tells(tell), waited)
        };
        drop(Pending::begin(make).expect("it begins"));
        assert_eq!(told.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        go.send(()).expect("it waits");
        is_elsewhere(&told);
    }
}
