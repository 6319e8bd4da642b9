//! Packets that are still to be cut.

use nf_sdk::{PacketRecord, offload};

/// Least payload of segments that are translated.
const LEAST: u16 = 40;

/// Whether what a packet is still to be cut into is there in both versions of IP: the host takes 20 bytes of
/// payload off segments that get a longer header.
pub fn has_counterpart(record: &PacketRecord) -> bool {
    match record.gso_type & !offload::GSO_ECN {
        offload::GSO_NONE | offload::GSO_UDP_L4 => true,
        offload::GSO_TCPV4 | offload::GSO_TCPV6 => record.gso_size >= LEAST,
        _ => false,
    }
}
