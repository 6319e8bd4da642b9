//! What can be tested without a socket: slots, the way into the pool, settings, the decisions.

use crate::intake::{ADDRESSES, Intake, LongFrame, LongFrames, Target, Trouble};
use crate::slot::{MalformedSlot, VlanTag, parse};
use crate::{AfPacketPort, OpenError, SCHEMA, Settings};
use nf_abi::offload;
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortStatus};
use proptest::prelude::*;
use schema::Schema;
use std::collections::VecDeque;
use std::io;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::VnetHeader;
use yaml_document::Document;

const NOW: Nanos = Nanos(1_700_000_000_000_000_000);

/// Bytes in front of a frame in a slot, without virtio-net header.
const MAC: usize = 66;

#[derive(Clone, Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    /// Bytes of the frame that did not fit into the slot.
    cut: u32,
    /// The whole frame is in the queue.
    queued: bool,
    vnet: VnetHeader,
    vlan: Option<VlanTag>,
    kind: u8,
    checksum_missing: bool,
}

/// Writes a slot as the kernel does.
fn slot(frame: &Written, vnet: bool) -> Vec<u8> {
    let mac = MAC + if vnet { VnetHeader::LENGTH } else { 0 };
    let mut status = libc::TP_STATUS_USER;
    let tag = frame.vlan.unwrap_or(VlanTag { tpid: 0, tci: 0 });
    if frame.vlan.is_some() {
        status |= libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
    }
    if frame.checksum_missing {
        status |= libc::TP_STATUS_CSUMNOTREADY;
    }
    if frame.queued {
        status |= libc::TP_STATUS_COPY;
    }
    let captured = frame.bytes.len() as u32;
    let mut slot = Vec::new();
    for word in [status, captured + frame.cut, captured] {
        slot.extend(word.to_ne_bytes());
    }
    for half in [mac as u16, mac as u16 + 14] {
        slot.extend(half.to_ne_bytes());
    }
    for word in [1_700_000_000u32, 5] {
        slot.extend(word.to_ne_bytes());
    }
    for half in [tag.tci, tag.tpid] {
        slot.extend(half.to_ne_bytes());
    }
    slot.resize(42, 0);
    slot.push(frame.kind);
    slot.resize(MAC, 0);
    if vnet {
        slot.extend(frame.vnet.to_bytes());
    }
    slot.extend(&frame.bytes);
    slot
}

/// A socket's queue.
#[derive(Default)]
struct Queue(VecDeque<(Vec<u8>, Option<VnetHeader>)>);

impl LongFrames for Queue {
    fn take(&mut self, pool: &Pool, packet: &mut Packet, tagged: bool) -> io::Result<LongFrame> {
        let (bytes, vnet) = self.0.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        let room = packet.length() as usize - if tagged { VlanTag::LENGTH } else { 0 };
        let kept = &bytes[..bytes.len().min(room)];
        let (addresses, rest) = kept.split_at(ADDRESSES);
        let behind = ADDRESSES + if tagged { VlanTag::LENGTH } else { 0 };
        pool.patch(packet, 0, addresses).expect("it fits");
        pool.patch(packet, behind, rest).expect("it fits");
        Ok(LongFrame { length: bytes.len(), vnet })
    }

    fn read(&mut self, into: &mut [u8], tagged: bool) -> io::Result<LongFrame> {
        let (bytes, vnet) = self.0.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        let behind = ADDRESSES + if tagged { VlanTag::LENGTH } else { 0 };
        let kept = &bytes[..bytes.len().min(into.len() + ADDRESSES - behind)];
        into[..ADDRESSES].copy_from_slice(&kept[..ADDRESSES]);
        into[behind..behind + kept.len() - ADDRESSES].copy_from_slice(&kept[ADDRESSES..]);
        Ok(LongFrame { length: bytes.len(), vnet })
    }

    fn discard(&mut self) -> io::Result<()> {
        self.0.pop_front().map(|_| ()).ok_or(io::ErrorKind::WouldBlock.into())
    }
}

fn pool(buffers: u32) -> Pool {
    let config = PoolConfig {
        buffers,
        buffer_size: BufferSize::new(4096).expect("a size"),
        headroom: 128,
        pages: Some(PageKind::Ordinary),
    };
    Pool::new("test", config).expect("a small pool")
}

