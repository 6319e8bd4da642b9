//! The flow table against a map.

use super::*;
use crate::groups::{GROUP, MAX_PROBES};
use alloc::vec::Vec;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Remove(u32),
    Look(u32),
    Sweep(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0u32..300;
    let step = prop_oneof![
        4 => key.clone().prop_map(Step::Insert),
        2 => key.clone().prop_map(Step::Remove),
        3 => key.prop_map(Step::Look),
        1 => (0usize..5).prop_map(Step::Sweep),
    ];
    prop::collection::vec(step, 1..800)
}

fn flow(n: u32) -> Value {
    [n, n % 3 + 1, n, !n]
}

fn follow<E: Entry>(
    steps: Vec<Step>,
    limit: usize,
    seed: u64,
    key: impl Fn(u32) -> E::Key,
) -> Result<(), TestCaseError> {
    let mut table = FlowTable::<E>::new(limit).expect("memory");
    table.set_seed(seed);
    let mut model: HashMap<u32, Value> = HashMap::new();
    for step in steps {
        match step {
            Step::Insert(n) => {
                let (key, hash) = (key(n), table.hash(&key(n)));
                match table.find(&key, hash) {
                    Some(slot) => prop_assert_eq!(Some(&table.get(slot).value()), model.get(&n)),
                    None => {
                        prop_assert!(!model.contains_key(&n));
                        if table.insert(&key, hash, flow(n)) {
                            model.insert(n, flow(n));
                        } else {
                            // Refused only because the table is full, or all groups of the key are.
                            prop_assert!(model.len() == limit);
                        }
                    }
                }
            }
            Step::Remove(n) => {
                let slot = table.find(&key(n), table.hash(&key(n)));
                prop_assert_eq!(slot.is_some(), model.remove(&n).is_some());
                if let Some(slot) = slot {
                    table.remove(slot);
                    table.remove(slot);
                }
            }
            Step::Look(n) => {
                let (key, hash) = (key(n), table.hash(&key(n)));
                let found = table.find(&key, hash).map(|slot| table.get(slot).value());
                prop_assert_eq!(found.as_ref(), model.get(&n));
                let probable = table.probable(hash);
                if let Some(entry) = table.entry_if(probable, &key).filter(|entry| entry.value() != [0; 4]) {
                    prop_assert_eq!(Some(&entry.value()), model.get(&n));
                }
            }
            Step::Sweep(groups) => {
                let before = model.len();
                let ended = table.sweep(groups, |entry| entry.value()[1] == 1);
                let flows: HashMap<u32, Value> =
                    table.iter().map(|entry| (entry.value()[0], entry.value())).collect();
                model.retain(|n, flow| flow[1] != 1 || flows.contains_key(n));
                prop_assert_eq!(before - model.len(), ended);
            }
        }
        prop_assert_eq!(table.len(), model.len());
        prop_assert!(table.len() <= limit);
    }
    let mut all: Vec<Value> = table.iter().map(Entry::value).collect();
    let mut expected: Vec<Value> = model.into_values().collect();
    all.sort_unstable();
    expected.sort_unstable();
    prop_assert_eq!(all, expected);
    table.clear();
    prop_assert!(table.is_empty() && table.iter().next().is_none());
    Ok(())
}

proptest! {
    #[test]
    fn is_a_map_of_small_keys(steps in steps(), limit in 1usize..250, seed in any::<u64>()) {
        follow::<HalfLine>(steps, limit, seed, |n| [n, n / 7, 0, 6])?;
    }

    #[test]
    fn is_a_map_of_large_keys(steps in steps(), limit in 1usize..250, seed in any::<u64>()) {
        follow::<Line>(steps, limit, seed, |n| [0, n, 0, 0, 1, 0, n % 5, 0, 0, 17, 0, 0])?;
    }
}

#[test]
fn all_flows_find_room() {
    for limit in [1, 14, 15, 16, 300, 1000, 65_536, 1_000_000] {
        let mut table = FlowTable::<HalfLine>::new(limit).expect("memory");
        table.set_seed(99);
        let refused = (0..limit as u32)
            .filter(|n| {
                let key = [0x0a00_0000 | n >> 8, 0xc0a8_0000 | n & 0xff, n << 16 | 443, 6];
                !table.insert(&key, table.hash(&key), flow(1))
            })
            .count();
        assert_eq!((refused, table.len()), (0, limit), "of {limit}");
        let key = [1, 1, 1, 1];
        assert!(!table.insert(&key, table.hash(&key), flow(1)), "beyond {limit}");
    }
}

#[test]
fn colliding_keys_cost_a_bounded_time() {
    let mut table = FlowTable::<HalfLine>::new(100_000).expect("memory");
    let hash = 77 << 32 | 5;
    let inserted = (0..10_000u32).take_while(|n| table.insert(&[*n, 0, 0, 0], hash, flow(1))).count();
    assert_eq!(inserted, MAX_PROBES * GROUP);
    assert!(table.find(&[9_999, 0, 0, 0], hash).is_none());
    assert!(table.find(&[3, 0, 0, 0], hash).is_some());
}
