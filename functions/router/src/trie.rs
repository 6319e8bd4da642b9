//! Longest prefix match for addresses of any length, in memory that grows with the number of prefixes: a trie
//! of nodes of 256 places, of which only the places where the value changes are kept, as in Poptrie (Asai,
//! Ohara, SIGCOMM 2015), with a bit for each place and a count of bits instead of pointers.
//!
//! 1. [`Trie::build`] takes all prefixes in the order of [`Prefix`]; there is no change afterwards. A changed
//!    table is a new trie, which a [`Builder`] makes in as many parts as one likes.
//! 2. [`Trie::lookup`] takes the first two bytes of an address at once and one more byte at each node.
//!
//! Limits: values are below 2^31; a path that no other prefix shares still has a node for each byte.

use alloc::boxed::Box;
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
        let mut builder = Builder::new()?;
        for prefix in prefixes {
            builder.add(prefix)?;
        }
        builder.finish()
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

/// A node that is not complete: prefixes to come may be under it.
#[derive(Debug)]
struct Open {
    node: usize,
    places: [u32; 256],
}

/// A trie in the making.
///
/// The nodes on the way to the latest prefix are open. A prefix behind it in the order closes those that it
/// is not under, so that each node is written once, and no more is done for a prefix than opening and
/// closing a node for each of its bytes.
#[derive(Debug)]
pub struct Builder<const N: usize> {
    trie: Trie,
    /// The latest prefix' address.
    latest: [u8; N],
    /// Nodes on the way to it, the first of which looks at the byte behind the root's.
    open: Vec<Open>,
}

impl<const N: usize> Builder<N> {
    /// With no prefix.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new() -> Result<Builder<N>, NoMemory> {
        let mut root = Vec::new();
        root.try_reserve_exact(1 << (8 * ROOT_BYTES)).map_err(|_| NoMemory)?;
        root.resize(1 << (8 * ROOT_BYTES), 0u32);
        let trie = Trie { root: root.into_boxed_slice(), nodes: Nodes::default() };
        let mut open = Vec::new();
        open.try_reserve_exact(N - ROOT_BYTES).map_err(|_| NoMemory)?;
        Ok(Builder { trie, latest: [0; N], open })
    }

    /// Makes room for the nodes of so many prefixes, as [`nodes_behind`] counts these: what is added then
    /// moves no memory.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn reserve(&mut self, nodes: usize, prefixes: usize) -> Result<(), NoMemory> {
        let Nodes { nodes: all, values } = &mut self.trie.nodes;
        all.try_reserve_exact(nodes).map_err(|_| NoMemory)?;
        // A prefix begins a value and ends it, and so does a place that leads to a node; the first place of a
        // node begins one; what is filled may have as many as a node has places.
        values.try_reserve_exact(2 * prefixes + 3 * nodes + 256).map_err(|_| NoMemory)
    }

    /// Adds a prefix, which comes behind all others in their order.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn add(&mut self, prefix: &Prefix<N>) -> Result<(), NoMemory> {
        // What ends within a byte is covered by no node of the next one: that comes first in the order.
        self.close(common(&self.latest, &prefix.address).saturating_sub(ROOT_BYTES - 1))?;
        self.latest = prefix.address;
        while self.open.len() < nodes_of(prefix.length) {
            let depth = ROOT_BYTES + self.open.len();
            let node = self.trie.nodes.reserve()?;
            let place = self.place(depth);
            let inherited = core::mem::replace(place, NODE | node as u32);
            self.open.push(Open { node, places: [inherited; 256] });
        }
        let depth = ROOT_BYTES + self.open.len();
        if let Some(open) = self.open.last_mut() {
            fill_places(&mut open.places, depth - 1, &[*prefix]);
            return Ok(());
        }
        let first = root_place(&prefix.address);
        let count = 1 << (8 * ROOT_BYTES - usize::from(prefix.length));
        if let Some(places) = self.trie.root.get_mut(first..first + count) {
            places.fill(u32::from(prefix.value));
        }
        Ok(())
    }

    /// The place before the byte `depth` on the way to the latest prefix.
    fn place(&mut self, depth: usize) -> &mut u32 {
        match self.open.last_mut() {
            Some(open) => &mut open.places[usize::from(self.latest[depth - 1])],
            None => &mut self.trie.root[root_place(&self.latest)],
        }
    }

    /// Writes the open nodes but for the first `left`.
    fn close(&mut self, left: usize) -> Result<(), NoMemory> {
        for open in self.open.drain(left.min(self.open.len())..).rev() {
            self.trie.nodes.fill(open.node, &open.places)?;
        }
        Ok(())
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.trie.nodes.count()
    }

    /// How many nodes and values there is room for.
    #[cfg(test)]
    pub fn room(&self) -> [usize; 2] {
        [self.trie.nodes.nodes.capacity(), self.trie.nodes.values.capacity()]
    }

    /// The table of all of them.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn finish(mut self) -> Result<Trie, NoMemory> {
        self.close(0)?;
        Ok(self.trie)
    }
}

/// How many nodes are on the way to a prefix of this length.
fn nodes_of(length: u8) -> usize {
    usize::from(length).div_ceil(8).saturating_sub(ROOT_BYTES)
}

/// How many bytes two addresses begin with alike.
fn common<const N: usize>(one: &[u8; N], other: &[u8; N]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// How many nodes a prefix needs that comes directly behind `before` in the order, beyond those that the ones
/// before it need. Both are an address and a length.
pub fn nodes_behind<const N: usize>(before: (&[u8; N], u8), prefix: (&[u8; N], u8)) -> usize {
    let shared = common(before.0, prefix.0).saturating_sub(ROOT_BYTES - 1).min(nodes_of(before.1));
    nodes_of(prefix.1).saturating_sub(shared)
}
