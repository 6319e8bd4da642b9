//! Longest prefix match for addresses of any length, in memory that grows with the number of prefixes: a trie
//! of nodes of 256 places, of which only the places where the value changes are kept, as in Poptrie (Asai,
//! Ohara, SIGCOMM 2015), with a bit for each place and a count of bits instead of pointers.
//!
//! 1. [`Trie::build`] takes all prefixes in the order of [`Prefix`]; there is no change afterwards. A changed
//!    table is a new trie.
//! 2. [`Trie::lookup`] takes the first two bytes of an address at once and one more byte at each node.
//!
//! Limits: values are below 2^31; a path that no other prefix shares still has a node for each byte.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Set in a value that is the number of a node.
const NODE: u32 = 1 << 31;

/// Bytes of an address that the root looks at.
pub const ROOT_BYTES: usize = 2;

/// A prefix and what is found under it. Prefixes sort by address, then by length: one that covers others
/// comes before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix<const N: usize> {
    /// The address; bits beyond the length are zero.
    pub address: [u8; N],
    /// Leading bits that count.
    pub length: u8,
    /// What is found.
    pub value: u16,
}

/// There is no memory for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// Where a value begins among 256 places, and the values.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Node {
    /// A bit for each place whose value is not that of the place before.
    starts: [u64; 4],
    /// How many bits are set in the words before each, eight bits for each word.
    before: u32,
    /// The first value.
    base: u32,
}

/// Nodes and their values.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: Vec<Node>,
    values: Vec<u32>,
}

impl Nodes {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>() + self.values.len() * size_of::<u32>()
    }

    /// Gives back memory for nodes to come: there are none.
    pub fn fit(&mut self) {
        self.nodes.shrink_to_fit();
        self.values.shrink_to_fit();
    }

    /// Makes room for a node, to be filled by [`Nodes::fill`]: nodes of neighbouring places are neighbours.
    pub fn reserve(&mut self) -> Result<usize, NoMemory> {
        self.nodes.try_reserve(1).map_err(|_| NoMemory)?;
        self.nodes.push(Node { starts: [1, 0, 0, 0], before: 0, base: 0 });
        Ok(self.nodes.len() - 1)
    }

    /// Writes the values of a node's places.
    pub fn fill(&mut self, node: usize, places: &[u32; 256]) -> Result<(), NoMemory> {
        let mut starts = [0u64; 4];
        let mut before = None;
        self.values.try_reserve(places.len()).map_err(|_| NoMemory)?;
        let base = self.values.len() as u32;
        for (place, value) in places.iter().enumerate() {
            if before != Some(*value) {
                starts[place >> 6] |= 1 << (place & 63);
                self.values.push(*value);
                before = Some(*value);
            }
        }
        let mut count = 0;
        let mut counts = 0;
        for (word, starts) in starts.iter().enumerate() {
            counts |= count << (8 * word);
            count += starts.count_ones();
        }
        if let Some(node) = self.nodes.get_mut(node) {
            *node = Node { starts, before: counts, base };
        }
        Ok(())
    }

    /// The value at one of a node's places.
    #[inline(always)]
    pub fn at(&self, node: u32, place: u8) -> u32 {
        let Some(node) = self.nodes.get(node as usize) else { return 0 };
        let word = usize::from(place >> 6);
        let here = node.starts[word] << (63 - (place & 63));
        let number = (node.before >> (8 * word) & 0xff) + here.count_ones() - 1;
        self.values.get((node.base + number) as usize).copied().unwrap_or(0)
    }

    /// Builds the node whose places are the byte `depth` of the addresses of `prefixes`, all of which are
    /// longer than that byte's first bit and equal before it. What they do not cover is `inherited`.
    fn build<const N: usize>(
        &mut self,
        node: usize,
        depth: usize,
        prefixes: &[Prefix<N>],
        inherited: u32,
    ) -> Result<(), NoMemory> {
        let mut places = [inherited; 256];
        fill_places(&mut places, depth, prefixes);
        for (place, longer) in longer_than(8 * (depth + 1), depth, prefixes) {
            let child = self.reserve()?;
            self.build(child, depth + 1, longer, places[usize::from(place)])?;
            places[usize::from(place)] = NODE | child as u32;
        }
        self.fill(node, &places)
    }
}

