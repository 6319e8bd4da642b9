//! Longest prefix match for IPv4 in one read for nearly every address: an entry for each of the 2^24 values
//! of an address' first three bytes, as in DIR-24-8 (Gupta, Lin, McKeown, INFOCOM 1998), of two bytes, and a
//! node of [`crate::trie`] where prefixes are longer than that.
//!
//! Limits: values below 32,768; 32 MiB, whatever the prefixes are.

use crate::trie::{NoMemory, Nodes, Prefix, fill_places, longer_than};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Set in an entry that is the number of a node, from its /16's first one on.
const NODE: u16 = 1 << 15;
/// Entries.
const ENTRIES: usize = 1 << 24;
/// Most values that entries can have.
pub const MAX_VALUES: usize = 1 << 15;

/// A table that does not change.
#[derive(Debug)]
pub struct Flat {
    entries: Box<[u16; ENTRIES]>,
    /// The first node of each /16 that has any.
    bases: Box<[u32; 1 << 16]>,
    nodes: Nodes,
}

/// Zeros; straight from the allocator, and no memory until they are written.
fn zeros<T: Copy + Default, const N: usize>() -> Result<Box<[T; N]>, NoMemory> {
    let mut all = Vec::new();
    all.try_reserve_exact(N).map_err(|_| NoMemory)?;
    all.resize(N, T::default());
    all.into_boxed_slice().try_into().map_err(|_| NoMemory)
}

#[inline(always)]
fn entry(address: [u8; 4]) -> usize {
    (u32::from_be_bytes(address) >> 8) as usize
}

impl Flat {
    /// The table of these prefixes, which are sorted, each once; an address under none of them finds 0.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn build(prefixes: &[Prefix<4>]) -> Result<Flat, NoMemory> {
        let mut flat = Flat { entries: zeros()?, bases: zeros()?, nodes: Nodes::default() };
        for prefix in prefixes.iter().filter(|prefix| prefix.length <= 24) {
            let first = entry(prefix.address);
            if let Some(entries) = flat.entries.get_mut(first..first + (1 << (24 - prefix.length))) {
                entries.fill(prefix.value);
            }
        }
        for group in prefixes.chunk_by(|a, b| a.address[..2] == b.address[..2]) {
            let base = flat.nodes.count();
            for (_, longer) in longer_than(24, 2, group) {
                let Some(first) = longer.first() else { continue };
                let place = entry(first.address);
                let mut places = [u32::from(flat.entries[place]); 256];
                fill_places(&mut places, 3, longer);
                let node = flat.nodes.reserve()?;
                flat.nodes.fill(node, &places)?;
                flat.entries[place] = NODE | (node - base) as u16;
                flat.bases[place >> 8] = base as u32;
            }
        }
        Ok(flat)
    }

    /// What the address' entry says: the first step of a lookup, [`Flat::finish`] the second.
    #[inline(always)]
    pub fn first(&self, address: u32) -> u16 {
        self.entries[(address >> 8) as usize]
    }

    /// What is found under the longest prefix of the address, 0 when there is none, by what [`Flat::first`]
    /// says.
    #[inline(always)]
    pub fn finish(&self, address: u32, first: u16) -> u16 {
        if first & NODE == 0 { first } else { self.longer(address, first) }
    }

    #[inline(never)]
    fn longer(&self, address: u32, first: u16) -> u16 {
        let base = self.bases[(address >> 16) as usize];
        self.nodes.at(base + u32::from(first & !NODE), address as u8) as u16
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        2 * ENTRIES + 4 * self.bases.len() + self.nodes.bytes()
    }
}
