//! Where packet bytes are.

use nf_abi::PacketRecord;

/// The packet window. In the sandbox an address is an address; elsewhere the window lies wherever its owner
/// mapped it.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    #[cfg(not(target_arch = "wasm32"))]
    base: *mut u8,
}

impl Window {
    /// The window of the sandbox this code runs in.
    #[cfg(target_arch = "wasm32")]
    pub(crate) const GUEST: Window = Window {};

    /// A window whose first byte, guest address [`nf_abi::WINDOW_BASE`], is at `base`.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn at(base: *mut u8) -> Window {
        Window { base }
    }

    /// The packet's first byte.
    #[inline(always)]
    pub(crate) fn first_byte(self, record: &PacketRecord) -> *mut u8 {
        let address = record.buffer.wrapping_add(record.offset);
        #[cfg(target_arch = "wasm32")]
        {
            address as usize as *mut u8
        }
        #[cfg(not(target_arch = "wasm32"))]
        {
            self.base.wrapping_add(address.wrapping_sub(nf_abi::WINDOW_BASE) as usize)
        }
    }
}
