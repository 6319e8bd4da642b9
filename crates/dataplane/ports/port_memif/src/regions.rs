//! Memory that the slave shares: files of the peer's that were mapped, or the one that this port made.

use crate::copying;
use crate::lent::Lent;
use crate::ring::{Descriptor, Ring};
use native_ring::SharedMemory;
use packet_memory::{Packet, Pool};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use telemetry::DropReason;

/// Highest number of a region.
pub const REGION_MAX: u16 = 15;
/// Bytes of all regions of a peer together: what it can make this process map.
pub const BYTES_MAX: u64 = 256 << 20;

/// The regions of one connection, by number.
#[derive(Clone, Debug, Default)]
pub struct Regions(Vec<Arc<SharedMemory>>);

impl Regions {
    /// Maps the next region.
    ///
    /// # Errors
    /// Another number than the next, too many bytes, or a file that is of huge pages or not sealed against
    /// shrinking: reading it could end this process.
    pub fn add(&mut self, index: u16, size: u64, file: &OwnedFd) -> Result<(), String> {
        let next = self.0.len();
        if usize::from(index) != next || index > REGION_MAX {
            return Err(format!(
                "found: region {index}; allowed: {next}, the next one, and at most {REGION_MAX}"
            ));
        }
        let mapped: u64 = self.0.iter().map(|region| region.len() as u64).sum();
        if size > BYTES_MAX - mapped {
            return Err(format!(
                "region {index}: found: {size} bytes; allowed: {} of {BYTES_MAX} in all",
                BYTES_MAX - mapped
            ));
        }
        let length = usize::try_from(size).unwrap_or(0);
        let memory = SharedMemory::map_of_peer(file, length, true)
            .map_err(|error| format!("region {index}: {error}"))?;
        self.0.push(Arc::new(memory));
        Ok(())
    }

    /// The region of this number.
    #[inline]
    pub fn get(&self, index: u16) -> Option<&Arc<SharedMemory>> {
        self.0.get(usize::from(index))
    }
}

/// Whose buffers a ring's descriptors name.
#[derive(Debug)]
pub enum Buffers {
    /// The peer's: anywhere in its regions, by what the descriptor says.
    Peers(Arc<Regions>),
    /// This port's: of `each` bytes, from `first` on, one for each entry. What the descriptor says of region
    /// and offset is not looked at.
    Own {
        /// The only region.
        memory: Arc<SharedMemory>,
        /// Where the first buffer begins.
        first: usize,
        /// Bytes of each.
        each: u32,
    },
    /// The pool's, one for each entry: packets are exchanged for them. Nothing is looked at in a descriptor
    /// but the length.
    Lent(Lent),
}

impl Buffers {
    /// Where bytes are to be copied from or to; `None`, outside of what they may lie in, or where packets are
    /// exchanged.
    #[inline]
    pub fn find(
        &self,
        ring: &Ring,
        count: u16,
        descriptor: &Descriptor,
    ) -> Option<(&SharedMemory, Range<usize>)> {
        let length = descriptor.length as usize;
        match self {
            Buffers::Peers(regions) => {
                let memory = regions.get(descriptor.region)?;
                let start = descriptor.offset as usize;
                let end = start.checked_add(length).filter(|end| *end <= memory.len())?;
                Some((memory, start..end))
            }
            Buffers::Own { memory, first, each } => {
                let start = self.start(ring, count, *first, *each);
                (descriptor.length <= *each).then_some((memory, start..start + length))
            }
            Buffers::Lent(_) => None,
        }
    }

    /// Appends what the descriptor at a count names to a packet: an empty one may be exchanged for the one
    /// that lies there.
    ///
    /// # Errors
    /// The bytes lie outside of what they may lie in, or do not fit.
    #[inline]
    pub fn append(
        &mut self,
        ring: &Ring,
        count: u16,
        descriptor: &Descriptor,
        pool: &Pool,
        packet: &mut Packet,
    ) -> Result<(), DropReason> {
        if let Buffers::Lent(lent) = self {
            return lent.append(ring.entry(count), descriptor.length, packet);
        }
        let (memory, place) = self.find(ring, count, descriptor).ok_or(DropReason::Malformed)?;
        if copying::append(pool, packet, memory, place) { Ok(()) } else { Err(DropReason::TooLong) }
    }

    /// Has the processor fetch what the buffer at a count begins with, as far as the descriptor there says,
    /// and no line but of the peer's memory. What the peer says there by the time that it counts is looked at
    /// anew then; a fetch reads nothing.
    #[inline]
    pub fn fetch(&self, ring: &Ring, count: u16, writes: bool) {
        match self {
            Buffers::Peers(regions) => {
                let descriptor = ring.read(count);
                let (memory, at) = (regions.get(descriptor.region), descriptor.offset as usize);
                if let Some(memory) = memory.filter(|memory| at < memory.len()) {
                    memory.fetch(at, writes);
                }
            }
            Buffers::Own { memory, first, each } => {
                memory.fetch(self.start(ring, count, *first, *each), writes);
                ring.fetch(count, writes);
            }
            Buffers::Lent(lent) => {
                // What is sent is not looked at.
                if !writes {
                    lent.fetch(ring.entry(count));
                }
                ring.fetch(count, writes);
            }
        }
    }

    #[inline]
    fn start(&self, ring: &Ring, count: u16, first: usize, each: u32) -> usize {
        first + ring.entry(count) * each as usize
    }

    /// The descriptor of the empty buffer at a count: the port's own, or what the peer wrote.
    #[inline]
    pub fn empty(&self, ring: &Ring, count: u16) -> Descriptor {
        match self {
            Buffers::Peers(_) => ring.read(count),
            Buffers::Own { first, each, .. } => Descriptor {
                flags: 0,
                region: 0,
                length: *each,
                offset: self.start(ring, count, *first, *each) as u32,
            },
            Buffers::Lent(lent) => lent.empty(ring.entry(count)),
        }
    }
}
