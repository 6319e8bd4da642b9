//! A buffer without a packet: what is left of the right to it while a device has the bytes.

use std::num::NonZeroU32;

/// The right to a buffer, without a packet's metadata: eight bytes to keep for each buffer that lies in a
/// device's rings.
///
/// Not `Clone`, like [`crate::Packet`]: the owner of this value owns the buffer.
/// [`crate::Pool::take_buffers`] and [`crate::Pool::into_buffer`] make it, [`crate::Pool::into_packet`] and
/// [`crate::Pool::return_buffers`] take it back.
#[must_use = "a buffer that is dropped on the floor is lost to its pool"]
#[derive(Debug, PartialEq, Eq)]
pub struct Buffer {
    address: NonZeroU32,
    /// The number of the pool that it is of.
    pool: u16,
}

impl Buffer {
    /// Only a pool makes buffers; `address` is the guest address of one.
    #[inline]
    pub(crate) fn new(pool: u16, address: u32) -> Buffer {
        // The window does not begin at zero, so every address in it is another number.
        Buffer { address: NonZeroU32::new(address).unwrap_or(WINDOW_BEGINS), pool }
    }

    /// The number of the pool that it is of.
    #[inline]
    pub(crate) fn pool(&self) -> u16 {
        self.pool
    }

    /// Guest address of the buffer.
    #[inline]
    pub fn address(&self) -> u32 {
        self.address.get()
    }
}

const WINDOW_BEGINS: NonZeroU32 = NonZeroU32::new(nf_abi::WINDOW_BASE).unwrap();
