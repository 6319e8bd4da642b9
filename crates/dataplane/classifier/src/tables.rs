//! Terms by their masks: a hash table for each mask (tuple space search; Srinivasan, Suri and Varghese, 1999), and
//! before them, for some bytes of a key, which tables can have something for their values.

use crate::key::{Key, LEVELS, WORDS};
use crate::term::Term;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Tables: one for each bit of a word.
const TABLES: usize = 64;

/// Bytes of a key that tables are sorted out by, by word and shift: flags, protocol, tag, what identifies the tunnel,
/// ports, the beginnings of addresses; of the packet inside, ports and addresses.
const BYTES: [(u8, u8); 20] = [
    (0, 56),
    (0, 48),
    (0, 16),
    (1, 0),
    (1, 32),
    (1, 40),
    (1, 48),
    (1, 56),
    (2, 56),
    (2, 48),
    (2, 40),
    (4, 56),
    (4, 48),
    (4, 40),
    (8, 48),
    (9, 32),
    (9, 48),
    (10, 48),
    (12, 48),
    (14, 0),
];

/// What has to be looked at further when the key is that of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Nothing: it matches.
    None,
    /// The whole term, which is in the table of a coarser mask.
    Term,
    /// The rule's filter, and the term.
    Filter,
}

/// A rule that may match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Place of its rule in the order in which they go.
    pub rank: u32,
    /// Place of its term among those of its rule.
    pub term: u32,
    pub check: Check,
}

/// Candidates by key.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Those first whose first rule goes first.
    list: Vec<Table>,
    bytes: Vec<Byte>,
}

/// For each value of a byte a bit for each table that has an entry with it.
#[derive(Debug)]
struct Byte {
    word: u8,
    shift: u8,
    tables: Box<[u64; 256]>,
}

#[derive(Debug)]
struct Table {
    /// The words of the mask that are not zero.
    mask: Vec<(u8, u64)>,
    /// The least rank in it.
    least: u32,
    secret: u64,
    /// A power of two, at most half of them taken: a part of the hash, never 0, and the group.
    slots: Vec<(u32, u32)>,
    /// Of each group, the words of its key.
    values: Vec<u64>,
    /// Of each group, where its candidates begin; at the end, where the last one's end.
    begins: Vec<u32>,
    candidates: Vec<Candidate>,
}

type Groups = BTreeMap<Key, Vec<Candidate>>;

impl Tables {
    /// Of the terms of rules, by rank.
    pub fn new<'a>(rules: impl IntoIterator<Item = (u32, &'a [Term])>) -> Tables {
        let rules: Vec<_> = rules.into_iter().collect();
        let masks = masks(&rules);
        let mut tables: BTreeMap<Key, Groups> = BTreeMap::new();
        for (rank, terms) in rules {
            for (place, term) in terms.iter().enumerate() {
                // The finest that is a part of the term's own; a mask of nothing is one of them if they are not all.
                let coarser = |mask: &&Key| mask.iter().zip(&term.mask).all(|(mask, own)| mask & !own == 0);
                let bits = |mask: &Key| mask.iter().map(|word| word.count_ones()).sum::<u32>();
                let mask = match masks.contains_key(&term.mask) {
                    true => term.mask,
                    false => *masks
                        .keys()
                        .filter(coarser)
                        .max_by_key(|mask| bits(mask))
                        .unwrap_or(&[0; WORDS * LEVELS]),
                };
                let check = match (term.is_exact, mask == term.mask) {
                    (true, true) => Check::None,
                    (true, false) => Check::Term,
                    (false, _) => Check::Filter,
                };
                let mut value = term.value;
                value.iter_mut().zip(mask).for_each(|(value, mask)| *value &= mask);
                let group = tables.entry(mask).or_default().entry(value).or_default();
                group.push(Candidate { rank, term: place as u32, check });
            }
        }
        let state = RandomState::new();
        let mut list: Vec<(Table, Groups)> = tables
            .into_iter()
            .enumerate()
            .map(|(place, (mask, groups))| (Table::new(&mask, &groups, state.hash_one(place)), groups))
            .collect();
        list.sort_by_key(|(table, _)| table.least);
        let bytes = BYTES.iter().filter_map(|(word, shift)| Byte::new(*word, *shift, &list)).collect();
        Tables { list: list.into_iter().map(|(table, _)| table).collect(), bytes }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Calls `with` for the candidates of a key, until it answers the rank from which on none is wanted.
    #[inline]
    pub fn search(&self, key: &Key, mut with: impl FnMut(&Candidate) -> Option<u32>) {
        let mut left = u64::MAX.checked_shr((TABLES - self.list.len()) as u32).unwrap_or(0);
        for byte in &self.bytes {
            left &= byte.of(key);
        }
        let mut limit = u32::MAX;
        while let Some(table) = self.list.get(left.trailing_zeros() as usize) {
            left &= left - 1;
            if table.least >= limit {
                return;
            }
            for candidate in table.find(key) {
                if candidate.rank >= limit {
                    break;
                }
                if let Some(rank) = with(candidate) {
                    limit = rank;
                }
            }
        }
    }
}

