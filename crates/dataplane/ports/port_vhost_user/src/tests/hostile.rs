//! A guest that writes anything into what it shares, and a front end that takes it away.

use super::front_end::*;
use super::{Bench, frame, path, until};
use crate::features::{EVENT_IDX, INDIRECT_DESC, MRG_RXBUF, VERSION_1};
use crate::message::{Region, Request};
use crate::{Role, Settings};
use port::Port;
use proptest::prelude::*;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use telemetry::DropReason;

const MODERN: u64 = VERSION_1 | MRG_RXBUF | EVENT_IDX | INDIRECT_DESC;

/// Both ways once, whatever comes of it.
fn move_packets(bench: &mut Bench) {
    bench.send(&[frame(1, 60), frame(2, 4000)]);
    bench.take();
    bench.wakes_within(0);
    bench.is_up();
}

#[test]
fn garbage_in_each_shared_word_harms_the_guest_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings::new(Role::Server, &path(&folder));
    let mut bench = Bench::new(settings.clone());
    let mut front = None;
    for index in [0usize, 1] {
        let start = index as u64 * 0x1_0000;
        // The first descriptors, and all of the counts and flags, with the first and last entries.
        let last = u64::from(SIZE);
        let table = (0..64).map(|n| n * 2);
        let available = (0..8).chain([1 + last, 2 + last, 3 + last]).map(|n| 0x1000 + n * 2);
        let used = (0..12).chain([4 * last + 2, 4 * last + 3]).map(|n| 0x2000 + n * 2);
        for at in table.chain(available).chain(used) {
            for value in [0u16, 1, 63, 64, 0x7fff, 0xffff] {
                if front.is_none() || !bench.is_up() {
                    drop(front.take());
                    until("the one before is gone", || !bench.is_up());
                    let mut new = FrontEnd::connect(&settings);
                    new.start(MODERN, 1);
                    front = Some(new);
                    until("it is up", || bench.is_up());
                }
                let front = front.as_mut().expect("just made");
                front.post_empty(0, 4, 2048);
                front.post_frame(1, &[0; 12], &frame(1, 60), &[12, 8]);
                front.write(start + at, &value.to_le_bytes());
                for _ in 0..3 {
                    move_packets(&mut bench);
                }
                assert!(bench.has_all_buffers(), "ring {index}, byte {at:#x}, {value:#x}");
            }
        }
    }
    let ledger = &bench.port.counters().ledger;
    assert!(ledger.dropped.total() > 0 && ledger.received > 0);
}

#[test]
fn chains_that_cannot_be_lose_their_packet_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, MODERN, 1);
    let buffer = GUEST + front.buffer_at(1, 0);
    let table = front.tables_at(1);
    let own = |front: &FrontEnd, flags: u16| {
        let bytes = FrontEnd::descriptor(GUEST + table, 16, flags, 0);
        front.write(table, &bytes);
    };
    let end = GUEST + MEMORY;
    let wrong: Vec<Vec<(u64, u32, u16)>> = vec![
        vec![(buffer, 72, WRITE)],
        vec![(0, 72, 0)],
        vec![(end - 71, 72, 0)],
        vec![(u64::MAX - 10, 72, 0)],
        vec![(buffer, 72, 0), (end, 1, 0)],
        vec![(buffer, 25, 0)],
        vec![(buffer, 0, 0)],
        vec![(buffer, u32::MAX, 0)],
        vec![(buffer, 72, 0), (buffer, u32::MAX, 0)],
        vec![(GUEST + table, 15, INDIRECT)],
        vec![(GUEST + table, 0, INDIRECT)],
        vec![(end - 8, 16, INDIRECT)],
        vec![(GUEST + table, 16, INDIRECT)],
    ];
    for (n, parts) in wrong.iter().enumerate() {
        // A table that names itself.
        own(&front, INDIRECT);
        front.post(1, parts);
        front.post_frame(1, &[0; 12], &frame(n as u8, 60), &[]);
        assert_eq!(bench.take(), [frame(n as u8, 60)], "{parts:x?}");
        assert_eq!(front.used(1).len(), 2);
        assert_eq!(bench.port.counters().ledger.dropped.total(), n as u64 + 1, "{parts:x?}");
    }
    // A loop: the only entry of a table is followed by itself.
    own(&front, NEXT);
    front.post(1, &[(GUEST + table, 16, INDIRECT)]);
    assert!(bench.take().is_empty());
    // A chain that goes on outside of its table.
    front.write(table, &FrontEnd::descriptor(buffer, 72, NEXT, 1));
    front.post(1, &[(GUEST + table, 16, INDIRECT)]);
    assert!(bench.take().is_empty());
    let count = wrong.len() as u64 + 2;
    assert_eq!(bench.lost(DropReason::Malformed) + bench.lost(DropReason::TooLong), count);
    assert!(bench.is_up() && bench.has_all_buffers());
    // A buffer that goes over from one region to the next one is whole.
    let middle = MEMORY / 2;
    front.write(middle - 30, &[vec![0; 12], frame(9, 60)].concat());
    front.post(1, &[(GUEST + middle - 30, 72, 0)]);
    assert_eq!(bench.take(), [frame(9, 60)]);
}

