// UNSAFETY: a ring is memory shared with the kernel, and its indices and entries are reached by raw pointers.
// The tests below run both sides of a ring on two threads, and run under Miri, which also sees data races:
// `cargo +nightly miri test -p port_af_xdp ring::`. Only the mapping itself is out of its reach.
#![allow(unsafe_code)]
//! One ring between us and the kernel: a producer, a consumer, and entries between them
//! (`net/xdp/xsk_queue.h`).
//!
//! Both indices only ever grow, modulo 2^32; an index modulo the ring's size, a power of two, is a place. The
//! producer writes entries first and its index afterwards (release), the consumer reads that index first
//! (acquire). Of the other side's index nothing is believed but that it is a number: what would be more than
//! the ring holds is cut to what it holds, and every place is inside the ring.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// The other side of the ring sleeps, and is to be woken by a system call (`XDP_RING_NEED_WAKEUP`).
const NEED_WAKEUP: u32 = libc::XDP_RING_NEED_WAKEUP;

/// Where the parts of a ring lie in its memory, in bytes: `struct xdp_ring_offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub producer: usize,
    pub consumer: usize,
    pub flags: usize,
    pub entries: usize,
}

impl Layout {
    /// Bytes of a ring of `size` entries of type `T`.
    pub fn length<T>(&self, size: u32) -> usize {
        self.entries + size as usize * size_of::<T>()
    }

    /// Whether all parts of a ring of `size` entries lie in `length` bytes and at places that suit their
    /// types.
    fn fits<T>(&self, size: u32, length: usize) -> bool {
        let word = size_of::<u32>();
        [self.producer, self.consumer, self.flags]
            .iter()
            .all(|&at| at.is_multiple_of(word) && at.checked_add(word).is_some_and(|end| end <= length))
            && self.entries.is_multiple_of(align_of::<T>())
            && self.length::<T>(size) <= length
    }
}

/// Memory mapped from a socket, unmapped with this value.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub base: NonNull<u8>,
    pub length: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the constructor of this value took over the mapping as its own; it is unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// The parts of a ring, for either side.
#[derive(Debug)]
struct Parts<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Keeps the memory; a test has it elsewhere.
    _mapping: Option<Mapping>,
}

// SAFETY: the memory belongs to this value (or outlives it, in tests) and has no tie to a thread.
unsafe impl<T: Send> Send for Parts<T> {}

impl<T: Copy> Parts<T> {
    /// # Safety
    /// `base` points to `length` bytes, zeroed or laid out as a ring, that live as long as this value,
    /// aligned to eight bytes, and that only the two sides of this ring access, in turns.
    unsafe fn new(
        base: NonNull<u8>,
        length: usize,
        layout: Layout,
        size: u32,
        mapping: Option<Mapping>,
    ) -> Option<Parts<T>> {
        if !size.is_power_of_two() || !layout.fits::<T>(size, length) {
            return None;
        }
        // SAFETY: `fits` made sure that all of these lie inside and are aligned.
        unsafe {
            Some(Parts {
                producer: base.add(layout.producer).cast(),
                consumer: base.add(layout.consumer).cast(),
                flags: base.add(layout.flags).cast(),
                entries: base.add(layout.entries).cast(),
                size,
                _mapping: mapping,
            })
        }
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: it lies in memory that lives as long as `self`; both sides access it as an atomic alone.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.flags.as_ref() }
    }

    /// Where the entry of an index is.
    #[inline]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: a power of two minus one as a mask leaves less than `size`, and so many entries lie in the
        // memory.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// The writing side of a ring.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    parts: Parts<T>,
    /// The next index to write to; the other side knows of those before `published`.
    next: u32,
    published: u32,
    /// The other side's index as last seen.
    consumed: u32,
}

impl<T: Copy> Producer<T> {
    /// Takes a mapped ring over; `None` when it does not fit its mapping.
    pub fn new(mapping: Mapping, layout: Layout, size: u32) -> Option<Producer<T>> {
        // SAFETY: the mapping is a ring of the kernel's and lives in the value that is made.
        let parts = unsafe { Parts::new(mapping.base, mapping.length, layout, size, Some(mapping)) }?;
        Some(Producer::of(parts))
    }

