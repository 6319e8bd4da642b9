//! Routing tables to measure with: as many prefixes as asked for, of the lengths that the Internet's have.

use crate::frames::{Flow, Numbers};
use std::collections::HashSet;

/// Next hops of a table, from `192.0.2.2` on.
pub(crate) const NEXT_HOPS: u64 = 200;

/// How many of a thousand prefixes have a length: about as in BGP tables of 2024.
const LENGTHS: [(u8, u64); 10] =
    [(24, 600), (23, 100), (22, 110), (21, 50), (20, 45), (19, 30), (18, 15), (17, 10), (16, 15), (32, 25)];

/// So many different prefixes of unicast addresses below 224.0.0.0.
pub(crate) fn table(count: usize, numbers: &mut Numbers) -> Vec<(u32, u8)> {
    let (mut seen, mut prefixes) = (HashSet::new(), Vec::with_capacity(count));
    while prefixes.len() < count {
        let mut part = numbers.below(1000);
        let length = LENGTHS.iter().find(|(_, parts)| {
            let is_it = part < *parts;
            part = part.saturating_sub(*parts);
            is_it
        });
        let length = length.map_or(24, |(length, _)| *length);
        let address = numbers.next() as u32 & (u32::MAX << (32 - u32::from(length)));
        if is_unicast(address) && seen.insert((address, length)) {
            prefixes.push((address, length));
        }
    }
    prefixes
}

fn is_unicast(address: u32) -> bool {
    !matches!(address >> 24, 0 | 127 | 192 | 198 | 224..)
}

/// The table as a file: each prefix by the next hop that `hop` numbers.
pub(crate) fn file(prefixes: &[(u32, u8)], mut hop: impl FnMut(usize) -> String) -> String {
    let mut text = String::with_capacity(prefixes.len() * 36);
    for (n, (address, length)) in prefixes.iter().enumerate() {
        let [a, b, c, d] = address.to_be_bytes();
        text += &format!("{a}.{b}.{c}.{d}/{length} {}\n", hop(n));
    }
    text
}

/// A configuration of a router between `a` and `b`; `more` has its routes.
pub(crate) fn configuration(more: &str) -> String {
    let neighbours: Vec<String> = (0..NEXT_HOPS)
        .map(|n| format!("{{address: 192.0.2.{}, mac: '02:00:00:00:01:{n:02x}'}}", 2 + n))
        .collect();
    format!(
        "interfaces: [{{name: a, mac: '02:00:00:00:00:01', addresses: [198.51.100.1/24]}}, {{name: b, mac: \
         '02:00:00:00:00:0b', addresses: [192.0.2.1/24]}}]\nneighbours: [{}]\n{more}\n",
        neighbours.join(", ")
    )
}

/// A flow to anywhere.
pub(crate) fn random_flow(numbers: &mut Numbers) -> Flow {
    loop {
        let n = numbers.next();
        if is_unicast(n as u32) {
            return Flow {
                source: 0xac10_0000 | (n >> 32) as u32 & 0xf_ffff,
                destination: n as u32,
                source_port: 1024 + (n >> 52) as u16,
                destination_port: 443,
                protocol: 17,
            };
        }
    }
}
