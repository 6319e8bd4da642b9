// UNSAFETY: the function is C code, called through the interface that `include/superfluid.h` declares. Miri
// runs no foreign code; the fuzz target runs all of this with an address sanitizer instead.
#![allow(unsafe_code)]
//! The host's side of a native instance: what `struct sf_native` of the header asks for.

use nf_abi::{MAX_BATCH, PacketRecord, error, stream};
use std::ffi::c_void;

/// Longest text of one log line, as in the sandbox.
const LONGEST_LINE: usize = 1024;

/// `struct sf_native`.
#[repr(C)]
struct Native {
    records: *mut PacketRecord,
    window: *mut u8,
    state: *mut c_void,
    context: *mut c_void,
    read: extern "C" fn(*mut c_void, u32, u32, *mut c_void, u32) -> i32,
    write: extern "C" fn(*mut c_void, u32, *const c_void, u32) -> i32,
    counter_add: extern "C" fn(*mut c_void, u32, u64) -> i32,
    packet_new: extern "C" fn(*mut c_void, u32, *const c_void, u32) -> u32,
    packet_emit: extern "C" fn(*mut c_void, u32, u32, i32, u32, u64) -> i32,
    timer_set: extern "C" fn(*mut c_void, u64) -> i32,
}

unsafe extern "C" {
    static forwarder_sf_state_size: u32;
    fn forwarder_sf_enter(native: *mut Native);
    fn forwarder_sf_init() -> i32;
    fn forwarder_sf_process(count: u32, now: u64);
}

/// Sixty-four bytes of the function's state, aligned as the header promises.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

#[derive(Debug)]
struct Host {
    config: Vec<u8>,
    log: Vec<String>,
}

/// A native instance: its state, and its host.
#[derive(Debug)]
pub(crate) struct Instance {
    state: Vec<Line>,
    host: Host,
}

impl Instance {
    pub(crate) fn new(config: &[u8]) -> Instance {
        // SAFETY: a constant of the C side, never written.
        let size = unsafe { forwarder_sf_state_size } as usize;
        Instance {
            state: vec![Line([0; 64]); size.div_ceil(64)],
            host: Host { config: config.to_vec(), log: Vec::new() },
        }
    }

    pub(crate) fn init(&mut self) -> i32 {
        let mut native = self.native(std::ptr::null_mut(), &mut []);
        // SAFETY: `native` outlives the call and is what the header asks for; sf_init looks at no packet.
        unsafe {
            forwarder_sf_enter(&mut native);
            forwarder_sf_init()
        }
    }

    pub(crate) fn process(&mut self, window: &mut [u8], records: &mut [PacketRecord], now: u64) {
        // SAFETY: `Forwarder::process` made sure that every record's bytes lie in the window, which is
        // borrowed here.
        unsafe { self.process_unchecked(window.as_mut_ptr(), records, now) }
    }

    /// # Safety
    /// As for `Forwarder::process_unchecked`.
    #[inline]
    pub(crate) unsafe fn process_unchecked(
        &mut self,
        window: *mut u8,
        records: &mut [PacketRecord],
        now: u64,
    ) {
        for batch in records.chunks_mut(MAX_BATCH) {
            let count = batch.len() as u32;
            let mut native = self.native(window, batch);
            // SAFETY: `native` outlives the call; records and state are borrowed by it alone; the caller
            // answers for the window.
            unsafe {
                forwarder_sf_enter(&mut native);
                forwarder_sf_process(count, now);
            }
        }
    }

    pub(crate) fn into_log(self) -> Vec<String> {
        self.host.log
    }

    fn native(&mut self, window: *mut u8, records: &mut [PacketRecord]) -> Native {
        Native {
            records: records.as_mut_ptr(),
            window,
            state: self.state.as_mut_ptr().cast(),
            context: (&raw mut self.host).cast(),
            read,
            write,
            counter_add,
            packet_new,
            packet_emit,
            timer_set,
        }
    }
}

extern "C" fn read(
    context: *mut c_void,
    which: u32,
    offset: u32,
    address: *mut c_void,
    capacity: u32,
) -> i32 {
    if which != stream::CONFIG {
        return error::STREAM;
    }
    // SAFETY: the context is the `Host` of the instance that is being called, and no other code uses it
    // meanwhile.
    let config = unsafe { &(*context.cast::<Host>()).config };
    let rest = config.get(offset as usize..).unwrap_or_default();
    let count = rest.len().min(capacity as usize);
    // SAFETY: the function answers for `capacity` bytes at `address`, as a C caller does.
    unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), address.cast(), count) };
    i32::try_from(config.len()).unwrap_or(error::LIMIT)
}

extern "C" fn write(context: *mut c_void, which: u32, address: *const c_void, length: u32) -> i32 {
    if !(stream::LOG_ERROR..=stream::LOG_DEBUG).contains(&which) {
        return error::STREAM;
    }
    // SAFETY: as in `read`.
    let log = unsafe { &mut (*context.cast::<Host>()).log };
    // SAFETY: the function answers for `length` bytes at `address`.
    let text = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), length as usize) };
    log.push(String::from_utf8_lossy(&text[..text.len().min(LONGEST_LINE)]).into_owned());
    0
}

// The forwarder names no counters, keeps no packets and sets no timers; it is refused what it does not ask
// for.

extern "C" fn counter_add(_context: *mut c_void, _index: u32, _amount: u64) -> i32 {
    error::COUNTER
}

extern "C" fn packet_new(_context: *mut c_void, _slot: u32, _address: *const c_void, _length: u32) -> u32 {
    0
}

extern "C" fn packet_emit(
    _context: *mut c_void,
    _slot: u32,
    _verdict: u32,
    _offset: i32,
    _length: u32,
    _mark: u64,
) -> i32 {
    error::SLOT
}

extern "C" fn timer_set(_context: *mut c_void, _deadline: u64) -> i32 {
    0
}
