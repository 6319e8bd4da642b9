//! The memory that the kernel reads and writes, and which of its buffers the kernel has.
//!
//! The kernel names a buffer by the address of a byte in it. An address that it gives back is believed only
//! if the buffer that it lies in was lent for that: each buffer's owner is noted in a table, so that no
//! packet is ever made of a buffer that another owner has.

use crate::socket::Descriptor;
use packet_memory::{Buffer, Packet, Pool, prefetch};
use std::sync::Arc;

/// Largest chunk that kernels take on ordinary pages: a page. A larger buffer is used as if it were one such
/// chunk.
const LARGEST_CHUNK: u32 = 4096;

/// What the kernel leaves free before a received frame, beyond the headroom that it is told
/// (`XDP_PACKET_HEADROOM`, `linux/bpf.h`).
const KERNEL_HEADROOM: u32 = 256;

/// A buffer that the kernel has.
#[derive(Debug)]
struct Lent {
    buffer: Buffer,
    /// Bytes of the packet to be sent; zero when it was lent to receive into.
    length: u32,
}

/// The kernel named something that it was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotLent;

/// A pool as the kernel sees it.
#[derive(Debug)]
pub(crate) struct Umem {
    pool: Arc<Pool>,
    lent: Vec<Option<Lent>>,
    /// A buffer's bytes as a power of two.
    shift: u32,
    /// The pool is the tenant's: packets pass without a copy.
    pub is_tenants: bool,
}

impl Umem {
    pub fn new(pool: Arc<Pool>, is_tenants: bool) -> Umem {
        let lent = (0..pool.config().buffers).map(|_| None).collect();
        let shift = pool.buffer_size().trailing_zeros();
        Umem { pool, lent, shift, is_tenants }
    }

    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Bytes of the kernel's chunks.
    pub fn chunk(&self) -> u32 {
        self.pool.buffer_size().min(LARGEST_CHUNK)
    }

    /// What the kernel is to leave free before a received frame, beyond what it leaves anyway.
    pub fn headroom(&self) -> u32 {
        self.pool.config().headroom.saturating_sub(KERNEL_HEADROOM)
    }

    /// Longest frame that the kernel can receive into a buffer.
    pub fn room(&self) -> u32 {
        self.chunk().saturating_sub(self.headroom() + KERNEL_HEADROOM)
    }

    /// Lends a buffer to receive into; the address to put into the fill ring.
    #[inline]
    pub fn lend_empty(&mut self, buffer: Buffer) -> u64 {
        let address = self.pool.start_of(&buffer) as u64;
        self.put(address, Lent { buffer, length: 0 });
        address
    }

    /// Lends a packet to send; the descriptor to put into the transmit ring.
    #[inline]
    pub fn lend_packet(&mut self, packet: Packet) -> Descriptor {
        let (offset, length) = (packet.offset(), packet.length());
        let buffer = self.pool.into_buffer(packet);
        let address = self.pool.start_of(&buffer) as u64 + u64::from(offset);
        self.put(address, Lent { buffer, length });
        Descriptor { address, length, options: 0 }
    }

    /// Whether a packet lies in one chunk; the kernel sends no other.
    #[inline]
    pub fn can_send(&self, packet: &Packet) -> bool {
        let chunk = self.chunk();
        packet.offset() % chunk + packet.length() <= chunk
    }

    /// The packet that the kernel received.
    #[inline]
    pub fn take_received(&mut self, descriptor: Descriptor) -> Result<Packet, NotLent> {
        let buffer = self.take(descriptor.address, false)?.buffer;
        let offset = descriptor.address as u32 & (self.pool.buffer_size() - 1);
        self.pool.into_packet(buffer, offset, descriptor.length).map_err(|buffer| {
            self.pool.return_buffers([buffer]);
            NotLent
        })
    }

    /// The buffer that the kernel has sent, and the length of the packet in it.
    #[inline]
    pub fn take_sent(&mut self, address: u64) -> Result<(Buffer, u32), NotLent> {
        self.take(address, true).map(|Lent { buffer, length }| (buffer, length))
    }

    /// Takes everything back, once the kernel cannot reach it any more; returns how many packets it was to
    /// send.
    pub fn take_all(&mut self) -> u64 {
        let all = self.lent.iter_mut().filter_map(Option::take);
        let mut packets = 0;
        self.pool.return_buffers(all.map(|lent| {
            packets += u64::from(lent.length > 0);
            lent.buffer
        }));
        packets
    }

    /// Has the processor fetch a received packet's first bytes.
    #[inline]
    pub fn prefetch(&self, descriptor: Descriptor) {
        let at = descriptor.address as usize;
        if at < self.pool.memory().len() {
            prefetch(self.pool.memory().base().as_ptr().wrapping_add(at));
        }
    }

    #[inline]
    fn put(&mut self, address: u64, lent: Lent) {
        if let Some(place) = self.lent.get_mut((address >> self.shift) as usize) {
            *place = Some(lent);
        }
    }

    #[inline]
    fn take(&mut self, address: u64, sent: bool) -> Result<Lent, NotLent> {
        let place = self.lent.get_mut((address >> self.shift) as usize).ok_or(NotLent)?;
        match place {
            Some(lent) if (lent.length > 0) == sent => place.take().ok_or(NotLent),
            _ => Err(NotLent),
        }
    }
}
