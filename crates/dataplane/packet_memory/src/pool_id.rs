//! Numbers of pools: no two pools that exist have the same.

use std::sync::{Mutex, PoisonError};

/// The largest number: packets have one more bit beside it.
const LAST: u16 = 0x7fff;

/// The number of a pool, from 1 to 32,767. Packets and buffers carry it, in host memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PoolId(u16);

/// A bit for each number that a pool has, and the last one that was given.
struct Given {
    bits: [u64; 512],
    last: u16,
}

static GIVEN: Mutex<Given> = Mutex::new(Given { bits: [0; 512], last: 0 });

impl PoolId {
    /// A number that no pool has, and that was not given for as long as possible; `None` when all are given.
    pub(crate) fn new() -> Option<PoolId> {
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..LAST {
            given.last = if given.last < LAST { given.last + 1 } else { 1 };
            let number = given.last;
            let (word, bit) = (usize::from(number / 64), 1 << (number % 64));
            if given.bits[word] & bit == 0 {
                given.bits[word] |= bit;
                return Some(PoolId(number));
            }
        }
        None
    }

    #[inline]
    pub(crate) fn number(&self) -> u16 {
        self.0
    }
}

impl Drop for PoolId {
    fn drop(&mut self) {
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        given.bits[usize::from(self.0 / 64)] &= !(1 << (self.0 % 64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_given_once_and_again_when_they_are_back() {
        let all: Vec<PoolId> = std::iter::from_fn(PoolId::new).collect();
        let numbers: BTreeSet<u16> = all.iter().map(PoolId::number).collect();
        assert_eq!(numbers.len(), all.len());
        assert!(!numbers.contains(&0));
        // Other tests of this process may have some.
        assert!(all.len() > 30_000, "{}", all.len());
        drop(all);
        assert!(PoolId::new().is_some());
    }
}
