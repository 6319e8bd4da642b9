//! What the attendant and the worker have together: the rings, and what each leaves for the other.
//!
//! The front end may stop a ring, move memory or change what was agreed at any moment, and is told when that
//! is done. So the rings stand behind a lock: the worker tries it for each batch and goes without when it
//! fails, the attendant waits for it, at most as long as the worker works at one batch.

use crate::ring::Queue;
use local_socket::{Doorbells, HasBells};
use rustix::net::Shutdown;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

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
    told: Mutex<Told>,
    /// Connections that ended because of what the peer said.
    pub refused: AtomicU64,
    pub bells: Doorbells,
}

impl Desk {
    pub fn new() -> io::Result<Desk> {
        Ok(Desk {
            rings: Mutex::default(),
            told: Mutex::default(),
            refused: AtomicU64::new(0),
            bells: Doorbells::new()?,
        })
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

    /// How the port is, if that is new since this was last asked.
    #[inline]
    pub fn news(&self) -> Option<Told> {
        self.bells.has_news().then(|| self.told())
    }

    /// How the port is.
    pub fn told(&self) -> Told {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says how the port is.
    pub fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
        self.bells.announce();
    }
}

impl HasBells for Desk {
    fn bells(&self) -> &Doorbells {
        &self.bells
    }
}
