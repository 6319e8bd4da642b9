//! How a worker sleeps in the kernel, and what wakes it. Whether it does is decided in
//! [`moderation`]; how another thread gets the worker meanwhile, in [`slot`].

pub(crate) mod moderation;
pub(crate) mod slot;
mod sync;

use crate::parking::moderation::Moderation;
use crate::parking::slot::{Asked, Slot};
use crate::state::accounting::Mark;
use crate::worker::{Worker, WorkerSettings};
use port::Bell;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use telemetry::clock::{Clock, Cycles, Nanos};

/// A worker that waits for more descriptors is not left for others: its thread would need each of them for
/// itself.
const FEW: usize = 16;
/// A port that leads out of the engine is looked at so often while there is no room: what takes its packets
/// wakes no worker.
const ROOM_INTERVAL: Nanos = Nanos(20_000);
/// After a shorter sleep the next one is taken to be short as well, and the worker is not parked for others
/// to find; also for how long a worker must have had nothing to do before a request makes it sleep.
const LONG: Nanos = Nanos(200_000);

/// What a worker waits for, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitsFor {
    wake_at: Nanos,
    readable: Vec<RawFd>,
    /// The last sleep was a long one, or ended because another thread asked for the worker.
    lendable: bool,
}

#[cfg(test)]
impl WaitsFor {
    /// The last sleep was a long one, or ended because another thread asked for the worker.
    pub(crate) fn is_lendable(&self) -> bool {
        self.lendable
    }
}

/// The slot of a worker.
pub(crate) type WorkerSlot = Slot<Box<Worker>>;

/// How a worker's thread sleeps and is woken, and where its worker is meanwhile.
pub(crate) struct Parking {
    /// Wakes its thread.
    pub(crate) bell: Arc<Bell>,
    /// Where its thread leaves it for others.
    pub(crate) slot: Arc<WorkerSlot>,
    /// What its thread waits for.
    pub(crate) waits_for: WaitsFor,
    /// When it last had something to do.
    pub(crate) worked_at: Cycles,
    /// Packets received in this turn.
    pub(crate) received: usize,
    /// A port was closed that its thread may wait for.
    pub(crate) released: bool,
    pub(crate) moderation: Moderation,
}

impl Parking {
    /// # Errors
    /// The kernel's refusal of an event descriptor.
    pub(crate) fn new(settings: &WorkerSettings, clock: &Clock) -> io::Result<Parking> {
        Ok(Parking {
            bell: Arc::new(Bell::new()?),
            slot: Arc::default(),
            waits_for: WaitsFor::default(),
            worked_at: Cycles(0),
            received: 0,
            released: false,
            moderation: Moderation::new(settings, clock),
        })
    }
}

/// When a sleep began.
struct SleepStart {
    /// `None`: what it costs is not measured.
    mark: Option<Mark>,
    cycles: Cycles,
    /// It was asked for before.
    asked: bool,
}

impl Worker {
    /// Sleeps until a port has something, a timer is due, or a message has come. The worker can be borrowed
    /// meanwhile, which it may have been asked for.
    pub(crate) fn sleep_parked(mut self: Box<Worker>) -> Box<Worker> {
        let sleep_start = self.sleep_start();
        if !sleep_start.asked
            && (!self.parking.waits_for.lendable || self.parking.moderation.length() > Nanos(0))
        {
            self.sleep(&sleep_start);
            return self;
        }
        let bell = self.bell();
        let now = self.time.clock.now();
        let (wake_at, readable) = self.next_wakeup(now);
        let fds: Vec<OwnedFd> = if readable.len() <= FEW {
            readable.iter().filter_map(|fd| fd.try_clone_to_owned().ok()).collect()
        } else {
            Vec::new()
        };
        if fds.len() < readable.len() {
            self.sleep(&sleep_start);
            return if self.parking.slot.asked() == Asked::Worker { self.lend() } else { self };
        }
        let readable = readable.iter().map(AsRawFd::as_raw_fd).collect();
        self.parking.waits_for = WaitsFor { wake_at, readable, lendable: true };
        let (slot, clock) = (self.parking.slot.clone(), self.time.clock);
        let mut worker = slot.sleep_parked(self, || {
            let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            wait(&clock, bell.fd(), &borrowed, wake_at.since(now));
        });
        drop(fds);
        worker.awake(&sleep_start);
        worker
    }

