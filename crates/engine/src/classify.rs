//! What the host finds out about a received packet before any function sees it.

use packet_memory::{Packet, Pool};

/// Bytes of a packet that classification looks at.
const LOOKED_AT: usize = 96;

/// Sets hop budget, VLAN and flow hash of freshly received packets. The headers are copied before they are looked
/// at: a guest that owns a neighbouring buffer cannot change them meanwhile.
#[inline]
pub fn classify(pool: &Pool, packets: &mut [Packet]) {
    let mut header = [0; LOOKED_AT];
    for packet in packets {
        let length = pool.read(packet, 0, &mut header);
        let (flow_hash, vlan) = packet::symmetric_flow_hash(&header[..length]);
        packet.edit(|record| {
            record.flow_hash = flow_hash;
            record.vlan = vlan;
            record.hop_budget = nf_abi::HOP_BUDGET;
        });
    }
}
