//! Runs a network function that is written with `nf_sdk` as a native process: the same source that is an
//! image of the sandbox, with a `main` of one line.
//!
//! ```no_run
//! # use nf_sdk::{Batch, Config, Error, Nanos, NetworkFunction};
//! # struct OnlyIpv4;
//! # impl NetworkFunction for OnlyIpv4 {
//! #     fn new(_: &Config) -> Result<Self, Error> { Ok(OnlyIpv4) }
//! #     fn process(&mut self, _: &mut Batch<'_>, _: Nanos) {}
//! # }
//! # const MANIFEST: &str = "";
//! fn main() -> std::process::ExitCode {
//!     // The text is that of the function's `function.yaml`.
//!     nf_native::main::<OnlyIpv4>(MANIFEST)
//! }
//! ```
//!
//! The life of such a process:
//! 1. Its arguments are the sockets of its interfaces, in the order of its manifest (those at the end that
//!    may have no wire may be left out), and where its configuration is: YAML, checked as the platform checks
//!    a function's `config` ([`options`](USAGE)).
//! 2. It attaches to the ports, which have to be of one tenant, and writable if its manifest says `access:
//!    write`.
//! 3. Batches of packets are shown to the function where they lie. Verdicts are carried out: what goes to an
//!    interface is sent by its port, what is held stays the process's, all else is given back and counted.
//!    Packets of the function's own get buffers that the engine gives.
//! 4. Its timer runs when it is due. What it logs is on standard error, events are on standard output, a line
//!    each, and at the end, or from time to time, an account in JSON.
//! 5. What is behind its interfaces (link, addresses, gateways, neighbours) it is told as in the sandbox, and
//!    what it asks for is asked by the port.
//! 6. When a port is closed the function gives out what it still has to (`finish`), and the process ends with
//!    status 0, to be started again.
//!
//! Limits: no services and changed files; no state is carried over. Half as many packets are held as
//! the first port lends. 128 KiB of output are written in a second: what is beyond is lost and counted.
//! Packets have the time at which they were taken as their time of reception.

mod account;
mod configuration;
mod error;
mod options;
mod output;
mod packets;
mod ports;
mod process;
mod slots;

pub use error::StartError;
pub use options::USAGE;

use nf_sdk::NetworkFunction;
use std::process::ExitCode;

/// Runs a function with this process's arguments, until a port is closed. `manifest` is the text of its
/// `function.yaml`.
pub fn main<F: NetworkFunction>(manifest: &str) -> ExitCode {
    match run::<F>(manifest, std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The same with these arguments.
///
/// # Errors
/// [`StartError`]: why it does not start.
pub fn run<F: NetworkFunction>(
    manifest: &str,
    arguments: impl Iterator<Item = String>,
) -> Result<(), StartError> {
    let manifest = configuration::manifest(manifest)?;
    let options = options::Options::read(arguments, &manifest)?;
    let ports = ports::Ports::attach(&options.sockets, &manifest)?;
    let config = configuration::read(&manifest, options.config.as_deref(), ports.told())?;
    let process = process::Process::<F>::start(manifest, &config, ports, &options)?;
    process.run();
    Ok(())
}
