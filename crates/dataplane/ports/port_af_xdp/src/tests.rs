//! What needs no interface. Traffic is in `testbed/tests/port_af_xdp.rs`.

use crate::checksum::{self, Unfinished, find_unfinished};
use crate::open::choose_queues;
use crate::socket::Descriptor;
use crate::umem::{NotLent, Umem};
use crate::{AfXdpPort, Mode, OpenError, SCHEMA, Settings, UmemChoice, UnfinishedChecksums};
use kernel_interface::QueueCounts;
use nf_abi::offload;
use packet::checksum::Sum;
use packet_memory::{BufferSize, PageKind, Pool, PoolConfig};
use port::{Port, PortStatus};
use proptest::prelude::*;
use schema::Schema;
use std::sync::Arc;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::complete_checksum;
use yaml_document::Document;

const NOW: Nanos = Nanos(1_700_000_000_000_000_000);

fn pool_of(buffers: u32, buffer_size: BufferSize, headroom: u32) -> Arc<Pool> {
    let config = PoolConfig { buffers, buffer_size, headroom, pages: Some(PageKind::Ordinary) };
    Arc::new(Pool::new("test", config).expect("a small pool"))
}

fn pool(buffers: u32) -> Arc<Pool> {
    pool_of(buffers, BufferSize::DEFAULT, 128)
}

/// What kind of packet to make.
#[derive(Clone, Debug)]
struct Shape {
    tags: usize,
    six: bool,
    tcp: bool,
    options: usize,
    payload: Vec<u8>,
}

impl Shape {
    fn network(&self) -> usize {
        14 + 4 * self.tags
    }

    fn transport(&self) -> usize {
        self.network() + if self.six { 40 } else { 20 + 4 * self.options }
    }

    fn place(&self) -> Unfinished {
        Unfinished { start: self.transport() as u16, offset: if self.tcp { 16 } else { 6 } }
    }

    fn field(&self) -> usize {
        usize::from(self.place().start + self.place().offset)
    }

    /// A frame in whose checksum the sum of the pseudo header stands, as kernels leave it.
    fn unfinished(&self) -> Vec<u8> {
        let header = if self.tcp { 20 } else { 8 };
        let size = (header + self.payload.len()) as u16;
        let protocol = if self.tcp { 6 } else { 17 };
        let mut bytes = vec![2; 12];
        for _ in 0..self.tags {
            bytes.extend([0x81, 0, 0, 7]);
        }
        let sum = if self.six {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend(size.to_be_bytes());
            bytes.extend([protocol, 64]);
            let (source, destination) = ([0x20, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0xfd; 16]);
            bytes.extend(source);
            bytes.extend(destination);
            Sum::ZERO.add_pseudo_v6(source.into(), destination.into(), protocol, u32::from(size))
        } else {
            let total = (20 + 4 * self.options) as u16 + size;
            bytes.extend([8, 0, 0x45 + self.options as u8, 0]);
            bytes.extend(total.to_be_bytes());
            bytes.extend([0, 9, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 77]);
            bytes.extend(vec![1; 4 * self.options]);
            Sum::ZERO.add_pseudo_v4([10, 0, 0, 1].into(), [192, 0, 2, 77].into(), protocol, size)
        };
        let transport = bytes.len();
        bytes.resize(transport + header, 3);
        bytes.extend(&self.payload);
        bytes[self.field()..self.field() + 2].copy_from_slice(&sum.folded().to_be_bytes());
        bytes
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    (0usize..3, any::<bool>(), any::<bool>(), 0usize..11, prop::collection::vec(any::<u8>(), 0..1400))
        .prop_map(|(tags, six, tcp, options, payload)| {
            // What is looked at ends before a TCP header behind everything else at once.
            let options = if six { 0 } else { options.min(5) };
            Shape { tags, six, tcp, options, payload }
        })
}

proptest! {
    #[test]
    fn an_unfinished_checksum_is_found_and_finished(shape in shape()) {
        let frame = shape.unfinished();
        let head = &frame[..frame.len().min(checksum::LOOKED_AT)];
        prop_assert_eq!(find_unfinished(head, frame.len() as u32), Some(shape.place()));

        let pool = pool(1);
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, &frame).expect("it fits");
        prop_assert!(checksum::note_unfinished(&pool, &mut packet));
        prop_assert_eq!(packet.record().offload_flags, offload::NEEDS_CHECKSUM);
        prop_assert!(complete_checksum(&pool, &mut packet));
        let finished = pool.to_vec(&packet);
        // Everything but the field as it was; and over header, payload and pseudo header the sum is all ones.
        let field = shape.field();
        prop_assert_eq!(&finished[..field], &frame[..field]);
        prop_assert_eq!(&finished[field + 2..], &frame[field + 2..]);
        let pseudo = u16::from_be_bytes([frame[field], frame[field + 1]]);
        let sum = Sum::ZERO.add_u16(pseudo).add_bytes(&finished[shape.transport()..]);
        prop_assert_eq!(sum.folded(), 0xffff);
        // A finished one is left alone, but for the one in 65,536 that looks the same, which another turn
        // leaves the same.
        if find_unfinished(&finished[..head.len()], finished.len() as u32).is_some() {
            prop_assert_eq!(&finished[field..field + 2], &frame[field..field + 2]);
        }
        pool.free(packet);
    }