/// The masks that get a table: all of them, or those of the most terms and that of nothing.
fn masks(rules: &[(u32, &[Term])]) -> BTreeMap<Key, usize> {
    let mut masks: BTreeMap<Key, usize> = BTreeMap::new();
    for term in rules.iter().flat_map(|(_, terms)| *terms) {
        *masks.entry(term.mask).or_default() += 1;
    }
    if masks.len() <= TABLES {
        return masks;
    }
    let mut most: Vec<_> = masks.into_iter().collect();
    most.sort_by_key(|(_, terms)| std::cmp::Reverse(*terms));
    most.truncate(TABLES - 1);
    most.push(([0; WORDS * LEVELS], 0));
    most.into_iter().collect()
}

impl Byte {
    /// `None` when it tells no tables apart.
    fn new(word: u8, shift: u8, list: &[(Table, Groups)]) -> Option<Byte> {
        let mut tables = Box::new([0; 256]);
        for (place, (table, groups)) in list.iter().enumerate() {
            let of = |mask: u64| (mask >> shift) as u8;
            let mask = table.mask.iter().find(|(at, _)| *at == word).map_or(0, |(_, mask)| of(*mask));
            for value in groups.keys() {
                let value = value.get(usize::from(word)).copied().map_or(0, of);
                for (byte, tables) in (0..=u8::MAX).zip(tables.iter_mut()) {
                    *tables |= u64::from(byte & mask == value) << place;
                }
                if mask == 0 {
                    break;
                }
            }
        }
        let is_all = |tables: &u64| tables.count_ones() as usize == list.len();
        (!tables.iter().all(is_all)).then_some(Byte { word, shift, tables })
    }

    #[inline(always)]
    fn of(&self, key: &Key) -> u64 {
        let byte = (word_of(key, self.word) >> (self.shift & 63)) as u8;
        self.tables[usize::from(byte)]
    }
}

#[inline(always)]
fn word_of(key: &Key, word: u8) -> u64 {
    key[usize::from(word) % (WORDS * LEVELS)]
}

impl Table {
    fn new(mask: &Key, groups: &Groups, secret: u64) -> Table {
        let mask: Vec<(u8, u64)> =
            (0..).zip(mask).filter(|(_, mask)| **mask != 0).map(|(at, mask)| (at, *mask)).collect();
        let size = (2 * groups.len()).next_power_of_two().max(2);
        let mut table = Table {
            mask,
            least: u32::MAX,
            secret,
            slots: vec![(0, 0); size],
            values: Vec::new(),
            begins: vec![0],
            candidates: Vec::new(),
        };
        for (group, (value, candidates)) in groups.iter().enumerate() {
            let (mut slot, tag) = table.place(value);
            while table.slots.get(slot).is_some_and(|(taken, _)| *taken != 0) {
                slot = (slot + 1) % size;
            }
            if let Some(free) = table.slots.get_mut(slot) {
                *free = (tag, group as u32);
            }
            table.values.extend(table.mask.iter().map(|(word, _)| word_of(value, *word)));
            table.candidates.extend(candidates);
            table.begins.push(table.candidates.len() as u32);
            table.least = candidates.iter().map(|candidate| candidate.rank).fold(table.least, u32::min);
        }
        table
    }

    /// The slot of a key and the part of its hash that is kept there. Hashes are keyed, so that packets cannot be made
    /// to collide.
    #[inline(always)]
    fn place(&self, key: &Key) -> (usize, u32) {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = self.secret;
        for (word, mask) in &self.mask {
            let product =
                u128::from(hash ^ word_of(key, *word) & mask) * u128::from(FACTOR ^ self.secret | 1);
            hash = product as u64 ^ (product >> 64) as u64;
        }
        ((hash >> 32) as usize & (self.slots.len() - 1), hash as u32 | 1)
    }

    /// What is known of a key, in the order of ranks.
    #[inline(always)]
    fn find(&self, key: &Key) -> &[Candidate] {
        let (mut slot, tag) = self.place(key);
        loop {
            let Some(&(found, group)) = self.slots.get(slot) else { return &[] };
            if found == 0 {
                return &[];
            }
            if found == tag && self.is_of(key, group) {
                let group = group as usize;
                let (Some(&begin), Some(&end)) = (self.begins.get(group), self.begins.get(group + 1)) else {
                    return &[];
                };
                return self.candidates.get(begin as usize..end as usize).unwrap_or_default();
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    #[inline(always)]
    fn is_of(&self, key: &Key, group: u32) -> bool {
        let begin = group as usize * self.mask.len();
        let values = self.values.get(begin..begin + self.mask.len()).unwrap_or_default();
        self.mask.iter().zip(values).all(|((word, mask), value)| word_of(key, *word) & mask == *value)
    }
}
