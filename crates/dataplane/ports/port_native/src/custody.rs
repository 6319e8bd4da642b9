//! Which buffers a process has: the engine's own list, which no process sees.
//!
//! 1. A packet that is given to the process is [lent](Batch::lend): the list keeps what there is to it beside
//!    its bytes, the process gets its buffer's number.
//! 2. A number that comes back is looked up by [`Batch::take_back`]: only what the process has comes of it,
//!    and only once.
//! 3. [`Custody::end`] gives everything out that is left, and lends nothing from then on.
//!
//! There is a place for each buffer of the pool: 32 bytes, half a line, and no other one is read.
//!
//! Limits: the packets of one pool, as many as the limit says.

use nf_abi::PacketRecord;
use packet_memory::{Buffer, Packet, Pool};

/// What is left of a packet while a process has its buffer.
#[derive(Debug)]
pub struct Lent {
    /// The right to the buffer.
    pub buffer: Buffer,
    pub(crate) packet: Described,
}

/// A packet's extent, and what was said of its checksum and its segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Described {
    pub offset: u32,
    pub length: u32,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
    pub offload_flags: u8,
    pub gso_type: u8,
}

impl Lent {
    /// Of a packet; headers that were taken off it are forgotten.
    ///
    /// # Panics
    /// When it is of another pool.
    #[inline(always)]
    pub fn of(packet: Packet, pool: &Pool) -> Lent {
        let PacketRecord { offload_flags, gso_type, gso_size, csum_start, csum_offset, .. } =
            *packet.record();
        let (offset, length) = (packet.offset(), packet.length());
        let described =
            Described { offset, length, gso_size, csum_start, csum_offset, offload_flags, gso_type };
        Lent { buffer: pool.into_buffer(packet), packet: described }
    }
}

/// What there is for a buffer of the pool.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Place {
    /// `None`: the process does not have it, and the rest is of an earlier packet.
    buffer: Option<Buffer>,
    packet: Described,
}

const _: () = assert!(size_of::<Place>() == 32);

/// What a process has. See the module's documentation.
#[derive(Debug, Default)]
pub struct Custody {
    /// Of each buffer of the pool.
    places: Vec<Place>,
    held: usize,
    limit: usize,
    ended: bool,
}

impl Custody {
    /// Nothing of a pool of so many buffers, and nothing may be lent yet.
    pub fn new(buffers: u32) -> Custody {
        Custody { places: (0..buffers).map(|_| Place::default()).collect(), ..Custody::default() }
    }

    /// Allows so many more buffers, or fewer.
    pub fn change_limit(&mut self, by: isize) {
        self.limit = self.limit.saturating_add_signed(by);
    }

    /// How many buffers it has.
    pub fn len(&self) -> usize {
        self.held
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// How many buffers may still be lent.
    #[inline]
    pub fn room(&self) -> usize {
        if self.ended { 0 } else { self.limit.saturating_sub(self.held) }
    }

    /// Whether the process is gone, and all that it had was given back.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// What lends and takes back many, and counts them when it is dropped.
    #[inline(always)]
    pub fn batch(&mut self) -> Batch<'_> {
        // As many as it may have can have become fewer than it has.
        let left = if self.ended { 0 } else { self.limit as isize - self.held as isize };
        Batch { before: left, left, held: &mut self.held, places: &mut self.places }
    }

    /// The process is gone: all that it had, to be given back to the pool.
    pub fn end(&mut self) -> Vec<Buffer> {
        (self.ended, self.held) = (true, 0);
        self.places.iter_mut().filter_map(|place| place.buffer.take()).collect()
    }
}

/// What a process has, for many numbers one behind the other: how many it has is kept at hand.
#[derive(Debug)]
pub struct Batch<'a> {
    places: &'a mut [Place],
    held: &'a mut usize,
    /// How many more it might have when this was made, and now.
    before: isize,
    left: isize,
}

impl Batch<'_> {
    /// Notes that the process has the buffer of this number.
    ///
    /// # Errors
    /// What was to be lent: the process has as many as it may, or is gone, or there is no such buffer in the
    /// pool.
    #[inline(always)]
    pub fn lend(&mut self, number: u32, lent: Lent) -> Result<(), Lent> {
        match self.places.get_mut(number as usize) {
            // Two owners of one buffer would be a defect of the engine: the list keeps the first.
            Some(place @ Place { buffer: None, .. }) if self.left > 0 => {
                (place.buffer, place.packet) = (Some(lent.buffer), lent.packet);
            }
            _ => return Err(lent),
        }
        self.left -= 1;
        Ok(())
    }

    /// What the process has by this number; `None` when it does not have that buffer, or there is none.
    #[inline(always)]
    pub fn take_back(&mut self, number: u32) -> Option<Lent> {
        let place = self.places.get_mut(number as usize)?;
        let buffer = place.buffer.take()?;
        self.left += 1;
        Some(Lent { buffer, packet: place.packet })
    }
}

impl Drop for Batch<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.held = self.held.wrapping_add_signed(self.before - self.left);
    }
}
