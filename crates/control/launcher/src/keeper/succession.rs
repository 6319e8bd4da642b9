//! Which of the guests that stand by each other is active, of those that have interfaces of the kernel's. Of
//! those at one socket the port at it decides.
//!
//! 1. Of those that run, the one is active that was started first, of those that have answered their probe if
//!    any has. So the next program that keeps them finds the same one without having been told.
//! 2. It stays active until it is not there any more: its first process has ended, which a thread here learns
//!    from a pidfd before the launcher has cleared away what was left and its list says so; or it is not
//!    wanted any more.
//! 3. Then the next one is, by the same rule. Where none runs it stays as it is.
//!
//! [`Succession`] decides, and knows no thread and no process; [`watch`] has it look.
//!
//! Limits: a launcher in another PID namespace names processes that cannot be found here. Then its list says
//! when one has ended.

use super::Shared;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Weak;

/// After so long it is looked again whatever is told.
const AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// One that runs, of those that stand by each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// 0 of the first one.
    pub(super) number: u8,
    /// Its first process.
    pub(super) pid: u32,
    /// When that was started.
    pub(super) began: Option<u64>,
    /// It has answered its probe, or has none.
    pub(super) ready: bool,
}

/// A process: its number, which may be another one's later, and when it was started.
type Process = (u32, Option<u64>);

impl Member {
    fn process(&self) -> Process {
        (self.pid, self.began)
    }
}

/// A function's guests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    /// Whether others than the first one are wanted.
    pub(super) has_others: bool,
    pub(super) running: Vec<Member>,
}

/// What is so from now on of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active {
    /// The function.
    pub function: String,
    /// The number of the guest that is active, 0 of the first one.
    pub number: u8,
    /// How many others are ready; `None`: none is to stand by any more.
    pub standing_by: Option<u8>,
    /// Another one was active until now.
    pub has_taken_over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    number: u8,
    /// The process that was active; none has been yet.
    pid: Option<u32>,
    standing_by: Option<u8>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Succession {
    seats: BTreeMap<String, Seat>,
    /// Processes that have ended, which the launcher's list still has.
    ended: BTreeSet<Process>,
}

impl Succession {
    /// Whether something has been decided of a function.
    pub(super) fn knows(&self, function: &str) -> bool {
        self.seats.contains_key(function)
    }

    /// A process has ended.
    fn has_ended(&mut self, process: Process) {
        self.ended.insert(process);
    }

    /// Compares what there is with what was decided; what is new.
    fn look(&mut self, groups: &BTreeMap<String, Group>) -> Vec<Active> {
        let listed: BTreeSet<Process> = processes(groups).collect();
        self.ended.retain(|process| listed.contains(process));
        self.seats.retain(|function, _| groups.contains_key(function));
        let mut new = Vec::new();
        for (function, group) in groups {
            let alive: Vec<&Member> =
                group.running.iter().filter(|member| !self.ended.contains(&member.process())).collect();
            let before = self.seats.get(function).copied();
            let Some(active) = active(before, &alive) else {
                if let Some(Seat { standing_by: Some(1..), number, .. }) = before {
                    self.say(function, Seat { number, pid: None, standing_by: Some(0) }, &mut new);
                }
                continue;
            };
            let others = alive.iter().filter(|it| it.number != active.number && it.ready).count();
            let standing_by = group.has_others.then(|| u8::try_from(others).unwrap_or(u8::MAX));
            let seat = Seat { number: active.number, pid: Some(active.pid), standing_by };
            self.say(function, seat, &mut new);
            // There is nothing to be decided of it any more.
            if seat.number == 0 && standing_by.is_none() {
                self.seats.remove(function);
            }
        }
        new
    }

    fn say(&mut self, function: &str, seat: Seat, new: &mut Vec<Active>) {
        let before = self.seats.insert(function.to_owned(), seat);
        let same = |before: Seat| (before.number, before.standing_by) == (seat.number, seat.standing_by);
        if before.is_some_and(same) {
            return;
        }
        new.push(Active {
            function: function.to_owned(),
            number: seat.number,
            standing_by: seat.standing_by,
            has_taken_over: before.is_some_and(|before| before.number != seat.number),
        });
    }
}

