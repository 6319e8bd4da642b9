//! The ends of a ring that this port has: one that it fills, one that it empties.
//!
//! Each keeps its own count in its own memory; the shared copy is written and never read back. Of the peer's
//! count one thing is believed: that it is not further away than the ring is long. Anything else ends the
//! connection.

use crate::copying;
use crate::counts;
use crate::regions::Buffers;
use crate::ring::{Descriptor, Ring};
use packet_memory::{Packet, Pool};
use std::cell::Cell;
use std::sync::atomic::AtomicU16;
use telemetry::DropReason;

/// Bytes of an Ethernet header.
const HEADER: u32 = 14;
/// So many buffers ahead are fetched into the processor's cache: the other processor has written to them.
const AHEAD: u16 = 12;

/// The peer's count is impossible, or a buffer that it offers lies outside of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what it wrote into the shared memory was impossible")]
pub struct OutOfStep;

/// Why a packet was not put into a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// There is no room for it.
    Full,
    /// See [`OutOfStep`].
    OutOfStep,
}

/// The two counts of a ring: this port's, and the peer's.
fn counts_of<'a>(ring: &'a Ring, buffers: &Buffers) -> (&'a AtomicU16, &'a AtomicU16) {
    match buffers {
        Buffers::Own { .. } | Buffers::Lent(_) => (ring.head(), ring.tail()),
        Buffers::Peers(_) => (ring.tail(), ring.head()),
    }
}

/// The end that this port fills.
#[derive(Debug)]
pub struct Sender {
    ring: Ring,
    buffers: Buffers,
    position: u16,
    /// Buffers that are known to be free: the peer's count is in a line that the peer writes to.
    known: Cell<u16>,
    /// The most room that there was.
    most_room: Cell<u16>,
}

impl Sender {
    /// The end of an empty ring.
    pub fn new(ring: Ring, buffers: Buffers) -> Sender {
        let sender = Sender { ring, buffers, position: 0, known: Cell::new(0), most_room: Cell::new(0) };
        sender.publish();
        sender
    }

    /// Buffers that may be filled.
    ///
    /// # Errors
    /// [`OutOfStep`].
    #[inline]
    pub fn room(&self) -> Result<u16, OutOfStep> {
        let (size, theirs) = (self.ring.size(), counts_of(&self.ring, &self.buffers).1);
        let room = match self.buffers {
            Buffers::Own { .. } | Buffers::Lent(_) => counts::free(size, self.position, theirs),
            Buffers::Peers(_) => counts::offered(size, self.position, theirs),
        };
        let room = room.ok_or(OutOfStep)?;
        self.known.set(room);
        self.most_room.set(self.most_room.get().max(room));
        Ok(room)
    }

    /// The same, or fewer where more than half of the most are known to be free.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn free(&self) -> Result<u16, OutOfStep> {
        let known = self.known.get();
        if known > self.most_room.get() / 2 { Ok(known) } else { self.room() }
    }

    /// Has the processor fetch the buffers for the first of so many packets.
    #[inline]
    pub fn fetch(&self, packets: usize) {
        let ahead = packets.min(AHEAD.into()) as u16;
        let known = self.known.get();
        let known = if known < ahead { self.room().unwrap_or(0) } else { known };
        for n in 0..known.min(ahead) {
            self.buffers.fetch(&self.ring, self.position.wrapping_add(n), true);
        }
    }

    /// The most room that was found so far: a peer may never offer all of a ring's buffers.
    #[inline]
    pub fn most_room(&self) -> usize {
        self.most_room.get().into()
    }

    /// Copies a packet into as many buffers as it needs, or exchanges it for one that the peer has taken. The
    /// peer sees it when it is published.
    ///
    /// # Errors
    /// [`Unsent`], and the peer sees nothing of the packet.
    #[inline]
    pub fn put(&mut self, pool: &Pool, packet: &mut Packet) -> Result<(), Unsent> {
        if let Buffers::Lent(lent) = &self.buffers {
            let parts = lent.parts(packet);
            if parts > self.known.get() && self.room().map_err(|OutOfStep| Unsent::OutOfStep)? < parts {
                return Err(Unsent::Full);
            }
            return self.lend(packet, parts);
        }
        let (length, mut at, mut used) = (packet.length() as usize, 0, 0);
        while at < length {
            if used == self.known.get() && self.room().map_err(|OutOfStep| Unsent::OutOfStep)? <= used {
                return Err(Unsent::Full);
            }
            let count = self.position.wrapping_add(used);
            if self.known.get() - used > AHEAD {
                self.buffers.fetch(&self.ring, count.wrapping_add(AHEAD), true);
            }
            let empty = self.buffers.empty(&self.ring, count);
            let (memory, mut place) =
                self.buffers.find(&self.ring, count, &empty).ok_or(Unsent::OutOfStep)?;
            if place.is_empty() {
                return Err(Unsent::OutOfStep);
            }
            place.end = place.end.min(place.start + (length - at));
            let part = place.len();
            copying::put(pool, packet, at, memory, place);
            at += part;
            let flags = if at < length { Descriptor::NEXT } else { 0 };
            self.ring.write(count, Descriptor { flags, length: part as u32, ..empty });
            used += 1;
        }
        self.position = self.position.wrapping_add(used);
        self.known.set(self.known.get() - used);
        Ok(())
    }

    /// Puts the packet itself into so many entries, which are free, in the place of the one that lies in the
    /// last of them.
    #[inline]
    fn lend(&mut self, packet: &mut Packet, parts: u16) -> Result<(), Unsent> {
        let Buffers::Lent(lent) = &mut self.buffers else { return Ok(()) };
        for part in 0..parts {
            self.ring.write(self.position.wrapping_add(part), lent.part(packet, part, part + 1 < parts));
        }
        if let Some(last) = parts.checked_sub(1) {
            lent.exchange(self.ring.entry(self.position.wrapping_add(last)), packet);
        }
        self.position = self.position.wrapping_add(parts);
        self.known.set(self.known.get() - parts);
        Ok(())
    }

    /// Shows the peer what was put.
    #[inline]
    pub fn publish(&self) {
        counts::show(counts_of(&self.ring, &self.buffers).0, self.position);
    }

    /// Whether the peer wants to be woken, after something was published.
    #[inline]
    pub fn should_wake(&self) -> bool {
        counts::should_wake(self.ring.flags())
    }
}

