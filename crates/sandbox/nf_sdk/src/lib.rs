//! What the author of a network function in Rust uses: batches, packets, configuration, host calls and state,
//! without a line of `unsafe` in the function itself.
//!
//! The life of a function:
//! 1. [`NetworkFunction::new`] reads its checked configuration ([`Config`]) and makes its tables.
//! 2. [`NetworkFunction::process`] looks at a [`Batch`] and gives every [`Packet`] a [`Verdict`]. What it has
//!    to say otherwise (counters, logs, timers, packets of its own) goes through the [`Host`].
//! 3. [`NetworkFunction::timer`] runs when the deadline set by [`Host::timer_set`] has passed.
//! 4. [`NetworkFunction::report`] tells people what it knows; [`NetworkFunction::export_state`] and
//!    [`NetworkFunction::import_state`] carry its tables into another instance.
//!
//! What functions share is here too: [`headers`] reads and writes packet headers and checksums, [`fragments`]
//! puts datagrams together, [`later_fragments`] lets later ones follow their first one, [`pieces`] holds
//! parts of a stream that come in any order and overlap, and [`reorder`] those of many streams in memory that
//! is bounded. [`flow_table`] keeps flows by key in memory that is taken once; [`groups`], [`index`] and
//! [`slab`] are parts of tables of another form; the [`Secret`] of an instance keys them. [`usual`] reads and
//! rewrites the usual packet, [`wire`] corrects checksums, [`devices`] finds the MAC addresses of next hops.
//!
//! [`superfluid_function!`] turns the type into an image: on `wasm32` it makes the exports of the contract,
//! the panic handler and the allocator come with this crate. On every other target the same source is an
//! ordinary library, run by [`native::Runner`] in tests, debuggers and comparisons.
//!
//! A whole function:
//!
//! ```
//! #![cfg_attr(target_arch = "wasm32", no_std)]
//! use nf_sdk::{Batch, Config, Error, Nanos, NetworkFunction, Verdict, superfluid_function};
//!
//! /// Passes IPv4 from interface 0 to 1 and back; drops everything else (reason 0 of the manifest).
//! pub struct OnlyIpv4 {
//!     minimum: usize,
//! }
//!
//! impl NetworkFunction for OnlyIpv4 {
//!     fn new(config: &Config) -> Result<Self, Error> {
//!         Ok(OnlyIpv4 { minimum: config.integer("minimum_length")? as usize })
//!     }
//!
//!     fn process(&mut self, batch: &mut Batch<'_>, _now: Nanos) {
//!         let mut passed = 0;
//!         for mut packet in batch.packets() {
//!             let ipv4 = packet.bytes().get(12..14) == Some(&[0x08, 0x00]);
//!             if ipv4 && packet.len() >= self.minimum {
//!                 packet.verdict(Verdict::Interface(1 - packet.ingress().min(1)));
//!                 passed += 1;
//!             } else {
//!                 packet.verdict(Verdict::Drop(0));
//!             }
//!         }
//!         batch.host().counter_add(0, passed);
//!     }
//! }
//!
//! superfluid_function!(OnlyIpv4);
//!
//! // Off the sandbox, a test runs the same source:
//! # #[cfg(not(target_arch = "wasm32"))]
//! # fn main() {
//! use nf_sdk::native::{ConfigValue, Runner, TestPacket};
//! let config = ConfigValue::map([("minimum_length", ConfigValue::Integer(34))]);
//! let mut runner = Runner::<OnlyIpv4>::new(&config.to_cbor()).expect("a good configuration");
//! let mut frame = vec![0u8; 60];
//! frame[12..14].copy_from_slice(&[0x08, 0x00]);
//! let out = runner.run(&[TestPacket::new(frame, 0), TestPacket::new(vec![0; 60], 1)], Nanos(1));
//! assert_eq!(out[0].verdict, Some(Verdict::Interface(1)));
//! assert_eq!(out[1].verdict, Some(Verdict::Drop(0)));
//! assert_eq!(runner.host().counter(0), 1);
//! # }
//! ```
//!
//! Build for the sandbox with `--target wasm32-unknown-unknown`, crate type `cdylib`, `#![no_std]` and
//! `panic = "abort"`; `superfluid image build` does it.
//!
//! Limits: one thread; at most [`MAX_BATCH`] packets in a batch; a function that declares `access: read`
//! traps when it writes a packet's bytes. Functions build for 32-bit addresses: no table may reach 2 GiB.
#![no_std]

