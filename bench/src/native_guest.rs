// UNSAFETY: native functions work on packet memory by address, which their interface makes the caller promise.
#![allow(unsafe_code)]
//! The functions without a sandbox, behind the same batch loop: records copied in, one call, answers read back and
//! checked.

use clock::{Moment, Nanos};
use nf_abi::{MAX_BATCH, PacketRecord, Verdict};
use packet_memory::{Packet, Pool};
use std::sync::Arc;

/// A function that runs natively.
pub(crate) trait NativeFunction {
    /// # Safety
    /// `window` is where the window's first byte lies, the records' extents lie in memory that nobody else uses.
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

/// A native function and the area that its records are copied to.
pub(crate) struct NativeGuest<F> {
    function: F,
    pool: Arc<Pool>,
    batch: Box<[PacketRecord; MAX_BATCH]>,
}

impl<F: NativeFunction> NativeGuest<F> {
    pub(crate) fn new(function: F, pool: Arc<Pool>) -> NativeGuest<F> {
        NativeGuest { function, pool, batch: Box::new([PacketRecord::default(); MAX_BATCH]) }
    }

    /// As `guest::Guest::process`.
    #[inline]
    pub(crate) fn process(&mut self, packets: &mut [Packet], now: Moment) {
        for (record, packet) in self.batch.iter_mut().zip(packets.iter()) {
            *record = PacketRecord { verdict: 0, ..*packet.record() };
        }
        let window = self.pool.memory().base().as_ptr();
        let records = &mut self.batch[..packets.len()];
        // SAFETY: packets' extents lie in their pool's memory, one packet owns one buffer, and this thread alone
        // uses the pool.
        unsafe { self.function.process(window, records, now.nanos) };
        let size = self.pool.buffer_size();
        let mut allowed = 0;
        for (packet, answer) in packets.iter_mut().zip(self.batch.iter()) {
            let mut verdict = answer.verdict;
            if verdict != allowed {
                if Verdict::decode(verdict).is_some() {
                    allowed = verdict;
                } else {
                    verdict = guest::BAD_VERDICT;
                }
            }
            if (answer.offset, answer.length) != (packet.offset(), packet.length())
                && !packet.set_extent(answer.offset, answer.length, size)
            {
                verdict = guest::BAD_VERDICT;
            }
            packet.edit(|record| (record.verdict, record.mark) = (verdict, answer.mark));
        }
    }
}
