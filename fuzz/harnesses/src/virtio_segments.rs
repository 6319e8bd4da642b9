//! Any frame with any virtio-net header, cut: pieces fit, follow one another, and end where the frame does.

use virtio_net::{Cut, VnetHeader};

pub fn run(data: &[u8]) {
    let Some((header, data)) = data.split_first_chunk() else { return };
    let &[room, high, singly, ref frame @ ..] = data else { return };
    let room = u16::from_le_bytes([room, high]);
    let Some(mut cut) = Cut::new(frame, &VnetHeader::from_bytes(header), usize::from(room)) else { return };
    if singly & 1 != 0 {
        cut = cut.singly();
    }
    let (mut left, mut end) = (cut.left(), None);
    while let Some(piece) = cut.next() {
        assert!(piece.headers.len() + piece.payload.len() <= usize::from(room) && !piece.payload.is_empty());
        assert!(end.is_none_or(|end| end == piece.payload.start));
        (end, left) = (Some(piece.payload.end), left - 1);
    }
    assert_eq!((end, left), (Some(frame.len()), 0));
}
