//! What the host finds out about a received packet before any function sees it.

use packet_memory::{Packet, Pool};

/// Bytes of a packet that classification looks at.
const LOOKED_AT: usize = 96;

/// Sets hop budget, VLAN and flow hash of freshly received packets.
#[inline]
pub fn classify(pool: &Pool, packets: &mut [Packet]) {
    classify_for(pool, packets, 0, nf_abi::HOP_BUDGET);
}

/// The same, with the packets addressed to an interface and so many hops left. The headers are copied before they are
/// looked at: a guest that owns a neighbouring buffer cannot change them meanwhile.
#[inline]
pub(crate) fn classify_for(pool: &Pool, packets: &mut [Packet], interface: u16, hop_budget: u8) {
    for packet in packets {
        let (header, length) = pool.head::<LOOKED_AT>(packet);
        let (flow_hash, vlan) = packet::symmetric_flow_hash(&header[..length]);
        packet.edit(|record| {
            record.flow_hash = flow_hash;
            record.vlan = vlan;
            record.ingress = interface;
            record.hop_budget = hop_budget;
        });
    }
}
