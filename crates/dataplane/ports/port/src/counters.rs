//! What a port counts.

use packet_memory::{Packet, Pool};
use telemetry::{DropReason, Ledger};
use virtio_net::Split;

/// Counters of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// The packets.
    pub ledger: Ledger,
    /// Bytes of packets received or generated.
    pub received_bytes: u64,
    /// Bytes of packets delivered.
    pub delivered_bytes: u64,
    /// Packets that the kernel lost before the port saw them; not part of the ledger.
    pub kernel_lost: u64,
}

impl PortCounters {
    /// Counts packets that were cut into several on their way out.
    pub fn note_split(&mut self, split: Split) {
        self.ledger.split += split.more;
        self.ledger.dropped[DropReason::NoBuffer] += split.lost;
    }

    /// Counts a packet as lost that was being received into the empty one at `at` of `packets`, if there is
    /// one, and puts another empty one there: something of the lost one may be in it.
    #[cold]
    pub fn lose(&mut self, reason: DropReason, pool: &Pool, at: usize, packets: &mut Vec<Packet>) {
        self.ledger.dropped[reason] += 1;
        if at < packets.len() {
            pool.free(packets.swap_remove(at));
            pool.allocate_batch(1, packets);
        }
    }

    /// Counts all of `packets` as delivered and frees them: transmission for ports without an outside.
    pub(crate) fn deliver(&mut self, pool: &Pool, packets: &mut Vec<Packet>) {
        self.ledger.delivered += packets.len() as u64;
        self.delivered_bytes += packets.iter().map(|packet| u64::from(packet.length())).sum::<u64>();
        pool.free_batch(packets.drain(..));
    }
}
