//! What the attendant and the worker have together: the rings, and what each leaves for the other.
//!
//! The front end may stop a ring, move memory or change what was agreed at any moment, and is told when that
//! is done. So the rings stand behind a lock: the worker tries it for each batch and goes without when it
//! fails, the attendant waits for it, at most as long as the worker works at one batch.

use crate::config::QUEUES_MAX;
use crate::ring::Queue;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::net::Shutdown;
use rustix::time::Timespec;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// How often the lock is tried: the attendant has it for some instructions only.
const TRIES: u32 = 64;

/// A connection, for both.
#[derive(Debug)]
pub(crate) struct Line {
    pub socket: OwnedFd,
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

/// The rings of a connection, by their numbers: an even one is to the guest, the odd one behind it from it.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    pub line: Option<Arc<Line>>,
    pub queues: Vec<Option<Queue>>,
    /// Numbers of those to the guest that run, and of those from it.
    pub to_guest: Vec<u8>,
    pub from_guest: Vec<u8>,
    /// What the guest's driver has agreed to.
    pub features: u64,
}

impl Rings {
    /// Notes which run.
    pub fn sort(&mut self) {
        // Those of a peer that was cut off are not looked at any more.
        let cut_off = self.line.as_ref().is_some_and(|line| line.cut_off.load(Acquire));
        let running = |odd: usize| {
            let queues = self.queues.iter().enumerate().filter(|_| !cut_off);
            queues.filter(move |(n, queue)| n % 2 == odd && queue.is_some()).map(|(n, _)| n as u8).collect()
        };
        (self.to_guest, self.from_guest) = (running(0), running(1));
    }

    /// Whether packets pass.
    pub fn is_up(&self) -> bool {
        !self.to_guest.is_empty() || !self.from_guest.is_empty()
    }
}

/// How the port is, in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub up: bool,
    pub words: String,
    /// Connections so far.
    pub peers: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Desk {
    rings: Mutex<Rings>,
    /// There is something that the worker has not seen.
    news: AtomicBool,
    told: Mutex<Told>,
    /// Connections that ended because of what the peer said.
    pub refused: AtomicU64,
    /// Wakes the worker: this process's alone, unlike what the peer has too.
    bell: OwnedFd,
    /// Rings whose guest is to be woken, a bit for each.
    sleepers: AtomicU32,
    /// Wakes the attendant, to wake the guest.
    pub knock: OwnedFd,
    /// Ends the attendant.
    pub stop: OwnedFd,
    /// Readable when the bell was rung, or the guest woke this side.
    pub readable: OwnedFd,
}

impl Desk {
    pub fn new() -> io::Result<Desk> {
        let make = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let desk = Desk {
            rings: Mutex::default(),
            news: AtomicBool::new(false),
            told: Mutex::default(),
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

    /// The rings, for the attendant.
    pub fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rings, for the worker; `None`: the attendant changes them just now.
    #[inline]
    pub fn try_rings(&self) -> Option<MutexGuard<'_, Rings>> {
        for _ in 0..TRIES {
            match self.rings.try_lock() {
                Ok(rings) => return Some(rings),
                Err(TryLockError::Poisoned(rings)) => return Some(rings.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
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

    /// How the port is, if that is new since this was last asked.
    #[inline]
    pub fn news(&self) -> Option<Told> {
        let is_new = self.news.load(Relaxed) && self.news.swap(false, AcqRel);
        is_new.then(|| self.told())
    }

    /// Whether there is something new, without taking note of it.
    pub fn has_unread(&self) -> bool {
        self.news.load(Acquire)
    }

    /// How the port is.
    pub fn told(&self) -> Told {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says how the port is.
    pub fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
        self.news.store(true, Release);
        ring(&self.bell);
    }

    /// Wakes the worker, to look at its rings.
    pub fn nudge(&self) {
        ring(&self.bell);
    }

    /// Makes what was readable unreadable until there is more.
    pub fn clear(&self) {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; QUEUES_MAX + 1];
        let _ = epoll::wait(&self.readable, &mut events, Some(&NO_TIME));
    }

    /// Has the attendant wake the guest at these rings, a bit for each.
    #[cold]
    pub fn wake_guest(&self, rings: u32) {
        self.sleepers.fetch_or(rings, Release);
        ring(&self.knock);
    }

    /// Rings at which the guest is to be woken, since this was last asked.
    pub fn take_sleepers(&self) -> u32 {
        let mut count = [0u8; 8];
        // Read first: what is asked for after that is heard of again.
        let _ = rustix::io::read(&self.knock, &mut count);
        self.sleepers.swap(0, Acquire)
    }
}

/// Adds one to an eventfd of this process's own.
pub(crate) fn ring(bell: &OwnedFd) {
    // Fails when it is full, and rings all the same.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}
