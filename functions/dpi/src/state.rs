//! Flows on their way to another instance: their ends, which of them began it, how far the streams are, and
//! what became of the flow. Last bytes, held segments and counts of thresholds stay behind: what was split
//! over the move is not found.
//!
//! An entry's key is the flow's, six words. Its value: version, idle time in nanoseconds, number, a word of
//! flags, and for each side the next sequence number and its number in the stream. All little-endian.

use crate::flow::tracker::Tracker;
use crate::flow::{Fate, Flow, Key, Side, Stage};
use alloc::vec::Vec;
use nf_sdk::{Nanos, StateReader, StateWriter};

const VERSION: u64 = 2;

/// Writes all flows; false when the host takes no more.
pub fn export(tracker: &Tracker, now: Nanos, out: &mut StateWriter<'_>) -> bool {
    let mut value = Vec::with_capacity(64);
    tracker.table.iter().all(|flow| {
        let mut key = [0; 48];
        for (place, word) in key.chunks_exact_mut(8).zip(flow.key) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        value.clear();
        let [client, server] = &flow.sides;
        for number in [
            VERSION,
            now.since(flow.last).0,
            flow.id,
            flags(flow),
            u64::from(client.next),
            client.position,
            u64::from(server.next),
            server.position,
        ] {
            value.extend_from_slice(&number.to_le_bytes());
        }
        out.entry(&key, &value)
    })
}

fn flags(flow: &Flow) -> u64 {
    let side = |side: &Side| {
        u64::from(side.is_finished) | u64::from(side.is_judged) << 1 | u64::from(side.is_seen) << 2
    };
    flow.stage as u64
        | (flow.fate as u64) << 4
        | u64::from(flow.client_is_second) << 8
        | side(&flow.sides[0]) << 12
        | side(&flow.sides[1]) << 16
}

/// Takes flows over; those for which there is no room take the place of others. False, and there is no flow,
/// when an entry is not what [`export`] writes.
pub fn import(tracker: &mut Tracker, now: Nanos, entries: &mut StateReader<'_>) -> bool {
    while let Some((key, value)) = entries.next() {
        let Some(flow) = read(key, value, now) else {
            tracker.clear();
            return false;
        };
        tracker.put(flow);
    }
    if entries.is_broken() {
        tracker.clear();
    }
    !entries.is_broken()
}

fn read(key: &[u8], value: &[u8], now: Nanos) -> Option<Flow> {
    let (words, []) = key.as_chunks::<8>() else { return None };
    let (numbers, []) = value.as_chunks::<8>() else { return None };
    let words: &[[u8; 8]; 6] = words.try_into().ok()?;
    let numbers: &[[u8; 8]; 8] = numbers.try_into().ok()?;
    let key: Key = words.map(u64::from_le_bytes);
    let [version, idle, id, flags, client_next, client_position, server_next, server_position] =
        numbers.map(u64::from_le_bytes);
    if version != VERSION || flags >> 20 != 0 || id == 0 || id >> 53 != 0 {
        return None;
    }
    let stages = [Stage::Unknown, Stage::SynSent, Stage::SynReceived, Stage::Established, Stage::Closed];
    let stage = *stages.get(usize::try_from(flags & 15).ok()?)?;
    let fate = *[Fate::Open, Fate::Dropped, Fate::Passed].get(usize::try_from(flags >> 4 & 15).ok()?)?;
    let side = |shift: u32, next: u64, position: u64| {
        let bits = flags >> shift & 15;
        (bits < 8 && position >> 62 == 0).then_some(Side {
            next: u32::try_from(next).ok()?,
            position,
            is_finished: bits & 1 != 0,
            is_judged: bits & 2 != 0,
            is_seen: bits & 4 != 0,
            ..Side::default()
        })
    };
    let sides = [side(12, client_next, client_position)?, side(16, server_next, server_position)?];
    let client_is_second = match flags >> 8 & 15 {
        0 => false,
        1 => true,
        _ => return None,
    };
    let last = Nanos(now.0.saturating_sub(idle));
    Some(Flow { key, last, id, stage, fate, client_is_second, reopening: None, sides })
}
