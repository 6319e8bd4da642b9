//! The index against a map.

use super::Index;
use alloc::collections::BTreeMap;
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_index_is_a_map(steps in prop::collection::vec((0u64..60, any::<bool>()), 0..400), spread in any::<bool>()) {
        let mut index = Index::new(60).expect("memory");
        let mut model = BTreeMap::new();
        // Hashes that are spread, or such as have few tags and groups.
        let hash = |key: u64| if spread { key.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { (key % 3) * (1 << 56) + key % 2 };
        for (number, (key, add)) in (1u32..).zip(steps) {
            if add && !model.contains_key(&key) {
                prop_assert!(index.insert(hash(key), number));
                model.insert(key, number);
            } else if let Some(entry) = model.remove(&key) {
                index.remove(hash(key), entry);
            }
            index.remove(hash(key), 99_999);
            for key in 0..60 {
                let found = index.find(hash(key), |entry| model.get(&key) == Some(&entry));
                prop_assert_eq!(found, model.get(&key).copied());
            }
        }
    }
}

#[test]
fn keys_that_collide_are_refused_at_last() {
    let mut index = Index::new(1000).expect("memory");
    let taken = (1..1000).filter(|entry| index.insert(7, *entry)).count();
    assert!(taken < 300, "{taken}");
    for entry in 1..1000 {
        index.remove(7, entry);
    }
    assert!(index.insert(7, 1));
    assert_eq!(index.find(7, |entry| entry == 1), Some(1));
}
