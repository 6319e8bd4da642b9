//! The neighbours of one device: which are asked for, what was answered, and for how long that holds.
//!
//! 1. [`Table::ask`] makes an entry, and is the only thing that does: what comes from the link changes
//!    entries that are there. An ask is a lease of five minutes, in which the entry is kept fresh.
//! 2. [`Table::due`] says which address is to be asked for, at all stations or at the one that had it; the
//!    device sends, and [`Table::advance`] counts the try.
//! 3. [`Table::answered`] ends the asking: the entry is reachable for 15 to 45 s. Then it is stale, and, as
//!    long as its lease goes on, confirmed anew by asking its station (RFC 4861 section 7.3).
//! 4. Three tries without an answer make it unreachable for 20 s, in which nothing is asked. After that it is
//!    forgotten.
//! 5. Another station that claims an address ([`Table::claimed`]) does not get it while the first one
//!    answers: that is asked at once, and only when it is silent are all asked again.
//!
//! Each asker has a [part](crate::parts) of the table, and its turn when something is to be sent.

use crate::parts::{Asker, Parts, Standing};
use crate::settings::Mac;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use telemetry::clock::Nanos;

/// Tries of one kind, before the next kind or giving up (RFC 4861 section 10).
const TRIES: u8 = 3;
/// Between tries (RFC 4861 section 10, RetransTimer).
const RETRY: Nanos = Nanos::from_millis(1_000);
/// How long a station is reachable after it answered, at first, before it is drawn from half to one and a
/// half of it.
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
    /// By which way its last answer came, as [`Device::input_by`](crate::Device::input_by) was told; none
    /// while there is no link-layer address.
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
    /// What asked for it, and when each did last.
    askers: Vec<(Asker, Nanos)>,
}

impl Entry {
    /// How it stands in the part of an asker that asked last at this time.
    fn standing(&self, asked: Nanos) -> Standing {
        Standing { answered: self.mac.is_some(), asked, due: self.due }
    }
}

/// Whether an answer of a neighbour in this state is waited for.
fn is_awaited(state: NeighbourState) -> bool {
    matches!(state, NeighbourState::Asked | NeighbourState::Probe)
}

/// What is to be done for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Whose turn it is.
    pub(crate) asker: Asker,
    /// The entry.
    pub(crate) address: IpAddr,
    /// What is to be sent.
    pub(crate) send: Send,
}

/// What is to be sent for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Send {
    /// A question: at all stations, or at the one given.
    Ask(Option<Mac>),
    /// Nothing.
    Nothing,
}

