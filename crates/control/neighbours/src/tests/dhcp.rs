//! The DHCP client against a server that is made up.

use super::*;
use crate::frame::{self, BROADCAST, Way};
use crate::{AddressState, DhcpState, Fault, Input, Protocol, classify};
use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode, OptionCode, UnknownOption};
use dhcproto::{Decodable, Decoder, Encodable, Encoder};
use packet::{arp, ethernet, ipv4, protocol, udp};
use std::net::Ipv4Addr;

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
const OFFERED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);

fn client() -> Settings {
    Settings { dhcp: true, ..settings(OURS, &[]) }
}

/// What a client sent: where to, and the message.
fn read(frame: &[u8]) -> Option<([u8; 6], Ipv4Addr, Ipv4Addr, Message)> {
    let view = ethernet::View::new(frame).unwrap();
    let packet = ipv4::View::new(view.payload()).ok()?;
    let data = udp::View::new(packet.payload()).unwrap();
    assert_eq!((data.source_port(), data.destination_port()), (68, 67));
    assert!(packet.verify_checksum() && !data.is_cut() && data.payload().len() >= 300);
    let message = Message::decode(&mut Decoder::new(data.payload())).unwrap();
    assert_eq!(
        (message.opcode(), message.chaddr(), message.flags()),
        (Opcode::BootRequest, &OURS[..], Flags::default())
    );
    Some((view.destination(), packet.source(), packet.destination(), message))
}

/// The messages among what was sent, by kind and time in seconds.
fn kinds(sent: &[(Nanos, Vec<u8>)]) -> Vec<(MessageType, u64)> {
    let messages = sent.iter().filter_map(|(at, frame)| Some((read(frame)?.3, at)));
    messages.map(|(message, at)| (message.opts().msg_type().unwrap(), at.0 / SECOND.0)).collect()
}

fn last(sent: &[(Nanos, Vec<u8>)]) -> Message {
    sent.iter().filter_map(|(_, frame)| Some(read(frame)?.3)).next_back().expect("a message")
}

/// A server's answer to a message.
fn answer(to: &Message, kind: MessageType, change: impl FnOnce(&mut Message)) -> Vec<u8> {
    let zero = Ipv4Addr::UNSPECIFIED;
    let mut message = Message::new_with_id(to.xid(), zero, OFFERED, zero, zero, to.chaddr());
    message.set_opcode(Opcode::BootReply);
    let options = message.opts_mut();
    options.insert(DhcpOption::MessageType(kind));
    options.insert(DhcpOption::ServerIdentifier(SERVER));
    options.insert(DhcpOption::SubnetMask([255, 255, 255, 0].into()));
    options.insert(DhcpOption::AddressLeaseTime(3600));
    options.insert(DhcpOption::Router(vec![SERVER]));
    options.insert(DhcpOption::InterfaceMtu(1400));
    change(&mut message);
    let mut data = Vec::new();
    message.encode(&mut Encoder::new(&mut data)).unwrap();
    let way = Way { from_mac: THEIRS, to_mac: OURS, from: SERVER, to: OFFERED };
    frame::ipv4(way, (protocol::UDP, 64, &[]), udp::HEADER_LENGTH + data.len(), |bytes, endpoints| {
        bytes[udp::HEADER_LENGTH..].copy_from_slice(&data);
        udp::Repr { source_port: 67, destination_port: 68, payload_length: data.len() }
            .emit(bytes, endpoints)
            .ok()
    })
    .unwrap()
}

fn unchanged(_: &mut Message) {}

/// A client with a lease whose address is valid.
fn bound() -> Bench {
    let mut bench = Bench::new(client());
    let discover = last(&bench.run(Nanos(2 * SECOND.0)));
    bench.input(&answer(&discover, MessageType::Offer, unchanged));
    let request = last(&bench.run(Nanos(0)));
    bench.input(&answer(&request, MessageType::Ack, unchanged));
    bench.run(Nanos(20 * SECOND.0));
    assert_eq!(bench.device.addresses().next().unwrap().state, AddressState::Valid);
    bench.device.take_changes();
    bench
}

fn state(bench: &Bench) -> DhcpState {
    bench.device.dhcp().unwrap().state
}

