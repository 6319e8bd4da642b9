// UNSAFETY: packet bytes are copied through raw pointers, because a guest may change them at the same time.
// Its memory is a file's mapping, which Miri and Kani do not know; `tests/ownership.rs` holds it to a model.
#![allow(unsafe_code)]
//! A pool: one memory file cut into buffers of one size.

use crate::free_list::FreeList;
use crate::kept::KeptHeaders;
use crate::pool_id::PoolId;
use crate::{Buffer, MemoryFile, Packet, PageKind};
use std::io;

/// Size of a buffer: a power of two from 2 KiB to 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferSize(u32);

impl BufferSize {
    /// The default, for frames of up to 1,500 bytes of payload.
    pub const DEFAULT: BufferSize = BufferSize(2 << 10);
    /// The largest, for segments that the kernel has not cut yet.
    pub const LARGEST: BufferSize = BufferSize(64 << 10);

    /// `None` unless it is a power of two from 2 KiB to 64 KiB.
    pub const fn new(bytes: u32) -> Option<BufferSize> {
        if bytes.is_power_of_two() && bytes >= 2 << 10 && bytes <= 64 << 10 {
            Some(BufferSize(bytes))
        } else {
            None
        }
    }

    /// In bytes.
    pub const fn bytes(self) -> u32 {
        self.0
    }
}

/// What a pool is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of buffers.
    pub buffers: u32,
    /// Size of each.
    pub buffer_size: BufferSize,
    /// Bytes left free at least before a received packet, for functions that put a header in front.
    pub headroom: u32,
    /// The pages to use; `None` takes huge pages when the host has enough free, else ordinary ones.
    pub pages: Option<PageKind>,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig { buffers: 8192, buffer_size: BufferSize::DEFAULT, headroom: 128, pages: None }
    }
}

/// Why a pool was not made.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The configuration names no possible pool.
    #[error(
        "a pool of {buffers} buffers of {size} bytes with {headroom} bytes of headroom is not possible: {why}"
    )]
    Impossible {
        /// Buffers asked for.
        buffers: u32,
        /// Bytes in each.
        size: u32,
        /// Headroom asked for.
        headroom: u32,
        /// What is allowed.
        why: &'static str,
    },
    /// There are as many pools as can be told apart.
    #[error("a pool more than the 32,767 that a process can have")]
    Many,
    /// The kernel refused the memory.
    #[error("{bytes} bytes of packet memory on {pages:?} pages: {source}")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// The pages they were to come from.
        pages: PageKind,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Bytes in a cache line.
const LINE: u32 = 64;

/// As many as cost no more than a tenth of a buffer. The largest buffers are for segments that fill them, and
/// have one.
fn colours(config: PoolConfig) -> u32 {
    match config.buffer_size.bytes() - config.headroom {
        room if config.buffer_size == BufferSize::LARGEST || room < 1920 => 1,
        room if room < 4800 => 4,
        _ => 8,
    }
}

/// The bytes do not fit into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{length} bytes do not fit into the {room} bytes of a buffer")]
pub struct TooLong {
    /// Bytes to be stored.
    pub length: usize,
    /// Bytes that the buffer has room for.
    pub room: usize,
}

/// A tenant's packet memory.
#[derive(Debug)]
pub struct Pool {
    name: String,
    /// Carried by all packets and buffers of this pool.
    id: PoolId,
    memory: MemoryFile,
    config: PoolConfig,
    /// What makes the place of a packet's first line of the buffer's number, in bytes.
    line_shift: u32,
    line_mask: u32,
    /// Guest addresses of free buffers.
    free: FreeList,
    pub(crate) kept: KeptHeaders,
}

impl Pool {
    /// Makes a pool.
    ///
    /// # Errors
    /// [`PoolError`]: impossible numbers, or no memory.
    pub fn new(name: &str, config: PoolConfig) -> Result<Pool, PoolError> {
        let size = config.buffer_size.bytes();
        let bytes = u64::from(config.buffers) * u64::from(size);
        let impossible =
            |why| PoolError::Impossible { buffers: config.buffers, size, headroom: config.headroom, why };
        if config.buffers == 0 || bytes > u64::from(nf_abi::WINDOW_MAX) {
            return Err(impossible("allowed: at least one buffer, 1 GiB in all"));
        }
        if config.headroom > size / 2 {
            return Err(impossible("allowed: headroom of up to half a buffer"));
        }
        let bytes = bytes as usize;
        let make = |pages| {
            MemoryFile::new(&format!("superfluid-pool-{name}"), bytes, pages)
                .map_err(|source| PoolError::Memory { bytes, pages, source })
        };
        let memory = match config.pages {
            Some(pages) => make(pages)?,
            None => make(PageKind::Huge).or_else(|_| make(PageKind::Ordinary))?,
        };
        // The lowest buffer on top: fresh pools are used from their beginning.
        let free = (0..config.buffers).rev().map(|n| nf_abi::WINDOW_BASE + n * size).collect();
        let line_shift = config.buffer_size.bytes().trailing_zeros() - LINE.trailing_zeros();
        let line_mask = (colours(config) - 1) * LINE;
        let (name, id) = (name.to_owned(), PoolId::new().ok_or(PoolError::Many)?);
        let free = FreeList::new(free);
        Ok(Pool { name, id, memory, config, line_shift, line_mask, free, kept: KeptHeaders::default() })
    }

