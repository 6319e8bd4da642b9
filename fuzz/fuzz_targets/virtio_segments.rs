//! Any frame with any virtio-net header, cut: pieces fit, follow one another, and end where the frame does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use virtio_net::{Cut, VnetHeader};

fuzz_target!(|input: ([u8; VnetHeader::LENGTH], u16, bool, &[u8])| {
    let (header, room, singly, frame) = input;
    let Some(mut cut) = Cut::new(frame, &VnetHeader::from_bytes(&header), usize::from(room)) else { return };
    if singly {
        cut = cut.singly();
    }
    let (mut left, mut end) = (cut.left(), None);
    while let Some(piece) = cut.next() {
        assert!(piece.headers.len() + piece.payload.len() <= usize::from(room) && !piece.payload.is_empty());
        assert!(end.is_none_or(|end| end == piece.payload.start));
        (end, left) = (Some(piece.payload.end), left - 1);
    }
    assert_eq!((end, left), (Some(frame.len()), 0));
});