    #[test]
    fn anything_else_is_left_alone(shape in shape(), kind in 0usize..6, by in 1u16..) {
        let mut frame = shape.unfinished();
        let (network, field) = (shape.network(), shape.field());
        match kind {
            // Another sum; plus zero in one's complement is not one.
            0 => {
                let found = u16::from_be_bytes([frame[field], frame[field + 1]]);
                let other = found.wrapping_add(by);
                frame[field..field + 2].copy_from_slice(&other.to_be_bytes());
            }
            // Bytes behind the packet.
            1 => frame.push(0),
            // Cut.
            2 => { frame.pop(); }
            // Another protocol.
            3 => frame[network + if shape.six { 6 } else { 9 }] = 132,
            // Another version of IP than the frame says.
            4 => frame[network] ^= 0x20,
            // A fragment; another destination in the other family.
            _ => frame[network + if shape.six { 39 } else { 7 }] ^= 1,
        }
        let head = &frame[..frame.len().min(checksum::LOOKED_AT)];
        prop_assert_eq!(find_unfinished(head, frame.len() as u32), None);
    }

    #[test]
    fn no_bytes_are_too_strange(head in prop::collection::vec(any::<u8>(), 0..100), length: u32) {
        if let Some(Unfinished { start, offset }) = find_unfinished(&head, length) {
            prop_assert!(u32::from(start) + u32::from(offset) + 2 <= length);
        }
    }

    #[test]
    fn nothing_is_believed_that_was_not_lent(
        steps in prop::collection::vec((0u8..5, any::<u64>(), any::<u32>()), 1..200),
    ) {
        let pool = pool(8);
        let mut umem = Umem::new(Arc::clone(&pool), true);
        let (mut empty, mut sent, mut packets) = (vec![], vec![], vec![]);
        for (kind, address, length) in steps {
            match kind {
                0 => {
                    let mut taken = vec![];
                    pool.take_buffers(1, &mut taken);
                    empty.extend(taken.into_iter().map(|buffer| umem.lend_empty(buffer)));
                }
                1 => if let Some(mut packet) = pool.allocate() {
                    pool.set_length(&mut packet, 60).expect("it fits");
                    sent.push(umem.lend_packet(packet).address);
                },
                // The kernel says that it received into some place.
                2 => {
                    let address = address % (10 * 2048);
                    let known = empty.iter().position(|&lent| lent == address & !2047);
                    let descriptor = Descriptor { address, length: length % 3000, options: 0 };
                    match umem.take_received(descriptor) {
                        Ok(packet) => {
                            prop_assert!(known.is_some());
                            prop_assert_eq!((u64::from(packet.offset()), packet.length()), (address % 2048, length % 3000));
                            packets.push(packet);
                        }
                        Err(NotLent) => prop_assert!(known.is_none() || address % 2048 + u64::from(length % 3000) > 2048),
                    }
                    known.map(|known| empty.swap_remove(known));
                }
                // The kernel says that it sent something.
                3 => {
                    let address = if address % 3 == 0 { address } else { address % (10 * 2048) };
                    let known = sent.iter().position(|&lent| lent & !2047 == address & !2047);
                    match umem.take_sent(address) {
                        Ok((buffer, length)) => {
                            prop_assert!(known.is_some() && length == 60);
                            pool.return_buffers([buffer]);
                        }
                        Err(NotLent) => prop_assert!(known.is_none()),
                    }
                    known.map(|known| sent.swap_remove(known));
                }
                _ => pool.free_batch(packets.drain(..)),
            }
            prop_assert_eq!(pool.available() + empty.len() + sent.len() + packets.len(), 8);
        }
        pool.free_batch(packets);
        prop_assert_eq!(umem.take_all(), sent.len() as u64);
        prop_assert_eq!(pool.available(), 8);
    }
}

#[test]
fn buffers_are_chunks_of_at_most_a_page() {
    let shapes = [
        (2 << 10, 128, (2048, 0, 1792)),
        (2 << 10, 300, (2048, 44, 1748)),
        (4 << 10, 256, (4096, 0, 3840)),
        (64 << 10, 128, (4096, 0, 3840)),
        (64 << 10, 1024, (4096, 768, 3072)),
    ];
    for (size, headroom, expected) in shapes {
        let pool = pool_of(4, BufferSize::new(size).expect("a size"), headroom);
        let umem = Umem::new(pool, true);
        assert_eq!((umem.chunk(), umem.headroom(), umem.room()), expected, "{size} {headroom}");
    }
}

