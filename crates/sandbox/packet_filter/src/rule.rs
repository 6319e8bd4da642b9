//! One rule, and what it is matched against.

use alloc::string::String;
use core::net::IpAddr;
use nf_sdk::Prefix;

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes on to the other interface.
    Accept,
    /// It is dropped, reason `denied`.
    Drop,
}

/// TCP, RFC 9293.
pub const TCP: u8 = 6;
/// UDP, RFC 768.
pub const UDP: u8 = 17;
/// ICMP, RFC 792.
pub const ICMP: u8 = 1;
/// ICMPv6, RFC 4443.
pub const ICMPV6: u8 = 58;

/// A rule as the operator wrote it. What is `None` matches anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For the report; may be empty.
    pub name: String,
    /// What it decides.
    pub action: Action,
    /// Interface that the packet came in by: 0 inside, 1 outside.
    pub from: Option<u8>,
    /// Protocol number (for IPv6 the one behind the extension headers).
    pub protocol: Option<u8>,
    /// Source prefix. With a prefix a rule is for that prefix's family alone.
    pub source: Option<Prefix>,
    /// Destination prefix, of the same family.
    pub destination: Option<Prefix>,
    /// First and last source port; for ICMP, of the type.
    pub first: (u16, u16),
    /// First and last destination port; for ICMP, of the code.
    pub second: (u16, u16),
}

/// What rules look at: `W` words of addresses, 2 for IPv4 and 8 for IPv6, source before destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<const W: usize> {
    /// The addresses' bytes as they are in the packet, read as little-endian words.
    pub addresses: [u32; W],
    /// Source port (or ICMP type) in the upper half, destination port (or ICMP code) in the lower; 0 without
    /// ports.
    pub ports: u32,
    /// Protocol in the low 8 bits, then one bit for the interface.
    pub kind: u32,
}

/// The `kind` of a [`View`].
#[inline(always)]
pub const fn kind(protocol: u8, ingress: u32) -> u32 {
    protocol as u32 | ingress << 8
}

/// An address family, by the number of words that two addresses take.
pub struct Family<const W: usize>;

impl<const W: usize> Family<W> {
    /// Bits of one address.
    pub const BITS: u8 = (W * 16) as u8;

    /// The address' words when it is of this family.
    pub fn words(address: IpAddr) -> Option<[u32; 4]> {
        let mut words = [0; 4];
        let mut copy = |bytes: &[u8]| {
            for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            }
        };
        match (address, W) {
            (IpAddr::V4(four), 2) => copy(&four.octets()),
            (IpAddr::V6(sixteen), 8) => copy(&sixteen.octets()),
            _ => return None,
        }
        Some(words)
    }

    /// The mask of the first `length` bits, for word `index` of an address.
    pub fn mask(length: u8, index: usize) -> u32 {
        let bits = u32::from(length).saturating_sub(32 * index as u32).min(32);
        ((u64::from(u32::MAX) << (32 - bits)) as u32).swap_bytes()
    }
}

impl Rule {
    /// Whether packets of the family can match it.
    pub fn concerns<const W: usize>(&self) -> bool {
        [self.source, self.destination]
            .iter()
            .flatten()
            .all(|prefix| Family::<W>::words(prefix.address).is_some())
    }

    /// The rule by its definition, for packets of one family: what every faster way has to agree with.
    pub fn matches<const W: usize>(&self, view: &View<W>) -> bool {
        let half = W / 2;
        let within = |prefix: &Option<Prefix>, words: &[u32]| {
            prefix.is_none_or(|prefix| {
                let Some(wanted) = Family::<W>::words(prefix.address) else { return false };
                words.iter().zip(wanted).enumerate().all(|(index, (word, wanted))| {
                    (word ^ wanted) & Family::<W>::mask(prefix.length, index) == 0
                })
            })
        };
        let between =
            |port: u32, (first, last): (u16, u16)| (u32::from(first)..=u32::from(last)).contains(&port);
        within(&self.source, &view.addresses[..half])
            && within(&self.destination, &view.addresses[half..])
            && between(view.ports >> 16, self.first)
            && between(view.ports & 0xffff, self.second)
            && self.protocol.is_none_or(|protocol| u32::from(protocol) == view.kind & 0xff)
            && self.from.is_none_or(|from| u32::from(from) == view.kind >> 8)
    }
}
