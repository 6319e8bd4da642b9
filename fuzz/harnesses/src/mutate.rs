//! Mutations of an input, drawn from a seed.

use fastrand::Rng;

/// Values at which lengths, counts and signs change.
const EDGES: [u64; 12] =
    [0, 1, 7, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Mutates an input in a few places. What is taken over from elsewhere comes from `other`; no more than
/// `longest` bytes are left.
pub(crate) fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8], longest: usize) {
    for _ in 0..1 << rng.u32(0..4) {
        once(rng, input, other);
        input.truncate(longest);
    }
}

fn once(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if input.is_empty() {
        input.extend_from_slice(part(rng, other));
        return input.push(rng.u8(..));
    }
    let at = rng.usize(0..input.len());
    match rng.u32(0..9) {
        0 => input[at] ^= 1 << rng.u32(0..8),
        1 => input[at] = rng.u8(..),
        2 => input[at] = input[at].wrapping_add(rng.u8(0..9)).wrapping_sub(4),
        3 => {
            // An edge, in one of the widths and orders of bytes that formats have.
            let width = 1 << rng.u32(0..4);
            let value = EDGES[rng.usize(0..EDGES.len())];
            let little = rng.bool();
            for (n, byte) in input[at..].iter_mut().take(width).enumerate() {
                let place = if little { n } else { width - 1 - n };
                *byte = (value >> (8 * place)) as u8;
            }
        }
        4 => {
            let count = rng.usize(1..=(input.len() - at).min(32));
            input.drain(at..at + count);
        }
        5 => {
            let piece = part(rng, input).to_vec();
            input.splice(at..at, piece);
        }
        6 => {
            let piece = part(rng, other).to_vec();
            input.splice(at..at, piece);
        }
        7 => {
            let piece = part(rng, other).to_vec();
            let end = (at + piece.len()).min(input.len());
            input.splice(at..end, piece);
        }
        _ => input.truncate(at),
    }
}

/// A short part of these bytes.
fn part<'a>(rng: &mut Rng, bytes: &'a [u8]) -> &'a [u8] {
    if bytes.is_empty() {
        return bytes;
    }
    let start = rng.usize(0..bytes.len());
    let length = rng.usize(1..=64);
    &bytes[start..bytes.len().min(start + length)]
}
