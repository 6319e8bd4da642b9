//! Nodes that their caps throttle: set aside when their turn comes, and released when the cap has allowed for
//! what they used.

use crate::scheduler::{Scheduler, State};
use std::cmp::Reverse;
use telemetry::clock::Cycles;

impl Scheduler {
    /// When the first throttled entity or tenant may run again. It may turn out then that it has been charged
    /// meanwhile, and has to wait longer. Tells of all when [`Scheduler::is_idle`].
    #[inline]
    pub fn next_release(&self) -> Option<Cycles> {
        self.throttled.peek().map(|Reverse((release, _))| *release)
    }

    /// Sets aside a node that waits for its turn, until its cap lets it run.
    #[cold]
    pub(crate) fn throttle(&mut self, index: usize) {
        self.stop(index);
        let node = &mut self.nodes[index];
        (node.state, node.since) = (State::Throttled, self.now);
        self.throttled.push(Reverse((node.share.release(), index)));
    }

    /// Nothing waits for a cap any more that was throttled by it: it was paused, removed, or given another
    /// claim.
    #[cold]
    pub(crate) fn forget(&mut self, index: usize) {
        self.throttled.retain(|Reverse((_, other))| *other != index);
    }

    /// Lets those wait for their turn whose caps let them run.
    #[cold]
    pub(crate) fn release_due(&mut self) {
        while self.next_release().is_some_and(|release| release <= self.now)
            && let Some(Reverse((_, index))) = self.throttled.pop()
        {
            // Not `may_run`: that forgets by how much the worker is late, which is not the cap's doing.
            let node = &mut self.nodes[index];
            let release = node.share.release();
            if release > self.now {
                self.throttled.push(Reverse((release, index)));
                continue;
            }
            (node.throttled, node.state) = (node.throttled_for(self.now), State::Out);
            self.start(index);
        }
    }
}
