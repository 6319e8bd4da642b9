//! What the host finds out about a received packet before any function sees it.

use packet_memory::{Packet, Pool};

/// Bytes of a packet that the flow hash looks at.
const HASHED: usize = 96;
/// Where the first VLAN tag or the EtherType is.
const TAG: usize = 12;

/// Sets hop budget and VLAN of freshly received packets, and the flow hash where it is read. The headers are
/// copied before they are looked at: a guest that owns a neighbouring buffer cannot change them meanwhile.
#[inline]
pub fn classify(pool: &Pool, packets: &mut [Packet], with_flow_hash: bool) {
    for packet in packets {
        let (flow_hash, vlan) = flow_of(pool, packet, with_flow_hash);
        packet.edit(|record| {
            (record.flow_hash, record.vlan, record.hop_budget) = (flow_hash, vlan, nf_abi::HOP_BUDGET);
        });
    }
}

/// The flow hash of a packet, if it is read, and its VLAN.
#[inline(always)]
pub(crate) fn flow_of(pool: &Pool, packet: &Packet, with_flow_hash: bool) -> (u32, u16) {
    if !with_flow_hash {
        return (0, pool.word(packet, TAG).map_or(0, packet::outer_vlan));
    }
    let (first, length) = pool.head(packet);
    packet::plain_flow_hash(&first).filter(|_| length == first.len()).unwrap_or_else(|| {
        let (header, length) = pool.head::<HASHED>(packet);
        packet::symmetric_flow_hash(&header[..length])
    })
}