    fn of(parts: Parts<T>) -> Producer<T> {
        let next = parts.producer().load(Ordering::Relaxed);
        let consumed = parts.consumer().load(Ordering::Acquire);
        Producer { parts, next, published: next, consumed }
    }

    /// How many entries can be written, looked up anew when fewer than `wanted` were known of.
    #[inline]
    pub fn room(&mut self, wanted: u32) -> u32 {
        let known = self.parts.size - self.behind().min(self.parts.size);
        if known >= wanted {
            return known;
        }
        // Acquire: what we write next must not overtake the other side's last reading of that place.
        self.consumed = self.parts.consumer().load(Ordering::Acquire);
        self.parts.size - self.behind().min(self.parts.size)
    }

    #[inline]
    fn behind(&self) -> u32 {
        self.next.wrapping_sub(self.consumed)
    }

    /// Writes an entry; false, and nothing is written, when the ring is full as far as [`Producer::room`]
    /// last saw.
    #[inline]
    #[must_use]
    pub fn push(&mut self, entry: T) -> bool {
        if self.behind() >= self.parts.size {
            return false;
        }
        // SAFETY: the place lies in the ring, and the other side does not read it before the index is
        // published.
        unsafe { self.parts.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Lets the other side know of what was written.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.next {
            self.parts.producer().store(self.next, Ordering::Release);
            self.published = self.next;
        }
    }

    /// Published entries that the other side has not taken.
    #[inline]
    pub fn pending(&self) -> u32 {
        let consumed = self.parts.consumer().load(Ordering::Acquire);
        self.published.wrapping_sub(consumed).min(self.parts.size)
    }

    /// Whether the other side is to be woken.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.parts.flags().load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// The reading side of a ring.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    parts: Parts<T>,
    /// The next index to read.
    next: u32,
    /// The other side's index as last seen.
    produced: u32,
}

impl<T: Copy> Consumer<T> {
    /// Takes a mapped ring over; `None` when it does not fit its mapping.
    pub fn new(mapping: Mapping, layout: Layout, size: u32) -> Option<Consumer<T>> {
        // SAFETY: the mapping is a ring of the kernel's and lives in the value that is made.
        let parts = unsafe { Parts::new(mapping.base, mapping.length, layout, size, Some(mapping)) }?;
        Some(Consumer::of(parts))
    }

    fn of(parts: Parts<T>) -> Consumer<T> {
        let next = parts.consumer().load(Ordering::Relaxed);
        Consumer { parts, next, produced: next }
    }

    /// How many entries there are to read, looked up anew when fewer than `wanted` were known of.
    #[inline]
    pub fn available(&mut self, wanted: u32) -> u32 {
        let known = self.produced.wrapping_sub(self.next);
        if known >= wanted {
            return known;
        }
        // Acquire: the entries were written before the index.
        let produced = self.parts.producer().load(Ordering::Acquire);
        let available = produced.wrapping_sub(self.next).min(self.parts.size);
        self.produced = self.next.wrapping_add(available);
        available
    }

    /// The entry `ahead` of the next one, without taking it; `None` beyond what [`Consumer::available`] last
    /// saw.
    #[inline]
    pub fn peek(&self, ahead: u32) -> Option<T> {
        if ahead >= self.produced.wrapping_sub(self.next) {
            return None;
        }
        // SAFETY: the place lies in the ring; the other side wrote it before it published an index behind it,
        // and does not write it again before `release`.
        Some(unsafe { self.parts.entry(self.next.wrapping_add(ahead)).read() })
    }

    /// Takes the next entry; `None` beyond what [`Consumer::available`] last saw.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let entry = self.peek(0)?;
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the places of the entries taken back to the other side.
    #[inline]
    pub fn release(&mut self) {
        self.parts.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };

    /// Memory of a ring that both sides keep alive.
    #[derive(Clone)]
    struct Shared(Arc<Vec<u64>>);

    impl Shared {
        fn new(size: u32) -> Shared {
            Shared(Arc::new(vec![0; LAYOUT.length::<u64>(size) / 8]))
        }

        fn base(&self) -> NonNull<u8> {
            NonNull::new(self.0.as_ptr().cast_mut().cast()).expect("memory")
        }

