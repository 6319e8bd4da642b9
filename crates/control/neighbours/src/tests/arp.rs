//! ARP: asks, answers, conflicts, storms.

use super::*;
use crate::frame::{self, BROADCAST};
use crate::{AddressState, Fault, Input, Limits, NeighbourState, Refusal, Resolution};
use packet::arp::{REPLY, REQUEST, Repr, View};
use packet::ethernet;
use std::net::Ipv4Addr;

pub(super) fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// A message of `mac`, `sender` to `target`.
pub(super) fn message(
    operation: u16,
    (mac, sender): ([u8; 6], &str),
    (to, target): ([u8; 6], &str),
) -> Vec<u8> {
    let repr = Repr {
        operation,
        sender_mac: mac,
        sender: v4(sender),
        target_mac: if operation == REPLY { to } else { [0; 6] },
        target: v4(target),
    };
    frame::arp(to, repr).unwrap()
}

/// The ARP messages among frames, with where they go.
pub(super) fn messages<'a>(frames: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<([u8; 6], Repr)> {
    let read = |frame: &'a Vec<u8>| {
        let view = ethernet::View::new(frame).unwrap();
        (view.ethertype() == ethernet::ethertype::ARP)
            .then(|| (view.destination(), Repr::parse(&View::new(view.payload()).unwrap())))
    };
    frames.into_iter().filter_map(read).collect()
}

fn state(bench: &Bench) -> AddressState {
    bench.device.addresses().next().unwrap().state
}

#[test]
fn an_address_is_probed_three_times_and_announced_twice() {
    let mut bench = Bench::new(settings(OURS, &["192.0.2.1/24"]));
    let sent = bench.run(Nanos(30 * SECOND.0));
    let found = messages(sent.iter().map(|(_, frame)| frame));
    let senders: Vec<_> = found.iter().map(|(to, m)| (*to, m.operation, m.sender, m.target)).collect();
    let probe = (BROADCAST, REQUEST, v4("0.0.0.0"), v4("192.0.2.1"));
    let announcement = (BROADCAST, REQUEST, v4("192.0.2.1"), v4("192.0.2.1"));
    assert_eq!(senders, [probe, probe, probe, announcement, announcement]);
    assert!(sent[0].0 <= SECOND);
    for at in 1..3 {
        let gap = sent[at].0.since(sent[at - 1].0);
        assert!(gap >= SECOND && gap <= Nanos(2 * SECOND.0), "{gap:?}");
    }
    assert_eq!(sent[3].0.since(sent[2].0), Nanos(2 * SECOND.0));
    assert_eq!(sent[4].0.since(sent[3].0), Nanos(2 * SECOND.0));
    assert_eq!(state(&bench), AddressState::Valid);
    assert_eq!(bench.device.next_deadline(), None);
}

#[test]
fn a_tentative_address_answers_nothing_and_is_lost_to_another_probe() {
    let mut bench = Bench::new(settings(OURS, &["192.0.2.1/24"]));
    bench.run(Nanos(2 * SECOND.0));
    let question = message(REQUEST, (THEIRS, "192.0.2.2"), (BROADCAST, "192.0.2.1"));
    assert_eq!(bench.input(&question), (Input::Taken, vec![]));
    assert_eq!(state(&bench), AddressState::Tentative);
    let probe = message(REQUEST, (THEIRS, "0.0.0.0"), (BROADCAST, "192.0.2.1"));
    bench.input(&probe);
    assert_eq!(state(&bench), AddressState::Duplicate);
    assert!(bench.device.take_changes().addresses);
    // It is tried again after a minute.
    assert!(bench.run(Nanos(59 * SECOND.0)).is_empty());
    bench.run(Nanos(20 * SECOND.0));
    assert_eq!(state(&bench), AddressState::Valid);
}

#[test]
fn questions_for_own_addresses_are_answered_and_no_others() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    let (outcome, sent) = bench.input(&message(REQUEST, (THEIRS, "192.0.2.2"), (BROADCAST, "192.0.2.1")));
    assert_eq!(outcome, Input::Taken);
    let [(to, answer)] = messages(&sent)[..] else { panic!("{sent:?}") };
    assert_eq!((to, answer.operation), (THEIRS, REPLY));
    assert_eq!((answer.sender_mac, answer.sender), (OURS, v4("192.0.2.1")));
    assert_eq!((answer.target_mac, answer.target), (THEIRS, v4("192.0.2.2")));
    let probe = message(REQUEST, (THEIRS, "0.0.0.0"), (BROADCAST, "192.0.2.1"));
    assert_eq!(messages(&bench.input(&probe).1).len(), 1, "a probe for an address in use is answered");
    let other = message(REQUEST, (THEIRS, "192.0.2.2"), (BROADCAST, "192.0.2.9"));
    assert_eq!(bench.input(&other), (Input::Taken, vec![]));
    assert_eq!(bench.device.neighbours_count(), 0, "questions make no entries");
}

