use super::*;
use nf_abi::{PacketRecord, offload};
use packet_memory::{BufferSize, PageKind, Pool, PoolConfig};
use proptest::prelude::*;

mod segments;

fn pool(buffers: u32) -> Pool {
    let pages = Some(PageKind::Ordinary);
    let config = PoolConfig { buffers, buffer_size: BufferSize::DEFAULT, headroom: 128, pages };
    Pool::new("test", config).expect("a small pool")
}

/// As the kernel writes it for a segment of TCP over IPv4 (`struct virtio_net_hdr`, byte by byte).
#[test]
fn the_kernels_bytes_are_understood() {
    let bytes = [1, 0x81, 66, 0, 0xa8, 0x05, 34, 0, 16, 0];
    let expected = VnetHeader {
        flags: offload::NEEDS_CHECKSUM,
        gso_type: offload::GSO_TCPV4 | offload::GSO_ECN,
        header_length: 66,
        gso_size: 1448,
        csum_start: 34,
        csum_offset: 16,
    };
    assert_eq!(VnetHeader::from_bytes(&bytes), expected);
    assert_eq!(expected.to_bytes(), bytes);
}

#[test]
fn a_verified_checksum_is_noted_and_not_told_back() {
    let header = VnetHeader { flags: offload::CHECKSUM_VALID, csum_start: 7, ..VnetHeader::default() };
    let mut record = PacketRecord { csum_start: 99, csum_offset: 99, ..PacketRecord::default() };
    header.note(&mut record, 4);
    assert_eq!(record.offload_flags, offload::CHECKSUM_VALID);
    assert_eq!((record.csum_start, record.csum_offset), (0, 0), "there is none to be completed");
    assert_eq!(VnetHeader::of(&record), VnetHeader::default());
}

proptest! {
    #[test]
    fn a_header_survives_its_bytes(bytes: [u8; 10]) {
        prop_assert_eq!(VnetHeader::from_bytes(&bytes).to_bytes(), bytes);
    }

    #[test]
    fn what_is_noted_is_told_the_next_one(bytes: [u8; 10], shift in 0u16..200) {
        let header = VnetHeader::from_bytes(&bytes);
        let mut record = PacketRecord::default();
        header.note(&mut record, shift);
        let partial = header.flags & offload::NEEDS_CHECKSUM;
        let place = |start, offset| if partial != 0 { (start, offset) } else { (0, 0) };
        let (csum_start, csum_offset) = place(header.csum_start.saturating_add(shift), header.csum_offset);
        // Without segmentation the record's field says how much of a packet was captured.
        let gso_size = if header.gso_type == offload::GSO_NONE { 0 } else { header.gso_size };
        let expected = VnetHeader { flags: partial, header_length: 0, gso_size, csum_start, csum_offset, ..header };
        prop_assert_eq!(VnetHeader::of(&record), expected);
    }

    #[test]
    fn hostile_places_change_nothing_outside_of_the_packet(start: u16, offset: u16, length in 0usize..1700) {
        let pool = pool(2);
        let [mut packet, mut other] = [(), ()].map(|()| pool.allocate().expect("a buffer"));
        pool.write(&mut packet, &vec![7; length]).expect("it fits");
        pool.write(&mut other, &[9; 1700]).expect("it fits");
        packet.edit(|record| (record.csum_start, record.csum_offset) = (start, offset));
        let inside = usize::from(start) + usize::from(offset) + 2 <= length;
        prop_assert_eq!(complete_checksum(&pool, &mut packet), inside);
        prop_assert_eq!(packet.length() as usize, length);
        prop_assert_eq!(pool.to_vec(&other), vec![9; 1700]);
        pool.free_batch([packet, other]);
    }

    #[test]
    fn a_completed_checksum_verifies(payload in prop::collection::vec(any::<u8>(), 20..1500), start in 0u16..10) {
        let pool = pool(1);
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, &payload).expect("it fits");
        packet.edit(|record| (record.csum_start, record.csum_offset) = (start, 6));
        prop_assert!(complete_checksum(&pool, &mut packet));
        let bytes = pool.to_vec(&packet);
        // RFC 1071: over data whose field already held a partial sum P, all words but the field sum to
        // !field - P.
        let partial = u16::from_be_bytes([payload[usize::from(start) + 6], payload[usize::from(start) + 7]]);
        let mut total = u32::from(partial);
        for word in bytes[usize::from(start)..].chunks(2) {
            total += u32::from(u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)]));
            total = (total & 0xffff) + (total >> 16);
        }
        prop_assert_eq!(total, 0xffff);
        pool.free(packet);
    }
}

#[test]
fn a_checksum_outside_of_the_packet_is_refused() {
    let pool = pool(1);
    let mut packet = pool.allocate().expect("a buffer");
    pool.write(&mut packet, &[7; 60]).expect("it fits");
    packet.edit(|record| (record.csum_start, record.csum_offset) = (50, 9));
    assert!(!complete_checksum(&pool, &mut packet));
    assert_eq!(pool.to_vec(&packet), [7; 60]);
    pool.free(packet);
}
