//! Checksum and segmentation state, both ways.

use super::front_end::*;
use super::{Bench, frame, path, until};
use crate::features::*;
use crate::{Role, Settings};
use nf_abi::offload;
use port::Port;
use telemetry::DropReason;
use virtio_net::VnetHeader;

const ALL: u64 = VERSION_1 | MRG_RXBUF | CSUM | GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | HOST_TSO4 | HOST_TSO6;

/// A TCP frame over IPv4 with so much payload, its checksum partial.
fn tcp(payload: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let total = (40 + payload) as u16;
    bytes.extend([0x45, 0]);
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend([0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let header = bytes.len();
    bytes.extend((0..payload).map(|n| n as u8));
    // The pseudo-header's share, as the sender leaves it.
    let length = (bytes.len() - 34) as u32;
    let mut sum = 0x0a00 + 1 + 0x0a00 + 2 + 6 + length;
    sum = (sum & 0xffff) + (sum >> 16);
    bytes[50..52].copy_from_slice(&(sum as u16).to_be_bytes());
    assert_eq!(header, 54);
    bytes
}

fn header(gso_size: u16) -> VnetHeader {
    VnetHeader {
        flags: offload::NEEDS_CHECKSUM,
        gso_type: if gso_size > 0 { offload::GSO_TCPV4 } else { offload::GSO_NONE },
        header_length: 54,
        gso_size,
        csum_start: 34,
        csum_offset: 16,
    }
}

fn twelve(vnet: VnetHeader) -> Vec<u8> {
    [&vnet.to_bytes()[..], &[0, 0]].concat()
}

/// Whether TCP's checksum is right.
fn is_complete(bytes: &[u8]) -> bool {
    let length = (bytes.len() - 34) as u32;
    let words = bytes[26..34].chunks(2).chain(bytes[34..].chunks(2));
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from);
    let mut sum: u32 = words.map(word).sum::<u32>() + 6 + length;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

#[test]
fn a_header_says_nothing_that_was_not_agreed_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, VERSION_1 | MRG_RXBUF | GUEST_CSUM | GUEST_TSO4, 1);
    front.post_frame(1, &twelve(header(0)), &tcp(500), &[]);
    front.post_frame(1, &twelve(header(1000)), &tcp(4000), &[5]);
    for (record, bytes) in bench.take_packets(8) {
        assert_eq!((record.offload_flags, record.gso_type, record.gso_size), (0, offload::GSO_NONE, 0));
        assert!(bytes == tcp(500) || bytes == tcp(4000));
    }
    assert_eq!(bench.port.counters().ledger.received, 2);
}

#[test]
fn state_comes_into_the_record_and_goes_into_the_header() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, ALL, 1);
    front.post_frame(1, &twelve(header(0)), &tcp(500), &[]);
    front.post_frame(1, &twelve(header(1000)), &tcp(4000), &[]);
    let came = bench.take_packets(8);
    let state = |n: usize| {
        let record = &came[n].0;
        (record.offload_flags, record.gso_type, record.gso_size, record.csum_start, record.csum_offset)
    };
    assert_eq!(state(0), (offload::NEEDS_CHECKSUM, offload::GSO_NONE, 0, 34, 16));
    assert_eq!(state(1), (offload::NEEDS_CHECKSUM, offload::GSO_TCPV4, 1000, 34, 16));
    front.post_empty(0, 8, 2048);
    bench.send_as(&[tcp(500), tcp(4000)], |n, record| header(n as u16 * 1000).note(record, 0));
    let went = front.frames(0);
    for (n, payload) in [(0, 500), (1, 4000)] {
        let (found, bytes) = &went[n];
        let expected = VnetHeader { header_length: 0, ..header(n as u16 * 1000) };
        assert_eq!(found[..10], expected.to_bytes());
        assert_eq!(*bytes, tcp(payload), "it is not touched");
    }
}

