//! The table against a map.

use crate::table::{BucketTable, Key};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

fn key(number: u64) -> Key {
    // Short ones and long ones.
    if number.is_multiple_of(3) { [1 << 11, number, 0, 0, 0] } else { [1 << 11, number, 7, number, 9] }
}

proptest! {
    #[test]
    fn it_is_a_map_with_a_limit(
        steps in prop::collection::vec((0..4u8, 0..120u64), 1..400), limit in 1..100usize, seed: u64,
    ) {
        let mut table = BucketTable::new(limit, seed).expect("memory");
        let mut map: BTreeMap<Key, u64> = BTreeMap::new();
        for (n, (what, number)) in steps.into_iter().enumerate() {
            let key = key(number);
            let hash = table.hash(&key);
            let found = table.find(&key, hash);
            prop_assert_eq!(found.map(|slot| table.get(slot).1[1]), map.get(&key).copied());
            match (what, found) {
                (0 | 1, None) => {
                    let room = map.len() < limit;
                    let slot = table.insert(&key, hash, &[0, n as u64, 0]);
                    prop_assert_eq!(slot.is_some(), room, "groups are two thirds full at most");
                    if let Some(slot) = slot {
                        prop_assert_eq!(table.excess(slot), Default::default());
                        table.exceed(slot, 1, number);
                        map.insert(key, n as u64);
                    }
                }
                (2, Some(slot)) => {
                    table.remove(slot);
                    map.remove(&key);
                }
                (3, _) => {
                    let swept = table.sweep(2, |_, level| level[1] % 2 == 0);
                    prop_assert!(swept <= 30);
                    map.retain(|key, _| table.find(key, table.hash(key)).is_some());
                }
                _ => {}
            }
            prop_assert_eq!(table.len(), map.len());
        }
        let mut all: Vec<(Key, u64)> = table.iter().map(|slot| (table.get(slot).0, table.get(slot).1[1])).collect();
        all.sort_unstable();
        prop_assert_eq!(all, map.iter().map(|(key, n)| (*key, *n)).collect::<Vec<_>>());
        for key in map.keys() {
            let hash = table.hash(key);
            let slot = table.find(key, hash).expect("it is there");
            prop_assert!(table.has(slot, key));
            prop_assert_eq!(table.victim(hash, |other, _| other == key), Some(slot));
        }
        table.clear();
        prop_assert!(table.is_empty() && table.iter().next().is_none());
        for key in map.keys() {
            prop_assert!(!table.has(table.probable(table.hash(key)), key));
        }
    }
}

#[test]
fn a_table_fills_to_its_limit() {
    let mut table = BucketTable::new(100_000, 99).expect("memory");
    for number in 0..100_000 {
        let key = key(number);
        assert!(table.insert(&key, table.hash(&key), &[0; 3]).is_some(), "{number}");
    }
    let probable = (0..100_000).filter(|number| {
        let key = key(*number);
        table.has(table.probable(table.hash(&key)), &key)
    });
    // Nearly all are found at the first look.
    assert!(probable.count() > 85_000);
}
