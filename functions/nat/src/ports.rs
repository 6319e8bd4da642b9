//! Which ports of the pool are taken, a bit each, and which one a mapping gets.
//!
//! A port is used by one mapping at a time (RFC 4787 REQ-3a, RFC 5382 REQ-7). The choice: the inside host's
//! own port if it is free and may be preserved; else the first free one from a place that a secret decides
//! (RFC 6056), of the same range (0-1023 or above, RFC 4787 REQ-3b) and for UDP of the same parity (REQ-4),
//! as long as there is one.

use crate::settings::{Settings, place};
use alloc::vec;
use alloc::vec::Vec;
use nf_sdk::wire::{Address, ICMP, UDP};

/// Words of the ports of one address and protocol.
const WORDS: usize = 1024;
/// Protocols that have ports.
const PROTOCOLS: usize = 3;
/// Ports of even numbers.
const EVEN: u64 = 0x5555_5555_5555_5555;
/// Below this, ports are well-known.
const WELL_KNOWN: u16 = 1024;

/// The ports of the pool.
pub struct Ports {
    /// In order.
    pool: Vec<Address>,
    taken: Vec<u64>,
    /// Ports in use, by address.
    used: Vec<u32>,
    range: (u16, u16),
    preserve: bool,
    /// Where a host's mappings begin to look for an address once this many ports of one are used.
    busy: u32,
}

impl Ports {
    /// All free.
    pub fn new(settings: &Settings) -> Ports {
        let count = settings.pool.len();
        let (first, last) = settings.ports;
        let each = u32::from(last - first) + 1;
        Ports {
            pool: settings.pool.clone(),
            taken: vec![0; count * PROTOCOLS * WORDS],
            used: vec![0; count],
            range: settings.ports,
            preserve: settings.preserve,
            busy: each / 4 * 3,
        }
    }

    /// The place of an address in the pool.
    #[inline(always)]
    pub fn find(&self, address: Address) -> Option<u32> {
        match *self.pool.as_slice() {
            [only] => (only == address).then_some(0),
            _ => self.pool.binary_search(&address).ok().map(|place| place as u32),
        }
    }

    /// An address of the pool.
    pub fn address(&self, number: u32) -> Address {
        self.pool.get(number as usize).copied().unwrap_or(0)
    }

    /// Addresses in the pool.
    pub fn addresses(&self) -> usize {
        self.pool.len()
    }

    /// Ports in use.
    pub fn in_use(&self) -> u64 {
        self.used.iter().map(|used| u64::from(*used)).sum()
    }

    /// The address for a host that has none yet: the first from a place that `chance` decides that is not
    /// busy, else the one with the fewest ports in use.
    pub fn choose(&self, chance: u64) -> u32 {
        let count = self.pool.len();
        let begin = (chance % count.max(1) as u64) as usize;
        let mut order = (begin..count).chain(0..begin);
        let used = |number: &usize| self.used.get(*number).copied().unwrap_or(0);
        let idle = order.clone().find(|number| used(number) < self.busy);
        idle.or_else(|| order.by_ref().min_by_key(used)).unwrap_or(0) as u32
    }

    fn at(number: u32, protocol: u8) -> usize {
        (number as usize * PROTOCOLS + place(protocol).min(PROTOCOLS - 1)) * WORDS
    }

    /// Reads the word of a port, to have it in the cache.
    #[inline(always)]
    pub fn touch(&self, number: u32, protocol: u8, port: u16) -> u32 {
        self.taken.get(Self::at(number, protocol) + usize::from(port) / 64).map_or(0, |word| *word as u32)
    }

    /// Takes this very port; false when it is taken. `number` is the address' place in the pool; ports are in
    /// host order here.
    pub fn take(&mut self, number: u32, protocol: u8, port: u16) -> bool {
        let word = self.taken.get_mut(Self::at(number, protocol) + usize::from(port) / 64);
        let Some(word) = word else { return false };
        let bit = 1 << (port % 64);
        let is_free = *word & bit == 0;
        *word |= bit;
        if is_free && let Some(used) = self.used.get_mut(number as usize) {
            *used += 1;
        }
        is_free
    }

    /// Gives a port back.
    pub fn give_back(&mut self, number: u32, protocol: u8, port: u16) {
        let word = self.taken.get_mut(Self::at(number, protocol) + usize::from(port) / 64);
        if let (Some(word), Some(used)) = (word, self.used.get_mut(number as usize)) {
            *word &= !(1 << (port % 64));
            *used -= 1;
        }
    }

