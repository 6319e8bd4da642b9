//! Where the time goes: every cycle of a worker is charged to an instance or to the worker itself, but for
//! those that others took from it.

use crate::worker::Worker;
use cpu_share::EntityId;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::Ordering::Relaxed;
use telemetry::clock::{Clock, Cycles, Moment, Nanos};

/// Stands for no instance: what is spent goes to the worker's own account.
pub(crate) const NOBODY: EntityId = EntityId(u32::MAX);

/// A reading of the thread's processor time is taken at least this often.
const MARK_EVERY: Nanos = Nanos::from_millis(1);

/// An interval longer than this may hide that the thread was without a processor for a while.
const SUSPICIOUS: Nanos = Nanos(50_000);

/// A call that lasts for more slices than this holds its worker for too long, one with a single packet for
/// more than that: there smaller batches do not help, so the next guest of its instance is switched out.
const LONG_CALL: u64 = 10;
const LONG_FOR_ONE: u64 = 3;

/// Two clocks read at once: what the counter gained and the thread did not have is what others took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    cycles: Cycles,
    /// Processor time of the thread.
    had: Nanos,
}

impl Mark {
    /// Of the present thread, now.
    pub(crate) fn now() -> Mark {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let had = Nanos((time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64));
        Mark { cycles: Cycles::now(), had }
    }

    /// Processor time of the thread since an earlier reading.
    pub(crate) fn had_since(self, earlier: Mark) -> Nanos {
        self.had.since(earlier.had)
    }

    /// Cycles between two readings that the thread had no processor for.
    fn withheld(self, until: Mark, clock: &Clock) -> Cycles {
        let had = clock.cycles(until.had.since(self.had));
        until.cycles.since(self.cycles).since(had)
    }
}

/// Where a worker's cycles went that no instance was charged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerTime {
    /// Looking around, and work that belongs to no instance.
    pub overhead: Cycles,
    /// Asleep in the kernel.
    pub asleep: Cycles,
    /// The thread was ready to run and others had the processor.
    pub withheld: Cycles,
    /// Resting on purpose, see [`crate::WorkerSettings::duty`].
    pub resting: Cycles,
}

impl Worker {
    /// Reads the clock, charges what has passed to the instance that was running, and lets another run.
    /// Returns which was.
    #[inline]
    pub(crate) fn switch_account(&mut self, to: EntityId) -> EntityId {
        let cycles = Cycles::now();
        let spent = self.had(cycles.since(self.now.cycles));
        self.charge(self.running, spent);
        self.now = Moment { cycles, nanos: self.clock.nanos(cycles) };
        std::mem::replace(&mut self.running, to)
    }

    /// Counts how long the packets took that an instance was called with, and those that ports were handed
    /// meanwhile. All of a batch count as its first.
    #[inline]
    pub(crate) fn count_latency(&mut self, index: usize) {
        let now = self.now.nanos.0;
        let instance = &mut self.instances[index];
        if instance.received != 0 {
            let took = now.saturating_sub(instance.received);
            instance.counters.latencies.record(took, instance.called_with as u64);
            instance.received = 0;
        }
        if !self.departed.is_empty() {
            self.count_departed();
        }
    }

    /// Counts how long the packets took that ports were handed.
    pub(crate) fn count_departed(&mut self) {
        let now = self.now.nanos.0;
        for (port, received, packets) in self.departed.drain(..) {
            if let Some(node) = self.ports.get_mut(port as usize) {
                node.latencies.record(now.saturating_sub(received), packets);
            }
        }
    }

    /// A port is about to be handed packets.
    #[inline]
    pub(crate) fn note_departure(&mut self, port: usize, batch: &[packet_memory::Packet]) {
        let received = batch.first().map_or(0, |packet| packet.record().timestamp);
        if received != 0 && !self.ports[port].relay {
            self.departed.push((port as u32, received, batch.len() as u64));
        }
    }

    /// What of an interval up to now the worker had a processor for.
    #[inline]
    pub(crate) fn had(&mut self, spent: Cycles) -> Cycles {
        if spent > self.suspicious { self.examine(spent) } else { spent }
    }

    /// Takes up the clocks where there was no work, or another thread had the worker: no instance is charged
    /// for that.
    #[cold]
    pub(crate) fn look_at_clocks(&mut self) {
        let before = self.now.cycles;
        self.now = self.clock.moment();
        self.mark = Mark::now();
        self.time.overhead += self.now.cycles.since(before);
    }

