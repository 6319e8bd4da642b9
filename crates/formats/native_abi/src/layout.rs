//! Where things lie in the memory of an attachment's rings.

use crate::descriptor::WORDS;

/// Fewest entries of a ring.
pub const SIZE_MIN: u32 = 64;
/// Most entries of a ring.
pub const SIZE_MAX: u32 = 32_768;

/// Bits of [`words::OWNER`] beside the thread's number (`linux/futex.h`).
pub mod owner {
    /// The thread has ended.
    pub const DIED: u32 = 0x4000_0000;
    /// The kernel is to wake what waits at the word.
    pub const WAITED_FOR: u32 = 0x8000_0000;
    /// The thread's number.
    pub const THREAD: u32 = 0x3fff_ffff;
}

/// Offsets of words of 32 bits, each in a cache line of its own so that no two sides write to one.
pub mod words {
    /// The engine writes: packets put into the ring to the process, counted.
    pub const PACKETS_TAIL: usize = 0;
    /// The process writes: packets taken out of it.
    pub const PACKETS_HEAD: usize = 0x40;
    /// The process writes: packets put into the ring to the engine.
    pub const SENT_TAIL: usize = 0x80;
    /// The engine writes: packets taken out of it.
    pub const SENT_HEAD: usize = 0xc0;
    /// The process writes: buffers put into the ring of returned buffers.
    pub const RETURNED_TAIL: usize = 0x100;
    /// The engine writes: buffers taken out of it.
    pub const RETURNED_HEAD: usize = 0x140;
    /// Not zero: the engine sleeps, or is about to, and is to be woken.
    pub const ENGINE_SLEEPS: usize = 0x180;
    /// Not zero: the process sleeps, or is about to, and is to be woken.
    pub const PROCESS_SLEEPS: usize = 0x1c0;
    /// The process writes: changes at least once in each interval of the heartbeat.
    pub const HEARTBEAT: usize = 0x200;
    /// The process writes: empty buffers asked for, counted.
    pub const WANTED: usize = 0x240;
    /// Whose the attachment is: the number of a thread of the process while it lives, as robust futexes have
    /// it (Linux, `Documentation/locking/robust-futex-ABI.rst`). The 64 bytes from here on are a robust
    /// `pthread_mutex_t` of the process's, which begins with this word. Zero: the process gives no such hint
    /// of its end.
    pub const OWNER: usize = 0x280;
    /// The engine writes: counts how often it has sent something on the socket for devices.
    pub const DEVICES: usize = 0x2c0;
    /// Not zero: the process waits for room in the ring to the engine, and is to be woken when half of it is
    /// free.
    pub const SENDER_SLEEPS: usize = 0x300;
    /// Where the first ring begins.
    pub const END: usize = 0x1000;
}

/// A ring: where its counts and entries lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Offset of the writer's count.
    pub tail: usize,
    /// Offset of the reader's count.
    pub head: usize,
    /// Offset of the first entry.
    pub entries: usize,
    /// Entries, a power of two.
    pub size: u32,
    /// Words of 64 bits in an entry.
    pub words: usize,
}

/// The memory of an attachment's three rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    size: u32,
    returned: u32,
}

impl Layout {
    /// Rings of `size` descriptors each way, and one of `returned` buffers; `None` unless both are powers of
    /// two from [`SIZE_MIN`] to [`SIZE_MAX`].
    pub fn new(size: u32, returned: u32) -> Option<Layout> {
        let allowed = |size: u32| size.is_power_of_two() && (SIZE_MIN..=SIZE_MAX).contains(&size);
        (allowed(size) && allowed(returned)).then_some(Layout { size, returned })
    }

    /// Packets to the process.
    pub fn packets(self) -> Ring {
        let (tail, head) = (words::PACKETS_TAIL, words::PACKETS_HEAD);
        Ring { tail, head, entries: words::END, size: self.size, words: WORDS }
    }

    /// Packets to the engine.
    pub fn sent(self) -> Ring {
        let entries = words::END + self.size as usize * WORDS * 8;
        Ring { tail: words::SENT_TAIL, head: words::SENT_HEAD, entries, size: self.size, words: WORDS }
    }

    /// Buffers that the process gives back: an entry is a buffer's number.
    pub fn returned(self) -> Ring {
        let entries = words::END + 2 * self.size as usize * WORDS * 8;
        let (tail, head) = (words::RETURNED_TAIL, words::RETURNED_HEAD);
        Ring { tail, head, entries, size: self.returned, words: 1 }
    }

    /// Bytes of the whole.
    pub fn bytes(self) -> usize {
        self.returned().entries + self.returned as usize * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_lie_behind_each_other_and_within_the_whole() {
        assert_eq!(Layout::new(96, 64), None);
        assert_eq!(Layout::new(64, 32), None);
        assert_eq!(Layout::new(SIZE_MAX * 2, 64), None);
        let layout = Layout::new(256, 1024).expect("allowed");
        let end = |ring: Ring| ring.entries + ring.size as usize * ring.words * 8;
        assert_eq!(layout.packets().entries, 0x1000);
        assert_eq!(end(layout.packets()), layout.sent().entries);
        assert_eq!(end(layout.sent()), layout.returned().entries);
        assert_eq!(end(layout.returned()), layout.bytes());
        assert_eq!(layout.bytes(), 0x1000 + 2 * 256 * 32 + 1024 * 8);
    }
}
