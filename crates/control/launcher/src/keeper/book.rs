//! What is wanted, what the launcher says there is, and what has to be done about the difference.

use super::pace::Paces;
use super::succession::{Group, Member};
use super::{Condition, GRACE, Happened, Phase, Queues, Wanted, Why, first_of, number_of, stands_by};
use crate::request::{
    Ended, Failure, Guest, InterfaceKind, Kill, Limit, Limits, Listed, Request, Start, State, Stop,
};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// See the module's documentation.
pub(super) struct Book {
    /// The keeper's name, with which its marks begin.
    keeper: String,
    wanted: BTreeMap<String, Entry>,
    /// What there is, as it was last said; `None`: it is not known.
    listed: Option<(u64, BTreeMap<String, Guest>)>,
    /// Why it is not known.
    trouble: Option<String>,
    paces: Paces,
    /// Those that are to be killed, one for each name that is wanted: of several that stand by each other the
    /// next one has its turn when it is said again.
    failed: BTreeMap<String, Kill>,
}

/// One that is wanted.
struct Entry {
    wanted: Wanted,
    mark: String,
    /// Limits that it has, as far as this keeper has asked for them.
    limits: Option<Limits>,
    /// When it runs: since when.
    since: Option<Instant>,
    /// Its interfaces are there.
    attached: bool,
    /// Its memory is close to the limit, which was told.
    is_tight: bool,
    /// Processes of it that were ended for want of memory, as far as that was told.
    killed_for_memory: u64,
    /// It ran before, so that it runs again when it runs.
    ran: bool,
    /// When it may be started.
    due: Instant,
    /// How often it ended in a row.
    failures: u32,
    /// It is to be ended, and started at once.
    anew: bool,
    /// Why it does not run.
    reason: Option<Why>,
    /// When it came to run, was last asked for, or ended.
    changed: Instant,
    faults: u64,
    restarts: u64,
}

/// Percent of its limit from which on a container's memory is told to be close to it, and below which it is
/// not any more.
const TIGHT: u128 = 90;
const ROOM_AGAIN: u128 = 80;

/// A request for one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) name: String,
    pub(super) tenant: String,
    pub(super) request: Request,
}

/// Tells a container from another one that has its name later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) tenant: String,
    pub(super) mark: String,
}

impl Entry {
    fn new(wanted: Wanted, mark: String, now: Instant) -> Entry {
        Entry {
            wanted,
            mark,
            limits: None,
            since: None,
            attached: false,
            is_tight: false,
            killed_for_memory: 0,
            ran: false,
            due: now,
            failures: 0,
            anew: false,
            reason: None,
            changed: now,
            faults: 0,
            restarts: 0,
        }
    }

    /// What is to be told of its memory: that it comes close to the limit, once, until there is room again,
    /// and that processes of it were ended for want of more.
    fn look_at_memory(&mut self, guest: &Guest) -> Option<Happened> {
        let limit = self.wanted.start.limits.memory;
        let (found, killed) = (guest.memory.unwrap_or(0), guest.killed_for_memory);
        let percent = u128::from(found) * 100 / u128::from(limit.max(1));
        let before = std::mem::replace(&mut self.killed_for_memory, killed);
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        if killed > before {
            let text = format!(
                "the kernel ended {} of its processes: they needed more memory than its limit of {} MiB",
                killed - before,
                mib(limit)
            );
            return Some(Happened::Noticed(Why::own(text)));
        }
        if self.is_tight {
            self.is_tight = percent >= ROOM_AGAIN;
        } else if percent >= TIGHT {
            self.is_tight = true;
            let text = format!("its memory is close to its limit: {} of {} MiB", mib(found), mib(limit));
            return Some(Happened::Noticed(Why::own(text)));
        }
        None
    }

    /// It has ended, or was refused: when it is tried again. One that never came to its work has not run for
    /// long.
    fn failed(&mut self, reason: Why, has_worked: bool, now: Instant) -> Duration {
        let Wanted { first_delay, longest_delay, .. } = self.wanted;
        let long =
            self.since.take().is_some_and(|since| now.saturating_duration_since(since) >= longest_delay);
        if long && has_worked {
            self.failures = 0;
        }
        let times = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let delay = first_delay.saturating_mul(times).min(longest_delay);
        self.failures = self.failures.saturating_add(1);
        self.faults += 1;
        self.reason = Some(reason);
        (self.due, self.changed) = (now + delay, now);
        delay
    }
}