#[test]
fn what_lies_about_its_sender_has_no_effect() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    let good = message(REQUEST, (THEIRS, "192.0.2.2"), (BROADCAST, "192.0.2.1"));
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    for (frame, fault) in [
        (with(6, &OTHER), Fault::Address), // another station than the message says
        (with(6, &OURS), Fault::Address),  // its own, by a loop
        (with(6, &[0xff; 6]), Fault::Address), // a group
        (with(28, &[224, 0, 0, 1]), Fault::Address), // a group as the sender
        (with(28, &[255, 255, 255, 255]), Fault::Address), // all
        (with(20, &[0, 9]), Fault::Address), // an unknown operation
        (with(14, &[0, 6]), Fault::Malformed), // another kind of link
        (good[..41].to_vec(), Fault::Malformed), // cut
        (good[..13].to_vec(), Fault::Malformed),
    ] {
        assert_eq!(bench.input(&frame), (Input::Dropped(fault), vec![]), "{frame:x?}");
    }
    assert_eq!(bench.input(&with(0, &OTHER)), (Input::Ignored, vec![]), "to another station");
}

#[test]
fn an_ask_is_answered_kept_fresh_and_forgotten() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    let neighbour = ip("192.0.2.2");
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Asked);
    let sent = bench.run(Nanos(0));
    let [(to, question)] = messages(sent.iter().map(|(_, f)| f))[..] else { panic!("{sent:?}") };
    assert_eq!((to, question.sender, question.target), (BROADCAST, v4("192.0.2.1"), v4("192.0.2.2")));
    let answer = message(REPLY, (THEIRS, "192.0.2.2"), (OURS, "192.0.2.1"));
    assert!(bench.device.take_changes().neighbours);
    bench.input(&answer);
    assert!(bench.device.take_changes().neighbours);
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Known(THEIRS));
    assert_eq!(bench.device.neighbours().next().unwrap().state, NeighbourState::Reachable);
    // As long as the lease goes on, it is asked whether it is there, directly, and nothing changes when it
    // is.
    let mut asked = 0;
    for _ in 0..290 {
        for (to, _) in messages(bench.run(SECOND).iter().map(|(_, f)| f)) {
            assert_eq!(to, THEIRS);
            asked += 1;
            bench.input(&answer);
        }
    }
    assert!((5..=15).contains(&asked), "{asked}");
    assert!(!bench.device.take_changes().neighbours);
    bench.run(Nanos(200 * SECOND.0));
    assert_eq!(bench.device.neighbours_count(), 0);
    assert!(bench.device.take_changes().neighbours);
}

#[test]
fn three_tries_a_second_apart_and_then_unreachable_for_a_while() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    let neighbour = ip("192.0.2.2");
    bench.device.resolve(neighbour, bench.now);
    let sent = bench.run(Nanos(10 * SECOND.0));
    let times: Vec<_> = sent.iter().map(|(at, _)| at.0 / SECOND.0).collect();
    assert_eq!(times, [0, 1, 2]);
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Unreachable);
    assert!(bench.run(Nanos(5 * SECOND.0)).is_empty(), "nothing is asked meanwhile");
    bench.run(Nanos(10 * SECOND.0));
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Asked);
}

#[test]
fn what_cannot_be_asked_for_is_said_at_once() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    for (address, expected) in [
        ("192.0.2.1", Resolution::Known(OURS)),
        ("192.0.2.255", Resolution::Known(BROADCAST)),
        ("255.255.255.255", Resolution::Known(BROADCAST)),
        ("239.129.2.3", Resolution::Known([1, 0, 0x5e, 1, 2, 3])),
        ("ff02::1:ff00:7", Resolution::Known([0x33, 0x33, 0xff, 0, 0, 7])),
        ("198.51.100.1", Resolution::Refused(Refusal::OffLink)),
        ("2001:db8::1", Resolution::Refused(Refusal::OffLink)),
        ("127.0.0.1", Resolution::Refused(Refusal::Address)),
        ("0.0.0.0", Resolution::Refused(Refusal::Address)),
        ("::", Resolution::Refused(Refusal::Address)),
    ] {
        assert_eq!(bench.device.resolve(ip(address), bench.now), expected, "{address}");
    }
    assert_eq!(bench.device.neighbours_count(), 0);
}

