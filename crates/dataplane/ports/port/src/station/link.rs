//! Both ends of what passes between a station's port and the control plane.

use super::select::{Around, Identity, Tag, Take};
use super::tunnel::Tunnel;
use super::{FRAMES, RATE};
use crate::event::Event;
use rtrb::{Consumer, Producer, RingBuffer};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use telemetry::DropReason;
use telemetry::clock::Nanos;

const SECOND: u64 = 1_000_000_000;

/// Where stations are put at a port, for the control plane.
#[derive(Debug)]
pub struct Stations {
    /// Links left something, came or went.
    event: Event,
    is_signalled: AtomicBool,
    /// The port is down, as its worker found last.
    is_down: AtomicBool,
    coming: Mutex<Vec<Seat>>,
}

impl Stations {
    pub(super) fn new() -> io::Result<Stations> {
        let (is_signalled, is_down, coming) =
            (AtomicBool::new(false), AtomicBool::new(false), Mutex::default());
        Ok(Stations { event: Event::new()?, is_signalled, is_down, coming })
    }

    /// Puts a station there. `tell` is called by the port's worker when frames have come, and when the port
    /// has come up or gone down: it must not wait.
    pub fn attach(self: &Arc<Self>, identity: Identity, tell: impl Fn() + Send + 'static) -> Link {
        let (send, outgoing) = RingBuffer::new(FRAMES);
        // As much again for answers that are awaited.
        let (incoming, receive) = RingBuffer::new(2 * FRAMES);
        let missed = Arc::new(AtomicU64::new(0));
        let seat = Seat {
            identity,
            outgoing,
            incoming,
            missed: missed.clone(),
            tell: Box::new(tell),
            has_new: false,
            others: Budget::full(),
            answers: Budget::full(),
            identification: 0,
        };
        self.coming.lock().unwrap_or_else(PoisonError::into_inner).push(seat);
        self.signal();
        Link { send, receive, missed, stations: Leaving(self.clone()) }
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    #[inline]
    pub(super) fn is_signalled(&self) -> bool {
        self.is_signalled.load(Acquire)
    }

    /// Notes whether the port is down, and whether that is new.
    pub(super) fn set_down(&self, is_down: bool) -> bool {
        self.is_down.swap(is_down, Relaxed) != is_down
    }

    pub(super) fn signal(&self) {
        if !self.is_signalled.swap(true, AcqRel) {
            self.event.signal();
        }
    }

    /// Takes in links that came.
    pub(super) fn clear(&self, seats: &mut Vec<Seat>) {
        self.event.clear();
        // What was left before a signal that comes from here on is found below or signalled.
        self.is_signalled.swap(false, AcqRel);
        match self.coming.try_lock() {
            Ok(mut coming) => seats.append(&mut coming),
            // A worker waits for no lock: it looks again.
            Err(_) => self.signal(),
        }
    }
}

/// The control plane's end: dropping it takes the station away.
#[derive(Debug)]
pub struct Link {
    send: Producer<Vec<u8>>,
    receive: Consumer<Vec<u8>>,
    missed: Arc<AtomicU64>,
    /// Last, so that the port finds the rings abandoned when it is told.
    stations: Leaving,
}

/// Tells the port when it is dropped.
#[derive(Debug)]
struct Leaving(Arc<Stations>);

impl Link {
    /// The next frame that came.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        self.receive.pop().ok()
    }

    /// Sends a frame; false when there is no room, because the port does not look.
    pub fn send(&mut self, frame: Vec<u8>) -> bool {
        let sent = self.send.push(frame).is_ok();
        if sent {
            self.stations.0.signal();
        }
        sent
    }

    /// Frames that the station did not get, for want of room or because there were too many.
    pub fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// Whether the port is up, as its worker found when it last had it maintained.
    pub fn is_up(&self) -> bool {
        !self.stations.0.is_down.load(Relaxed)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.signal();
    }
}

/// The port's end.
pub(super) struct Seat {
    identity: Identity,
    outgoing: Consumer<Vec<u8>>,
    incoming: Producer<Vec<u8>>,
    missed: Arc<AtomicU64>,
    tell: Box<dyn Fn() + Send>,
    has_new: bool,
    /// For answers to what it asked, and for all else.
    answers: Budget,
    others: Budget,
    /// Of the last frame that went into a tunnel.
    identification: u16,
}

/// A token bucket.
#[derive(Debug)]
struct Budget {
    /// Frames that may be taken now, in parts of a second.
    tokens: u64,
    filled: Nanos,
}

impl Budget {
    fn full() -> Budget {
        Budget { tokens: FRAMES as u64 * SECOND, filled: Nanos(0) }
    }

    fn refill(&mut self, now: Nanos) {
        let span = now.0.saturating_sub(self.filled.0).min(SECOND);
        self.tokens = (self.tokens + span * RATE).min(FRAMES as u64 * SECOND);
        self.filled = now;
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Seat {
    /// What gets a frame, of which these are the first bytes, inside of the station's tunnel if it has one.
    pub(super) fn selects(&self, head: &[u8]) -> Take {
        self.identity.select(head)
    }

    pub(super) fn tunnel(&self) -> Option<&Arc<Tunnel>> {
        self.identity.tunnel()
    }

    pub(super) fn refill(&mut self, now: Nanos) {
        self.answers.refill(now);
        self.others.refill(now);
    }

    /// Takes a frame, of which these are the first bytes, inside of its tunnel if it has one.
    ///
    /// # Errors
    /// There is no room, or the tunnel's checksum is wrong.
    pub(super) fn put(&mut self, head: &[u8], frame: impl FnOnce() -> Vec<u8>) -> Result<(), DropReason> {
        let free = self.incoming.slots();
        let (budget, has_room) = match self.identity.awaits(head) {
            true => (&mut self.answers, free > 0),
            false => (&mut self.others, free > FRAMES),
        };
        let mut refused = DropReason::PortFull;
        if has_room && budget.tokens >= SECOND {
            budget.tokens -= SECOND;
            let frame = match &self.identity.around {
                Around::Nothing => Some(frame()),
                Around::Tag(_) => Some(Tag::take_off(frame())),
                Around::Tunnel(tunnel) => tunnel.take_off(&frame()),
            };
            if let Some(frame) = frame {
                self.has_new = self.incoming.push(frame).is_ok();
                return Ok(());
            }
            refused = DropReason::BadTunnel;
        }
        self.missed.fetch_add(1, Relaxed);
        Err(refused)
    }

    /// Says that frames have come, if some have.
    pub(super) fn tell(&mut self) {
        if std::mem::take(&mut self.has_new) {
            (self.tell)();
        }
    }

    /// Says that the port came up or went down.
    pub(super) fn tell_status(&self) {
        (self.tell)();
    }

    /// The next frame that goes out; nothing in it for one that its tunnel does not take.
    pub(super) fn next_frame(&mut self) -> Option<Vec<u8>> {
        let frame = self.outgoing.pop().ok()?;
        Some(match &self.identity.around {
            Around::Nothing => frame,
            Around::Tag(tag) => tag.put_on(frame),
            Around::Tunnel(tunnel) => {
                self.identification = self.identification.wrapping_add(1);
                tunnel.put_on(&frame, self.identification).unwrap_or_default()
            }
        })
    }

    /// Whether its link went, and left nothing to be sent.
    pub(super) fn is_gone(&self) -> bool {
        self.incoming.is_abandoned() && self.outgoing.is_empty()
    }

    pub(super) fn has_frames(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }
}
