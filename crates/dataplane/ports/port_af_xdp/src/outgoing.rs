//! What happens to a packet before it is put into a transmit ring: the kernel takes only what is whole, short
//! enough, and in one chunk.

use crate::link::Link;
use crate::segments::{cut, is_whole};
use nf_abi::offload;
use packet_memory::{Packet, Pool};
use port::PortCounters;
use telemetry::DropReason;
use virtio_net::finish_checksum;

/// Bytes of an Ethernet header.
pub(crate) const HEADER: u32 = 14;

/// Bytes of a VLAN tag, which the MTU does not count.
const TAG: u32 = 4;

/// Something that is told once, with what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A packet is still to be segmented.
    Segments,
    /// A packet is longer than the interface takes.
    TooLong { length: u32, mtu: u32 },
    /// The kernel named what it was not given.
    Strange,
}

impl Trouble {
    pub fn explain(self, interface: &str) -> String {
        match self {
            Trouble::Segments => format!(
                "interface `{interface}`: packets that are still to be cut into segments cannot be sent by AF_XDP, cannot be cut \
                 and are dropped as port-refused; `ethtool -K IF gro off lro off` on the interface that they come in by, or \
                 `tso off gso off` on its other end, avoids them"
            ),
            Trouble::TooLong { length, mtu } => format!(
                "interface `{interface}`: a packet of {length} bytes is longer than what its MTU of {mtu} allows, or than a \
                 page; such packets are dropped as port-refused"
            ),
            Trouble::Strange => format!(
                "interface `{interface}`: the kernel's rings named buffers that the kernel had not been given; what they \
                 name is dropped as malformed"
            ),
        }
    }
}

/// What sending keeps besides the rings.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub troubles: Vec<Trouble>,
    /// Packets of the tenant's pool that end here: refused, or sent as a copy. Kept empty, for its memory.
    spent: Vec<Packet>,
}

impl Outgoing {
    /// Puts packets into the transmit rings; those that cannot be are counted and freed.
    #[inline]
    pub fn hand_over(
        &mut self,
        link: &mut Link,
        pool: &Pool,
        packets: &mut Vec<Packet>,
        counters: &mut PortCounters,
    ) {
        // The kernel is not asked again within a burst once it had no room.
        let mut full = false;
        if packets.iter().any(is_whole) {
            cut(link, pool, packets, counters);
        }
        for packet in packets.drain(..) {
            let queue = link.queue_of(&packet);
            let placed = if !link.has_room(queue) && (full || !link.make_room(queue, counters)) {
                full = true;
                self.spent.push(packet);
                Err(DropReason::PortFull)
            } else if is_plain(link, &packet) {
                Ok(packet)
            } else {
                self.prepare(link, pool, packet)
            };
            match placed {
                Ok(packet) => link.push(queue, packet),
                Err(reason) => counters.ledger.dropped[reason] += 1,
            }
        }
        if !self.spent.is_empty() {
            pool.free_batch(self.spent.drain(..));
        }
    }

    /// Makes of a packet one that the kernel takes; one of which that cannot be made ends here.
    fn prepare(&mut self, link: &Link, pool: &Pool, mut packet: Packet) -> Result<Packet, DropReason> {
        if !self.is_allowed(link, pool, &packet) {
            self.spent.push(packet);
            return Err(DropReason::PortRefused);
        }
        finish_checksum(pool, &mut packet);
        if link.umem.is_tenants && link.umem.can_send(&packet) {
            return Ok(packet);
        }
        self.copy(link, pool, packet)
    }

    /// Whether the interface would carry a packet of this length, in one piece.
    fn is_allowed(&mut self, link: &Link, pool: &Pool, packet: &Packet) -> bool {
        let length = packet.length();
        let longest = link.mtu.saturating_add(HEADER);
        if length > longest && !(length <= longest.saturating_add(TAG) && is_tagged(pool, packet)) {
            self.tell(Trouble::TooLong { length, mtu: link.mtu });
            return false;
        }
        if packet.record().gso_type & !offload::GSO_ECN != offload::GSO_NONE {
            self.tell(Trouble::Segments);
            return false;
        }
        length >= HEADER
    }

    /// A copy of the packet that lies in one chunk of the memory that the kernel knows; the packet itself
    /// ends here.
    fn copy(&mut self, link: &Link, pool: &Pool, packet: Packet) -> Result<Packet, DropReason> {
        let memory = link.umem.pool();
        let copied = match memory.copy_from(pool, &packet) {
            Ok(Some(copy)) if link.umem.can_send(&copy) => Ok(copy),
            Ok(Some(copy)) => {
                memory.free(copy);
                Err(DropReason::PortRefused)
            }
            Ok(None) if link.umem.is_tenants => Err(DropReason::NoBuffer),
            Ok(None) => Err(DropReason::PortFull),
            Err(_) => Err(DropReason::PortRefused),
        };
        if matches!(copied, Err(DropReason::PortRefused)) {
            self.tell(Trouble::TooLong { length: packet.length(), mtu: link.mtu });
        }
        self.spent.push(packet);
        copied
    }

    /// Tells a trouble once.
    pub fn tell(&mut self, trouble: Trouble) {
        let same = |told: &Trouble| std::mem::discriminant(told) == std::mem::discriminant(&trouble);
        if !self.troubles.iter().any(same) {
            self.troubles.push(trouble);
        }
    }
}

/// Whether the kernel takes the packet as it is and where it is, which is what nearly all packets are.
#[inline]
fn is_plain(link: &Link, packet: &Packet) -> bool {
    let record = packet.record();
    let state = (record.offload_flags & offload::NEEDS_CHECKSUM) | (record.gso_type & !offload::GSO_ECN);
    let length = packet.length();
    state == 0
        && length >= HEADER
        && length <= link.mtu.saturating_add(HEADER)
        && link.umem.is_tenants
        && link.umem.can_send(packet)
}

/// Whether a VLAN tag stands behind the addresses.
fn is_tagged(pool: &Pool, packet: &Packet) -> bool {
    let mut kind = [0; 2];
    pool.read(packet, 12, &mut kind);
    matches!(u16::from_be_bytes(kind), 0x8100 | 0x88a8)
}
