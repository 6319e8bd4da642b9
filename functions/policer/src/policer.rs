//! One policer: which packets it is for, which of them share a bucket, and what its limits are.

use crate::header::{View, kind};
use crate::meter::Limits;
use crate::metrics::Reason;
use crate::table::Key;
use alloc::string::String;
use nf_sdk::{Json, Prefix};

/// Which packets share a bucket, of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyParts {
    /// The bits of a [`View`] that they have in common.
    pub mask: View,
    /// The word that the mark goes to, if it belongs to the key.
    pub mark_at: Option<u8>,
}

/// What happens to packets of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They pass.
    Pass,
    /// They are dropped for this reason.
    Drop(Reason),
    /// They pass with a mark: the bits of `mask` become those of `value`.
    Mark {
        /// Bits that are written.
        mask: u64,
        /// What is written.
        value: u64,
    },
}

/// A policer as the operator wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policer {
    /// For the report; may be empty.
    pub name: String,
    /// Bits of a [`View`] that are looked at.
    pub mask: View,
    /// What they have to be.
    pub value: View,
    /// First and last source port, for packets that have ports.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
    /// The mark that packets have.
    pub mark: Option<u64>,
    /// It matches every packet.
    pub matches_all: bool,
    /// Whether packets are told apart at all.
    pub keyed: bool,
    /// What the key is made of: IPv4 and other packets, IPv6.
    pub keys: [KeyParts; 2],
    /// Its place in the configuration, as keys have it.
    pub tag: u64,
    /// How much passes.
    pub limits: Limits,
    /// What happens to green, yellow and red packets.
    pub actions: [Action; 3],
    /// What of all this makes buckets of two instances mean the same.
    pub fingerprint: u64,
}

/// The mask of a prefix of `length` bits over a little-endian word that holds 64 bits of the address from bit
/// `from` on.
pub fn prefix_mask(length: u8, from: u8) -> u64 {
    let bits = u32::from(length.saturating_sub(from)).min(64);
    (u128::from(u64::MAX) << (64 - bits)) as u64
}

impl Policer {
    /// Restricts the policer to addresses of a prefix; `side`: 0 source, 1 destination.
    pub fn restrict(&mut self, prefix: &Prefix, side: usize) {
        match prefix.address {
            core::net::IpAddr::V4(address) => {
                let mask = (prefix_mask(prefix.length, 0) >> 32) as u32;
                let shift = 32 * side;
                self.mask[0] |= kind::IPV4;
                self.value[0] |= kind::IPV4;
                self.mask[1] |= u64::from(mask.swap_bytes()) << shift;
                self.value[1] |= u64::from((address.to_bits() & mask).swap_bytes()) << shift;
            }
            core::net::IpAddr::V6(address) => {
                self.mask[0] |= kind::IPV6;
                self.value[0] |= kind::IPV6;
                let bits = address.to_bits();
                for (n, half) in [(bits >> 64) as u64, bits as u64].into_iter().enumerate() {
                    let mask = prefix_mask(prefix.length, 64 * n as u8);
                    self.mask[1 + 2 * side + n] = mask.swap_bytes();
                    self.value[1 + 2 * side + n] = (half & mask).swap_bytes();
                }
            }
        }
    }

    /// Whether it is for this packet.
    #[inline(always)]
    pub fn matches(&self, view: &View, mark: u64) -> bool {
        self.matches_all || self.matches_some(view, mark)
    }

    fn matches_some(&self, view: &View, mark: u64) -> bool {
        let difference = view
            .iter()
            .zip(self.mask.iter().zip(&self.value))
            .fold(0, |all, (word, (mask, value))| all | ((word ^ value) & mask));
        let within = |range: Option<(u16, u16)>, at: u32| {
            range.is_none_or(|(first, last)| {
                let port = u16::from_be_bytes(((view[0] >> at) as u16).to_le_bytes());
                (first..=last).contains(&port)
            })
        };
        difference == 0
            && within(self.source_ports, 32)
            && within(self.destination_ports, 48)
            && self.mark.is_none_or(|wanted| wanted == mark)
    }

    /// The key of a packet.
    #[inline(always)]
    pub fn key(&self, view: &View, mark: u64) -> Key {
        let parts = &self.keys[usize::from(view[0] & kind::IPV6 != 0)];
        let mut key: Key = core::array::from_fn(|n| view[n] & parts.mask[n]);
        key[0] |= self.tag;
        if let Some(at) = parts.mark_at
            && let Some(word) = key.get_mut(usize::from(at))
        {
            *word = mark;
        }
        key
    }

    /// Whether a packet can have this key.
    pub fn can_have(&self, key: &Key) -> bool {
        let families = key[0] & (kind::IPV4 | kind::IPV6);
        let parts = &self.keys[usize::from(families == kind::IPV6)];
        self.keyed
            && families != kind::IPV4 | kind::IPV6
            && key.iter().enumerate().all(|(n, word)| {
                let fixed = if n == 0 { self.tag } else { 0 };
                let free = if parts.mark_at.map(usize::from) == Some(n) { u64::MAX } else { parts.mask[n] };
                word & !free == fixed & !free
            })
    }

    /// Writes what packets of a key have in common.
    pub fn describe(&self, key: &Key, json: &mut Json<'_>) {
        let is_ipv6 = key[0] & kind::IPV6 != 0;
        let parts = &self.keys[usize::from(is_ipv6)];
        let has = |word: usize, bits: u64| parts.mask[word] & bits != 0;
        for (side, name) in ["source", "destination"].into_iter().enumerate() {
            if is_ipv6 {
                let half = |n: usize| (u128::from(key[n].swap_bytes()), parts.mask[n].count_ones());
                let ((high, some), (low, more)) = (half(1 + 2 * side), half(2 + 2 * side));
                // The second half may have the mark instead.
                let low = if more == 0 { 0 } else { low };
                if some > 0 {
                    prefix(
                        json.key(name),
                        core::net::Ipv6Addr::from_bits(high << 64 | low).into(),
                        some + more,
                    );
                }
            } else if key[0] & kind::IPV4 != 0 {
                let bits = (parts.mask[1] >> (32 * side)) as u32;
                if bits != 0 {
                    let address = ((key[1] >> (32 * side)) as u32).swap_bytes();
                    prefix(json.key(name), core::net::Ipv4Addr::from_bits(address).into(), bits.count_ones());
                }
            }
        }
        if has(0, kind::PROTOCOL) {
            json.member("protocol", key[0] & kind::PROTOCOL);
        }
        for (name, bits, at) in
            [("source_port", kind::SOURCE_PORT, 32), ("destination_port", kind::DESTINATION_PORT, 48)]
        {
            if has(0, bits) {
                json.member(name, u64::from(((key[0] >> at) as u16).swap_bytes()));
            }
        }
        if has(0, kind::VLAN) {
            json.member("vlan", (key[0] & kind::VLAN) >> kind::VLAN_AT);
        }
        if has(0, kind::INGRESS) {
            let side = if key[0] & kind::INGRESS == 0 { "inside" } else { "outside" };
            json.key("ingress").text(side);
        }
        if let Some(at) = parts.mark_at {
            json.member("mark", key.get(usize::from(at)).copied().unwrap_or(0));
        }
    }
}

fn prefix(json: &mut Json<'_>, address: core::net::IpAddr, length: u32) {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = core::fmt::Write::write_fmt(&mut text, format_args!("{address}/{length}"));
    json.text(&text);
}
