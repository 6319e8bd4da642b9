//! Any bytes as the beginning of a frame of any length: an unfinished checksum that is found lies in the
//! frame, and the field holds the sum that finishing needs.

use port_af_xdp::checksum::{LOOKED_AT, Unfinished, find_unfinished};

pub fn run(data: &[u8]) {
    let Some((length, frame)) = data.split_first_chunk() else { return };
    let length = u32::from_le_bytes(*length);
    let head = &frame[..frame.len().min(LOOKED_AT)];
    for length in [length, frame.len() as u32] {
        if let Some(Unfinished { start, offset }) = find_unfinished(head, length) {
            assert!(start >= 34 && matches!(offset, 6 | 16));
            assert!(u32::from(start) + u32::from(offset) + 2 <= length);
            assert!(usize::from(start + offset) + 2 <= head.len());
        }
    }
}