impl Book {
    pub(super) fn new(keeper: &str) -> Book {
        Book {
            keeper: keeper.to_owned(),
            wanted: BTreeMap::new(),
            listed: None,
            trouble: None,
            paces: Paces::default(),
            failed: BTreeMap::new(),
        }
    }

    pub(super) fn want(&mut self, wanted: BTreeMap<String, Wanted>, now: Instant) {
        let mut before = std::mem::take(&mut self.wanted);
        for (name, mut wanted) in wanted {
            let mark = mark(&self.keeper, &wanted.start);
            wanted.start.mark = Some(mark.clone());
            let entry = match before.remove(&name).filter(|entry| entry.mark == mark) {
                Some(entry) => Entry { wanted, ..entry },
                None => Entry::new(wanted, mark, now),
            };
            self.wanted.insert(name, entry);
        }
        self.failed.retain(|name, _| self.wanted.contains_key(name));
    }

    /// One with this process is to be killed; whether it is wanted at all.
    pub(super) fn fail(&mut self, name: &str, pid: u32, failure: Failure) -> bool {
        self.kill(name, Kill { name: name.to_owned(), pid, unless: Vec::new(), failure })
    }

    /// The launcher is to be asked for this because of one that is wanted; whether it is.
    pub(super) fn kill(&mut self, name: &str, kill: Kill) -> bool {
        let known = self.wanted.contains_key(name);
        if known {
            self.failed.insert(name.to_owned(), kill);
        }
        known
    }

    /// It is to be ended and started; whether it is wanted at all.
    pub(super) fn restart(&mut self, name: &str, now: Instant) -> bool {
        let mut any = false;
        for (_, entry) in self.wanted.iter_mut().filter(|(it, _)| first_of(it) == name) {
            (entry.anew, entry.failures, entry.due, entry.changed) = (true, 0, now, now);
            any = true;
        }
        any
    }

    /// Whose one is, and as what; of one that is not wanted nothing.
    pub(super) fn owner(&self, name: &str) -> Owner {
        let owner =
            |entry: &Entry| Owner { tenant: entry.wanted.start.tenant.clone(), mark: entry.mark.clone() };
        self.wanted.get(name).map(owner).unwrap_or_default()
    }

    /// Whether it is to have TAP devices.
    pub(super) fn has_taps(&self, name: &str) -> bool {
        let interfaces = self.wanted.get(name).map(|entry| &entry.wanted.start.interfaces);
        interfaces.is_some_and(|all| all.iter().any(|it| it.kind == InterfaceKind::Tap))
    }

    /// Whether the launcher has something to be asked for.
    pub(super) fn needs_launcher(&self) -> bool {
        !self.wanted.is_empty() || self.has_some_left()
    }

    /// Whether the launcher has a container of this keeper.
    pub(super) fn has_some_left(&self) -> bool {
        self.listed.as_ref().is_some_and(|(_, guests)| guests.values().any(|guest| self.is_own(guest)))
    }

    fn is_own(&self, guest: &Guest) -> bool {
        is_of(guest, &self.keeper)
    }

    /// What there is has to be said again.
    pub(super) fn forget(&mut self) {
        self.listed = None;
    }

    /// The launcher is gone; what is to be told of it, unless it was the last time as well.
    pub(super) fn lost(&mut self, trouble: &str) -> Vec<(String, Happened)> {
        self.listed = None;
        if self.trouble.replace(trouble.to_owned()).as_deref() == Some(trouble) {
            return Vec::new();
        }
        let told = |name: &String| (name.clone(), Happened::Noticed(Why::launcher(trouble)));
        self.wanted.keys().map(told).collect()
    }

