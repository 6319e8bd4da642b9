//! A model of owners: whatever is done, every buffer has one owner and its bytes are that owner's.

use packet_memory::{Buffer, BufferSize, Kept, MemoryFile, Packet, PageKind, Pool, PoolConfig, PoolError};
use proptest::prelude::*;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

fn pool(buffers: u32) -> Pool {
    let config = PoolConfig { buffers, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    Pool::new("test", config).expect("a small pool")
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u8),
    AllocateBatch(u8),
    Free(u8),
    Copy(u8),
    Extent(u8, u32, u32),
    Lend(u8),
    TakeBuffers(u8),
    Return(u8, u32, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u8>().prop_map(Step::Allocate),
        (0..20u8).prop_map(Step::AllocateBatch),
        any::<u8>().prop_map(Step::Free),
        any::<u8>().prop_map(Step::Copy),
        (any::<u8>(), any::<u32>(), any::<u32>()).prop_map(|(n, o, l)| Step::Extent(n, o, l)),
        any::<u8>().prop_map(Step::Lend),
        (0..20u8).prop_map(Step::TakeBuffers),
        (any::<u8>(), 0..4096u32, 0..4096u32).prop_map(|(n, o, l)| Step::Return(n, o, l)),
    ]
}

proptest! {
    #[test]
    fn every_buffer_has_one_owner(steps in prop::collection::vec(step(), 1..200)) {
        let (here, there) = (pool(16), pool(4));
        let (mut owned, mut copies): (Vec<(Packet, Vec<u8>)>, Vec<Packet>) = (vec![], vec![]);
        // Buffers that a device has: the right to them alone.
        let mut lent: Vec<Buffer> = vec![];
        for step in steps {
            match step {
                Step::Allocate(fill) => if let Some(mut packet) = here.allocate() {
                    let bytes = vec![fill; usize::from(fill) + 1];
                    here.write(&mut packet, &bytes).expect("fits");
                    owned.push((packet, bytes));
                } else {
                    prop_assert_eq!(owned.len() + lent.len(), 16);
                },
                Step::AllocateBatch(count) => {
                    let mut taken = vec![];
                    let n = here.allocate_batch(usize::from(count), &mut taken);
                    prop_assert_eq!(n, taken.len());
                    prop_assert_eq!(n, usize::from(count).min(16 - owned.len() - lent.len()));
                    owned.extend(taken.into_iter().map(|packet| (packet, vec![])));
                }
                Step::Free(which) => if !owned.is_empty() {
                    let (packet, bytes) = owned.swap_remove(usize::from(which) % owned.len());
                    prop_assert_eq!(here.to_vec(&packet), bytes);
                    let buffer = packet.buffer();
                    here.free(packet);
                    // Last in, first out: the warm buffer comes back.
                    let again = here.allocate().expect("just freed");
                    prop_assert_eq!(again.buffer(), buffer);
                    here.free(again);
                },
                Step::Copy(which) => if !owned.is_empty() {
                    let n = usize::from(which) % owned.len();
                    let (packet, bytes) = &mut owned[n];
                    packet.edit(|record| record.mark = 7);
                    match there.copy_from(&here, packet) {
                        Ok(Some(copy)) => {
                            prop_assert_eq!(&there.to_vec(&copy), bytes);
                            prop_assert_eq!(copy.record().mark, 0, "marks do not cross tenants");
                            copies.push(copy);
                        }
                        Ok(None) => prop_assert_eq!(copies.len(), 4),
                        Err(too_long) => {
                            // A device, or a function, may have used the headroom as well.
                            prop_assert_eq!((too_long.length, too_long.room), (bytes.len(), 1728));
                            prop_assert!(bytes.len() > 1728);
                        }
                    }
                },
                Step::Extent(which, offset, length) => if !owned.is_empty() {
                    let n = usize::from(which) % owned.len();
                    let (packet, bytes) = &mut owned[n];
                    let fits = u64::from(offset) + u64::from(length) <= 2048;
                    let before = (packet.offset(), packet.length());
                    prop_assert_eq!(packet.set_extent(offset, length, 2048), fits);
                    if !fits {
                        prop_assert_eq!((packet.offset(), packet.length()), before);
                    }
                    *bytes = here.to_vec(packet);
                },
                Step::Lend(which) => if !owned.is_empty() {
                    let (packet, _) = owned.swap_remove(usize::from(which) % owned.len());
                    let address = packet.buffer();
                    let buffer = here.into_buffer(packet);
                    prop_assert_eq!(buffer.address(), address);
                    prop_assert!(here.start_of(&buffer).is_multiple_of(2048));
                    lent.push(buffer);
                },
                Step::TakeBuffers(count) => {
                    let free = 16 - owned.len() - lent.len();
                    let n = here.take_buffers(usize::from(count), &mut lent);
                    prop_assert_eq!(n, usize::from(count).min(free));
                }
                Step::Return(which, offset, length) => if !lent.is_empty() {
                    let buffer = lent.swap_remove(usize::from(which) % lent.len());
                    let address = buffer.address();
                    match here.into_packet(buffer, offset, length) {
                        Ok(packet) => {
                            prop_assert!(offset + length <= 2048);
                            prop_assert_eq!((packet.buffer(), packet.offset(), packet.length()), (address, offset, length));
                            let bytes = here.to_vec(&packet);
                            owned.push((packet, bytes));
                        }
                        Err(buffer) => {
                            prop_assert!(offset + length > 2048);
                            prop_assert_eq!(buffer.address(), address);
                            here.return_buffers([buffer]);
                        }
                    }
                },
            }
            let packets = owned.iter().map(|(packet, _)| packet.buffer());
            let mut buffers: Vec<_> = packets.chain(lent.iter().map(Buffer::address)).collect();
            buffers.sort_unstable();
            buffers.dedup();
            prop_assert_eq!(buffers.len(), owned.len() + lent.len());
            prop_assert_eq!(here.available() + owned.len() + lent.len(), 16);
            prop_assert_eq!(there.available() + copies.len(), 4);
        }
        here.free_batch(owned.into_iter().map(|(packet, _)| packet));
        here.return_buffers(lent);
        there.free_batch(copies);
        prop_assert_eq!(here.available(), 16);
        prop_assert_eq!(there.available(), 4);
    }
}

