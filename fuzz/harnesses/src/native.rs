//! Any bytes as messages of a native process, and as the descriptors that it sends: what is read as a message
//! is written as the same; no packet comes of what the process was not lent, none twice, and none reaches out
//! of its buffer.
//!
//! The first byte says whether the process may write; each 33 that follow are a step: lend a buffer, or take
//! back what four words name.

use native_abi::devices::{self, DevicesPart};
use native_abi::{Answer, Descriptor, Hello};
use packet_memory::{PageKind, Pool, PoolConfig};
use port_native::{Custody, Lent, believe};
use telemetry::clock::Nanos;

const BUFFERS: u32 = 16;

thread_local! {
    static POOL: Pool = {
        let pages = Some(PageKind::Ordinary);
        Pool::new("native", PoolConfig { buffers: BUFFERS, pages, ..PoolConfig::default() }).expect("a pool")
    };
}

pub fn run(data: &[u8]) {
    if let Ok(hello) = Hello::from_bytes(data) {
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Ok(hello));
    }
    if let Ok(answer) = Answer::from_bytes(data) {
        assert_eq!(Answer::from_bytes(&answer.to_bytes()), Ok(answer));
    }
    if let Ok(part) = DevicesPart::from_bytes(data) {
        assert_eq!(part.to_bytes(), data);
    }
    if let Ok(addresses) = devices::asked(data) {
        assert_eq!(devices::asked(&devices::asks(&addresses)), Ok(addresses));
    }
    if let Some((&write, steps)) = data.split_first() {
        POOL.with(|pool| carry_out(pool, write & 1 != 0, steps));
    }
}

fn carry_out(pool: &Pool, write: bool, steps: &[u8]) {
    let mut custody = Custody::new(BUFFERS);
    custody.change_limit(BUFFERS as isize);
    let mut lent = Vec::new();
    for step in steps.chunks_exact(33) {
        if step[0] & 1 == 0 {
            let Some(packet) = pool.allocate() else { continue };
            let number = (packet.buffer() - nf_abi::WINDOW_BASE) / pool.buffer_size();
            custody
                .batch()
                .lend(number, Lent::of(packet, pool))
                .expect("it was free, and there is room for all");
            lent.push(number);
            continue;
        }
        let word = |n: usize| u64::from_le_bytes(*step[1 + n * 8..].first_chunk().expect("33 bytes"));
        let mut descriptor = Descriptor::from_words([0, 1, 2, 3].map(word));
        if step[0] & 2 == 0 {
            descriptor.buffer %= BUFFERS;
        }
        let Some(taken) = custody.batch().take_back(descriptor.buffer) else {
            assert!(!lent.contains(&descriptor.buffer));
            continue;
        };
        let place = lent.iter().position(|number| *number == descriptor.buffer).expect("it was lent, once");
        lent.swap_remove(place);
        let mut out = Vec::new();
        if let Err(buffer) = believe(taken, &descriptor, pool, write, Nanos(1), &mut out) {
            pool.return_buffers([buffer]);
        }
        for mut packet in out {
            assert!(packet.offset() + packet.length() <= pool.buffer_size() && packet.length() >= 14);
            // Reads all of it, wherever it says that it lies, and completes the checksum that it asks for.
            virtio_net::finish_checksum(pool, &mut packet);
            assert_eq!(pool.to_vec(&packet).len(), packet.length() as usize);
            pool.free(packet);
        }
    }
    assert_eq!(custody.len(), lent.len());
    pool.return_buffers(custody.end());
    assert_eq!(pool.available(), BUFFERS as usize);
}
