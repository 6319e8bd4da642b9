//! What is read from packets.

use crate::header::{Class, Common, Header, Least, parse, parse_embedded};
use nf_sdk::headers::ethernet;
use nf_sdk::headers::tunnel::Tunnels;
use nf_sdk::native::frames::{self, flags};
use proptest::prelude::*;

fn read(frame: &[u8], ingress: u32) -> Header {
    read_snapped(frame, 0, ingress, &Tunnels::NONE)
}

fn read_snapped(frame: &[u8], snapped: usize, ingress: u32, tunnels: &Tunnels) -> Header {
    let mut header = Header::default();
    parse(frame, snapped as u16, ingress, tunnels, &mut header);
    header
}

/// What decides about a packet.
fn essence(header: &Header) -> impl PartialEq + std::fmt::Debug {
    let Header { key, path, ports, kind, seq, end, ack, flags, scale, class, fragment, .. } = *header;
    (class, key, path, (ports, kind, flags, scale), (seq, end, ack), fragment)
}

/// Packets of many kinds.
fn any_kind() -> Vec<Vec<u8>> {
    let tcp = |a, b| {
        let mut frame = frames::tcp([(a, 1), (b, 80)], flags::SYN | flags::ACK, 7, 8, 40);
        // Twelve bytes of what was data are options, a window scale among them.
        let at = frame.len() - 40;
        frame[at - 8] = 0x80;
        frame[at..at + 4].copy_from_slice(&[1, 3, 3, 9]);
        frame
    };
    let query = |a, b| frames::packet(a, b, 17, &[&[15, 160, 0, 53, 0, 40, 0, 0][..], &[7; 32]].concat());
    let (a, b, a6, b6) = ("10.0.0.1", "192.0.2.9", "2001:db8::1", "2001:db8:1::9");
    let mut fragment = query(a, b);
    fragment[20] = 0x20;
    let mut later = query(a, b);
    later[21] = 3;
    let later6 = frames::packet(a6, b6, 44, &[&[17, 0, 0, 8, 0, 0, 0, 9][..], &[7; 30]].concat());
    let extended =
        frames::packet(a6, b6, 60, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &query(a6, b6)[54..]].concat());
    let error = frames::icmp(b, a, [3, 1], [0; 4], &query(a, b)[14..]);
    let mut unsegmented = tcp(a, b);
    unsegmented[16..18].fill(0);
    let inner = tcp(a, b);
    let vxlan = [
        &[0xc3, 0x50, 0x12, 0xb5][..],
        &(16 + inner.len() as u16).to_be_bytes(),
        &[0, 0, 8, 0, 0, 0, 0, 0, 7, 0],
    ];
    vec![
        tcp(a, b),
        tcp(a6, b6),
        query(a, b),
        query(a6, b6),
        frames::tagged(&query(a, b), &[1, 2]),
        fragment,
        later,
        later6,
        extended,
        error,
        frames::icmp(a6, b6, [128, 0], [0, 1, 0, 1], &[5; 30]),
        frames::packet(a, b, 47, &[1; 50]),
        unsegmented,
        frames::packet(a, b, 4, &tcp(a, b)[14..]),
        frames::packet(a, b, 17, &[&vxlan.concat()[..], &inner].concat()),
    ]
}

/// A packet of which a capture has the headers is read as it was; a live one that ends as early is not, nor
/// is one of which a header is missing.
#[test]
fn what_a_capture_cut_is_read_by_its_headers() {
    let looked_into = Tunnels::named(["ip-in-ip", "vxlan"]).expect("tunnels");
    for tunnels in [Tunnels::NONE, looked_into] {
        for frame in any_kind() {
            let whole = read_snapped(&frame, 0, 0, &tunnels);
            assert!(!matches!(whole.class, Class::Unreadable | Class::Malformed), "{:?}", whole.class);
            assert!(!whole.is_snapped);
            let mut read = 0;
            // What would follow a header of Ethernet that is cut is not known.
            let link = ethernet::View::new(&frame).expect("a frame").header_length();
            for kept in link..frame.len() {
                let cut = read_snapped(&frame[..kept], frame.len() - kept, 0, &tunnels);
                if cut.class == Class::Unreadable {
                    assert_eq!(read, 0, "{:?} is read with {read} bytes, and not with {kept}", whole.class);
                    assert!(!cut.is_snapped && !cut.fragment.is_fragment);
                } else if cut.class != Class::NonIp {
                    assert_eq!(essence(&cut), essence(&whole), "{kept}");
                    assert!(cut.is_snapped);
                    read = kept;
                }
                // More is missing than the capture left out.
                if whole.class != Class::NonIp && !whole.is_unsegmented {
                    for snapped in [0, frame.len() - kept - 1] {
                        let class = read_snapped(&frame[..kept], snapped, 0, &tunnels).class;
                        assert!(matches!(class, Class::Unreadable | Class::NonIp), "{class:?}, {kept}");
                    }
                }
            }
            assert!(read > 0, "{:?}", whole.class);
        }
    }
}

