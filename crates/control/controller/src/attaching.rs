//! Guests that never attach: one runs, and its ports stay down, because what it was to do at its sockets it
//! does not.
//!
//! 1. A thread beside all others looks at the guests that run and have not attached yet; where there are
//!    none, at nothing but the keeper's list.
//! 2. A guest has attached when there is something at each of its function's sockets: a process by the
//!    library, a memif peer, a front end whose guest has started the device. Where others stand by it, when
//!    there are as many at each socket as run. From then on its `heartbeat` or its `probe` tell how it is.
//! 3. One that has not within its function's `attach_within` is ended, and started again as after each
//!    death. Which of those that stand by each other it is the launcher finds out: not one that has a process
//!    at each of the sockets.
//! 4. Until one of its guests has attached, a function is starting ([`Attaching::has_attached_once`]).
//!
//! Limits: what attaches for less than [`OFTEN`] is not seen.

use super::controller::lock;
use deployment::{Host, Processes};
use launcher::keeper::{Keeper, first_of};
use port::PortStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use wiring::container_port;

/// From one look to the next, at least and at most.
const OFTEN: Duration = Duration::from_millis(250);
const SELDOM: Duration = Duration::from_secs(1);
/// Looks within the time that a guest has.
const LOOKS: u32 = 4;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Attaching {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Those that run, by the launcher's names.
    guests: BTreeMap<String, Guest>,
    /// Functions of which one that runs has attached, or one that was there with one that runs.
    at_work: BTreeSet<String>,
}

/// A guest that runs.
#[derive(Debug)]
struct Guest {
    /// Its first process.
    pid: u32,
    /// Since when it has been seen to run without having attached, or was said to be late.
    since: Instant,
    attached: bool,
}

/// One that has not attached in time.
#[derive(Debug, PartialEq, Eq)]
struct Late {
    guest: String,
    pid: u32,
    after: Duration,
}

impl Attaching {
    /// Looks once, and has those ended that are late. Returns when to look again.
    pub fn look(&self, host: &Host, keeper: &Keeper, processes: &Processes) -> Duration {
        let mut pause = SELDOM;
        // It is not held while ports are read: each question for a function's state takes it, too.
        let waiting = lock(&self.seen).run(keeper.processes(), Instant::now());
        for function in waiting {
            let Some(container) = host.container(&function) else { continue };
            let Some(within) = container.attach_within.map(Duration::from) else {
                lock(&self.seen).has_attached(&function);
                continue;
            };
            pause = pause.min(within / LOOKS).max(OFTEN);
            let sockets: Vec<_> = container.interfaces.iter().filter(|it| it.kind.is_socket()).collect();
            let attached = sockets.iter().map(|socket| {
                let port = host.account_of_port(&container_port(&function, &socket.name))?;
                Some(attached_at(&port.details, &port.status))
            });
            // Ports that are just being changed are looked at the next time.
            let counts: Option<Vec<u64>> = attached.collect();
            let Some(least) = counts.and_then(|counts| counts.into_iter().min()) else { continue };
            let late = lock(&self.seen).see(&function, least, within, Instant::now());
            for late in late {
                let there = sockets.iter().map(|socket| processes.attached_at(&socket.outer)).collect();
                keeper.unattached(&late.guest, late.pid, there, late.after);
            }
        }
        pause
    }

    /// Whether a function's guests, which have these first processes, have come to their work: what closes
    /// its sockets after that is at work all the same.
    pub(super) fn has_attached_once(&self, function: &str, processes: &[u32]) -> bool {
        lock(&self.seen).has_attached_once(function, processes)
    }
}

impl Seen {
    fn has_attached_once(&self, function: &str, processes: &[u32]) -> bool {
        let mut own = self.guests.iter().filter(|(name, _)| first_of(name) == function);
        self.at_work.contains(function) && own.any(|(_, guest)| processes.contains(&guest.pid))
    }

    /// Takes which guests run, with their first processes; the functions of those that have not attached.
    fn run(&mut self, running: BTreeMap<String, u32>, now: Instant) -> BTreeSet<String> {
        self.guests.retain(|name, guest| running.get(name) == Some(&guest.pid));
        let guests = &self.guests;
        self.at_work.retain(|function| guests.keys().any(|name| first_of(name) == function));
        for (name, pid) in running {
            self.guests.entry(name).or_insert(Guest { pid, since: now, attached: false });
        }
        let waiting = self.guests.iter().filter(|(_, guest)| !guest.attached);
        waiting.map(|(name, _)| first_of(name).to_owned()).collect()
    }

    /// Takes how many have attached at that of a function's sockets at which there are the fewest; which of
    /// its guests are late.
    fn see(&mut self, function: &str, attached: u64, within: Duration, now: Instant) -> Vec<Late> {
        let own = |name: &str| first_of(name) == function;
        if attached > 0 && !self.at_work.contains(function) {
            self.at_work.insert(function.to_owned());
        }
        if attached >= self.guests.keys().filter(|name| own(name)).count() as u64 {
            self.has_attached(function);
            return Vec::new();
        }
        let mut late = Vec::new();
        for (name, guest) in self.guests.iter_mut().filter(|(name, guest)| own(name) && !guest.attached) {
            let after = now.saturating_duration_since(guest.since);
            if after >= within {
                // What is asked for may get lost, and one that others stand by may be another one.
                guest.since = now;
                late.push(Late { guest: name.clone(), pid: guest.pid, after });
            }
        }
        late
    }

