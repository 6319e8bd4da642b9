//! What the attendant leaves for the worker, and the worker for the attendant.

use crate::config::QUEUES_MAX;
use crate::handshake::Joined;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::net::Shutdown;
use rustix::time::Timespec;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A connection, for both.
#[derive(Debug)]
pub(crate) struct Line {
    pub socket: OwnedFd,
    /// The attendant found it closed.
    pub ended: AtomicBool,
    /// The worker has hung up, because of what the peer wrote.
    pub cut_off: AtomicBool,
}

impl Line {
    /// The peer is not to be talked to any more.
    pub fn hang_up(&self) {
        // Fails when the other side did the same.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

/// What the worker has of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub line: Arc<Line>,
    pub joined: Joined,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Desk {
    /// There is something that the worker has not seen.
    news: AtomicBool,
    session: Mutex<Option<Session>>,
    /// Why there is no session.
    reason: Mutex<String>,
    /// Connections that came to no agreement.
    pub refused: AtomicU64,
    /// Wakes the worker: this process's alone, unlike what the peer has too.
    bell: OwnedFd,
    /// Queues whose peer is to be woken, a bit for each.
    sleepers: AtomicU32,
    /// Wakes the attendant, to wake the peer.
    pub knock: OwnedFd,
    /// Ends the attendant.
    pub stop: OwnedFd,
    /// Readable when the bell was rung, or the peer woke this side.
    pub readable: OwnedFd,
}

impl Desk {
    pub fn new() -> io::Result<Desk> {
        let make = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let desk = Desk {
            news: AtomicBool::new(false),
            session: Mutex::new(None),
            reason: Mutex::new(String::new()),
            refused: AtomicU64::new(0),
            bell: make()?,
            sleepers: AtomicU32::new(0),
            knock: make()?,
            stop: make()?,
            readable: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        };
        desk.watch(&desk.bell)?;
        Ok(desk)
    }

    /// Edges alone: what was written once is told once, and nothing has to be read from what the peer may
    /// have made to wait.
    pub fn watch(&self, one: &OwnedFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.readable, one, epoll::EventData::new_u64(0), flags)?)
    }

    /// Takes it out again: closing it does not, as long as the peer has it open.
    pub fn unwatch(&self, one: &OwnedFd) {
        let _ = epoll::delete(&self.readable, one);
    }

    /// Whether there is something new since this was last asked.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news.load(Relaxed) && self.news.swap(false, AcqRel)
    }

    /// Whether there is something new, without taking note of it.
    pub fn has_unread(&self) -> bool {
        self.news.load(Acquire)
    }

    /// A session that has begun.
    pub fn take_session(&self) -> Option<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Why there is none.
    pub fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes what was readable unreadable until there is more.
    pub fn clear(&self) {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; QUEUES_MAX + 1];
        let _ = epoll::wait(&self.readable, &mut events, Some(&NO_TIME));
    }

    /// Has the attendant wake the peer at these queues, a bit for each.
    pub fn wake_peer(&self, queues: u32) {
        self.sleepers.fetch_or(queues, Release);
        ring(&self.knock);
    }

    /// Queues at which the peer is to be woken, since this was last asked.
    pub fn take_sleepers(&self) -> u32 {
        let mut count = [0u8; 8];
        // Read first: what is asked for after that is heard of again.
        let _ = rustix::io::read(&self.knock, &mut count);
        self.sleepers.swap(0, Acquire)
    }

    /// Leaves a session.
    pub fn begin(&self, session: Session) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        self.announce();
    }

    /// Says why there is none.
    pub fn tell(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        self.announce();
    }

    fn announce(&self) {
        self.news.store(true, Release);
        ring(&self.bell);
    }
}

/// Adds one to an eventfd of this process's own.
pub(crate) fn ring(bell: &OwnedFd) {
    // Fails when it is full, and rings all the same.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}