fn common(frame: &[u8]) -> Option<Common<'_>> {
    Common::new(frame, &Least::new(&Tunnels::NONE))
}

proptest! {
    #[test]
    fn the_fast_way_reads_what_the_complete_one_does(
        source in any::<[u8; 4]>(), destination in any::<[u8; 4]>(), ports in any::<[u16; 2]>(), tcp in any::<bool>(),
        flags in any::<u8>(), seq in any::<u32>(), ack in any::<u32>(), data in 0usize..100, ingress in 0u32..2,
        padding in 0usize..9, corrupt in prop::collection::vec((0usize..60, any::<u8>()), 0..3),
    ) {
        let (from, to) = (std::net::IpAddr::from(source).to_string(), std::net::IpAddr::from(destination).to_string());
        let mut frame = if tcp {
            frames::tcp([(&from, ports[0]), (&to, ports[1])], flags, seq, ack, data)
        } else {
            frames::udp(&from, ports[0], &to, ports[1])
        };
        frame.extend(vec![0; padding]);
        for (at, byte) in corrupt {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        let complete = read(&frame, ingress);
        let Some(common) = common(&frame) else { return Ok(()) };
        prop_assert_eq!(complete.class, Class::Flow4);
        prop_assert_eq!(common.view(ingress), complete.view4());
        prop_assert_eq!(common.key(ingress), complete.key4());
        let (flags, end, ack) = common.progress();
        let counted = u32::from(tcp) * (u32::from(flags & flags::SYN != 0) + u32::from(flags & flags::FIN != 0));
        prop_assert_eq!((flags, end.wrapping_add(counted), ack), (complete.flags, complete.end, complete.ack));
        prop_assert!(!complete.fragment.is_fragment);
    }

    #[test]
    fn both_directions_have_one_key(a in any::<[u8; 16]>(), b in any::<[u8; 16]>(), p in any::<u16>(), q in any::<u16>()) {
        let (a, b) = (std::net::IpAddr::from(a).to_string(), std::net::IpAddr::from(b).to_string());
        let (there, back) = (read(&frames::udp(&a, p, &b, q), 0), read(&frames::udp(&b, q, &a, p), 1));
        prop_assert_eq!((there.class, back.class), (Class::Flow6, Class::Flow6));
        prop_assert_eq!(there.key, back.key);
        let spoofed = read(&frames::udp(&a, p, &b, q), 1);
        prop_assert!((a == b && p == q) || spoofed.key != there.key);
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200), ingress in 0u32..2) {
        let outer = read(&bytes, ingress);
        let mut header = Header::default();
        for class in [Class::Error4, Class::Error6] {
            let _ = parse_embedded(&bytes, &Header { class, ..outer }, &mut header);
        }
    }
}

#[test]
fn the_common_packet_is_common() {
    assert!(common(&frames::udp("1.2.3.4", 5, "6.7.8.9", 10)).is_some());
    assert!(common(&frames::tcp([("1.2.3.4", 5), ("6.7.8.9", 10)], flags::SYN, 0, 0, 0)).is_some());
}

