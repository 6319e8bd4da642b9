//! Which buffers a process has: the engine's own list, which no process sees.
//!
//! 1. A packet that is given to the process is [`Custody::lend`]ed: the list keeps it, the process gets its
//!    number.
//! 2. A number that comes back is looked up by [`Custody::take_back`]: only what the process has comes of it,
//!    and only once.
//! 3. [`Custody::end`] gives everything out that is left, and lends nothing from then on.
//!
//! Limits: the packets of one pool, as many as the limit says.

use packet_memory::Packet;

/// What a process has. See the module's documentation.
#[derive(Debug, Default)]
pub struct Custody {
    /// Of each buffer of the pool the place in `held`, counted from one; zero: the process does not have it.
    places: Vec<u32>,
    held: Vec<Packet>,
    /// Of each place in `held` its buffer's number.
    numbers: Vec<u32>,
    limit: usize,
    ended: bool,
}

impl Custody {
    /// Nothing of a pool of so many buffers, and nothing may be lent yet.
    pub fn new(buffers: u32) -> Custody {
        Custody { places: vec![0; buffers as usize], ..Custody::default() }
    }

    /// Allows so many more buffers, or fewer.
    pub fn change_limit(&mut self, by: isize) {
        self.limit = self.limit.saturating_add_signed(by);
    }

    /// How many buffers it has.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many buffers may still be lent.
    #[inline]
    pub fn room(&self) -> usize {
        if self.ended { 0 } else { self.limit.saturating_sub(self.held.len()) }
    }

    /// Whether the process is gone, and all that it had was given back.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Notes that the process has the packet's buffer, whose number is given.
    ///
    /// # Errors
    /// The packet: the process has as many as it may, or is gone, or there is no such buffer in the pool.
    #[inline]
    pub fn lend(&mut self, number: u32, packet: Packet) -> Result<(), Packet> {
        if self.room() == 0 {
            return Err(packet);
        }
        match self.places.get_mut(number as usize) {
            // Two owners of one buffer would be a defect of the engine: the list keeps the first.
            Some(place) if *place == 0 => *place = self.held.len() as u32 + 1,
            _ => return Err(packet),
        }
        self.held.push(packet);
        self.numbers.push(number);
        Ok(())
    }

    /// The packet that the process has in the buffer of this number; `None` when it has none there, or there
    /// is no such buffer.
    #[inline]
    pub fn take_back(&mut self, number: u32) -> Option<Packet> {
        let place = self.places.get_mut(number as usize)?;
        let index = (std::mem::take(place) as usize).checked_sub(1)?;
        self.numbers.swap_remove(index);
        if let Some(&moved) = self.numbers.get(index) {
            self.places[moved as usize] = index as u32 + 1;
        }
        Some(self.held.swap_remove(index))
    }

    /// The process is gone: all that it had, to be freed.
    pub fn end(&mut self) -> Vec<Packet> {
        self.ended = true;
        self.places.fill(0);
        self.numbers.clear();
        std::mem::take(&mut self.held)
    }
}