        fn parts(&self, size: u32) -> Parts<u64> {
            // SAFETY: the tests keep `Shared` longer than the parts, and go at it by the two sides of a ring
            // alone.
            unsafe { Parts::new(self.base(), self.0.len() * 8, LAYOUT, size, None) }.expect("it fits")
        }

        fn index(&self, at: usize) -> &AtomicU32 {
            // SAFETY: aligned, inside, and atomic on every side.
            unsafe { self.base().add(at).cast().as_ref() }
        }
    }

    #[test]
    fn entries_arrive_in_order_over_threads() {
        let size = 4;
        let shared = Shared::new(size);
        // Beginning just before the indices turn over.
        for at in [LAYOUT.producer, LAYOUT.consumer] {
            shared.index(at).store(u32::MAX - 5, Ordering::Relaxed);
        }
        let total: u64 = if cfg!(miri) { 60 } else { 100_000 };
        let mut producer = Producer::of(shared.parts(size));
        let mut consumer = Consumer::of(shared.parts(size));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 0;
                while next < total {
                    for _ in 0..producer.room(3).min(3) {
                        if next < total {
                            assert!(producer.push(next * 7));
                            next += 1;
                        }
                    }
                    producer.publish();
                    std::thread::yield_now();
                }
            });
            let mut next = 0;
            while next < total {
                for ahead in 0..consumer.available(2) {
                    assert_eq!(consumer.peek(ahead), Some((next + u64::from(ahead)) * 7));
                }
                while let Some(entry) = consumer.pop() {
                    assert_eq!(entry, next * 7);
                    next += 1;
                }
                consumer.release();
                std::thread::yield_now();
            }
        });
    }

    #[test]
    fn a_full_ring_takes_no_more() {
        let shared = Shared::new(2);
        let mut producer = Producer::of(shared.parts(2));
        let mut consumer = Consumer::of(shared.parts(2));
        assert_eq!(producer.room(8), 2);
        assert!(producer.push(1) && producer.push(2) && !producer.push(3));
        assert_eq!((producer.pending(), consumer.available(1)), (0, 0), "nothing was published yet");
        producer.publish();
        assert_eq!((producer.pending(), consumer.available(1)), (2, 2));
        assert_eq!((consumer.pop(), producer.room(1)), (Some(1), 0), "taken, not given back");
        consumer.release();
        assert_eq!((producer.room(1), producer.pending()), (1, 1));
        assert_eq!((consumer.pop(), consumer.pop()), (Some(2), None));
    }

    #[test]
    fn an_impossible_index_stays_inside_of_the_ring() {
        let shared = Shared::new(4);
        let (mut producer, mut consumer) = (Producer::of(shared.parts(4)), Consumer::of(shared.parts(4)));
        for wild in [5, 1 << 31, u32::MAX, 77] {
            shared.index(LAYOUT.producer).store(wild, Ordering::Release);
            assert!(consumer.available(u32::MAX) <= 4);
            while consumer.pop().is_some() {}
            shared.index(LAYOUT.consumer).store(wild, Ordering::Release);
            assert!(producer.room(u32::MAX) <= 4);
            assert!(producer.pending() <= 4);
            for _ in 0..10 {
                let _ = producer.push(1);
            }
        }
    }

    #[test]
    fn the_kernels_flag_is_seen() {
        let shared = Shared::new(2);
        let producer = Producer::of(shared.parts(2));
        assert!(!producer.needs_wakeup());
        shared.index(LAYOUT.flags).store(NEED_WAKEUP, Ordering::Relaxed);
        assert!(producer.needs_wakeup());
    }

    #[test]
    fn a_layout_that_leaves_the_memory_is_refused() {
        let shared = Shared::new(4);
        let length = shared.0.len() * 8;
        let refused = |layout: Layout, size: u32| {
            // SAFETY: as in `parts`.
            unsafe { Parts::<u64>::new(shared.base(), length, layout, size, None) }.is_none()
        };
        assert!(refused(LAYOUT, 8) && refused(LAYOUT, 3) && refused(LAYOUT, 0));
        assert!(refused(Layout { producer: length, ..LAYOUT }, 4));
        assert!(refused(Layout { consumer: 65, ..LAYOUT }, 4));
        assert!(refused(Layout { flags: usize::MAX - 3, ..LAYOUT }, 4));
        assert!(refused(Layout { entries: 196, ..LAYOUT }, 4));
    }
}
