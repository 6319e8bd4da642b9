//! What the exports of an image call: one instance, its batch area, and the host.

use crate::host::Host;
use crate::{Config, Error, NetworkFunction, RANDOM};

#[cfg(target_arch = "wasm32")]
pub use sandbox::Instance;

/// Reads the configuration and the random bytes, makes the function, and lets it say what there is to say.
pub(crate) fn make<F: NetworkFunction>(host: &mut Host) -> Result<F, Error> {
    let bytes = host.read_all(nf_abi::stream::CONFIG).map_err(|_| Error::Malformed)?;
    let mut random = [0; RANDOM];
    let length = host.read(nf_abi::stream::RANDOM, 0, &mut random);
    let random = (length == Ok(RANDOM as u32)).then_some(&random);
    let mut made = F::new(&Config::from_cbor(bytes)?.with_random(random))?;
    made.started(host);
    Ok(made)
}

/// Makes an image of a type that implements [`crate::NetworkFunction`]: the exports of the contract, on
/// `wasm32`. Elsewhere it only checks that the type does implement it.
#[macro_export]
macro_rules! superfluid_function {
    ($function:ty) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code)]
        const _: () = {
            static INSTANCE: $crate::entry::Instance<$function> = $crate::entry::Instance::new();

            #[unsafe(no_mangle)]
            extern "C" fn sf_batch() -> i32 {
                INSTANCE.batch()
            }
            #[unsafe(no_mangle)]
            extern "C" fn sf_init() -> i32 {
                INSTANCE.init()
            }
            #[unsafe(no_mangle)]
            extern "C" fn sf_process(count: u32, now: u64) {
                INSTANCE.process(count, now)
            }
            #[unsafe(no_mangle)]
            extern "C" fn sf_timer(now: u64) {
                INSTANCE.timer(now)
            }
            #[unsafe(no_mangle)]
            extern "C" fn sf_finish(now: u64) -> i32 {
                INSTANCE.finish(now)
            }
            #[unsafe(no_mangle)]
            extern "C" fn sf_devices(now: u64) {
                INSTANCE.devices(now)
            }
            #[unsafe(no_mangle)]
            extern "C" fn sf_change(now: u64) -> i32 {
                INSTANCE.change(now)
            }
            #[unsafe(no_mangle)]
            extern "C" fn sf_report(now: u64) {
                INSTANCE.report(now)
            }
            #[unsafe(no_mangle)]
            extern "C" fn sf_export_state() -> i32 {
                INSTANCE.export_state()
            }
            #[unsafe(no_mangle)]
            extern "C" fn sf_import_state() -> i32 {
                INSTANCE.import_state()
            }
        };
        const _: () = {
            const fn is_a_network_function<F: $crate::NetworkFunction>() {}
            is_a_network_function::<$function>()
        };
    };
}

#[cfg(target_arch = "wasm32")]
mod sandbox {
    // UNSAFETY: exports are called by the host, which Rust knows nothing of; they reach their instance
    // through a static. The host calls one at a time and none from within another, which is what makes the
    // one mutable reference unique.
    #![allow(unsafe_code)]

    use crate::batch::Batch;
    use crate::host::Host;
    use crate::state::{StateReader, StateWriter};
    use crate::window::Window;
    use crate::{MAX_BATCH, Nanos, NetworkFunction, PacketRecord, Severity};
    use alloc::string::String;
    use core::cell::UnsafeCell;
    use core::fmt::Write;

    /// The one instance of an image.
    pub struct Instance<F> {
        inner: UnsafeCell<Inner<F>>,
    }

    /// The records come last: as long as batches are small, their end is never touched.
    #[repr(C)]
    struct Inner<F> {
        host: Host,
        function: Option<F>,
        records: [PacketRecord; MAX_BATCH],
    }

    // SAFETY: wasm32-unknown-unknown without threads.
    unsafe impl<F> Sync for Instance<F> {}

    /// Most bytes that are logged of a panic.
    const LONGEST: usize = 512;