/// Writes the prefixes that end within the byte `depth` to its places.
pub fn fill_places<const N: usize>(places: &mut [u32; 256], depth: usize, prefixes: &[Prefix<N>]) {
    for prefix in prefixes.iter().filter(|prefix| usize::from(prefix.length) <= 8 * (depth + 1)) {
        let first = usize::from(prefix.address[depth]);
        let count = 1 << (8 * (depth + 1) - usize::from(prefix.length));
        if let Some(places) = places.get_mut(first..first + count) {
            places.fill(u32::from(prefix.value));
        }
    }
}

/// Groups of prefixes longer than `bits`, by the byte `depth` of their addresses.
pub fn longer_than<const N: usize>(
    bits: usize,
    depth: usize,
    prefixes: &[Prefix<N>],
) -> impl Iterator<Item = (u8, &[Prefix<N>])> {
    prefixes.chunk_by(move |a, b| a.address[depth] == b.address[depth]).filter_map(move |group| {
        // A group begins with the prefixes that cover all of it, which are not longer.
        let short = group.iter().take_while(|prefix| usize::from(prefix.length) <= bits).count();
        let longer = &group[short..];
        longer.first().map(|first| (first.address[depth], longer))
    })
}

/// A table that does not change.
#[derive(Debug)]
pub struct Trie {
    root: Box<[u32]>,
    nodes: Nodes,
}

impl Trie {
    /// The table of these prefixes, which are sorted, each once; an address under none of them finds 0.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn build<const N: usize>(prefixes: &[Prefix<N>]) -> Result<Trie, NoMemory> {
        let mut root = vec![0u32; 1 << (8 * ROOT_BYTES)].into_boxed_slice();
        for prefix in prefixes.iter().filter(|prefix| usize::from(prefix.length) <= 8 * ROOT_BYTES) {
            let first = root_place(&prefix.address);
            let count = 1 << (8 * ROOT_BYTES - usize::from(prefix.length));
            if let Some(places) = root.get_mut(first..first + count) {
                places.fill(u32::from(prefix.value));
            }
        }
        let mut nodes = Nodes::default();
        for group in prefixes.chunk_by(|a, b| a.address[..ROOT_BYTES] == b.address[..ROOT_BYTES]) {
            let short =
                group.iter().take_while(|prefix| usize::from(prefix.length) <= 8 * ROOT_BYTES).count();
            let longer = &group[short..];
            if let Some(first) = longer.first() {
                let place = root_place(&first.address);
                let node = nodes.reserve()?;
                nodes.build(node, ROOT_BYTES, longer, root[place])?;
                root[place] = NODE | node as u32;
            }
        }
        Ok(Trie { root, nodes })
    }

    /// What is found under the longest prefix of the address, 0 when there is none.
    #[inline(always)]
    pub fn lookup<const N: usize>(&self, address: &[u8; N]) -> u32 {
        let mut value = self.first(address);
        let mut depth = ROOT_BYTES;
        while value & NODE != 0 && depth < N {
            value = self.nodes.at(value & !NODE, address[depth]);
            depth += 1;
        }
        value
    }

    /// What the root has of the address: the first step of [`Trie::lookup`].
    #[inline(always)]
    pub fn first<const N: usize>(&self, address: &[u8; N]) -> u32 {
        self.root.get(root_place(address)).copied().unwrap_or(0)
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.root.len() * size_of::<u32>() + self.nodes.bytes()
    }
}

#[inline(always)]
fn root_place<const N: usize>(address: &[u8; N]) -> usize {
    usize::from(address[0]) << 8 | usize::from(address[1])
}
