//! Messages: what is read is what was written, and what is none is refused with the reason.

use super::front_end::*;
use super::{Bench, path, until};
use crate::message::*;
use crate::{Role, Settings};
use port::Port;
use proptest::prelude::*;
use rustix::fs::MemfdFlags;
use std::os::fd::AsFd;

fn read(bytes: &[u8]) -> Result<Message, MessageError> {
    let (header, payload) = bytes.split_first_chunk().expect("a header");
    let header = Header::from_bytes(header)?;
    assert_eq!(header.payload(), payload.len());
    Message::from_payload(header, payload)
}

proptest! {
    #[test]
    fn what_is_read_is_written_as_the_same(
        request in 0u32..24, flags in 0u32..16, payload in proptest::collection::vec(0u8..8, 0..PAYLOAD_MAX),
    ) {
        let mut bytes = Vec::new();
        for number in [request, flags, payload.len() as u32] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        bytes.extend_from_slice(&payload);
        if let Ok(message) = read(&bytes) {
            prop_assert_eq!(read(&message.to_bytes()), Ok(message));
        }
    }
}

#[test]
fn each_request_has_its_number_and_its_fields() {
    let state = RingState { index: 3, number: 256 };
    let file = RingFile { index: 3, none: true };
    let region = Region { guest: 1, size: 2, user: 3, offset: 4 };
    let addresses = RingAddresses { index: 1, flags: 1, descriptors: 2, used: 3, available: 4, log: 5 };
    let all = [
        (1, Request::GetFeatures),
        (2, Request::SetFeatures(7)),
        (3, Request::SetOwner),
        (4, Request::ResetOwner),
        (5, Request::SetMemTable(vec![region; 8])),
        (6, Request::SetLogBase { size: 1, offset: 2 }),
        (7, Request::SetLogFd),
        (8, Request::SetVringNum(state)),
        (9, Request::SetVringAddr(addresses)),
        (10, Request::SetVringBase(state)),
        (11, Request::GetVringBase(state)),
        (12, Request::SetVringKick(file)),
        (13, Request::SetVringCall(file)),
        (14, Request::SetVringErr(file)),
        (15, Request::GetProtocolFeatures),
        (16, Request::SetProtocolFeatures(1)),
        (17, Request::GetQueueNum),
        (18, Request::SetVringEnable(state)),
    ];
    for (number, request) in all {
        let message = Message { request, need_reply: number % 2 == 0 };
        let bytes = message.to_bytes();
        assert_eq!(bytes[..4], u32::to_ne_bytes(number));
        assert_eq!(read(&bytes), Ok(message));
    }
    let refused = |request: u32, flags: u32, length: usize| {
        let mut bytes = Vec::new();
        for number in [request, flags, length as u32] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        bytes.resize(HEADER + length, 0);
        read(&bytes).expect_err("refused").to_string()
    };
    assert_eq!(refused(1, 2, 0), "found: a message with flags 0x2; allowed: version 1, and bit 3");
    assert_eq!(refused(1, 5, 0), "found: a message with flags 0x5; allowed: version 1, and bit 3");
    assert_eq!(refused(33, 1, 0), "found: request 33; allowed: 1 to 18");
    assert_eq!(refused(2, 1, 4), "request 2: found: a payload of 4 bytes; allowed: 8");
    assert_eq!(refused(5, 1, 8), "SET_MEM_TABLE: found: 0 regions; allowed: 1 to 8");
    assert!(refused(2, 1, PAYLOAD_MAX + 1).contains("allowed: 264"));
}

/// What a front end says that is refused, and why.
#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings { memory: 4 << 20, ..Settings::new(Role::Server, &path(&folder)) };
    let mut bench = Bench::new(settings.clone());
    let mut count = 0;
    let mut told = |expected: &str, say: &dyn Fn(&mut FrontEnd)| {
        let mut front = FrontEnd::connect(&settings);
        front.agree(crate::features::VERSION_1);
        say(&mut front);
        until(expected, || bench.reason().contains(expected));
        count += 1;
        assert_eq!(bench.port.details()[1], ("peers_refused", count));
    };
    let ring = |number| RingState { index: 0, number };
    let region = |guest, size, offset| Region { guest, size, user: USER, offset };
    told("found: bits 0x2000000 beside", &|front| front.send(Request::SetFeatures(1 << 25), &[]));
    told("found: bits 0x20 beside", &|front| front.send(Request::SetProtocolFeatures(1 << 5), &[]));
    told("found: ring 2; allowed: 0 to 1", &|front| {
        front.send(Request::SetVringEnable(RingState { index: 2, number: 1 }), &[]);
    });
    told("found: a ring of 3 descriptors", &|front| front.send(Request::SetVringNum(ring(3)), &[]));
    told("found: a ring of 65536 descriptors", &|front| front.send(Request::SetVringNum(ring(65_536)), &[]));
    told("found: 65536; allowed: 0 to 65535", &|front| front.send(Request::SetVringBase(ring(65_536)), &[]));
    told("found: no eventfd", &|front| {
        front.send(Request::SetVringKick(RingFile { index: 0, none: true }), &[]);
    });
    told("allowed: an eventfd", &|front| {
        let file = memory_file(MemfdFlags::CLOEXEC, 4096);
        front.send(Request::SetVringKick(RingFile { index: 0, none: false }), &[file.as_fd()]);
    });
    told("found: 0 descriptors; allowed: 1", &|front| {
        front.send(Request::SetVringCall(RingFile { index: 0, none: false }), &[]);
    });
    let memory = |front: &mut FrontEnd, regions: &[Region]| {
        let file = memory_file(MemfdFlags::CLOEXEC, 8192);
        let files = vec![file.as_fd(); regions.len()];
        front.send(Request::SetMemTable(regions.to_vec()), &files);
    };
    told("guest addresses of another region", &|front| {
        memory(front, &[region(0x1000, 4096, 0), region(0x1fff, 4096, 0)]);
    });
    told("below the highest address", &|front| memory(front, &[region(u64::MAX - 4094, 4096, 0)]));
    told("below the highest address", &|front| memory(front, &[region(0, 0, 0)]));
    told("allowed: some of the 8192 of the file", &|front| memory(front, &[region(0, 8193, 0)]));
    told("allowed: some of the 8192 of the file", &|front| memory(front, &[region(0, 4096, 4097)]));
    told("allowed: 4194304, the port's `memory`", &|front| memory(front, &[region(0, (4 << 20) + 1, 0)]));
    told("allowed: one for each", &|front| front.send(Request::SetMemTable(vec![region(0, 4096, 0)]), &[]));
    told("found: a file in a file system of type", &|front| {
        let file = std::fs::File::open("/proc/self/status").expect("a file");
        front.send(Request::SetMemTable(vec![region(0, 4096, 0)]), &[file.as_fd()]);
    });
    told("found: more than 8 descriptors", &|front| {
        let file = memory_file(MemfdFlags::CLOEXEC, 4096);
        front.send(Request::SetMemTable(vec![region(0, 4096, 0)]), &[file.as_fd(); 12]);
    });
    told("found: request 40", &|front| {
        front.send_bytes(&[40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], &[]);
    });
    told("took longer than 3 s", &|front| {
        front.send_bytes(&[1, 0, 0, 0, 1], &[]);
    });
    // One that says everything in the right way is taken all the same.
    let mut front = FrontEnd::connect(&settings);
    front.start(crate::features::VERSION_1, 1);
    until("it is up", || bench.is_up());
}