/// The one that is active: that which was, or the next one. One that was started again in between is not that
/// which was, where others can be.
fn active<'a>(before: Option<Seat>, alive: &[&'a Member]) -> Option<&'a Member> {
    let still = |member: &&&Member| {
        before.is_some_and(|seat| seat.number == member.number && seat.pid == Some(member.pid))
    };
    let order = |member: &&&Member| (!member.ready, member.began.unwrap_or(u64::MAX), member.number);
    alive.iter().find(still).or_else(|| alive.iter().min_by_key(order)).copied()
}

fn processes(groups: &BTreeMap<String, Group>) -> impl Iterator<Item = Process> {
    groups.values().flat_map(|group| &group.running).map(Member::process)
}

/// What has the thread look.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(super) fn ring(&self) {
        // It is full only if it has rung.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn calm(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// Has it looked whenever something has changed, and tells what is new, until the keeper ends.
pub(super) fn watch(shared: &Weak<Shared>, tell: &dyn Fn(Active)) {
    let mut succession = Succession::default();
    let mut held: BTreeMap<Process, OwnedFd> = BTreeMap::new();
    while let Some(shared) = shared.upgrade() {
        let groups = {
            let table = shared.table();
            if table.ends {
                return;
            }
            table.book.groups(&|function| succession.knows(function))
        };
        // What was known stays so while no launcher answers.
        if let Some(groups) = groups {
            succession.look(&groups).into_iter().for_each(tell);
            let alive: BTreeSet<Process> =
                processes(&groups).filter(|process| !succession.ended.contains(process)).collect();
            held.retain(|process, _| alive.contains(process));
            for process in alive {
                if !held.contains_key(&process)
                    && let Some(one) = hold(process.0)
                {
                    held.insert(process, one);
                }
            }
        }
        let all = std::iter::once(&shared.bell.0).chain(held.values());
        let mut all: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        // An interrupted wait is one more look.
        let _ = poll(&mut all, Some(&AGAIN));
        let is_told = |fd: &PollFd<'_>| !fd.revents().is_empty();
        if all.first().is_some_and(is_told) {
            shared.bell.calm();
        }
        let ended = held.keys().zip(&all[1..]).filter(|(_, fd)| is_told(fd));
        let ended: Vec<Process> = ended.map(|(process, _)| *process).collect();
        ended.into_iter().for_each(|process| succession.has_ended(process));
    }
}