    /// The tenant's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the pool was made to.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Bytes in a buffer.
    #[inline]
    pub fn buffer_size(&self) -> u32 {
        self.config.buffer_size.bytes()
    }

    /// Most bytes that a received packet may have.
    #[inline]
    pub fn room(&self) -> u32 {
        self.buffer_size() - self.config.headroom - self.line_mask
    }

    /// A fresh packet in a buffer. Packets of neighbouring buffers begin in different cache lines of their
    /// buffers: buffers are a power of two apart, and their first lines would all compete for the same few
    /// sets of the cache.
    #[inline]
    fn fresh(&self, buffer: u32) -> Packet {
        let colour = (buffer >> self.line_shift) & self.line_mask;
        Packet::new(self.id.number(), buffer, self.config.headroom + colour)
    }

    /// The memory behind the pool, to map it into a guest.
    pub fn memory(&self) -> &MemoryFile {
        &self.memory
    }

    /// Free buffers.
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Takes a buffer.
    pub fn allocate(&self) -> Option<Packet> {
        let mut packet = None;
        self.free.take(1, |buffers| buffers.for_each(|buffer| packet = Some(self.fresh(buffer))));
        packet
    }

    /// Takes up to `wanted` buffers and appends them to `out`; returns how many there were.
    pub fn allocate_batch(&self, wanted: usize, out: &mut Vec<Packet>) -> usize {
        self.free.take(wanted, |buffers| out.extend(buffers.map(|buffer| self.fresh(buffer))))
    }

    /// Takes a buffer back.
    ///
    /// # Panics
    /// When the packet is of another pool: a defect of the caller.
    pub fn free(&self, packet: Packet) {
        self.free_batch([packet]);
    }

    /// Takes many buffers back; cheaper than one by one.
    ///
    /// # Panics
    /// When a packet is of another pool.
    pub fn free_batch(&self, packets: impl IntoIterator<Item = Packet>) {
        let buffer = |packet: Packet| {
            assert!(packet.pool() == self.id.number(), "a packet of another pool");
            packet.buffer()
        };
        self.free.put(packets.into_iter().map(buffer));
    }

    /// Takes up to `wanted` buffers without making packets of them, and appends them to `out`; returns how
    /// many there were.
    pub fn take_buffers(&self, wanted: usize, out: &mut Vec<Buffer>) -> usize {
        let own = |buffer| Buffer::new(self.id.number(), buffer);
        self.free.take(wanted, |buffers| out.extend(buffers.map(own)))
    }

    /// Takes buffers back.
    ///
    /// # Panics
    /// When a buffer is of another pool: a defect of the caller.
    pub fn return_buffers(&self, buffers: impl IntoIterator<Item = Buffer>) {
        self.free.put(buffers.into_iter().map(|buffer| {
            assert!(buffer.pool() == self.id.number(), "a buffer of another pool");
            buffer.address()
        }));
    }

    /// Where the buffer begins in [`Pool::memory`], in bytes; for a buffer of another pool, anywhere.
    #[inline]
    pub fn start_of(&self, buffer: &Buffer) -> usize {
        buffer.address().wrapping_sub(nf_abi::WINDOW_BASE) as usize
    }

    /// Makes a packet of a buffer into which a device wrote `length` bytes from its byte `offset` on.
    ///
    /// # Errors
    /// The buffer, when these reach out of it or it is of another pool.
    #[inline]
    pub fn into_packet(&self, buffer: Buffer, offset: u32, length: u32) -> Result<Packet, Buffer> {
        let mut packet = Packet::new(buffer.pool(), buffer.address(), 0);
        let fits = packet.set_extent(offset, length, self.buffer_size());
        if fits && buffer.pool() == self.id.number() { Ok(packet) } else { Err(buffer) }
    }

    /// Takes the metadata off a packet, for a driver that hands the buffer to a device.
    ///
    /// # Panics
    /// When the packet is of another pool.
    #[inline]
    pub fn into_buffer(&self, packet: Packet) -> Buffer {
        self.locate(&packet);
        Buffer::new(packet.pool(), packet.buffer())
    }

