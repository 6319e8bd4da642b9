//! The routing table: gathers routes, then makes the tables that addresses are looked up in.
//!
//! 1. [`Routes::add`] takes routes in any order.
//! 2. [`Routes::finish`] sorts them, makes one set of the next hops of each prefix, and builds a [`Flat`]
//!    table for many IPv4 routes, a [`Trie`] for few and for IPv6.
//!
//! What it was made of stays beside it ([`Known`]): where the file of routes changes, [`crate::change`] makes
//! the parts of the table anew that this concerns. With any other change of the configuration another table
//! is made, beside the workers, while packets go by this one.

use crate::flat::Flat;
use crate::hops::{Collector, Hop, Hops, TooMany};
use crate::trie::{NoMemory, Prefix, Trie};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

/// From so many IPv4 prefixes on, the table is flat: below, a trie is small enough to stay in the processor's
/// caches.
pub const FLAT_FROM: usize = 4096;

/// Why there is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// There is no memory for it.
    NoMemory,
    /// There are more next hops, or sets of them, than can be told apart.
    TooMany,
}

impl From<NoMemory> for TableError {
    fn from(_: NoMemory) -> TableError {
        TableError::NoMemory
    }
}

impl From<TooMany> for TableError {
    fn from(_: TooMany) -> TableError {
        TableError::TooMany
    }
}

/// The table of IPv4.
#[derive(Debug)]
pub enum Four {
    /// For few routes.
    Trie(Trie),
    /// For many.
    Flat(Flat),
}

/// Tables of both families. What they find is the number of a set of [`Hops`].
#[derive(Debug)]
pub struct Table {
    /// Of IPv4.
    pub four: Four,
    /// Of IPv6.
    pub six: Trie,
    /// Prefixes of IPv4 and of IPv6, those of the interfaces and those that are never routed among them.
    pub routes: [usize; 2],
}

impl Table {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let four = match &self.four {
            Four::Trie(trie) => trie.bytes(),
            Four::Flat(flat) => flat.bytes(),
        };
        four + self.six.bytes()
    }

    /// The set of an address.
    pub fn lookup(&self, address: IpAddr) -> u16 {
        match address {
            IpAddr::V4(address) => self.four(address.octets()),
            IpAddr::V6(address) => self.six.lookup(&address.octets()) as u16,
        }
    }

    /// The set of an IPv4 address.
    #[inline(always)]
    pub fn four(&self, address: [u8; 4]) -> u16 {
        match &self.four {
            Four::Trie(trie) => trie.lookup(&address) as u16,
            Four::Flat(flat) => {
                let address = u32::from_be_bytes(address);
                flat.finish(address, flat.first(address))
            }
        }
    }
}

/// A route of IPv4: address, length and next hop in one word, in the order of prefixes.
pub type Route4 = u64;
/// A route of IPv6: address, length and next hop.
pub type Route6 = (u128, u8, u16);

/// All routes that a table is made of, sorted; one that was said twice is there twice.
#[derive(Debug, Default)]
pub struct Known {
    /// Of IPv4.
    pub four: Vec<Route4>,
    /// Of IPv6.
    pub six: Vec<Route6>,
}

impl Known {
    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.four.capacity() * size_of::<Route4>() + self.six.capacity() * size_of::<Route6>()
    }
}

/// Routes that are being gathered.
#[derive(Debug, Default)]
pub struct Routes {
    /// Next hops.
    pub hops: Collector,
    known: Known,
}

/// A route of IPv4.
pub fn route4(address: Ipv4Addr, length: u8, hop: u16) -> Route4 {
    u64::from(address.to_bits()) << 32 | u64::from(length) << 16 | u64::from(hop)
}

/// Its address, length and next hop.
pub fn parts4(route: Route4) -> ([u8; 4], u8, u16) {
    (((route >> 32) as u32).to_be_bytes(), (route >> 16) as u8, route as u16)
}

/// The same of IPv6.
pub fn parts6((address, length, hop): Route6) -> ([u8; 16], u8, u16) {
    (address.to_be_bytes(), length, hop)
}

impl Routes {
    /// Makes room for so many more routes.
    ///
    /// # Errors
    /// [`TableError::NoMemory`].
    pub fn reserve(&mut self, four: usize, six: usize) -> Result<(), TableError> {
        self.known.four.try_reserve(four).map_err(|_| TableError::NoMemory)?;
        self.known.six.try_reserve(six).map_err(|_| TableError::NoMemory)
    }

    /// Adds a route; the address' bits beyond the length are zero.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn add(&mut self, address: IpAddr, length: u8, hop: Hop) -> Result<(), TableError> {
        let hop = self.hops.hop(hop)?;
        self.add_known(address, length, hop)
    }

    /// The same with the number of a next hop.
    ///
    /// # Errors
    /// [`TableError::NoMemory`].
    #[inline]
    pub fn add_known(&mut self, address: IpAddr, length: u8, hop: u16) -> Result<(), TableError> {
        let Known { four, six } = &mut self.known;
        match address {
            IpAddr::V4(address) => {
                four.try_reserve(1).map_err(|_| TableError::NoMemory)?;
                four.push(route4(address, length, hop));
            }
            IpAddr::V6(address) => {
                six.try_reserve(1).map_err(|_| TableError::NoMemory)?;
                six.push((address.to_bits(), length, hop));
            }
        }
        Ok(())
    }

    /// The tables, and what they are made of.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn finish(self) -> Result<(Table, Hops, Known), TableError> {
        let Routes { hops, mut known } = self;
        known.four.sort_unstable();
        known.six.sort_unstable();
        let mut hops = hops.finish();
        let four = prefixes(&mut hops, &known.four, parts4)?;
        let six = prefixes(&mut hops, &known.six, parts6)?;
        let routes = [four.len(), six.len()];
        let four = if four.len() < FLAT_FROM {
            Four::Trie(Trie::build(&four)?)
        } else {
            Four::Flat(Flat::build(&four)?)
        };
        Ok((Table { four, six: Trie::build(&six)?, routes }, hops, known))
    }
}

/// One prefix for all of the sorted `list`'s entries that have the same one.
///
/// # Errors
/// [`TableError`].
pub fn prefixes<T: Copy, const N: usize>(
    hops: &mut Hops,
    list: &[T],
    parts: impl Fn(T) -> ([u8; N], u8, u16),
) -> Result<Vec<Prefix<N>>, TableError> {
    let mut all = Vec::new();
    all.try_reserve_exact(list.len()).map_err(|_| TableError::NoMemory)?;
    let mut group = Vec::new();
    let mut left = list.iter().copied().map(parts).peekable();
    while let Some((address, length, hop)) = left.next() {
        group.clear();
        group.push(hop);
        while let Some((_, _, other)) = left.next_if(|next| (next.0, next.1) == (address, length)) {
            if group.last() != Some(&other) {
                group.push(other);
            }
        }
        all.push(Prefix { address, length, value: hops.set(&group)? });
    }
    Ok(all)
}
