//! Where routes lead: next hops, and sets of them that flows are shared out among.
//!
//! A table finds the number of a [`Set`]; a set leads to one of its [`Way`]s by the flow's hash. A set of
//! several has 64 places, each given to the next hop that rendezvous hashing (Thaler, Ravishankar 1998) finds
//! for it: when one goes, the flows of the others keep theirs.
//!
//! Limits: 65,535 next hops, 32,767 sets, 64 next hops in a set.

use crate::metrics::Reason;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Places of a set of several next hops.
const PLACES: usize = 64;
/// Most next hops of one set.
pub const MAX_PATHS: usize = PLACES;

/// What becomes of a packet. The order says which counts where several are said of one prefix: the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hop {
    /// It is for the router itself, by this interface's address.
    Local(u16),
    /// It is dropped for this reason, without a word.
    Drop(Silent),
    /// Its destination is on the link of this interface.
    Connected(u16),
    /// It is dropped, and its sender told.
    Reject,
    /// It goes to a router on the link of an interface.
    Via(u16, IpAddr),
}

/// Why packets are dropped by their destination alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Silent {
    /// An address that is not routed.
    Martian,
    /// A group.
    Multicast,
    /// All hosts of a network.
    Broadcast,
    /// The operator says so.
    Blackhole,
}

impl Silent {
    /// The drop reason.
    pub fn reason(self) -> Reason {
        match self {
            Silent::Martian => Reason::MartianDestination,
            Silent::Multicast => Reason::Multicast,
            Silent::Broadcast => Reason::Broadcast,
            Silent::Blackhole => Reason::Blackhole,
        }
    }
}

/// How a packet is sent on: what is written to it and where it goes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Way {
    /// Destination and source of its Ethernet header.
    pub addresses: [u8; 12],
    /// Its verdict.
    pub verdict: u32,
    /// Longest packet behind the Ethernet header; 0 where there is more to be asked than that: [`Hops::hop`].
    pub mtu: u32,
}

impl Way {
    /// Not to be sent on as it is.
    const CLOSED: Way = Way { addresses: [0; 12], verdict: 0, mtu: 0 };
}

/// Ways among which flows are shared out.
#[derive(Clone, Copy, Debug)]
struct Set {
    /// The way, or the first place in `places`.
    first: u32,
    /// 0 for one way, else one less than the number of places.
    mask: u32,
}

/// All next hops and how they are reached.
#[derive(Debug)]
pub struct Hops {
    known: Collector,
    ways: Vec<Way>,
}

/// Next hops and the sets of them that prefixes have: they are collected while a table is made, and come on
/// top when it changes. None goes.
#[derive(Debug)]
pub struct Collector {
    hops: Vec<Hop>,
    numbers: BTreeMap<Hop, u16>,
    /// Sets of one, by hop, and of several.
    single: Vec<u16>,
    several: BTreeMap<Vec<u16>, u16>,
    sets: Vec<Set>,
    places: Vec<u16>,
}

/// There are more next hops, or sets of them, than can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// Where addresses without a route lead: to no way.
const NOWHERE: Set = Set { first: u32::MAX, mask: 0 };

impl Default for Collector {
    fn default() -> Collector {
        Collector {
            hops: Vec::new(),
            numbers: BTreeMap::new(),
            single: Vec::new(),
            several: BTreeMap::new(),
            sets: vec![NOWHERE],
            places: Vec::new(),
        }
    }
}