    /// Takes what the launcher says, unless something newer is known; what has happened since.
    pub(super) fn take(&mut self, listed: Listed, now: Instant) -> Vec<(String, Happened)> {
        let Listed { version, guests } = listed;
        if self.listed.as_ref().is_some_and(|(known, _)| *known > version) {
            return Vec::new();
        }
        self.trouble = None;
        let guests: BTreeMap<String, Guest> =
            guests.into_iter().map(|guest| (guest.name.clone(), guest)).collect();
        let mut happened = Vec::new();
        for (name, entry) in &mut self.wanted {
            let guest = guests.get(name).filter(|guest| guest.mark.as_ref() == Some(&entry.mark));
            let state = guest.map(|guest| &guest.state);
            let attached = matches!(state, Some(State::Running { .. } | State::Attached));
            if attached && !entry.attached && !entry.wanted.start.interfaces.is_empty() {
                happened.push((name.clone(), Happened::Attached(Queues::default())));
            }
            entry.attached = attached;
            if let Some(guest) = guest.filter(|guest| matches!(guest.state, State::Running { .. })) {
                happened.extend(entry.look_at_memory(guest).map(|told| (name.clone(), told)));
            }
            match (state, entry.since) {
                (Some(State::Running { .. }), None) => {
                    (entry.since, entry.changed) = (Some(now), now);
                    entry.reason = None;
                    if std::mem::replace(&mut entry.ran, true) {
                        entry.restarts += 1;
                        happened.push((name.clone(), Happened::Restarted));
                    }
                }
                (Some(State::Running { .. } | State::Starting | State::Attached), _) | (_, None) => {}
                // That was asked for.
                (_, Some(_)) if entry.anew => entry.since = None,
                (state, Some(_)) => {
                    let (reason, has_worked) = match state {
                        Some(State::Ended(ended @ Ended::Failed(Failure::Unattached(_)))) => {
                            (in_words(*ended), false)
                        }
                        Some(State::Ended(ended)) => (in_words(*ended), true),
                        _ => ("it is gone: the launcher ended it".to_owned(), true),
                    };
                    let reason = Why::own(reason);
                    let again = entry.failed(reason.clone(), has_worked, now);
                    happened.push((name.clone(), Happened::Ended { reason, again, log: Vec::new() }));
                }
            }
        }
        self.listed = Some((version, guests));
        happened
    }

    /// Something to be done now, of a tenant that is not busy.
    pub(super) fn due(&mut self, now: Instant, busy: &[String]) -> Option<Action> {
        let (_, guests) = self.listed.as_ref()?;
        let free = |tenant: &String| !busy.contains(tenant);
        let own = guests.values().filter(|guest| self.is_own(guest) && free(&guest.tenant));
        for guest in own.filter(|guest| !matches!(guest.state, State::Starting | State::Attached)) {
            let entry = self.wanted.get(&guest.name);
            let fits = entry.is_some_and(|entry| guest.mark.as_ref() == Some(&entry.mark) && !entry.anew);
            if !fits {
                let grace_ms = u32::try_from(GRACE.as_millis()).unwrap_or(u32::MAX);
                let request = Request::Stop(Stop { name: guest.name.clone(), grace_ms });
                return Some(Action { name: guest.name.clone(), tenant: guest.tenant.clone(), request });
            }
        }
        let tenant_of = |name: &str| self.wanted.get(name).map(|entry| entry.wanted.start.tenant.clone());
        let due = self.failed.keys().find_map(|name| Some((name.clone(), tenant_of(name).filter(free)?)));
        if let Some((name, tenant)) = due
            && let Some(kill) = self.failed.remove(&name)
        {
            return Some(Action { name, tenant, request: Request::Kill(kill) });
        }
        // What has waited longest comes first: those that end again and again leave others their turns.
        let mut first: Option<(Instant, String, Request)> = None;
        for (name, entry) in &mut self.wanted {
            let Wanted { start, .. } = &entry.wanted;
            let is_later = first.as_ref().is_some_and(|(due, ..)| *due <= entry.due);
            if is_later || !free(&start.tenant) || self.paces.waits_until(&start.tenant, now).is_some() {
                continue;
            }
            let request = match guests.get(name) {
                Some(guest) if guest.mark.as_ref() == Some(&entry.mark) => match guest.state {
                    State::Running { .. } if entry.limits != Some(start.limits) => {
                        Request::Limit(Limit { name: name.clone(), limits: start.limits })
                    }
                    State::Ended(_) if now >= entry.due => Request::Start(Box::new(start.clone())),
                    _ => continue,
                },
                // One of this keeper is ended first, above; another's stays.
                Some(_) => {
                    entry.reason = Some(Why::own(TAKEN));
                    continue;
                }
                None if now >= entry.due => Request::Start(Box::new(start.clone())),
                None => continue,
            };
            first = Some((entry.due, name.clone(), request));
        }
        let (_, name, request) = first?;
        let entry = self.wanted.get_mut(&name)?;
        if !guests.contains_key(&name) {
            entry.anew = false;
        }
        if matches!(request, Request::Start(_)) {
            entry.changed = now;
        }
        let tenant = entry.wanted.start.tenant.clone();
        self.paces.spend(&tenant, now);
        Some(Action { name, tenant, request })
    }

