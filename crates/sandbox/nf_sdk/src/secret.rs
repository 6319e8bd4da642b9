//! What an instance knows and senders of packets do not: random bytes of its own, by which its tables are
//! keyed.
//!
//! 1. [`Config::secret`](crate::Config::secret) makes it, in `NetworkFunction::new`, of the bytes that the
//!    host drew for this start.
//! 2. [`Secret::seed`] gives each table a seed of its own: what becomes known of one tells nothing of
//!    another.
//! 3. [`Secret::number`] makes choices that others see (a port, an identifier) and cannot foresee.
//!
//! Both are SipHash-2-4 (Aumasson and Bernstein, 2012), a pseudorandom function. What hashes a key for every
//! packet is [`KeyedHash`](crate::keyed_hash::KeyedHash), which is cheaper and shows none of its hashes.
//!
//! Limits: 128 bits. It is in the function's memory, and so in its snapshots and in clones of them.

// It is deprecated in favour of hashers whose algorithm is not promised; this one's is.
#![allow(deprecated)]

use core::hash::{Hasher, SipHasher};
use nf_abi::RANDOM;

/// An instance's secret.
#[derive(Clone, Copy)]
pub struct Secret {
    key: [u64; 2],
}

impl Secret {
    /// Of these bytes, all of which count.
    pub fn new(bytes: &[u8; RANDOM]) -> Secret {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |number: usize| words.get(number).map_or(0, |word| u64::from_le_bytes(*word));
        let first = Secret { key: [word(0), word(1)] };
        Secret { key: [first.number(&[word(2), word(3), 0]), first.number(&[word(2), word(3), 1])] }
    }

    /// The seed of the table with this name.
    pub fn seed(&self, table: &str) -> u64 {
        self.hash(0, table.as_bytes())
    }

    /// A number for these words: the same for the same words, and none that another one tells of.
    pub fn number<const WORDS: usize>(&self, words: &[u64; WORDS]) -> u64 {
        self.hash(1, words.map(u64::to_le_bytes).as_flattened())
    }

    /// `kind` keeps the names of tables and words apart.
    fn hash(&self, kind: u8, bytes: &[u8]) -> u64 {
        let [first, second] = self.key;
        let mut hasher = SipHasher::new_with_keys(first, second);
        hasher.write(bytes);
        hasher.write(&[kind]);
        hasher.finish()
    }
}

impl core::fmt::Debug for Secret {
    /// Tells nothing of it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::format;

    /// Every bit of the random bytes decides, and so does every bit of what is hashed.
    #[test]
    fn every_bit_changes_all_that_comes_of_it() {
        let bytes: [u8; RANDOM] = core::array::from_fn(|n| n as u8);
        let secret = Secret::new(&bytes);
        let mut seeds = BTreeSet::from([secret.seed("flows"), secret.seed("flow"), secret.seed("")]);
        let mut numbers = BTreeSet::from([secret.number(&[1, 2])]);
        for bit in 0..8 * RANDOM {
            let mut other = bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            let other = Secret::new(&other);
            assert!(seeds.insert(other.seed("flows")) && numbers.insert(other.number(&[1, 2])), "bit {bit}");
        }
        for bit in 0..64 {
            assert!(numbers.insert(secret.number(&[1 ^ 1 << bit, 2])), "bit {bit}");
            assert!(numbers.insert(secret.number(&[1, 2 ^ 1 << bit])), "bit {bit}");
        }
        assert_eq!(Secret::new(&bytes).seed("flows"), secret.seed("flows"));
    }

    /// A name that reads like words is no word.
    #[test]
    fn names_and_words_are_told_apart() {
        let secret = Secret::new(&[7; RANDOM]);
        assert_ne!(secret.seed("12345678"), secret.number(&[u64::from_le_bytes(*b"12345678")]));
    }

    /// It is the function of the paper: the key 00 to 0f, and the fifteen bytes 00 to 0e (appendix A).
    #[test]
    fn it_is_siphash_2_4() {
        let [first, second] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let mut hasher = SipHasher::new_with_keys(first, second);
        hasher.write(&core::array::from_fn::<u8, 15, _>(|n| n as u8));
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn it_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new(&[0x5a; RANDOM])), "Secret");
    }
}
