//! What is written is noted in the log, page by page.

use super::frame;
use super::front_end::*;
use crate::features::{LOG_ALL, MRG_RXBUF, VERSION_1};
use crate::message::{Request, RingAddresses};
use rustix::fs::MemfdFlags;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

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
    for index in [0, 1] {
        let addresses = front.addresses(index);
        let logged = RingAddresses { flags: 1, log: GUEST + front.used_at(index), ..addresses };
        front.done(Request::SetVringAddr(logged), &[]);
    }
    front.done(Request::SetFeatures(front.features | LOG_ALL), &[]);
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
    front.done(Request::SetFeatures(front.features), &[]);
    bench.send(&[frame(1, 60)]);
    assert!(noted(0).is_empty(), "it is switched off");
}