#[test]
fn only_what_lies_in_one_chunk_can_be_sent() {
    let pool = pool_of(1, BufferSize::LARGEST, 128);
    let umem = Umem::new(Arc::clone(&pool), true);
    let mut packet = pool.allocate().expect("a buffer");
    for (offset, length, can) in [
        (0, 4096, true),
        (1, 4096, false),
        (4095, 2, false),
        (8192, 4096, true),
        (9000, 3288, true),
        (9000, 3289, false),
    ] {
        assert!(packet.set_extent(offset, length, 64 << 10));
        assert_eq!(umem.can_send(&packet), can, "{offset} {length}");
    }
    pool.free(packet);
}

#[test]
fn queues_are_those_that_there_are() {
    let counts = |receive, transmit| Some(QueueCounts { receive, transmit });
    assert_eq!(choose_queues(None, counts(3, 1)), Ok(vec![0, 1, 2]));
    assert_eq!(choose_queues(None, None), Ok(vec![0]));
    assert_eq!(choose_queues(Some(&[2, 0]), counts(3, 3)), Ok(vec![0, 2]));
    assert_eq!(choose_queues(Some(&[9]), None), Ok(vec![9]), "the kernel knows better");
    for (wanted, counts, words) in [
        (&[3][..], counts(3, 3), "no queue 3"),
        (&[2, 1], counts(3, 1), "can send"),
        (&[1, 1], counts(3, 3), "twice"),
        (&[], counts(3, 3), "at least one"),
    ] {
        let refused = choose_queues(Some(wanted), counts).expect_err(words);
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn an_absent_interface_is_an_error_or_a_port_that_waits() {
    let pool = pool(1);
    let absent = || Settings::new("sf-absent-0");
    let error = AfXdpPort::open(absent(), Arc::clone(&pool)).err().expect("it is not there");
    assert!(error.to_string().contains("interface `sf-absent-0`: there is none of this name"), "{error}");
    let mut port = AfXdpPort::waiting(absent(), Arc::clone(&pool)).expect("it may wait");
    assert!(matches!(port.status(), PortStatus::Down(reason) if reason.contains("not there")));
    assert!(port.maintain(NOW).is_empty());

    let mut packets = vec![pool.allocate().expect("a buffer")];
    port.transmit(&pool, NOW, &mut packets);
    assert_eq!(port.counters().ledger.dropped[DropReason::PortDown], 1);
    assert_eq!(pool.available(), 1);
    port.receive(&pool, NOW, 64, &mut packets);
    assert!(packets.is_empty());
    port.close(&pool).expect("nothing to do");
}

#[test]
fn names_that_no_interface_can_have_are_refused() {
    let pool = pool(1);
    for name in ["", "a/b", "a b", "sixteen-letters-", "a:1", "a\0"] {
        let refused = AfXdpPort::open(Settings::new(name), Arc::clone(&pool)).err();
        assert!(matches!(refused, Some(OpenError::BadName { .. })), "{name:?}: {refused:?}");
    }
}

fn settings(text: &str) -> Result<Settings, Vec<String>> {
    let schema = Schema::from_text("settings.yaml", SCHEMA).expect("a schema without faults");
    let document = Document::parse("edge.yaml", text).expect("YAML");
    let mut faults = Vec::new();
    let value = schema.check("edge.yaml", "ports.lan", Some(document.root()), &mut faults);
    value.map(|value| Settings::from_value(&value)).ok_or(faults.iter().map(ToString::to_string).collect())
}

#[test]
fn settings_come_from_the_operators_file() {
    assert_eq!(
        settings("interface: sf-lan"),
        Ok(Settings::new("sf-lan")),
        "the same defaults in both places"
    );
    let all = "{interface: a, mode: generic, queues: [0, 3], umem: own, receive_ring: 64, transmit_ring: 128, \
               promiscuous: false, unfinished_checksums: ignore}";
    let expected = Settings {
        interface: "a".into(),
        mode: Some(Mode::Generic),
        queues: Some(vec![0, 3]),
        umem: UmemChoice::Own,
        receive_ring: 64,
        transmit_ring: 128,
        promiscuous: false,
        unfinished_checksums: UnfinishedChecksums::Ignore,
        owner: None,
        active: None,
    };
    assert_eq!(settings(all), Ok(expected));
    for mode in Mode::ALL {
        let text = format!("{{interface: a, mode: {}}}", mode.name());
        assert_eq!(settings(&text).map(|settings| settings.mode), Ok(Some(mode)));
    }
    for (wrong, key) in [
        ("mode: auto", "interface"),
        ("{interface: a, mode: fast}", "mode"),
        ("{interface: a, queues: []}", "queues"),
        ("{interface: a, queues: [-1]}", "queues"),
        ("{interface: a, receive_ring: 1}", "receive_ring"),
        ("{interface: a, transmit_ring: 65536}", "transmit_ring"),
        ("{interface: a, offload: on}", "offload"),
    ] {
        let faults = settings(wrong).expect_err(wrong);
        assert!(faults.len() == 1 && faults[0].contains(key), "{wrong}: {faults:?}");
    }
}

#[test]
fn the_readme_has_the_settings() {
    let table = Schema::from_text("settings.yaml", SCHEMA).expect("a schema without faults").to_markdown();
    assert!(include_str!("../README.md").contains(&table), "README.md must have this table:\n{table}");
}
