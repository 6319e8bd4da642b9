//! How the worker that has a port, the thread at the port's socket and the peer wake each other.

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::Timespec;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Bells that are seen to have rung at a time; those of further ones are seen the next time.
const AT_A_TIME: usize = 64;

/// The bells of one port.
#[derive(Debug)]
pub struct Doorbells {
    /// There is something that the worker has not seen.
    news: AtomicBool,
    /// Tells so.
    news_bell: OwnedFd,
    /// Wakes the worker: this process's alone, unlike what a peer has too.
    worker: OwnedFd,
    /// Wakes the attendant.
    attendant: OwnedFd,
    /// Ends the attendant.
    stop: OwnedFd,
    /// Queues at which the peer is to be woken, a bit for each.
    sleepers: AtomicU32,
    readable: OwnedFd,
}

impl Doorbells {
    /// New bells, none of which has rung.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> io::Result<Doorbells> {
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bells = Doorbells {
            news: AtomicBool::new(false),
            news_bell: bell()?,
            worker: bell()?,
            attendant: bell()?,
            stop: bell()?,
            sleepers: AtomicU32::new(0),
            readable: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        };
        bells.watch(&bells.worker)?;
        Ok(bells)
    }

    /// Has a peer's bell wake the worker. Edges alone: what was rung once is told once, and nothing has to be
    /// read from what the peer may have made to wait.
    ///
    /// # Errors
    /// It is no bell, or the kernel has no memory.
    pub fn watch(&self, bell: impl AsFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.readable, bell, epoll::EventData::new_u64(0), flags)?)
    }

    /// Takes a peer's bell out again: closing it does not, as long as the peer has it open.
    pub fn unwatch(&self, bell: impl AsFd) {
        let _ = epoll::delete(&self.readable, bell);
    }

    /// Readable when the worker's bell was rung, or that of a peer.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    /// Makes what was readable unreadable until there is more.
    pub fn clear(&self) {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; AT_A_TIME];
        let _ = epoll::wait(&self.readable, &mut events, Some(&NO_TIME));
    }

    /// There is something new for the worker, which is woken.
    pub fn announce(&self) {
        // First: what is taken note of makes this bell silent.
        ring(&self.news_bell);
        self.news.store(true, Release);
        self.nudge();
    }

    /// Wakes the worker, to look at its rings.
    pub fn nudge(&self) {
        ring(&self.worker);
    }

    /// Whether there is something new since this was last asked.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news.load(Relaxed) && self.take_news()
    }

    #[cold]
    fn take_news(&self) -> bool {
        let has_news = self.news.swap(false, AcqRel);
        silence(&self.news_bell);
        has_news
    }

    /// Readable when there is something new, and not for long after that was taken note of. What comes in
    /// that moment may not make it readable again.
    pub fn news(&self) -> BorrowedFd<'_> {
        self.news_bell.as_fd()
    }

    /// Whether there is something new, without taking note of it.
    pub fn has_unread(&self) -> bool {
        self.news.load(Acquire)
    }

    /// Has the attendant wake the peer at these queues, a bit for each.
    #[cold]
    pub fn wake_peer(&self, queues: u32) {
        self.sleepers.fetch_or(queues, Release);
        self.knock();
    }

    /// Queues at which the peer is to be woken, since this was last asked. Makes the attendant's bell silent.
    pub fn take_sleepers(&self) -> u32 {
        // First: what is asked for after that is heard of again.
        self.silence();
        self.sleepers.swap(0, Acquire)
    }

    /// Makes the attendant's bell silent until it is rung again.
    pub fn silence(&self) {
        silence(&self.attendant);
    }

    /// Wakes the attendant.
    pub fn knock(&self) {
        ring(&self.attendant);
    }

    /// What the attendant waits for: readable when it is to wake the peer, or to look around.
    pub fn attendant(&self) -> BorrowedFd<'_> {
        self.attendant.as_fd()
    }

    /// What the attendant waits for: readable when it is to end.
    pub fn stop(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }
}

/// Makes a bell silent until it is rung again.
fn silence(bell: impl AsFd) {
    let mut count = [0u8; 8];
    let _ = rustix::io::read(bell, &mut count);
}

/// Adds one to an eventfd.
pub fn ring(bell: impl AsFd) {
    // Fails when it is full, and rings all the same.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// A span as poll takes it.
pub fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
}
