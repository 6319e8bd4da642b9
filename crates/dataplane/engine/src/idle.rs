//! How a worker sleeps in the kernel, and what wakes it. Whether it does is decided in `rest.rs`.

use crate::berth::Asked;
use crate::time::Mark;
use crate::worker::Worker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use telemetry::clock::{Cycles, Nanos};

/// A worker that waits for more descriptors is not left for others: its thread would need each of them for
/// itself.
const FEW: usize = 16;
/// After a shorter sleep the next one is taken to be short as well, and the worker is not parked for others
/// to find; also for how long a worker must have had nothing to do before a request makes it sleep.
const LONG: Nanos = Nanos(200_000);

/// What a worker waits for, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outlook {
    wake_at: Nanos,
    readable: Vec<RawFd>,
    /// The last sleep was a long one, or ended because another thread asked for the worker.
    calm: bool,
}

#[cfg(test)]
impl Outlook {
    /// The last sleep was a long one, or ended because another thread asked for the worker.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm
    }
}

/// When a sleep began.
struct Evening {
    mark: Mark,
    cycles: Cycles,
    /// It was asked for before.
    asked: bool,
}

impl Worker {
    /// Sleeps until a port has something, a timer is due, or a message has come. The worker can be borrowed
    /// meanwhile, which it may have been asked for.
    pub(crate) fn sleep_in_berth(mut self: Box<Worker>) -> Box<Worker> {
        let evening = self.evening();
        if !evening.asked && (!self.outlook.calm || self.rest.length() > Nanos(0)) {
            self.sleep(&evening);
            return self;
        }
        let bell = self.bell();
        let now = self.clock.now();
        let (wake_at, readable) = self.look_out(now);
        let fds: Vec<OwnedFd> = if readable.len() <= FEW {
            readable.iter().filter_map(|fd| fd.try_clone_to_owned().ok()).collect()
        } else {
            Vec::new()
        };
        if fds.len() < readable.len() {
            self.sleep(&evening);
            return if self.berth.asked() == Asked::Worker { self.attend() } else { self };
        }
        let readable = readable.iter().map(AsRawFd::as_raw_fd).collect();
        self.outlook = Outlook { wake_at, readable, calm: true };
        let berth = self.berth.clone();
        berth.lie_down(self);
        if berth.asked() != Asked::Stop {
            let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            wait(bell.fd(), &borrowed, wake_at.since(now));
        }
        drop(fds);
        let mut worker = berth.get_up();
        worker.awake(&evening);
        worker
    }

    /// It has had nothing to do for long: a worker with work must not fall asleep over a question between two
    /// packets.
    pub(crate) fn is_long_idle(&self) -> bool {
        self.now.cycles.since(self.worked_at) > self.clock.cycles(LONG)
    }

    /// Leaves the worker to the thread that asked for it, and waits to have it back.
    pub(crate) fn attend(self: Box<Worker>) -> Box<Worker> {
        let berth = self.berth.clone();
        let mut worker = berth.attend(self);
        worker.look_at_clocks();
        worker
    }

    /// Sleeps where no other thread finds the worker.
    pub(crate) fn sleep_alone(&mut self) {
        let evening = self.evening();
        self.sleep(&evening);
    }

    /// Sleeps where no other thread finds the worker, unless it is asked for: a thread that asked before it
    /// said that it will sleep has not rung.
    fn sleep(&mut self, evening: &Evening) {
        let bell = self.bell();
        if self.berth.asked() == Asked::Nothing {
            let now = self.clock.now();
            let (wake_at, readable) = self.look_out(now);
            wait(bell.fd(), &readable, wake_at.since(now));
        }
        self.awake(evening);
    }

    /// Says that it will sleep.
    fn evening(&mut self) -> Evening {
        let (mark, asked) = (Mark::now(), self.berth.asked() == Asked::Worker);
        self.bell.will_sleep();
        self.ask_for_room();
        Evening { mark, cycles: self.now.cycles, asked }
    }

