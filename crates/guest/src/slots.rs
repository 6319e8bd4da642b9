//! The packets that a function keeps between calls: held ones and its own, by slot, within a quota.

use clock::Nanos;
use packet_memory::Packet;
use std::collections::BTreeMap;

/// Bounds on what one instance keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotConfig {
    /// Most packets, held and own together.
    pub quota: u32,
    /// Longest time a packet stays in a slot.
    pub longest_hold: Nanos,
}

/// Why a packet was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotRefusal {
    /// The slot has a packet.
    #[error("slot is taken")]
    Taken,
    /// The instance keeps as many packets as it may.
    #[error("quota is used up")]
    Quota,
}

/// Slots by number. A function names the slot; the host alone knows the buffer.
#[derive(Debug)]
pub struct SlotTable {
    config: SlotConfig,
    packets: BTreeMap<u16, (Packet, Nanos)>,
    /// When the oldest packet is due, if known to be later than any check so far.
    next_expiry: Option<Nanos>,
}

impl SlotTable {
    /// An empty table.
    pub fn new(config: SlotConfig) -> SlotTable {
        SlotTable { config, packets: BTreeMap::new(), next_expiry: None }
    }

    /// Packets kept.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether another packet would be taken in at this slot.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, slot: u16) -> Result<(), SlotRefusal> {
        if self.packets.contains_key(&slot) {
            Err(SlotRefusal::Taken)
        } else if self.packets.len() >= self.config.quota as usize {
            Err(SlotRefusal::Quota)
        } else {
            Ok(())
        }
    }

    /// Keeps a packet.
    ///
    /// # Errors
    /// The packet comes back, with the reason.
    #[expect(
        clippy::result_large_err,
        reason = "the packet itself comes back; a box would allocate each time"
    )]
    pub fn keep(&mut self, slot: u16, packet: Packet, now: Nanos) -> Result<(), (Packet, SlotRefusal)> {
        if let Err(refusal) = self.check(slot) {
            return Err((packet, refusal));
        }
        self.insert(slot, packet, now.saturating_add(self.config.longest_hold));
        Ok(())
    }

    /// Keeps a packet that was in this slot of a saved table, until the time that was noted there. A slot that has a
    /// packet, or a quota that is used up, refuses it.
    ///
    /// # Errors
    /// The packet comes back, with the reason.
    #[expect(clippy::result_large_err, reason = "as above")]
    pub fn keep_until(&mut self, slot: u16, packet: Packet, due: Nanos) -> Result<(), (Packet, SlotRefusal)> {
        match self.check(slot) {
            Ok(()) => {
                self.insert(slot, packet, due);
                Ok(())
            }
            Err(refusal) => Err((packet, refusal)),
        }
    }

    fn insert(&mut self, slot: u16, packet: Packet, due: Nanos) {
        self.packets.insert(slot, (packet, due));
        self.next_expiry = Some(self.next_expiry.map_or(due, |first| first.min(due)));
    }

    /// All packets in the order of their slots, each with its slot and the time at which it is due.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Packet, Nanos)> {
        self.packets.iter().map(|(slot, (packet, due))| (*slot, packet, *due))
    }

    /// Takes a packet out.
    pub fn take(&mut self, slot: u16) -> Option<Packet> {
        self.packets.remove(&slot).map(|(packet, _)| packet)
    }

    /// The earliest time at which a packet may be due.
    pub fn next_expiry(&self) -> Option<Nanos> {
        self.next_expiry
    }

    /// Takes out what has been kept too long.
    pub fn expire(&mut self, now: Nanos, out: &mut Vec<Packet>) {
        if self.next_expiry.is_none_or(|first| first > now) {
            return;
        }
        let due: Vec<u16> =
            self.packets.iter().filter(|(_, (_, due))| *due <= now).map(|(slot, _)| *slot).collect();
        out.extend(due.into_iter().filter_map(|slot| self.take(slot)));
        self.next_expiry = self.packets.values().map(|(_, due)| *due).min();
    }

    /// Takes everything out.
    pub fn surrender(&mut self, out: &mut Vec<Packet>) {
        out.extend(std::mem::take(&mut self.packets).into_values().map(|(packet, _)| packet));
        self.next_expiry = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet_memory::{PageKind, Pool, PoolConfig};

    #[test]
    fn quota_and_time_are_kept() {
        let config = PoolConfig { buffers: 8, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
        let pool = Pool::new("slots", config).expect("a small pool");
        let mut slots = SlotTable::new(SlotConfig { quota: 2, longest_hold: Nanos(100) });
        let packet = || pool.allocate().expect("eight buffers");
        slots.keep(3, packet(), Nanos(0)).expect("empty");
        let (back, why) = slots.keep(3, packet(), Nanos(1)).expect_err("taken");
        assert_eq!(why, SlotRefusal::Taken);
        slots.keep(9, back, Nanos(50)).expect("second");
        let (back, why) = slots.keep(1, packet(), Nanos(51)).expect_err("quota");
        assert_eq!(why, SlotRefusal::Quota);
        pool.free(back);

        let mut out = vec![];
        slots.expire(Nanos(99), &mut out);
        assert!(out.is_empty());
        slots.expire(Nanos(100), &mut out);
        assert_eq!((out.len(), slots.len(), slots.next_expiry()), (1, 1, Some(Nanos(150))));
        slots.surrender(&mut out);
        assert_eq!((out.len(), slots.len(), slots.next_expiry()), (2, 0, None));
        pool.free_batch(out);
        assert_eq!(pool.available(), 8);
    }
}
