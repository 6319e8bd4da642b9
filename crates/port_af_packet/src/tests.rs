//! What can be tested without a socket: the walk over blocks, the way into the pool, checksums, the decisions.

use crate::block::{Reader, VlanTag};
use crate::intake::{Intake, Target, Trouble};
use crate::socket::Presence;
use crate::state::{Action, decide};
use crate::{AfPacketPort, OpenError, SCHEMA, Settings};
use clock::Nanos;
use nf_abi::offload;
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortStatus};
use proptest::prelude::*;
use schema::Schema;
use telemetry::DropReason;
use virtio_net::VnetHeader;
use yaml_document::Document;

const NOW: Nanos = Nanos(1_700_000_000_000_000_000);

#[derive(Clone, Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    /// Bytes of the frame that did not fit into the block.
    cut: u32,
    vnet: VnetHeader,
    vlan: Option<VlanTag>,
    kind: u8,
    checksum_missing: bool,
}

/// Writes a block as the kernel does.
fn block(frames: &[Written], vnet: bool) -> Vec<u8> {
    let mut block = vec![0; 48];
    block[8..12].copy_from_slice(&libc::TP_STATUS_USER.to_ne_bytes());
    block[12..16].copy_from_slice(&(frames.len() as u32).to_ne_bytes());
    block[16..20].copy_from_slice(&48u32.to_ne_bytes());
    for (n, frame) in frames.iter().enumerate() {
        let mac = 82 + if vnet { VnetHeader::LENGTH } else { 0 };
        let next = (mac + frame.bytes.len()).next_multiple_of(8);
        let mut status = libc::TP_STATUS_USER;
        let tag = frame.vlan.unwrap_or(VlanTag { tpid: 0, tci: 0 });
        if frame.vlan.is_some() {
            status |= libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        }
        if frame.checksum_missing {
            status |= libc::TP_STATUS_CSUMNOTREADY;
        }
        let mut head = Vec::new();
        let captured = frame.bytes.len() as u32;
        let last = n + 1 == frames.len();
        for word in
            [if last { 0 } else { next as u32 }, 1_700_000_000, 5, captured, captured + frame.cut, status]
        {
            head.extend(word.to_ne_bytes());
        }
        head.extend((mac as u16).to_ne_bytes());
        head.extend((mac as u16 + 14).to_ne_bytes());
        head.extend(0u32.to_ne_bytes());
        head.extend(u32::from(tag.tci).to_ne_bytes());
        head.extend(tag.tpid.to_ne_bytes());
        head.resize(58, 0);
        head.push(frame.kind);
        head.resize(82, 0);
        if vnet {
            head.extend(frame.vnet.to_bytes());
        }
        let start = block.len();
        block.extend(head);
        block.extend(&frame.bytes);
        block.resize(start + next, 0);
    }
    block
}

fn pool(buffers: u32) -> Pool {
    let config = PoolConfig {
        buffers,
        buffer_size: BufferSize::DEFAULT,
        headroom: 128,
        pages: Some(PageKind::Ordinary),
    };
    Pool::new("test", config).expect("a small pool")
}

fn take(intake: &mut Intake, pool: &Pool, block: &[u8], vnet: bool) -> Vec<Packet> {
    let mut out = Vec::new();
    let mut reader = Reader::new(block);
    let mut target = Target { pool, now: NOW, out: &mut out };
    while reader.remaining() > 0 {
        intake.take_block(block, &mut reader, vnet, 3, &mut target);
    }
    out
}

fn frame(length: usize) -> Written {
    Written { bytes: (0..length).map(|n| n as u8).collect(), ..Written::default() }
}

#[test]
fn state_of_the_frame_goes_into_the_record() {
    let vnet = VnetHeader {
        flags: offload::NEEDS_CHECKSUM,
        gso_type: offload::GSO_TCPV4,
        header_length: 66,
        gso_size: 1448,
        csum_start: 34,
        csum_offset: 16,
    };
    let (pool, mut intake) = (pool(4), Intake::default());
    let packets = take(&mut intake, &pool, &block(&[Written { vnet, ..frame(200) }], true), true);
    let record = *packets[0].record();
    assert_eq!(VnetHeader { header_length: 66, ..VnetHeader::of(&record) }, vnet);
    assert_eq!(record.timestamp, NOW.0, "5 ns ahead of the worker's clock is now");
    assert_eq!(pool.to_vec(&packets[0]), frame(200).bytes);
    pool.free_batch(packets);
    assert_eq!(pool.available(), 4);
}