#[test]
fn a_claim_takes_over_only_when_the_station_is_silent() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    let neighbour = ip("192.0.2.2");
    let answer = message(REPLY, (THEIRS, "192.0.2.2"), (OURS, "192.0.2.1"));
    let claim = message(REPLY, (OTHER, "192.0.2.2"), (OURS, "192.0.2.1"));
    bench.device.resolve(neighbour, bench.now);
    bench.run(Nanos(0));
    bench.input(&answer);
    // The known station answers: nothing changes, however often it is claimed.
    for _ in 0..100 {
        bench.input(&claim);
    }
    let sent = bench.run(Nanos(0));
    assert_eq!(messages(sent.iter().map(|(_, f)| f)).iter().map(|(to, _)| *to).collect::<Vec<_>>(), [THEIRS]);
    bench.input(&answer);
    bench.input(&claim);
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Known(THEIRS));
    assert_eq!(bench.device.counters().claims, 101);
    assert!(bench.run(Nanos(4 * SECOND.0)).is_empty(), "claims are looked into once in five seconds");
    // It does not answer: the next question goes to all, and the claim's station answers that. A gratuitous
    // ARP does the same as an answer that was not asked for.
    bench.run(SECOND);
    bench.input(&message(REQUEST, (OTHER, "192.0.2.2"), (BROADCAST, "192.0.2.2")));
    let sent = bench.run(Nanos(1_100_000_000));
    let to: Vec<_> = messages(sent.iter().map(|(_, f)| f)).iter().map(|(to, _)| *to).collect();
    assert_eq!(to, [THEIRS, BROADCAST]);
    bench.input(&claim);
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Known(OTHER));
}

#[test]
fn an_address_in_use_is_defended_once_in_ten_seconds() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24"]));
    let claim = message(REQUEST, (THEIRS, "192.0.2.1"), (BROADCAST, "192.0.2.1"));
    let sent: Vec<_> = (0..50).flat_map(|_| bench.input(&claim).1).collect();
    let [(to, announcement)] = messages(&sent)[..] else { panic!("{sent:?}") };
    assert_eq!((to, announcement.sender, announcement.target), (BROADCAST, v4("192.0.2.1"), v4("192.0.2.1")));
    bench.run(Nanos(10 * SECOND.0));
    assert_eq!(bench.input(&claim).1.len(), 1);
    assert_eq!(state(&bench), AddressState::Valid);
    assert_eq!(bench.device.counters().conflicts, 51);
}

#[test]
fn a_storm_moves_no_entry_and_is_answered_by_the_rate() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.0.1/16"]));
    let neighbour = ip("192.0.0.2");
    let answer = message(REPLY, (THEIRS, "192.0.0.2"), (OURS, "192.0.0.1"));
    bench.device.resolve(neighbour, bench.now);
    bench.run(Nanos(0));
    bench.input(&answer);
    bench.device.take_changes();
    let mut sent = 0;
    let mut rng = fastrand::Rng::with_seed(1);
    for n in 0..100_000u32 {
        let [_, _, c, d] = n.to_be_bytes();
        let from = [2, rng.u8(..), rng.u8(..), rng.u8(..), c, d];
        let sender = format!("192.0.{}.{}", rng.u8(1..), rng.u8(..));
        let kind = if n % 2 == 0 { REQUEST } else { REPLY };
        let to = if n % 2 == 0 { BROADCAST } else { OURS };
        sent += bench.input(&message(kind, (from, &sender), (to, "192.0.0.1"))).1.len();
        bench.now = bench.now.saturating_add(Nanos(10_000));
    }
    // 100,000 in a second: a burst of answers and a second's rate of them.
    let limits = Limits::default();
    assert!(sent <= (limits.answers.per_second + limits.answers.burst) as usize + 1, "{sent}");
    let dropped = bench.device.counters().dropped[4];
    assert!(
        dropped >= 100_000 - u64::from(limits.processed.per_second + limits.processed.burst) - 1,
        "{dropped}"
    );
    assert_eq!(bench.device.neighbours_count(), 1);
    assert!(!bench.device.take_changes().any());
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Known(THEIRS));
    // In the middle of it, an answer that is waited for is heard.
    for _ in 0..2_000 {
        bench.input(&message(REQUEST, (OTHER, "192.0.0.3"), (BROADCAST, "192.0.0.1")));
    }
    bench.device.resolve(ip("192.0.0.4"), bench.now);
    bench.run(Nanos(0));
    let late = message(REPLY, (OTHER, "192.0.0.4"), (OURS, "192.0.0.1"));
    assert_eq!(bench.input(&late).0, Input::Taken);
    assert_eq!(bench.device.resolve(ip("192.0.0.4"), bench.now), Resolution::Known(OTHER));
}

