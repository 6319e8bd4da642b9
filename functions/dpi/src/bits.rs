//! Bits that rules set for other rules: of flows, and of hosts in a table that does not grow.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::Nanos;
use nf_sdk::keyed_hash::KeyedHash;

/// Bits of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set(Vec<u64>);

impl Set {
    /// Whether a bit is there.
    pub fn has(&self, bit: u16) -> bool {
        self.0.get(usize::from(bit / 64)).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    /// Sets a bit, or takes it away.
    pub fn put(&mut self, bit: u16, is_set: bool) {
        let place = usize::from(bit / 64);
        if is_set && self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        if let Some(word) = self.0.get_mut(place) {
            *word = *word & !(1 << (bit % 64)) | u64::from(is_set) << (bit % 64);
        }
    }
}

/// Places that a key may be in.
const WAYS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Number of the bit, from 1; 0 for a free place.
    bit: u32,
    address: u128,
    /// Until when it is there, in microseconds.
    until: u64,
}

/// Bits of hosts.
#[derive(Debug)]
pub struct Hosts {
    entries: Vec<Entry>,
    limit: usize,
    hash: KeyedHash<3>,
    /// Bits that made room for others.
    pub evicted: u64,
}

impl Hosts {
    /// Room for `limit` bits, taken when the first is needed. `seed`: the table's secret.
    pub fn new(limit: usize, seed: u64) -> Hosts {
        Hosts { entries: Vec::new(), limit, hash: KeyedHash::new(seed), evicted: 0 }
    }

    fn ways(&mut self, bit: u16, address: IpAddr) -> (u32, u128, &mut [Entry]) {
        if self.entries.is_empty() {
            self.entries = vec![Entry::default(); self.limit.max(WAYS).next_power_of_two()];
        }
        let bit = u32::from(bit) + 1;
        let address = match address {
            IpAddr::V4(address) => 0xffff_0000_0000 | u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let hash = self.hash.of(&[u64::from(bit), address as u64, (address >> 64) as u64]);
        let start = hash as usize & (self.entries.len() - 1) & !(WAYS - 1);
        (bit, address, &mut self.entries[start..start + WAYS])
    }

    /// Whether a host has a bit.
    pub fn has(&mut self, bit: u16, address: IpAddr, now: Nanos) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let now = now.0 / 1000;
        let (bit, address, ways) = self.ways(bit, address);
        ways.iter().any(|entry| entry.bit == bit && entry.address == address && now <= entry.until)
    }

    /// Sets a bit for so many seconds, or takes it away.
    pub fn put(&mut self, bit: u16, address: IpAddr, seconds: Option<u32>, now: Nanos) {
        let now = now.0 / 1000;
        let (bit, address, ways) = self.ways(bit, address);
        let known = ways.iter().position(|entry| entry.bit == bit && entry.address == address);
        let Some(seconds) = seconds else {
            if let Some(known) = known {
                ways[known] = Entry::default();
            }
            return;
        };
        let place = known.or_else(|| ways.iter().position(|entry| entry.bit == 0 || entry.until < now));
        let oldest = || ways.iter().enumerate().min_by_key(|(_, entry)| entry.until).map_or(0, |(at, _)| at);
        let at = place.unwrap_or_else(oldest);
        ways[at] = Entry { bit, address, until: now.saturating_add(u64::from(seconds) * 1_000_000) };
        self.evicted += u64::from(place.is_none());
    }
}
