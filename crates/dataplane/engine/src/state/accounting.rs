//! Where the time goes: every cycle of a worker is charged to an instance or to the worker itself, but for
//! those that others took from it.

use crate::worker::WorkerSettings;
use cpu_share::{Claim, EntityId, Scheduler, SchedulerSettings, TenantId};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use telemetry::clock::{Clock, Cycles, Moment, Nanos, SimulatedTime};

/// Stands for no instance: what is spent goes to the worker's own account.
pub(crate) const NO_INSTANCE: EntityId = EntityId(u32::MAX);

/// A reading of the thread's processor time is taken at least this often.
const MARK_EVERY: Nanos = Nanos::from_millis(1);

/// An interval longer than this may hide that the thread was without a processor for a while.
const SUSPICIOUS: Nanos = Nanos(50_000);

/// Wake-up granularity; see [`cpu_share::SchedulerSettings::wakeup`].
const WAKEUP: Nanos = Nanos(50_000);

/// Between two looks around while there is work passes at least so many times what one costs that brings
/// nothing.
const LOOKS: u64 = 16;

/// The number of no instance.
pub(crate) const NO_CALLER: usize = usize::MAX;

/// Two clocks read at once: what the counter gained and the thread did not have is what others took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    cycles: Cycles,
    /// Processor time of the thread.
    had: Nanos,
}

