//! The engine's side of an attachment: the ends of its rings, and what the other side says of itself.

use crate::processes::Process;
use native_abi::{Answer, Layout, words};
use native_ring::{AtomicU32, Consuming, Place, Producing, SharedMemory, sleep};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Messages that are taken off a socket at a time; what is sent beyond that is a flood, and waits.
const MESSAGES_MAX: usize = 256;

/// What the attendant and the worker have both.
#[derive(Debug)]
pub(crate) struct Line {
    /// Calls on it never wait, by their own flags: those of the descriptor are not ours alone.
    pub socket: OwnedFd,
    pub memory: Arc<SharedMemory>,
    pub process: Arc<Process>,
    /// The attendant found it closed, or the process gone.
    pub ended: AtomicBool,
    /// The worker has hung up, because of what the process wrote.
    pub cut_off: AtomicBool,
    /// The heartbeat was missed.
    pub hung: AtomicBool,
    /// The thread that attached has ended, as the kernel says before the process is gone.
    pub dying: AtomicBool,
}

/// What the worker alone has.
#[derive(Debug)]
pub(crate) struct Session {
    pub line: Arc<Line>,
    pub packets: Producing<Place, 4>,
    pub sent: Consuming<Place, 4>,
    pub returned: Consuming<Place, 1>,
    /// Empty buffers that were given, counted as the process counts those that it asks for.
    pub given: u32,
    /// How many were asked for when it was last looked at.
    pub asked: u32,
}

impl Line {
    /// Of a process that has just attached.
    pub fn new(socket: OwnedFd, memory: SharedMemory, process: Arc<Process>) -> Line {
        Line {
            socket,
            memory: Arc::new(memory),
            process,
            ended: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            hung: AtomicBool::new(false),
            dying: AtomicBool::new(false),
        }
    }

    /// The process is not to be talked to any more.
    pub fn hang_up(&self) {
        // Fails when the other side did the same.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// What was sent to wake this side.
    pub fn drain(&self) {
        let mut message = [0u8; 8];
        for _ in 0..MESSAGES_MAX {
            match rustix::net::recv(&self.socket, &mut message[..], RecvFlags::DONTWAIT) {
                Ok((_, 1..)) => {}
                _ => break,
            }
        }
    }

    /// Something was sent on the socket for devices: the process looks there for this word's sake, so that it
    /// makes no system call to find nothing. Whatever it writes there itself is its own loss.
    pub fn has_told_of_devices(&self) {
        self.memory.word(words::DEVICES).fetch_add(1, Release);
        self.wake();
    }

    /// Wakes the process if it sleeps, after something was published for it.
    #[inline]
    pub fn wake(&self) {
        self.wake_at(words::PROCESS_SLEEPS);
    }

    /// Wakes the process if it waits for room to send.
    #[cold]
    pub fn wake_sender(&self) {
        self.wake_at(words::SENDER_SLEEPS);
    }

    #[inline]
    fn wake_at(&self, word: usize) {
        if sleep::should_wake(self.memory.word(word)) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // A full socket wakes it as well, and a closed one has nothing to be woken.
            let _ = rustix::net::send(&self.socket, &Answer::Wake.to_bytes(), flags);
        }
    }

    /// How often the process has shown that it lives.
    pub fn heartbeat(&self) -> u32 {
        self.memory.word(words::HEARTBEAT).load(Acquire)
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Acquire)
    }

    /// Notes the end; whether it was news.
    pub fn end(&self) -> bool {
        !self.ended.swap(true, AcqRel)
    }
}

impl Session {
    pub fn new(line: Arc<Line>, layout: Layout) -> Session {
        let place = |ring| Place::new(&line.memory, ring);
        Session {
            packets: Producing::new(place(layout.packets())),
            sent: Consuming::new(place(layout.sent())),
            returned: Consuming::new(place(layout.returned())),
            given: 0,
            asked: 0,
            line,
        }
    }

    /// Empty buffers that the process asks for, in all. Any number is possible.
    #[inline]
    pub fn wanted(&self) -> u32 {
        self.line.memory.word(words::WANTED).load(Acquire)
    }

    /// Wakes the process if it sleeps, after something was published for it.
    #[inline]
    pub fn wake(&self) {
        self.line.wake();
    }

    /// The word that says that this side sleeps.
    pub fn engine_sleeps(&self) -> &AtomicU32 {
        self.line.memory.word(words::ENGINE_SLEEPS)
    }

    /// Whether there is nothing to do for the process. What is out of step is something; a wish for buffers
    /// that could not be met is nothing until the process asks again.
    pub fn is_idle(&self) -> bool {
        self.sent.waiting() == Ok(0) && self.returned.waiting() == Ok(0) && self.wanted() == self.asked
    }
}
