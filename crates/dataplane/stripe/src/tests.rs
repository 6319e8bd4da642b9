//! Simulated links: what is lost, overtaken, delayed and forged on them.

use super::*;
use proptest::prelude::*;
use telemetry::clock::Nanos;

const US: u64 = 1_000;

/// A frame on a link: when it arrives, its header, and its place in the order in which frames were sent.
#[derive(Clone, Copy, Debug)]
struct Frame {
    at: u64,
    header: Header,
    sent: u64,
}

/// What came out at the other end of links, by the frames' places.
#[derive(Debug, Default)]
struct Arrived {
    /// Given on, each with how long it waited.
    given_on: Vec<(u64, u64)>,
    late: Vec<u64>,
}

/// Sends frames one after the other, each so long after the one before, by links in turn, each with a delay
/// of its own, numbered from `first` on. `fate` says by how much more one is delayed; `None`: it is lost.
fn sent(
    session: Session,
    first: u32,
    gaps: &[u64],
    delays: &[u64],
    fate: impl Fn(usize) -> Option<u64>,
) -> Vec<Frame> {
    let (mut sender, mut now) = (Sender::new(session), 0);
    let mut frames = Vec::new();
    for (n, gap) in gaps.iter().enumerate() {
        now += gap;
        let mut header = sender.header();
        sender.advance();
        header.number = header.number.wrapping_add(first);
        if let Some(more) = fate(n) {
            frames.push(Frame { at: now + delays[n % delays.len()] + more, header, sent: n as u64 });
        }
    }
    frames.sort_by_key(|frame| frame.at);
    frames
}

/// Has a receiver take frames as they arrive, and end waiting when it is due.
fn receive(frames: &[Frame]) -> Arrived {
    let (mut receiver, mut arrived, mut out) = (Receiver::default(), Arrived::default(), Vec::new());
    let mut given_on = |now: u64, out: &mut Vec<(u64, u64)>| {
        arrived.given_on.extend(out.drain(..).map(|(sent, at)| (sent, now - at)));
    };
    for frame in frames {
        while let Some(due) = receiver.deadline().filter(|due| due.0 < frame.at) {
            receiver.expire(due, &mut out);
            given_on(due.0, &mut out);
        }
        let taken = receiver.accept(frame.header, (frame.sent, frame.at), Nanos(frame.at), &mut out);
        arrived.late.extend(taken.err().map(|Late((sent, _))| sent));
        given_on(frame.at, &mut out);
        assert!(receiver.waiting() <= WINDOW, "{} wait", receiver.waiting());
    }
    while let Some(due) = receiver.deadline() {
        receiver.expire(due, &mut out);
        given_on(due.0, &mut out);
    }
    arrived
}

fn delays() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0..4_900 * US, 1..5)
}