#[test]
fn nothing_is_written_beyond_a_buffer() {
    let pool = pool(2);
    let (mut a, mut b) = (pool.allocate().expect("a"), pool.allocate().expect("b"));
    pool.write(&mut b, &[0xbb; 1728]).expect("b fits");
    let error = pool.write(&mut a, &[0xaa; 1921]).expect_err("one byte too many");
    assert_eq!((error.length, error.room), (1921, 1920));
    pool.write(&mut a, &[0xaa; 1920]).expect("exactly a buffer");
    assert_eq!(pool.to_vec(&b), [0xbb; 1728]);
    assert!(pool.patch(&mut a, 1919, &[1, 2]).is_err());
    assert!(pool.patch(&mut a, usize::MAX, &[1, 2]).is_err());
    pool.patch(&mut a, 1918, &[1, 2]).expect("the last two bytes");
    pool.free_batch([a, b]);
}

#[test]
fn the_first_bytes_are_the_packets_wherever_it_lies() {
    let pool = pool(1);
    let mut packet = pool.allocate().expect("a buffer");
    for (offset, length) in [(0, 2048), (128, 60), (2000, 48), (2040, 8), (2048, 0), (1984, 64)] {
        assert!(packet.set_extent(offset, 0, 2048));
        let bytes: Vec<u8> = (1..=length).map(|n| n as u8).collect();
        pool.write(&mut packet, &bytes).expect("it fits");
        let (head, count) = pool.head::<64>(&packet);
        assert_eq!((count, &head[..count]), (length.min(64), &bytes[..length.min(64)]));
    }
    pool.free(packet);
}

#[test]
fn impossible_pools_are_refused() {
    for (buffers, headroom) in [(0, 128), (1 << 20, 128), (16, 1025)] {
        let config = PoolConfig { buffers, headroom, ..PoolConfig::default() };
        assert!(matches!(Pool::new("x", config), Err(PoolError::Impossible { .. })), "{config:?}");
    }
    assert_eq!(BufferSize::new(3000), None);
    assert_eq!(BufferSize::new(1024), None);
    assert_eq!(BufferSize::new(65536), Some(BufferSize::LARGEST));
}