#[test]
fn a_vlan_tag_goes_back_and_moves_the_checksum() {
    let vnet = VnetHeader {
        flags: offload::NEEDS_CHECKSUM,
        csum_start: 34,
        csum_offset: 16,
        ..VnetHeader::default()
    };
    let tag = VlanTag { tpid: 0x88a8, tci: 0x2064 };
    let (pool, mut intake) = (pool(4), Intake::default());
    let written = Written { vnet, vlan: Some(tag), ..frame(100) };
    let packets = take(&mut intake, &pool, &block(std::slice::from_ref(&written), true), true);
    let mut expected = written.bytes.clone();
    expected.splice(12..12, [0x88, 0xa8, 0x20, 0x64]);
    assert_eq!(pool.to_vec(&packets[0]), expected);
    assert_eq!((packets[0].record().csum_start, packets[0].record().csum_offset), (38, 16));
    assert_eq!(intake.counters.received_bytes, 104);
    pool.free_batch(packets);
}

#[test]
fn what_does_not_fit_is_dropped_and_told_once() {
    let room = pool(1).room() as usize;
    let (pool, mut intake) = (pool(8), Intake::default());
    let tag = Some(VlanTag { tpid: 0x8100, tci: 1 });
    let frames = [
        frame(room),
        frame(room + 1),
        Written { vlan: tag, ..frame(room - 4) },
        Written { vlan: tag, ..frame(room - 3) },
        Written { cut: 1, ..frame(100) },
    ];
    let packets = take(&mut intake, &pool, &block(&frames, true), true);
    assert_eq!(packets.len(), 2);
    let ledger = &intake.counters.ledger;
    assert_eq!((ledger.received, ledger.dropped[DropReason::TooLong]), (5, 3));
    assert_eq!(intake.troubles.len(), 1);
    assert!(matches!(intake.troubles[0], Trouble::TooLong { length, .. } if length as usize == room + 1));
    ledger.balance(packets.len() as u64).expect("every frame is accounted for");
    pool.free_batch(packets);
    assert_eq!(pool.available(), 8);
}

#[test]
fn without_buffers_frames_are_counted_and_dropped() {
    let (pool, mut intake) = (pool(2), Intake::default());
    let packets = take(&mut intake, &pool, &block(&vec![frame(60); 5], true), true);
    assert_eq!(packets.len(), 2);
    assert_eq!(intake.counters.ledger.dropped[DropReason::NoBuffer], 3);
    intake.counters.ledger.balance(2).expect("every frame is accounted for");
    pool.free_batch(packets);
}

#[test]
fn own_frames_do_not_come_back() {
    let (pool, mut intake) = (pool(2), Intake::default());
    let own = Written { kind: libc::PACKET_OUTGOING, ..frame(60) };
    assert!(take(&mut intake, &pool, &block(&[own], true), true).is_empty());
    assert_eq!(intake.counters.ledger.received, 0);
    assert_eq!(pool.available(), 2);
}

#[test]
fn an_unfinished_checksum_is_not_passed_on_without_headers() {
    let (pool, mut intake) = (pool(2), Intake::default());
    let unfinished = Written { checksum_missing: true, ..frame(60) };
    assert!(take(&mut intake, &pool, &block(&[unfinished], false), false).is_empty());
    assert_eq!(intake.counters.ledger.dropped[DropReason::Malformed], 1);
    assert_eq!(intake.troubles, [Trouble::ChecksumMissing]);
}

#[test]
fn a_block_that_points_out_of_itself_is_given_up() {
    let (pool, mut intake) = (pool(8), Intake::default());
    let mut bytes = block(&vec![frame(60); 4], true);
    let second = 48 + u32::from_ne_bytes(*bytes[48..].first_chunk().expect("a header")) as usize;
    bytes[second + 12..second + 16].copy_from_slice(&u32::MAX.to_ne_bytes());
    let packets = take(&mut intake, &pool, &bytes, true);
    assert_eq!(packets.len(), 1);
    assert_eq!(intake.counters.ledger.dropped[DropReason::Malformed], 3);
    intake.counters.ledger.balance(1).expect("every frame is accounted for");
    pool.free_batch(packets);
    assert_eq!(pool.available(), 8);
}