proptest! {
    /// Links that lose nothing, and differ by less than what is waited for: everything is there, in order.
    #[test]
    fn what_is_only_delayed_comes_out_whole_and_in_order(
        gaps in prop::collection::vec(40 * US..200 * US, 1..400), delays in delays(), first in any::<u32>(),
    ) {
        let frames = sent(Session(7), 0, &gaps, &delays, |_| Some(0));
        let arrived = receive(&frames);
        prop_assert_eq!(&arrived.late, &[]);
        let order: Vec<u64> = arrived.given_on.iter().map(|(sent, _)| *sent).collect();
        prop_assert_eq!(order, (0..gaps.len() as u64).collect::<Vec<_>>());
        // A receiver that comes later, wherever the numbers are, misses no more than what came before its
        // first.
        let frames = sent(Session(7), first, &gaps, &delays, |_| Some(0));
        let arrived = receive(&frames);
        let order: Vec<u64> = arrived.given_on.iter().map(|(sent, _)| *sent).collect();
        prop_assert!(order.is_sorted());
        prop_assert!(arrived.late.iter().all(|late| *late < frames[0].sent));
        prop_assert_eq!(order.len() + arrived.late.len(), frames.len());
    }

    /// Whatever is lost or delayed: what comes out is in order, nothing waits too long, nothing disappears.
    #[test]
    fn what_is_lost_delays_the_rest_by_no_more_than_the_bound(
        gaps in prop::collection::vec(0..200 * US, 1..600), delays in delays(), first in any::<u32>(),
        fates in prop::collection::vec(prop::option::weighted(0.9, 0..20_000 * US), 1..50),
    ) {
        let frames = sent(Session(7), first, &gaps, &delays, |n| {
            // Most have no delay of their own.
            fates[n % fates.len()].map(|more| if n % 7 == 0 { more } else { 0 })
        });
        let arrived = receive(&frames);
        prop_assert!(arrived.given_on.is_sorted_by_key(|(sent, _)| *sent));
        prop_assert!(arrived.given_on.iter().all(|(_, waited)| *waited <= WAIT.0));
        prop_assert_eq!(arrived.given_on.len() + arrived.late.len(), frames.len());
    }

    /// Each frame twice: each comes out once.
    #[test]
    fn what_comes_twice_is_given_on_once(
        gaps in prop::collection::vec(1..100 * US, 1..300), delays in delays(), again in 0..30_000 * US,
    ) {
        let once = sent(Session(7), 0, &gaps, &delays, |_| Some(0));
        let mut frames = once.clone();
        frames.extend(once.iter().map(|frame| Frame { at: frame.at + again, ..*frame }));
        frames.sort_by_key(|frame| frame.at);
        let arrived = receive(&frames);
        prop_assert!(arrived.given_on.windows(2).all(|two| two[0].0 < two[1].0));
        prop_assert!(arrived.late.len() >= once.len());
    }

    /// Frames from any sender, with any numbers of a few sessions, at any time.
    #[test]
    fn forged_headers_make_nothing_wait_longer_and_nothing_disappear(
        frames in prop::collection::vec((0..2_000 * US, 0u32..3, prop_oneof![any::<u32>(), 0u32..600]), 1..800),
    ) {
        let mut now = 0;
        let frames: Vec<Frame> = frames.into_iter().zip(0..).map(|((gap, session, number), sent)| {
            now += gap;
            Frame { at: now, header: Header { session: Session(session), number }, sent }
        }).collect();
        let arrived = receive(&frames);
        prop_assert!(arrived.given_on.iter().all(|(_, waited)| *waited <= WAIT.0));
        let mut all: Vec<u64> = arrived.given_on.iter().map(|(sent, _)| *sent).chain(arrived.late).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..frames.len() as u64).collect::<Vec<_>>());
    }

    /// A sender that starts anew, while links still bring what it sent before.
    #[test]
    fn a_sender_that_starts_anew_is_followed_at_once_and_loses_nothing(
        before in prop::collection::vec(40 * US..100 * US, 1..200), after in prop::collection::vec(40 * US..100 * US, 1..200),
        delays in delays(),
    ) {
        let mut frames = sent(Session(1), 0, &before, &delays, |_| Some(0));
        let start: u64 = before.iter().sum();
        let count = before.len() as u64;
        let anew = sent(Session(2), 0, &after, &delays, |_| Some(0));
        frames.extend(anew.iter().map(|frame| Frame { at: frame.at + start, sent: frame.sent + count, ..*frame }));
        frames.sort_by_key(|frame| frame.at);
        // A receiver that had nothing of the first session takes it for the newer one.
        prop_assume!(frames[0].sent < count);
        let arrived = receive(&frames);
        prop_assert_eq!(&arrived.late, &[]);
        let anew: Vec<u64> = arrived.given_on.iter().map(|(sent, _)| *sent).filter(|sent| *sent >= count).collect();
        prop_assert_eq!(anew, (count..count + after.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn a_header_is_read_as_it_was_written(
        addresses: [u8; ADDRESSES], session: u32, number: u32, ether_type in 0x0600u16.., rest: Vec<u8>,
    ) {
        let Ok(ether_type) = EtherType::new(ether_type) else { return Ok(()) };
        let header = Header { session: Session(session), number };
        let mut frame = header.put_on(ether_type, &addresses).to_vec();
        frame.extend(rest);
        prop_assert_eq!(Header::take_off(ether_type, &frame), Some((addresses, header)));
        for short in 0..ADDRESSES + HEADER {
            prop_assert_eq!(Header::take_off(ether_type, &frame[..short]), None);
        }
        frame[14] = 2;
        prop_assert_eq!(Header::take_off(ether_type, &frame), None, "another version");
        frame[14] = 1;
        frame[13] ^= 1;
        prop_assert_eq!(Header::take_off(ether_type, &frame), None, "another EtherType");
    }
}

#[test]
fn a_full_window_gives_up_what_is_missing() {
    let frames = sent(Session(7), 0, &[US; 400], &[0], |n| (n != 0).then_some(0));
    let arrived = receive(&frames);
    assert_eq!(arrived.given_on.len(), 399);
    let longest = arrived.given_on.iter().map(|(_, waited)| *waited).max();
    assert_eq!(longest, Some(WINDOW as u64 * US), "the 257th ends the waiting of the first");
}

#[test]
fn numbers_that_jump_back_are_followed_after_a_silence() {
    let frame = |at: u64, number, sent| Frame { at, header: Header { session: Session(7), number }, sent };
    let jump = [
        frame(0, 0, 0),
        frame(10, AHEAD - 1, 1),
        frame(WAIT.0 + 20, 1, 2),
        frame(WAIT.0 + 10 + SILENCE.0 / 2, 2, 3),
        frame(WAIT.0 + 20 + SILENCE.0, 3, 4),
        frame(WAIT.0 + 30 + SILENCE.0, 4, 5),
    ];
    let arrived = receive(&jump);
    assert_eq!(arrived.late, [2, 3]);
    assert_eq!(arrived.given_on.iter().map(|(sent, _)| *sent).collect::<Vec<_>>(), [0, 1, 4, 5]);
}

#[test]
fn numbers_wrap() {
    let frames = sent(Session(7), u32::MAX - 100, &[50 * US; 300], &[0, 3_000 * US, 900 * US], |n| {
        (n != 150).then_some(0)
    });
    let arrived = receive(&frames);
    assert!(arrived.given_on.is_sorted_by_key(|(sent, _)| *sent));
    assert_eq!((arrived.given_on.len(), arrived.late.len()), (299, 0));
}

#[test]
fn tags_and_lengths_are_no_ether_types() {
    let taken =
        [0x8100, 0x88a8, 0x9100, 0x0800, 0x0806, 0x86dd, 0x8847, 0x8848].map(|number| (number, false));
    for (number, is_good) in [(0x0600, true), (0x05ff, false), (0x88b5, true)].into_iter().chain(taken) {
        assert_eq!(EtherType::new(number).is_ok(), is_good, "{number:#x}");
    }
    assert_eq!(EtherType::default().number(), 0x88b5);
    let error = EtherType::new(0x8100).expect_err("a tag").to_string();
    assert_eq!(
        error,
        "found 0x8100; allowed: 0x0600 to 0xffff, except those of VLAN tags, IPv4, ARP, IPv6 and MPLS"
    );
}

#[test]
fn numbers_far_ahead_are_not_followed_however_often_they_come() {
    let mut frames = sent(Session(7), 0, &[US; 1_000], &[0], |_| Some(0));
    let count = frames.len() as u64;
    for far in [AHEAD + 1_000, 1 << 30, (1 << 31) - 1] {
        let forged = (1..20).map(|n| Frame {
            at: n * 50 * US,
            header: Header { session: Session(7), number: far },
            sent: count,
        });
        frames.extend(forged);
    }
    frames.sort_by_key(|frame| frame.at);
    let arrived = receive(&frames);
    assert!(arrived.late.iter().all(|sent| *sent == count));
    assert_eq!(
        arrived.given_on.iter().map(|(sent, _)| *sent).collect::<Vec<_>>(),
        (0..count).collect::<Vec<_>>()
    );
}
