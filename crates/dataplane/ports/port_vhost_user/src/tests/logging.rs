//! What is written is noted in the log, page by page, and what is copied by the log is all that was written.

use super::front_end::*;
use super::{frame, until};
use crate::dirty::DirtyLog;
use crate::features::{EVENT_IDX, LOG_ALL, MRG_RXBUF, VERSION_1};
use crate::guest_memory::Mapping;
use crate::message::Request;
use rustix::fs::MemfdFlags;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Has everything noted that is written from now on.
fn switch_on(front: &mut FrontEnd) {
    front.features |= LOG_ALL;
    for index in [0, 1] {
        front.done(Request::SetVringAddr(front.addresses(index)), &[]);
    }
    front.done(Request::SetFeatures(front.features), &[]);
}

#[test]
fn writes_are_noted_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bench, mut front) = pair(&folder, VERSION_1 | MRG_RXBUF, 1);
    let log = memory_file(MemfdFlags::CLOEXEC, 64 << 10);
    assert_eq!(
        front.ask(Request::SetLogBase { size: 60 << 10, offset: 4096 }, &[log.as_fd()]),
        Some(Vec::new())
    );
    let noted = |from: u64| -> BTreeSet<u64> {
        let mut bytes = vec![0; 60 << 10];
        log.read_exact_at(&mut bytes, 4096).expect("within the log");
        log.write_all_at(&vec![0; 60 << 10], 4096).expect("within the log");
        let is_set = |page: &u64| bytes[(page / 8) as usize] >> (page % 8) & 1 == 1;
        (0..8 * (60 << 10)).filter(is_set).map(|page| page * 4096 - from).collect()
    };
    front.post_empty(0, 8, BUFFER as u32);
    bench.send(&[frame(1, 60)]);
    assert!(noted(0).is_empty(), "it is not switched on");
    let used = front.used_at(0);
    switch_on(&mut front);
    noted(0);
    // Into the second, third and fourth buffer, which lie in two pages.
    bench.send(&[frame(1, 60), frame(2, 3000)]);
    let page = |at: u64| at / 4096 * 4096;
    let buffers: Vec<u64> = (1..4).map(|n| page(front.buffer_at(0, n))).collect();
    let expected: BTreeSet<u64> = buffers.into_iter().chain([page(used)]).collect();
    assert_eq!(noted(GUEST), expected);
    // A frame of the guest's is read, and its ring written.
    front.post_frame(1, &[0; 12], &frame(1, 60), &[]);
    assert_eq!(bench.take().len(), 1);
    assert_eq!(noted(GUEST), BTreeSet::from([page(front.used_at(1))]));
    front.done(Request::SetFeatures(front.features & !LOG_ALL), &[]);
    bench.send(&[frame(1, 60)]);
    assert!(noted(0).is_empty(), "it is switched off");
}

/// Bytes of the log, and of a page.
const LOG: u64 = 60 << 10;
const PAGE: usize = 4096;

/// Memory as it arrives elsewhere: whole at first, and then what the log names, again and again.
fn arrives(memory: &std::fs::File, log: &Mapping, stops: &AtomicBool) -> Vec<u8> {
    let mut there = vec![0; MEMORY as usize];
    memory.read_exact_at(&mut there, 0).expect("within the memory");
    let first = (GUEST / PAGE as u64 / 8) as usize;
    loop {
        let is_last = stops.load(Acquire);
        for at in 0..there.len() / PAGE / 8 {
            let pages = log.byte(first + at).swap(0, AcqRel);
            for page in (0..8).filter(|page| pages >> page & 1 == 1).map(|page| (at * 8 + page) * PAGE) {
                let page = page..page + PAGE;
                memory.read_exact_at(&mut there[page.clone()], page.start as u64).expect("within the memory");
            }
        }
        if is_last {
            return there;
        }
        std::thread::yield_now();
    }
}

/// Has the memory arrive at the end, also of a test that fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

/// A guest is moved while packets pass both ways, the port falls asleep and is woken, and rings stop and go
/// on. Its buffers begin anywhere, also at the end of a page or of a region.
#[test]
fn what_is_copied_by_the_log_alone_is_the_guests_memory() {
    for features in [VERSION_1 | MRG_RXBUF | EVENT_IDX, VERSION_1 | MRG_RXBUF] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut bench, mut front) = pair(&folder, features, 1);
        let log = memory_file(MemfdFlags::CLOEXEC, LOG);
        let base = Request::SetLogBase { size: LOG, offset: 0 };
        assert_eq!(front.ask(base, &[log.as_fd()]), Some(Vec::new()));
        front.own =
            Some(DirtyLog::map(&log.try_clone().expect("a file").into(), 0, LOG, LOG).expect("mapped"));
        switch_on(&mut front);
        let (mover, stops) = (Mapping::new(&log, 0, LOG).expect("mapped"), AtomicBool::new(false));
        let memory = front.memory.try_clone().expect("a file");
        let there = std::thread::scope(|scope| {
            let there = scope.spawn(|| arrives(&memory, &mover, &stops));
            let stop = Stops(&stops);
            let mut taken = 0;
            for round in 0..300u64 {
                // Buffers that no other round has used, from within a page over its end; the last ones over
                // the border between the regions.
                for n in 0..4 {
                    let at = (1 << 20) + (round * 4 + n) % 128 * 8192 + (round * 977 + n * 1361) % 4096;
                    front.post(0, &[(GUEST + at, 7000, WRITE)]);
                }
                let byte = round as u8;
                bench.send(&[frame(byte, 60), frame(byte, 6000), frame(byte, 9000)]);
                assert_eq!(front.used(0).len(), 4, "round {round}");
                if round % 7 == 3 {
                    bench.sleeps();
                    front.kick(1);
                }
                front.post_frame(1, &[0; 12], &frame(byte, 1514), &[12]);
                front.post_frame(1, &[0; 12], &frame(byte, 60), &[]);
                until("the guest's frames are taken", || {
                    taken += bench.take().len() as u64;
                    taken >= 2 * (round + 1)
                });
                front.used(1);
                if round % 50 == 49 {
                    for index in [0, 1] {
                        front.stop_ring(index);
                        front.start_ring(index);
                    }
                    until("it is up again", || bench.is_up());
                }
            }
            // A guest that is moved stands still for the last pages.
            for index in [0, 1] {
                front.stop_ring(index);
            }
            drop(stop);
            there.join().expect("it does not panic")
        });
        let here = front.read(0, MEMORY as usize);
        let differs = |page: &usize| here[page * PAGE..][..PAGE] != there[page * PAGE..][..PAGE];
        let missing: Vec<usize> = (0..here.len() / PAGE).filter(differs).collect();
        assert_eq!(missing, [0; 0], "pages that were written and not noted");
        assert!(bench.has_all_buffers());
    }
}