/// Takes these frames out of their slots, and out of a queue that has to be empty behind them.
fn take(intake: &mut Intake, pool: &Pool, frames: &[Written], vnet: bool, mut queue: Queue) -> Vec<Packet> {
    let mut out = Vec::new();
    let mut target = Target { pool, now: NOW, out: &mut out, most: usize::MAX };
    intake.reserve(pool, frames.len());
    for frame in frames {
        assert!(
            intake.take(&slot(frame, vnet), vnet, &mut queue, &mut target),
            "there is room for all of it"
        );
    }
    intake.give_back(pool);
    assert!(queue.0.is_empty(), "frames were left in the queue");
    out
}

fn take_short(intake: &mut Intake, pool: &Pool, frames: &[Written], vnet: bool) -> Vec<Packet> {
    take(intake, pool, frames, vnet, Queue::default())
}

fn frame(length: usize) -> Written {
    Written { bytes: (0..length).map(|n| n as u8).collect(), ..Written::default() }
}

/// One of TCP.
fn tcp(length: usize) -> Written {
    Written { bytes: unsegmented(length - 54).bytes, ..Written::default() }
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
    let packets = take_short(&mut intake, &pool, &[Written { vnet, ..tcp(200) }], true);
    let record = *packets[0].record();
    assert_eq!(VnetHeader { header_length: 66, ..VnetHeader::of(&record) }, vnet);
    assert_eq!(record.timestamp, NOW.0, "5 ns ahead of the worker's clock is now");
    assert_eq!(pool.to_vec(&packets[0]), tcp(200).bytes);
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
    let written = Written { vnet, vlan: Some(tag), ..tcp(100) };
    let packets = take_short(&mut intake, &pool, std::slice::from_ref(&written), true);
    let mut expected = written.bytes.clone();
    expected.splice(12..12, [0x88, 0xa8, 0x20, 0x64]);
    assert_eq!(pool.to_vec(&packets[0]), expected);
    assert_eq!((packets[0].record().csum_start, packets[0].record().csum_offset), (38, 16));
    assert_eq!(intake.counters.received_bytes, 104);
    pool.free_batch(packets);
}

/// Or packets would become others behind what has looked at them.
#[test]
fn a_checksum_anywhere_else_is_written_before_anything_looks() {
    let vnet = |csum_offset| VnetHeader {
        flags: offload::NEEDS_CHECKSUM,
        csum_start: 34,
        csum_offset,
        ..VnetHeader::default()
    };
    let (pool, mut intake) = (pool(4), Intake::default());
    let frames = [Written { vnet: vnet(2), ..tcp(100) }, Written { vnet: vnet(90), ..tcp(100) }];
    let packets = take_short(&mut intake, &pool, &frames, true);
    assert_eq!((packets.len(), packets[0].record().offload_flags), (1, 0));
    assert_ne!(pool.to_vec(&packets[0])[36..38], tcp(100).bytes[36..38], "the port that it goes to");
    // The other one's is outside of its packet.
    assert_eq!(intake.counters.ledger.dropped[DropReason::Malformed], 1);
    assert_eq!(intake.troubles, [], "the kernel is right");
    pool.free_batch(packets);
    assert_eq!(pool.available(), 4);
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
    ];
    let packets = take_short(&mut intake, &pool, &frames, true);
    assert_eq!(packets.len(), 2);
    let ledger = &intake.counters.ledger;
    assert_eq!((ledger.received, ledger.dropped[DropReason::TooLong]), (4, 2));
    assert_eq!(intake.troubles.len(), 1);
    assert!(matches!(intake.troubles[0], Trouble::TooLong { length, .. } if length as usize == room + 1));
    ledger.balance(packets.len() as u64).expect("every frame is accounted for");
    pool.free_batch(packets);
    assert_eq!(pool.available(), 8);
}

#[test]
fn without_buffers_frames_are_counted_and_dropped() {
    let (pool, mut intake) = (pool(2), Intake::default());
    let packets = take_short(&mut intake, &pool, &vec![frame(60); 5], true);
    assert_eq!(packets.len(), 2);
    assert_eq!(intake.counters.ledger.dropped[DropReason::NoBuffer], 3);
    intake.counters.ledger.balance(2).expect("every frame is accounted for");
    pool.free_batch(packets);
}

#[test]
fn own_frames_do_not_come_back() {
    let (pool, mut intake) = (pool(2), Intake::default());
    let own = Written { kind: libc::PACKET_OUTGOING, ..frame(60) };
    assert!(take_short(&mut intake, &pool, &[own], true).is_empty());
    assert_eq!(intake.counters.ledger.received, 0);
    assert_eq!(pool.available(), 2);
}