    /// Host address of the packet's first byte, good for `packet.length()` bytes and for as long as the pool
    /// lives.
    ///
    /// # Panics
    /// When the packet is of another pool.
    #[inline]
    pub fn data(&self, packet: &Packet) -> *mut u8 {
        let start = self.locate(packet);
        // SAFETY: `locate` made sure that the buffer lies in the mapping, and a packet's extent lies in its
        // buffer.
        unsafe { self.memory.base().as_ptr().add(start + packet.offset() as usize) }
    }

    /// Copies bytes of the packet, from its byte `at` on, into `out`; returns how many there were.
    #[inline]
    pub fn read(&self, packet: &Packet, at: usize, out: &mut [u8]) -> usize {
        let count = (packet.length() as usize).saturating_sub(at).min(out.len());
        // SAFETY: `at + count` is at most the packet's length, which lies in its buffer; `out` is ours and
        // elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.data(packet).wrapping_add(at).cast_const(),
                out.as_mut_ptr(),
                count,
            )
        };
        count
    }

    /// The packet's first `N` bytes, copied, and how many of them are the packet's; what follows them is what
    /// its buffer holds, or zero. Copies a fixed number of bytes, hence quicker than [`Pool::read`].
    #[inline]
    pub fn head<const N: usize>(&self, packet: &Packet) -> ([u8; N], usize) {
        let length = (packet.length() as usize).min(N);
        if packet.offset() as usize + N <= self.buffer_size() as usize {
            // SAFETY: `N` bytes from the packet's first one on lie in its buffer.
            return (unsafe { self.data(packet).cast::<[u8; N]>().read_unaligned() }, length);
        }
        let mut head = [0; N];
        self.read(packet, 0, &mut head);
        (head, length)
    }

    /// The packet's first `N` bytes, copied; `None` when it has fewer.
    #[inline(always)]
    pub fn first<const N: usize>(&self, packet: &Packet) -> Option<[u8; N]> {
        let begin = self.data(packet);
        // SAFETY: the packet has so many bytes, and lies in its buffer.
        (packet.length() as usize >= N).then(|| unsafe { begin.cast::<[u8; N]>().read_unaligned() })
    }

    /// Four bytes of the packet, from its byte `at` on, copied; `None` when it ends before.
    #[inline]
    pub fn word(&self, packet: &Packet, at: usize) -> Option<[u8; 4]> {
        if at.checked_add(4).is_none_or(|end| end > packet.length() as usize) {
            return None;
        }
        // SAFETY: the four bytes lie in the packet, which lies in its buffer.
        Some(unsafe { self.data(packet).add(at).cast::<[u8; 4]>().read_unaligned() })
    }

    /// The packet's bytes, copied.
    pub fn to_vec(&self, packet: &Packet) -> Vec<u8> {
        let mut bytes = vec![0; packet.length() as usize];
        self.read(packet, 0, &mut bytes);
        bytes
    }

    /// Makes `bytes` the packet's contents, from its offset on.
    ///
    /// # Errors
    /// [`TooLong`], and the packet is unchanged.
    #[inline]
    pub fn write(&self, packet: &mut Packet, bytes: &[u8]) -> Result<(), TooLong> {
        self.set_length(packet, bytes.len())?;
        // SAFETY: the packet's extent, just checked, lies in its buffer; `bytes` cannot be in the pool, to
        // which no reference is ever formed.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.data(packet), bytes.len()) };
        Ok(())
    }

    /// Sets the packet's length, its bytes being what the buffer holds.
    ///
    /// # Errors
    /// [`TooLong`], and the packet is unchanged.
    ///
    /// # Panics
    /// When the packet is of another pool.
    #[inline]
    pub fn set_length(&self, packet: &mut Packet, length: usize) -> Result<(), TooLong> {
        assert!(packet.pool() == self.id.number(), "a packet of another pool");
        let offset = packet.offset();
        let fits = u32::try_from(length).is_ok_and(|l| packet.set_extent(offset, l, self.buffer_size()));
        if fits { Ok(()) } else { Err(TooLong { length, room: (self.buffer_size() - offset) as usize }) }
    }

    /// Overwrites bytes inside the packet, from its byte `at` on.
    ///
    /// # Errors
    /// [`TooLong`] when they reach beyond its end, and the packet is unchanged.
    #[inline]
    pub fn patch(&self, packet: &mut Packet, at: usize, bytes: &[u8]) -> Result<(), TooLong> {
        let length = packet.length() as usize;
        if at.checked_add(bytes.len()).is_none_or(|end| end > length) {
            return Err(TooLong { length: bytes.len(), room: length.saturating_sub(at) });
        }
        // SAFETY: the range was just checked to lie in the packet, which lies in its buffer.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.data(packet).wrapping_add(at), bytes.len())
        };
        Ok(())
    }

    /// Gives the packet another beginning: `bytes` in the place of its first `removes` bytes.
    ///
    /// # Errors
    /// [`TooLong`] when there is no room in front of it, or it has no so many bytes, and the packet is
    /// unchanged; also when a checksum that is still to be completed begins in what goes.
    #[inline]
    pub fn replace_front(&self, packet: &mut Packet, removes: usize, bytes: &[u8]) -> Result<(), TooLong> {
        let (offset, length) = (packet.offset() as usize, packet.length() as usize);
        let moved = (offset + removes).checked_sub(bytes.len()).zip(length.checked_sub(removes));
        let fits = moved.is_some_and(|(offset, rest)| {
            packet.set_extent(offset as u32, (rest + bytes.len()) as u32, self.buffer_size())
        });
        if !fits {
            return Err(TooLong { length: bytes.len(), room: offset + removes });
        }
        self.patch(packet, 0, bytes)
    }

    /// A second packet with the same bytes and metadata; `None` when no buffer is free.
    ///
    /// # Panics
    /// When the packet is of another pool.
    pub fn duplicate(&self, packet: &Packet) -> Option<Packet> {
        self.locate(packet);
        let mut copy = self.allocate()?;
        // A header put in front of the packet may have used headroom: the copy begins where it does.
        assert!(
            copy.set_extent(packet.offset(), packet.length(), self.buffer_size()),
            "it fits its own buffer"
        );
        self.fill(&mut copy, self, packet);
        Some(copy)
    }

    /// Copies bytes, metadata and what is kept into a packet of this pool that is as long.
    #[inline]
    fn fill(&self, copy: &mut Packet, other: &Pool, packet: &Packet) {
        copy.edit(|record| *record = *packet.record());
        let (from, to) = (other.data(packet).cast_const(), self.data(copy));
        // SAFETY: both extents lie in their buffers; two pools are two mappings, and within one pool two
        // packets own two buffers.
        unsafe { std::ptr::copy_nonoverlapping(from, to, copy.length() as usize) };
        self.keep_the_same(other, packet, copy);
    }

    /// Copies a packet of another pool (another tenant's) into one of this pool, marks cleared.
    ///
    /// Returns `None` when no buffer is free.
    ///
    /// # Errors
    /// [`TooLong`] when the packet does not fit into this pool's buffers.
    pub fn copy_from(&self, other: &Pool, packet: &Packet) -> Result<Option<Packet>, TooLong> {
        let (length, room) = (packet.length() as usize, self.room() as usize);
        if length > room {
            return Err(TooLong { length, room });
        }
        let mut copy = self.allocate();
        copy.iter_mut().for_each(|copy| self.copy_into(copy, other, packet));
        Ok(copy)
    }

    /// The same into a fresh packet of this pool, for many of them.
    ///
    /// # Panics
    /// When the packet is longer than the [`Pool::room`] of this pool, or either is of another pool than is
    /// said.
    #[inline]
    pub fn copy_into(&self, copy: &mut Packet, other: &Pool, packet: &Packet) {
        assert!(self.set_length(copy, packet.length() as usize).is_ok(), "a packet that is too long");
        self.fill(copy, other, packet);
        copy.clear_marks();
    }

    /// Copies of packets of another pool into this one, appended to `out`: of the first ones that fit into
    /// its buffers, at most so many, and as many as there are buffers. Buffers are taken at once: for each by
    /// itself, what was written before would have to reach memory first.
    ///
    /// # Panics
    /// When packets are of another pool than is said.
    #[inline]
    pub fn copy_batch(&self, other: &Pool, packets: &[Packet], most: usize, out: &mut Vec<Packet>) {
        let (first, room) = (out.len(), self.room());
        let fitting = packets.iter().filter(|packet| packet.length() <= room).take(most);
        self.allocate_batch(fitting.clone().count(), out);
        out.iter_mut().skip(first).zip(fitting).for_each(|(copy, it)| self.copy_into(copy, other, it));
    }

    /// Where the packet's buffer begins in the memory file.
    #[inline]
    pub(crate) fn locate(&self, packet: &Packet) -> usize {
        let start = packet.buffer().wrapping_sub(nf_abi::WINDOW_BASE) as usize;
        assert!(
            packet.pool() == self.id.number()
                && start + self.buffer_size() as usize <= self.memory.len()
                && packet.offset() + packet.length() <= self.buffer_size(),
            "a packet of another pool"
        );
        start
    }
}