    /// A panic's line. What finds no room is left out.
    struct Line {
        text: [u8; LONGEST],
        used: usize,
    }

    impl core::fmt::Write for Line {
        fn write_str(&mut self, part: &str) -> core::fmt::Result {
            for (free, byte) in self.text.iter_mut().skip(self.used).zip(part.bytes()) {
                *free = byte;
                self.used += 1;
            }
            Ok(())
        }
    }

    /// Logs where it was and what it said, and traps.
    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
        let mut line = Line { text: [0; LONGEST], used: 0 };
        if let Some(location) = info.location() {
            let _ = write!(line, "panicked at {location}: {}", info.message());
        }
        let text = line.text.get(..line.used).unwrap_or_default();
        Host::in_sandbox().log_bytes(Severity::Error, text);
        core::arch::wasm32::unreachable()
    }

    impl<F: NetworkFunction> Instance<F> {
        /// Before `sf_init`.
        #[allow(clippy::new_without_default)]
        pub const fn new() -> Instance<F> {
            // SAFETY: a record is integers only, and zero is a value of every one.
            let records = unsafe { core::mem::zeroed() };
            Instance { inner: UnsafeCell::new(Inner { records, host: Host::in_sandbox(), function: None }) }
        }

        #[allow(clippy::mut_from_ref)]
        #[inline(always)]
        fn inner(&self) -> &mut Inner<F> {
            // SAFETY: called once by each export; the contract calls no export from within another.
            unsafe { &mut *self.inner.get() }
        }

        pub fn batch(&self) -> i32 {
            self.inner().records.as_ptr() as usize as i32
        }

        pub fn init(&self) -> i32 {
            let Inner { host, function, .. } = self.inner();
            match super::make(host) {
                Ok(made) => {
                    *function = Some(made);
                    0
                }
                Err(error) => {
                    error.message().lines().for_each(|line| host.log(Severity::Error, line));
                    error.number()
                }
            }
        }

        #[inline(always)]
        pub fn process(&self, count: u32, now: u64) {
            let Inner { records, host, function } = self.inner();
            if let (Some(function), Some(records)) = (function, records.get_mut(..count as usize)) {
                function.process(&mut Batch::new(records, Window::GUEST, host), Nanos(now));
                host.end_batch(records);
            }
        }

        pub fn timer(&self, now: u64) {
            let Inner { host, function, .. } = self.inner();
            if let Some(function) = function {
                function.timer(host, Nanos(now));
            }
        }

        pub fn finish(&self, now: u64) -> i32 {
            let Inner { host, function, .. } = self.inner();
            i32::from(function.as_mut().is_some_and(|function| function.finish(host, Nanos(now))))
        }

        pub fn devices(&self, now: u64) {
            let Inner { host, function, .. } = self.inner();
            if let Some(function) = function {
                function.devices(host, Nanos(now));
            }
        }

        pub fn change(&self, now: u64) -> i32 {
            let Inner { host, function, .. } = self.inner();
            let answer = function.as_mut().map(|function| function.change(host, Nanos(now)));
            answer.unwrap_or(crate::Change::Refused).number()
        }

        pub fn report(&self, now: u64) {
            let Inner { host, function, .. } = self.inner();
            let mut out = String::new();
            if function.as_ref().is_some_and(|function| function.report(&mut out, Nanos(now))) {
                let _ = host.write(nf_abi::stream::REPORT, out.as_bytes());
            }
        }

        pub fn export_state(&self) -> i32 {
            let Inner { host, function, .. } = self.inner();
            let mut out = StateWriter::new(host);
            let offered = function.as_ref().is_some_and(|function| function.export_state(&mut out));
            i32::from(!(out.finish() && offered))
        }

        pub fn import_state(&self) -> i32 {
            let Inner { host, function, .. } = self.inner();
            let mut entries = StateReader::new(host);
            i32::from(!function.as_mut().is_some_and(|function| function.import_state(&mut entries)))
        }
    }
}