/// What is mapped can be cut off by nothing that gets at the file, this process included.
#[test]
fn the_memory_of_a_pool_can_neither_shrink_nor_grow_nor_be_read_by_others() {
    let memory = MemoryFile::new("test", 1 << 20, PageKind::Ordinary).expect("memory");
    let descriptor = memory.read_only().expect("a descriptor");
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("its owner may open it again");
    for length in [0, 1 << 19, 2 << 20] {
        let refused = file.set_len(length).expect_err("it is sealed");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{length}");
    }
    let metadata = file.metadata().expect("it is there");
    assert_eq!((metadata.len(), metadata.mode() & 0o777), (1 << 20, 0o600));
    let mut read = std::fs::File::from(descriptor);
    assert!(read.write(&[1]).is_err(), "what is handed out is for reading");
}

/// Two pools of one shape give out the same addresses: only what a descriptor carries tells them apart.
#[test]
fn a_packet_of_another_pool_of_the_same_shape_is_noticed_whatever_is_done_with_it() {
    type Deed = fn(&Pool, &Pool, Packet);
    let deeds: [(&str, Deed); 14] = [
        ("free", |here, _, packet| here.free(packet)),
        ("free_batch", |here, _, packet| here.free_batch([packet])),
        ("into_buffer", |here, _, packet| {
            let _ = here.into_buffer(packet);
        }),
        ("data", |here, _, packet| {
            let _ = here.data(&packet);
        }),
        ("read", |here, _, packet| {
            let _ = here.read(&packet, 0, &mut [0; 4]);
        }),
        ("head", |here, _, packet| {
            let _ = here.head::<16>(&packet);
        }),
        ("word", |here, _, packet| {
            let _ = here.word(&packet, 0);
        }),
        ("to_vec", |here, _, packet| {
            let _ = here.to_vec(&packet);
        }),
        ("write", |here, _, mut packet| {
            let _ = here.write(&mut packet, b"x");
        }),
        ("set_length", |here, _, mut packet| {
            let _ = here.set_length(&mut packet, 1);
        }),
        ("patch", |here, _, mut packet| {
            let _ = here.patch(&mut packet, 0, b"x");
        }),
        ("duplicate", |here, _, packet| {
            let _ = here.duplicate(&packet);
        }),
        ("copy_from", |here, there, packet| {
            let _ = there.copy_from(here, &packet);
        }),
        ("copy_batch", |here, there, packet| {
            there.copy_batch(here, &[packet], 1, &mut Vec::new());
        }),
    ];
    for (name, deed) in deeds {
        let (here, there) = (pool(4), pool(4));
        let mut packet = there.allocate().expect("a buffer");
        there.write(&mut packet, b"theirs").expect("fits");
        // What may be changed of a descriptor does not change whose it is.
        packet
            .edit(|record| *record = nf_abi::PacketRecord { reserved2: 0, length: record.length, ..*record });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| deed(&here, &there, packet)));
        let told = done.expect_err(name);
        let told = told.downcast_ref::<&str>().copied().unwrap_or_default();
        assert_eq!(told, "a packet of another pool", "{name}");
    }
}

#[test]
fn a_buffer_of_another_pool_of_the_same_shape_is_noticed() {
    let (here, there) = (pool(4), pool(4));
    let mut buffers = vec![];
    assert_eq!(there.take_buffers(2, &mut buffers), 2);
    let buffer = buffers.pop().expect("two");
    let back = here.into_packet(buffer, 0, 60).expect_err("it is theirs");
    let packet = there.into_packet(back, 0, 60).expect("it is");
    there.free(packet);
    let buffer = buffers.pop().expect("one");
    let returned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| here.return_buffers([buffer])));
    assert!(returned.is_err());
    assert_eq!(here.available(), 4, "no buffer came to it");
}

#[test]
fn guests_are_not_shown_which_pool_a_packet_is_of() {
    let pool = pool(1);
    let packet = pool.allocate().expect("one");
    assert_ne!(packet.record().reserved2, 0);
    assert_eq!(packet.shown(), nf_abi::PacketRecord { reserved2: 0, ..*packet.record() });
    pool.free(packet);
}

