//! Flows on their way to another instance.
//!
//! An entry's key: the family (4 or 6) in one byte, then the flow's key, words of four bytes. Its value, four words: ticks
//! until the flow ends, state, and the two sequence numbers. All little-endian.

use crate::flow_table::{Flow, FlowTable, Slot};
use crate::tcp::{BEGUN_OUTSIDE, FIN_INSIDE, State};
use crate::tracker::{Terms, Tracker};
use alloc::vec::Vec;
use nf_sdk::{StateReader, StateWriter};

fn write<S: Slot<Key = [u32; N]>, const N: usize>(
    table: &FlowTable<S>,
    terms: &Terms,
    family: u8,
    out: &mut StateWriter<'_>,
) -> bool {
    let mut entry = Vec::with_capacity(64);
    table.iter().filter(|(_, flow)| terms.is_live(flow)).all(|(key, flow)| {
        entry.clear();
        entry.push(family);
        key.iter().for_each(|word| entry.extend_from_slice(&word.to_le_bytes()));
        let split = entry.len();
        let left = flow.expires.wrapping_sub(terms.now);
        for word in [left, flow.state, flow.ends[0], flow.ends[1]] {
            entry.extend_from_slice(&word.to_le_bytes());
        }
        let (key, value) = entry.split_at(split);
        out.entry(key, value)
    })
}

/// Writes every live flow; false when the host takes no more.
pub fn export(tracker: &Tracker, out: &mut StateWriter<'_>) -> bool {
    write(&tracker.v4, &tracker.terms, 4, out) && write(&tracker.v6, &tracker.terms, 6, out)
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let mut words = [0; N];
    if bytes.len() != 4 * N {
        return None;
    }
    for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    }
    Some(words)
}

fn put<S: Slot<Key = [u32; N]>, const N: usize>(
    table: &mut FlowTable<S>,
    key: &[u8],
    flow: &Flow,
    is_tcp: bool,
) -> Option<()> {
    let key: [u32; N] = words(key)?;
    // The state is one of the key's protocol, or the state machine would be led astray.
    if (key[N - 1] as u8 == crate::rule::TCP) != is_tcp {
        return None;
    }
    let hash = table.hash(&key);
    if table.find(&key, hash).is_none() {
        // A flow for which there is no room is lost, like any new one.
        table.insert(&key, hash, flow);
    }
    Some(())
}

/// Takes flows over; those for which there is no room are left out. False, and the tables are empty, when an entry is not
/// what [`export`] writes.
pub fn import(tracker: &mut Tracker, has_begun: bool, entries: &mut StateReader<'_>) -> bool {
    let mut seed = 0u64;
    while let Some((key, value)) = entries.next() {
        if !has_begun && tracker.flows() == 0 {
            // There was no batch whose time could be the tables' secret: other instances' flows take its place.
            seed = key
                .iter()
                .chain(value)
                .fold(seed, |seed, byte| (seed ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
            tracker.seed(seed);
        }
        if take(tracker, key, value).is_none() {
            tracker.clear();
            return false;
        }
    }
    if entries.is_broken() {
        tracker.clear();
    }
    !entries.is_broken()
}

fn take(tracker: &mut Tracker, key: &[u8], value: &[u8]) -> Option<()> {
    let (family, key) = key.split_first()?;
    let [left, state, inside, outside] = words(value)?;
    let known = State::of(state)?;
    if state & !(0xff | BEGUN_OUTSIDE | FIN_INSIDE | FIN_INSIDE << 1) != 0 {
        return None;
    }
    let longest = tracker.terms.timeouts[known as usize & 15];
    let expires = tracker.terms.now.wrapping_add(left.min(longest));
    let flow = Flow { expires, state, ends: [inside, outside] };
    match family {
        4 => put(&mut tracker.v4, key, &flow, known.is_tcp()),
        6 => put(&mut tracker.v6, key, &flow, known.is_tcp()),
        _ => None,
    }
}