    /// It has had nothing to do for long: a worker with work must not fall asleep over a question between two
    /// packets.
    pub(crate) fn is_long_idle(&self) -> bool {
        self.time.now.cycles.since(self.parking.worked_at) > self.time.clock.cycles(LONG)
    }

    /// Leaves the worker to the thread that asked for it, and waits to have it back.
    pub(crate) fn lend(self: Box<Worker>) -> Box<Worker> {
        let slot = self.parking.slot.clone();
        let mut worker = slot.lend(self);
        worker.time.restart();
        worker
    }

    /// Sleeps where no other thread finds the worker.
    pub(crate) fn sleep_unparked(&mut self) {
        let sleep_start = self.sleep_start();
        self.sleep(&sleep_start);
    }

    /// Sleeps where no other thread finds the worker, unless it is asked for.
    fn sleep(&mut self, sleep_start: &SleepStart) {
        let bell = self.bell();
        self.parking.slot.sleep_unparked(|| {
            let now = self.time.clock.now();
            let (wake_at, readable) = self.next_wakeup(now);
            wait(&self.time.clock, bell.fd(), &readable, wake_at.since(now));
        });
        self.awake(sleep_start);
    }

    /// Says that it will sleep.
    fn sleep_start(&mut self) -> SleepStart {
        let asked = self.parking.slot.asked() == Asked::Worker;
        let measured = asked || self.parking.waits_for.lendable || self.parking.moderation.measures();
        let mark = measured.then(|| Mark::now(&self.time.clock));
        self.parking.bell.will_sleep();
        self.ask_for_room();
        SleepStart { mark, cycles: self.time.now.cycles, asked }
    }

    /// Takes up the clocks after a sleep. A thread that borrowed the worker meanwhile has done so before.
    fn awake(&mut self, sleep_start: &SleepStart) {
        self.parking.bell.awake();
        let cost = sleep_start.mark.map(|mark| self.time.wake().had_since(mark));
        if cost.is_none() {
            self.time.wake_unmeasured(sleep_start.cycles, self.parking.moderation.sleep_cost());
        }
        let cost = cost.map(|cost| self.time.clock.cycles(cost));
        let asleep = self.time.now.cycles.since(sleep_start.cycles);
        self.parking.moderation.slept(asleep, cost);
        // One that is asked for is left to be found from now on: questions in short order would else wake it
        // each time.
        let asked = sleep_start.asked || self.parking.slot.asked() == Asked::Worker && self.is_long_idle();
        self.parking.waits_for.lendable = asleep > self.time.clock.cycles(LONG) || asked;
        // Ports that were idle for long may be what woke it.
        self.polling.next_cold = Cycles(0);
    }

    /// Whether a worker whose thread sleeps has something to do now, or waits for something else than its
    /// thread does.
    pub(crate) fn has_reason_to_wake(&mut self) -> bool {
        if self.polling.closing || self.has_started() || !self.time.scheduler.is_idle(self.time.now.cycles) {
            return true;
        }
        self.ask_for_room();
        let (wake_at, readable) = self.next_wakeup(self.time.now.nanos);
        let same =
            readable.iter().map(AsRawFd::as_raw_fd).eq(self.parking.waits_for.readable.iter().copied());
        !same || wake_at < self.parking.waits_for.wake_at
    }

