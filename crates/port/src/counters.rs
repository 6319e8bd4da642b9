//! What a port counts.

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
