// UNSAFETY: native functions work on packet memory by address, which their interface makes the caller
// promise.
#![allow(unsafe_code)]
//! The functions without a sandbox: they work on the packets' own records, in place. Copies of the records,
//! and checks of what comes back, are needed by sandboxes alone.

use guest::{Answers, Frozen, Guest, GuestFault, Kept, NotFrozen, Progress, SaveError};
use nf_abi::PacketRecord;
use packet_memory::{Packet, Pool};
use std::sync::Arc;
use telemetry::clock::{Moment, Nanos};

/// A function that runs natively.
pub(crate) trait NativeFunction {
    /// # Safety
    /// `window` is where the window's first byte lies, the records' extents lie in memory that no other code
    /// uses.
    unsafe fn process(&mut self, window: *mut u8, records: &mut [PacketRecord], now: Nanos);
}

impl<F: nf_sdk::NetworkFunction> NativeFunction for nf_sdk::native::Runner<F> {
    #[inline]
    unsafe fn process(&mut self, window: *mut u8, records: &mut [PacketRecord], now: Nanos) {
        // SAFETY: the caller's promise.
        unsafe { nf_sdk::native::Runner::process(self, window, records, nf_sdk::Nanos(now.0)) }
    }
}

impl NativeFunction for forwarder::Forwarder {
    #[inline]
    unsafe fn process(&mut self, window: *mut u8, records: &mut [PacketRecord], now: Nanos) {
        // SAFETY: the caller's promise.
        unsafe { self.process_unchecked(window, records, now.0) }
    }
}

/// A native function.
pub(crate) struct NativeGuest<F> {
    function: F,
    pool: Arc<Pool>,
    /// It keeps and makes no packets; the engine asks all the same.
    kept: Kept,
}

impl<F: NativeFunction> NativeGuest<F> {
    pub(crate) fn new(function: F, pool: Arc<Pool>) -> NativeGuest<F> {
        NativeGuest { function, pool, kept: Kept::nothing() }
    }

    /// One call; what the function decides is in the packets' records.
    #[inline]
    pub(crate) fn call(&mut self, packets: &mut [Packet], now: Moment) {
        let window = self.pool.memory().base().as_ptr();
        // SAFETY: a packet is its record and nothing else (`repr(transparent)`), and the functions that are
        // measured leave buffer and pool of a record as they are.
        let records = unsafe {
            std::slice::from_raw_parts_mut(packets.as_mut_ptr().cast::<PacketRecord>(), packets.len())
        };
        // SAFETY: packets' extents lie in their pool's memory, one packet owns one buffer, and this thread
        // alone uses the pool.
        unsafe { self.function.process(window, records, now.nanos) };
    }
}

impl<F: NativeFunction + Send + 'static> Guest for NativeGuest<F> {
    fn process(&mut self, packets: &mut [Packet], now: Moment) -> Result<Progress, GuestFault> {
        self.call(packets, now);
        Ok(Progress::Done(Answers::of(packets)))
    }
    fn observe(&mut self, _packets: &[Packet], _now: Moment) -> Result<(), GuestFault> {
        Err(GuestFault::Contract("a native function observes nothing".to_owned()))
    }
    fn kept(&self) -> &Kept {
        &self.kept
    }
    fn kept_mut(&mut self) -> &mut Kept {
        &mut self.kept
    }
    fn timer(&mut self, _now: Moment) -> Result<(), GuestFault> {
        Ok(())
    }
    fn report(&mut self, _now: Moment) -> Result<Option<String>, GuestFault> {
        Ok(None)
    }
    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        Ok(None)
    }
    fn import_state(&mut self, _state: Vec<u8>) -> Result<bool, GuestFault> {
        Ok(false)
    }

    fn freeze(self: Box<Self>) -> Result<Box<dyn Frozen>, NotFrozen> {
        Err(NotFrozen { guest: self, error: SaveError::Unable })
    }
}
