//! Resets against a model of what their receivers do with them.

use super::*;
use proptest::prelude::*;

/// An end of a connection (RFC 9293 section 3.10.7, RFC 5961 section 3.2).
#[derive(Clone, Copy, Debug)]
enum End {
    /// It has sent a SYN with this number and waits for the answer.
    SynSent(u32),
    /// It waits for this number next.
    Open(u32),
    Ended,
}

impl End {
    fn receive(&mut self, reset: &Made) {
        let accepts = match *self {
            End::SynSent(sent) => reset.flags.has(Flags::ACK) && reset.acknowledgment == sent.wrapping_add(1),
            // Another one within the window is answered by a challenge, and one beyond by nothing.
            End::Open(next) => reset.sequence == next,
            End::Ended => false,
        };
        if accepts {
            *self = End::Ended;
        }
    }
}

proptest! {
    /// Whether the packet came to its receiver before the resets, after them, or never.
    #[test]
    fn resets_end_both_ends(
        port: u16, sequence: u32, acknowledgment: u32, data in prop::collection::vec(any::<u8>(), 0..50),
        has_come: bool, is_fin: bool, is_v6: bool, from_outside: bool,
    ) {
        let (client, server) = if is_v6 { ("2001:db8::1", "2001:db8::2") } else { (CLIENT, SERVER) };
        let flags = if is_fin { Flags::ACK.with(Flags::FIN) } else { Flags::ACK };
        let frame = segment((client, port), (server, 80), flags, sequence, acknowledgment, &data);
        let mut runner = ips("{}");
        suspicious(&mut runner, &frame, if from_outside { 2 } else { 1 }, at(0));
        let length = data.len() as u32 + u32::from(is_fin);
        let next = if has_come { sequence.wrapping_add(length) } else { sequence };
        let (mut receiver, mut sender) = (End::Open(next), End::Open(acknowledgment));
        for reset in made(&runner) {
            prop_assert!(reset.flags.has(Flags::RST));
            let is_to_sender = reset.to == client.parse::<std::net::IpAddr>().expect("an address");
            prop_assert_eq!(reset.interface, if is_to_sender == from_outside { OUTSIDE } else { INSIDE });
            if is_to_sender { sender.receive(&reset) } else { receiver.receive(&reset) }
        }
        prop_assert!(matches!((receiver, sender), (End::Ended, End::Ended)), "{:?} {:?}", receiver, sender);
        prop_assert_eq!(counted(&runner, "reset"), 1);
    }
}

#[test]
fn a_connection_that_begins_is_ended_too() {
    // The SYN: its sender has no number of the other side's yet.
    let mut runner = ips("{}");
    suspicious(&mut runner, &segment((CLIENT, 7), (SERVER, 80), Flags::SYN, 99, 0, &[]), 1, at(0));
    let mut sender = End::SynSent(99);
    let mut receiver = End::Open(100);
    for reset in made(&runner) {
        if reset.interface == INSIDE { sender.receive(&reset) } else { receiver.receive(&reset) }
    }
    assert!(matches!((sender, receiver), (End::Ended, End::Ended)));
    // Its answer: the client has not had it yet.
    let mut runner = ips("{}");
    let answer = segment((SERVER, 80), (CLIENT, 7), Flags::SYN.with(Flags::ACK), 500, 100, &[]);
    suspicious(&mut runner, &answer, 2, at(0));
    let (mut client, mut server) = (End::SynSent(99), End::Open(100));
    for reset in made(&runner) {
        if reset.interface == INSIDE { client.receive(&reset) } else { server.receive(&reset) }
    }
    assert!(matches!((client, server), (End::Ended, End::Ended)));
}

#[test]
fn a_reset_is_never_answered() {
    let mut runner = ips("{}");
    for flags in [Flags::RST, Flags::RST.with(Flags::ACK), Flags::RST.with(Flags::SYN)] {
        suspicious(&mut runner, &segment((CLIENT, 7), (SERVER, 80), flags, 5, 6, b"evil"), 1, at(0));
    }
    assert!(runner.host().emitted().is_empty() && runner.function().connections.is_empty());
    assert_eq!(counted(&runner, "reset-seen"), 3);
    // Nor one of a connection that is to end: it goes on, and ends it.
    suspicious(&mut runner, &request(7, 1, 1), 1, at(0));
    let before = runner.host().emitted().len();
    let reset = segment((SERVER, 80), (CLIENT, 7), Flags::RST, 1, 0, &[]);
    assert_eq!(passing(&mut runner, &reset, OUTSIDE, at(1)), Verdict::Interface(INSIDE));
    assert_eq!(runner.host().emitted().len(), before);
}

#[test]
fn frames_go_back_with_their_tags() {
    let mut runner = ips("{}");
    let frame = nf_sdk::native::frames::tagged(&request(7, 1, 1), &[10]);
    suspicious(&mut runner, &frame, 1, at(0));
    for one in runner.host().emitted() {
        let bytes = one.bytes.as_ref().expect("its own");
        let (to, from) = (&frame[..6], &frame[6..12]);
        let expected = if one.verdict == Verdict::Interface(OUTSIDE) { (to, from) } else { (from, to) };
        assert_eq!(
            (&bytes[..6], &bytes[6..12], &bytes[12..16]),
            (expected.0, expected.1, &[0x81, 0, 0, 10][..])
        );
    }
}

#[test]
fn the_sender_of_udp_is_told_where_the_operator_wants_it() {
    let datagram = packet(CLIENT, SERVER, protocol::UDP, &[0, 7, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    let mut runner = ips("{}");
    suspicious(&mut runner, &datagram, 1, at(0));
    assert!(runner.host().emitted().is_empty());
    assert_eq!(counted(&runner, "not-tcp"), 1);
    let mut runner = ips("{udp: unreachable}");
    suspicious(&mut runner, &datagram, 1, at(0));
    let answer = &runner.host().emitted()[0];
    let bytes = answer.bytes.clone().expect("its own");
    assert_eq!((answer.verdict, &bytes[34..36]), (Verdict::Interface(INSIDE), &[3, 3][..]));
    assert_eq!(bytes[42..], datagram[14..]);
    let six = packet("2001:db8::1", "2001:db8::2", protocol::UDP, &[0, 7, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    suspicious(&mut runner, &six, 2, at(0));
    let answer = &runner.host().emitted()[1];
    let mut bytes = answer.bytes.clone().expect("its own");
    assert_eq!((answer.verdict, &bytes[54..56]), (Verdict::Interface(OUTSIDE), &[1, 4][..]));
    let before = bytes.clone();
    nf_sdk::native::frames::seal(&mut bytes);
    assert_eq!(bytes, before);
    assert_eq!((counted(&runner, "unreachable"), counted(&runner, "unreachables-sent")), (2, 2));
}
