//! The neighbours of one device: which are asked for, what was answered, and for how long that holds.
//!
//! 1. [`Table::ask`] makes an entry, and is the only thing that does: what comes from the link changes entries
//!    that are there. An ask is a lease of five minutes, in which the entry is kept fresh.
//! 2. [`Table::due`] says which address is to be asked for, at all stations or at the one that had it; the
//!    device sends, and [`Table::advance`] counts the try.
//! 3. [`Table::answered`] ends the asking: the entry is reachable for 15 to 45 s. Then it is stale, and, as long as
//!    its lease goes on, confirmed anew by asking its station (RFC 4861 section 7.3).
//! 4. Three tries without an answer make it unreachable for 20 s, in which nothing is asked. After that it is
//!    forgotten.
//! 5. Another station that claims an address ([`Table::claimed`]) does not get it while the first one answers: that
//!    is asked at once, and only when it is silent are all asked again.

use crate::settings::Mac;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use telemetry::clock::Nanos;

/// Tries of one kind, before the next kind or giving up (RFC 4861 section 10).
const TRIES: u8 = 3;
/// Between tries (RFC 4861 section 10, RetransTimer).
const RETRY: Nanos = Nanos::from_millis(1_000);
/// How long a station is reachable after it answered, at first, before it is drawn from half to one and a half of it.
pub(crate) const REACHABLE: Nanos = Nanos::from_millis(30_000);
/// From stale to asking anew.
const DELAY: Nanos = Nanos::from_millis(5_000);
/// How long an address is not asked for that was not answered.
const UNREACHABLE: Nanos = Nanos::from_millis(20_000);
/// How long an entry is kept fresh after it was asked for.
pub const LEASE: Nanos = Nanos::from_millis(300_000);
/// How long an entry is kept after that.
const KEPT: Nanos = Nanos::from_millis(60_000);
/// A station is asked because of another's claims once in this time at most.
const CLAIMS: Nanos = Nanos::from_millis(5_000);

/// What is known about a neighbour (RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// All stations are asked; there is no answer yet ("incomplete").
    Asked,
    /// It answered a short while ago.
    Reachable,
    /// It answered some time ago.
    Stale,
    /// It is about to be asked whether it is still there.
    Delay,
    /// It is asked whether it is still there.
    Probe,
    /// There was no answer. It is not asked for until some time has passed.
    Unreachable,
}

impl NeighbourState {
    /// The name that is shown.
    pub const fn name(self) -> &'static str {
        match self {
            NeighbourState::Asked => "asked",
            NeighbourState::Reachable => "reachable",
            NeighbourState::Stale => "stale",
            NeighbourState::Delay => "delay",
            NeighbourState::Probe => "probe",
            NeighbourState::Unreachable => "unreachable",
        }
    }
}

/// A neighbour, as the table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its link-layer address, unless it is asked for or unreachable.
    pub mac: Option<Mac>,
    /// What is known.
    pub state: NeighbourState,
    /// Since when its link-layer address is what it is, or there is none.
    pub since: Nanos,
    /// By which way its last answer came, as [`Device::input_by`](crate::Device::input_by) was told; none while there
    /// is no link-layer address.
    pub way: Option<u16>,
}

#[derive(Clone, Debug)]
struct Entry {
    mac: Option<Mac>,
    /// By which way its last answer came.
    way: u16,
    state: NeighbourState,
    since: Nanos,
    /// Tries in this state.
    tries: u8,
    /// When something is to be done.
    due: Nanos,
    /// When its lease ends.
    leased: Nanos,
    /// When another station's claim was last looked into.
    challenged: Option<Nanos>,
}

/// Whether an answer of a neighbour in this state is waited for.
fn is_awaited(state: NeighbourState) -> bool {
    matches!(state, NeighbourState::Asked | NeighbourState::Probe)
}

/// What is to be sent for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A question for this address: at all stations, or at the one given.
    Ask(IpAddr, Option<Mac>),
    /// Nothing.
    Step(IpAddr),
}

impl Due {
    /// The entry.
    pub(crate) fn address(self) -> IpAddr {
        match self {
            Due::Ask(address, _) | Due::Step(address) => address,
        }
    }
}

