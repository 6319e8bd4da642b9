use super::*;
use packet::{checksum, ipv4, ipv6, protocol};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;

const MAC: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// A frame of IPv4 with options, and so many tags.
fn v4(tags: usize, options: &[u8], flags: u16, id: u16, of: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 7]));
    frame.extend([8, 0]);
    let (at, header) = (frame.len(), 20 + options.len());
    frame.extend([0x40 | (header / 4) as u8, 0x10]);
    frame.extend(((header + payload.len()) as u16).to_be_bytes());
    frame.extend(id.to_be_bytes());
    frame.extend(flags.to_be_bytes());
    frame.extend([64, of, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(options);
    let sum = checksum::of(&frame[at..]);
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(payload);
    frame
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next, 64]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    frame.extend(payload);
    frame
}

/// Puts fragments of one packet together: its payload, and the offset behind the last one.
fn together(fragments: &[Vec<u8>], at: usize) -> (Vec<u8>, bool) {
    let (mut bytes, mut more) = (BTreeMap::new(), true);
    for frame in fragments {
        let view = ipv4::View::new(&frame[at..]).expect("IPv4");
        assert!(view.verify_checksum());
        let offset = usize::from(view.fragment_offset());
        bytes.extend(view.payload().iter().enumerate().map(|(n, byte)| (offset + n, *byte)));
        more &= view.more_fragments();
    }
    let begin = *bytes.keys().next().expect("a byte");
    assert!(bytes.keys().copied().eq(begin..begin + bytes.len()), "no holes");
    (bytes.into_values().collect(), more)
}

proptest! {
    #[test]
    fn fragments_are_the_packet(
        tags in 0usize..3, mtu in 68u32..2000, offset in 0u16..100, more: bool, words in 0usize..10,
        payload in prop::collection::vec(any::<u8>(), 1..5000),
    ) {
        // A record of the route, which is not copied, and a security label, which is.
        let options: Vec<u8> = [&[7, 4, 4, 0][..], &[0x82, 4, 1, 2], &[1; 32]].concat()[..words.min(2) * 4 + words.saturating_sub(2) * 4].to_vec();
        let payload = if more { &payload[..(payload.len() & !7).max(8).min(payload.len())] } else { &payload[..] };
        prop_assume!(!more || payload.len() % 8 == 0);
        let flags = if more { 0x2000 } else { 0 } | offset;
        let frame = v4(tags, &options, flags, 9, 17, payload);
        let at = 14 + 4 * tags;
        let Remedy::Fragments(fragments) = too_long(&frame, mtu) else { panic!("it may be fragmented") };
        for fragment in &fragments {
            prop_assert!(fragment.len() - at <= mtu as usize);
            prop_assert_eq!(&fragment[..at], &frame[..at], "tags and addresses");
            let view = ipv4::View::new(&fragment[at..]).expect("IPv4");
            prop_assert_eq!((view.identification(), view.ttl(), view.traffic_class()), (9, 64, 0x10));
            prop_assert_eq!(view.length(), fragment.len() - at);
        }
        for fragment in fragments.iter().skip(1) {
            let options = ipv4::View::new(&fragment[at..]).expect("IPv4").options_bytes().to_vec();
            prop_assert!(!options.contains(&7), "a route is recorded in the first one alone");
            prop_assert_eq!(options.starts_with(&[0x82, 4, 1, 2]), words >= 2, "what is copied is in all");
        }
        let (bytes, last) = together(&fragments, at);
        prop_assert_eq!((&bytes[..], last), (payload, more));
        let first = ipv4::View::new(&fragments[0][at..]).expect("IPv4");
        prop_assert_eq!(first.fragment_offset(), offset * 8);
    }

    #[test]
    fn nothing_panics_on_any_bytes(mut frame in prop::collection::vec(any::<u8>(), 0..200), kind: bool, mtu: u32) {
        if let Some(place) = frame.get_mut(12..14) {
            place.copy_from_slice(if kind { &[8, 0] } else { &[0x86, 0xdd] });
        }
        match too_long(&frame, mtu) {
            Remedy::Fragments(fragments) => prop_assert!(fragments.iter().all(|it| !it.is_empty())),
            Remedy::Answer(answer) => prop_assert!(answer.len() <= 1280 + 80),
            Remedy::None => {}
        }
    }
}

