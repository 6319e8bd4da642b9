//! Packets both ways, queues, sleeping and waking, stopping and returning.

use super::front_end::*;
use super::{BUFFERS, Bench, NOW, frame, path, until};
use crate::driver::queue_of;
use crate::features::{CTRL_VQ, EVENT_IDX, INDIRECT_DESC, MQ, MRG_RXBUF, VERSION_1};
use crate::message::{Request, RingState};
use crate::{Role, Settings};
use local_socket::{Kind, Listener, Users};
use port::station::{Around, Identity, StationPort};
use port::{Port, PortEvent};
use std::sync::Arc;
use telemetry::DropReason;

const MODERN: u64 = VERSION_1 | MRG_RXBUF | EVENT_IDX | INDIRECT_DESC;

#[test]
fn frames_come_from_the_guest_in_order_however_they_lie() {
    for (features, header) in [(MODERN, 12), (MRG_RXBUF, 12), (0, 10)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut bench, mut front) = pair(&folder, features, 1);
        let mut all = 0;
        for round in 0..40u8 {
            let frames = [frame(round, 60), frame(round, 1514), frame(round, 900), frame(round, 5000)];
            front.post_frame(1, &vec![0; header], &frames[0], &[]);
            front.post_frame(1, &vec![0; header], &frames[1], &[header]);
            front.post_frame(1, &vec![0; header], &frames[2], &[3, 4, 20, 1]);
            front.post_frame(1, &vec![0; header], &frames[3], &[header + 40, 2000]);
            assert_eq!(bench.take(), frames, "round {round}");
            assert_eq!(front.used(1).len(), 4);
            all += 4;
        }
        let ledger = &bench.port.counters().ledger;
        assert_eq!((ledger.received, ledger.dropped.total()), (all, 0));
        assert!(bench.has_all_buffers());
    }
}

#[test]
fn a_chain_may_lie_in_a_table_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, MODERN, 1);
    for round in 0..10u8 {
        let bytes = [vec![0; 12], frame(round, 700)].concat();
        let (buffer, table) = (front.buffer_at(1, 0), front.tables_at(1));
        front.write(buffer, &bytes);
        let parts = [(0, 12, NEXT, 2), (0, 0, 0, 0), (12, 500, NEXT, 3), (512, 200, 0, 0)];
        for (n, (at, length, flags, next)) in parts.into_iter().enumerate() {
            let bytes = FrontEnd::descriptor(GUEST + buffer + at, length, flags, next);
            front.write(table + n as u64 * 16, &bytes);
        }
        front.post(1, &[(GUEST + table, 64, INDIRECT)]);
        assert_eq!(bench.take(), [frame(round, 700)]);
    }
}

#[test]
fn frames_go_to_the_guest_and_long_ones_lie_in_several_buffers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, MODERN, 1);
    for round in 0..40u8 {
        front.post_empty(0, 12, BUFFER as u32);
        let frames = vec![frame(round, 60), frame(round, 2036), frame(round, 2037), frame(round, 9000)];
        bench.send(&frames);
        let came = front.frames(0);
        let (headers, bytes): (Vec<_>, Vec<_>) = came.into_iter().unzip();
        assert_eq!(bytes, frames, "round {round}");
        let counts: Vec<u8> = headers.iter().map(|header| header[10]).collect();
        assert_eq!(counts, [1, 1, 2, 5]);
        // What was not needed is needed by the next round.
        front.post_empty(0, 0, 0);
        bench.send(&vec![frame(1, 60); 3]);
        assert_eq!(front.frames(0).len(), 3);
    }
    bench.send(&[frame(1, 60)]);
    assert_eq!(bench.lost(DropReason::PortFull), 1, "there is no buffer left");
    assert!(bench.has_all_buffers());
}

#[test]
fn senders_are_told_how_much_room_the_guest_has_left() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut alone = Bench::new(Settings::new(Role::Server, &path(&other)));
    assert!(!alone.is_up() && alone.port.room() == usize::MAX, "nothing is waited for without a guest");
    let (mut bench, mut front) = pair(&folder, MODERN, 1);
    assert_eq!(bench.port.capacity(), Some(256));
    // A ring of 64 is as full as one of 256 would be.
    front.post_empty(0, SIZE, 2048);
    assert_eq!(bench.port.room(), 256);
    bench.send(&vec![frame(1, 60); 40]);
    assert_eq!(bench.port.room(), 96, "24 of 64 are left");
    assert_eq!(front.frames(0).len(), 40);
    assert_eq!(bench.port.room(), 96, "it has not offered them again");
    front.post_empty(0, 20, 2048);
    assert_eq!(bench.port.room(), 176);
    bench.send(&vec![frame(1, 60); 44]);
    assert_eq!((bench.port.room(), bench.lost(DropReason::PortFull)), (0, 0));
    // Impossible counts are not waited for: the next packet ends the connection.
    front.write(front.available_at(0) + 2, &0xffffu16.to_le_bytes());
    assert_eq!(bench.port.room(), usize::MAX);
}

