//! Any bytes as the beginning of a frame of any length: an unfinished checksum that is found lies in the
//! frame, and the field holds the sum that finishing needs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use port_af_xdp::checksum::{LOOKED_AT, Unfinished, find_unfinished};

fuzz_target!(|input: (u32, &[u8])| {
    let (length, frame) = input;
    let head = &frame[..frame.len().min(LOOKED_AT)];
    for length in [length, frame.len() as u32] {
        if let Some(Unfinished { start, offset }) = find_unfinished(head, length) {
            assert!(start >= 34 && matches!(offset, 6 | 16));
            assert!(u32::from(start) + u32::from(offset) + 2 <= length);
            assert!(usize::from(start + offset) + 2 <= head.len());
        }
    }
});