/// Nothing that has looked at a packet is to find that it was another one.
#[test]
fn a_guest_has_nothing_written_but_the_checksum_of_a_transport_header() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, ALL, 1);
    let at = |csum_start, csum_offset| VnetHeader { csum_start, csum_offset, ..header(0) };
    // The port that it goes to, an address, a place outside of the packet, a segment's data.
    for vnet in [at(34, 2), at(14, 12), at(34, 9_000), VnetHeader { csum_start: 60, ..header(1000) }] {
        front.post_frame(1, &twelve(vnet), &tcp(500), &[]);
    }
    let valid = VnetHeader { flags: offload::CHECKSUM_VALID, ..VnetHeader::default() };
    front.post_frame(1, &twelve(valid), &tcp(501), &[]);
    let came = bench.take_packets(8);
    assert!(came.iter().all(|(record, _)| record.offload_flags == 0));
    let [(_, port), (_, address), (_, verified)] = came.as_slice() else { panic!("{} came", came.len()) };
    assert!(port[36..38] != tcp(500)[36..38] && address[26..28] != tcp(500)[26..28]);
    assert_eq!(*verified, tcp(501));
    assert_eq!(bench.lost(DropReason::Malformed), 2);
}

#[test]
fn what_the_guest_does_not_take_is_done_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, VERSION_1 | MRG_RXBUF, 1);
    front.post_empty(0, 16, 2048);
    bench.send_as(&[tcp(500), tcp(4000)], |n, record| header(n as u16 * 1000).note(record, 0));
    let went = front.frames(0);
    assert_eq!(went.len(), 5, "the long one is four segments");
    for (header, bytes) in went {
        assert_eq!(header[..10], [0; 10]);
        assert!(is_complete(&bytes), "{} bytes", bytes.len());
    }
    assert_eq!(bench.port.counters().ledger.split, 3);
    // Datagrams that are still to be cut are never the guest's.
    bench.send_as(&[tcp(4000)], |_, record| {
        record.gso_type = offload::GSO_UDP;
        record.gso_size = 1000;
    });
    assert_eq!(bench.lost(DropReason::PortRefused), 1);
    assert!(bench.has_all_buffers());
}

#[test]
fn a_frame_that_is_longer_than_a_buffer_is_cut_and_the_rest_waits_for_its_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings::new(Role::Server, &path(&folder));
    let bench = Bench::with_buffers(settings.clone(), 2048);
    let (mut bench, mut front) = with(bench, &settings, ALL, 1);
    front.post_frame(1, &twelve(header(1000)), &tcp(30_000), &[]);
    front.post_frame(1, &twelve(header(0)), &tcp(100), &[]);
    let mut came = Vec::new();
    until("all came", || {
        let some = bench.take_packets(4);
        assert!(some.len() <= 4);
        came.extend(some);
        if came.len() < 30 {
            assert!(bench.wakes_within(0), "there is more of the frame");
        }
        came.len() == 31
    });
    let payload: Vec<u8> = came[..30].iter().flat_map(|(_, bytes)| bytes[54..].to_vec()).collect();
    assert_eq!(payload, tcp(30_000)[54..]);
    assert_eq!(came[30].1, tcp(100));
    let ledger = &bench.port.counters().ledger;
    assert_eq!((ledger.received, ledger.split, ledger.dropped.total()), (2, 29, 0));
    // One that cannot be cut is too long.
    front.post_frame(1, &[0; 12], &frame(1, 5000), &[]);
    front.post_frame(1, &twelve(VnetHeader { gso_type: 9, ..header(1000) }), &tcp(5000), &[]);
    assert!(bench.take().is_empty());
    assert_eq!(bench.lost(DropReason::TooLong), 2);
    // What is left of one when the port ends is held.
    front.post_frame(1, &twelve(header(1000)), &tcp(10_000), &[]);
    assert_eq!(bench.take_packets(3).len(), 3);
    bench.port.close(&bench.pool).expect("closed");
    assert_eq!(bench.lost(DropReason::HeldAtStop), 7);
    assert!(bench.port.counters().ledger.split == 29 + 9 && bench.has_all_buffers());
}

#[test]
fn a_port_without_offloads_offers_none_and_reads_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings { offload: false, ..Settings::new(Role::Server, &path(&folder)) };
    let bench = Bench::new(settings.clone());
    let (mut bench, mut front) = with(bench, &settings, VERSION_1, 1);
    assert_eq!(front.number(crate::Request::GetFeatures) & (CSUM | GUEST_CSUM | HOST_TSO4 | GUEST_TSO4), 0);
    front.post_frame(1, &twelve(header(1000)), &tcp(3000), &[]);
    let came = bench.take_packets(4);
    assert_eq!((came[0].0.offload_flags, came[0].0.gso_type), (0, 0));
}
