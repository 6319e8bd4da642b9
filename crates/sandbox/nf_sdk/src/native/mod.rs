//! Functions outside the sandbox: the same source, called with the same batches, for tests, debuggers and
//! comparisons.
//!
//! 1. [`Runner::new`] makes the function from a configuration in CBOR ([`ConfigValue`] writes it).
//! 2. [`Runner::run`] shows it packets made by a test and tells what became of them; [`Runner::process`]
//!    shows it records and a window that the caller keeps, at the cost of a direct call.
//! 3. [`frames`] makes packets to show, [`Script`] reads them from the bytes of a fuzzer.
//! 4. [`Runner::host`] tells what the function asked of its host meanwhile; a process that runs for long
//!    takes it by [`Runner::take_told`].
//!
//! Limits: the host here refuses nothing but what is malformed; quotas and holds are the engine's.

mod config_value;
pub mod frames;
pub(crate) mod memory_host;
mod runner;
mod script;

pub use config_value::ConfigValue;
pub use memory_host::{Backend as MemoryHost, Emitted, Told};
pub use runner::{Outcome, Runner, TestPacket};
pub use script::{Script, Step};
