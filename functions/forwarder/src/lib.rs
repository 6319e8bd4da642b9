//! The network function `forwarder`, compiled natively: for its tests, for its fuzz target, and to compare
//! the sandbox with. The function itself is `forwarder.c`, and `superfluid image build` makes an image of it.
//!
//! 1. [`Forwarder::new`] takes a configuration as the host hands it over, in CBOR.
//! 2. [`Forwarder::process`] shows it packets that lie in a window; verdicts come back in the records.
//! 3. [`Reading`] is what the header's readers say of a configuration, of whatever function.
//!
//! Limits: a window has at most 1 GiB.

mod native;
mod reading;

pub use reading::Reading;

use nf_abi::{PacketRecord, WINDOW_BASE, WINDOW_MAX};

/// The forwarder did not take its configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sf_init answered {code}: {}", .log.join("; "))]
pub struct Refused {
    /// What `sf_init` answered: 1 for a configuration against the schema, 2 for a rewrite without addresses,
    /// 3 for addresses in mode `swap`.
    pub code: i32,
    /// What it logged.
    pub log: Vec<String>,
}

/// A record names bytes that do not lie in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "record {index}: {length} bytes at offset {offset} of buffer {buffer:#x} lie outside of the window's {window}"
)]
pub struct OutsideWindow {
    /// Which record.
    pub index: usize,
    /// Its buffer, a guest address.
    pub buffer: u32,
    /// Its offset in bytes.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
    /// Bytes in the window.
    pub window: usize,
}

/// A native instance of the function.
#[derive(Debug)]
pub struct Forwarder {
    instance: native::Instance,
}

impl Forwarder {
    /// Makes an instance and starts it with a configuration in CBOR.
    ///
    /// # Errors
    /// [`Refused`], as the sandboxed function would refuse it.
    pub fn new(config: &[u8]) -> Result<Forwarder, Refused> {
        let mut instance = native::Instance::new(config);
        match instance.init() {
            0 => Ok(Forwarder { instance }),
            code => Err(Refused { code, log: instance.into_log() }),
        }
    }

    /// Shows it packets, in batches of at most [`nf_abi::MAX_BATCH`]. The window's first byte has the guest
    /// address [`WINDOW_BASE`].
    ///
    /// # Errors
    /// [`OutsideWindow`], before any packet is touched.
    pub fn process(
        &mut self,
        window: &mut [u8],
        records: &mut [PacketRecord],
        now: u64,
    ) -> Result<(), OutsideWindow> {
        let size = window.len().min(WINDOW_MAX as usize);
        for (index, record) in records.iter().enumerate() {
            let inside = record.buffer.checked_sub(WINDOW_BASE).is_some_and(|start| {
                u64::from(start) + u64::from(record.offset) + u64::from(record.length) <= size as u64
            });
            if !inside {
                let PacketRecord { buffer, offset, length, .. } = *record;
                return Err(OutsideWindow { index, buffer, offset, length, window: size });
            }
        }
        self.instance.process(window, records, now);
        Ok(())
    }

    /// As [`Forwarder::process`], without a look at the records: what a host does that made them itself.
    ///
    /// # Safety
    /// Every record's bytes, `length` from `buffer + offset - WINDOW_BASE` on, lie in memory behind `window`
    /// that may be read and written, and to which no reference exists.
    #[allow(unsafe_code)] // Passed on to the caller.
    #[inline]
    pub unsafe fn process_unchecked(&mut self, window: *mut u8, records: &mut [PacketRecord], now: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.instance.process_unchecked(window, records, now) }
    }
}
