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

/// What follows the name of a table, and the words of a number: keeps them apart.
const NAME: u8 = 0;
const NUMBER: u8 = 1;

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
        let [first, second] = self.key;
        let mut hasher = SipHasher::new_with_keys(first, second);
        hasher.write(table.as_bytes());
        hasher.write(&[NAME]);
        hasher.finish()
    }

    /// A number for these words: the same for the same words, and none that another one tells of. What
    /// `WORDS` is counts too: a number of more words tells nothing of that of the first of them.
    #[inline]
    pub fn number<const WORDS: usize>(&self, words: &[u64; WORDS]) -> u64 {
        // As `seed` has it, of bytes that come in words: half the instructions of a hasher of any bytes.
        let [first, second] = self.key;
        let mut state = [
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ];
        for word in words {
            state = taken(state, *word);
        }
        state = taken(state, (WORDS as u64 * 8 + 1) << 56 | u64::from(NUMBER));
        state[2] ^= 0xff;
        let [a, b, c, d] = round(round(round(round(state))));
        a ^ b ^ c ^ d
    }
}

/// A word is taken in.
#[inline(always)]
const fn taken([a, b, c, d]: [u64; 4], word: u64) -> [u64; 4] {
    let [a, b, c, d] = round(round([a, b, c, d ^ word]));
    [a ^ word, b, c, d]
}

/// A round of SipHash.
#[inline(always)]
const fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    [a, b, c, d]
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

    /// Numbers are the same function's as seeds.
    #[test]
    fn numbers_are_siphash_too() {
        fn number<const WORDS: usize>(secret: &Secret, words: &[u64; WORDS]) {
            let mut hasher = SipHasher::new_with_keys(secret.key[0], secret.key[1]);
            words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
            hasher.write(&[NUMBER]);
            assert_eq!(secret.number(words), hasher.finish());
        }
        for byte in 0..16 {
            let secret = Secret::new(&[byte; RANDOM]);
            let words: [u64; 9] = core::array::from_fn(|n| secret.number(&[n as u64]));
            number::<0>(&secret, &[]);
            number(&secret, words.first_chunk::<1>().expect("nine"));
            number(&secret, words.first_chunk::<4>().expect("nine"));
            number(&secret, &words);
        }
    }

    #[test]
    fn it_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new(&[0x5a; RANDOM])), "Secret");
    }
}
