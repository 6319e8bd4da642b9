//! Which trace something belongs to (W3C Trace Context, level 1).

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A parent span, below which others are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace; never all zero.
    pub trace: [u8; 16],
    /// The span; never all zero.
    pub span: [u8; 8],
    /// Whether the caller keeps it.
    pub sampled: bool,
}

impl Context {
    /// Reads a `traceparent` header, `00-TRACE-SPAN-FLAGS`. `None` when it is none, as that specification
    /// wants it to be passed over then; of later versions as much as this one knows.
    pub fn read(header: &str) -> Option<Context> {
        let mut parts = header.trim().split('-');
        let [version] = bytes::<1>(parts.next()?)?;
        let (trace, span) = (bytes::<16>(parts.next()?)?, bytes::<8>(parts.next()?)?);
        let [flags] = bytes::<1>(parts.next()?)?;
        let more = parts.next().is_some();
        if version == 0xff || (version == 0 && more) || trace == [0; 16] || span == [0; 8] {
            return None;
        }
        Some(Context { trace, span, sampled: flags & 1 == 1 })
    }
}

/// Lower-case hexadecimal of exactly so many bytes.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Bytes that no other span has: a counter, hashed with a key that the system's randomness gave this process.
pub(crate) fn unique<const N: usize>() -> [u8; N] {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = KEY.get_or_init(RandomState::new);
    let mut bytes = [0; N];
    for part in bytes.chunks_mut(8) {
        let hash = key.hash_one(NEXT.fetch_add(1, Relaxed)).to_le_bytes();
        part.iter_mut().zip(hash).for_each(|(byte, hash)| *byte = hash);
    }
    // All zero means that there is none.
    bytes[N - 1] |= u8::from(bytes == [0; N]);
    bytes
}
