//! Who is at the head of a chain fetches nothing while somebody behind it has more than it can do: packets wait outside, or are
//! lost there, before work was put into them (the back pressure of NFVnice).
//!
//! An instance that hands packets to one whose queue is more than half full, or that is held up itself, is held up. That goes up the
//! chain at once, to whoever handed it its last batch and so on, as far as whoever polls ports: a long chain holds no more than fits.
//! What is in the chain then goes on as far as there is room: whoever would hand packets to one that has none waits, unless that
//! one waits for it in its turn, or does not work. So nothing is lost in a chain of one worker that
//! packets pass one way. Functions in a circle lose what is too much: a chain whose both directions are overloaded is one.

use crate::fault::Life;
use crate::ids::Target;
use crate::worker::Worker;

impl Worker {
    /// Notes that the running instance hands packets to another one, and whether that one has much to do already.
    #[inline]
    pub(crate) fn note_congestion(&mut self, to: usize) {
        let sender = self.current;
        let receiver = &mut self.instances[to];
        receiver.handed_by = sender;
        if receiver.queue.is_congested() || receiver.held_up_by.is_some() {
            self.hold_up(sender, to);
        }
    }

    /// Holds an instance up, and those from whom its packets come.
    #[cold]
    fn hold_up(&mut self, mut sender: usize, mut to: usize) {
        // No chain is longer than packets may hop.
        for _ in 0..nf_abi::HOP_BUDGET {
            let Some(instance) = self.instances.get_mut(sender) else { return };
            // Who handed packets on may be gone by now, and another one in its place.
            let leads = |target: &Target| match target {
                Target::Instance(next, _) => next.index() == to,
                Target::Switch(..) => true,
                Target::Port(_) => false,
            };
            if !instance.links.iter().flatten().any(leads) {
                return;
            }
            if instance.held_up_by.replace(to) == Some(to) {
                return;
            }
            (to, sender) = (sender, instance.handed_by);
        }
    }

    /// Whether an instance that polls ports should leave what comes outside.
    #[inline]
    pub(crate) fn is_held_up(&self, index: usize) -> bool {
        self.instances[index].held_up_by.is_some() && self.find_congestion(index)
    }

    /// Follows the chain to where it is congested.
    #[cold]
    fn find_congestion(&self, mut index: usize) -> bool {
        // No chain is longer than packets may hop.
        for _ in 0..nf_abi::HOP_BUDGET {
            let next = self.instances.get(index).and_then(|instance| instance.held_up_by);
            let Some((next, receiver)) = next.and_then(|next| Some((next, self.instances.get(next)?))) else {
                return false;
            };
            if receiver.queue.is_congested() {
                return true;
            }
            index = next;
        }
        false
    }

    /// Forgets what held an instance up, and those behind it, if that is over.
    #[inline]
    pub(crate) fn look_whether_held_up(&mut self, index: usize) -> bool {
        let held_up = self.is_held_up(index);
        if !held_up {
            let mut held_up_by = self.instances[index].held_up_by.take();
            while let Some(instance) = held_up_by.and_then(|next| self.instances.get_mut(next)) {
                held_up_by = instance.held_up_by.take();
            }
        }
        held_up
    }

    /// Whether an instance has to wait until there is room for what it hands on. It is woken when there is.
    #[inline]
    pub(crate) fn waits_for_room(&mut self, index: usize) -> bool {
        match self.instances[index].held_up_by {
            Some(to) => self.look_for_room(index, to),
            None => false,
        }
    }

    #[cold]
    fn look_for_room(&mut self, index: usize, to: usize) -> bool {
        let Some(receiver) = self.instances.get(to) else { return false };
        let works = !receiver.paused && matches!(receiver.life, Life::Up { .. });
        let has_room = receiver.queue.is_empty() || receiver.queue.room() >= self.settings.batch;
        if !works || has_room || self.waits_in_circle(index, to) {
            return false;
        }
        if self.instances[index].waits_for.replace(to).is_none() {
            self.waiting.push(index);
        }
        true
    }

    /// Whether one waits, others in between or not, for who is about to wait for it.
    fn waits_in_circle(&self, index: usize, mut to: usize) -> bool {
        // Nobody waits for itself, so that this comes to an end.
        while to != index {
            let Some(next) = self.instances.get(to).and_then(|instance| instance.waits_for) else {
                return false;
            };
            to = next;
        }
        true
    }

    /// Wakes whoever waits no longer for room.
    #[inline]
    pub(crate) fn look_who_waits(&mut self) {
        if !self.waiting.is_empty() {
            self.release_waiting();
        }
    }

    #[cold]
    fn release_waiting(&mut self) {
        for index in std::mem::take(&mut self.waiting) {
            let waited = self.instances.get_mut(index).and_then(|instance| instance.waits_for.take());
            if let Some(to) = waited
                && !self.look_for_room(index, to)
            {
                self.wake_instance(index);
            }
        }
    }
}
