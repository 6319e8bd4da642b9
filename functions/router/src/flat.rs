//! Longest prefix match for IPv4 in one read for nearly every address: an entry for each of the 2^24 values
//! of an address' first three bytes, as in DIR-24-8 (Gupta, Lin, McKeown, INFOCOM 1998), of two bytes, and a
//! node of [`crate::trie`] where prefixes are longer than that. Nodes belong to their /16, so that one can be
//! made anew while packets go by the others.
//!
//! Limits: values below 32,768; 32 MiB, whatever the prefixes are.

use crate::trie::{NoMemory, Nodes, Prefix, fill_places, longer_than};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Set in an entry that is the number of a node, from its /16's first one on.
const NODE: u16 = 1 << 15;
/// Entries of a /16.
const BLOCK: usize = 1 << 8;
/// How many /16 there are.
pub const BLOCKS: usize = 1 << 16;
/// Entries.
const ENTRIES: usize = 1 << 24;
/// Most values that entries can have.
pub const MAX_VALUES: usize = 1 << 15;

/// A table that changes by /16.
#[derive(Debug)]
pub struct Flat {
    entries: Box<[u16; ENTRIES]>,
    /// The nodes of each /16 that has any.
    blocks: Box<[Option<Box<Nodes>>]>,
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
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(BLOCKS).map_err(|_| NoMemory)?;
        blocks.resize_with(BLOCKS, || None);
        let mut flat = Flat { entries: zeros()?, blocks: blocks.into_boxed_slice() };
        for prefix in prefixes.iter().filter(|prefix| prefix.length <= 24) {
            let first = entry(prefix.address);
            if let Some(entries) = flat.entries.get_mut(first..first + (1 << (24 - prefix.length))) {
                entries.fill(prefix.value);
            }
        }
        for group in prefixes.chunk_by(|a, b| a.address[..2] == b.address[..2]) {
            let Some(first) = group.first() else { continue };
            let block = entry(first.address) / BLOCK;
            if let Some(entries) = flat.entries.get_mut(block * BLOCK..(block + 1) * BLOCK) {
                flat.blocks[block] = nodes(entries, group)?;
            }
        }
        Ok(flat)
    }

    /// Makes one /16 anew: addresses in it that are in none of the sorted `prefixes`, all of which are in the
    /// /16, find `inherited`.
    ///
    /// # Errors
    /// [`NoMemory`], and the /16 is as it was.
    pub fn rebuild(&mut self, block: u16, inherited: u16, prefixes: &[Prefix<4>]) -> Result<(), NoMemory> {
        let mut entries = [inherited; BLOCK];
        for prefix in prefixes.iter().filter(|prefix| (16..=24).contains(&prefix.length)) {
            let first = entry(prefix.address) % BLOCK;
            if let Some(entries) = entries.get_mut(first..first + (1 << (24 - prefix.length))) {
                entries.fill(prefix.value);
            }
        }
        let made = nodes(&mut entries, prefixes)?;
        let block = usize::from(block);
        if let Some(place) = self.entries.get_mut(block * BLOCK..(block + 1) * BLOCK) {
            place.copy_from_slice(&entries);
            self.blocks[block] = made;
        }
        Ok(())
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
        let nodes = self.blocks.get((address >> 16) as usize).and_then(Option::as_ref);
        nodes.map_or(0, |nodes| nodes.at(u32::from(first & !NODE), address as u8) as u16)
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let nodes = self.blocks.iter().flatten().map(|nodes| size_of::<Nodes>() + nodes.bytes());
        2 * ENTRIES + size_of_val(&*self.blocks) + nodes.sum::<usize>()
    }
}

/// The nodes of a /16 with these entries, which get their numbers; `prefixes` are those whose address is in
/// it, sorted.
fn nodes(entries: &mut [u16], prefixes: &[Prefix<4>]) -> Result<Option<Box<Nodes>>, NoMemory> {
    let mut nodes = Nodes::default();
    for (_, longer) in longer_than(24, 2, prefixes) {
        let Some(first) = longer.first() else { continue };
        let Some(place) = entries.get_mut(entry(first.address) % BLOCK) else { continue };
        let mut places = [u32::from(*place); 256];
        fill_places(&mut places, 3, longer);
        let node = nodes.reserve()?;
        nodes.fill(node, &places)?;
        *place = NODE | node as u16;
    }
    nodes.fit();
    Ok((nodes.count() > 0).then(|| Box::new(nodes)))
}
