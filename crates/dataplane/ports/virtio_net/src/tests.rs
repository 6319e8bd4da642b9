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

/// An IP packet with this many bytes of options or extension headers and what is behind them.
fn ip(v4: bool, protocol: u8, more: usize, behind: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if v4 {
        bytes.extend([0x45 + (more / 4) as u8, 0]);
        bytes.extend((20 + more as u16 + behind.len() as u16).to_be_bytes());
        bytes.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.resize(20 + more, 1);
    } else {
        bytes.extend([0x60, 0, 0, 0]);
        bytes.extend((more as u16 + behind.len() as u16).to_be_bytes());
        bytes.extend([if more > 0 { 60 } else { protocol }, 64]);
        bytes.resize(40, 7);
        let last = more.saturating_sub(8);
        (0..more)
            .step_by(8)
            .for_each(|at| bytes.extend([if at == last { protocol } else { 60 }, 0, 1, 4, 0, 0, 0, 0]));
    }
    [&bytes, behind].concat()
}

fn ethernet(tags: usize, kind: [u8; 2], behind: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &[0x81, 0, 0, 7].repeat(tags), &kind, behind].concat()
}

fn segment(protocol: u8, to: u16) -> Vec<u8> {
    let mut bytes = [4000, to].map(u16::to_be_bytes).concat();
    match protocol {
        6 => bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0x12, 0x34, 0, 0]),
        _ => bytes.extend([0, 40, 0x12, 0x34]),
    }
    bytes.resize(40, 9);
    bytes
}

/// Where checksums begin, and where they stand from there.
type Places = Vec<(usize, usize)>;

/// Frames, each with where the checksums of their transport headers are.
fn frames() -> Vec<(Vec<u8>, Places)> {
    let (v4, v6) = ([8, 0], [0x86, 0xdd]);
    let vxlan = |inner: &[u8]| [&segment(17, 4789)[..8], &[8, 0, 0, 0, 0, 0, 7, 0], inner].concat();
    let inner = ethernet(0, v4, &ip(true, 6, 0, &segment(6, 80)));
    let mut later = ip(true, 6, 0, &segment(6, 80));
    later[7] = 1;
    vec![
        (ethernet(0, v4, &ip(true, 6, 0, &segment(6, 80))), vec![(34, 16)]),
        (ethernet(2, v4, &ip(true, 17, 8, &segment(17, 53))), vec![(50, 6)]),
        (ethernet(1, v6, &ip(false, 6, 0, &segment(6, 80))), vec![(58, 16)]),
        (ethernet(0, v6, &ip(false, 17, 16, &segment(17, 53))), vec![(70, 6)]),
        (ethernet(0, v4, &ip(true, 17, 0, &vxlan(&inner))), vec![(34, 6), (84, 16)]),
        (ethernet(0, v4, &ip(true, 4, 0, &ip(true, 6, 0, &segment(6, 80)))), vec![(54, 16)]),
        (ethernet(0, v4, &ip(true, 132, 0, &segment(17, 80))), vec![(34, 8)]),
        (ethernet(0, v4, &ip(true, 1, 0, &segment(17, 8))), vec![]),
        (ethernet(0, v4, &later), vec![]),
        (ethernet(0, [8, 6], &[1; 60]), vec![]),
    ]
}

