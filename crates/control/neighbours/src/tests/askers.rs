//! Several askers of one device: what one asks for costs no other its neighbours.

use super::arp::{message, messages, v4};
use super::*;
use crate::{Asker, Limits, Refusal, Resolution};
use packet::arp::{REPLY, REQUEST};

const GREEDY: Asker = Asker(1);
const MODEST: Asker = Asker(2);
const THIRD: Asker = Asker(3);

fn network() -> Settings {
    settings(OURS, &["10.0.0.1/8"])
}

/// One of the many addresses that the greedy one asks for.
fn greedy(n: u32) -> IpAddr {
    let [.., b, c, d] = n.to_be_bytes();
    IpAddr::from([10, 100 + b, c, d])
}

fn answer(bench: &mut Bench, address: IpAddr) {
    bench.input(&message(REPLY, (THEIRS, &address.to_string()), (OURS, "10.0.0.1")));
}

#[test]
fn one_that_asks_without_end_keeps_no_other_from_being_answered() {
    let mut bench = Bench::settled(Settings { capacity: 64, ..network() });
    let mut next = 0;
    // 256 addresses each millisecond, as a function can; the other one asks for one address now and then.
    for round in 0..30u8 {
        let wanted = IpAddr::from([10, 1, 0, round]);
        let mut sent_after = None;
        for ms in 0..100 {
            for _ in 0..256 {
                bench.device.resolve_for(GREEDY, greedy(next), bench.now);
                next += 1;
            }
            if ms == 0 {
                assert_eq!(bench.device.resolve_for(MODEST, wanted, bench.now), Resolution::Asked, "{round}");
            }
            let sent = bench.run(Nanos::from_millis(1));
            let asked = messages(sent.iter().map(|(_, frame)| frame));
            if sent_after.is_none() && asked.iter().any(|(_, ask)| IpAddr::V4(ask.target) == wanted) {
                sent_after = Some(ms);
            }
        }
        // Each second question is the other one's, if it has one: 5 ms apart at the rate of a device.
        assert!(sent_after.is_some_and(|ms| ms <= 15), "round {round}: {sent_after:?}");
        answer(&mut bench, wanted);
        assert_eq!(bench.device.resolve_for(MODEST, wanted, bench.now), Resolution::Known(THEIRS));
    }
    let known = [GREEDY, MODEST].map(|asker| bench.device.neighbours_of(asker).count());
    assert_eq!((known, bench.device.neighbours_count()), ([34, 30], 64));
}

#[test]
fn one_whose_neighbours_all_answer_leaves_others_their_part() {
    let mut bench = Bench::settled(Settings { capacity: 64, ..network() });
    for n in 0..64 {
        bench.now = bench.now.saturating_add(Nanos(1));
        bench.device.resolve_for(GREEDY, greedy(n), bench.now);
        answer(&mut bench, greedy(n));
    }
    assert_eq!(
        bench.device.resolve_for(GREEDY, greedy(64), bench.now),
        Resolution::Refused(Refusal::Full),
        "its own that answered do not give way to more of its own"
    );
    for n in 0..32u8 {
        let wanted = IpAddr::from([10, 1, 0, n]);
        assert_eq!(bench.device.resolve_for(MODEST, wanted, bench.now), Resolution::Asked, "{n}");
        answer(&mut bench, wanted);
    }
    let beyond = bench.device.resolve_for(MODEST, ip("10.1.0.32"), bench.now);
    assert_eq!(beyond, Resolution::Refused(Refusal::Full), "it has no more than the other one by right");
    // Those that were asked for least recently have gone.
    let left: Vec<IpAddr> = bench.device.neighbours_of(GREEDY).map(|neighbour| neighbour.address).collect();
    assert_eq!(left, (32..64).map(greedy).collect::<Vec<_>>());
    // A third one gets its part of both.
    for n in 0..20u8 {
        let wanted = IpAddr::from([10, 2, 0, n]);
        assert_eq!(bench.device.resolve_for(THIRD, wanted, bench.now), Resolution::Asked, "{n}");
        answer(&mut bench, wanted);
    }
    let known = [GREEDY, MODEST, THIRD].map(|asker| bench.device.neighbours_of(asker).count());
    assert_eq!(known, [22, 22, 20]);
}

