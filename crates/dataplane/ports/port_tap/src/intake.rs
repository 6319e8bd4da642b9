//! From a queue to packets in the pool.

use crate::queue::{Header, Queue};
use packet_memory::{Packet, Pool};
use port::PortCounters;
use std::io;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::VnetHeader;

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

/// No packet is longer, with any tag.
const LONGEST: usize = (64 << 10) + 64;

/// Most buffers that are taken at a time.
const BATCH: usize = 32;

/// A packet of so many bytes is longer than what a buffer has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong {
    length: usize,
    room: u32,
}

impl TooLong {
    pub fn explain(self, interface: &str) -> String {
        let TooLong { length, room } = self;
        let mtu = room.saturating_sub(HEADER as u32 + 4);
        format!(
            "interface `{interface}`: a packet of {length} bytes is longer than the {room} that a buffer has room for; such \
             packets are dropped. Larger buffers (`buffer_size: 64KiB`) take them; `ip link set {interface} mtu {mtu}` \
             avoids them"
        )
    }
}

/// What receiving keeps besides the queues.
pub(crate) struct Intake {
    pub counters: PortCounters,
    /// Told once.
    pub too_long: Option<TooLong>,
    spare: Vec<Packet>,
    header: Header,
    overflow: Box<[u8]>,
}

/// Where packets go to.
pub(crate) struct Target<'a> {
    pub pool: &'a Pool,
    pub now: Nanos,
    pub out: &'a mut Vec<Packet>,
}

impl Intake {
    pub fn new() -> Intake {
        Intake {
            counters: PortCounters::default(),
            too_long: None,
            spare: Vec::new(),
            header: Header::default(),
            overflow: vec![0; LONGEST].into_boxed_slice(),
        }
    }

    /// Takes up to `share` packets of a queue; returns how many, fewer when it was empty.
    ///
    /// # Errors
    /// The queue has come apart from its device.
    #[inline]
    pub fn take(&mut self, queue: &Queue, share: usize, target: &mut Target<'_>) -> io::Result<usize> {
        for taken in 0..share {
            // One to begin with: most looks at a queue find nothing.
            if self.spare.is_empty() {
                let wanted = if taken == 0 { 1 } else { (share - taken).min(BATCH) };
                target.pool.allocate_batch(wanted, &mut self.spare);
            }
            let took = match self.spare.pop() {
                Some(packet) => self.take_into(packet, queue, target),
                None => self.take_without(queue),
            };
            match took {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
        Ok(share)
    }

    /// Gives back the buffers that were not needed.
    pub fn rest(&mut self, pool: &Pool) {
        if !self.spare.is_empty() {
            pool.free_batch(self.spare.drain(..));
        }
    }

    #[inline]
    fn take_into(&mut self, mut packet: Packet, queue: &Queue, target: &mut Target<'_>) -> io::Result<()> {
        let read = queue.read(&mut self.header, target.pool, &mut packet, &mut self.overflow);
        let length = match read {
            Ok(length) => length,
            Err(error) => {
                self.spare.push(packet);
                return Err(error);
            }
        };
        self.counters.ledger.received += 1;
        self.counters.received_bytes += length as u64;
        if length < HEADER {
            self.counters.ledger.dropped[DropReason::Malformed] += 1;
            self.spare.push(packet);
        } else if length > target.pool.room() as usize || target.pool.set_length(&mut packet, length).is_err()
        {
            self.counters.ledger.dropped[DropReason::TooLong] += 1;
            self.too_long.get_or_insert(TooLong { length, room: target.pool.room() });
            self.spare.push(packet);
        } else {
            packet.edit(|record| record.timestamp = target.now.0);
            if VnetHeader::from_bytes(&self.header).admit(target.pool, &mut packet, 0) {
                target.out.push(packet);
            } else {
                self.counters.ledger.dropped[DropReason::Malformed] += 1;
                target.pool.free(packet);
            }
        }
        Ok(())
    }

    /// There is no buffer: the packet is lost here, where that is counted, and not in the kernel.
    fn take_without(&mut self, queue: &Queue) -> io::Result<()> {
        self.lose(queue, DropReason::NoBuffer)
    }

    /// Takes a packet and drops it.
    pub fn lose(&mut self, queue: &Queue, reason: DropReason) -> io::Result<()> {
        let length = queue.discard(&mut self.header, &mut self.overflow)?;
        self.counters.ledger.received += 1;
        self.counters.received_bytes += length as u64;
        self.counters.ledger.dropped[reason] += 1;
        Ok(())
    }
}
