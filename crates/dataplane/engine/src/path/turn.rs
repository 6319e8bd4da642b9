//! One turn of a worker, from which everything on the data path is called.

use crate::state::HandOff;
use crate::state::accounting::{NO_CALLER, NO_INSTANCE};
use crate::worker::Worker;
use cpu_share::EntityId;
use telemetry::clock::Cycles;

/// A call that lasts for more slices than this holds its worker for too long, one with a single packet for
/// more than that: there smaller batches do not help, so the next guest of its instance is switched out.
const LONG_CALL: u64 = 10;
const LONG_FOR_ONE: u64 = 3;

impl Worker {
    /// Goes around once: ports, deadlines, then the instances that have work. Returns whether there was
    /// anything to do.
    pub fn turn(&mut self) -> bool {
        let received = self.receive();
        let due = self.expire_timers();
        self.take_started();
        self.release_waiting();
        let ran = self.run_ready(received);
        if !ran {
            self.time.switch(NO_INSTANCE);
        }
        self.end_turn();
        received || due || ran
    }

    /// Runs instances until none has work, or the ports have waited long enough. `just_read`: so was the
    /// clock.
    fn run_ready(&mut self, just_read: bool) -> bool {
        let now = self.time.now.cycles;
        // What was interrupted only for the ports to be polled goes on if it may: its run is as long as any
        // other's.
        let interrupted = self.time.interrupted.take();
        let goes_on = interrupted.filter(|entity| self.time.scheduler.take_back(*entity, now));
        let Some(first) = goes_on.or_else(|| self.time.scheduler.pick(now)) else { return false };
        if !just_read {
            self.time.switch(first);
            self.time.look_cost = self.time.now.cycles.since(now);
        }
        let until = self.time.now.cycles + self.time.turn_length();
        let mut next = self.pick(Some(first));
        while let Some(index) = next {
            next = self.run(index, until);
        }
        self.time.running = NO_INSTANCE;
        true
    }

    /// Runs an instance for one batch: the one in hand, or one from its queue. Returns what runs next in this
    /// turn: the instance that the batch went on to, this one again, or the one whose turn it is.
    #[inline(always)]
    fn run(&mut self, index: usize, until: Cycles) -> Option<usize> {
        let began = self.time.now.cycles;
        self.hop(index);
        self.time.current = NO_CALLER;
        let spent = self.time.lap();
        let instance = &mut self.instances[index];
        let entity = instance.entity;
        self.time.scheduler.charge(entity, spent);
        instance.count_latency(self.time.now.nanos);
        let more = instance.has_work();
        if instance.batch < self.settings.batch || !self.time.overruns.is_empty() {
            self.adapt_batch(index, began);
        }
        if self.time.now.cycles >= until {
            self.interrupt(index, more);
            return None;
        }
        let next = self.batches.in_hand.as_ref().map(|handed| handed.to);
        if more {
            // The running instance goes on until it is far enough ahead, its code and data being in the
            // caches.
            if next.is_none() && self.time.scheduler.hand_off(entity, self.time.now.cycles) {
                return self.pick(Some(entity));
            }
            self.wake_instance(index);
        }
        next.or_else(|| self.pick(None))
    }

    /// Ends the turn after an instance's run, for the ports to be polled: what would run next goes on then.
    #[cold]
    fn interrupt(&mut self, index: usize, more: bool) {
        let next = self.batches.in_hand.as_ref().map_or(index, |handed| handed.to);
        self.time.interrupted = Some(self.instances[next].entity);
        self.put_back();
        if more {
            self.wake_instance(index);
        }
    }

    /// Queues the batch in hand, if there is one, in front of what came since: its instance waits for its
    /// turn then, or for room.
    pub(crate) fn put_back(&mut self) {
        if let Some(HandOff { to, batch }) = self.batches.in_hand.take() {
            self.instances[to].queue.push_front(batch);
            self.wake_instance(to);
        }
    }

    /// The instance that runs next of those that have room for what they hand on: that of an entity whose
    /// turn it is already, or the first whose turn comes.
    fn pick(&mut self, mut first: Option<EntityId>) -> Option<usize> {
        loop {
            let entity = first.take().or_else(|| self.time.scheduler.pick(self.time.now.cycles))?;
            let index = self.time.instance_of(entity);
            if !self.waits_for_room(index) {
                return Some(index);
            }
        }
    }

    /// The instance has packets: it waits for its turn, unless it is paused. The running instance is asked
    /// afterwards whether there is more.
    #[inline]
    pub(crate) fn wake_instance(&mut self, index: usize) {
        let instance = &self.instances[index];
        if !instance.stands_still() && index != self.time.current && instance.waits_for.is_none() {
            self.time.scheduler.activate(instance.entity);
        }
    }

    /// What is left to do when no instance runs any more in this turn.
    #[inline]
    fn end_turn(&mut self) {
        debug_assert!(self.batches.in_hand.is_none(), "a batch is in hand between two hops alone");
        self.time.mark_time();
        if self.time.now.nanos >= self.upkeep.next {
            self.maintain();
        }
        if self.is_asked_to_show() {
            self.show_some();
            self.time.switch(NO_INSTANCE);
        }
        self.signal_wires();
    }

    /// Keeps calls within a slice. An instance whose call was too long gets fewer packets at once, and a
    /// preemptible guest where that does not help; batches that leave much room grow again.
    #[cold]
    fn adapt_batch(&mut self, index: usize, began: Cycles) {
        let slice = self.time.slice.0;
        let (took, least) = (self.time.now.cycles.since(began).0, self.settings.batch);
        let instance = &mut self.instances[index];
        if instance.called_with == instance.batch && took < slice / 2 {
            instance.batch = (instance.batch * 2).min(least);
        }
        while let Some((entity, spent)) = self.time.overruns.pop() {
            let number = self.time.instance_of(entity);
            let Some(instance) = self.instances.get_mut(number) else { continue };
            instance.counters.overruns += 1;
            if instance.called_with > 0 {
                let fits = (instance.called_with as u64).saturating_mul(slice) / spent.0.max(1);
                instance.batch = (fits as usize).clamp(1, instance.batch.max(1));
                let slices = if instance.called_with == 1 { LONG_FOR_ONE } else { LONG_CALL };
                if spent.0 > slice.saturating_mul(slices) {
                    instance.factory.set_preemptible();
                }
            }
        }
    }
}
