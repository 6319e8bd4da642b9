//! What a port counts.

use packet_memory::{Packet, Pool};
use telemetry::Ledger;

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
    /// Counts all of `packets` as delivered and frees them: transmission for ports without an outside.
    pub(crate) fn deliver(&mut self, pool: &Pool, packets: &mut Vec<Packet>) {
        self.ledger.delivered += packets.len() as u64;
        self.delivered_bytes += packets.iter().map(|packet| u64::from(packet.length())).sum::<u64>();
        pool.free_batch(packets.drain(..));
    }
}
