//! The packets of one call.

use crate::host::Host;
use crate::packet::Packet;
use crate::window::Window;
use crate::{MAX_BATCH, Nanos, PacketRecord};

/// Up to [`MAX_BATCH`] packets, and the host for the time of the call.
pub struct Batch<'a> {
    records: &'a mut [PacketRecord],
    window: Window,
    host: &'a mut Host,
}

impl<'a> Batch<'a> {
    #[inline(always)]
    pub(crate) fn new(records: &'a mut [PacketRecord], window: Window, host: &'a mut Host) -> Batch<'a> {
        debug_assert!(records.len() <= MAX_BATCH);
        Batch { records, window, host }
    }

    /// How many packets there are, at most [`MAX_BATCH`].
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// There is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The latest time that a packet is stamped with.
    #[inline(always)]
    pub fn newest(&self) -> Nanos {
        Nanos(self.records.iter().map(|record| record.timestamp).max().unwrap_or(0))
    }

    /// The packets in order. May be walked more than once; an iterator costs a pointer.
    #[inline(always)]
    pub fn packets(&mut self) -> Packets<'_> {
        Packets::new(self.records, self.window)
    }

    /// One packet.
    ///
    /// # Panics
    /// When there is no packet `index`.
    #[inline(always)]
    pub fn packet(&mut self, index: usize) -> Packet<'_> {
        Packet::new(&mut self.records[index], self.window)
    }

    /// The host.
    #[inline(always)]
    pub fn host(&mut self) -> &mut Host {
        self.host
    }

    /// Packets and host side by side, for functions that call the host while they walk the packets.
    #[inline(always)]
    pub fn split(&mut self) -> (Packets<'_>, &mut Host) {
        (Packets::new(self.records, self.window), self.host)
    }
}

/// Walks the packets of a batch.
pub struct Packets<'a> {
    records: core::slice::IterMut<'a, PacketRecord>,
    window: Window,
}

impl<'a> Packets<'a> {
    #[inline(always)]
    fn new(records: &'a mut [PacketRecord], window: Window) -> Packets<'a> {
        Packets { records: records.iter_mut(), window }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Packet<'a>> {
        let window = self.window;
        self.records.next().map(|record| Packet::new(record, window))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.records.size_hint()
    }
}

impl ExactSizeIterator for Packets<'_> {}
