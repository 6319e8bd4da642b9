//! Terms by their masks: a hash table for each mask (tuple space search; Srinivasan, Suri and Varghese,
//! 1999), and before them, for some bytes of a key, which tables can have something for their values.

use crate::key::{Key, LEVELS, WORDS};
use crate::term::Term;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Tables: one for each bit of a word.
const TABLES: usize = 64;

/// The byte of flags, by word and shift: which kinds of header there are.
const FLAGS: (u8, u8) = (0, 56);
/// Bytes by which tables are sorted out besides.
const BYTES: usize = 8;
/// Of 256 values, those of a byte that says much of a table.
const FEW: u32 = 64;

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
    /// Of the rule.
    pub class: u16,
    pub check: Check,
}

/// A rule: its place in the order in which they go, its class and its terms.
#[derive(Clone, Copy)]
pub(crate) struct Ranked<'a> {
    pub rank: u32,
    pub class: u16,
    pub terms: &'a [Term],
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
    /// The words of the mask that are not zero, by their places: the first ones, and those beyond.
    mask: [(u8, u64); FIRST],
    more: Vec<(u8, u64)>,
    /// The least rank in it.
    least: u32,
    secret: [u64; FIRST],
    /// A power of two, at most half of them taken.
    slots: Vec<Slot>,
    /// Of each slot, the words beyond the first.
    values: Vec<u64>,
    candidates: Vec<Candidate>,
}

/// Words of a mask that are at hand: most masks have no more.
const FIRST: usize = 3;

/// What has the same key.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    value: [u64; FIRST],
    /// Its candidates, from the first to behind the last: none where it is free.
    begin: u32,
    end: u32,
}

type Groups = BTreeMap<Key, Vec<Candidate>>;