#[test]
fn a_count_or_a_number_that_cannot_be_ends_the_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings::new(Role::Server, &path(&folder));
    let mut bench = Bench::new(settings.clone());
    let spoil: [&dyn Fn(&mut FrontEnd); 5] = [
        &|front| front.write(front.available_at(1) + 2, &65u16.to_le_bytes()),
        &|front| front.offer(1, SIZE),
        &|front| front.write(front.available_at(0) + 2, &0xffffu16.to_le_bytes()),
        &|front| front.offer(0, 0xffff),
        // A buffer that there is not, for a packet.
        &|front| {
            front.post(0, &[(0, 2048, WRITE)]);
        },
    ];
    for (n, spoil) in spoil.iter().enumerate() {
        let mut front = FrontEnd::connect(&settings);
        front.start(MODERN, 1);
        until("it is up", || bench.is_up());
        spoil(&mut front);
        until("it is cut off", || {
            move_packets(&mut bench);
            !bench.is_up()
        });
        until("it says why", || bench.reason().contains("was cut off: its rings or its memory"));
        assert!(bench.has_all_buffers(), "{n}");
    }
}

/// Ends a mapping's memory in three ways. DPDK's files are not sealed, and no seal keeps huge pages.
#[test]
fn memory_that_is_taken_away_ends_the_connection_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings::new(Role::Server, &path(&folder));
    let mut bench = Bench::new(settings.clone());
    for (round, cut_to) in [(0, 0), (1, MEMORY / 2), (2, 4096)] {
        let mut front = FrontEnd::connect(&settings);
        front.start(MODERN, 1);
        until("it is up", || bench.is_up());
        front.post_empty(0, 4, 2048);
        front.post_frame(1, &[0; 12], &frame(1, 60), &[]);
        ftruncate(&front.memory, cut_to).expect("it is not sealed");
        until("it is noticed", || {
            move_packets(&mut bench);
            !bench.is_up()
        });
        assert!(bench.has_all_buffers(), "round {round}");
    }
    // Pages that are given back are made again, empty.
    let mut front = FrontEnd::connect(&settings);
    front.start(MODERN, 1);
    until("it is up", || bench.is_up());
    front.post_frame(1, &[0; 12], &frame(1, 60), &[]);
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&front.memory, mode, 0, MEMORY).expect("a hole");
    move_packets(&mut bench);
    assert!(bench.has_all_buffers());
}

/// A file of huge pages that is cut while it is used; skipped where there is none free.
#[test]
fn huge_pages_that_are_taken_away_are_survived() {
    let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let file = memory_file(flags, MEMORY);
    if fallocate(&file, FallocateFlags::empty(), 0, MEMORY).is_err() {
        eprintln!("skipped: there are not two huge pages free");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings::new(Role::Server, &path(&folder));
    let mut bench = Bench::new(settings.clone());
    let mut front = FrontEnd::connect(&settings);
    // Huge pages are not written to by calls: rings of zeros are all that there is.
    front.agree(VERSION_1);
    let region = Region { guest: GUEST, size: MEMORY, user: USER, offset: 0 };
    front.done(Request::SetMemTable(vec![region]), &[file.as_fd()]);
    front.start_rings(1);
    until("it is up", || bench.is_up());
    move_packets(&mut bench);
    assert!(bench.is_up());
    ftruncate(&file, 0).expect("it is not sealed");
    until("it is noticed", || {
        move_packets(&mut bench);
        !bench.is_up()
    });
    assert!(bench.has_all_buffers());
}

#[test]
fn a_front_end_that_never_stops_talking_is_read_no_faster_than_it_may_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, MODERN, 1);
    // More than are read in a second: packets pass all the same.
    for _ in 0..1500 {
        front.send(Request::SetOwner, &[]);
    }
    front.post_frame(1, &[0; 12], &frame(1, 60), &[]);
    assert_eq!(bench.take(), [frame(1, 60)]);
    front.number(Request::GetFeatures);
    assert!(bench.is_up());
}

#[test]
fn a_front_end_that_connects_again_and_again_is_read_no_faster_either() {
    let begin = Instant::now();
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings::new(Role::Server, &path(&folder));
    let _bench = Bench::new(settings.clone());
    for _ in 0..3 {
        let mut front = FrontEnd::connect(&settings);
        for _ in 0..400 {
            front.send(Request::SetOwner, &[]);
        }
        // What is answered was read, and all before it.
        front.number(Request::GetFeatures);
    }
    // However fast this machine is: 1,000 were read in the first second, and no more.
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any bytes in the first descriptors, the ring and the first table, both ways.
    #[test]
    fn any_rings_are_survived(
        bytes in proptest::collection::vec(any::<u8>(), 256),
        small in proptest::collection::vec(0u64..6, 48),
        ring in 0usize..2,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut bench, front) = pair(&folder, MODERN, 1);
        let start = ring as u64 * 0x1_0000;
        front.write(start, &bytes[..128]);
        front.write(front.tables_at(ring), &bytes[128..]);
        // Some that are nearly right.
        for (n, some) in small.chunks(4).enumerate() {
            let guest = GUEST + some[0] * 0x8_0000 + some[1];
            let descriptor = FrontEnd::descriptor(guest, (some[1] * 700) as u32, some[2] as u16, some[3] as u16);
            let place = if n % 2 == 0 { start } else { front.tables_at(ring) };
            front.write(place + n as u64 * 16, &descriptor);
            front.write(front.available_at(ring) + 4 + n as u64 * 2, &(some[3] as u16).to_le_bytes());
        }
        front.write(front.available_at(ring) + 2, &12u16.to_le_bytes());
        for _ in 0..4 {
            move_packets(&mut bench);
        }
        prop_assert!(bench.has_all_buffers());
    }
}
