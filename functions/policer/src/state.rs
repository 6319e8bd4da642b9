//! Buckets on their way to another instance.
//!
//! An entry's key: the fingerprint of its policer, then the bucket's key (five words); nothing behind the
//! fingerprint is the bucket that the policer's packets share. Its value: tokens in the first and in the
//! second meter when the last batch was looked at, and what went beyond: packets and bytes. All words are of
//! eight bytes, little-endian.

use crate::Policing;
use crate::header::kind;
use crate::table::Key;
use alloc::vec::Vec;
use nf_sdk::{StateReader, StateWriter};

fn put(out: &mut StateWriter<'_>, key: &[u64], value: [u64; 4]) -> bool {
    let bytes = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    out.entry(&bytes(key), &bytes(&value))
}

/// Writes every bucket that is not full; false when the host takes no more.
pub(crate) fn export(policing: &Policing, out: &mut StateWriter<'_>) -> bool {
    let now = policing.clock.now;
    let shared = policing.policers.iter().zip(&policing.shared).all(|(policer, level)| {
        let [_, first, second] = policer.limits.at(level, now);
        policer.limits.is_full(level, now) || put(out, &[policer.fingerprint], [first, second, 0, 0])
    });
    shared
        && policing.table.iter().all(|slot| {
            let (key, level) = policing.table.get(slot);
            let Some((_, policer)) = policing.policer_of(&key) else { return true };
            if policer.limits.is_full(&level, now) {
                return true;
            }
            let [_, first, second] = policer.limits.at(&level, now);
            let excess = policing.table.excess(slot);
            let [a, b, c, d, e] = key;
            let key = [policer.fingerprint, a & !NUMBER, b, c, d, e];
            put(out, &key, [first, second, excess.packets, excess.bytes])
        })
}

/// Where a key has the number of its policer, which is another one elsewhere.
const NUMBER: u64 = 0x3f << kind::POLICER_AT;

fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (chunks, []) = bytes.as_chunks::<8>() else { return None };
    let chunks: &[[u8; 8]; N] = chunks.try_into().ok()?;
    Some(chunks.map(u64::from_le_bytes))
}

/// Takes buckets over: what is missing in them is missing here as well. Those of policers that are not here
/// are left out, and so are those for which there is no room. False, and all buckets are full, when an entry
/// is not what [`export`] writes.
pub(crate) fn import(policing: &mut Policing, entries: &mut StateReader<'_>) -> bool {
    while let Some((key, value)) = entries.next() {
        if take(policing, key, value).is_none() {
            policing.forget();
            return false;
        }
    }
    if entries.is_broken() {
        policing.forget();
    }
    !entries.is_broken()
}

fn take(policing: &mut Policing, key: &[u8], value: &[u8]) -> Option<()> {
    let [first, second, packets, bytes] = words(value)?;
    let (fingerprint, rest) = key.split_first_chunk()?;
    let fingerprint = u64::from_le_bytes(*fingerprint);
    let key: Option<Key> = if rest.is_empty() { None } else { Some(words(rest)?) };
    let here = policing.policers.iter().position(|policer| policer.fingerprint == fingerprint);
    let Some(number) = here else { return Some(()) };
    let policer = policing.policers.get(number)?;
    let Some(mut key) = key else {
        let level = policing.shared.get_mut(number)?;
        *level = policer.limits.merge(&policer.limits.at(level, policing.clock.now), [first, second])?;
        return Some(());
    };
    if key[0] & NUMBER != 0 {
        return None;
    }
    key[0] |= policer.tag;
    if !policer.can_have(&key) {
        return None;
    }
    let full = policer.limits.full(policing.clock.now);
    let merged = policer.limits.merge(&full, [first, second])?;
    let hash = policing.table.hash(&key);
    match policing.table.find(&key, hash) {
        Some(slot) => {
            let level = policing.table.level_mut(slot);
            *level = policer.limits.merge(&policer.limits.at(level, policing.clock.now), [first, second])?;
            policing.table.exceed(slot, packets, bytes);
        }
        None => {
            if let Some(slot) = policing.table.insert(&key, hash, &merged) {
                policing.table.exceed(slot, packets, bytes);
                policing.tally.turnover[0] += 1;
            }
        }
    }
    Some(())
}
