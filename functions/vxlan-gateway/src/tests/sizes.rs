//! Frames that are too long with their outer headers.

use super::*;
use nf_sdk::{PacketRecord, offload};
use packet::{icmpv4, ipv4};

/// A frame of the VLAN whose IP packet has so many bytes.
fn of_length(length: usize, flags: u8) -> Vec<u8> {
    let mut frame = tagged(ALL, host(1), length - 28);
    frame[24] = flags;
    frame[28..30].fill(0);
    let sum = packet::checksum::of(&frame[18..38]);
    frame[28..30].copy_from_slice(&sum.to_be_bytes());
    frame[0..6].copy_from_slice(&host(2));
    frame
}

#[test]
fn the_sender_of_a_frame_that_is_too_long_is_told() {
    let mut first = gateway(FIRST);
    // 1500 less 20, 8, 8 and 14.
    let most = sent(&from_vlan(&mut first, &of_length(1450, 0x40), at(0)), VXLAN);
    assert_eq!(most.len(), 14 + 1500);
    dropped(&from_vlan(&mut first, &of_length(1451, 0x40), at(0)), Reason::TooLong);
    let answer = &first.host().emitted()[0];
    assert_eq!(answer.verdict, Verdict::Interface(VLAN));
    let bytes = answer.bytes.clone().expect("its own");
    assert_eq!(
        (&bytes[..6], &bytes[6..12], &bytes[12..16]),
        (&host(1)[..], &host(2)[..], &[0x81, 0, 0, 10][..])
    );
    let header = ipv4::View::new(&bytes[18..]).expect("a header");
    assert_eq!(header.destination().octets(), [10, 0, 0, 1]);
    let message = icmpv4::View::new(header.payload()).expect("a message");
    assert_eq!((message.kind(), message.code()), (icmpv4::kind::UNREACHABLE, 4));
    assert_eq!(bytes[44..46], 1450u16.to_be_bytes());
    // As often as the limit allows.
    for _ in 0..20 {
        from_vlan(&mut first, &of_length(1451, 0x40), at(0));
    }
    assert_eq!((counted(&first, "icmp-sent"), counted(&first, "icmp-limited")), (10, 11));
}

#[test]
fn a_packet_that_may_be_fragmented_is() {
    let mut first = gateway(FIRST);
    let long = of_length(3000, 0);
    let outcome = from_vlan(&mut first, &long, at(0));
    assert_eq!(outcome.verdict, Some(Verdict::Consume));
    let mut second = gateway(SECOND);
    let mut payload: Vec<u8> = Vec::new();
    for fragment in first.host().emitted() {
        let outer = fragment.bytes.clone().expect("its own");
        assert!(outer.len() <= 1514);
        let inner = sent(&from_vxlan(&mut second, &outer, at(0)), VLAN);
        let header = ipv4::View::new(&inner[18..]).expect("a header");
        assert!(header.verify_checksum());
        assert_eq!(usize::from(header.fragment_offset()), payload.len());
        payload.extend(header.payload());
    }
    assert_eq!(payload, long[38..]);
    assert_eq!((counted(&first, "fragmented"), counted(&first, "copies")), (1, 3));
}

#[test]
fn a_packet_of_which_no_fragment_was_sent_is_dropped() {
    let mut first = gateway(FIRST);
    first.refuse_packets(true);
    dropped(&from_vlan(&mut first, &of_length(3000, 0), at(0)), Reason::NoRoom);
    assert_eq!((counted(&first, "fragmented"), counted(&first, "copies-lost")), (0, 3));
    first.refuse_packets(false);
    assert_eq!(from_vlan(&mut first, &of_length(3000, 0), at(0)).verdict, Some(Verdict::Consume));
    assert_eq!((counted(&first, "fragmented"), counted(&first, "copies")), (1, 3));
}

#[test]
fn what_is_yet_to_be_segmented_is_measured_by_its_segments() {
    let mut first = gateway(FIRST);
    let ask = |first: &mut Runner<Gateway>, size| {
        let record =
            PacketRecord { gso_type: offload::GSO_UDP_L4, gso_size: size, ..PacketRecord::default() };
        first.run(&[TestPacket { bytes: of_length(9000, 0x40), record }], at(0)).remove(0)
    };
    sent(&ask(&mut first, 1422), VXLAN);
    dropped(&ask(&mut first, 1423), Reason::TooLong);
    // A length that IP cannot say.
    let record = PacketRecord { gso_type: offload::GSO_UDP_L4, gso_size: 1000, ..PacketRecord::default() };
    let bytes = of_length(65_530, 0x40);
    dropped(&first.run(&[TestPacket { bytes, record }], at(0)).remove(0), Reason::TooLong);
}

#[test]
fn the_mtu_is_the_configurations() {
    let mut first = gateway(&format!("{FIRST}mtu: 9000\n"));
    assert_eq!(sent(&from_vlan(&mut first, &of_length(8950, 0x40), at(0)), VXLAN).len(), 9014);
    dropped(&from_vlan(&mut first, &of_length(8951, 0x40), at(0)), Reason::TooLong);
}

#[test]
fn errors_are_sent_at_the_rate_that_is_configured() {
    for (rate, wanted) in [("icmp_rate: 1pps\n", [10, 11]), ("icmp_rate: 4pps\n", [10, 14]), ("", [10, 20])] {
        let mut first = gateway(&format!("{FIRST}{rate}"));
        let mut sent = |now: Nanos| {
            (0..20).for_each(|_| drop(from_vlan(&mut first, &of_length(1451, 0x40), now)));
            counted(&first, "icmp-sent")
        };
        assert_eq!([sent(at(0)), sent(at(1_000_000_000))], wanted, "{rate}");
    }
}
