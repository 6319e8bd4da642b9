//! The option `threshold`: how often a rule matched, by address, in a table that does not grow.

use crate::rules::{Threshold, ThresholdKind, Track};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::keyed_hash::KeyedHash;
use nf_sdk::{Nanos, Secret};

/// Places that a key may be in.
const WAYS: usize = 8;

/// What becomes of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is told, and the rule's action is taken.
    Tell,
    /// The action is taken in silence.
    Silent,
    /// As if the rule had not matched.
    Nothing,
}

/// Matches of a rule by an address.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Number of the rule, from 1; 0 for a free place.
    rule: u32,
    count: u32,
    address: u128,
    /// When the interval began, in microseconds: what captures tell.
    began: u64,
}

/// All counts.
#[derive(Debug)]
pub struct Thresholds {
    entries: Vec<Entry>,
    limit: usize,
    hash: KeyedHash<3>,
    /// What stands for a pair of addresses, each a half of it.
    pairs: [KeyedHash<4>; 2],
    /// Counts that made room for others.
    pub evicted: u64,
}

impl Thresholds {
    /// Room for `limit` counts, taken when the first is needed. `secret` keys the table.
    pub fn new(limit: usize, secret: &Secret) -> Thresholds {
        Thresholds {
            entries: Vec::new(),
            limit,
            hash: KeyedHash::new(secret.seed("thresholds")),
            pairs: ["pairs, low", "pairs, high"].map(|name| KeyedHash::new(secret.seed(name))),
            evicted: 0,
        }
    }

    /// A match of the rule at a time.
    pub fn count(&mut self, rule: u32, threshold: &Threshold, ends: [IpAddr; 2], now: Nanos) -> Outcome {
        let [source, destination] = ends.map(|address| match address {
            IpAddr::V4(address) => 0xffff_0000_0000 | u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        });
        let address = match threshold.track {
            Track::Source => source,
            Track::Destination => destination,
            // Both directions are one pair. Any two pairs come out the same for one secret in 2^64, and
            // senders do not know which it is.
            Track::Pair => {
                let (low, high) = (source.min(destination), source.max(destination));
                let words = [low as u64, (low >> 64) as u64, high as u64, (high >> 64) as u64];
                let [low, high] = self.pairs.map(|half| u128::from(half.of(&words)));
                low | high << 64
            }
            Track::Rule => 0,
        };
        let now = now.0 / 1000;
        let span = u64::from(threshold.seconds) * 1_000_000;
        let (entry, is_known) = self.entry(rule + 1, address, now);
        let is_running = is_known && now <= entry.began.saturating_add(span);
        if is_running {
            entry.count = entry.count.saturating_add(1);
        } else {
            (entry.count, entry.began) = (1, now);
        }
        let count = entry.count;
        match threshold.kind {
            ThresholdKind::Limit if count <= threshold.count => Outcome::Tell,
            ThresholdKind::Limit => Outcome::Silent,
            ThresholdKind::Threshold if count >= threshold.count => {
                entry.count = 0;
                Outcome::Tell
            }
            ThresholdKind::Both if count == threshold.count => Outcome::Tell,
            ThresholdKind::Both if count > threshold.count => Outcome::Silent,
            ThresholdKind::Beyond if count > threshold.count => Outcome::Tell,
            ThresholdKind::Threshold | ThresholdKind::Both | ThresholdKind::Beyond => Outcome::Nothing,
        }
    }

    /// The key's entry, and whether it was there.
    fn entry(&mut self, rule: u32, address: u128, now: u64) -> (&mut Entry, bool) {
        if self.entries.is_empty() {
            self.entries = vec![Entry::default(); self.limit.max(WAYS).next_power_of_two()];
        }
        let hash = self.hash.of(&[u64::from(rule), address as u64, (address >> 64) as u64]);
        let start = hash as usize & (self.entries.len() - 1) & !(WAYS - 1);
        let ways = &mut self.entries[start..start + WAYS];
        let known = ways.iter().position(|entry| entry.rule == rule && entry.address == address);
        let place = known.or_else(|| ways.iter().position(|entry| entry.rule == 0)).unwrap_or_else(|| {
            self.evicted += 1;
            let oldest = ways.iter().enumerate().min_by_key(|(_, entry)| entry.began);
            oldest.map_or(0, |(place, _)| place)
        });
        let entry = &mut ways[place];
        if known.is_none() {
            *entry = Entry { rule, count: 0, address, began: now };
        }
        (entry, known.is_some())
    }
}