    /// The same for a worker whose thread sleeps, so that a thread that has borrowed it finds it in the
    /// present.
    pub(crate) fn look_at_clock_asleep(&mut self) {
        let before = self.now.cycles;
        self.now = self.clock.moment();
        self.time.asleep += self.now.cycles.since(before);
    }

    /// Tells others for how long it has worked for instances.
    #[inline]
    pub(crate) fn show_busy(&mut self) {
        let WorkerTime { overhead, asleep, withheld, resting } = self.time;
        let others = overhead.0 + asleep.0 + withheld.0 + resting.0;
        let busy = self.now.cycles.since(self.made).0.saturating_sub(others);
        // What others took is noticed late: what was told before stands.
        let before = self.busy.load(Relaxed);
        if busy > before {
            self.busy.store(busy, Relaxed);
            let needed = std::mem::take(&mut self.calls).needed(Cycles(busy - before));
            self.needed.store(self.needed.load(Relaxed) + needed.0, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn charge(&mut self, entity: EntityId, cycles: Cycles) {
        if entity == NOBODY {
            self.time.overhead += cycles;
        } else {
            self.scheduler.charge(entity, cycles);
        }
    }

    /// A long interval: what others took of it is not charged, and a function whose call was too long gets
    /// fewer packets at once.
    #[cold]
    fn examine(&mut self, spent: Cycles) -> Cycles {
        let mark = Mark::now();
        let withheld = Cycles(self.mark.withheld(mark, &self.clock).0.min(spent.0));
        self.mark = mark;
        self.time.withheld += withheld;
        let spent = spent.since(withheld);
        if spent > self.slice
            && self.running != NOBODY
            && let Some(&index) = self.by_entity.get(self.running.0 as usize)
            && let Some(instance) = self.instances.get_mut(index as usize)
        {
            instance.counters.overruns += 1;
            if instance.called_with > 0 {
                let fits = (instance.called_with as u64).saturating_mul(self.slice.0) / spent.0.max(1);
                instance.batch = (fits as usize).clamp(1, instance.batch.max(1));
                let slices = if instance.called_with == 1 { LONG_FOR_ONE } else { LONG_CALL };
                if spent.0 > self.slice.0.saturating_mul(slices) {
                    instance.factory.set_preemptible();
                }
            }
        }
        spent
    }

    /// Compares the clocks now and then, so that small losses do not add up until they are taken for a large
    /// one.
    #[inline]
    pub(crate) fn mark_time(&mut self) {
        if self.now.cycles.since(self.mark.cycles) > self.mark_every {
            let mark = Mark::now();
            self.time.withheld += self.mark.withheld(mark, &self.clock);
            self.mark = mark;
        }
    }

    /// After the call of an instance that gets small batches: when there is much room in its slice, they grow
    /// again.
    #[cold]
    pub(crate) fn adapt(&mut self, index: usize, began: Cycles) {
        let took = self.now.cycles.since(began);
        let instance = &mut self.instances[index];
        if instance.called_with == instance.batch && took.0 < self.slice.0 / 2 {
            instance.batch = (instance.batch * 2).min(self.settings.batch);
        }
    }
}

/// What a call costs beside its packets, in packets: caches are cold when functions take turns.
const CALL: u128 = 16;

/// Calls, and how well they were used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) calls: u64,
    pub(crate) packets: u64,
    /// Packets that they had room for.
    pub(crate) room: u64,
}

impl Calls {
    #[inline]
    pub(crate) fn count(&mut self, packets: usize, room: usize) {
        self.calls += 1;
        self.packets += packets as u64;
        self.room += room as u64;
    }

    /// What of the cycles that were used by these calls was needed. A worker with time to spare fetches few
    /// packets at a time, and spends that time on calls; fewer calls with as many packets as there was room
    /// for would have done.
    pub(crate) fn needed(self, used: Cycles) -> Cycles {
        let [calls, packets, room] = [self.calls, self.packets, self.room].map(u128::from);
        let fewest = (calls * packets).div_ceil(room.max(1)).min(calls);
        let (part, all) = (packets + CALL * fewest, packets + CALL * calls);
        // Timers and the like are no calls: all of that was needed.
        (u128::from(used.0) * part).checked_div(all).map_or(used, |needed| Cycles(needed as u64))
    }
}

/// The lengths of time that are compared on the data path, in cycles.
pub(crate) fn suspicious(clock: &Clock, slice: Nanos) -> Cycles {
    clock.cycles(slice.min(SUSPICIOUS))
}

pub(crate) fn mark_every(clock: &Clock) -> Cycles {
    clock.cycles(MARK_EVERY)
}