    /// Takes up the clocks after a sleep. A thread that borrowed the worker meanwhile has done so before.
    fn awake(&mut self, evening: &Evening) {
        self.bell.awake();
        let before = self.now.cycles;
        self.now = self.clock.moment();
        self.time.asleep += self.now.cycles.since(before);
        self.mark = Mark::now();
        let asleep = self.now.cycles.since(evening.cycles);
        let cost = self.clock.cycles(self.mark.had_since(evening.mark));
        self.rest.slept(asleep, cost, self.now.cycles);
        // One that is asked for is left to be found from now on: questions in short order would else wake it
        // each time.
        let asked = evening.asked || self.berth.asked() == Asked::Worker && self.is_long_idle();
        self.outlook.calm = asleep > self.clock.cycles(LONG) || asked;
        // Ports that were idle for long may be what woke it.
        self.next_cold = Cycles(0);
    }

    /// Whether a worker whose thread sleeps has something to do now, or waits for something else than its
    /// thread does.
    pub(crate) fn has_reason_to_wake(&mut self) -> bool {
        if self.closing || self.has_arrivals() || !self.scheduler.is_idle(self.now.cycles) {
            return true;
        }
        self.ask_for_room();
        let (wake_at, readable) = self.look_out(self.now.nanos);
        let same = readable.iter().map(AsRawFd::as_raw_fd).eq(self.outlook.readable.iter().copied());
        !same || wake_at < self.outlook.wake_at
    }

    /// When the worker has something to do at the latest, and the descriptors that tell of it before.
    fn look_out(&self, now: Nanos) -> (Nanos, Vec<BorrowedFd<'_>>) {
        let mut wake_at = self.next_timer().min(self.next_maintenance);
        if let Some(release) = self.scheduler.next_release() {
            wake_at = wake_at.min(self.clock.nanos(release));
        }
        for wire in self.awaited_wires() {
            wake_at = wake_at.min(self.room_expected(wire));
        }
        if self.crowded.iter().any(|wire| !self.is_filling_up(*wire)) {
            // Those that it throttled may fetch again.
            wake_at = Nanos(0);
        }
        if self.has_arrivals() || self.is_asked_to_show() {
            wake_at = Nanos(0);
        }
        // Whatever comes from outside may wait that long.
        let rest_until = now.saturating_add(self.rest.length());
        let resting = self.rest.length() > Nanos(0);
        let mut readable = Vec::new();
        for index in 0..self.ports.end() {
            let Some(node) = self.ports.get(index) else { continue };
            if let Some(target) = node.target
                && let Some(blocking) = self.blocked_by(target)
                && self.ports[blocking].relay
            {
                continue;
            }
            let held_back = self.closing && !node.relay
                || node.consumer.is_some_and(|index| {
                    self.instances[index].polls_for_itself() || !node.relay && self.is_held_up(index)
                });
            let wake = node.port.wake();
            // Of a port that only sends, or whose taker does not run, what is on its way out counts, and what
            // comes in does not.
            let receives = node.target.is_some() && !held_back;
            let sends = !node.relay && node.port.in_flight() > 0;
            if let Some(at) = wake.at.filter(|_| receives || sends) {
                wake_at = wake_at.min(if node.relay { at } else { at.max(rest_until) });
            }
            if let Some(fd) = wake.readable.filter(|_| receives) {
                if resting {
                    wake_at = wake_at.min(rest_until);
                } else {
                    readable.push(fd);
                }
            }
        }
        (wake_at, readable)
    }

    /// Has the worker that empties a ring ring the bell when there is room, if that is waited for; what comes
    /// meanwhile waits outside.
    fn ask_for_room(&mut self) {
        self.forget_free_wires();
        for wire in &self.crowded {
            self.ports[*wire].port.want_room();
        }
        for index in 0..self.ports.end() {
            if let Some(node) = self.ports.get(index)
                && let Some(target) = node.target
                && let Some(blocking) = self.blocked_by(target)
                && self.ports[blocking].relay
            {
                self.ports[blocking].port.want_room();
            }
        }
    }
}

/// Waits until one of these can be read, but no longer than `span`.
fn wait(bell: BorrowedFd<'_>, readable: &[BorrowedFd<'_>], Nanos(span): Nanos) {
    if span == 0 {
        return;
    }
    let all = std::iter::once(&bell).chain(readable);
    let mut waiting: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = Timespec {
        tv_sec: i64::try_from(span / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (span % 1_000_000_000) as _,
    };
    // A signal only wakes the worker early.
    let _ = poll(&mut waiting, Some(&timeout));
}
