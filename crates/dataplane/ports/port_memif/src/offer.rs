//! What a slave offers: its memory, and where rings and buffers lie in it.
//!
//! ```text
//!   rings from slave to master | rings from master to slave | buffers of the first ring | of the second | ...
//! ```
//!
//! Where the peer has the tenant's pool, that is the second region, with the buffers.

use crate::Settings;
use crate::ends::{Receiver, Sender};
use crate::handshake::{Joined, NAME, log2};
use crate::lent::{Lender, POOL};
use crate::message::{AddRing, Hello, Message, padded};
use crate::regions::Buffers;
use crate::ring::Ring;
use native_ring::SharedMemory;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Lines of the processor, on which rings and buffers begin.
const LINE: usize = 64;

/// A message, and the descriptor that goes with it.
pub(crate) type Told = (Message, Option<OwnedFd>);

/// See the module's documentation.
pub(crate) struct Offer {
    /// What the master is told, in this order.
    pub told: Vec<Told>,
    /// What the slave keeps.
    pub mine: Joined,
}

impl Offer {
    /// Makes the memory, with as many rings each way as the port has queues and the master takes.
    ///
    /// # Errors
    /// No memory or descriptors are left.
    pub fn make(settings: &Settings, hello: &Hello, lender: Option<&Lender>) -> io::Result<Offer> {
        let queues = |highest: u16| settings.queues.min(u32::from(highest) + 1) as usize;
        let (to_master, to_slave) = (queues(hello.max_s2m_ring), queues(hello.max_m2s_ring));
        let (log2_size, each) = (log2(settings.ring).min(hello.max_log2_ring_size), settings.buffer);
        let ring_bytes = Ring::bytes(log2_size).next_multiple_of(LINE);
        let buffer_bytes = (each as usize) << log2_size;
        let buffers = ring_bytes * (to_master + to_slave);
        let rings = to_master + to_slave;
        let bytes = if lender.is_some() { buffers } else { buffers + buffer_bytes * rings };
        let (memory, file) = SharedMemory::create("superfluid-memif", bytes)?;
        let memory = Arc::new(memory);
        let mut told = vec![(Message::AddRegion { index: 0, size: bytes as u64 }, Some(file))];
        let mut lent = Vec::new();
        if let Some(lender) = lender {
            if hello.max_region < POOL {
                return Err(io::Error::other(
                    "found: a peer that takes one region; needed: two, with `write`",
                ));
            }
            lent = lender.lend(rings, 1 << log2_size, each).map_err(io::Error::other)?;
            let memory = lender.pool().memory();
            let file = memory.as_fd().try_clone_to_owned()?;
            told.push((Message::AddRegion { index: POOL, size: memory.len() as u64 }, Some(file)));
        }
        let mut lent = lent.into_iter();
        let mut mine = Joined::default();
        let outgoing = (0..to_master).map(|index| (AddRing::S2M, index));
        let incoming = (0..to_slave).map(|index| (0, index));
        for (place, (flags, index)) in outgoing.chain(incoming).enumerate() {
            let offset = (place * ring_bytes) as u32;
            let ring = Ring::new(&memory, offset, log2_size, log2_size).map_err(io::Error::other)?;
            ring.initialise();
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let added = AddRing {
                flags,
                index: index as u16,
                region: 0,
                offset,
                log2_ring_size: log2_size,
                private_header_size: 0,
            };
            told.push((Message::AddRing(added), Some(bell.try_clone()?)));
            let first = buffers + place * buffer_bytes;
            let own = match lent.next() {
                Some(lent) => Buffers::Lent(lent),
                None => Buffers::Own { memory: memory.clone(), first, each },
            };
            if flags == AddRing::S2M {
                mine.senders.push(Sender::new(ring, own));
                mine.to_peer.push(bell);
            } else {
                mine.receivers.push(Receiver::new(ring, own));
                mine.from_peer.push(bell);
            }
        }
        told.push((Message::Connect(padded(NAME)), None));
        Ok(Offer { told, mine })
    }
}
