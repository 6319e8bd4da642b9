//! How making an instance and calling it fails.

use crate::perf_map::shown;
use guest::{GuestFault, LogLine};
use telemetry::clock::Nanos;
use wasmtime::{Trap, WasmBacktrace};

/// Why an instance was not made.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// No memory, no address space, no mapping.
    #[error("{name}: no memory for an instance: {reason}")]
    Memory {
        /// The function.
        name: String,
        /// What was refused.
        reason: String,
    },
    /// The image does not keep the contract.
    #[error("{name}: {reason}")]
    Contract {
        /// The function.
        name: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// It trapped or ran too long while it started.
    #[error("{name}: starting it {fault}{}", LogSuffix(.log))]
    Fault {
        /// The function.
        name: String,
        /// How it ended.
        fault: GuestFault,
        /// What it logged before.
        log: Vec<LogLine>,
    },
    /// It refused its configuration.
    #[error("{name}: sf_init answered {code}{}", LogSuffix(.log))]
    Refused {
        /// The function.
        name: String,
        /// The function's own error number.
        code: i32,
        /// What it logged before.
        log: Vec<LogLine>,
    },
}

/// Why a saved instance was not restored. Nothing was taken, or everything is given back.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It is a snapshot of another image.
    #[error("{name}: the snapshot is of image {found} (`{saved}`); allowed: one of {needed}")]
    Image {
        /// The function that should be restored.
        name: String,
        /// Name of the saved image.
        saved: String,
        /// Digest of the saved image.
        found: String,
        /// Digest of the function's image.
        needed: String,
    },
    /// It was saved under another version of the contract.
    #[error("{name}: the snapshot was saved under version {found} of the contract; allowed: {needed}")]
    Abi {
        /// The function.
        name: String,
        /// The version under which it was saved.
        found: u32,
        /// The version of this host.
        needed: u32,
    },
    /// The instance was told another configuration, of which its memory is full.
    #[error(
        "{name}: the snapshot is of an instance with another configuration ({found} bytes, {needed} are given now);          allowed: the configuration that it was saved with"
    )]
    Config {
        /// The function.
        name: String,
        /// Bytes of configuration that were saved.
        found: usize,
        /// Bytes of configuration that are given.
        needed: usize,
    },
    /// What the snapshot says cannot be of this image, or goes beyond what the instance may have.
    #[error("{name}: {reason}")]
    Content {
        /// The function.
        name: String,
        /// What was found and what is allowed.
        reason: String,
    },
    /// A held packet cannot be kept.
    #[error("{name}: the packet held in slot {slot}: {reason}")]
    Packet {
        /// The function.
        name: String,
        /// Its slot.
        slot: u16,
        /// What was found and what is allowed.
        reason: String,
    },
    /// No instance could be made.
    #[error(transparent)]
    Instance(#[from] InstanceError),
}

struct LogSuffix<'a>(&'a [LogLine]);

impl std::fmt::Display for LogSuffix<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "; it says: {}", line.text))?;
        // As Rust's allocator says it of a function that may have no more.
        if self.0.iter().any(|line| line.text.contains("memory allocation of ")) {
            f.write_str("; allowed: a larger `memory`, or less that it is to keep")?;
        }
        Ok(())
    }
}

/// How a call ended before its time.
pub(crate) fn fault(error: &wasmtime::Error, limit: Nanos) -> GuestFault {
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => GuestFault::TimedOut { limit },
        Some(trap) => {
            let trap = trap.to_string();
            GuestFault::Trap(format!("{}{}", trap.trim_start_matches("wasm trap: "), trace(error)))
        }
        None => GuestFault::Trap(error.root_cause().to_string()),
    }
}

/// Where a call ended, from the inside out: ` in A, called by B`. Empty for an image that keeps no names.
fn trace(error: &wasmtime::Error) -> String {
    let frames = error.downcast_ref::<WasmBacktrace>().map(WasmBacktrace::frames).unwrap_or_default();
    let names: Vec<String> = frames.iter().filter_map(|frame| frame.func_name()).map(shown).collect();
    if names.is_empty() { String::new() } else { format!(" in {}", names.join(", called by ")) }
}
