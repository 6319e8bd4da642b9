//! The six host calls, in the sandbox.
// UNSAFETY: imports are foreign functions. Each is given a range of this guest's own memory, which the host
// checks again.
#![allow(unsafe_code)]

mod imports {
    #[link(wasm_import_module = "superfluid_v1")]
    unsafe extern "C" {
        pub(super) safe fn read(stream: u32, offset: u32, address: *mut u8, capacity: usize) -> i32;
        pub(super) safe fn write(stream: u32, address: *const u8, length: usize) -> i32;
        pub(super) safe fn counter_add(index: u32, amount: u64) -> i32;
        pub(super) safe fn packet_new(slot: u32, address: *const u8, length: usize) -> i32;
        pub(super) safe fn packet_emit(slot: u32, verdict: u32, offset: i32, length: u32, mark: u64) -> i32;
        pub(super) safe fn timer_set(deadline: u64) -> i32;
    }
}

/// The host on the other side of the imports.
pub(crate) struct Backend;

impl Backend {
    #[inline(always)]
    pub(crate) fn read(&mut self, stream: u32, offset: u32, room: &mut [u8]) -> i32 {
        imports::read(stream, offset, room.as_mut_ptr(), room.len())
    }

    #[inline(always)]
    pub(crate) fn write(&mut self, stream: u32, bytes: &[u8]) -> i32 {
        imports::write(stream, bytes.as_ptr(), bytes.len())
    }

    #[inline(always)]
    pub(crate) fn counter_add(&mut self, index: u32, amount: u64) {
        imports::counter_add(index, amount);
    }

    #[inline(always)]
    pub(crate) fn packet_new(&mut self, slot: u16, bytes: &[u8]) -> i32 {
        imports::packet_new(u32::from(slot), bytes.as_ptr(), bytes.len())
    }

    #[inline(always)]
    pub(crate) fn packet_emit(
        &mut self,
        slot: u16,
        verdict: u32,
        offset: i32,
        length: u32,
        mark: u64,
    ) -> i32 {
        imports::packet_emit(u32::from(slot), verdict, offset, length, mark)
    }

    pub(crate) fn packet_bytes(&mut self, slot: u16) -> Option<&mut [u8]> {
        let mut entry = [0; 8];
        if self.read(nf_abi::stream::SLOTS, u32::from(slot), &mut entry) != 8 || entry == [0; 8] {
            return None;
        }
        let entry = u64::from_le_bytes(entry);
        let (address, length) = (entry as u32, (entry >> 32) as u32);
        // SAFETY: the host says that the packet in this slot lies there. It stays until it is emitted, which
        // needs this borrow to end, and no packet of a batch lies in the same buffer.
        Some(unsafe { core::slice::from_raw_parts_mut(address as usize as *mut u8, length as usize) })
    }

    #[inline(always)]
    pub(crate) fn timer_set(&mut self, deadline: u64) {
        imports::timer_set(deadline);
    }
}