impl Mark {
    /// Of the present thread, now.
    pub(crate) fn now(clock: &Clock) -> Mark {
        let had = clock.simulation().map_or_else(processor_time, SimulatedTime::processor_time);
        Mark { cycles: clock.read(), had }
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

/// Processor time of the present thread.
fn processor_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos((time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
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
}

/// The clock of a worker, what it is charging, and the scheduler that the charges feed.
///
/// What holds: every cycle between two readings of the clock is charged once: to the entity that was
/// `running`, to the worker's own `spent`, or, where the thread had no processor, to `spent.withheld`.
pub(crate) struct Accounting {
    pub(crate) clock: Clock,
    /// The last reading.
    pub(crate) now: Moment,
    pub(crate) scheduler: Scheduler,
    /// Tenants in the order they were added, with what they claim.
    pub(crate) tenants: Vec<(TenantId, Claim)>,
    /// Instance of each scheduler entity.
    instances: Vec<u32>,
    /// The entity that cycles are charged to at present.
    pub(crate) running: EntityId,
    /// The instance whose hop it is; [`NO_CALLER`] between hops.
    pub(crate) current: usize,
    /// The entity whose run was interrupted for the ports to be polled.
    pub(crate) interrupted: Option<EntityId>,
    /// The instances for which packets were received through a switch, and how many, while a port is polled.
    pub(crate) receivers: Vec<(EntityId, u32)>,
    /// Charges that were longer than a slice and have not been answered yet.
    pub(crate) overruns: Vec<(EntityId, Cycles)>,
    /// Cycles that no instance was charged for.
    pub(crate) spent: WorkerTime,
    /// Calls that it has made.
    pub(crate) calls: Calls,
    /// What others read of it.
    pub(crate) shown: Arc<Shown>,
    mark: Mark,
    /// When it was made.
    made: Cycles,
    // Lengths of time in cycles.
    suspicious: Cycles,
    pub(crate) slice: Cycles,
    mark_every: Cycles,
    pub(crate) turn: Cycles,
    pub(crate) wakeup: Cycles,
    /// What the last look around cost that brought nothing.
    pub(crate) look_cost: Cycles,
}

impl Accounting {
    pub(crate) fn new(settings: &WorkerSettings, clock: Clock) -> Accounting {
        let now = clock.moment();
        let limits = SchedulerSettings {
            slack: clock.cycles(settings.slack),
            quantum: clock.cycles(settings.quantum),
            wakeup: clock.cycles(settings.slack.min(WAKEUP)),
            period: clock.cycles(settings.period),
        };
        Accounting {
            clock,
            now,
            scheduler: Scheduler::new(limits, now.cycles),
            tenants: Vec::new(),
            instances: Vec::new(),
            running: NO_INSTANCE,
            current: NO_CALLER,
            interrupted: None,
            receivers: Vec::new(),
            overruns: Vec::new(),
            spent: WorkerTime::default(),
            calls: Calls::default(),
            shown: Arc::default(),
            mark: Mark::now(&clock),
            made: now.cycles,
            suspicious: clock.cycles(settings.slice.min(SUSPICIOUS)),
            slice: clock.cycles(settings.slice),
            mark_every: clock.cycles(MARK_EVERY),
            turn: clock.cycles(settings.turn),
            wakeup: clock.cycles(WAKEUP),
            look_cost: Cycles(0),
        }
    }

    /// The number of an entity's instance.
    #[inline]
    pub(crate) fn instance_of(&self, entity: EntityId) -> usize {
        self.instances[entity.0 as usize] as usize
    }

    /// An entity is that of an instance.
    pub(crate) fn name(&mut self, entity: EntityId, instance: usize) {
        let entity = entity.0 as usize;
        if self.instances.len() <= entity {
            self.instances.resize(entity + 1, 0);
        }
        self.instances[entity] = instance as u32;
    }

    /// Reads the clock, charges what has passed to the entity that was running, and lets another run. Returns
    /// which was.
    #[inline(always)]
    pub(crate) fn switch(&mut self, to: EntityId) -> EntityId {
        let spent = self.lap();
        self.charge(self.running, spent);
        std::mem::replace(&mut self.running, to)
    }

    /// Reads the clock. Returns what has passed since the last reading, as far as the worker had a processor.
    #[inline]
    pub(crate) fn lap(&mut self) -> Cycles {
        let before = self.now.cycles;
        self.now = self.clock.moment();
        let spent = self.now.cycles.since(before);
        if spent > self.suspicious { self.examine(spent) } else { spent }
    }

    #[inline]
    pub(crate) fn charge(&mut self, entity: EntityId, cycles: Cycles) {
        if entity == NO_INSTANCE {
            self.spent.overhead += cycles;
        } else {
            self.scheduler.charge(entity, cycles);
        }
    }

    /// A long interval: what others took of it is not charged, and an overrun of the slice is noted.
    #[cold]
    fn examine(&mut self, spent: Cycles) -> Cycles {
        let mark = Mark::now(&self.clock);
        let withheld = Cycles(self.mark.withheld(mark, &self.clock).0.min(spent.0));
        self.mark = mark;
        self.spent.withheld += withheld;
        let spent = spent.since(withheld);
        if spent > self.slice && self.running != NO_INSTANCE {
            self.overruns.push((self.running, spent));
        }
        spent
    }

    /// Compares the clocks now and then, so that small losses do not add up until they are taken for a large
    /// one.
    #[inline]
    pub(crate) fn mark_time(&mut self) {
        if self.now.cycles.since(self.mark.cycles) > self.mark_every {
            let mark = Mark::now(&self.clock);
            self.spent.withheld += self.mark.withheld(mark, &self.clock);
            self.mark = mark;
        }
    }

    /// Takes up the clocks where there was no work, or another thread had the worker: no instance is charged
    /// for that.
    #[cold]
    pub(crate) fn restart(&mut self) {
        let before = self.now.cycles;
        self.now = self.clock.moment();
        self.mark = Mark::now(&self.clock);
        self.spent.overhead += self.now.cycles.since(before);
    }

    /// The same for a worker whose thread sleeps, so that a thread that has borrowed it finds it in the
    /// present.
    pub(crate) fn restart_asleep(&mut self) {
        let before = self.now.cycles;
        self.now = self.clock.moment();
        self.spent.asleep += self.now.cycles.since(before);
    }

    /// The same for one whose own thread has slept. Returns the processor time of the thread.
    pub(crate) fn wake(&mut self) -> Mark {
        self.restart_asleep();
        self.mark = Mark::now(&self.clock);
        self.mark
    }

    /// Shows others for how long it has worked for instances, and with how many calls.
    #[inline]
    pub(crate) fn show_busy(&self) {
        let WorkerTime { overhead, asleep, withheld } = self.spent;
        let busy = self.now.cycles.since(self.made).since(overhead + asleep + withheld).0;
        // What others took is noticed late: what was told before stands.
        self.shown.busy.store(busy.max(self.shown.busy.load(Relaxed)), Relaxed);
        self.shown.calls.store(self.calls.calls, Relaxed);
        self.shown.packets.store(self.calls.packets, Relaxed);
        self.shown.room.store(self.calls.room, Relaxed);
    }

    /// The same for one that has slept from then on, and of that had a processor for so long as sleeping
    /// costs: to ask the kernel takes as long as three other system calls.
    pub(crate) fn wake_unmeasured(&mut self, began: Cycles, cost: Cycles) {
        self.restart_asleep();
        self.mark.cycles += self.now.cycles.since(began).since(cost);
    }

    /// How long instances run before the ports are looked at again: a packet for one that has used less than
    /// its share waits for this at most, so it is short, unless looking is expensive.
    pub(crate) fn turn_length(&self) -> Cycles {
        Cycles(self.look_cost.0.saturating_mul(LOOKS).max(self.wakeup.0).min(self.turn.0))
    }
}

/// What a worker has done as of its last turn, read without asking it.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    busy: AtomicU64,
    calls: AtomicU64,
    packets: AtomicU64,
    room: AtomicU64,
}

impl Shown {
    /// Cycles that it worked for instances.
    pub(crate) fn busy(&self) -> Cycles {
        Cycles(self.busy.load(Relaxed))
    }

    /// Its calls.
    pub(crate) fn calls(&self) -> Calls {
        let [calls, packets, room] =
            [&self.calls, &self.packets, &self.room].map(|count| count.load(Relaxed));
        Calls { calls, packets, room }
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

    /// Those beyond an earlier count.
    pub(crate) fn beyond(self, earlier: Calls) -> Calls {
        let [calls, packets, room] =
            [(self.calls, earlier.calls), (self.packets, earlier.packets), (self.room, earlier.room)]
                .map(|(now, before)| now.saturating_sub(before));
        Calls { calls, packets, room }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_that_was_not_measured_is_not_taken_for_time_that_others_took() {
        let clock = Clock::simulated();
        let time = clock.simulation().expect("it is simulated");
        let mut accounting = Accounting::new(&WorkerSettings::default(), clock);
        for _ in 0..20 {
            // Its thread has no processor while it sleeps, but for what falling asleep takes.
            let began = accounting.now.cycles;
            time.withhold(Nanos(27_000));
            time.advance(Nanos(3_000));
            accounting.wake_unmeasured(began, Cycles(3_000));
            time.advance(Nanos(20_000));
            accounting.lap();
        }
        time.advance(Nanos::from_millis(2));
        accounting.lap();
        accounting.mark_time();
        assert_eq!(accounting.spent.withheld, Cycles(0));
        assert_eq!(accounting.spent.asleep, Cycles(20 * 30_000));
        // What others take between two sleeps is noticed as before.
        time.withhold(Nanos(400_000));
        accounting.lap();
        assert_eq!(accounting.spent.withheld, Cycles(400_000));
    }
}
