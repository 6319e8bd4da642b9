//! ARP, discovery and DHCP.

use super::frames::{A, A6, B, B6, Bench, IN, LINK_LOCAL, MAC, OUT, discovery, drop, rule};
use nf_sdk::native::frames::{packet, seal, tagged, udp};

fn arp(operation: u8, mac: [u8; 6], sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut frame = [[0xff; 6], MAC].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend(mac);
    frame.extend(sender);
    frame.extend([0; 6]);
    frame.extend(target);
    frame.resize(60, 0);
    frame
}

#[test]
fn arp_speaks_for_the_device_alone() {
    let (own, other) = ([192, 0, 2, 9], [192, 0, 2, 1]);
    let mut bench = Bench::of(vec![]);
    assert_eq!(bench.inside(arp(1, MAC, own, other)), OUT);
    assert_eq!(bench.inside(arp(2, MAC, own, other)), OUT);
    assert_eq!(bench.inside(arp(1, MAC, [0; 4], own)), OUT, "a probe");
    assert_eq!(bench.inside(arp(1, MAC, [0; 4], other)), drop::SPOOFED, "a probe for another's address");
    assert_eq!(bench.inside(arp(2, MAC, [0; 4], own)), drop::SPOOFED);
    assert_eq!(bench.inside(arp(2, MAC, other, own)), drop::SPOOFED, "another's address");
    assert_eq!(bench.inside(arp(2, [2; 6], own, other)), drop::SPOOFED, "another's MAC address");
    assert_eq!(bench.outside(arp(2, [2; 6], other, own)), IN);
    assert_eq!(bench.outside(arp(1, [2; 6], other, own)), IN);
    assert_eq!(bench.outside(arp(3, [2; 6], other, own)), drop::MALFORMED);
    let mut short = arp(1, MAC, own, other);
    short.truncate(41);
    assert_eq!(bench.inside(short), drop::MALFORMED);
    let mut wrong = arp(1, MAC, own, other);
    wrong[18] = 8;
    assert_eq!(bench.outside(wrong), drop::MALFORMED);
    let mut spanning_tree = arp(1, MAC, own, other);
    spanning_tree[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert_eq!(bench.outside(spanning_tree.clone()), drop::NON_IP);
    assert_eq!(bench.inside(spanning_tree), drop::NON_IP);
}

pub fn solicitation(kind: u8, source: &str, target: &str, mac: Option<[u8; 6]>) -> Vec<u8> {
    let target: std::net::Ipv6Addr = target.parse().expect("an address");
    let mut message = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    if let Some(mac) = mac {
        message.extend([2 - (kind & 1), 1]);
        message.extend(mac);
    }
    discovery(source, "ff02::1", &message)
}

#[test]
fn discovery_speaks_for_the_device_alone() {
    let mut bench = Bench::of(vec![]);
    for (frame, wanted, why) in [
        (solicitation(135, A6, B6, Some(MAC)), OUT, "solicitation"),
        (solicitation(135, LINK_LOCAL, B6, Some(MAC)), OUT, "from the link-local address"),
        (solicitation(135, "::", A6, None), OUT, "is it free?"),
        (solicitation(135, "::", B6, None), drop::SPOOFED, "is another's free?"),
        (solicitation(135, "2001:db8::8", B6, None), drop::SPOOFED, "another's source"),
        (solicitation(135, A6, B6, Some([4; 6])), drop::SPOOFED, "another's MAC address"),
        (solicitation(136, A6, A6, Some(MAC)), OUT, "advertisement"),
        (solicitation(136, A6, B6, Some(MAC)), drop::SPOOFED, "of another's address"),
        (solicitation(136, "::", A6, Some(MAC)), drop::SPOOFED, "of none"),
        (discovery(LINK_LOCAL, "ff02::2", &[133, 0, 0, 0, 0, 0, 0, 0]), OUT, "routers?"),
        (discovery(LINK_LOCAL, "ff02::1", &[134; 16]), drop::DENIED, "an odd code is for the rules"),
        (discovery(LINK_LOCAL, "ff02::1", &[134, 0, 0, 0, 0, 0, 0, 0]), drop::SPOOFED, "no router"),
        (solicitation(137, A6, B6, None), drop::SPOOFED, "no redirect"),
        (discovery(A6, "ff02::1", &[136, 0, 0, 0, 0, 0, 0, 0]), drop::MALFORMED, "too short"),
        (
            discovery(A6, "ff02::1", &[[135, 0].as_slice(), &[0; 22], &[1, 0]].concat()),
            drop::MALFORMED,
            "no length",
        ),
    ] {
        assert_eq!(bench.inside(frame), wanted, "{why}");
    }
    for kind in [133, 134, 135, 136, 137] {
        assert_eq!(bench.outside(solicitation(kind, B6, B6, Some([4; 6]))), IN, "{kind}");
    }
    let mut forwarded = solicitation(134, B6, B6, None);
    forwarded[21] = 254;
    assert_eq!(bench.outside(forwarded), drop::DENIED, "what is for many is for the rules");
    let mut report = packet(LINK_LOCAL, "ff02::16", 58, &[143, 0, 0, 0, 0, 0, 0, 0]);
    report[21] = 1;
    assert_eq!(bench.inside(report), OUT, "MLD");
    let mut query = packet(LINK_LOCAL, "ff02::1", 58, &[&[130, 0][..], &[0; 22]].concat());
    query[21] = 1;
    assert_eq!(bench.inside(query.clone()), drop::SPOOFED, "no multicast router");
    query[6] = 4;
    assert_eq!(bench.outside(query), IN);
}

#[test]
fn dhcp_passes_as_a_client() {
    let mut bench = Bench::of(vec![]);
    assert_eq!(bench.inside(udp("0.0.0.0", 68, "255.255.255.255", 67)), OUT);
    assert_eq!(bench.inside(udp(A, 68, "255.255.255.255", 67)), OUT);
    assert_eq!(bench.inside(udp(B, 68, "255.255.255.255", 67)), drop::SPOOFED);
    assert_eq!(bench.inside(udp("0.0.0.0", 68, B, 67)), drop::SPOOFED);
    assert_eq!(bench.inside(udp(A, 68, B, 67)), drop::DENIED, "it could go anywhere");
    assert_eq!(bench.inside(udp(A, 67, "255.255.255.255", 68)), drop::SPOOFED, "no server");
    let mut reply = udp(B, 67, "192.0.2.77", 68);
    assert_eq!(bench.outside(reply.clone()), drop::MISADDRESSED, "another's Ethernet address");
    reply[..6].copy_from_slice(&MAC);
    assert_eq!(bench.outside(reply), IN);
    let mut reply = udp(B, 67, "255.255.255.255", 68);
    reply[..6].fill(0xff);
    assert_eq!(bench.outside(reply), IN);
    assert_eq!(bench.report()["flows"]["opened"], 0);
}

#[test]
fn no_rule_lets_a_dhcp_server_answer() {
    let mut bench = Bench::of(vec![rule("in", &[]), rule("out", &[])]);
    let answer = udp(A, 67, B, 68);
    let mut first = answer.clone();
    first[20] = 0x20;
    seal(&mut first);
    assert_eq!(bench.inside(first), drop::SPOOFED, "a first fragment would open the way");
    assert_eq!(bench.inside(answer.clone()), drop::SPOOFED);
    assert_eq!(bench.outside(udp(B, 68, A, 67)), IN, "what a rule allows");
    assert_eq!(bench.inside(answer), drop::SPOOFED, "an answer of a connection");
    assert_eq!(bench.inside(udp(A, 67, B, 69)), OUT);
    assert_eq!(bench.inside(udp(A6, 547, B6, 546)), drop::SPOOFED, "DHCPv6");
    assert_eq!(bench.outside(udp(B6, 546, A6, 547)), IN);
    assert_eq!(bench.inside(udp(A6, 547, B6, 546)), drop::SPOOFED, "an answer of a connection");
    assert_eq!(bench.inside(udp(A6, 546, B6, 547)), OUT);
}

#[test]
fn no_rule_lets_a_vlan_tag_pass() {
    let mut bench = Bench::of(vec![rule("in", &[]), rule("out", &[])]);
    let own = [192, 0, 2, 9];
    for (frame, why) in [
        (arp(2, MAC, own, [192, 0, 2, 1]), "ARP"),
        (solicitation(136, A6, A6, Some(MAC)), "discovery"),
        (udp("0.0.0.0", 68, "255.255.255.255", 67), "DHCP"),
        (udp(A, 1, B, 2), "IPv4"),
        (udp(A6, 1, B6, 2), "IPv6"),
    ] {
        assert_eq!(bench.inside(frame.clone()), OUT, "{why}");
        for vlans in [&[7][..], &[0], &[7, 9], &[1; 17]] {
            assert_eq!(bench.inside(tagged(&frame, vlans)), drop::SPOOFED, "{why}, {vlans:?}");
        }
        let mut service = tagged(&frame, &[7]);
        for kind in [[0x88, 0xa8], [0x91, 0x00]] {
            service[12..14].copy_from_slice(&kind);
            assert_eq!(bench.inside(service.clone()), drop::SPOOFED, "{why}, {kind:x?}");
        }
    }
    for frame in [arp(2, [2; 6], [192, 0, 2, 1], own), udp(B, 2, A, 1), udp(B6, 2, A6, 1)] {
        assert_eq!(bench.outside(frame.clone()), IN);
        assert_eq!(bench.outside(tagged(&frame, &[7])), drop::MISADDRESSED);
    }
}
