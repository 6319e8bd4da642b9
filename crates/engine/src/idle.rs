//! What a worker does when there is nothing to do: look a little longer, then sleep in the kernel.

use crate::worker::Worker;
use clock::{Cycles, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a worker looks on before it sleeps, adapted to whether looking on was worth it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    budget: Cycles,
    longest: Cycles,
    idle_since: Option<Cycles>,
}

impl Spin {
    /// Looks on for at most `longest`; zero never does.
    pub(crate) fn new(longest: Cycles) -> Spin {
        Spin { budget: longest, longest, idle_since: None }
    }

    /// There was work: looking on paid, if it was done at all.
    #[inline]
    pub(crate) fn found_work(&mut self) {
        if self.idle_since.take().is_some() {
            self.budget = Cycles((self.budget.0 * 2).clamp(self.longest.0 / 16, self.longest.0));
        }
    }

    /// There was none. True when it is time to sleep.
    pub(crate) fn found_nothing(&mut self, now: Cycles) -> bool {
        let since = *self.idle_since.get_or_insert(now);
        let enough = now.since(since) >= self.budget;
        if enough {
            self.idle_since = None;
            self.budget = Cycles(self.budget.0 / 2);
        }
        enough
    }
}

impl Worker {
    /// Sleeps until a port has something, a timer is due, or a message has come.
    pub(crate) fn sleep(&mut self) {
        let mut wake_at = self.next_timer.min(self.next_maintenance);
        let mut waiting = vec![PollFd::from_borrowed_fd(self.mailbox.bell(), PollFlags::IN)];
        for node in &self.ports {
            let wake = node.port.wake();
            // Of a port that only sends, what is on its way out counts, and what comes in does not.
            if let Some(at) = wake.at.filter(|_| node.target.is_some() || node.port.in_flight() > 0) {
                wake_at = wake_at.min(at);
            }
            if let Some(fd) = wake.readable.filter(|_| node.target.is_some()) {
                waiting.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            }
        }
        let Nanos(span) = wake_at.since(self.clock.now());
        if span > 0 {
            let timeout = Timespec {
                tv_sec: i64::try_from(span / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: (span % 1_000_000_000) as _,
            };
            // A signal only wakes the worker early.
            let _ = poll(&mut waiting, Some(&timeout));
        }
        self.mailbox.quiet();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_on_adapts_and_ends() {
        let mut spin = Spin::new(Cycles(1600));
        assert!(!spin.found_nothing(Cycles(10_000)));
        assert!(!spin.found_nothing(Cycles(11_599)));
        assert!(spin.found_nothing(Cycles(11_600)));
        // In vain: next time only half as long.
        assert!(!spin.found_nothing(Cycles(20_000)));
        assert!(spin.found_nothing(Cycles(20_800)));
        // Work came while looking on: longer again.
        assert!(!spin.found_nothing(Cycles(30_000)));
        spin.found_work();
        assert!(!spin.found_nothing(Cycles(40_000)));
        assert!(spin.found_nothing(Cycles(40_800)));
    }
}