    /// How long nothing is to be done, if nothing changes; `None`: for ever.
    pub(super) fn next(&self, now: Instant) -> Option<Duration> {
        self.listed.as_ref()?;
        let due = |entry: &Entry| {
            let own = Some(entry.due).filter(|due| entry.since.is_none() && *due > now);
            own.max(self.paces.waits_until(&entry.wanted.start.tenant, now))
        };
        self.wanted.values().filter_map(due).map(|due| due - now).min()
    }

    /// A request was carried out.
    pub(super) fn done(&mut self, action: &Action) {
        let Some(entry) = self.wanted.get_mut(&action.name) else { return };
        match &action.request {
            Request::Start(start) => entry.limits = Some(start.limits),
            Request::Limit(limit) => entry.limits = Some(limit.limits),
            Request::Stop(_)
            | Request::Kill(_)
            | Request::List(_)
            | Request::Share(_)
            | Request::Queues(_)
            | Request::Check(_) => {}
        }
    }

    /// A request was refused; what is to be told of it, unless it was the last time as well.
    pub(super) fn refused(
        &mut self,
        action: &Action,
        reason: Why,
        now: Instant,
    ) -> Option<(String, Happened)> {
        let entry = self.wanted.get_mut(&action.name)?;
        match &action.request {
            Request::Start(_) => {
                let told = entry.reason.as_ref() == Some(&reason);
                let again = entry.failed(reason.clone(), true, now);
                let happened = Happened::Ended { reason, again, log: Vec::new() };
                (!told).then(|| (action.name.clone(), happened))
            }
            // It is asked for once: the launcher says the same again.
            Request::Limit(limit) => {
                entry.limits = Some(limit.limits);
                let notice = reason.behind("its limits stay as they are: ");
                Some((action.name.clone(), Happened::Noticed(notice)))
            }
            // One that is to be killed may have ended by itself.
            Request::Stop(_)
            | Request::Kill(_)
            | Request::List(_)
            | Request::Share(_)
            | Request::Queues(_)
            | Request::Check(_) => None,
        }
    }

    /// A request found no launcher.
    pub(super) fn put_off(&mut self, action: &Action, trouble: &str, until: Instant) {
        if matches!(action.request, Request::Kill(_)) {
            return;
        }
        if let Some(entry) = self.wanted.get_mut(&action.name) {
            entry.due = entry.due.max(until);
            entry.reason = Some(Why::launcher(trouble));
        }
    }

    /// Those that are wanted and run.
    pub(super) fn running(&self) -> Vec<String> {
        self.runs().map(|(name, _)| name.clone()).collect()
    }

    /// The same with their first processes.
    pub(super) fn processes(&self) -> BTreeMap<String, u32> {
        self.runs().map(|(name, pid)| (name.clone(), pid)).collect()
    }

    /// Those of functions that have others stand by each other, and of those that are `known`, as far as they
    /// have interfaces of the kernel's; `None`: it is not known what runs.
    pub(super) fn groups(&self, known: &dyn Fn(&str) -> bool) -> Option<BTreeMap<String, Group>> {
        let (_, guests) = self.listed.as_ref()?;
        let mut groups = BTreeMap::<String, Group>::new();
        let has_links =
            |entry: &Entry| entry.wanted.start.interfaces.iter().any(|it| it.kind != InterfaceKind::Socket);
        for (name, entry) in self.wanted.iter().filter(|(_, entry)| has_links(entry)) {
            let (first, number) = (first_of(name), number_of(name));
            let is_one_of_some = number > 0 || self.wanted.contains_key(&stands_by(first, 1));
            if !is_one_of_some && !known(first) {
                continue;
            }
            let group = groups.entry(first.to_owned()).or_default();
            group.has_others |= is_one_of_some;
            let guest = guests.get(name).filter(|guest| guest.mark.as_ref() == Some(&entry.mark));
            if let Some(Guest { state: State::Running { pid }, began, ready, .. }) = guest {
                group.running.push(Member { number, pid: *pid, began: *began, ready: *ready });
            }
        }
        Some(groups)
    }

