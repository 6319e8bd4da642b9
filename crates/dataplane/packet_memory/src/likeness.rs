//! Packets that are made from another one: its segments, its fragments.

use crate::{Kept, Packet, Pool};
use nf_abi::PacketRecord;

/// What packets have of the one that they are made from: its metadata, and the headers that are kept for it.
#[derive(Clone, Copy, Debug)]
pub struct Likeness {
    record: PacketRecord,
    kept: Option<Kept>,
}

impl Pool {
    /// What packets are to have of this one, which may be gone by then.
    ///
    /// # Panics
    /// When the packet is of another pool.
    pub fn likeness(&self, packet: &Packet) -> Likeness {
        Likeness { record: packet.shown(), kept: self.kept(packet).copied() }
    }

    /// A packet like another one, of the bytes of these parts, one behind the other; `None` when no buffer is
    /// free, or they do not fit into one.
    pub fn make_like(&self, likeness: &Likeness, [first, second]: [&[u8]; 2]) -> Option<Packet> {
        let mut packet = self.allocate()?;
        let written = self.set_length(&mut packet, first.len() + second.len()).is_ok()
            && self.patch(&mut packet, 0, first).is_ok()
            && self.patch(&mut packet, first.len(), second).is_ok();
        if !written {
            self.free(packet);
            return None;
        }
        packet.edit(|record| *record = likeness.record);
        if let Some(kept) = likeness.kept
            && let Some(place) = self.keep(&mut packet)
        {
            *place = kept;
        }
        Some(packet)
    }
}
