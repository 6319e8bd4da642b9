//! Any bytes as messages of a memif peer, in any order, to a master and a slave: what is read as a message is
//! written as the same, and each handshake ends with an agreement or a reason, after as many messages as the
//! protocol has at most.
//!
//! The first byte says which role is played; each 129 that follow are a message, behind a byte that says what
//! comes along: nothing, a memory file, or an eventfd.

use port_memif::{Handshake, LENGTH, Message, Role, Settings};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::os::fd::OwnedFd;

/// Rings each way.
const QUEUES: usize = 3;
/// Bytes of the memory file: the rings of the seeds, and little more.
const BYTES: u64 = 8192;

pub fn run(data: &[u8]) {
    let Some((&role, messages)) = data.split_first() else { return };
    let role = if role & 1 == 0 { Role::Master } else { Role::Slave };
    let settings =
        Settings { ring: 64, buffer: 256, queues: QUEUES as u32, ..Settings::new(role, "/run/memif.sock") };
    let (mut handshake, _) = Handshake::new(&settings);
    let mut over = false;
    for part in messages.chunks(LENGTH + 1) {
        let Some((&with, bytes)) = part.split_first() else { return };
        let Ok(message) = Message::from_bytes(bytes) else { continue };
        assert_eq!(Message::from_bytes(&message.to_bytes()), Ok(message.clone()));
        match handshake.read(message, descriptors(with)) {
            Ok(answer) => {
                assert!(!over, "a handshake that is over goes on");
                if let Some(joined) = answer.joined {
                    // Whatever the rings hold, the counts are judged.
                    assert!(joined.senders.len() <= QUEUES && joined.receivers.len() <= QUEUES);
                    let rooms = joined.senders.iter().map(|sender| sender.room().is_ok());
                    let waiting = joined.receivers.iter().map(|receiver| receiver.available().is_ok());
                    assert!(rooms.chain(waiting).count() >= 2);
                    over = true;
                }
            }
            Err(reason) => {
                assert!(!reason.is_empty());
                over = true;
            }
        }
    }
}

fn descriptors(with: u8) -> Vec<OwnedFd> {
    match with % 3 {
        1 => {
            let file = memfd_create("memif", MemfdFlags::ALLOW_SEALING).expect("memory");
            ftruncate(&file, BYTES).expect("a size");
            fcntl_add_seals(&file, SealFlags::SHRINK).expect("it allows it");
            // The first words of four rings, as the seeds have them.
            for at in [0, 1152, 2304, 3456] {
                rustix::io::pwrite(&file, &0x03E3_1F20u32.to_le_bytes(), at).expect("room");
            }
            vec![file]
        }
        2 => vec![eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor")],
        _ => Vec::new(),
    }
}