    /// When the worker has something to do at the latest, and the descriptors that tell of it before.
    pub(crate) fn next_wakeup(&self, now: Nanos) -> (Nanos, Vec<BorrowedFd<'_>>) {
        let mut wake_at = self.timers.next().min(self.upkeep.next);
        if let Some(release) = self.time.scheduler.next_release() {
            wake_at = wake_at.min(self.time.clock.nanos(release));
        }
        for wire in self.awaited_wires() {
            wake_at = wake_at.min(self.room_expected(wire));
        }
        for wire in &self.backpressure.congested {
            // Those that it throttled may fetch again, or will before long.
            let is_full = self.ports.get(*wire).is_some_and(|node| node.is_filling_up());
            wake_at = if is_full { wake_at.min(self.room_looked_for(*wire, now)) } else { Nanos(0) };
        }
        if self.has_started() || self.is_asked_to_show() {
            wake_at = Nanos(0);
        }
        // Whatever comes from outside may wait that long.
        let interval_ends = now.saturating_add(self.parking.moderation.length());
        let is_moderated = self.parking.moderation.length() > Nanos(0);
        let mut readable = Vec::new();
        for index in 0..self.ports.end() {
            let Some(node) = self.ports.get(index) else { continue };
            if let Some(target) = node.target
                && let Some(blocking) = self.blocked_by(target)
            {
                wake_at = wake_at.min(self.room_looked_for(blocking, now));
                continue;
            }
            let overdrawn = node.payer.as_ref().filter(|payer| !payer.allows(self.time.now.cycles));
            if let Some(payer) = overdrawn {
                wake_at = wake_at.min(self.time.clock.nanos(payer.release()));
            }
            let held_back = overdrawn.is_some()
                || node.consumer.is_some_and(|index| {
                    self.instances[index].polls_for_itself() || !node.internal && self.find_congestion(index)
                });
            let wake = node.port.wake();
            // Of a port that only sends, or whose taker does not run, what is on its way out counts, and what
            // comes in does not.
            let receives = node.target.is_some() && !held_back;
            let sends = !node.relay && node.port.in_flight() > 0;
            if let Some(at) = wake.at.filter(|_| receives || sends) {
                wake_at = wake_at.min(if node.port.waits_outside() { at.max(interval_ends) } else { at });
            }
            if let Some(fd) = wake.readable.filter(|_| receives) {
                if is_moderated {
                    wake_at = wake_at.min(interval_ends);
                    readable.extend(wake.news);
                } else {
                    readable.push(fd);
                }
            }
        }
        (wake_at, readable)
    }

    /// When a sleeping worker looks for room at a port next, if it is not woken when there is.
    fn room_looked_for(&self, port: usize, now: Nanos) -> Nanos {
        if self.ports[port].relay { Nanos(u64::MAX) } else { now.saturating_add(ROOM_INTERVAL) }
    }

    /// Has the worker that empties a ring ring the bell when there is room, if that is waited for; what comes
    /// meanwhile waits outside.
    fn ask_for_room(&mut self) {
        self.forget_free_wires();
        for wire in &self.backpressure.congested {
            self.ports[*wire].port.want_room();
        }
        for index in 0..self.ports.end() {
            if let Some(node) = self.ports.get(index)
                && let Some(target) = node.target
                && let Some(blocking) = self.blocked_by(target)
            {
                self.ports[blocking].port.want_room();
            }
        }
    }
}

/// Waits until one of these can be read, but no longer than `span`.
fn wait(clock: &Clock, bell: BorrowedFd<'_>, readable: &[BorrowedFd<'_>], Nanos(span): Nanos) {
    if span == 0 {
        return;
    }
    let all = std::iter::once(&bell).chain(readable);
    let mut waiting: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    // Simulated time passes by sleeping, or stands and has no sleep end.
    let timeout = match clock.simulation() {
        Some(time) if time.stands() => None,
        Some(_) => Some(0),
        None => Some(span),
    };
    let timeout = timeout.map(|span| Timespec {
        tv_sec: i64::try_from(span / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (span % 1_000_000_000) as _,
    });
    // A signal only wakes the worker early.
    let woken = poll(&mut waiting, timeout.as_ref()).is_ok_and(|ready| ready > 0);
    if let Some(time) = clock.simulation().filter(|time| !woken && !time.stands()) {
        time.sleep(Nanos(span));
    }
}
