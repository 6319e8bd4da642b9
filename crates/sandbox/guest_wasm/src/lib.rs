//! Network functions as WebAssembly sandboxes: the only crate that knows Wasmtime.
//!
//! The life of an instance:
//! 1. A [`Sandbox`] is made once for a process: the engine's configuration, the six host calls, the shells.
//! 2. [`Sandbox::compile`] turns a checked module into a [`Program`], bounded, and off the worker;
//!    [`CompileCache`] keeps the result for the next start.
//! 3. [`WasmGuest::new`] takes a shell (reserved address space with the tenant's packet window mapped), puts
//!    the program into it, and calls `sf_init`.
//! 4. [`guest::Guest::process`] writes records into private memory, calls, and reads four fields of each
//!    back.
//! 5. A call that takes longer than it may is stopped by the worker's [watchdog](crate::watchdog). One of a
//!    [`PreemptibleGuest`] is switched out when its slice is over, and goes on later.
//! 6. Between two calls an instance can be [saved](guest::Guest::save), and [`restore`] makes another one of
//!    what was saved; [`Clones`] makes many, which share memory until they write. One that will not run for a
//!    while is [frozen](guest::Guest::freeze) and gives its shell back.
//! 7. Dropping the instance clears its shell and puts it back for the next one of the same key.
//!
//! Memory of a guest, 4 GiB and a guard behind it reserved, so that no access needs a bounds check:
//!
//! ```text
//! 0            private size     2 GiB           2 GiB + pool        4 GiB + 32 MiB
//! | private RW | nothing        | window R / RW | nothing            |
//! ```
//!
//! Limits: x86-64 Linux. The 47-bit address space ends at about 32,000 instances, `vm.max_map_count` at a
//! third of its value, at a fifth when they are preemptible: each of those has a stack of its own
//! ([`FIBRE_STACK`]).

mod body;
mod clones;
mod compile_cache;
mod crash_report;
mod error;
mod frozen;
mod guest_memory;
mod hand_over;
mod host_calls;
mod instance;
mod lent_state;
mod perf_map;
mod preemptible;
mod program;
mod restore;
mod sandbox;
mod save;
mod settings;
mod shared_memory;
mod shell;
mod state;
mod succession;
mod touched;
pub mod watchdog;

pub use clones::Clones;
pub use compile_cache::{CacheError, CompileCache};
pub use crash_report::install_crash_report;
pub use error::{InstanceError, RestoreError};
pub use instance::{WasmGuest, start};
pub use preemptible::PreemptibleGuest;
pub use program::{CompileError, Program, ProgramFacts};
pub use restore::{restore, restore_sharing};
pub use sandbox::{Artifact, FIBRE_STACK, Sandbox, SandboxError};
pub use settings::{InstanceSettings, LOG_LINES, Slice};
pub use shared_memory::SharedMemory;
pub use shell::{Access, ShellCounts};
pub use touched::{make_resident, resident};
