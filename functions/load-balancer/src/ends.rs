//! Which service or server an end (address, protocol and port) is of.
//!
//! 1. The address and the protocol lead to a place of a hash table, which is at most half full.
//! 2. The place has the first and the number of its ranges of ports, in order; mostly there is one.
//!
//! Limits: it is made once from the configuration, and ranges do not overlap.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::index::{finish, mix};

/// An address in words as packets have them; of IPv4 one word, the rest zeros.
pub type Words = [u32; 4];

/// Of a kind: the address is of IPv6. The protocol is in the lower eight bits.
pub const V6: u32 = 0x100;

/// The words of an address.
pub fn words(address: IpAddr) -> Words {
    let mut words = [0; 4];
    let mut put = |bytes: &[u8]| {
        for (word, four) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*four);
        }
    };
    match address {
        IpAddr::V4(address) => put(&address.octets()),
        IpAddr::V6(address) => put(&address.octets()),
    }
    words
}

/// The address of words.
pub fn address(words: Words, is_v6: bool) -> IpAddr {
    let mut bytes = [0; 16];
    for (four, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *four = word.to_le_bytes();
    }
    let [a, b, c, d, ..] = bytes;
    if is_v6 { IpAddr::from(bytes) } else { IpAddr::from([a, b, c, d]) }
}

/// Protocol and version of IP in a word.
pub fn kind(protocol: u8, is_v6: bool) -> u32 {
    u32::from(protocol) | if is_v6 { V6 } else { 0 }
}

/// A range of ports, both ends included, and whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    first: u16,
    last: u16,
    number: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    address: Words,
    /// 0: the place is free.
    kind: u32,
    begin: u32,
    count: u32,
}

/// Numbers by end.
#[derive(Debug, Default)]
pub struct Ends {
    places: Box<[Place]>,
    ranges: Vec<Range>,
}

/// An end: address, kind, first and last port, and its number.
pub type End = (Words, u32, u16, u16, u16);

#[inline(always)]
fn hash(address: &Words, kind: u32) -> u64 {
    let [a, b, c, d] = *address;
    finish(mix(mix(0, a, b), c, d), kind, 0)
}

impl Ends {
    /// Of all ends.
    ///
    /// # Errors
    /// The numbers of two whose ports overlap.
    pub fn new(mut ends: Vec<End>) -> Result<Ends, (u16, u16)> {
        ends.sort_unstable();
        let mut places = vec![Place::default(); (ends.len() * 2).next_power_of_two().max(2)];
        let mut ranges: Vec<Range> = Vec::with_capacity(ends.len());
        let same = |a: &End, b: &End| (a.0, a.1) == (b.0, b.1);
        for group in ends.chunk_by(same) {
            let begin = ranges.len() as u32;
            for &(_, _, first, last, number) in group {
                if let Some(before) = ranges.get(begin as usize..).and_then(|own| own.last())
                    && before.last >= first
                {
                    return Err((before.number, number));
                }
                ranges.push(Range { first, last, number });
            }
            let Some(&(address, kind, ..)) = group.first() else { continue };
            let mut at = hash(&address, kind) as usize;
            while places[at % places.len()].kind != 0 {
                at += 1;
            }
            let length = places.len();
            places[at % length] = Place { address, kind, begin, count: group.len() as u32 };
        }
        Ok(Ends { places: places.into_boxed_slice(), ranges })
    }

    #[inline(always)]
    fn place(&self, address: &Words, kind: u32) -> Option<&Place> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = hash(address, kind) as usize;
        loop {
            let place = self.places.get(at & mask)?;
            let [a, b, c, d] = *address;
            let [e, f, g, h] = place.address;
            // Not `==` of arrays, which in the sandbox is a call.
            if a ^ e | b ^ f | c ^ g | d ^ h | kind ^ place.kind == 0 {
                return Some(place);
            }
            if place.kind == 0 {
                return None;
            }
            at = at.wrapping_add(1);
        }
    }

    /// The number that an end has; the port is in host order.
    #[inline(always)]
    pub fn find(&self, address: &Words, kind: u32, port: u16) -> Option<u16> {
        let place = self.place(address, kind)?;
        let ranges = self.ranges.get(place.begin as usize..)?.get(..place.count as usize)?;
        let range = match ranges {
            [only] => only,
            _ => ranges.get(ranges.partition_point(|range| range.last < port))?,
        };
        (range.first <= port && port <= range.last).then_some(range.number)
    }

    /// Whether an address has an end of this kind.
    pub fn has(&self, address: &Words, kind: u32) -> bool {
        self.place(address, kind).is_some()
    }
}
