//! A ring in shared memory: where its words lie, and what of them is believed.
//!
//! | bytes | what | written by |
//! |---|---|---|
//! | 0 to 3 | cookie, 0x3E31F20 | the slave, once |
//! | 4, 5 | flags; bit 0: the receiver wants no interrupts | the receiver |
//! | 6, 7 | head, a count that wraps | the slave |
//! | 64, 65 | tail, a count that wraps | the master |
//! | from 128 on | descriptors of 16 bytes | both |
//!
//! From slave to master, head counts packets' descriptors that the slave has filled and tail those that the
//! master has taken. From master to slave, head counts empty buffers that the slave has put there, and tail
//! those that the master has filled.

use native_ring::SharedMemory;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;

/// The first word of each ring.
pub const COOKIE: u32 = 0x03E3_1F20;
/// Bytes in front of the descriptors.
pub const HEADER: usize = 128;
/// Bytes of a descriptor.
pub const DESCRIPTOR: usize = 16;

/// What stands in the memory of a ring, copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// [`Descriptor::NEXT`] and bits without a meaning.
    pub flags: u16,
    /// Number of the region in which the bytes are.
    pub region: u16,
    /// Bytes.
    pub length: u32,
    /// Where they begin in the region.
    pub offset: u32,
}

impl Descriptor {
    /// The packet goes on in the next descriptor.
    pub const NEXT: u16 = 1;

    /// Whether the packet goes on in the next descriptor.
    pub fn goes_on(&self) -> bool {
        self.flags & Descriptor::NEXT != 0
    }
}

/// A ring at its place.
#[derive(Clone, Debug)]
pub struct Ring {
    memory: Arc<SharedMemory>,
    offset: usize,
    size: u16,
}

impl Ring {
    /// The ring at this offset.
    ///
    /// # Errors
    /// It reaches out of the memory, begins at no multiple of eight, or has more than 2^`log2_most` entries.
    pub fn new(
        memory: &Arc<SharedMemory>,
        offset: u32,
        log2_size: u8,
        log2_most: u8,
    ) -> Result<Ring, String> {
        if log2_size > log2_most.min(14) {
            return Err(format!("found: a ring of 2^{log2_size} buffers; allowed: at most 2^{log2_most}"));
        }
        let (offset, bytes) = (offset as usize, Ring::bytes(log2_size));
        if !offset.is_multiple_of(8) || offset.checked_add(bytes).is_none_or(|end| end > memory.len()) {
            return Err(format!(
                "found: a ring of {bytes} bytes at {offset}; allowed: multiples of 8, within the {} bytes of its region",
                memory.len()
            ));
        }
        Ok(Ring { memory: memory.clone(), offset, size: 1 << log2_size })
    }

    /// Bytes of a ring.
    pub fn bytes(log2_size: u8) -> usize {
        HEADER + (DESCRIPTOR << log2_size)
    }

    /// Entries, a power of two.
    #[inline]
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Whether its cookie is there.
    pub fn has_cookie(&self) -> bool {
        self.memory.word(self.offset).load(Relaxed) == COOKIE
    }

    /// Makes an empty ring of it.
    pub fn initialise(&self) {
        self.memory.word(self.offset).store(COOKIE, Relaxed);
        for word in [self.flags(), self.head(), self.tail()] {
            word.store(0, Relaxed);
        }
    }

    /// The flags' word.
    #[inline]
    pub fn flags(&self) -> &AtomicU16 {
        self.memory.half(self.offset + 4)
    }

    /// The slave's count.
    #[inline]
    pub fn head(&self) -> &AtomicU16 {
        self.memory.half(self.offset + 6)
    }

    /// The master's count.
    #[inline]
    pub fn tail(&self) -> &AtomicU16 {
        self.memory.half(self.offset + 64)
    }

    /// Number of the entry at a count.
    #[inline]
    pub fn entry(&self, count: u16) -> usize {
        usize::from(count & (self.size - 1))
    }

    fn place(&self, count: u16) -> usize {
        self.offset + HEADER + self.entry(count) * DESCRIPTOR
    }

    /// Has the processor fetch the descriptor at a count.
    #[inline]
    pub fn fetch(&self, count: u16, writes: bool) {
        self.memory.fetch(self.place(count), writes);
    }

    /// The descriptor at a count, each word read once.
    #[inline]
    pub fn read(&self, count: u16) -> Descriptor {
        let [first, second] = self.memory.longs(self.place(count)).map(|word| word.load(Relaxed));
        Descriptor {
            flags: first as u16,
            region: (first >> 16) as u16,
            length: (first >> 32) as u32,
            offset: second as u32,
        }
    }

    /// Writes the descriptor at a count, but for its metadata.
    #[inline]
    pub fn write(&self, count: u16, descriptor: Descriptor) {
        let place = self.place(count);
        let Descriptor { flags, region, length, offset } = descriptor;
        let [first] = self.memory.longs(place);
        first.store(u64::from(flags) | u64::from(region) << 16 | u64::from(length) << 32, Relaxed);
        self.memory.word(place + 8).store(offset, Relaxed);
    }
}