/// The part of the asker is full of neighbours that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    capacity: usize,
    entries: BTreeMap<IpAddr, Entry>,
    /// Whose they are, and when something is to be done for them.
    parts: Parts,
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
    /// The same: for whose addresses.
    changed_for: BTreeSet<Asker>,
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
            parts: Parts::default(),
            awaited: BTreeSet::new(),
            awaits_others: true,
            reachable: REACHABLE,
            way: 0,
            changed: false,
            changed_for: BTreeSet::new(),
            evicted: 0,
            full: 0,
            claims: 0,
        }
    }

    /// Makes room for no more than this many from now on.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        while self.entries.len() > capacity {
            let Some((asker, address)) = self.parts.largest() else { break };
            self.give_up(asker, address);
        }
    }

    /// Whether something visible changed since this was last called.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The askers whose addresses changed so since this was last called.
    pub(crate) fn take_changed_for(&mut self) -> BTreeSet<Asker> {
        std::mem::take(&mut self.changed_for)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries, by their addresses; of addresses behind one, if one is given.
    pub(crate) fn iter(&self, after: Option<IpAddr>) -> impl Iterator<Item = Neighbour> + '_ {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range((from, Bound::Unbounded)).map(shown)
    }

    /// The entries that one asker asked for, by their addresses.
    pub(crate) fn of(&self, asker: Asker) -> impl Iterator<Item = Neighbour> + '_ {
        let is_its = move |entry: &Entry| entry.askers.iter().any(|(other, _)| *other == asker);
        self.entries.iter().filter(move |(_, entry)| is_its(entry)).map(shown)
    }

    /// Begins or goes on to ask for an address, and says what is known.
    pub(crate) fn ask(
        &mut self,
        asker: Asker,
        address: IpAddr,
        now: Nanos,
    ) -> Result<(NeighbourState, Option<Mac>), Full> {
        if let Some(entry) = self.entries.get(&address) {
            let known = (entry.state, entry.mac);
            let is_new = entry.askers.iter().all(|(other, _)| *other != asker);
            self.update(address, |entry| {
                entry.leased = now.saturating_add(LEASE);
                entry.askers.retain(|(other, _)| *other != asker);
                entry.askers.push((asker, now));
            });
            if is_new {
                self.changed = true;
                self.changed_for.insert(asker);
            }
            if known.0 == NeighbourState::Stale {
                self.enter(address, NeighbourState::Delay, now.saturating_add(DELAY), now);
            }
            return Ok(known);
        }
        self.make_room(asker)?;
        let entry = Entry {
            mac: None,
            way: 0,
            state: NeighbourState::Asked,
            since: now,
            tries: 0,
            due: now,
            leased: now.saturating_add(LEASE),
            challenged: None,
            askers: vec![(asker, now)],
        };
        self.parts.hold(asker, address, entry.standing(now));
        self.entries.insert(address, entry);
        self.await_answer(address, true);
        self.note_change(address);
        Ok((NeighbourState::Asked, None))
    }

    /// Room for one more of an asker.
    fn make_room(&mut self, asker: Asker) -> Result<(), Full> {
        while self.entries.len() >= self.capacity {
            let Some((from, address)) = self.parts.giving(asker) else {
                self.full += 1;
                return Err(Full);
            };
            self.give_up(from, address);
        }
        Ok(())
    }

    /// An asker gives an entry up, which goes with the last that has it.
    fn give_up(&mut self, asker: Asker, address: IpAddr) {
        self.update(address, |entry| entry.askers.retain(|(other, _)| *other != asker));
        self.changed = true;
        self.changed_for.insert(asker);
        if self.entries.get(&address).is_some_and(|entry| entry.askers.is_empty()) {
            self.remove(address);
            self.evicted += 1;
        }
    }

    fn remove(&mut self, address: IpAddr) {
        self.note_change(address);
        self.update(address, |entry| entry.askers.clear());
        self.entries.remove(&address);
        self.await_answer(address, false);
    }

    /// Changes an entry, and with it how it stands in the parts of its askers.
    fn update(&mut self, address: IpAddr, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        for (asker, asked) in &entry.askers {
            self.parts.release(*asker, address, entry.standing(*asked));
        }
        change(entry);
        for (asker, asked) in &entry.askers {
            self.parts.hold(*asker, address, entry.standing(*asked));
        }
    }

    /// An entry is seen to have changed.
    fn note_change(&mut self, address: IpAddr) {
        if let Some(entry) = self.entries.get(&address) {
            self.changed = true;
            self.changed_for.extend(entry.askers.iter().map(|(asker, _)| *asker));
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
        let Some(entry) = self.entries.get(&address) else { return };
        let is_lost =
            matches!(state, NeighbourState::Asked | NeighbourState::Unreachable) && entry.mac.is_some();
        self.update(address, |entry| {
            if is_lost {
                entry.mac = None;
                entry.since = now;
            }
            entry.state = state;
            entry.due = due;
            entry.tries = 0;
        });
        // Functions see an address that does not answer; that it is asked for again they do not.
        if is_lost || state == NeighbourState::Unreachable {
            self.note_change(address);
        }
        self.await_answer(address, is_awaited(state));
    }

    /// When something is to be done for what the device itself asks for, and for what others do.
    pub(crate) fn deadlines(&self) -> (Option<Nanos>, Option<Nanos>) {
        self.parts.deadlines()
    }

    /// The first thing that is to be done by now for the asker whose turn it is.
    pub(crate) fn due(&self, now: Nanos) -> Option<Due> {
        let (asker, address) = self.parts.due(now)?;
        let entry = self.entries.get(&address)?;
        let asks = is_awaited(entry.state) && entry.tries < TRIES;
        let send = if asks { Send::Ask(entry.mac) } else { Send::Nothing };
        Some(Due { asker, address, send })
    }

    /// A question for an entry cannot be sent; it is tried again in a while.
    pub(crate) fn postpone(&mut self, address: IpAddr, now: Nanos) {
        self.update(address, |entry| entry.due = now.saturating_add(RETRY));
    }

    /// A question was sent for an asker, which is its turn.
    pub(crate) fn sent_for(&mut self, asker: Asker) {
        self.parts.had_its_turn(asker);
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

    /// A station answered that it has an address. Without effect for an address that was not asked for; for
    /// one that another station has, a claim.
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

    /// A station said of itself that it has an address, without having been asked. One that is asked for is
    /// known by that, but not yet reachable; one that another station has is claimed.
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
            self.update(address, |entry| {
                entry.mac = Some(mac);
                entry.since = now;
            });
            self.note_change(address);
        }
    }
}

fn shown((address, entry): (&IpAddr, &Entry)) -> Neighbour {
    Neighbour {
        address: *address,
        mac: entry.mac,
        state: entry.state,
        since: entry.since,
        way: entry.mac.map(|_| entry.way),
    }
}