#[test]
fn without_merging_a_frame_has_to_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, 0, 1);
    front.post_empty(0, 3, 1524);
    bench.send(&[frame(1, 1514), frame(2, 1515), frame(3, 60)]);
    let came = front.frames(0);
    assert_eq!(came, [(vec![0; 10], frame(1, 1514)), (vec![0; 10], frame(3, 60))]);
    assert_eq!(bench.lost(DropReason::TooLong), 1);
}

#[test]
fn each_side_is_woken_when_it_asks_for_it_and_not_otherwise() {
    for features in [MODERN, VERSION_1] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut bench, mut front) = pair(&folder, features, 1);
        front.used(0);
        front.used(1);
        for round in 0..5 {
            bench.sleeps();
            front.post_frame(1, &[0; 12], &frame(round, 60), &[]);
            if features & EVENT_IDX == 0 {
                assert_eq!(front.half(front.used_at(1)), 0, "it wants to be woken");
            } else {
                let event = front.half(front.used_at(1) + 4 + u64::from(SIZE) * 8);
                assert_eq!(event, u16::from(round), "it wants to be woken at the next");
            }
            front.kick(1);
            assert!(bench.wakes_within(30));
            assert_eq!(bench.take().len(), 1);
            assert_eq!(front.half(front.used_at(1)), 1, "it polls");
            assert!(front.is_called(1), "the guest learns that its buffer is free");
            front.used(1);
            front.post_empty(0, 1, 1600);
            bench.send(&[frame(round, 60)]);
            assert!(front.is_called(0));
            assert_eq!(front.frames(0).len(), 1);
        }
        // A guest that polls says so.
        if features & EVENT_IDX == 0 {
            front.write(front.available_at(0), &1u16.to_le_bytes());
        } else {
            let far = front.half(front.used_at(0) + 2).wrapping_sub(100);
            front.write(front.available_at(0) + 4 + u64::from(SIZE) * 2, &far.to_le_bytes());
        }
        front.post_empty(0, 1, 1600);
        bench.send(&[frame(1, 60)]);
        // The attendant has done all that it was asked for when it has answered this.
        front.number(Request::GetFeatures);
        assert!(!front.called(0));
    }
}

#[test]
fn a_ring_that_is_made_anew_while_the_worker_sleeps_wakes_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, VERSION_1, 1);
    bench.sleeps();
    front.share();
    assert!(bench.wakes_within(30));
    bench.sleeps();
    assert_eq!(front.half(front.used_at(1)), 0, "it wants to be woken again");
    front.post_frame(1, &[0; 12], &frame(1, 60), &[]);
    front.kick(1);
    assert!(bench.wakes_within(30));
    assert_eq!(bench.take(), [frame(1, 60)]);
}

/// A hash of a flow that goes by this one of three pairs.
fn by_pair(pair: usize) -> u32 {
    u32::MAX / 3 * pair as u32 + 7
}

#[test]
fn a_flow_keeps_its_pair_and_others_pass_where_one_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, MODERN | MQ | CTRL_VQ, 3);
    assert!((0..3).all(|n| queue_of(by_pair(n), 3) == n) && bench.port.reads_flow_hash());
    (0..3).for_each(|n| front.post_empty(2 * n, 4, 2048));
    let frames: Vec<_> = (0..10).map(|n| frame(n, 60)).collect();
    let pair_of = |n: usize| if n < 6 { 1 } else { n % 3 };
    bench.send_as(&frames, |n, record| record.flow_hash = by_pair(pair_of(n)));
    assert_eq!(bench.lost(DropReason::PortFull), 3, "seven for the second, which has room for four");
    for pair in 0..3 {
        let sent: Vec<u8> = (0..10).filter(|n| pair_of(*n) == pair).map(|n| n as u8).take(4).collect();
        let came: Vec<u8> = front.frames(2 * pair).iter().map(|(_, bytes)| bytes[0]).collect();
        assert_eq!(came, sent);
    }
    // Each ring has its part of what is taken at once, wherever the turn is.
    for n in 0..20 {
        front.post_frame(3, &[0; 12], &frame(n, 60), &[]);
    }
    front.post_frame(1, &[0; 12], &frame(100, 60), &[]);
    front.post_frame(5, &[0; 12], &frame(101, 60), &[]);
    let first: Vec<u8> = bench.take_packets(12).iter().map(|(_, bytes)| bytes[0]).collect();
    assert!(first.contains(&100) && first.contains(&101) && first.len() >= 6, "{first:?}");
    let mut rest = first.clone();
    until("all came", || {
        rest.extend(bench.take_packets(12).iter().map(|(_, bytes)| bytes[0]));
        rest.len() == 22
    });
    rest.retain(|n| *n < 100);
    assert_eq!(rest, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_ring_is_not_touched_after_it_was_stopped_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, MODERN, 1);
    for n in 0..3 {
        front.post_frame(1, &[0; 12], &frame(n, 60), &[]);
    }
    assert_eq!(bench.take().len(), 3);
    assert_eq!(front.used(1).len(), 3);
    assert_eq!(front.stop_ring(1), 3);
    front.post_frame(1, &[0; 12], &frame(7, 60), &[]);
    assert!(bench.take().is_empty());
    // Other memory in between, and the other ring runs on.
    front.share();
    front.post_empty(0, 1, 2048);
    bench.send(&[frame(1, 60)]);
    assert_eq!(front.frames(0).len(), 1);
    front.start_ring(1);
    assert_eq!(bench.take(), [frame(7, 60)]);
    for index in [0, 1] {
        front.done(Request::SetVringEnable(RingState { index, number: 0 }), &[]);
    }
    until("it is down", || !bench.is_up());
    assert!(bench.reason().contains("its guest has not started the device"));
    bench.send(&[frame(1, 60)]);
    assert_eq!(bench.lost(DropReason::PortDown), 1);
}