/// The end that this port empties.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    buffers: Buffers,
    position: u16,
    /// Up to where this port's own buffers were made ready to be filled again.
    refilled: u16,
}

impl Receiver {
    /// The end of an empty ring, which polls.
    pub fn new(ring: Ring, buffers: Buffers) -> Receiver {
        let mut receiver = Receiver { ring, buffers, position: 0, refilled: 0 };
        receiver.poll();
        receiver.release();
        receiver
    }

    /// Buffers that the peer has filled.
    ///
    /// # Errors
    /// [`OutOfStep`].
    #[inline]
    pub fn available(&self) -> Result<u16, OutOfStep> {
        let theirs = counts_of(&self.ring, &self.buffers).1;
        counts::offered(self.ring.size(), self.position, theirs).ok_or(OutOfStep)
    }

    /// Has the processor fetch the first of so many packets.
    #[inline]
    pub fn fetch(&self, packets: usize) {
        for n in 0..packets.min(AHEAD.into()) as u16 {
            self.buffers.fetch(&self.ring, self.position.wrapping_add(n), false);
        }
    }

    /// Copies the next packet, which lies in some of `available` buffers, at least one, into an empty one of
    /// the pool, if there is one, or exchanges that for it. Returns how many buffers it lay in, and its
    /// bytes, or why it was lost; some of it may be in that of the pool then.
    #[inline]
    pub fn take(
        &mut self,
        pool: &Pool,
        available: u16,
        mut into: Option<&mut Packet>,
    ) -> (u16, Result<u32, DropReason>) {
        if available > AHEAD {
            self.buffers.fetch(&self.ring, self.position.wrapping_add(AHEAD), false);
        }
        let (mut used, mut length) = (0, 0u32);
        let mut lost = if into.is_some() { None } else { Some(DropReason::NoBuffer) };
        loop {
            let count = self.position.wrapping_add(used);
            let descriptor = self.ring.read(count);
            used += 1;
            length = length.saturating_add(descriptor.length);
            if let (Some(packet), None) = (&mut into, lost) {
                lost = self.buffers.append(&self.ring, count, &descriptor, pool, packet).err();
            }
            if !descriptor.goes_on() {
                break;
            }
            // DPDK 22.11 does not clear the flag when it puts a short packet there next: two packets became
            // one.
            self.ring.write(count, Descriptor { flags: descriptor.flags & !Descriptor::NEXT, ..descriptor });
            // The rest of a packet is there with its beginning.
            if used >= available {
                lost = Some(DropReason::Malformed);
                break;
            }
        }
        self.position = self.position.wrapping_add(used);
        if length < HEADER {
            lost = Some(DropReason::Malformed);
        }
        (used, lost.map_or(Ok(length), Err))
    }

    /// Gives the buffers of taken packets back to the peer.
    #[inline]
    pub fn release(&mut self) {
        let shown = match self.buffers {
            Buffers::Peers(_) => self.position,
            Buffers::Own { .. } | Buffers::Lent(_) => {
                let end = self.position.wrapping_add(self.ring.size());
                while self.refilled != end {
                    self.ring.write(self.refilled, self.buffers.empty(&self.ring, self.refilled));
                    self.refilled = self.refilled.wrapping_add(1);
                }
                end
            }
        };
        counts::show(counts_of(&self.ring, &self.buffers).0, shown);
    }

    /// This side sleeps from now on, and wants interrupts. It looks at the ring once more before it does.
    pub fn will_sleep(&self) {
        counts::will_sleep(self.ring.flags());
    }

    /// This side polls, and wants none.
    pub fn poll(&self) {
        counts::poll(self.ring.flags());
    }
}