#[test]
fn an_address_is_looked_for_offered_requested_and_probed() {
    let mut bench = Bench::new(client());
    let sent = bench.run(Nanos(2 * SECOND.0));
    let [(_, ref frame)] = sent[..] else { panic!("{sent:?}") };
    let (to_mac, from, to, discover) = read(frame).unwrap();
    assert_eq!((to_mac, from, to), (BROADCAST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
    assert!(discover.opts().has_msg_type(MessageType::Discover));
    let offer = answer(&discover, MessageType::Offer, unchanged);
    assert_eq!(classify(&offer), Some(Protocol::Dhcp));
    assert_eq!(bench.input(&offer).0, Input::Taken);
    assert_eq!(state(&bench), DhcpState::Requesting);
    let request = last(&bench.run(Nanos(0)));
    assert_eq!(request.xid(), discover.xid());
    assert_eq!(
        request.opts().get(OptionCode::RequestedIpAddress),
        Some(&DhcpOption::RequestedIpAddress(OFFERED))
    );
    assert_eq!(request.opts().get(OptionCode::ServerIdentifier), Some(&DhcpOption::ServerIdentifier(SERVER)));
    assert_eq!(bench.device.addresses().count(), 0);
    assert_eq!(bench.input(&answer(&request, MessageType::Ack, unchanged)).0, Input::Taken);
    let changes = bench.device.take_changes();
    assert!(changes.addresses && changes.routers && changes.mtu);
    let own = *bench.device.addresses().next().unwrap();
    assert_eq!((own.prefix.to_string().as_str(), own.state), ("192.0.2.100/24", AddressState::Tentative));
    let sent = bench.run(Nanos(10 * SECOND.0));
    let probes =
        sent.iter().filter_map(|(_, f)| arp::View::new(ethernet::View::new(f).unwrap().payload()).ok());
    assert_eq!(probes.filter(|p| p.sender().is_unspecified() && p.target() == OFFERED).count(), 3);
    assert_eq!(bench.device.addresses().next().unwrap().state, AddressState::Valid);
    assert_eq!((bench.device.mtu(), bench.device.routers().collect::<Vec<_>>()), (1400, vec![SERVER.into()]));
    assert_eq!(bench.device.dhcp().unwrap().lease, Some((SERVER, OFFERED)));
}

#[test]
fn without_a_server_it_asks_less_and_less_often() {
    let mut bench = Bench::new(client());
    let sent = bench.run(Nanos(400 * SECOND.0));
    let gaps: Vec<u64> = sent.windows(2).map(|pair| pair[1].0.since(pair[0].0).0 / 1_000_000).collect();
    for (gap, expected) in gaps.iter().zip([4_000, 8_000, 16_000, 32_000, 64_000, 64_000]) {
        assert!(gap.abs_diff(expected) <= 1_000, "{gaps:?}");
    }
    assert!(gaps.len() >= 7 && gaps.iter().any(|gap| gap % 1_000 != 0), "{gaps:?}");
    // An offer after that is requested four times, and then all begins anew.
    bench.input(&answer(&last(&sent), MessageType::Offer, unchanged));
    let kinds = kinds(&bench.run(Nanos(70 * SECOND.0)));
    let requests = kinds.iter().take_while(|(kind, _)| *kind == MessageType::Request).count();
    assert_eq!((requests, kinds[4].0), (4, MessageType::Discover));
}

/// One that offers before all others and acknowledges nothing keeps no other from giving an address.
#[test]
fn a_server_that_only_offers_is_passed_over_for_another() {
    let liar = Ipv4Addr::new(192, 0, 2, 66);
    let offer = |discover: &Message, server: Ipv4Addr| {
        answer(discover, MessageType::Offer, |message| {
            message.opts_mut().insert(DhcpOption::ServerIdentifier(server));
        })
    };
    let mut bench = Bench::new(client());
    let discover = last(&bench.run(Nanos(2 * SECOND.0)));
    for server in [liar, SERVER] {
        bench.input(&offer(&discover, server));
    }
    let sent = bench.run(Nanos(70 * SECOND.0));
    let discover = last(&sent);
    assert!(discover.opts().has_msg_type(MessageType::Discover), "{:?}", kinds(&sent));
    for server in [liar, SERVER] {
        bench.input(&offer(&discover, server));
    }
    let request = last(&bench.run(Nanos(0)));
    assert_eq!(request.opts().get(OptionCode::ServerIdentifier), Some(&DhcpOption::ServerIdentifier(SERVER)));
    bench.input(&answer(&request, MessageType::Ack, unchanged));
    assert_eq!(state(&bench), DhcpState::Bound);

    // Where there is no other, it is asked all the same: it may be there again.
    let mut bench = Bench::new(client());
    for _ in 0..2 {
        let sent = bench.run(Nanos(70 * SECOND.0));
        bench.input(&offer(&last(&sent), SERVER));
    }
    let sent = bench.run(Nanos(70 * SECOND.0));
    let request = sent.iter().filter_map(|(_, frame)| Some(read(frame)?.3)).next().expect("a message");
    assert!(request.opts().has_msg_type(MessageType::Request), "{:?}", kinds(&sent));
}

#[test]
fn a_lease_is_renewed_then_rebound_and_then_over() {
    let mut bench = bound();
    let end = bench.device.dhcp().unwrap().until.unwrap();
    // Half of it: its server is asked, directly.
    let sent = bench.run(Nanos(1_900 * SECOND.0));
    let (to_mac, from, to, request) = sent.iter().find_map(|(_, frame)| read(frame)).unwrap();
    assert_eq!((to_mac, from, to), (THEIRS, OFFERED, SERVER));
    assert_eq!((request.ciaddr(), request.opts().contains(OptionCode::ServerIdentifier)), (OFFERED, false));
    assert_eq!(state(&bench), DhcpState::Renewing);
    bench.input(&answer(&request, MessageType::Ack, unchanged));
    assert_eq!(state(&bench), DhcpState::Bound);
    assert!(bench.device.dhcp().unwrap().until.unwrap() > end);
    assert!(!bench.device.take_changes().any(), "a renewal disturbs nothing");
    assert!(bench.run(Nanos(1_600 * SECOND.0)).is_empty());
    // No answers: renewals each after half of what is left, all servers at seven eighths, the end.
    let sent = bench.run(Nanos(2_200 * SECOND.0));
    let asked = sent.iter().filter_map(|(_, frame)| read(frame)).filter(|sent| sent.3.ciaddr() == OFFERED);
    let to: Vec<_> = asked.map(|sent| sent.2).collect();
    let direct = to.iter().filter(|to| **to == SERVER).count();
    let all = to.iter().filter(|to| **to == Ipv4Addr::BROADCAST).count();
    assert!((3..=8).contains(&direct) && (2..=8).contains(&all), "{direct} {all}");
    assert_eq!(bench.device.addresses().count(), 0);
    assert_eq!((bench.device.routers().count(), bench.device.mtu()), (0, 1500));
    let changes = bench.device.take_changes();
    assert!(changes.addresses && changes.routers && changes.mtu);
    assert_eq!(state(&bench), DhcpState::Selecting, "it looks for a server again");
}

#[test]
fn a_server_that_says_so_is_not_asked_without_a_pause() {
    for said in [0, 1, 4] {
        let mut bench = bound();
        let request = last(&bench.run(Nanos(1_900 * SECOND.0)));
        bench.input(&answer(&request, MessageType::Ack, |message| {
            message.opts_mut().insert(DhcpOption::Renewal(said));
            message.opts_mut().insert(DhcpOption::Rebinding(said));
        }));
        assert_eq!(state(&bench), DhcpState::Bound);
        assert!(bench.run(Nanos(1_600 * SECOND.0)).is_empty(), "after {said} s");
    }
}

#[test]
fn a_refusal_begins_all_anew_after_a_pause() {
    let mut bench = bound();
    let request = last(&bench.run(Nanos(1_900 * SECOND.0)));
    bench.input(&answer(&request, MessageType::Nak, unchanged));
    assert_eq!((state(&bench), bench.device.addresses().count()), (DhcpState::Waiting, 0));
    let kinds = kinds(&bench.run(Nanos(12 * SECOND.0)));
    assert!(matches!(kinds[..], [(MessageType::Discover, 10..=11)]), "{kinds:?}");
}

#[test]
fn an_address_that_another_station_has_is_declined() {
    let mut bench = Bench::new(client());
    let discover = last(&bench.run(Nanos(2 * SECOND.0)));
    bench.input(&answer(&discover, MessageType::Offer, unchanged));
    let request = last(&bench.run(Nanos(0)));
    bench.input(&answer(&request, MessageType::Ack, unchanged));
    bench.run(Nanos(2 * SECOND.0));
    let repr = arp::Repr {
        operation: arp::REPLY,
        sender_mac: OTHER,
        sender: OFFERED,
        target_mac: OURS,
        target: Ipv4Addr::UNSPECIFIED,
    };
    let (_, sent) = bench.input(&frame::arp(OURS, repr).unwrap());
    let (to_mac, _, to, decline) = read(&sent[0]).unwrap();
    assert_eq!((to_mac, to), (BROADCAST, Ipv4Addr::BROADCAST));
    assert!(decline.opts().has_msg_type(MessageType::Decline));
    assert_eq!(
        decline.opts().get(OptionCode::RequestedIpAddress),
        Some(&DhcpOption::RequestedIpAddress(OFFERED))
    );
    assert_eq!((state(&bench), bench.device.addresses().count()), (DhcpState::Waiting, 0));
    assert!(bench.run(Nanos(9 * SECOND.0)).is_empty());
}

#[test]
fn a_lease_is_released_at_the_end_and_when_it_is_switched_off() {
    for stop in [true, false] {
        let mut bench = bound();
        if stop {
            bench.device.stop(bench.now);
        } else {
            bench.device.change(settings(OURS, &[]), bench.now).unwrap();
        }
        let frame = bench.device.next_frame().unwrap();
        let (to_mac, from, to, release) = read(&frame).unwrap();
        assert_eq!((to_mac, from, to), (THEIRS, OFFERED, SERVER));
        assert!(release.opts().has_msg_type(MessageType::Release));
        assert_eq!(release.ciaddr(), OFFERED);
        assert!(bench.device.next_frame().is_none() && bench.run(Nanos(100 * SECOND.0)).is_empty());
        assert_eq!((bench.device.addresses().count(), bench.device.next_deadline()), (0, None));
    }
}

#[test]
fn what_is_not_for_this_exchange_is_not_taken() {
    let mut bench = Bench::new(client());
    let discover = last(&bench.run(Nanos(2 * SECOND.0)));
    let offer = |change: fn(&mut Message)| answer(&discover, MessageType::Offer, change);
    let malformed = Input::Dropped(Fault::Malformed);
    for (name, frame, outcome) in [
        ("another exchange", offer(|m| _ = m.set_xid(m.xid() ^ 1)), Input::Ignored),
        ("another client", offer(|m| _ = m.set_chaddr(&OTHER)), malformed),
        ("a request", offer(|m| _ = m.set_opcode(Opcode::BootRequest)), malformed),
        ("no server", offer(|m| _ = m.opts_mut().remove(OptionCode::ServerIdentifier)), malformed),
        ("no lease", offer(|m| _ = m.opts_mut().remove(OptionCode::AddressLeaseTime)), malformed),
        ("a short lease", offer(|m| _ = m.opts_mut().insert(DhcpOption::AddressLeaseTime(9))), malformed),
        (
            "holes in the mask",
            offer(|m| _ = m.opts_mut().insert(DhcpOption::SubnetMask([255, 0, 255, 0].into()))),
            malformed,
        ),
        ("a group", offer(|m| _ = m.set_yiaddr([224, 0, 0, 1])), malformed),
        ("all of the network", offer(|m| _ = m.set_yiaddr([192, 0, 2, 255])), malformed),
        ("acknowledged too early", answer(&discover, MessageType::Ack, unchanged), Input::Ignored),
    ] {
        assert_eq!(bench.input(&frame), (outcome, vec![]), "{name}");
        assert_eq!(state(&bench), DhcpState::Selecting, "{name}");
    }
    let good = offer(unchanged);
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] ^= value;
        frame
    };
    for (frame, outcome) in [
        (with(24, 1), Input::Dropped(Fault::Checksum)),
        (with(60, 1), Input::Dropped(Fault::Checksum)),
        (good[..good.len() - 4].to_vec(), malformed),
    ] {
        assert_eq!(bench.input(&frame), (outcome, vec![]));
    }
    // A hardware length beyond its field, with the checksum left out.
    let mut long = with(44, 0xff);
    long[40..42].fill(0);
    assert_eq!(bench.input(&long), (malformed, vec![]));
    // Options of lengths that cannot be, on which a reader of whole messages panics, change nothing for the
    // others.
    let odd = |m: &mut Message| {
        for code in
            [OptionCode::ClientNetworkInterface, OptionCode::ClientFQDN, OptionCode::BulkLeaseQueryStatusCode]
        {
            m.opts_mut().insert(DhcpOption::Unknown(UnknownOption::new(code, vec![1])));
        }
    };
    let good_too = offer(odd);
    assert!(good_too.len() > good.len());
    bench.input(&good_too);
    assert_eq!(state(&bench), DhcpState::Requesting);
    let request = last(&bench.run(Nanos(0)));
    bench.input(&answer(&request, MessageType::Nak, unchanged));
    let discover = last(&bench.run(Nanos(20 * SECOND.0)));
    let good = answer(&discover, MessageType::Offer, unchanged);
    // An acknowledgement of another server than the one that was chosen.
    bench.input(&good);
    let request = last(&bench.run(Nanos(0)));
    let other =
        |m: &mut Message| _ = m.opts_mut().insert(DhcpOption::ServerIdentifier([192, 0, 2, 7].into()));
    assert_eq!(bench.input(&answer(&request, MessageType::Ack, other)).0, Input::Ignored);
    assert_eq!(bench.input(&answer(&request, MessageType::Nak, other)).0, Input::Ignored);
    assert_eq!(bench.device.addresses().count(), 0);
}
