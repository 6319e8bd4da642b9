//! Filters as conditions on the words of a key.

use crate::Rule;
use crate::key::{ETHERTYPE, GRE_KEY, HAS_ETHERNET, Key, LEVELS, Needs, PROTOCOL, TAGGED, WORDS, flag};
use capture::{Condition, Side};
use packet::ethernet::ethertype;
use packet::protocol;
use std::net::IpAddr;

/// Terms of one rule.
const MOST: usize = 64;

const TUNNELS: u64 = flag::VNI | flag::MPLS | flag::GRE;
const FAMILIES: u64 = flag::V4 | flag::V6;
const ID: u64 = 0xffff_ffff;

/// Bits of a key that have to have these values, for a rule to match; what is no bit of the mask is 0 in the
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub mask: Key,
    pub value: Key,
    /// The rule matches then. Otherwise its filter has to be asked.
    pub is_exact: bool,
}

impl Term {
    /// Of any packet.
    const ANY: Term = Term { mask: [0; WORDS * LEVELS], value: [0; WORDS * LEVELS], is_exact: true };

    /// The terms of a rule: a packet that it matches is of one of them.
    pub fn of(rule: &Rule) -> Vec<Term> {
        let Some(filter) = &rule.filter else { return vec![Term::ANY] };
        let mut terms = Vec::new();
        for alternative in filter.alternatives(MOST) {
            let mut all = vec![Term { is_exact: alternative.is_exact, ..Term::ANY }];
            for (level, condition) in &alternative.conditions {
                all = all.into_iter().flat_map(|term| term.with(usize::from(*level), condition)).collect();
                if all.len() > MOST {
                    all = vec![Term { is_exact: false, ..Term::ANY }];
                }
            }
            terms.extend(all);
        }
        if terms.len() > MOST { vec![Term { is_exact: false, ..Term::ANY }] } else { terms }
    }

    #[inline]
    pub fn holds(&self, key: &Key) -> bool {
        self.mask.iter().zip(&self.value).zip(key).all(|((mask, value), word)| word & mask == *value)
    }

    /// Whether there may be a packet of both.
    pub fn overlaps(&self, other: &Term) -> bool {
        let words = self.mask.iter().zip(&self.value).zip(other.mask.iter().zip(&other.value));
        words
            .into_iter()
            .all(|((mask, value), (other_mask, other_value))| (value ^ other_value) & mask & other_mask == 0)
    }

    /// Whether every packet of the other is one of this.
    pub fn covers(&self, other: &Term) -> bool {
        let words = self.mask.iter().zip(&self.value).zip(other.mask.iter().zip(&other.value));
        words.into_iter().all(|((mask, value), (other_mask, other_value))| {
            mask & !other_mask == 0 && (value ^ other_value) & mask == 0
        })
    }

    /// What has to be read of a packet to tell.
    pub fn needs(&self) -> Needs {
        let (outer, inner) = self.mask.split_at(WORDS);
        let inside = inner.iter().any(|mask| *mask != 0);
        let tunnel = matches!(outer, [first, second, ..] if first & TUNNELS != 0 || second & ID != 0);
        let ethernet =
            [6, 7, 14, 15].iter().any(|word| self.mask.get(*word).is_some_and(|mask| *mask << 16 != 0));
        Needs { tunnel: tunnel || inside, inside, ethernet }
    }

