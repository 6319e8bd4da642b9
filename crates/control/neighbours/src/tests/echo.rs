//! Echo requests: which are answered, and how many.

use super::*;
use crate::frame::{self, BROADCAST, Way};
use crate::{Fault, Input};
use packet::{ethernet, icmpv4, ipv4};

fn request(to_mac: [u8; 6], from: &str, to: &str, data: &[u8]) -> Vec<u8> {
    let way = Way { from_mac: THEIRS, to_mac, from: from.parse().unwrap(), to: to.parse().unwrap() };
    let message = icmpv4::Repr { kind: icmpv4::kind::ECHO_REQUEST, code: 0, rest: [1, 2, 3, 4] };
    frame::icmpv4(way, message, data).unwrap()
}

#[test]
fn a_request_to_an_own_address_is_answered_with_its_data() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    let (outcome, sent) = bench.input(&request(OURS, "198.51.100.7", "192.0.2.1", b"data of a ping"));
    assert_eq!((outcome, sent.len()), (Input::Taken, 1));
    let view = ethernet::View::new(&sent[0]).unwrap();
    assert_eq!((view.destination(), view.source()), (THEIRS, OURS));
    let packet = ipv4::View::new(view.payload()).unwrap();
    assert!(packet.verify_checksum());
    assert_eq!(
        (IpAddr::V4(packet.source()), IpAddr::V4(packet.destination())),
        (ip("192.0.2.1"), ip("198.51.100.7"))
    );
    let message = icmpv4::View::new(packet.payload()).unwrap();
    assert!(message.verify_checksum());
    assert_eq!(
        (message.kind(), message.rest(), message.payload()),
        (icmpv4::kind::ECHO_REPLY, [1, 2, 3, 4], &b"data of a ping"[..])
    );
}

#[test]
fn what_is_not_to_this_host_alone_is_not_answered() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    for (frame, outcome) in [
        (request(BROADCAST, "192.0.2.2", "192.0.2.1", b""), Input::Ignored),
        (request(OURS, "192.0.2.2", "192.0.2.3", b""), Input::Ignored),
        (request(BROADCAST, "192.0.2.2", "192.0.2.255", b""), Input::Ignored),
        (request(OURS, "192.0.2.255", "192.0.2.1", b""), Input::Dropped(Fault::Address)),
        (request(OURS, "255.255.255.255", "192.0.2.1", b""), Input::Dropped(Fault::Address)),
        (request(OURS, "224.0.0.5", "192.0.2.1", b""), Input::Dropped(Fault::Address)),
        (request(OURS, "0.0.0.0", "192.0.2.1", b""), Input::Dropped(Fault::Address)),
        (request(OURS, "192.0.2.1", "192.0.2.1", b""), Input::Dropped(Fault::Address)),
    ] {
        assert_eq!(bench.input(&frame), (outcome, vec![]), "{frame:x?}");
    }
    let good = request(OURS, "192.0.2.2", "192.0.2.1", b"data");
    for at in [24, 36, 40, 45] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_eq!(bench.input(&bad), (Input::Dropped(Fault::Checksum), vec![]), "{at}");
    }
    assert_eq!(bench.input(&good[..good.len() - 1]), (Input::Dropped(Fault::Malformed), vec![]));
}

#[test]
fn answers_are_limited() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    let sent: usize =
        (0..1_000).map(|_| bench.input(&request(OURS, "192.0.2.2", "192.0.2.1", b"")).1.len()).sum();
    assert_eq!(sent, 100);
    assert_eq!(bench.device.counters().unanswered, 900);
}
