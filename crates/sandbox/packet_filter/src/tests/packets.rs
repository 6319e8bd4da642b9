//! What is read from packets.

use crate::header::{Class, Common, Header, Least, parse, parse_embedded};
use nf_sdk::headers::tunnel::Tunnels;
use nf_sdk::native::frames::{self, flags};
use proptest::prelude::*;

fn read(frame: &[u8], ingress: u32) -> Header {
    let mut header = Header::default();
    parse(frame, ingress, &Tunnels::NONE, &mut header);
    header
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