#[test]
fn the_sender_of_what_may_not_be_fragmented_is_told() {
    let frame = v4(1, &[], 0x4000, 9, 17, &[5; 1600]);
    let Remedy::Answer(answer) = too_long(&frame, 1400) else { panic!("it may not be fragmented") };
    assert_eq!(
        (&answer[..6], &answer[6..12], &answer[12..18]),
        (&MAC[6..], &MAC[..6], &[0x81, 0, 0, 7, 8, 0][..])
    );
    let ip = ipv4::View::new(&answer[18..]).expect("IPv4");
    assert!(ip.verify_checksum() && ip.length() == 576 && ip.protocol() == protocol::ICMPV4);
    assert_eq!((ip.source().octets(), ip.destination().octets()), ([10, 0, 0, 2], [10, 0, 0, 1]));
    let message = ip.payload();
    assert_eq!((message[0], message[1], &message[6..8]), (3, 4, &1400u16.to_be_bytes()[..]));
    assert_eq!((checksum::of(message), &message[8..]), (0, &frame[18..18 + 548]));
}

#[test]
fn the_sender_of_ipv6_is_told() {
    let frame = v6(17, &[5; 1600]);
    for (mtu, said) in [(1400, 1400u32), (1000, 1280)] {
        let Remedy::Answer(answer) = too_long(&frame, mtu) else { panic!("IPv6 is not fragmented") };
        let ip = ipv6::View::new(&answer[14..]).expect("IPv6");
        assert_eq!(
            (ip.source(), answer.len() - 14),
            (ipv6::View::new(&frame[14..]).expect("IPv6").destination(), 1280)
        );
        let message = ip.payload();
        assert_eq!((message[0], message[1], &message[4..8]), (2, 0, &said.to_be_bytes()[..]));
        let endpoints = checksum::Endpoints::V6 { source: ip.source(), destination: ip.destination() };
        assert!(endpoints.verify(protocol::ICMPV6, message));
        assert_eq!(&message[8..], &frame[14..14 + 1232]);
    }
}

/// RFC 1122, section 3.2.2, and RFC 4443, section 2.4(e).
#[test]
fn no_answer_is_sent_about_errors_fragments_groups_and_what_is_not_ip() {
    let long = [0; 1600];
    let errors = |kind: u8| [&[kind, 0, 0, 0][..], &long].concat();
    let mut group = v4(0, &[], 0x4000, 9, 17, &long);
    group[30] = 224;
    let mut from_nowhere = v4(0, &[], 0x4000, 9, 17, &long);
    from_nowhere[26] = 0;
    from_nowhere[29] = 0;
    let mut to_all = v4(0, &[], 0x4000, 9, 17, &long);
    to_all[..6].copy_from_slice(&[0xff; 6]);
    let mut other = v4(0, &[], 0x4000, 9, 17, &long);
    other[12] = 9;
    let mut group6 = v6(17, &long);
    group6[38] = 0xff;
    for frame in [
        v4(0, &[], 0x4000, 9, 1, &errors(3)),
        v4(0, &[], 0x4000, 9, 1, &errors(11)),
        v4(0, &[], 0x4001, 9, 17, &long),
        v6(58, &errors(1)),
        v6(58, &errors(2)),
        v6(58, &errors(137)),
        group,
        from_nowhere,
        to_all,
        other,
        group6,
        vec![0; 13],
        vec![],
    ] {
        assert_eq!(too_long(&frame, 1400), Remedy::None, "{:02x?}", frame.get(..60));
    }
    // Other messages of ICMP have a sender who is to know.
    assert!(matches!(too_long(&v4(0, &[], 0x4000, 9, 1, &errors(8)), 1400), Remedy::Answer(_)));
    assert!(matches!(too_long(&v6(58, &errors(128)), 1400), Remedy::Answer(_)));
}