#[test]
fn a_pending_checksum_moves_with_the_first_byte() {
    let pool = pool(1);
    let mut packet = pool.allocate().expect("one");
    pool.write(&mut packet, &[0; 100]).expect("fits");
    packet.edit(|record| (record.offload_flags, record.csum_start) = (nf_abi::offload::NEEDS_CHECKSUM, 34));
    assert!(packet.set_extent(128 - 50, 150, 2048), "a header of 50 bytes in front");
    assert_eq!(packet.record().csum_start, 84);
    assert!(packet.set_extent(128 + 34, 66, 2048));
    assert_eq!(packet.record().csum_start, 0);
    assert!(!packet.set_extent(128 + 35, 65, 2048), "the checksum would start before the packet");
    assert_eq!((packet.offset(), packet.length()), (162, 66));
    pool.free(packet);
}

#[test]
fn packets_of_neighbouring_buffers_begin_in_different_lines_and_what_fits_one_fits_all() {
    for (kib, headroom, colours) in
        [(2, 128, 4), (2, 0, 4), (2, 1024, 1), (4, 128, 4), (16, 128, 8), (64, 128, 1)]
    {
        let buffer_size = BufferSize::new(kib << 10).expect("a size");
        let config = PoolConfig { buffers: 16, buffer_size, headroom, pages: Some(PageKind::Ordinary) };
        let pool = Pool::new("test", config).expect("a small pool");
        let mut packets = Vec::new();
        assert_eq!(pool.allocate_batch(16, &mut packets), 16);
        let mut offsets: Vec<_> = packets.iter().map(Packet::offset).collect();
        assert!(offsets.iter().all(|offset| *offset >= headroom));
        let room = pool.room() as usize;
        for packet in &mut packets {
            pool.write(packet, &vec![1; room]).expect("the room is every buffer's");
        }
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), colours, "{kib} KiB, {headroom}");
        assert!(room >= (kib << 10) as usize * 9 / 10 - headroom as usize, "{room}");
        pool.free_batch(packets);
    }
}

