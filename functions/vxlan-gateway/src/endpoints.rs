//! Where Ethernet addresses were heard: on the VLAN side, or behind which endpoint of the VXLAN network.
//!
//! 1. [`Endpoints::learn`] notes where the source of a frame is. An address that is heard somewhere else has
//!    moved.
//! 2. [`Endpoints::toward`] finds the destination of a frame. An address that the other side sends to is
//!    *answered*: it has a peer that heard of it.
//! 3. What is not heard again is forgotten after the time of ageing.
//!
//! Limits: each network has a table of its own size, so that a flood in one takes nothing from another. A
//! full table gives up the oldest address that was never answered, and none that was; where all were, a new
//! one is not learned, and frames for it go to all. Each address takes some 130 bytes.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::Nanos;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the VLAN side.
    Local,
    /// Behind this endpoint.
    Remote(IpAddr),
}

impl Place {
    /// Whether two places are on one side.
    fn is_beside(self, other: Place) -> bool {
        (self == Place::Local) == (other == Place::Local)
    }
}

/// What came of learning an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// It was known there.
    Known,
    /// It was not known.
    New,
    /// It was not known, and another one was given up for it.
    Displaced,
    /// It was known elsewhere.
    Moved,
    /// There is no room for it.
    Refused,
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub place: Place,
    /// When it was last heard, in seconds since the Unix epoch.
    pub heard: u32,
    /// Whether the other side has sent to it.
    pub is_answered: bool,
    /// Its place among those heard in one second.
    number: u64,
}

/// The order in which addresses of a network are given up: unanswered before answered, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Age {
    network: u16,
    is_answered: bool,
    heard: u32,
    number: u64,
}

/// How many addresses of a network are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub known: usize,
    /// Those that were answered.
    pub answered: usize,
}

/// All tables.
#[derive(Debug)]
pub struct Endpoints {
    known: BTreeMap<(u16, Mac), Endpoint>,
    ages: BTreeMap<Age, Mac>,
    counts: Vec<Count>,
    /// Most addresses of a network.
    most: usize,
    /// In seconds.
    ageing: u32,
    numbers: u64,
    /// The network that is next when old addresses are looked for.
    next: u16,
}

fn seconds(time: Nanos) -> u32 {
    (time.0 / 1_000_000_000) as u32
}

impl Endpoints {
    /// Tables of `networks` networks, each of at most `most` addresses.
    pub fn new(networks: usize, most: usize, ageing: Nanos) -> Endpoints {
        Endpoints {
            known: BTreeMap::new(),
            ages: BTreeMap::new(),
            counts: vec![Count::default(); networks],
            most,
            ageing: seconds(ageing),
            numbers: 0,
            next: 0,
        }
    }

    /// Notes where an address of a network was heard.
    pub fn learn(&mut self, network: u16, address: Mac, place: Place, now: Nanos) -> Learned {
        let now = seconds(now);
        if let Some(known) = self.known.get(&(network, address)).copied()
            && !self.is_old(&known, now)
        {
            let has_moved = known.place != place;
            if has_moved || known.heard != now {
                // Where it is now it has no answer yet.
                let is_answered = known.is_answered && !has_moved;
                self.take(network, address);
                self.put(network, address, place, now, is_answered);
            }
            return if has_moved { Learned::Moved } else { Learned::Known };
        }
        self.take(network, address);
        let count = self.count(network).known;
        let mut learned = Learned::New;
        if count >= self.most {
            let aged = [false, true].into_iter().find_map(|is_answered| {
                self.oldest(network, is_answered).filter(|(age, _)| self.has_aged(age.heard, now))
            });
            if aged.is_none() {
                learned = Learned::Displaced;
            }
            let given_up = aged.or_else(|| self.oldest(network, false));
            let Some((_, given_up)) = given_up else { return Learned::Refused };
            self.take(network, given_up);
        }
        self.put(network, address, place, now, false);
        learned
    }

    /// Where an address is that a frame of the network goes to, which comes from `from`.
    pub fn toward(&mut self, network: u16, address: Mac, from: Place, now: Nanos) -> Option<Place> {
        let known = self.known.get(&(network, address)).copied()?;
        if self.is_old(&known, seconds(now)) {
            return None;
        }
        if !known.is_answered && !known.place.is_beside(from) {
            self.take(network, address);
            self.put(network, address, known.place, known.heard, true);
        }
        Some(known.place)
    }

    /// Forgets addresses that were not heard again, at most so many; how many they were.
    pub fn forget(&mut self, now: Nanos, most: usize) -> usize {
        let now = seconds(now);
        let mut forgotten = 0;
        for _ in 0..self.counts.len() {
            for is_answered in [false, true] {
                while let Some((age, address)) = self.oldest(self.next, is_answered)
                    && self.has_aged(age.heard, now)
                {
                    if forgotten == most {
                        return forgotten;
                    }
                    self.take(self.next, address);
                    forgotten += 1;
                }
            }
            self.next = if usize::from(self.next) + 1 < self.counts.len() { self.next + 1 } else { 0 };
        }
        forgotten
    }

    /// Puts in what another instance knew; false when there is no room.
    pub fn restore(
        &mut self,
        network: u16,
        address: Mac,
        place: Place,
        heard: u32,
        is_answered: bool,
    ) -> bool {
        self.take(network, address);
        let has_room = self.count(network).known < self.most;
        if has_room {
            self.put(network, address, place, heard, is_answered);
        }
        has_room
    }

    /// All addresses, with their networks.
    pub fn all(&self) -> impl Iterator<Item = (u16, Mac, &Endpoint)> {
        self.known.iter().map(|((network, address), endpoint)| (*network, *address, endpoint))
    }

    /// How many addresses of a network are known.
    pub fn count(&self, network: u16) -> Count {
        self.counts.get(usize::from(network)).copied().unwrap_or_default()
    }

    /// How many addresses are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// None is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Most addresses of a network.
    pub fn most(&self) -> usize {
        self.most
    }

    fn is_old(&self, endpoint: &Endpoint, now: u32) -> bool {
        self.has_aged(endpoint.heard, now)
    }

    /// Whether what was heard then is too old; what is in the future, too.
    fn has_aged(&self, heard: u32, now: u32) -> bool {
        now.abs_diff(heard) > self.ageing
    }

    fn oldest(&self, network: u16, is_answered: bool) -> Option<(Age, Mac)> {
        let first = Age { network, is_answered, heard: 0, number: 0 };
        let last = Age { heard: u32::MAX, number: u64::MAX, ..first };
        self.ages.range(first..=last).next().map(|(age, address)| (*age, *address))
    }

    fn take(&mut self, network: u16, address: Mac) {
        let Some(Endpoint { heard, is_answered, number, .. }) = self.known.remove(&(network, address)) else {
            return;
        };
        self.ages.remove(&Age { network, is_answered, heard, number });
        if let Some(count) = self.counts.get_mut(usize::from(network)) {
            count.known -= 1;
            count.answered -= usize::from(is_answered);
        }
    }

    fn put(&mut self, network: u16, address: Mac, place: Place, heard: u32, is_answered: bool) {
        let Some(count) = self.counts.get_mut(usize::from(network)) else { return };
        count.known += 1;
        count.answered += usize::from(is_answered);
        self.numbers += 1;
        let number = self.numbers;
        self.known.insert((network, address), Endpoint { place, heard, is_answered, number });
        self.ages.insert(Age { network, is_answered, heard, number }, address);
    }
}
