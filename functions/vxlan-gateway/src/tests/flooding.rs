//! Frames for all: head-end replication, groups.

use super::*;
use nf_sdk::{PacketRecord, offload};

#[test]
fn a_frame_for_all_goes_to_each_endpoint_once() {
    let mut first = gateway(FIRST);
    let inner = frame(ALL, host(1), 40);
    let last = sent(&from_vlan(&mut first, &inner, at(0)), VXLAN);
    let mut copies: Vec<Vec<u8>> =
        first.host().emitted().iter().map(|copy| copy.bytes.clone().expect("its own")).collect();
    copies.push(last);
    let to: Vec<u8> = copies.iter().map(|copy| copy[33]).collect();
    assert_eq!(to, [2, 3, 4]);
    for copy in &copies {
        assert_eq!((copy[5], &copy[50..]), (copy[33], &inner[..]));
        assert_eq!(copy[34..36], copies[0][34..36], "one flow, one port");
    }
    assert_eq!((counted(&first, "flooded"), counted(&first, "copies")), (1, 2));
    // An address whose place is not known is for all; one whose place is known is not.
    from_vlan(&mut first, &frame(host(2), host(1), 40), at(0));
    assert_eq!(counted(&first, "copies"), 4);
    from_vxlan(&mut first, &in_vxlan(8, "192.0.2.3", &frame(host(1), host(2), 40)), at(0));
    assert_eq!(sent(&from_vlan(&mut first, &frame(host(2), host(1), 40), at(0)), VXLAN)[33], 3);
    assert_eq!((counted(&first, "encapsulated"), counted(&first, "copies")), (1, 4));
}

#[test]
fn copies_that_cannot_be_made_are_counted() {
    let mut first = gateway(FIRST);
    first.refuse_packets(true);
    sent(&from_vlan(&mut first, &frame(ALL, host(1), 40), at(0)), VXLAN);
    assert_eq!((counted(&first, "copies"), counted(&first, "copies-lost")), (0, 2));
    first.refuse_packets(false);
    // The host alone knows what is yet to be segmented.
    let record = PacketRecord { gso_type: offload::GSO_TCPV4, gso_size: 100, ..PacketRecord::default() };
    let bytes = frame(host(9), host(1), 400);
    sent(&first.run(&[TestPacket { bytes, record }], at(0)).remove(0), VXLAN);
    assert_eq!((counted(&first, "copies"), counted(&first, "copies-lost")), (0, 4));
}

#[test]
fn a_copy_has_a_complete_checksum() {
    let mut first = gateway(FIRST);
    let complete = frame(ALL, host(1), 40);
    let mut bytes = complete.clone();
    let pseudo = packet::checksum::Sum::ZERO
        .add_pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 48)
        .folded();
    bytes[40..42].copy_from_slice(&pseudo.to_be_bytes());
    let record = PacketRecord {
        offload_flags: offload::NEEDS_CHECKSUM,
        csum_start: 34,
        csum_offset: 6,
        ..PacketRecord::default()
    };
    first.run(&[TestPacket { bytes, record }], at(0));
    let copy = first.host().emitted()[0].bytes.clone().expect("its own");
    assert_eq!(copy[50..], complete);
}

#[test]
fn a_group_gets_what_is_for_all_and_takes_any_endpoint() {
    let mut first = gateway(
        "{local: 192.0.2.1, mac: '02:00:00:00:01:01', networks: [{vni: 7, group: 239.1.1.1}, {vni: 9, vlan: 9, group: 239.1.1.2}]}",
    );
    let outer = sent(&from_vlan(&mut first, &frame(ALL, host(1), 40), at(0)), VXLAN);
    assert_eq!((&outer[..6], &outer[30..34]), (&[1, 0, 0x5e, 1, 1, 1][..], &[239, 1, 1, 1][..]));
    let mut packet = in_vxlan(7, "198.51.100.7", &frame(ALL, host(2), 40));
    packet[..6].copy_from_slice(&[1, 0, 0x5e, 1, 1, 1]);
    packet[30..34].copy_from_slice(&[239, 1, 1, 1]);
    nf_sdk::native::frames::seal(&mut packet);
    sent(&from_vxlan(&mut first, &packet, at(0)), VLAN);
    // By the group of another network it is none of this one.
    packet[33] = 2;
    nf_sdk::native::frames::seal(&mut packet);
    dropped(&from_vxlan(&mut first, &packet, at(0)), Reason::UnknownPeer);
}