    fn runs(&self) -> impl Iterator<Item = (&String, u32)> {
        let guests = self.listed.iter().map(|(_, guests)| guests);
        let own = guests
            .flat_map(move |guests| self.wanted.keys().filter_map(move |name| guests.get_key_value(name)));
        own.filter(move |(_, guest)| self.is_own(guest)).filter_map(|(name, guest)| match guest.state {
            State::Running { pid } => Some((name, pid)),
            _ => None,
        })
    }

    /// How one is, with those that stand by it: it runs while one of them does.
    pub(super) fn condition(&self, name: &str) -> Option<Condition> {
        let all = self.wanted.keys().filter(|it| first_of(it) == name);
        all.filter_map(|it| self.condition_of_one(it)).reduce(|sum, one| {
            let runs_instead = one.phase == Phase::Runs && sum.phase != Phase::Runs;
            let (phase, since) = if runs_instead { (one.phase, one.since) } else { (sum.phase, sum.since) };
            Condition {
                phase,
                since,
                processes: [sum.processes, one.processes].concat(),
                memory: sum.memory + one.memory,
                cpu_us: sum.cpu_us + one.cpu_us,
                faults: sum.faults + one.faults,
                restarts: sum.restarts + one.restarts,
            }
        })
    }

    fn condition_of_one(&self, name: &str) -> Option<Condition> {
        let entry = self.wanted.get(name)?;
        let guest = self.listed.as_ref().and_then(|(_, guests)| guests.get(name));
        let guest = guest.filter(|guest| guest.mark.as_ref() == Some(&entry.mark));
        let (mut since, mut processes) = (Some(entry.changed), Vec::new());
        let phase = match guest.map(|guest| &guest.state) {
            Some(State::Running { pid }) => {
                processes.push(*pid);
                Phase::Runs
            }
            _ if self.listed.is_none() => {
                since = None;
                match &self.trouble {
                    Some(trouble) => Phase::Down(Why::launcher(trouble)),
                    None => Phase::Starting(Why::own("the launcher has not answered yet")),
                }
            }
            Some(State::Starting | State::Attached) => Phase::Starting(match &entry.reason {
                Some(before) => before.clone().behind("it is being started; before, "),
                None => Why::own("it is being started"),
            }),
            _ => match &entry.reason {
                Some(reason) => Phase::Down(reason.clone()),
                None => Phase::Starting(Why::own("it waits to be started")),
            },
        };
        Some(Condition {
            phase,
            since,
            processes,
            memory: guest.and_then(|guest| guest.memory).unwrap_or(0),
            cpu_us: guest.and_then(|guest| guest.cpu_us).unwrap_or(0),
            faults: entry.faults,
            restarts: entry.restarts,
        })
    }
}

/// Why a container is not started whose name another client's has.
pub const TAKEN: &str = "the launcher has a container of this name that another client has started; allowed: to stop that one, or \
     another name";

/// Whether a keeper has started it.
pub(crate) fn is_of(guest: &Guest, keeper: &str) -> bool {
    guest.mark.as_deref().and_then(keeper_of) == Some(keeper)
}

/// The keeper that a mark begins with.
pub(crate) fn keeper_of(mark: &str) -> Option<&str> {
    mark.rsplit_once(' ').map(|(keeper, _)| keeper)
}

/// The mark of a container: its keeper, and what it was started as, without what can be changed while it
/// runs.
fn mark(keeper: &str, start: &Start) -> String {
    let limits = Limits { files: start.limits.files, ..Limits::least() };
    let bare = Start { mark: None, limits, ..start.clone() };
    // A start is plain data: it has a text.
    let text = serde_json::to_vec(&bare).unwrap_or_default();
    // FNV-1a.
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{keeper} {hash:016x}")
}

fn in_words(ended: Ended) -> String {
    match ended {
        Ended::Status(status) => format!("it ended with status {status}"),
        Ended::Signal(signal) => format!("signal {signal} ended it"),
        Ended::Probe => "its probe failed".to_owned(),
        Ended::Failed(failure) => failure.to_string(),
        Ended::Memory => "it needed more memory than its limit, and the kernel ended it".to_owned(),
        Ended::Unknown => "it ended while no launcher ran".to_owned(),
    }
}
