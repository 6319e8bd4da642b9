//! The packets that a function keeps between calls: held ones and its own, by slot, within a quota.

use packet_memory::Packet;
use std::collections::{BTreeMap, BTreeSet};
use telemetry::clock::Nanos;

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
    /// When each packet is due, with its slot.
    due: BTreeSet<(Nanos, u16)>,
}

impl SlotTable {
    /// An empty table.
    pub fn new(config: SlotConfig) -> SlotTable {
        SlotTable { config, packets: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// Sets other bounds. Packets that are kept stay, until the time that they were given.
    pub fn set_config(&mut self, config: SlotConfig) {
        self.config = config;
    }

    /// Longest time that a packet stays in a slot.
    pub fn longest_hold(&self) -> Nanos {
        self.config.longest_hold
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

    /// Keeps a packet that was in this slot of a saved table, until the time that was noted there. A slot
    /// that has a packet, or a quota that is used up, refuses it.
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
        self.due.insert((due, slot));
    }

    /// All packets in the order of their slots, each with its slot and the time at which it is due.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Packet, Nanos)> {
        self.packets.iter().map(|(slot, (packet, due))| (*slot, packet, *due))
    }

    /// The packet in a slot.
    pub fn get(&self, slot: u16) -> Option<&Packet> {
        self.packets.get(&slot).map(|(packet, _)| packet)
    }

    /// Takes a packet out.
    pub fn take(&mut self, slot: u16) -> Option<Packet> {
        let (packet, due) = self.packets.remove(&slot)?;
        self.due.remove(&(due, slot));
        Some(packet)
    }

    /// The earliest time at which a packet is due.
    pub fn next_expiry(&self) -> Option<Nanos> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes out what has been kept too long, at most so many packets, those that were due first.
    pub fn expire(&mut self, now: Nanos, most: usize, out: &mut Vec<Packet>) {
        for _ in 0..most {
            let Some((_, slot)) = self.due.first().copied().filter(|(due, _)| *due <= now) else { return };
            out.extend(self.take(slot));
        }
    }

    /// Takes everything out.
    pub fn surrender(&mut self, out: &mut Vec<Packet>) {
        out.extend(std::mem::take(&mut self.packets).into_values().map(|(packet, _)| packet));
        self.due.clear();
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
        slots.expire(Nanos(99), 9, &mut out);
        assert!(out.is_empty());
        slots.expire(Nanos(100), 9, &mut out);
        assert_eq!((out.len(), slots.len(), slots.next_expiry()), (1, 1, Some(Nanos(150))));
        slots.surrender(&mut out);
        assert_eq!((out.len(), slots.len(), slots.next_expiry()), (2, 0, None));
        pool.free_batch(out);
        assert_eq!(pool.available(), 8);
    }

    #[test]
    fn few_expire_at_once_the_oldest_first_and_saved_ones_in_their_order() {
        let config = PoolConfig { buffers: 512, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
        let pool = Pool::new("slots", config).expect("a small pool");
        let mut slots = SlotTable::new(SlotConfig { quota: 400, longest_hold: Nanos(100) });
        let packet = || pool.allocate().expect("enough buffers");
        for slot in 0..300 {
            slots.keep(slot, packet(), Nanos(u64::from(slot))).expect("empty");
        }
        slots.keep_until(300, packet(), Nanos(50)).expect("empty");
        assert_eq!(slots.next_expiry(), Some(Nanos(50)));
        // Taken and kept again, over and over: nothing else is noted of it than when it is due.
        for time in 0..10_000 {
            let again = slots.take(7).expect("kept");
            slots.keep(7, again, Nanos(time)).expect("empty");
        }
        assert_eq!(slots.due.len(), slots.len());
        let mut out = vec![];
        slots.expire(Nanos(1_000), 64, &mut out);
        assert_eq!((out.len(), slots.len()), (64, 237));
        assert_eq!(slots.next_expiry(), Some(Nanos(164)), "one more came before them, and one is later");
        slots.expire(Nanos(1_000), 1_000, &mut out);
        assert_eq!((out.len(), slots.len(), slots.next_expiry()), (300, 1, Some(Nanos(10_099))));
        slots.surrender(&mut out);
        pool.free_batch(out);
        assert_eq!(pool.available(), 512);
    }
}