#[test]
fn an_unfinished_checksum_is_not_passed_on_without_headers() {
    let (pool, mut intake) = (pool(2), Intake::default());
    let unfinished = Written { checksum_missing: true, ..frame(60) };
    assert!(take_short(&mut intake, &pool, &[unfinished], false).is_empty());
    assert_eq!(intake.counters.ledger.dropped[DropReason::Malformed], 1);
    assert_eq!(intake.troubles, [Trouble::ChecksumMissing]);
}

#[test]
fn a_slot_that_points_out_of_itself_is_counted_alone() {
    let (pool, mut intake) = (pool(8), Intake::default());
    let (mut packets, mut queue) = (Vec::new(), Queue::default());
    let mut target = Target { pool: &pool, now: NOW, out: &mut packets, most: usize::MAX };
    intake.reserve(&pool, 3);
    let good = slot(&frame(60), true);
    let mut bad = good.clone();
    bad[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert_eq!(parse(&bad, true), Err(MalformedSlot { slot: bad.len() }));
    for bytes in [&good, &bad, &good] {
        intake.take(bytes, true, &mut queue, &mut target);
    }
    intake.give_back(&pool);
    assert_eq!(intake.counters.ledger.dropped[DropReason::Malformed], 1);
    assert_eq!(intake.troubles, [Trouble::Malformed]);
    intake.counters.ledger.balance(2).expect("every frame is accounted for");
    pool.free_batch(packets);
    assert_eq!(pool.available(), 8);
}

/// What is in the slot of a frame that is in the queue.
fn cut(whole: &Written, captured: usize) -> Written {
    let mut cut = Written { queued: true, cut: (whole.bytes.len() - captured) as u32, ..whole.clone() };
    cut.bytes.truncate(captured);
    cut
}

#[test]
fn long_frames_come_from_the_queue_in_their_place() {
    let (pool, mut intake) = (pool(8), Intake::default());
    let tag = VlanTag { tpid: 0x8100, tci: 7 };
    let vnet = VnetHeader {
        flags: offload::NEEDS_CHECKSUM,
        csum_start: 34,
        csum_offset: 16,
        ..VnetHeader::default()
    };
    let long = [Written { vnet, ..tcp(1800) }, Written { vnet, vlan: Some(tag), ..tcp(1900) }];
    // The state in front of a frame that was cut may be missing.
    let in_slots = long.each_ref().map(|whole| Written { vnet: VnetHeader::default(), ..cut(whole, 1780) });
    let frames = [frame(60), in_slots[0].clone(), frame(61), in_slots[1].clone()];
    let queue = Queue(long.iter().map(|whole| (whole.bytes.clone(), Some(vnet))).collect());
    let packets = take(&mut intake, &pool, &frames, true, queue);

    let mut tagged = long[1].bytes.clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    let expected = [&frame(60).bytes, &long[0].bytes, &frame(61).bytes, &tagged];
    for (packet, bytes) in packets.iter().zip(expected) {
        assert_eq!(pool.to_vec(packet), *bytes);
    }
    assert_eq!(packets.iter().map(|packet| packet.record().csum_start).collect::<Vec<_>>(), [0, 34, 0, 38]);
    assert_eq!(intake.counters.received_bytes, 60 + 1800 + 61 + 1904);
    assert_eq!(intake.troubles, []);
    pool.free_batch(packets);
    assert_eq!(pool.available(), 8);
}

#[test]
fn long_frames_that_are_not_taken_leave_the_queue() {
    let (small, mut intake) = (pool(1), Intake::default());
    let room = small.room() as usize;
    let own = Written { kind: libc::PACKET_OUTGOING, ..frame(1800) };
    // Too long, sent by this host, taken, and without a buffer.
    let long = [frame(room + 1), own, frame(1800), frame(1801)];
    let frames = long.each_ref().map(|whole| cut(whole, 1780));
    let queue = Queue(long.iter().map(|whole| (whole.bytes.clone(), None)).collect());
    let packets = take(&mut intake, &small, &frames, false, queue);
    assert_eq!(packets.iter().map(|packet| small.to_vec(packet)).collect::<Vec<_>>(), [frame(1800).bytes]);
    let ledger = &intake.counters.ledger;
    assert_eq!((ledger.received, ledger.dropped[DropReason::TooLong]), (3, 1));
    assert_eq!(ledger.dropped[DropReason::NoBuffer], 1);
    ledger.balance(1).expect("every frame is accounted for");
    small.free_batch(packets);
    assert_eq!(small.available(), 1);
}

/// A frame of TCP over IPv4 that is left to be cut, with `payload` bytes in segments of 1,448.
fn unsegmented(payload: usize) -> Written {
    let mut bytes = vec![2; 12];
    bytes.extend([8, 0, 0x45, 0]);
    bytes.extend((40 + payload as u16).to_be_bytes());
    bytes.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend([0, 80, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    bytes.extend((0..payload).map(|n| n as u8));
    let vnet = VnetHeader {
        flags: offload::NEEDS_CHECKSUM,
        gso_type: offload::GSO_TCPV4,
        header_length: 0,
        gso_size: 1448,
        csum_start: 34,
        csum_offset: 16,
    };
    Written { bytes, vnet, ..Written::default() }
}

#[test]
fn what_is_left_to_be_segmented_is_cut_when_no_buffer_takes_it_whole() {
    let (pool, mut intake) = (pool(64), Intake::default());
    let tag = VlanTag { tpid: 0x8100, tci: 7 };
    let long = Written { vlan: Some(tag), ..unsegmented(20_000) };
    let queue = Queue([(long.bytes.clone(), Some(long.vnet))].into());
    // The state in the slot of a frame that was cut may be missing.
    let in_slot = Written { vnet: VnetHeader::default(), ..cut(&long, 1780) };
    let packets = take(&mut intake, &pool, &[frame(60), in_slot, frame(61)], true, queue);
    // Two segments fit into a buffer, and stay one packet.
    let pieces = &packets[1..packets.len() - 1];
    assert_eq!(pieces.len(), 20_000_usize.div_ceil(2 * 1448));
    let mut payload: Vec<u8> = Vec::new();
    for packet in pieces {
        let bytes = pool.to_vec(packet);
        assert_eq!(bytes[12..18], [0x81, 0, 0, 7, 8, 0]);
        assert_eq!((packet.record().csum_start, packet.record().csum_offset), (38, 16));
        let several = bytes.len() > 58 + 1448;
        assert_eq!(packet.record().gso_type, if several { offload::GSO_TCPV4 } else { offload::GSO_NONE });
        payload.extend(&bytes[58..]);
    }
    assert_eq!(payload, long.bytes[54..]);
    let counters = &intake.counters;
    assert_eq!((counters.ledger.received, counters.ledger.split), (3, pieces.len() as u64 - 1));
    assert_eq!(counters.received_bytes, 60 + 20_058 + 61);
    counters.ledger.balance(packets.len() as u64).expect("every packet is accounted for");
    assert_eq!(intake.troubles, []);
    pool.free_batch(packets);
    assert_eq!(pool.available(), 64);
}

#[test]
fn no_more_pieces_come_than_there_is_room_for_and_the_rest_comes_later() {
    let (pool, mut intake) = (pool(64), Intake::default());
    let long = unsegmented(20_000);
    let mut queue = Queue([(long.bytes.clone(), Some(long.vnet))].into());
    let slot = slot(&cut(&long, 1780), true);
    let (mut out, mut calls) = (Vec::new(), 0);
    loop {
        let mut target = Target { pool: &pool, now: NOW, out: &mut out, most: 3 };
        let done = intake.take(&slot, true, &mut queue, &mut target);
        intake
            .counters
            .ledger
            .balance(out.len() as u64 + calls * 3)
            .expect("what is not there yet is not counted");
        if done {
            break;
        }
        assert_eq!(out.len(), 3);
        pool.free_batch(out.drain(..));
        calls += 1;
    }
    assert_eq!((calls, out.len(), intake.counters.ledger.split), (2, 1, 6));
    pool.free_batch(out.drain(..));
    // A port that is closed meanwhile accounts for what it had not made yet, also before the first piece.
    for most in [0, 2] {
        let mut intake = Intake::default();
        queue.0.push_back((long.bytes.clone(), Some(long.vnet)));
        let mut target = Target { pool: &pool, now: NOW, out: &mut out, most };
        assert!(!intake.take(&slot, true, &mut queue, &mut target));
        assert!(intake.cutting.give_up(&mut intake.counters));
        assert_eq!(intake.counters.ledger.dropped[DropReason::HeldAtStop], 7 - most as u64);
        intake.counters.ledger.balance(most as u64).expect("every packet is accounted for");
        pool.free_batch(out.drain(..));
        assert!(!intake.cutting.give_up(&mut intake.counters));
    }
    // Without buffers pieces are lost for that reason.
    let (small, mut intake) = (super::tests::pool(2), Intake::default());
    queue.0.push_back((long.bytes.clone(), Some(long.vnet)));
    let mut target = Target { pool: &small, now: NOW, out: &mut out, most: usize::MAX };
    assert!(intake.take(&slot, true, &mut queue, &mut target));
    assert_eq!((out.len(), intake.counters.ledger.dropped[DropReason::NoBuffer]), (2, 5));
    intake.counters.ledger.balance(2).expect("every packet is accounted for");
    small.free_batch(out);
}

#[test]
fn a_queue_that_does_not_match_the_slots_is_told() {
    let (pool, mut intake) = (pool(4), Intake::default());
    let long = [frame(1800), frame(1900), frame(1850)];
    let frames = long.each_ref().map(|whole| cut(whole, 1780));
    // The first has another length, the last is missing.
    let queue = Queue([1799, 1900].map(|length| (frame(length).bytes, None)).into());
    let packets = take(&mut intake, &pool, &frames, false, queue);
    assert_eq!(packets.iter().map(|packet| pool.to_vec(packet)).collect::<Vec<_>>(), [frame(1900).bytes]);
    assert_eq!(intake.counters.ledger.dropped[DropReason::Malformed], 2);
    assert_eq!(intake.troubles, [Trouble::Malformed]);
    pool.free_batch(packets);
    assert_eq!(pool.available(), 4);
}

#[test]
fn a_frame_that_found_the_queue_full_is_lost_in_the_kernel() {
    let (pool, mut intake) = (pool(4), Intake::default());
    let lost = Written { queued: false, ..cut(&frame(1800), 1780) };
    let packets = take_short(&mut intake, &pool, &[lost.clone(), frame(60), lost], true);
    assert_eq!(packets.len(), 1);
    assert_eq!((intake.counters.ledger.received, intake.counters.kernel_lost), (1, 2));
    assert_eq!(intake.troubles, [Trouble::Crowded]);
    pool.free_batch(packets);
}

proptest! {
    #[test]
    fn a_slot_is_read_as_it_was_written(
        length in 14usize..1700,
        header: [u8; 10],
        tag in prop::option::of(any::<(u16, u16)>()),
        cut in 0u32..70_000,
        queued: bool,
        vnet: bool,
    ) {
        let written = Written {
            cut,
            queued,
            vnet: VnetHeader::from_bytes(&header),
            vlan: tag.map(|(tpid, tci)| VlanTag { tpid, tci }),
            ..frame(length)
        };
        let bytes = slot(&written, vnet);
        let read = parse(&bytes, vnet).expect("a good slot");
        prop_assert_eq!(read.bytes, &written.bytes[..]);
        prop_assert_eq!(read.length, length as u32 + cut);
        prop_assert_eq!(read.queued, queued);
        prop_assert_eq!(read.vlan, written.vlan);
        prop_assert_eq!(read.vnet, vnet.then_some(written.vnet));
        prop_assert_eq!(read.timestamp, Nanos(1_700_000_000_000_000_005));
    }

    #[test]
    fn garbage_stays_in_its_slot(
        mut bytes in prop::collection::vec(any::<u8>(), 0..2000),
        changes in prop::collection::vec((0usize..60, any::<u16>()), 0..20),
        genuine: bool,
    ) {
        if genuine {
            bytes = slot(&frame(200), true);
        }
        for (at, value) in changes {
            if let Some(place) = bytes.get_mut(at..at + 2) {
                // Small values reach further than random ones, which are refused at once.
                place.copy_from_slice(&(value % 700).to_ne_bytes());
            }
        }
        for vnet in [true, false] {
            if let Ok(read) = parse(&bytes, vnet) {
                let (outer, inner) = (bytes.as_ptr_range(), read.bytes.as_ptr_range());
                prop_assert!(outer.start <= inner.start && inner.end <= outer.end);
            }
        }
    }
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
    let all = "{interface: a, ring: 1MiB, transmit_buffer: 256KiB, qdisc_bypass: true, promiscuous: false, offload: off}";
    let expected = Settings {
        interface: "a".into(),
        ring: 1 << 20,
        transmit_buffer: Some(256 << 10),
        qdisc_bypass: true,
        promiscuous: false,
        offload: false,
        owner: None,
        active: None,
    };
    assert_eq!(settings(all), Ok(expected));
    for (wrong, key) in [
        ("ring: 1MiB", "interface"),
        ("{interface: a, qdisc_bypass: 1}", "qdisc_bypass"),
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
