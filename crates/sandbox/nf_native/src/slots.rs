//! Packets that the function holds, until it gives them up or has held them for too long.

use nf_sdk::Nanos;
use std::collections::{BTreeMap, VecDeque};
use superfluid_native::Packet;

/// Held packets by their slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    packets: BTreeMap<u16, (Packet, Nanos)>,
    /// Slots in the order in which their packets are due; of a slot that was taken again since, twice.
    due: VecDeque<(Nanos, u16)>,
    quota: usize,
    longest: Nanos,
}

impl Slots {
    /// For so many packets, each for so long.
    pub fn new(quota: usize, longest: Nanos) -> Slots {
        Slots { quota, longest, ..Slots::default() }
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Keeps a packet; false when there are as many as may be, or the slot has one.
    pub fn keep(&mut self, slot: u16, packet: Packet, now: Nanos) -> bool {
        if self.packets.len() >= self.quota || self.packets.contains_key(&slot) {
            return false;
        }
        let due = now.saturating_add(self.longest);
        self.packets.insert(slot, (packet, due));
        self.due.push_back((due, slot));
        true
    }

    /// Takes a packet out.
    pub fn take(&mut self, slot: u16) -> Option<Packet> {
        self.packets.remove(&slot).map(|(packet, _)| packet)
    }

    /// When the next one is due, or something that is not there any more.
    pub fn next_due(&self) -> Option<Nanos> {
        self.due.front().map(|(due, _)| *due)
    }

    /// A packet that has been held for too long, and its slot.
    pub fn expired(&mut self, now: Nanos) -> Option<(u16, Packet)> {
        while let Some((due, slot)) = self.due.pop_front_if(|(due, _)| *due <= now) {
            if self.packets.get(&slot).is_some_and(|(_, of)| *of == due) {
                return self.take(slot).map(|packet| (slot, packet));
            }
        }
        None
    }

    /// All that are left.
    pub fn drain(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.packets).into_values().map(|(packet, _)| packet).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(buffer: u32) -> Packet {
        Packet { buffer, ..Packet::default() }
    }

    #[test]
    fn a_packet_is_held_within_the_quota_and_no_longer_than_it_may() {
        let mut slots = Slots::new(2, Nanos::from_secs(1));
        let at = Nanos::from_millis;
        assert!(slots.keep(7, packet(1), at(0)) && !slots.keep(7, packet(2), at(0)));
        assert!(slots.keep(8, packet(2), at(10)) && !slots.keep(9, packet(3), at(10)), "the quota");
        assert_eq!(slots.take(7), Some(packet(1)));
        assert!(slots.keep(7, packet(3), at(20)));
        assert_eq!(
            (slots.expired(at(1_000)), slots.next_due()),
            (None, Some(at(1_010))),
            "that one was given up"
        );
        assert_eq!(slots.expired(at(1_010)), Some((8, packet(2))));
        assert_eq!((slots.expired(at(1_019)), slots.expired(at(1_020))), (None, Some((7, packet(3)))));
        assert_eq!((slots.len(), slots.take(7)), (0, None));
        assert!(slots.keep(1, packet(4), at(30)));
        assert_eq!(slots.drain(), [packet(4)]);
    }
}