    /// Whether a mapping gets the inside port `wanted` if it is free.
    fn is_kept(&self, protocol: u8, wanted: u16) -> bool {
        let (first, last) = self.range;
        self.preserve && (protocol == ICMP || (first..=last).contains(&wanted))
    }

    /// The ranges in which a port is looked for, and which ports of 64 in a row, each in order of preference.
    fn choices(&self, protocol: u8, wanted: u16) -> ([(u16, u16); 2], [u64; 2]) {
        let (first, last) = self.range;
        let low = (first, last.min(WELL_KNOWN - 1));
        let high = (first.max(WELL_KNOWN), last);
        let parity = if wanted.is_multiple_of(2) { EVEN } else { !EVEN };
        (
            if wanted < WELL_KNOWN { [low, high] } else { [high, low] },
            [if protocol == UDP { parity } else { u64::MAX }, u64::MAX],
        )
    }

    /// Takes the inside port `wanted`, if a mapping gets it; false when it is another one that it gets.
    #[inline(always)]
    pub fn take_own(&mut self, number: u32, protocol: u8, wanted: u16) -> bool {
        self.is_kept(protocol, wanted) && self.take(number, protocol, wanted)
    }

    /// Takes another port for the inside port `wanted`; `chance` decides which.
    pub fn take_other(&mut self, number: u32, protocol: u8, wanted: u16, chance: u64) -> Option<u16> {
        if protocol == ICMP {
            return self.search(number, protocol, (0, u16::MAX), u64::MAX, chance);
        }
        let (ranges, masks) = self.choices(protocol, wanted);
        masks.iter().find_map(|mask| {
            ranges.iter().find_map(|range| self.search(number, protocol, *range, *mask, chance))
        })
    }

    /// Takes the first free port of a range whose bit `mask` has, from a place on that `chance` decides.
    fn search(
        &mut self,
        number: u32,
        protocol: u8,
        range: (u16, u16),
        mask: u64,
        chance: u64,
    ) -> Option<u16> {
        let begin = begin(range, chance)?;
        let words = self.taken.get(Self::at(number, protocol)..)?.get(..WORDS)?;
        let (first, last) = (usize::from(range.0), usize::from(range.1));
        let port = first_free(words, mask, begin, last).or_else(|| first_free(words, mask, first, begin))?;
        let port = u16::try_from(port).ok()?;
        self.take(number, protocol, port).then_some(port)
    }

    /// Whether the inside port `wanted` would be given out as it is.
    #[inline(always)]
    pub fn is_own_free(&self, number: u32, protocol: u8, wanted: u16) -> bool {
        let word = self.taken.get(Self::at(number, protocol) + usize::from(wanted) / 64);
        self.is_kept(protocol, wanted) && word.is_some_and(|word| word >> (wanted % 64) & 1 == 0)
    }

    /// Where the search for a port of TCP or UDP begins that is not the inside port.
    #[inline(always)]
    pub fn search_begins(&self, protocol: u8, wanted: u16, chance: u64) -> u16 {
        let ([range, _], _) = self.choices(protocol, wanted);
        begin(range, chance).map_or(wanted, |begin| begin as u16)
    }

    /// The port that a search from there on probably finds: the first free one of 64 in a row, if there is
    /// one.
    #[inline(always)]
    pub fn probable(&self, number: u32, protocol: u8, wanted: u16, begin: u16) -> u16 {
        let (_, [mask, _]) = self.choices(protocol, wanted);
        let word = self.taken.get(Self::at(number, protocol) + usize::from(begin) / 64);
        let free = word.map_or(0, |word| !word & mask & u64::MAX << (begin % 64));
        begin & !63 | (free.trailing_zeros() & 63) as u16
    }
}

/// The port of a range that `chance` decides.
#[inline(always)]
fn begin((first, last): (u16, u16), chance: u64) -> Option<usize> {
    let count = u64::from(last).checked_sub(u64::from(first))? + 1;
    Some(usize::from(first) + (((chance >> 32) * count) >> 32) as usize)
}

/// The first free port from `low` to `high`, both included, whose bit `mask` has.
#[inline(always)]
fn first_free(taken: &[u64], mask: u64, low: usize, high: usize) -> Option<usize> {
    let mut within = mask & u64::MAX << (low % 64);
    for word in low / 64..=high / 64 {
        let free = !taken.get(word)? & within;
        if free != 0 {
            let port = word * 64 + free.trailing_zeros() as usize;
            return (port <= high).then_some(port);
        }
        within = mask;
    }
    None
}
