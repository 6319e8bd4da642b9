//! A hash for tables whose keys come from packets: senders who do not know its key cannot choose keys that
//! collide.
//!
//! It is NH (Black et al., "UMAC: fast and secure message authentication", 1999), whose collisions are rare
//! for any two keys, and a finishing step that brings its good bits to where tables look. Its products do not
//! wait for each other, unlike those of a hash that mixes word by word, where some bits of a word come out at
//! the same places whatever the secret.

/// A word of two halves.
#[inline(always)]
pub const fn two(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// Hashes keys of up to so many words.
#[derive(Clone, Copy, Debug)]
pub struct KeyedHash<const WORDS: usize> {
    key: [[u32; 2]; WORDS],
}

impl<const WORDS: usize> KeyedHash<WORDS> {
    /// Stretches a seed to a key.
    pub fn new(seed: u64) -> KeyedHash<WORDS> {
        let mut state = seed;
        let mut next = || {
            // SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ mixed >> 31) as u32
        };
        KeyedHash { key: core::array::from_fn(|_| [next(), next()]) }
    }

    /// The hash of a key.
    #[inline(always)]
    pub fn of(&self, words: &[u64; WORDS]) -> u64 {
        self.of_first(words)
    }

    /// The same of a key that is shorter; of keys of several lengths, something in them has to tell the
    /// length.
    #[inline(always)]
    pub fn of_first<const FIRST: usize>(&self, words: &[u64; FIRST]) -> u64 {
        const { assert!(FIRST <= WORDS) };
        let products = words.iter().zip(&self.key).map(|(word, [low, high])| {
            let low = (*word as u32).wrapping_add(*low);
            let high = ((*word >> 32) as u32).wrapping_add(*high);
            u64::from(low).wrapping_mul(u64::from(high))
        });
        let sum = products.fold(0, u64::wrapping_add);
        let mixed = (sum ^ sum >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// Of two keys that differ in a bit, the hashes differ by something that the secret decides, at every bit
    /// and in every part of the hash that tables look at.
    #[test]
    fn what_a_bit_changes_depends_on_the_secret() {
        let words = [0x0a00_0001_c000_0201, 7, 0xffff_0000_1234, 80, u64::MAX, 0];
        for bit in 0..64 {
            for word in 0..words.len() {
                let mut other = words;
                other[word] ^= 1 << bit;
                let differences = (0..200u64).map(|seed| {
                    let hash = KeyedHash::<6>::new(seed);
                    hash.of(&words) ^ hash.of(&other)
                });
                let (low, high): (BTreeSet<u16>, BTreeSet<u16>) =
                    differences.map(|difference| (difference as u16, (difference >> 48) as u16)).unzip();
                assert!(low.len() > 150 && high.len() > 150, "bit {bit} of word {word}");
            }
        }
    }

    /// Keys that differ in few bits, as those of a flood do, are spread like chance keys.
    #[test]
    fn keys_in_a_row_are_spread() {
        for seed in 0..20 {
            let hash = KeyedHash::<2>::new(seed);
            let mut sets = [0u32; 256];
            for number in 0..4096u64 {
                sets[hash.of(&[number << 32 | 0x0a00_0001, number << 7]) as usize & 255] += 1;
            }
            assert!(sets.iter().all(|count| *count < 48), "seed {seed}");
        }
    }
}
