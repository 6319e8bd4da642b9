//! The routing table: gathers routes, then makes the tables that addresses are looked up in.
//!
//! 1. [`Routes::add`] takes routes in any order.
//! 2. [`Routes::finish`] sorts them, makes one set of the next hops of each prefix, and builds a [`Flat`]
//!    table for many IPv4 routes, a [`Trie`] for few and for IPv6.
//!
//! A table does not change. Another one is made from the next configuration, beside the workers, while
//! packets go by this one.

use crate::flat::Flat;
use crate::hops::{Collector, Hop, Hops, TooMany};
use crate::trie::{NoMemory, Prefix, Trie};
use alloc::vec::Vec;
use core::net::IpAddr;

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

/// Routes that are being gathered.
#[derive(Debug, Default)]
pub struct Routes {
    /// Next hops.
    pub hops: Collector,
    /// Address, length and next hop in one word, in the order of prefixes.
    four: Vec<u64>,
    six: Vec<(u128, u8, u16)>,
}

impl Routes {
    /// Makes room for so many more routes.
    ///
    /// # Errors
    /// [`TableError::NoMemory`].
    pub fn reserve(&mut self, four: usize, six: usize) -> Result<(), TableError> {
        self.four.try_reserve(four).map_err(|_| TableError::NoMemory)?;
        self.six.try_reserve(six).map_err(|_| TableError::NoMemory)
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
        match address {
            IpAddr::V4(address) => {
                self.four.try_reserve(1).map_err(|_| TableError::NoMemory)?;
                let word = u64::from(address.to_bits()) << 32 | u64::from(length) << 16 | u64::from(hop);
                self.four.push(word);
            }
            IpAddr::V6(address) => {
                self.six.try_reserve(1).map_err(|_| TableError::NoMemory)?;
                self.six.push((address.to_bits(), length, hop));
            }
        }
        Ok(())
    }

    /// The tables.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn finish(self) -> Result<(Table, Hops), TableError> {
        let Routes { mut hops, mut four, mut six } = self;
        four.sort_unstable();
        let four = prefixes(&mut hops, &four, |word| {
            (((word >> 32) as u32).to_be_bytes(), (word >> 16) as u8, word as u16)
        })?;
        six.sort_unstable();
        let six = prefixes(&mut hops, &six, |(address, length, hop)| (address.to_be_bytes(), length, hop))?;
        let routes = [four.len(), six.len()];
        let four = if four.len() < FLAT_FROM {
            Four::Trie(Trie::build(&four)?)
        } else {
            Four::Flat(Flat::build(&four)?)
        };
        Ok((Table { four, six: Trie::build(&six)?, routes }, hops.finish()))
    }
}

/// One prefix for all of the sorted `list`'s entries that have the same one.
fn prefixes<T: Copy, const N: usize>(
    hops: &mut Collector,
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