#[test]
fn a_batch_is_copied_as_far_as_it_fits() {
    let here = pool(8);
    let config =
        PoolConfig { buffers: 4, headroom: 1024, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    let there = Pool::new("there", config).expect("a small pool");
    let lengths = [60, there.room() as usize + 1, 61, 62, there.room() as usize, 63, 64];
    let packets: Vec<Packet> = lengths
        .into_iter()
        .map(|length| {
            let mut packet = here.allocate().expect("a buffer");
            here.write(&mut packet, &vec![length as u8; length]).expect("it fits");
            packet.edit(|record| {
                (record.mark, record.vlan) = (7, length as u16);
                record.offload_flags = nf_abi::offload::CHECKSUM_VALID;
            });
            packet
        })
        .collect();
    // At most so many, then as many as there are buffers; what does not fit into one is left out.
    for (most, expected) in [(0, &[][..]), (2, &[60, 61]), (9, &[60, 61, 62, 1024])] {
        let mut out = vec![here.allocate().expect("a buffer")];
        there.copy_batch(&here, &packets, most, &mut out);
        here.free(out.remove(0));
        let copied: Vec<usize> = out.iter().map(|copy| copy.length() as usize).collect();
        assert_eq!(copied, expected);
        for copy in &out {
            assert_eq!(there.to_vec(copy), vec![copy.length() as u8; copy.length() as usize]);
            assert_eq!((copy.record().mark, copy.record().vlan), (0, copy.length() as u16));
            assert_eq!(copy.record().offload_flags, 0, "what was verified may have been changed since");
        }
        there.free_batch(out);
        assert_eq!(there.available(), 4);
    }
    here.free_batch(packets);
    assert_eq!(here.available(), 8);
}

fn headers(tag: u8) -> Kept {
    let frame = [&[2; 12][..], &[0x81, 0, 0x20, tag, 8, 0, 0x45, 0]].concat();
    let (mut front, mut kept) = (encapsulation::Front::NONE, encapsulation::Headers::NONE);
    encapsulation::take_off(&frame, 20, &[encapsulation::LayerKind::Vlan], &mut front, &mut kept)
        .expect("a tagged frame");
    Kept { headers: kept, by: tag.into() }
}

#[test]
fn kept_headers_go_with_their_packet_and_with_no_other() {
    let (here, there) = (pool(2), pool(2));
    let mut packet = here.allocate().expect("two buffers");
    assert!(here.keep(&mut packet).is_none(), "there is no place yet");
    assert!(here.kept(&packet).is_none());
    here.keep_headers();
    assert!(here.kept(&packet).is_none());
    *here.keep(&mut packet).expect("there is a place") = headers(7);
    let saved = packet.shown();
    packet.edit(|record| *record = saved);
    assert_eq!(here.kept(&packet), Some(&headers(7)), "what is said of a packet does not concern it");
    assert_eq!(packet.shown().reserved2, 0, "guests do not see it");
    // A copy has them too; where there is no place it has none.
    let copy = here.duplicate(&packet).expect("a second buffer");
    assert_eq!(here.kept(&copy), Some(&headers(7)));
    let crossed = there.copy_from(&here, &copy).expect("it fits").expect("a buffer");
    assert!(there.kept(&crossed).is_none());
    there.free(crossed);
    there.keep_headers();
    let crossed = there.copy_from(&here, &copy).expect("it fits").expect("a buffer");
    assert_eq!(there.kept(&crossed), Some(&headers(7)));
    there.free(crossed);
    here.free(copy);
    // The next packet in the same buffer has nothing of it.
    let buffer = packet.buffer();
    here.free(packet);
    let mut next = here.allocate().expect("just freed");
    assert_eq!(next.buffer(), buffer);
    assert!(here.kept(&next).is_none());
    here.keep(&mut next).expect("there is a place");
    here.forget_kept(&mut next);
    assert!(here.kept(&next).is_none());
    here.free(next);
}

#[test]
fn a_packet_gets_another_beginning() {
    let pool = pool(1);
    let headroom = PoolConfig::default().headroom as usize;
    let mut packet = pool.allocate().expect("one buffer");
    pool.write(&mut packet, b"outer inner").expect("fits");
    packet.edit(|record| {
        (record.offload_flags, record.csum_start) = (nf_abi::offload::NEEDS_CHECKSUM, 8);
    });
    pool.replace_front(&mut packet, 6, b"").expect("shorter");
    assert_eq!((pool.to_vec(&packet), packet.record().csum_start), (b"inner".to_vec(), 2));
    pool.replace_front(&mut packet, 2, b"the win").expect("longer");
    assert_eq!((pool.to_vec(&packet), packet.record().csum_start), (b"the winner".to_vec(), 7));
    assert_eq!((pool.first(&packet), pool.first(&packet)), (Some(*b"the"), Some(*b"the winner")));
    assert_eq!(pool.first::<11>(&packet), None);
    for (removes, bytes) in [(8, 0), (11, 0), (0, headroom + 8)] {
        pool.replace_front(&mut packet, removes, &vec![0; bytes])
            .expect_err("a checksum goes, an end, no room");
        assert_eq!(pool.to_vec(&packet), b"the winner");
    }
    packet.edit(|record| record.offload_flags = 0);
    pool.replace_front(&mut packet, 10, b"").expect("all of it");
    assert_eq!(packet.length(), 0);
    pool.free(packet);
}

/// Buffers begin in different lines, and a copy begins where the packet does.
#[test]
fn a_checksum_that_is_to_be_completed_starts_in_a_copy_where_it_does_in_the_packet() {
    let pool = pool(16);
    for offset in [128, 192, 256, 320] {
        let mut packet = pool.allocate().expect("sixteen buffers");
        assert!(packet.set_extent(offset, 60, pool.buffer_size()));
        packet.edit(|record| {
            (record.offload_flags, record.csum_start) = (nf_abi::offload::NEEDS_CHECKSUM, 34);
        });
        let copies: Vec<Packet> =
            (0..15).map(|_| pool.duplicate(&packet).expect("fifteen are left")).collect();
        for copy in &copies {
            assert_eq!((copy.offset(), copy.length(), copy.record().csum_start), (offset, 60, 34));
        }
        pool.free_batch(copies);
        pool.free(packet);
    }
}