impl Tables {
    /// Of the terms of rules, by rank.
    pub fn new<'a>(rules: impl IntoIterator<Item = Ranked<'a>>) -> Tables {
        let rules: Vec<_> = rules.into_iter().collect();
        let masks = masks(&rules);
        let mut tables: BTreeMap<Key, Groups> = BTreeMap::new();
        for Ranked { rank, class, terms } in rules {
            for (place, term) in terms.iter().enumerate() {
                // The finest that is a part of the term's own; a mask of nothing is one of them if they are
                // not all.
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
                group.push(Candidate { rank, term: place as u32, class, check });
            }
        }
        let state = RandomState::new();
        let mut list: Vec<(Table, Groups)> = tables
            .into_iter()
            .enumerate()
            .map(|(place, (mask, groups))| {
                let secret = [0, 1, 2].map(|word| state.hash_one((place, word)) | 1);
                (Table::new(&mask, &groups, secret), groups)
            })
            .collect();
        list.sort_by_key(|(table, _)| table.least);
        let bytes = bytes(&list);
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
fn masks(rules: &[Ranked<'_>]) -> BTreeMap<Key, usize> {
    let mut masks: BTreeMap<Key, usize> = BTreeMap::new();
    for term in rules.iter().flat_map(|rule| rule.terms) {
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

/// The bytes by which tables are sorted out: the flags, and for each table that with the fewest values in it,
/// unless one that is there already has few. Zero is what is not there, so that a byte with entries of zero
/// tells little; EtherType and protocol are those of most packets.
fn bytes(list: &[(Table, Groups)]) -> Vec<Byte> {
    // A single table is as fast asked as sorted out.
    if list.len() < 2 {
        return Vec::new();
    }
    let places = (0..(WORDS * LEVELS) as u8).flat_map(|word| (0..8).map(move |byte| (word, 8 * byte)));
    let is_kind = |word: u8, shift: u8| usize::from(word) % WORDS == 0 && shift >= 32;
    let places = places.filter(|(word, shift)| !is_kind(*word, *shift));
    let mut rest: Vec<Byte> = places.filter_map(|(word, shift)| Byte::new(word, shift, list)).collect();
    let (word, shift) = FLAGS;
    let mut chosen: Vec<Byte> = Vec::new();
    for place in 0..list.len() {
        let values =
            |byte: &Byte| byte.tables.iter().filter(|tables| **tables >> place & 1 != 0).count() as u32;
        let has_few = |byte: &Byte| values(byte) <= FEW && byte.tables[0] >> place & 1 == 0;
        if chosen.len() == BYTES || chosen.iter().any(has_few) {
            continue;
        }
        let good = rest.iter().enumerate().filter(|(_, byte)| has_few(byte));
        if let Some((best, _)) = good.min_by_key(|(_, byte)| values(byte)) {
            chosen.push(rest.swap_remove(best));
        }
    }
    chosen.extend(Byte::new(word, shift, list));
    chosen
}

impl Byte {
    /// `None` when it tells no tables apart.
    fn new(word: u8, shift: u8, list: &[(Table, Groups)]) -> Option<Byte> {
        let of = |mask: u64| (mask >> shift) as u8;
        // Of a word that is missing nothing counts.
        let mask_of = |table: &Table| {
            let mut words = table.mask.iter().chain(&table.more);
            words.find(|(at, mask)| *at == word && *mask != 0).map_or(0, |(_, mask)| of(*mask))
        };
        if list.iter().all(|(table, _)| mask_of(table) == 0) {
            return None;
        }
        let mut tables = Box::new([0; 256]);
        for (place, (table, groups)) in list.iter().enumerate() {
            let mask = mask_of(table);
            let mut has = [mask == 0; 256];
            for value in groups.keys().filter_map(|value| value.get(usize::from(word))) {
                has[usize::from(of(*value))] = true;
            }
            for (byte, tables) in (0..=u8::MAX).zip(tables.iter_mut()) {
                *tables |= u64::from(has[usize::from(byte & mask)]) << place;
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
    fn new(mask: &Key, groups: &Groups, secret: [u64; FIRST]) -> Table {
        let words = (0..).zip(mask).filter(|(_, mask)| **mask != 0).map(|(at, mask)| (at, *mask));
        let mut more: Vec<(u8, u64)> = words.collect();
        let rest = more.split_off(more.len().min(FIRST));
        // A word that is missing is one of which nothing counts.
        let mut mask = [(0, 0); FIRST];
        mask.iter_mut().zip(more).for_each(|(place, word)| *place = word);
        let size = (2 * groups.len()).next_power_of_two();
        let mut table = Table {
            mask,
            values: vec![0; size * rest.len()],
            more: rest,
            least: u32::MAX,
            secret,
            slots: vec![Slot::default(); size],
            candidates: Vec::new(),
        };
        for (value, candidates) in groups {
            let first = table.masked(value);
            let mut place = table.place(value, &first);
            while table.slots.get(place).is_some_and(|slot| slot.begin < slot.end) {
                place = (place + 1) & (size - 1);
            }
            let begin = table.candidates.len() as u32;
            table.candidates.extend(candidates);
            let end = table.candidates.len() as u32;
            if let Some(slot) = table.slots.get_mut(place) {
                *slot = Slot { value: first, begin, end };
            }
            let values = table.values.iter_mut().skip(place * table.more.len());
            values.zip(&table.more).for_each(|(place, (word, _))| *place = word_of(value, *word));
            table.least = candidates.iter().map(|candidate| candidate.rank).fold(table.least, u32::min);
        }
        table
    }

    #[inline(always)]
    fn masked(&self, key: &Key) -> [u64; FIRST] {
        let of = |(word, mask): (u8, u64)| word_of(key, word) & mask;
        // `map` of an array is a loop and a call.
        [of(self.mask[0]), of(self.mask[1]), of(self.mask[2])]
    }

    /// The slot where a key is looked for first. Hashes are keyed, so that packets cannot be made to collide.
    #[inline(always)]
    fn place(&self, key: &Key, first: &[u64; FIRST]) -> usize {
        let [a, b, c] = *first;
        let [for_a, for_b, for_c] = self.secret;
        let mut hash = folded(folded(a ^ for_a, b ^ for_b) ^ c, for_c);
        for (word, mask) in &self.more {
            hash = folded(hash ^ word_of(key, *word) & mask, for_c);
        }
        hash as usize & (self.slots.len() - 1)
    }

    /// What is known of a key, in the order of ranks.
    #[inline(always)]
    fn find(&self, key: &Key) -> &[Candidate] {
        let first = self.masked(key);
        let mut place = self.place(key, &first);
        while let Some(slot) = self.slots.get(place) {
            // Word by word: what was just written in words is not compared as something longer.
            let [a, b, c] = slot.value;
            if (a ^ first[0]) | (b ^ first[1]) | (c ^ first[2]) == 0
                && (self.more.is_empty() || self.is_of(key, place))
            {
                return self.candidates.get(slot.begin as usize..slot.end as usize).unwrap_or_default();
            }
            if slot.begin == slot.end {
                break;
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
        &[]
    }

    /// Whether a slot has the words of a key beyond the first.
    fn is_of(&self, key: &Key, place: usize) -> bool {
        let begin = place * self.more.len();
        let values = self.values.get(begin..begin + self.more.len()).unwrap_or_default();
        self.more.iter().zip(values).all(|((word, mask), value)| word_of(key, *word) & mask == *value)
    }
}

#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