    /// This and one condition more: as many terms as that takes, none where both cannot hold.
    fn with(mut self, level: usize, condition: &Condition) -> Vec<Term> {
        if level >= LEVELS {
            self.is_exact = false;
            return vec![self];
        }
        let mut bits = Bits { term: self, base: level * WORDS, possible: true };
        match *condition {
            Condition::Ethertype(kind) => bits.ethertype(kind),
            Condition::Protocol(family, protocol) => {
                bits.protocol(protocol);
                if let Some(family) = family {
                    bits.ethertype(family);
                }
            }
            Condition::Vlan(place, id) => {
                let shift = if place == 0 { 16 } else { 0 };
                let (mask, value) =
                    id.map_or((TAGGED, TAGGED), |id| (TAGGED | 0xfff, TAGGED | u64::from(id)));
                bits.set(0, mask << shift, value << shift);
            }
            Condition::Ethernet(side, address) => {
                let [a, b, c, d, e, f] = address;
                let address = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
                bits.set(6, HAS_ETHERNET, HAS_ETHERNET);
                bits.set(if side == Side::Destination { 6 } else { 7 }, (1 << 48) - 1, address);
            }
            Condition::Network(side, address, length) => {
                let place = if side == Side::Source { 2 } else { 4 };
                bits.network(place, address, length);
            }
            Condition::Vni(id) => {
                bits.protocol(protocol::UDP);
                bits.tunnel(flag::VNI, id);
            }
            Condition::Gre(key) => {
                bits.protocol(protocol::GRE);
                bits.tunnel(flag::GRE, key);
                if key.is_some() {
                    bits.set(6, GRE_KEY, GRE_KEY);
                }
            }
            Condition::Mpls(place, label) => {
                bits.tunnel(flag::MPLS, label.filter(|_| place == 0));
                // Further labels are no part of a key.
                bits.term.is_exact &= place == 0;
            }
            Condition::Port(protocol, side, first, last) => {
                bits.set(0, flag::IP | flag::PORTS, flag::IP | flag::PORTS);
                if let Some(protocol) = protocol {
                    bits.protocol(protocol);
                }
                let shift = if side == Side::Source { 48 } else { 32 };
                let parts = prefixes(first, last).into_iter().map(|(value, mask)| {
                    let mut bits = bits;
                    bits.set(1, u64::from(mask) << shift, u64::from(value) << shift);
                    bits
                });
                return parts.filter_map(Bits::done).collect();
            }
        }
        bits.done().into_iter().collect()
    }
}

/// A term that gets conditions.
#[derive(Clone, Copy)]
struct Bits {
    term: Term,
    base: usize,
    possible: bool,
}

impl Bits {
    fn set(&mut self, word: usize, mask: u64, value: u64) {
        let at = self.base + word;
        if let (Some(old_mask), Some(old)) = (self.term.mask.get_mut(at), self.term.value.get_mut(at)) {
            self.possible &= (*old ^ value) & *old_mask & mask == 0;
            *old_mask |= mask;
            *old |= value;
        }
    }

    fn done(self) -> Option<Term> {
        self.possible.then_some(self.term)
    }

    // What follows from a condition is said too: it is true of every packet, and shows what excludes what.

    fn ethertype(&mut self, kind: u16) {
        let follows = match kind {
            ethertype::IPV4 => flag::IP | flag::V4,
            ethertype::IPV6 => flag::IP | flag::V6,
            _ => 0,
        };
        let mask =
            flag::READ | if kind == ethertype::ARP { flag::IP | flag::V6 } else { flag::IP | FAMILIES };
        self.set(0, mask | 0xffff << ETHERTYPE, flag::READ | follows | u64::from(kind) << ETHERTYPE);
    }

    fn protocol(&mut self, protocol: u8) {
        self.set(0, flag::IP | 0xff << PROTOCOL, flag::IP | u64::from(protocol) << PROTOCOL);
        if !protocol::has_ports(protocol) {
            self.set(0, flag::PORTS, 0);
        }
    }

    fn tunnel(&mut self, kind: u64, id: Option<u32>) {
        self.set(0, TUNNELS, kind);
        if let Some(id) = id {
            self.set(1, ID, id.into());
        }
    }

    fn network(&mut self, word: usize, address: IpAddr, length: u8) {
        let of = |bits: u128, whole: u32| {
            let mask = u128::MAX.checked_shl(whole - u32::from(length)).unwrap_or(0);
            (mask, bits & mask)
        };
        let (family, (mask, value)) = match address {
            IpAddr::V4(address) => {
                let (mask, value) = of(address.to_bits().into(), 32);
                (flag::V4, (mask << 96, value << 96))
            }
            IpAddr::V6(address) => (flag::V6, of(address.to_bits(), 128)),
        };
        self.set(0, FAMILIES, family);
        self.set(word, (mask >> 64) as u64, (value >> 64) as u64);
        self.set(word + 1, mask as u64, value as u64);
    }
}

/// A range of ports as prefixes, by value and mask: at most thirty.
fn prefixes(first: u16, last: u16) -> Vec<(u16, u16)> {
    let (mut next, end) = (u32::from(first), u32::from(last) + 1);
    let mut all = Vec::new();
    while next < end {
        let mut size = if next == 0 { 1 << 16 } else { 1 << next.trailing_zeros() };
        while next + size > end {
            size >>= 1;
        }
        all.push((next as u16, !(size - 1) as u16));
        next += size;
    }
    all
}
