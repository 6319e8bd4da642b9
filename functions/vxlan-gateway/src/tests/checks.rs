//! What is dropped, and why.

use super::*;
use packet::checksum;

/// Puts the checksum of the outer IPv4 header right.
fn seal(packet: &mut [u8]) {
    packet[24..26].fill(0);
    let sum = checksum::of(&packet[14..34]);
    packet[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// A packet for network 7, changed.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = in_vxlan(7, "192.0.2.2", &frame(host(1), host(2), 40));
    change(&mut packet);
    packet
}

#[test]
fn what_is_no_vxlan_for_this_endpoint_is_dropped() {
    let mut first = gateway(FIRST);
    let mut check = |packet: &[u8], reason| dropped(&from_vxlan(&mut first, packet, at(0)), reason);
    check(&changed(|packet| packet[5] = 9), Reason::NotVxlan);
    check(&changed(|packet| packet[37] = 9), Reason::NotVxlan);
    check(
        &changed(|packet| {
            packet[33] = 9;
            seal(packet);
        }),
        Reason::NotVxlan,
    );
    check(&frame([2, 0, 0, 0, 1, 1], host(2), 40), Reason::NotVxlan);
    check(&nf_sdk::native::frames::tagged(&changed(|_| ()), &[1]), Reason::NotVxlan);
    check(&changed(|packet| packet[12] = 9), Reason::NotVxlan);
    check(&changed(|packet| packet.truncate(60)), Reason::Malformed);
    check(&changed(|packet| packet[38..40].copy_from_slice(&[0, 20])), Reason::Malformed);
    check(&changed(|packet| packet[38..40].copy_from_slice(&[9, 0])), Reason::Malformed);
    check(&changed(|packet| packet[24] ^= 1), Reason::BadChecksum);
    check(
        &changed(|packet| {
            packet[20] = 0x20;
            seal(packet);
        }),
        Reason::Fragment,
    );
    check(&changed(|packet| packet[42] = 0xf7), Reason::NoVni);
    check(&changed(|packet| packet[48] = 9), Reason::UnknownVni);
    // A source that is a group's, and a frame in it that is one.
    check(
        &changed(|packet| {
            packet[26] = 224;
            seal(packet);
        }),
        Reason::Malformed,
    );
    check(&changed(|packet| packet[56] |= 1), Reason::Malformed);
    check(&changed(|packet| packet[56..62].fill(0)), Reason::Malformed);
    check(&in_vxlan(7, "192.0.2.3", &frame(host(1), host(2), 40)), Reason::UnknownPeer);
    check(&in_vxlan(7, "192.0.2.1", &frame(host(1), host(2), 40)), Reason::UnknownPeer);
    check(&in_vxlan(7, "192.0.2.2", &tagged(host(1), host(2), 40)), Reason::Tagged);
    check(&in_vxlan(7, "192.0.2.2", &frame([0x01, 0x80, 0xc2, 0, 0, 3], host(2), 40)), Reason::Reserved);
    // None of it was learned.
    assert_eq!(counted(&first, "learned"), 0);
    // Reserved bits are ignored.
    let packet = changed(|packet| {
        packet[42] = 0xff;
        packet[43..46].fill(0xff);
        packet[49] = 0xff;
    });
    assert_eq!(sent(&from_vxlan(&mut first, &packet, at(0)), VLAN), tagged(host(1), host(2), 40));
}

#[test]
fn a_checksum_of_udp_is_verified_where_there_is_one() {
    let mut first = gateway(FIRST);
    let mut packet = changed(|_| ());
    nf_sdk::native::frames::seal(&mut packet);
    assert_ne!(packet[40..42], [0, 0]);
    sent(&from_vxlan(&mut first, &packet, at(0)), VLAN);
    packet[90] ^= 1;
    dropped(&from_vxlan(&mut first, &packet, at(0)), Reason::BadChecksum);
    // Over IPv6 there is one, unless the operator says otherwise (RFC 6935).
    let without = in_vxlan(7, "2001:db8::2", &frame(host(1), host(2), 40));
    dropped(&from_vxlan(&mut gateway(FIRST_V6), &without, at(0)), Reason::BadChecksum);
    let mut may = gateway(&format!("{FIRST_V6}udp6_zero_checksum: true\n"));
    sent(&from_vxlan(&mut may, &without, at(0)), VLAN);
}

#[test]
fn what_no_vlan_is_joined_with_is_dropped() {
    let mut first = gateway(FIRST);
    let mut check = |frame: &[u8], reason| dropped(&from_vlan(&mut first, frame, at(0)), reason);
    let plain = frame(ALL, host(1), 40);
    let tags = |vlans: &[u16]| nf_sdk::native::frames::tagged(&plain, vlans);
    check(&tags(&[11]), Reason::UnknownVlan);
    let mut service = tags(&[10]);
    service[12..14].copy_from_slice(&[0x88, 0xa8]);
    check(&service, Reason::UnknownVlan);
    check(&tags(&[10, 11]), Reason::Tagged);
    check(&plain[..13], Reason::Malformed);
    check(&tagged(ALL, [3, 0, 0, 0, 0, 1], 40), Reason::Malformed);
    check(&tagged([0x01, 0x80, 0xc2, 0, 0, 0], host(1), 40), Reason::Reserved);
    let out = first.run(&[TestPacket::new(plain.clone(), 2)], at(0));
    dropped(&out[0], Reason::UnknownVlan);
    // A tag that says a priority alone is none.
    sent(&from_vlan(&mut first, &tags(&[0]), at(0)), VXLAN);
    // Tags inside of a network stay where the operator wants that.
    let mut keeps = gateway(&format!("{FIRST}tagged: keep\n"));
    let outer = sent(&from_vlan(&mut keeps, &tags(&[10, 11]), at(0)), VXLAN);
    assert_eq!(outer[50..], tags(&[11]));
    let back = in_vxlan(7, "192.0.2.2", &nf_sdk::native::frames::tagged(&frame(ALL, host(2), 40), &[11]));
    assert_eq!(
        sent(&from_vxlan(&mut keeps, &back, at(0)), VLAN),
        nf_sdk::native::frames::tagged(&frame(ALL, host(2), 40), &[10, 11])
    );
}

#[test]
fn what_is_on_the_side_that_it_came_from_goes_to_no_other() {
    let mut first = gateway(FIRST);
    sent(&from_vxlan(&mut first, &in_vxlan(8, "192.0.2.2", &frame(ALL, host(2), 40)), at(0)), VLAN);
    // Split horizon, for an address that is behind another endpoint.
    let packet = in_vxlan(8, "192.0.2.3", &frame(host(2), host(3), 40));
    dropped(&from_vxlan(&mut first, &packet, at(0)), Reason::Filtered);
    // Whatever came from an endpoint, nothing went to another.
    assert!(first.host().emitted().is_empty());
    sent(&from_vlan(&mut first, &frame(ALL, host(1), 40), at(0)), VXLAN);
    dropped(&from_vlan(&mut first, &frame(host(1), host(4), 40), at(0)), Reason::Filtered);
}

#[test]
fn endpoints_that_are_not_listed_are_taken_where_that_is_said() {
    let strange = in_vxlan(7, "192.0.2.3", &frame(ALL, host(2), 40));
    let known = in_vxlan(7, "192.0.2.2", &frame(ALL, host(3), 40));
    let takes = |remotes: &str, frame: &[u8]| {
        let mut first = gateway(&FIRST.replace("remotes: [192.0.2.2]}\n", &format!("{remotes}}}\n")));
        from_vxlan(&mut first, frame, at(0)).verdict == Some(Verdict::Interface(VLAN))
    };
    for (said, takes_strange) in [
        ("remotes: [192.0.2.2]", false),
        ("remotes: [192.0.2.2], accept: listed", false),
        ("remotes: [192.0.2.2], accept: any", true),
        ("group: 239.1.1.1, remotes: [192.0.2.2]", true),
        ("group: 239.1.1.1, remotes: [192.0.2.2], accept: listed", false),
    ] {
        assert_eq!(takes(said, &strange), takes_strange, "{said}");
        assert!(takes(said, &known), "{said}");
    }
}
