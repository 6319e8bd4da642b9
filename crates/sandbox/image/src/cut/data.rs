//! Data segments without the zeros that memory has anyway: at their ends, and between them where a gap costs
//! more bytes than the beginning of another segment.

use super::CutError;
use super::parts::Parts;
use std::borrow::Cow;

/// Bytes of a number in LEB128 (WebAssembly core specification, section 5.2.2).
pub(super) fn unsigned(number: u64) -> usize {
    1 + (64 - (number | 1).leading_zeros() as usize - 1) / 7
}

/// The same with a sign.
fn signed(number: i64) -> usize {
    let bits = 64 - if number < 0 { (!number).leading_zeros() } else { number.leading_zeros() } as usize;
    1 + bits / 7
}

/// Bytes that a segment takes beside its data: its kind, the expression that says where, its length.
fn header(at: u32, length: usize) -> usize {
    3 + signed(i64::from(at as i32)) + unsigned(length as u64)
}

/// Lays the segments anew.
pub(super) fn trim(parts: &mut Parts<'_>) -> Result<(), CutError> {
    let mut segments = std::mem::take(&mut parts.data);
    // One that has no bytes is nowhere, whatever address it names.
    segments.retain(|(_, bytes)| !bytes.is_empty());
    segments.sort_by_key(|(at, _)| *at);
    let end = |(at, bytes): &(u32, Cow<'_, [u8]>)| u64::from(*at) + bytes.len() as u64;
    if segments.windows(2).any(|pair| end(&pair[0]) > u64::from(pair[1].0)) {
        return Err(CutError::Unsupported("data segments that overlap"));
    }
    let mut laid: Vec<(u32, Vec<u8>)> = Vec::new();
    for (at, bytes) in &segments {
        let mut position = 0;
        while let Some(start) = bytes[position..].iter().position(|byte| *byte != 0).map(|n| position + n) {
            let length = bytes[start..].iter().position(|byte| *byte == 0).unwrap_or(bytes.len() - start);
            append(&mut laid, *at + start as u32, &bytes[start..start + length]);
            position = start + length;
        }
    }
    parts.data = laid.into_iter().map(|(at, bytes)| (at, Cow::Owned(bytes))).collect();
    Ok(())
}

/// Adds bytes to the last segment, with zeros between them, or begins another one: whichever is shorter.
fn append(laid: &mut Vec<(u32, Vec<u8>)>, at: u32, bytes: &[u8]) {
    if let Some((before, last)) = laid.last_mut() {
        let gap = (at - *before) as usize - last.len();
        let joined = last.len() + gap + bytes.len();
        let apart = header(*before, last.len()) + header(at, bytes.len()) + last.len() + bytes.len();
        if header(*before, joined) + joined <= apart {
            last.resize(last.len() + gap, 0);
            last.extend_from_slice(bytes);
            return;
        }
    }
    laid.push((at, bytes.to_vec()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_do() {
        use wasm_encoder::Encode;
        for number in [0u32, 1, 63, 64, 127, 128, 8191, 8192, 16_383, 16_384, 1 << 20, 1 << 27, u32::MAX] {
            let (mut plain, mut with_sign) = (Vec::new(), Vec::new());
            number.encode(&mut plain);
            (number as i32).encode(&mut with_sign);
            assert_eq!(
                (unsigned(number.into()), signed((number as i32).into())),
                (plain.len(), with_sign.len())
            );
        }
    }

    /// What is in memory after the segments were copied, and what they take of the image.
    fn memory(segments: &[(u32, Cow<'_, [u8]>)]) -> (Vec<u8>, usize) {
        let (mut memory, mut size) = (vec![0; 4096], 0);
        for (at, bytes) in segments {
            memory[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
            size += header(*at, bytes.len()) + bytes.len();
        }
        (memory, size)
    }

    proptest! {
        #[test]
        fn memory_begins_as_before_and_nothing_grows(
            pieces in prop::collection::vec((0u32..40, prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..80)), 0..12)
        ) {
            let mut at = 0;
            let mut data = Vec::new();
            for (gap, bytes) in pieces {
                at += gap;
                let length = bytes.len() as u32;
                data.push((at, Cow::Owned(bytes)));
                at += length;
            }
            let before = memory(&data);
            data.reverse();
            let mut parts = Parts { data, ..Parts::default() };
            trim(&mut parts).expect("they do not overlap");
            let after = memory(&parts.data);
            prop_assert_eq!(before.0, after.0);
            prop_assert!(after.1 <= before.1, "{} bytes became {}", before.1, after.1);
        }
    }

    #[test]
    fn segments_that_overlap_are_left_alone() {
        let data = vec![(8, Cow::Borrowed(&[1u8, 2][..])), (9, Cow::Borrowed(&[0][..]))];
        assert!(trim(&mut Parts { data, ..Parts::default() }).is_err());
    }
}
