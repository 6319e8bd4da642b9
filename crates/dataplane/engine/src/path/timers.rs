//! Deadlines of functions, and of the packets that they hold.
//!
//! A turn takes notice of a bounded number of deadlines and calls no function for it: an instance that is due
//! waits for its turn in the scheduler. So however early a function sets its deadline, its timer runs at most
//! once in a turn, within its share.

use crate::control::fault::Life;
use crate::ids::Holder;
use crate::state::accounting::NO_INSTANCE;
use crate::worker::Worker;
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// Most deadlines that one turn takes notice of.
const DUE_AT_ONCE: usize = 256;

/// Most packets of one instance that expire in one turn.
const EXPIRED_AT_ONCE: usize = 256;

impl Worker {
    /// Takes notice of deadlines that have passed: an instance that is due has work then, and waits for its
    /// turn like one that has packets, so that its timer is charged to it and held to its weight and cap. A
    /// deadline that is set meanwhile, in the past or not, is looked at in the next turn. Returns whether
    /// there was one.
    pub(crate) fn expire_timers(&mut self) -> bool {
        let mut due = false;
        for _ in 0..DUE_AT_ONCE {
            let Some(index) = self.timers.pop_due(self.time.now.nanos) else { break };
            due = true;
            let instance = &mut self.instances[index];
            instance.timer_at = Nanos::MAX;
            match instance.life {
                Life::Down { .. } => self.restart_due(index),
                Life::Starting { .. } => {}
                Life::Up { .. } if instance.stands_still() => self.expire_in_pause(index),
                Life::Up { .. } => {
                    instance.due = true;
                    self.wake_instance(index);
                }
            }
        }
        due
    }

    /// The turn of an instance that is due: gives up what it has held for too long, and calls its timer if
    /// its deadline has passed. All of it is in its account.
    #[cold]
    pub(crate) fn serve_due(&mut self, index: usize) {
        let now = self.time.now;
        let instance = &mut self.instances[index];
        instance.due = false;
        // The length of this call says nothing about batches.
        instance.called_with = 0;
        self.expire_held(index);
        self.tell_asks(index);
        let Life::Up { guest, .. } = &mut self.instances[index].life else { return };
        if guest.kept().due().is_none_or(|deadline| deadline > now.nanos) {
            return self.after_call(index);
        }
        let called = guest.timer(now);
        self.upkeep.note_call(index, &mut self.instances[index].called);
        match called {
            Ok(()) => self.after_call(index),
            Err(fault) => self.on_guest_fault(index, &fault, None),
        }
    }

    /// Drops what an instance has held for too long, as much as one turn has time for.
    fn expire_held(&mut self, index: usize) {
        let Life::Up { guest, .. } = &mut self.instances[index].life else { return };
        let mut expired = self.batches.spare();
        guest.kept_mut().slots.expire(self.time.now.nanos, EXPIRED_AT_ONCE, &mut expired);
        self.drop_batch(Holder::Instance(index), expired, DropReason::HoldExpired);
    }

    /// A paused function's time stands still; that of packets which it holds does not.
    #[cold]
    fn expire_in_pause(&mut self, index: usize) {
        self.time.switch(self.instances[index].entity);
        self.expire_held(index);
        let Life::Up { guest, .. } = &mut self.instances[index].life else { return };
        if let Some(at) = guest.kept().slots.next_expiry() {
            self.schedule(index, at);
        }
        self.time.switch(NO_INSTANCE);
    }
}