#[test]
fn asks_without_answers_give_way_and_those_that_were_answered_stay() {
    let capacity = 64;
    let mut bench = Bench::settled(Settings { capacity, ..settings(OURS, &["10.0.0.1/8"]) });
    let known: Vec<String> = (1..=40).map(|n| format!("10.0.1.{n}")).collect();
    for address in &known {
        bench.device.resolve(ip(address), bench.now);
        bench.input(&message(REPLY, (THEIRS, address), (OURS, "10.0.0.1")));
    }
    for n in 0..10_000u32 {
        let [.., b, c, d] = n.to_be_bytes();
        bench.device.resolve(IpAddr::from([10, 1 + b, c, d]), bench.now);
        assert!(bench.device.neighbours_count() <= capacity);
    }
    for address in &known {
        assert_eq!(bench.device.resolve(ip(address), bench.now), Resolution::Known(THEIRS));
    }
    assert_eq!(bench.device.counters().evicted, 10_000 - 24);
    // The youngest asks are left, and sent no faster than the rate allows.
    let newest = IpAddr::from([10, 1, 39, 15]);
    assert!(bench.device.neighbours().any(|neighbour| neighbour.address == newest));
    for n in 0..24u32 {
        let address = format!("10.1.{}.{}", (9_976 + n) >> 8, (9_976 + n) & 0xff);
        bench.input(&message(REPLY, (OTHER, &address), (OURS, "10.0.0.1")));
    }
    // Full of neighbours that answered: an ask is refused.
    assert_eq!(bench.device.resolve(ip("10.200.0.1"), bench.now), Resolution::Refused(Refusal::Full));
    assert_eq!(bench.device.counters().full, 1);
}

#[test]
fn other_settings_leave_alone_what_stays() {
    let mut bench = Bench::settled(settings(OURS, &["192.0.2.1/24", "198.51.100.1/24"]));
    for address in ["192.0.2.2", "198.51.100.2"] {
        bench.device.resolve(ip(address), bench.now);
        let own = if address.starts_with("192") { "192.0.2.1" } else { "198.51.100.1" };
        bench.input(&message(REPLY, (THEIRS, address), (OURS, own)));
    }
    bench.device.change(settings(OURS, &["192.0.2.1/24", "203.0.113.1/24"]), bench.now).unwrap();
    let changes = bench.device.take_changes();
    assert!(changes.addresses && changes.neighbours);
    let states: Vec<_> = bench.device.addresses().map(|own| (own.prefix.to_string(), own.state)).collect();
    let expected = [("192.0.2.1/24", AddressState::Valid), ("203.0.113.1/24", AddressState::Tentative)];
    assert_eq!(states, expected.map(|(text, state)| (text.to_owned(), state)));
    assert_eq!(bench.device.neighbours().map(|n| n.address).collect::<Vec<_>>(), [ip("192.0.2.2")]);
    // Another link-layer address: all anew, and nothing is known.
    bench.device.change(settings(OTHER, &["192.0.2.1/24"]), bench.now).unwrap();
    assert_eq!(state(&bench), AddressState::Tentative);
    assert_eq!((bench.device.neighbours_count(), bench.device.mac()), (0, OTHER));
    assert!(bench.device.change(settings([1; 6], &[]), bench.now).is_err());
    assert_eq!(bench.device.mac(), OTHER);
}

#[test]
fn settings_that_are_not_allowed_say_why() {
    let with = |addresses: &[&str]| settings(OURS, addresses).check().map_err(|error| error.to_string());
    assert_eq!(
        settings([1; 6], &[]).check().unwrap_err().to_string(),
        "`mac` 01:01:01:01:01:01; allowed: the address of one station, not zero"
    );
    assert_eq!(with(&["192.0.2.0/24"]).unwrap_err(), "192.0.2.0; allowed: the address of one host");
    assert_eq!(with(&["192.0.2.255/24"]).unwrap_err(), "192.0.2.255; allowed: the address of one host");
    assert_eq!(with(&["192.0.2.0/31", "192.0.2.255/32"]), Ok(()));
    assert_eq!(
        with(&["192.0.2.1/33"]).unwrap_err(),
        "192.0.2.1/33: allowed are 1 to 32 bits for IPv4, 1 to 128 for IPv6"
    );
    assert_eq!(with(&["192.0.2.1/24", "192.0.2.1/25"]).unwrap_err(), "192.0.2.1 is there twice");
    assert_eq!(with(&["2001:db8::1/64", "fe80::7/64"]), Ok(()));
    let few = Settings { mtu: 1000, ..settings(OURS, &["2001:db8::1/64"]) };
    assert_eq!(few.check().unwrap_err().to_string(), "`mtu` 1000; allowed with IPv6: at least 1280");
}