#[test]
fn tags_are_skipped_and_tell_flows_apart() {
    let frame = frames::udp("10.0.0.1", 7, "10.0.0.2", 8);
    let plain = read(&frame, 0);
    let one = read(&frames::tagged(&frame, &[0x2005]), 0);
    let two = read(&frames::tagged(&frame, &[7, 5]), 0);
    let three = read(&frames::tagged(&frame, &[1, 2, 3]), 0);
    assert_eq!(
        (plain.class, one.class, two.class, three.class),
        (Class::Flow4, Class::Flow4, Class::Flow4, Class::Flow4)
    );
    assert_eq!(three.key[3], 17 | 1 << 8 | 2 << 20, "the outermost two");
    assert_eq!(read(&frames::tagged(&frame, &[7; 16]), 0).class, Class::Flow4);
    assert_eq!(read(&frames::tagged(&frame, &[7; 17]), 0).class, Class::Unreadable);
    let snap = [&frame[..12], &[0, 50, 0xaa, 0xaa, 3, 0, 0, 0], &frame[12..]].concat();
    assert_eq!(read(&snap, 0).key4(), plain.key4());
    assert_eq!(plain.view4(), one.view4());
    assert_eq!(one.view4(), two.view4());
    assert_eq!(one.key[3], 17 | 5 << 8, "the priority is no part of it");
    assert_eq!(two.key[3], 17 | 7 << 8 | 5 << 20);
    // A priority tag (VLAN 0) is no network of its own.
    assert_eq!(read(&frames::tagged(&frame, &[0xe000]), 0).key4(), plain.key4());
}

/// IPv6 with these extension headers (number and body) in front of UDP.
fn extended(extensions: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let udp = [0u8, 7, 0, 8, 0, 8, 0, 0];
    let mut payload = vec![];
    for (n, (_, body)) in extensions.iter().enumerate() {
        payload.push(extensions.get(n + 1).map_or(17, |(number, _)| *number));
        payload.extend(body);
    }
    payload.extend(udp);
    frames::packet(
        "2001:db8::1",
        "2001:db8::2",
        extensions.first().map_or(17, |(number, _)| *number),
        &payload,
    )
}

#[test]
fn extension_headers_are_walked() {
    let options = |blocks: usize| {
        let mut body = vec![blocks as u8];
        body.extend(vec![0; 6 + 8 * blocks]);
        body
    };
    let plain = read(&extended(&[]), 0);
    let authentication = {
        let mut body = vec![4u8];
        body.extend(vec![0; 22]);
        body
    };
    for extensions in [
        vec![(0, options(0))],
        vec![(0, options(1)), (43, options(2)), (60, options(0))],
        vec![(51, authentication)],
        vec![(44, vec![0, 0, 0, 1, 2, 3, 4])],
    ] {
        let read = read(&extended(&extensions), 0);
        assert_eq!(
            (read.class, read.key, read.ports),
            (Class::Flow6, plain.key, plain.ports),
            "{extensions:?}"
        );
        assert!(!read.fragment.is_fragment);
    }
    assert_eq!(read(&extended(&vec![(60, options(0)); 8]), 0).class, Class::Flow6);
    assert_eq!(read(&extended(&vec![(60, options(0)); 9]), 0).class, Class::Unreadable);
    assert_eq!(read(&extended(&[(60, vec![200, 0, 0, 0, 0, 0, 0])]), 0).class, Class::Malformed);
}

#[test]
fn what_is_cut_short_is_unreadable() {
    for frame in [
        frames::udp("10.0.0.1", 7, "10.0.0.2", 8),
        frames::tcp([("10.0.0.1", 1), ("10.0.0.2", 2)], flags::SYN, 1, 0, 0),
        frames::icmp("10.0.0.1", "10.0.0.2", [8, 0], [0, 1, 0, 1], &[]),
        frames::udp("2001:db8::1", 7, "2001:db8::2", 8),
        frames::icmp("2001:db8::1", "2001:db8::2", [128, 0], [0, 1, 0, 1], &[]),
        frames::tagged(&frames::udp("10.0.0.1", 7, "10.0.0.2", 8), &[1, 2]),
    ] {
        assert!(matches!(read(&frame, 0).class, Class::Flow4 | Class::Flow6));
        for cut in 0..frame.len() {
            // What has no EtherType yet may be anything.
            let link =
                frame.windows(2).position(|two| matches!(two, [0x08, 0x00] | [0x86, 0xdd])).expect("IP") + 2;
            let class = if cut < link { Class::Malformed } else { Class::Unreadable };
            assert_eq!(read(&frame[..cut], 0).class, class, "{cut} of {frame:x?}");
            assert!(common(&frame[..cut]).is_none());
        }
    }
}
