//! Any bytes as a virtio-net header and a frame behind it: the header survives its bytes, and a checksum is
//! completed inside of the frame or not at all.

use packet_memory::{BufferSize, PageKind, Pool, PoolConfig};
use std::sync::LazyLock;
use virtio_net::{VnetHeader, complete_checksum};

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let pages = Some(PageKind::Ordinary);
    Pool::new("fuzz", PoolConfig { buffers: 1, buffer_size: BufferSize::DEFAULT, headroom: 128, pages })
        .expect("a small pool")
});

pub fn run(bytes: &[u8]) {
    let Some((head, frame)) = bytes.split_first_chunk() else { return };
    let header = VnetHeader::from_bytes(head);
    assert_eq!(&header.to_bytes(), head);
    let mut packet = POOL.allocate().expect("the only buffer");
    if POOL.write(&mut packet, frame).is_ok() {
        packet.edit(|record| header.note(record, 0));
        let record = *packet.record();
        let told = VnetHeader::of(&record);
        // Without segmentation the record's field says how much of a packet was captured: no header says
        // that.
        let size = if header.gso_type == nf_abi::offload::GSO_NONE { 0 } else { header.gso_size };
        assert_eq!((told.gso_type, told.gso_size, record.gso_size), (header.gso_type, size, size));
        let place = usize::from(record.csum_start) + usize::from(record.csum_offset);
        let done = complete_checksum(&POOL, &mut packet);
        assert_eq!(done, place + 2 <= frame.len());
        let after = POOL.to_vec(&packet);
        assert_eq!(after.len(), frame.len());
        let untouched = |n: &usize| !done || !(place..place + 2).contains(n);
        assert!((0..frame.len()).filter(untouched).all(|n| after[n] == frame[n]));
    }
    POOL.free(packet);
}
