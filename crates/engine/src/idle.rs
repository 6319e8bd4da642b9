//! How a worker sleeps in the kernel, and what wakes it. Whether it does is decided in `rest.rs`.

use crate::time::Mark;
use crate::worker::Worker;
use clock::{Cycles, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

impl Worker {
    /// Sleeps until a port has something, a timer is due, or a message has come.
    pub(crate) fn sleep(&mut self) {
        let bell = self.mailbox.bell();
        let before_sleep = Mark::now();
        bell.will_sleep();
        let now = self.clock.now();
        let mut wake_at = self.next_timer().min(self.next_maintenance);
        if let Some(release) = self.scheduler.next_release() {
            wake_at = wake_at.min(self.clock.nanos(release));
        }
        // Whatever comes from outside may wait that long.
        let rest_until = now.saturating_add(self.rest.length());
        let resting = self.rest.length() > Nanos(0);
        let mut waiting = vec![PollFd::from_borrowed_fd(bell.fd(), PollFlags::IN)];
        for index in 0..self.ports.end() {
            let Some(node) = self.ports.get(index) else { continue };
            if let Some(target) = node.target
                && let Some(blocking) = self.blocked_by(target)
                && self.ports[blocking].relay
            {
                // Whoever empties it rings; what comes meanwhile waits outside.
                self.ports[blocking].port.want_room();
                if self.blocked_by(target).is_some() {
                    continue;
                }
            }
            let held_back = self.closing && !node.relay
                || node
                    .consumer
                    .is_some_and(|index| self.instances[index].polls_for_itself() || self.is_held_up(index));
            let wake = node.port.wake();
            // Of a port that only sends, or whose taker does not run, what is on its way out counts, and what comes in
            // does not.
            let receives = node.target.is_some() && !held_back;
            let sends = !node.relay && node.port.in_flight() > 0;
            if let Some(at) = wake.at.filter(|_| receives || sends) {
                wake_at = wake_at.min(if node.relay { at } else { at.max(rest_until) });
            }
            if let Some(fd) = wake.readable.filter(|_| receives) {
                if resting {
                    wake_at = wake_at.min(rest_until);
                } else {
                    waiting.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
                }
            }
        }
        let Nanos(span) = wake_at.since(now);
        if span > 0 {
            let timeout = Timespec {
                tv_sec: i64::try_from(span / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: (span % 1_000_000_000) as _,
            };
            // A signal only wakes the worker early.
            let _ = poll(&mut waiting, Some(&timeout));
        }
        drop(waiting);
        bell.awake();
        let before = self.now.cycles;
        self.now = self.clock.moment();
        let asleep = self.now.cycles.since(before);
        self.time.asleep += asleep;
        self.mark = Mark::now();
        let cost = self.clock.cycles(self.mark.had_since(before_sleep));
        self.rest.slept(asleep, cost, self.now.cycles);
        // Ports that were idle for long may be what woke it.
        self.next_cold = Cycles(0);
    }
}
