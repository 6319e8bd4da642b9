//! Any bytes as messages of a vhost-user front end, in any order, and as the memory that it shares: what is
//! read as a message is written as the same, each message ends with an answer or a reason, and whatever the
//! rings hold, packets are bounded, and every buffer is back.
//!
//! The first two bytes say how many of the next ones are messages: each a byte that says what comes along
//! (nothing, one or two memory files, an eventfd), a header, and its payload. What follows lies in the memory
//! files from their beginning on.

use packet_memory::{PageKind, Pool, PoolConfig};
use port::Port;
use port_vhost_user::{Detached, HEADER, Header, Message, Role, Settings};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use telemetry::clock::Nanos;

/// Bytes of the memory files: what the seeds' rings and buffers need.
const BYTES: u64 = 64 << 10;
const BUFFERS: u32 = 64;

thread_local! {
    static POOL: Pool = {
        let pages = Some(PageKind::Ordinary);
        Pool::new("vhost-user", PoolConfig { buffers: BUFFERS, pages, ..PoolConfig::default() }).expect("a pool")
    };
}

pub fn run(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk() else { return };
    let Some((messages, memory)) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length))) else {
        return;
    };
    let settings =
        Settings { queues: 2, memory: 1 << 20, ..Settings::new(Role::Server, "/run/vhost-user.sock") };
    let mut back = Detached::new(settings).expect("descriptors");
    let file = memory_file(memory);
    carry_out(&mut back, messages, &file);
    POOL.with(|pool| {
        for _ in 0..4 {
            move_packets(&mut back, pool);
        }
        // The peer takes it away.
        ftruncate(&file, 4096).expect("a size");
        move_packets(&mut back, pool);
        back.port().close(pool).expect("closed");
        assert_eq!(pool.available(), BUFFERS as usize);
    });
}

fn carry_out(back: &mut Detached, mut bytes: &[u8], file: &OwnedFd) {
    while let Some((&with, rest)) = bytes.split_first() {
        let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else { return };
        let Ok(header) = Header::from_bytes(header) else { return };
        let Some((payload, rest)) = rest.split_at_checked(header.payload()) else { return };
        bytes = rest;
        let Ok(message) = Message::from_payload(header, payload) else { continue };
        let written = message.to_bytes();
        let again = written.split_first_chunk().expect("a header");
        let header = Header::from_bytes(again.0).expect("it was just written");
        assert_eq!(Message::from_payload(header, again.1), Ok(message.clone()));
        match back.read(message, descriptors(with, file)) {
            Ok(answer) => assert!(answer.is_none_or(|answer| (HEADER..=HEADER + 8).contains(&answer.len()))),
            Err(reason) => {
                assert!(!reason.is_empty());
                return;
            }
        }
    }
}

fn move_packets(back: &mut Detached, pool: &Pool) {
    let (mut packets, mut out) = (Vec::new(), Vec::new());
    pool.allocate_batch(4, &mut packets);
    for (n, packet) in packets.iter_mut().enumerate() {
        pool.set_length(packet, 60 + n * 500).expect("room");
        packet.edit(|record| record.flow_hash = (n as u32) << 30);
    }
    back.port().transmit(pool, Nanos(1), &mut packets);
    back.port().receive(pool, Nanos(1), 8, &mut out);
    assert!(packets.is_empty() && out.len() <= 8);
    for packet in &mut out {
        assert!(packet.length() >= 14 && packet.offset() + packet.length() <= pool.buffer_size());
        virtio_net::finish_checksum(pool, packet);
    }
    pool.free_batch(out);
    back.port().maintain(Nanos(1));
}

fn memory_file(contents: &[u8]) -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory");
    ftruncate(&file, BYTES).expect("a size");
    let contents = &contents[..contents.len().min(BYTES as usize)];
    rustix::io::pwrite(&file, contents, 0).expect("room");
    file
}

fn descriptors(with: u8, file: &OwnedFd) -> Vec<OwnedFd> {
    let memory = || file.try_clone().expect("a descriptor");
    match with % 4 {
        1 => vec![memory()],
        2 => vec![memory(), memory()],
        3 => vec![eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor")],
        _ => Vec::new(),
    }
}