#[test]
fn what_two_need_stays_until_both_have_given_it_up() {
    let mut bench = Bench::settled(Settings { capacity: 16, ..network() });
    let shared = ip("10.1.0.1");
    for asker in [GREEDY, MODEST] {
        bench.device.resolve_for(asker, shared, bench.now);
    }
    answer(&mut bench, shared);
    for n in 0..1_000 {
        bench.now = bench.now.saturating_add(Nanos(1));
        bench.device.resolve_for(GREEDY, greedy(n), bench.now);
        answer(&mut bench, greedy(n));
    }
    // A third one's part is taken from the greedy one, whose oldest is the shared one.
    for n in 0..6u8 {
        bench.device.resolve_for(THIRD, IpAddr::from([10, 2, 0, n]), bench.now);
    }
    let of = |asker| bench.device.neighbours_of(asker).map(|it| it.address).collect::<Vec<_>>();
    assert!(!of(GREEDY).contains(&shared));
    assert_eq!(of(MODEST), [shared]);
    assert!(bench.device.neighbours().any(|it| it.address == shared && it.mac == Some(THEIRS)));
    assert_eq!(bench.device.neighbours_count(), 16);
}

#[test]
fn askers_see_and_are_told_of_their_own_neighbours_alone() {
    let mut bench = Bench::settled(network());
    let (one, both) = (ip("10.1.0.1"), ip("10.1.0.2"));
    bench.device.resolve_for(GREEDY, one, bench.now);
    bench.device.resolve_for(GREEDY, both, bench.now);
    bench.device.take_changed_askers();
    bench.device.resolve_for(MODEST, both, bench.now);
    assert_eq!(bench.device.take_changed_askers(), [MODEST].into(), "it is told of what is known already");
    assert_eq!(bench.device.neighbours_of(MODEST).map(|it| it.address).collect::<Vec<_>>(), [both]);
    bench.run(Nanos(0));
    answer(&mut bench, one);
    assert_eq!(bench.device.take_changed_askers(), [GREEDY].into());
    answer(&mut bench, both);
    assert_eq!(bench.device.take_changed_askers(), [GREEDY, MODEST].into());
    // Both are silent from now on, and forgotten in the end.
    bench.run(Nanos(100 * SECOND.0));
    assert_eq!(bench.device.take_changed_askers(), [GREEDY, MODEST].into());
    assert_eq!(bench.device.neighbours_count(), 0);
}

#[test]
fn asks_without_end_leave_the_device_what_it_has_to_say_itself() {
    let mut bench = Bench::settled(network());
    let claim = message(REQUEST, (OTHER, "10.0.0.1"), (crate::frame::BROADCAST, "10.0.0.1"));
    for n in 0..20_000 {
        bench.device.resolve_for(GREEDY, greedy(n), bench.now);
    }
    let sent = bench.run(Nanos(2 * SECOND.0)).len();
    let limits = Limits::default().sent;
    assert!(sent <= (2 * limits.per_second + limits.burst) as usize + 1, "{sent}");
    assert!(sent >= (2 * limits.per_second) as usize, "{sent}");
    // All that functions may have is used up: the device defends its address all the same.
    let (_, sent) = bench.input(&claim);
    let [(_, announcement)] = messages(&sent)[..] else { panic!("{} frames", sent.len()) };
    assert_eq!((announcement.sender, announcement.target), (v4("10.0.0.1"), v4("10.0.0.1")));
    // And finds its own next hop before theirs.
    bench.device.resolve(ip("10.3.0.1"), bench.now);
    let sent = bench.run(Nanos(0));
    let asked: Vec<_> = messages(sent.iter().map(|(_, f)| f)).iter().map(|(_, ask)| ask.target).collect();
    assert_eq!(asked.first(), Some(&v4("10.3.0.1")));
}