proptest! {
    #[test]
    fn a_block_is_read_as_it_was_written(
        frames in prop::collection::vec((14usize..400, any::<[u8; 10]>(), prop::option::of(any::<(u16, u16)>())), 0..40),
        vnet: bool,
    ) {
        let frames: Vec<Written> = frames.into_iter().map(|(length, header, tag)| Written {
            vnet: VnetHeader::from_bytes(&header),
            vlan: tag.map(|(tpid, tci)| VlanTag { tpid, tci }),
            ..frame(length)
        }).collect();
        let bytes = block(&frames, vnet);
        let mut reader = Reader::new(&bytes);
        for written in &frames {
            let read = reader.next(&bytes, vnet).expect("a good block").expect("one more frame");
            prop_assert_eq!(read.bytes, &written.bytes[..]);
            prop_assert_eq!(read.length as usize, written.bytes.len());
            prop_assert_eq!(read.vlan, written.vlan);
            prop_assert_eq!(read.vnet, vnet.then_some(written.vnet));
        }
        prop_assert_eq!(reader.next(&bytes, vnet), Ok(None));
    }

    #[test]
    fn garbage_ends_without_leaving_the_block(
        mut bytes in prop::collection::vec(any::<u8>(), 0..2000),
        changes in prop::collection::vec((0usize..600, any::<u32>()), 0..20),
        genuine: bool,
    ) {
        if genuine {
            bytes = block(&[frame(60), frame(100), frame(200)], true);
        }
        for (at, value) in changes {
            if let Some(place) = bytes.get_mut(at..at + 4) {
                // Small values reach further than random ones, which are refused at once.
                place.copy_from_slice(&(value % 700).to_ne_bytes());
            }
        }
        for vnet in [true, false] {
            let mut reader = Reader::new(&bytes);
            let mut walked = 0;
            while let Ok(Some(read)) = reader.next(&bytes, vnet) {
                prop_assert!(bytes.as_ptr_range().contains(&read.bytes.as_ptr()) || read.bytes.is_empty());
                walked += 1;
                // Each frame but the last takes the room of its header.
                prop_assert!((walked - 1) * libc::TPACKET3_HDRLEN <= bytes.len());
            }
        }
    }
}

#[test]
fn an_interface_is_judged_by_its_number_and_flags() {
    let there = |index, up, carrier| Presence::Present { index, up, carrier };
    assert_eq!(decide("a", there(3, true, true), Some(3)), Action::Up);
    assert_eq!(decide("a", there(4, true, true), Some(3)), Action::Open);
    assert_eq!(decide("a", there(4, true, true), Some(-1)), Action::Open);
    assert_eq!(decide("a", there(4, true, true), None), Action::Open);
    let down = |action: Action| match action {
        Action::Down(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert!(down(decide("a", Presence::Absent, Some(-1))).contains("not there"));
    assert!(down(decide("a", there(3, false, false), Some(3))).contains("ip link set a up"));
    assert!(down(decide("a", there(3, true, false), Some(3))).contains("carrier"));
}

#[test]
fn an_absent_interface_is_an_error_or_a_port_that_waits() {
    let absent = || Settings::new("sf-absent-0");
    let error = AfPacketPort::open(absent()).err().expect("it is not there");
    assert!(error.to_string().contains("interface `sf-absent-0`: there is none of this name"), "{error}");
    let mut port = AfPacketPort::waiting(absent()).expect("it may wait");
    assert!(matches!(port.status(), PortStatus::Down(reason) if reason.contains("not there")));
    assert!(port.maintain(NOW).is_empty());

    let pool = pool(1);
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
    for name in ["", "a/b", "a b", "sixteen-letters-", "a:1", "a\0"] {
        let refused = AfPacketPort::open(Settings::new(name)).err();
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
    let all =
        "{interface: a, retire: 5ms, ring: 1MiB, transmit_buffer: 256KiB, promiscuous: false, offload: off}";
    let expected = Settings {
        interface: "a".into(),
        retire: Nanos::from_millis(5),
        ring: 1 << 20,
        transmit_buffer: Some(256 << 10),
        promiscuous: false,
        offload: false,
    };
    assert_eq!(settings(all), Ok(expected));
    for (wrong, key) in [
        ("ring: 1MiB", "interface"),
        ("{interface: a, retire: 1us}", "retire"),
        ("{interface: a, ring: 1KiB}", "ring"),
        ("{interface: a, offload: sometimes}", "offload"),
        ("{interface: a, mtu: 1}", "mtu"),
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
