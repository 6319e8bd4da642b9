//! Which slots of the instance's table are taken, by the function's own account.

use alloc::vec::Vec;
use nf_abi::MAX_SLOTS;

/// A slot that this function took. It is given back by [`crate::Host::emit`] or [`crate::Host::release`],
/// once.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// Its number in the instance's table.
    pub fn number(&self) -> u16 {
        self.0
    }
}

/// Hands out slot numbers, the last returned first.
#[derive(Debug, Default)]
pub(crate) struct SlotAllocator {
    free: Vec<u16>,
    /// Numbers from here on were never handed out.
    unused: u32,
}

impl SlotAllocator {
    pub(crate) const fn new() -> SlotAllocator {
        SlotAllocator { free: Vec::new(), unused: 0 }
    }

    pub(crate) fn take(&mut self) -> Option<Slot> {
        if let Some(number) = self.free.pop() {
            return Some(Slot(number));
        }
        let number = u16::try_from(self.unused).ok().filter(|_| self.unused < MAX_SLOTS)?;
        self.unused += 1;
        Some(Slot(number))
    }

    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.free.push(slot.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_once() {
        let mut slots = SlotAllocator::new();
        let mut taken: Vec<Slot> = core::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken.len(), MAX_SLOTS as usize);
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), MAX_SLOTS as usize);
        let last = taken.pop().expect("many");
        slots.give_back(last);
        assert_eq!(slots.take(), Some(Slot(u16::MAX)));
    }
}
