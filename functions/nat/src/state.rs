//! Sessions on their way to another instance.
//!
//! An entry's key: version (1), flags (bit 0: the inside is of IPv6), then as words inside address (four),
//! remote address, ports, kind. Its value as words: outside address, outside port, ticks that are left,
//! state, flags, and the host's Ethernet address in two. All little-endian. Mappings follow from sessions,
//! and those of forwarded ports from the configuration.

use crate::session::{BEGUN_OUTSIDE, COUNTED, InsideEnds, State, at};
use crate::settings::place;
use crate::translator::Translator;
use nf_sdk::wire::{ICMP, TCP, UDP};
use nf_sdk::{StateReader, StateWriter};

const VERSION: u8 = 1;
/// Words of a key behind version and flags.
const KEY: usize = 7;
/// Words of a value.
const VALUE: usize = 7;
/// Flags that a session is handed over with.
const LASTING: u32 = BEGUN_OUTSIDE | COUNTED;

fn put(bytes: &mut [u8], words: &[u32]) {
    for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
        four.copy_from_slice(&word.to_le_bytes());
    }
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    if bytes.len() != 4 * N {
        return None;
    }
    let mut words = [0; N];
    for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    }
    Some(words)
}

/// Writes every live session; false when the host takes no more.
pub fn export(translator: &Translator, out: &mut StateWriter<'_>) -> bool {
    let sessions = &translator.sessions;
    (1..sessions.bound()).filter(|number| sessions.is_live(sessions.get(*number))).all(|number| {
        let line = sessions.get(number).0;
        let ends = sessions.inside_ends(number);
        let mut key = [0; 2 + 4 * KEY];
        (key[0], key[1]) = (VERSION, u8::from(ends.is_v6));
        let [a, b, c] = ends.upper;
        put(&mut key[2..], &[a, b, c, ends.inside, ends.remote, ends.ports, ends.kind]);
        let left = line[at::EXPIRES].wrapping_sub(sessions.now);
        let mac = translator.bindings.mac(line[at::MAPPING]);
        let (state, flags) = (line[at::STATE] & 0xff, line[at::STATE] & LASTING);
        let port = line[at::OUTSIDE_PORTS] & 0xffff;
        let mut value = [0; 4 * VALUE];
        put(&mut value, &[line[at::OUTSIDE], port, left, state, flags, mac[0], mac[1]]);
        out.entry(&key, &value)
    })
}

/// Takes sessions over; those whose outside end this configuration does not have are left out, and those for
/// which there is no room. False, and there is no session, when an entry is not what [`export`] writes.
pub fn import(translator: &mut Translator, entries: &mut StateReader<'_>) -> bool {
    while let Some((key, value)) = entries.next() {
        if take(translator, key, value).is_none() {
            clear(translator);
            return false;
        }
    }
    if entries.is_broken() {
        clear(translator);
    }
    !entries.is_broken()
}

fn clear(translator: &mut Translator) {
    for number in 1..translator.sessions.bound() {
        if translator.sessions.get(number).0[at::STATE] & 0xff != 0 {
            translator.close(number);
        }
    }
}

fn take(translator: &mut Translator, key: &[u8], value: &[u8]) -> Option<()> {
    let (&[version, is_v6], key) = key.split_first_chunk()?;
    if version != VERSION || is_v6 > 1 {
        return None;
    }
    let [a, b, c, inside, remote, ports, kind] = words(key)?;
    let [outside, port, left, state, flags, mac, rest] = words(value)?;
    let known = State::of(state).filter(|_| state <= 0xff)?;
    let is_of_protocol = match kind as u8 {
        TCP => known.is_tcp(),
        UDP => matches!(known, State::Asked | State::Answered),
        ICMP => matches!(known, State::Query | State::Replied),
        _ => false,
    };
    let is_v6 = is_v6 == 1;
    if !is_of_protocol || flags & !LASTING != 0 || is_v6 == ([a, b, c] == [0; 3]) || place(kind as u8) > 2 {
        return None;
    }
    let ends = InsideEnds { upper: [a, b, c], inside, remote, ports, kind, is_v6 };
    let outside = (outside, u16::try_from(port).ok()?);
    if let Some(number) = translator.restore(&ends, outside, known, flags, [mac, rest & 0xffff]) {
        translator.sessions.set_left(number, left);
    }
    Some(())
}