fn hold(number: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, processes and when they were started; those from 100 on have not answered their probe.
    fn group(running: &[(u8, u32, u64)]) -> BTreeMap<String, Group> {
        let member = |(number, pid, began): &(u8, u32, u64)| Member {
            number: *number,
            pid: *pid % 100,
            began: Some(*began),
            ready: *pid < 100,
        };
        let running = running.iter().map(member).collect();
        BTreeMap::from([("ids".to_owned(), Group { has_others: true, running })])
    }

    fn told(new: &[Active]) -> Vec<(u8, Option<u8>, bool)> {
        new.iter().map(|new| (new.number, new.standing_by, new.has_taken_over)).collect()
    }

    #[test]
    fn the_next_one_is_active_when_the_active_one_has_ended() {
        let mut all = Succession::default();
        assert_eq!(told(&all.look(&group(&[]))), []);
        assert_eq!(told(&all.look(&group(&[(0, 7, 10)]))), [(0, Some(0), false)]);
        assert_eq!(told(&all.look(&group(&[(0, 7, 10), (1, 8, 11)]))), [(0, Some(1), false)]);
        assert_eq!(told(&all.look(&group(&[(0, 7, 10), (1, 8, 11)]))), []);
        // Before the list says so.
        all.has_ended((7, Some(10)));
        assert_eq!(told(&all.look(&group(&[(0, 7, 10), (1, 8, 11)]))), [(1, Some(0), true)]);
        assert_eq!(told(&all.look(&group(&[(1, 8, 11)]))), []);
        assert_eq!(told(&all.look(&group(&[(0, 9, 20), (1, 8, 11)]))), [(1, Some(1), false)]);
        // The one that stands by may end: nothing but that is told.
        assert_eq!(told(&all.look(&group(&[(1, 8, 11)]))), [(1, Some(0), false)]);
        assert_eq!(told(&all.look(&group(&[(0, 12, 30), (1, 8, 11)]))), [(1, Some(1), false)]);
        // By the list alone.
        assert_eq!(told(&all.look(&group(&[(0, 12, 30)]))), [(0, Some(0), true)]);
        // Both: what comes first is active.
        assert_eq!(told(&all.look(&group(&[]))), []);
        assert_eq!(told(&all.look(&group(&[(1, 14, 40)]))), [(1, Some(0), true)]);
    }

    #[test]
    fn one_that_both_ended_and_came_back_in_between_gives_way() {
        let mut all = Succession::default();
        all.look(&group(&[(0, 7, 10), (1, 8, 11)]));
        assert_eq!(told(&all.look(&group(&[(0, 9, 20), (1, 8, 11)]))), [(1, Some(1), true)]);
        // Of two that have ended, one is still listed.
        all.has_ended((8, Some(11)));
        all.has_ended((9, Some(20)));
        assert_eq!(told(&all.look(&group(&[(0, 9, 20), (1, 8, 11)]))), [(1, Some(0), false)]);
        // The number may be that of another one's process later.
        assert_eq!(told(&all.look(&group(&[(0, 8, 30)]))), [(0, Some(0), true)]);
    }

    #[test]
    fn those_that_are_ready_come_first_and_then_those_that_have_run_for_longest() {
        let mut all = Succession::default();
        assert_eq!(
            told(&all.look(&group(&[(0, 107, 30), (1, 108, 20), (2, 109, 25)]))),
            [(1, Some(0), false)]
        );
        assert_eq!(told(&all.look(&group(&[(0, 7, 30), (1, 108, 20), (2, 9, 25)]))), [(1, Some(2), false)]);
        assert_eq!(told(&all.look(&group(&[(0, 7, 30), (2, 9, 25)]))), [(2, Some(1), true)]);
        assert_eq!(told(&all.look(&group(&[(0, 7, 30), (1, 108, 20)]))), [(0, Some(0), true)]);
        // One that begins anew finds the one that has run for longest, which is the active one.
        let mut anew = Succession::default();
        assert_eq!(told(&anew.look(&group(&[(0, 7, 30), (1, 8, 40)]))), [(0, Some(1), false)]);
        let mut anew = Succession::default();
        assert_eq!(told(&anew.look(&group(&[(0, 7, 30), (1, 8, 20)]))), [(1, Some(1), false)]);
    }

    #[test]
    fn where_none_is_to_stand_by_any_more_the_first_one_is_active() {
        let mut all = Succession::default();
        all.look(&group(&[(0, 7, 10), (1, 8, 11)]));
        all.look(&group(&[(1, 8, 11)]));
        let alone = |running: &[(u8, u32, u64)]| {
            let mut groups = group(running);
            groups.values_mut().for_each(|group| group.has_others = false);
            groups
        };
        // What is not wanted is not among them, although it may run.
        assert_eq!(told(&all.look(&alone(&[]))), []);
        assert!(all.knows("ids"));
        assert_eq!(told(&all.look(&alone(&[(0, 9, 20)]))), [(0, None, true)]);
        assert!(!all.knows("ids"), "there is nothing to be decided");
        all.look(&group(&[(0, 9, 20), (1, 8, 30)]));
        assert!(all.look(&BTreeMap::new()).is_empty() && !all.knows("ids"));
    }

    #[test]
    fn a_process_that_ends_is_noticed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it is there");
        let held = hold(child.id()).expect("it runs");
        let is_told = |most: i64| {
            let most = Timespec { tv_sec: most, tv_nsec: 0 };
            poll(&mut [PollFd::from_borrowed_fd(held.as_fd(), PollFlags::IN)], Some(&most)) == Ok(1)
        };
        assert!(!is_told(0));
        child.kill().expect("it runs");
        assert!(is_told(20));
        child.wait().expect("it ends");
        assert!(hold(child.id()).is_none() && hold(0).is_none() && hold(u32::MAX).is_none());
        let bell = Bell::new().expect("a descriptor");
        bell.ring();
        bell.ring();
        bell.calm();
        bell.calm();
    }
}
