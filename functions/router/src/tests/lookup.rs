//! The tables against a search through all prefixes.

use crate::flat::Flat;
use crate::trie::{Builder, Prefix, Trie, nodes_behind};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

fn mask<const N: usize>(mut address: [u8; N], length: u8) -> [u8; N] {
    for (n, byte) in address.iter_mut().enumerate() {
        let bits = (u32::from(length)).saturating_sub(8 * n as u32).min(8);
        *byte &= !(0xffu16 >> bits) as u8;
    }
    address
}

/// The longest prefix of the address, by looking at each.
fn model<const N: usize>(prefixes: &[Prefix<N>], address: [u8; N]) -> u32 {
    let covering = prefixes.iter().filter(|prefix| mask(address, prefix.length) == prefix.address);
    covering.max_by_key(|prefix| prefix.length).map_or(0, |prefix| u32::from(prefix.value))
}

/// Prefixes that nest and lie beside each other: few values of each byte.
fn prefixes<const N: usize>() -> impl Strategy<Value = Vec<Prefix<N>>> {
    let byte = prop_oneof![4 => 0u8..3, 1 => 250u8..=255, 1 => any::<u8>()];
    let one = (prop::collection::vec(byte, N), 0..=8 * N as u8, 1u16..32_767);
    prop::collection::vec(one, 0..200).prop_map(|list| {
        let unique: BTreeMap<([u8; N], u8), u16> = list
            .into_iter()
            .map(|(address, length, value)| {
                ((mask(address.try_into().expect("N bytes"), length), length), value)
            })
            .collect();
        unique.into_iter().map(|((address, length), value)| Prefix { address, length, value }).collect()
    })
}

/// The first and last address of each prefix, those beside them, and some others.
fn addresses<const N: usize>(prefixes: &[Prefix<N>], others: &[[u8; N]]) -> Vec<[u8; N]> {
    let mut all = others.to_vec();
    for prefix in prefixes {
        let mut last = prefix.address;
        for (n, byte) in last.iter_mut().enumerate() {
            let bits = (u32::from(prefix.length)).saturating_sub(8 * n as u32).min(8);
            *byte |= (0xffu16 >> bits) as u8;
        }
        let (mut before, mut after) = (prefix.address, last);
        for byte in before.iter_mut().rev() {
            *byte = byte.wrapping_sub(1);
            if *byte != 255 {
                break;
            }
        }
        for byte in after.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
        all.extend([prefix.address, last, before, after]);
    }
    all
}

proptest! {
    #[test]
    fn ipv4_tables_find_the_longest_prefix(prefixes in prefixes::<4>(), others: Vec<[u8; 4]>) {
        let trie = Trie::build(&prefixes).expect("memory");
        for address in addresses(&prefixes, &others) {
            prop_assert_eq!(trie.lookup(&address), model(&prefixes, address), "{:?}", address);
        }
    }

    #[test]
    fn ipv6_tables_find_the_longest_prefix(prefixes in prefixes::<16>(), others: Vec<[u8; 16]>) {
        let trie = Trie::build(&prefixes).expect("memory");
        for address in addresses(&prefixes, &others) {
            prop_assert_eq!(trie.lookup(&address), model(&prefixes, address), "{:?}", address);
        }
    }
}

proptest! {
    /// What is counted ahead is what there is, so that no memory moves while a trie is made in parts.
    #[test]
    fn nodes_are_counted_before_they_are_made(prefixes in prefixes::<16>()) {
        let mut before = ([0; 16], 0);
        let mut nodes = 0;
        for prefix in &prefixes {
            nodes += nodes_behind((&before.0, before.1), (&prefix.address, prefix.length));
            before = (prefix.address, prefix.length);
        }
        let mut builder = Builder::new().expect("memory");
        builder.reserve(nodes, prefixes.len()).expect("memory");
        let room = builder.room();
        for prefix in &prefixes {
            builder.add(prefix).expect("memory");
        }
        prop_assert_eq!(builder.nodes(), nodes);
        prop_assert_eq!(builder.room(), room, "nothing grew");
    }
}

proptest! {
    // Each case fills 32 MiB.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_flat_table_finds_the_longest_prefix(prefixes in prefixes::<4>(), others: Vec<[u8; 4]>) {
        let flat = Flat::build(&prefixes).expect("memory");
        for address in addresses(&prefixes, &others) {
            let number = u32::from_be_bytes(address);
            let found = flat.finish(number, flat.first(number));
            prop_assert_eq!(u32::from(found), model(&prefixes, address), "{:?}", address);
        }
    }
}

#[test]
fn a_network_of_host_routes_has_every_one() {
    // All 65,536 /24 of a /8 with two longer routes each: every entry of each /16 is a node.
    let mut prefixes = vec![Prefix { address: [10, 0, 0, 0], length: 8, value: 7 }];
    for n in 0..65_536u32 {
        let [_, _, a, b] = n.to_be_bytes();
        prefixes.push(Prefix { address: [10, a, b, 9], length: 32, value: 1 + (n % 30_000) as u16 });
        prefixes.push(Prefix { address: [10, a, b, 128], length: 25, value: 2 + (n % 30_000) as u16 });
    }
    prefixes.sort();
    let flat = Flat::build(&prefixes).expect("memory");
    for n in 0..65_536u32 {
        let [_, _, a, b] = n.to_be_bytes();
        let found = |last: u8| {
            let address = u32::from_be_bytes([10, a, b, last]);
            u32::from(flat.finish(address, flat.first(address)))
        };
        assert_eq!([found(8), found(9), found(127), found(255)], [7, 1 + n % 30_000, 7, 2 + n % 30_000]);
    }
}