/// The table is full of neighbours that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    capacity: usize,
    entries: BTreeMap<IpAddr, Entry>,
    /// Entries by when something is to be done.
    timers: BTreeSet<(Nanos, IpAddr)>,
    /// Entries without an answer, by their age.
    unanswered: BTreeSet<(Nanos, IpAddr)>,
    /// Entries whose answers are waited for.
    awaited: BTreeSet<IpAddr>,
    /// Whether others are since this was last asked.
    awaits_others: bool,
    /// How long an entry is reachable.
    pub(crate) reachable: Nanos,
    /// By which way the frame came that is looked at.
    pub(crate) way: u16,
    /// Whether an address got another station, or none, or is there or gone.
    changed: bool,
    /// Entries that gave way to others.
    pub(crate) evicted: u64,
    /// Asks that found no room.
    pub(crate) full: u64,
    /// Claims of other stations.
    pub(crate) claims: u64,
}

impl Table {
    pub(crate) fn new(capacity: usize) -> Table {
        Table {
            capacity,
            entries: BTreeMap::new(),
            timers: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            awaited: BTreeSet::new(),
            awaits_others: true,
            reachable: REACHABLE,
            way: 0,
            changed: false,
            evicted: 0,
            full: 0,
            claims: 0,
        }
    }

    /// Makes room for no more than this many from now on.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        while self.entries.len() > capacity {
            let oldest = self.unanswered.first().or(self.timers.first()).map(|(_, address)| *address);
            let Some(oldest) = oldest else { break };
            self.remove(oldest);
            self.evicted += 1;
        }
    }

    /// Whether something visible changed since this was last called.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries, by their addresses; of addresses behind one, if one is given.
    pub(crate) fn iter(&self, after: Option<IpAddr>) -> impl Iterator<Item = Neighbour> + '_ {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range((from, Bound::Unbounded)).map(|(address, entry)| Neighbour {
            address: *address,
            mac: entry.mac,
            state: entry.state,
            since: entry.since,
            way: entry.mac.map(|_| entry.way),
        })
    }

    /// Begins or goes on to ask for an address, and says what is known.
    pub(crate) fn ask(&mut self, address: IpAddr, now: Nanos) -> Result<(NeighbourState, Option<Mac>), Full> {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.leased = now.saturating_add(LEASE);
            let known = (entry.state, entry.mac);
            if entry.state == NeighbourState::Stale {
                self.enter(address, NeighbourState::Delay, now.saturating_add(DELAY), now);
            }
            return Ok(known);
        }
        self.make_room()?;
        let entry = Entry {
            mac: None,
            way: 0,
            state: NeighbourState::Asked,
            since: now,
            tries: 0,
            due: now,
            leased: now.saturating_add(LEASE),
            challenged: None,
        };
        self.timers.insert((now, address));
        self.unanswered.insert((now, address));
        self.entries.insert(address, entry);
        self.await_answer(address, true);
        self.changed = true;
        Ok((NeighbourState::Asked, None))
    }

    /// Room for one more: the oldest that was not answered goes, never one that was.
    fn make_room(&mut self) -> Result<(), Full> {
        if self.entries.len() < self.capacity {
            return Ok(());
        }
        let Some((_, oldest)) = self.unanswered.first().copied() else {
            self.full += 1;
            return Err(Full);
        };
        self.remove(oldest);
        self.evicted += 1;
        Ok(())
    }

    fn remove(&mut self, address: IpAddr) {
        if let Some(entry) = self.entries.remove(&address) {
            self.timers.remove(&(entry.due, address));
            self.unanswered.remove(&(entry.since, address));
            self.await_answer(address, false);
            self.changed = true;
        }
    }

    fn await_answer(&mut self, address: IpAddr, is_awaited: bool) {
        self.awaits_others |= match is_awaited {
            true => self.awaited.insert(address),
            false => self.awaited.remove(&address),
        };
    }

    /// The entries whose answers are waited for, if others are than when this was last asked.
    pub(crate) fn take_awaited(&mut self) -> Option<&BTreeSet<IpAddr>> {
        std::mem::take(&mut self.awaits_others).then_some(&self.awaited)
    }

    /// Forgets the entries that are not among those to keep.
    pub(crate) fn retain(&mut self, keep: impl Fn(IpAddr) -> bool) {
        let gone: Vec<IpAddr> = self.entries.keys().copied().filter(|address| !keep(*address)).collect();
        gone.into_iter().for_each(|address| self.remove(address));
    }

    /// Puts an entry into a state, without tries, until `due`.
    fn enter(&mut self, address: IpAddr, state: NeighbourState, due: Nanos, now: Nanos) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        self.timers.remove(&(entry.due, address));
        self.timers.insert((due, address));
        let unanswered = matches!(state, NeighbourState::Asked | NeighbourState::Unreachable);
        if unanswered && entry.mac.take().is_some() {
            entry.since = now;
            self.changed = true;
        }
        // Functions see an address that does not answer; that it is asked for again they do not.
        self.changed |= state == NeighbourState::Unreachable;
        entry.state = state;
        entry.due = due;
        entry.tries = 0;
        if unanswered {
            self.unanswered.insert((entry.since, address));
        }
        self.await_answer(address, is_awaited(state));
    }

    /// When something is to be done.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// The first thing that is to be done by now.
    pub(crate) fn due(&self, now: Nanos) -> Option<Due> {
        let (due, address) = self.timers.first()?;
        if *due > now {
            return None;
        }
        let entry = self.entries.get(address)?;
        let ask = match entry.state {
            NeighbourState::Asked | NeighbourState::Probe => entry.tries < TRIES,
            _ => false,
        };
        Some(if ask { Due::Ask(*address, entry.mac) } else { Due::Step(*address) })
    }

    /// A question for an entry cannot be sent; it is tried again in a while.
    pub(crate) fn postpone(&mut self, address: IpAddr, now: Nanos) {
        if let Some(entry) = self.entries.get_mut(&address) {
            self.timers.remove(&(entry.due, address));
            entry.due = now.saturating_add(RETRY);
            self.timers.insert((entry.due, address));
        }
    }

    /// What was due has been done.
    pub(crate) fn advance(&mut self, address: IpAddr, now: Nanos) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        let leased = entry.leased > now;
        match entry.state {
            NeighbourState::Asked | NeighbourState::Probe if entry.tries < TRIES => {
                entry.tries += 1;
                self.postpone(address, now);
            }
            NeighbourState::Asked => {
                self.enter(address, NeighbourState::Unreachable, now.saturating_add(UNREACHABLE), now);
            }
            NeighbourState::Probe if leased => self.enter(address, NeighbourState::Asked, now, now),
            NeighbourState::Reachable if leased => {
                self.enter(address, NeighbourState::Delay, now.saturating_add(DELAY), now);
            }
            NeighbourState::Reachable => {
                self.enter(address, NeighbourState::Stale, now.saturating_add(KEPT), now);
            }
            NeighbourState::Delay => self.enter(address, NeighbourState::Probe, now, now),
            NeighbourState::Probe | NeighbourState::Stale | NeighbourState::Unreachable => {
                self.remove(address);
            }
        }
    }

    /// The station of a neighbour that is known.
    pub(crate) fn mac(&self, address: IpAddr) -> Option<Mac> {
        self.entries.get(&address).and_then(|entry| entry.mac)
    }

    /// Whether an answer for this address is waited for.
    pub(crate) fn waits_for(&self, address: IpAddr) -> bool {
        self.awaited.contains(&address)
    }

    /// A station answered that it has an address. Without effect for an address that was not asked for; for one that
    /// another station has, a claim.
    pub(crate) fn answered(&mut self, address: IpAddr, mac: Mac, now: Nanos, rng: &mut fastrand::Rng) {
        match self.entries.get(&address) {
            Some(entry) if entry.mac.is_some_and(|known| known != mac) => self.claimed(address, mac, now),
            Some(_) => {
                self.learn(address, mac, now);
                let half = self.reachable.0 / 2;
                let until = now.saturating_add(Nanos(half + rng.u64(0..=self.reachable.0)));
                self.enter(address, NeighbourState::Reachable, until, now);
            }
            None => {}
        }
    }

    /// A station said of itself that it has an address, without having been asked. One that is asked for is known by
    /// that, but not yet reachable; one that another station has is claimed.
    pub(crate) fn claimed(&mut self, address: IpAddr, mac: Mac, now: Nanos) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        match entry.mac {
            None => {
                self.learn(address, mac, now);
                self.enter(address, NeighbourState::Delay, now.saturating_add(DELAY), now);
            }
            Some(known) if known == mac => {}
            Some(_) => {
                self.claims += 1;
                let lately = entry.challenged.is_some_and(|last| now.since(last) < CLAIMS);
                if !lately && entry.state != NeighbourState::Probe {
                    entry.challenged = Some(now);
                    self.enter(address, NeighbourState::Probe, now, now);
                    // One question is enough of a pause for packets that go to a station that is gone.
                    if let Some(entry) = self.entries.get_mut(&address) {
                        entry.tries = TRIES - 1;
                    }
                }
            }
        }
    }

    fn learn(&mut self, address: IpAddr, mac: Mac, now: Nanos) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        entry.way = self.way;
        if entry.mac != Some(mac) {
            self.unanswered.remove(&(entry.since, address));
            entry.mac = Some(mac);
            entry.since = now;
            self.changed = true;
        }
    }
}