impl Collector {
    /// The number of a next hop.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn hop(&mut self, hop: Hop) -> Result<u16, TooMany> {
        if let Some(number) = self.numbers.get(&hop) {
            return Ok(*number);
        }
        let number =
            u16::try_from(self.hops.len()).ok().filter(|number| *number < u16::MAX).ok_or(TooMany)?;
        self.hops.push(hop);
        self.numbers.insert(hop, number);
        self.single.push(0);
        Ok(number)
    }

    /// The number of the set of these next hops, which are in order and each there once; from 1 on.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn set(&mut self, hops: &[u16]) -> Result<u16, TooMany> {
        // What is no forwarding counts alone.
        let strongest = hops.iter().min_by_key(|number| self.hops.get(usize::from(**number)));
        let strongest = *strongest.ok_or(TooMany)?;
        let forwards = matches!(self.hops.get(usize::from(strongest)), Some(Hop::Via(..)));
        if hops.len() == 1 || !forwards {
            let number = self.single.get(usize::from(strongest)).copied().unwrap_or(0);
            if number != 0 {
                return Ok(number);
            }
            let number = self.push(Set { first: u32::from(strongest), mask: 0 })?;
            if let Some(single) = self.single.get_mut(usize::from(strongest)) {
                *single = number;
            }
            return Ok(number);
        }
        if hops.len() > MAX_PATHS {
            return Err(TooMany);
        }
        if let Some(number) = self.several.get(hops) {
            return Ok(*number);
        }
        let number = self.push(Set { first: self.places.len() as u32, mask: PLACES as u32 - 1 })?;
        for place in 0..PLACES as u64 {
            let best = hops.iter().max_by_key(|hop| self.weight(place, **hop));
            self.places.push(best.copied().unwrap_or(strongest));
        }
        self.several.insert(hops.to_vec(), number);
        Ok(number)
    }

    fn push(&mut self, set: Set) -> Result<u16, TooMany> {
        // The first set is the one of addresses without a route.
        let number = self.sets.len();
        if number >= crate::flat::MAX_VALUES {
            return Err(TooMany);
        }
        self.sets.push(set);
        Ok(number as u16)
    }

    /// How much a next hop is for a place: by what it is, not by its number, which another table may give
    /// otherwise.
    fn weight(&self, place: u64, hop: u16) -> u64 {
        let Some(Hop::Via(interface, address)) = self.hops.get(usize::from(hop)) else { return 0 };
        let bits = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let word = (bits >> 64) as u64 ^ bits as u64;
        mix(mix(word ^ u64::from(*interface) << 32) ^ place)
    }

    /// The hops; all ways are closed.
    pub fn finish(self) -> Hops {
        let ways = vec![Way::CLOSED; self.hops.len()];
        Hops { known: self, ways }
    }
}

/// A permutation of words that spreads them (splitmix64's).
pub fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Hops {
    /// The number of the way of a set's flow; `hash` is asked for where there are several.
    #[inline(always)]
    pub fn choose(&self, set: u16, hash: impl FnOnce() -> u32) -> u32 {
        let Some(set) = self.known.sets.get(usize::from(set)) else { return u32::MAX };
        if set.mask == 0 {
            return set.first;
        }
        let places = &self.known.places;
        places.get((set.first + (hash() & set.mask)) as usize).map_or(u32::MAX, |way| u32::from(*way))
    }

    /// A way.
    #[inline(always)]
    pub fn way(&self, number: u32) -> &Way {
        self.ways.get(number as usize).unwrap_or(&Way::CLOSED)
    }

    /// What a way leads to; `None` without a route.
    pub fn hop(&self, number: u32) -> Option<Hop> {
        self.known.hops.get(number as usize).copied()
    }

    /// The number of a next hop, whose way is closed if it comes on top.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn add(&mut self, hop: Hop) -> Result<u16, TooMany> {
        let number = self.known.hop(hop)?;
        self.ways.resize(self.known.hops.len(), Way::CLOSED);
        Ok(number)
    }

    /// The number of a set of next hops; see [`Collector::set`].
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn set(&mut self, hops: &[u16]) -> Result<u16, TooMany> {
        self.known.set(hops)
    }

    /// Opens ways to routers: `way` says how each is reached.
    pub fn open(&mut self, way: impl Fn(u16, IpAddr) -> Option<Way>) {
        for (hop, place) in self.known.hops.iter().zip(&mut self.ways) {
            if let Hop::Via(interface, address) = hop {
                *place = way(*interface, *address).unwrap_or(Way::CLOSED);
            }
        }
    }

    /// All hops, each with the number of its way.
    pub fn all(&self) -> &[Hop] {
        &self.known.hops
    }

    /// How many next hops there are.
    pub fn next_hops(&self) -> usize {
        self.known.hops.iter().filter(|hop| matches!(hop, Hop::Via(..))).count()
    }

    /// How many different sets of them.
    pub fn sets(&self) -> usize {
        self.known.sets.len() - 1
    }
}
