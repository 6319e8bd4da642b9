//! Flows on their way to another instance: their ends, which of them began it, how far the streams are, and
//! what became of the flow. Last bytes, held segments and counts of thresholds stay behind: what was split
//! over the move is not found.
//!
//! An entry's key is the flow's, six words. Its value: version, idle time in nanoseconds, number, a word of
//! flags, and for each side four words: where the stream is and what was sent, the next byte's number, what
//! is acknowledged and where the window ends, the latest timestamp and flags. All little-endian.

use crate::flow::tracker::Tracker;
use crate::flow::{Fate, Flow, Key, Side, Stage};
use alloc::vec::Vec;
use nf_sdk::{Nanos, StateReader, StateWriter};

const VERSION: u64 = 4;
/// Without interfaces.
const OLDER: u64 = 3;

/// Writes all flows; false when the host takes no more.
pub fn export(tracker: &Tracker, now: Nanos, out: &mut StateWriter<'_>) -> bool {
    let mut value = Vec::with_capacity(96);
    tracker.table.iter().all(|flow| {
        let mut key = [0; 48];
        for (place, word) in key.chunks_exact_mut(8).zip(flow.key) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        value.clear();
        let [[a, b, c, d], [e, f, g, h]] = flow.sides.each_ref().map(write_side);
        for number in
            [VERSION, now.since(flow.last).0, tracker.id_of(flow), flags(flow), a, b, c, d, e, f, g, h]
        {
            value.extend_from_slice(&number.to_le_bytes());
        }
        out.entry(&key, &value)
    })
}

fn flags(flow: &Flow) -> u64 {
    flow.stage as u64
        | (flow.fate as u64) << 4
        | u64::from(flow.client_is_second) << 8
        | u64::from(if flow.stage <= Stage::SynSent { flow.sides[0].has_stamp } else { flow.has_stamps() })
            << 9
        | u64::from(flow.is_twice) << 10
}

fn write_side(side: &Side) -> [u64; 4] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let flags = u32::from(side.is_finished)
        | u32::from(side.is_judged) << 1
        | u32::from(side.is_seen) << 2
        | u32::from(side.knows_edge) << 3
        | u32::from(side.from as u8 & 1) << 4
        // Others are not told apart.
        | u32::from(side.is_pinned && side.from < 2) << 5
        | side.scale.map_or(0, |scale| u32::from(scale) + 1) << 8;
    [pair(side.next, side.sent), side.position, pair(side.acked, side.edge), pair(side.stamp, flags)]
}

fn read_side([places, position, limits, rest]: [u64; 4]) -> Option<Side> {
    let flags = (rest >> 32) as u32;
    let scale = flags >> 8;
    let is_sound = position >> 62 == 0 && flags & 0xc0 == 0 && scale <= 15;
    is_sound.then_some(Side {
        next: places as u32,
        sent: (places >> 32) as u32,
        acked: limits as u32,
        edge: (limits >> 32) as u32,
        position,
        stamp: rest as u32,
        scale: scale.checked_sub(1).map(|scale| scale as u8),
        from: (flags >> 4 & 1) as u16,
        is_pinned: flags & 1 << 5 != 0,
        is_finished: flags & 1 != 0,
        is_judged: flags & 2 != 0,
        is_seen: flags & 4 != 0,
        knows_edge: flags & 8 != 0,
        ..Side::default()
    })
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
    let numbers: &[[u8; 8]; 12] = numbers.try_into().ok()?;
    let key: Key = words.map(u64::from_le_bytes);
    let [version, idle, id, flags, a, b, c, d, e, f, g, h] = numbers.map(u64::from_le_bytes);
    if !matches!(version, VERSION | OLDER) || flags >> 11 != 0 || id == 0 || id >> 53 != 0 {
        return None;
    }
    let stages = [Stage::Unknown, Stage::SynSent, Stage::SynReceived, Stage::Established, Stage::Closed];
    let stage = *stages.get(usize::try_from(flags & 15).ok()?)?;
    let fate = *[Fate::Open, Fate::Dropped, Fate::Passed].get(usize::try_from(flags >> 4 & 15).ok()?)?;
    let mut sides = [read_side([a, b, c, d])?, read_side([e, f, g, h])?];
    for side in &mut sides {
        side.has_stamp = flags & 1 << 9 != 0;
    }
    let last = Nanos(now.0.saturating_sub(idle));
    Some(Flow {
        key,
        last,
        id,
        stage,
        fate,
        client_is_second: flags & 1 << 8 != 0,
        is_twice: flags & 1 << 10 != 0,
        barred: 0,
        reopening: None,
        session: 0,
        sides,
    })
}
