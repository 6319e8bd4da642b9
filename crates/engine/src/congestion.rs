//! Who is at the head of a chain fetches nothing while somebody behind it has more than it can do: packets wait outside, or are
//! lost there, before work was put into them (the back pressure of NFVnice).
//!
//! An instance that hands packets to one whose queue is more than half full, or that is held up itself, is held up. That goes up the
//! chain with the packets, as far as whoever polls ports. It says nothing of packets that are queued already: those go on, so
//! that functions in a circle never wait for each other.

use crate::worker::Worker;

impl Worker {
    /// Notes that the running instance hands packets to one that has much to do already.
    #[inline]
    pub(crate) fn note_congestion(&mut self, to: usize) {
        let receiver = &self.instances[to];
        if (receiver.queue.is_congested() || receiver.held_up_by.is_some())
            && let Some(sender) = self.instances.get_mut(self.current)
        {
            sender.held_up_by = Some(to);
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

    /// Forgets what held an instance up, if that is over.
    #[inline]
    pub(crate) fn look_whether_held_up(&mut self, index: usize) -> bool {
        let held_up = self.is_held_up(index);
        if !held_up {
            self.instances[index].held_up_by = None;
        }
        held_up
    }
}