#[test]
fn each_side_is_taken_up_again_when_it_returns() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, MODERN, 1);
    for round in 0..2 {
        drop(front);
        until("it is down", || !bench.is_up());
        assert!(bench.reason().contains("the last one: closed its socket"), "{}", bench.reason());
        front = FrontEnd::connect(&Settings::new(Role::Server, &path(&folder)));
        front.start(MODERN, 1);
        until("it is up", || bench.is_up());
        front.post_frame(1, &[0; 12], &frame(round, 60), &[]);
        assert_eq!(bench.take(), [frame(round, 60)]);
    }
    let came_up = bench.events.iter().filter(|event| matches!(event, PortEvent::CameUp(_))).count();
    assert_eq!(came_up, 3, "{:?}", bench.events);
    assert!(front.number(Request::GetQueueNum) == 1);
    assert_eq!(bench.port.details(), [("peers", 3), ("peers_refused", 0)]);
    assert!(
        bench
            .events
            .contains(&PortEvent::CameUp("a front end is connected; rings: 0 to it, 1 from it".into()))
            || bench
                .events
                .contains(&PortEvent::CameUp("a front end is connected; rings: 1 to it, 0 from it".into()))
            || bench
                .events
                .contains(&PortEvent::CameUp("a front end is connected; rings: 1 to it, 1 from it".into()))
    );
    drop(bench);
    assert!(!std::path::Path::new(&path(&folder)).exists(), "it is removed with its port");

    // The other way round: the front end makes the socket.
    let mut bench = Bench::new(Settings::new(Role::Client, &path(&folder)));
    for round in 0..2 {
        let listener = Listener::bind_as(Kind::Stream, &path(&folder), Users::own()).expect("bound");
        let mut front = FrontEnd::accept(&listener);
        front.start(MODERN, 1);
        until("it is up", || bench.is_up());
        front.post_frame(1, &[0; 12], &frame(round, 60), &[]);
        assert_eq!(bench.take(), [frame(round, 60)]);
        drop((front, listener));
        until("it is down", || !bench.is_up());
    }
}

#[test]
fn a_front_end_of_another_user_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        Settings { users: Users::One(4_000_000_000), ..Settings::new(Role::Server, &path(&folder)) };
    let mut bench = Bench::new(settings.clone());
    let _front = FrontEnd::connect(&settings);
    until("it is refused", || bench.reason().contains("allowed: user 4000000000"));
    assert_eq!(bench.port.details()[1], ("peers_refused", 1));
}

/// A device with addresses over this port is a station for which the guest is the neighbour.
#[test]
fn a_station_has_the_guest_for_a_neighbour() {
    let folder = tempfile::tempdir().expect("a folder");
    let (Bench { pool, port, .. }, mut front) = pair(&folder, MODERN, 1);
    let mut port = StationPort::new(Box::new(port)).expect("descriptors");
    let identity = Identity {
        mac: [2, 0, 0, 0, 0, 9],
        dhcp: false,
        is_shared: false,
        addresses: Arc::default(),
        awaited: Arc::default(),
        around: Around::Nothing,
    };
    let mut link = port.stations().expect("room").attach(identity, || ());
    port.maintain(NOW);
    let mut question = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 6][..], &[0; 46]].concat();
    let other = frame(1, 60);
    front.post_frame(1, &[0; 12], &question, &[]);
    front.post_frame(1, &[0; 12], &other, &[]);
    let mut out = Vec::new();
    port.receive(&pool, NOW, 64, &mut out);
    let passed: Vec<Vec<u8>> = out.iter().map(|packet| pool.to_vec(packet)).collect();
    pool.free_batch(out);
    assert_eq!((link.next_frame(), passed), (Some(question.clone()), vec![other]));
    question[..12].rotate_left(6);
    front.post_empty(0, 4, BUFFER as u32);
    assert!(link.send(question.clone()));
    let mut sent = Vec::new();
    until("the answer is the guest's", || {
        port.receive(&pool, NOW, 64, &mut Vec::new());
        sent.extend(front.frames(0).into_iter().map(|(_, bytes)| bytes));
        !sent.is_empty()
    });
    assert_eq!(sent, [question]);
    assert!(link.is_up());
    drop(front);
    until("it is told that the guest is gone", || {
        port.maintain(NOW);
        port.receive(&pool, NOW, 64, &mut Vec::new());
        !link.is_up()
    });
    assert_eq!(pool.available(), BUFFERS as usize);
}