/// A checksum may be written late where nothing looks but for whether it is right.
#[test]
fn what_is_written_late_is_the_checksum_of_a_transport_header() {
    let pool = pool(1);
    for (number, (bytes, places)) in frames().into_iter().enumerate() {
        for (start, offset) in
            (0..bytes.len() + 2).flat_map(|start| (0..40).map(move |offset| (start, offset)))
        {
            let (csum_start, csum_offset) = (start as u16, offset as u16);
            let vnet =
                VnetHeader { flags: offload::NEEDS_CHECKSUM, csum_start, csum_offset, ..Default::default() };
            let mut packet = pool.allocate().expect("a buffer");
            pool.write(&mut packet, &bytes).expect("it fits");
            let admitted = vnet.admit(&pool, &mut packet, 0);
            let (is_late, now) = (packet.record().offload_flags != 0, pool.to_vec(&packet));
            assert_eq!(admitted, start + offset + 2 <= bytes.len(), "frame {number}: {start} and {offset}");
            if admitted {
                assert_eq!(
                    is_late,
                    places.contains(&(start, offset)),
                    "frame {number}: {start} and {offset}"
                );
            }
            // Whenever it is written, it is the same.
            if is_late || !admitted {
                assert_eq!(now, bytes, "frame {number}: {start} and {offset}");
            }
            packet.edit(|record| (record.csum_start, record.csum_offset) = (csum_start, csum_offset));
            pool.write(&mut packet, &bytes).expect("it fits");
            if admitted && !is_late {
                complete_checksum(&pool, &mut packet);
                assert_eq!(pool.to_vec(&packet), now, "frame {number}: {start} and {offset}");
            }
            pool.free(packet);
        }
    }
}

#[test]
fn what_is_to_be_cut_first_ends_unless_it_may_be_of_a_tunnel_that_is_unknown() {
    let pool = pool(1);
    let admits = |bytes: &[u8], (start, offset): (usize, usize)| {
        let vnet = VnetHeader {
            flags: offload::NEEDS_CHECKSUM,
            gso_type: offload::GSO_TCPV4,
            gso_size: 8,
            csum_start: start as u16,
            csum_offset: offset as u16,
            ..VnetHeader::default()
        };
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, bytes).expect("it fits");
        let admitted = vnet.admit(&pool, &mut packet, 0);
        assert!(pool.to_vec(&packet) == bytes && packet.record().offload_flags == offload::NEEDS_CHECKSUM);
        pool.free(packet);
        admitted
    };
    for (bytes, places) in frames() {
        assert!(places.iter().all(|place| admits(&bytes, *place)));
    }
    let (v4, inside) = ([8, 0], ethernet(0, [8, 0], &ip(true, 6, 0, &segment(6, 80))));
    let plain = ethernet(0, v4, &ip(true, 6, 0, &segment(6, 80)));
    // The port that it goes to, the address, the data.
    assert!([(34, 2), (14, 16), (54, 16), (40, 10)].iter().all(|place| !admits(&plain, *place)));
    let unknown = [&segment(17, 8472)[..8], &[8, 0, 0, 0, 0, 0, 7, 0], &inside].concat();
    let unknown = ethernet(0, v4, &ip(true, 17, 0, &unknown));
    assert!(admits(&unknown, (84, 16)) && !admits(&unknown, (34, 2)) && !admits(&unknown, (14, 16)));
}

/// Each segment is as much work as a packet.
#[test]
fn a_packet_becomes_only_so_many_segments() {
    let (pool, frame) =
        (pool(1), ethernet(0, [8, 0], &ip(true, 6, 0, &[&segment(6, 80)[..20], &[7; 1900]].concat())));
    for (size, may_be) in [(0, false), (1, false), (6, false), (7, true), (1448, true)] {
        let vnet = VnetHeader {
            flags: offload::NEEDS_CHECKSUM,
            gso_type: offload::GSO_TCPV4 | offload::GSO_ECN,
            gso_size: size,
            csum_start: 34,
            csum_offset: 16,
            ..VnetHeader::default()
        };
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, &frame[..1900]).expect("it fits");
        assert_eq!(vnet.admit(&pool, &mut packet, 0), may_be, "{size}");
        pool.free(packet);
        assert_eq!(Cut::new(&frame, &vnet, 1800).is_some(), may_be, "{size}");
    }
    // What is not to be cut has no size.
    assert!(!VnetHeader::default().has_too_many_segments(1900));
}

#[test]
fn a_guest_has_verified_nothing() {
    let flags = offload::CHECKSUM_VALID | offload::NEEDS_CHECKSUM;
    let header = VnetHeader { flags, csum_start: 34, ..VnetHeader::default() };
    assert_eq!(header.unverified(), VnetHeader { flags: offload::NEEDS_CHECKSUM, ..header });
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