extern crate alloc;
#[cfg(not(target_arch = "wasm32"))]
extern crate std;

#[cfg(target_arch = "wasm32")]
mod allocator;
mod batch;
mod config;
pub mod devices;
mod difference;
#[doc(hidden)]
pub mod entry;
mod error;
pub mod flow_table;
pub mod fragments;
pub mod groups;
mod host;
pub mod index;
mod json;
pub mod keyed_hash;
pub mod later_fragments;
mod limiter;
mod lines;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;
mod packet;
mod packet_time;
pub mod pieces;
pub mod reorder;
mod secret;
pub mod slab;
mod slots;
mod state;
pub mod ticks;
mod tunnels;
pub mod usual;
mod window;
pub mod wire;

/// Views of packet headers, checksums, and [`dissect`](::packet::dissect), which reads all headers of a
/// frame.
pub use ::packet as headers;
pub use batch::{Batch, Packets};
pub use config::{Address, Config, File, List, Map, Prefix, Value};
pub use difference::{Change, Difference};
pub use error::Error;
pub use host::{Host, HostRefusal, Severity};
pub use json::{Json, decimal};
pub use limiter::Limiter;
pub use lines::{HalfLine, Line, QuarterLine, TableEntry, zeroed_table};
pub use nf_abi::{MAX_BATCH, PacketRecord, RANDOM, Verdict, offload, tunnel};
pub use packet::Packet;
pub use packet_time::PacketTime;
pub use secret::Secret;
pub use slots::Slot;
pub use state::{StateReader, StateWriter};

use alloc::string::String;

/// A point in time or a span, in nanoseconds. Points count from the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A span of whole milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// A span of whole seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s.saturating_mul(1_000_000_000))
    }

    /// The span from `earlier` to here, zero when `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The sum, or the largest value.
    pub const fn saturating_add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

/// A network function.
pub trait NetworkFunction: Sized {
    /// Makes an instance. The configuration has been checked against the manifest's schema; what the schema
    /// cannot say is checked here.
    ///
    /// # Errors
    /// Whatever keeps the function from working; the message reaches the operator.
    fn new(config: &Config) -> Result<Self, Error>;

    /// It was made, and nothing else has been called: what it has to say of its configuration that is no
    /// reason to refuse it. Warnings are told by `superfluid check`, too.
    fn started(&mut self, host: &mut Host) {
        let _ = host;
    }

    /// Gives every packet of the batch a verdict. A packet left without one is dropped, reason `no-verdict`.
    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos);

    /// The deadline set by [`Host::timer_set`] has passed; it is set no more.
    fn timer(&mut self, host: &mut Host, now: Nanos) {
        let _ = (host, now);
    }

    /// The program stops: gives out what it still has to, and says whether there is more.
    fn finish(&mut self, host: &mut Host, now: Nanos) -> bool {
        let _ = (host, now);
        false
    }

    /// What [`Devices`](crate::devices::Devices) tells of the devices behind the interfaces has changed.
    fn devices(&mut self, host: &mut Host, now: Nanos) {
        let _ = (host, now);
    }

    /// A file of the configuration has changed that the manifest's `differences` names: takes what has
    /// changed ([`Difference`] reads it), as much as is soon done. It is called again, in turns between which
    /// packets pass, until the answer is another one than [`Change::More`].
    fn change(&mut self, host: &mut Host, now: Nanos) -> Change {
        let _ = (host, now);
        Change::Refused
    }

    /// Appends one JSON value to `out` ([`Json`] helps); false when there is nothing to tell.
    fn report(&self, out: &mut String, now: Nanos) -> bool {
        let _ = (out, now);
        false
    }

    /// Writes the function's tables, entry by entry; false when it offers none.
    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        let _ = out;
        false
    }

    /// Takes tables of another instance over; false when it takes none or refuses them.
    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        let _ = entries;
        false
    }
}