    fn has_attached(&mut self, function: &str) {
        self.at_work.insert(function.to_owned());
        let own = self.guests.iter_mut().filter(|(name, _)| first_of(name) == function);
        own.for_each(|(_, guest)| guest.attached = true);
    }
}

/// How many processes or peers there are at a port. One that hangs is there as well: that is its heartbeat's.
pub(super) fn attached_at(details: &[(&str, u64)], status: &PortStatus) -> u64 {
    let detail = |name: &str| details.iter().find(|(it, _)| *it == name).map(|(_, count)| *count);
    match detail("processes_attached") {
        Some(one) => one + detail("processes_standby").unwrap_or(0),
        None => u64::from(*status == PortStatus::Up),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(10);

    fn running(guests: &[(&str, u32)]) -> BTreeMap<String, u32> {
        guests.iter().map(|(name, pid)| ((*name).to_owned(), *pid)).collect()
    }

    fn names(late: &[Late]) -> Vec<(&str, u64)> {
        late.iter().map(|late| (late.guest.as_str(), late.after.as_secs())).collect()
    }

    #[test]
    fn one_that_does_not_attach_is_late_once_in_its_time_and_one_that_has_never_is() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut all = Seen::default();
        let both = || running(&[("a", 7), ("b", 8)]);
        assert_eq!(all.run(both(), begin).len(), 2);
        assert_eq!(all.see("a", 0, WITHIN, at(9)), []);
        assert_eq!(names(&all.see("a", 0, WITHIN, at(10))), [("a", 10)]);
        assert_eq!(all.see("a", 0, WITHIN, at(19)), []);
        assert_eq!(names(&all.see("a", 0, WITHIN, at(20))), [("a", 10)], "it is said again");
        // Its next process has as long.
        assert_eq!(all.run(running(&[("a", 9), ("b", 8)]), at(21)).len(), 2);
        assert_eq!(all.see("a", 0, WITHIN, at(30)), []);
        assert_eq!(all.see("b", 1, WITHIN, at(30)), []);
        assert_eq!(all.run(running(&[("a", 9), ("b", 8)]), at(31)), BTreeSet::from(["a".to_owned()]));
        // What has attached may close its sockets.
        assert_eq!(all.see("b", 0, WITHIN, at(99)), []);
        assert_eq!(all.see("a", 1, WITHIN, at(99)), []);
        assert!(all.run(running(&[("a", 9), ("b", 8)]), at(99)).is_empty());
    }

    #[test]
    fn a_function_is_at_work_from_when_one_of_its_guests_has_attached() {
        let begin = Instant::now();
        let mut all = Seen::default();
        all.run(running(&[("a", 7), ("a.1", 8), ("ab", 9)]), begin);
        assert!(!all.has_attached_once("a", &[7, 8]));
        all.see("a", 1, WITHIN, begin);
        assert!(all.has_attached_once("a", &[7, 8]), "one is enough");
        all.see("a", 0, WITHIN, begin);
        assert!(all.has_attached_once("a", &[7, 8]), "what has attached may close its sockets");
        assert!(!all.has_attached_once("a", &[10]), "that one has not been seen");
        assert!(!all.has_attached_once("ab", &[9]));
        all.run(running(&[("a", 10), ("a.1", 8), ("ab", 9)]), begin);
        assert!(all.has_attached_once("a", &[10, 8]), "one that was there with it goes on");
        all.run(running(&[("a", 11), ("a.1", 12), ("ab", 9)]), begin);
        assert!(!all.has_attached_once("a", &[11, 12]), "none is left");
    }

    #[test]
    fn of_those_that_stand_by_each_other_as_many_attach_as_run() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut all = Seen::default();
        all.run(running(&[("a", 7), ("a.1", 8), ("ab", 9)]), begin);
        // Which one of them it is shows by no count.
        assert_eq!(names(&all.see("a", 1, WITHIN, at(10))), [("a", 10), ("a.1", 10)]);
        all.run(running(&[("a", 7), ("ab", 9)]), at(11));
        assert_eq!(all.see("a", 1, WITHIN, at(30)), [], "one runs, and one has attached");
        all.run(running(&[("a", 7), ("a.1", 10), ("ab", 9)]), at(31));
        assert_eq!(names(&all.see("a", 1, WITHIN, at(41))), [("a.1", 10)], "the first one has attached");
    }

    #[test]
    fn a_process_that_hangs_and_one_that_stands_by_have_attached() {
        let down = PortStatus::Down("it hangs".to_owned());
        assert_eq!(attached_at(&[("processes_attached", 1), ("processes_standby", 2)], &down), 3);
        assert_eq!(attached_at(&[("processes_attached", 0), ("processes_standby", 0)], &down), 0);
        let peers = [("peers", 4)];
        assert_eq!((attached_at(&peers, &PortStatus::Up), attached_at(&peers, &down)), (1, 0));
    }
}
