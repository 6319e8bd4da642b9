//! What `superfluid bench` measures: every promise of `SPECIFICATION.md` that is a number.
//!
//! The life of a measurement:
//! 1. [`Bench::from_name`] finds the bench, [`Bench::run`] runs it and reports progress.
//! 2. Sides that are compared run in turns in one process (A B A B), and the ratio is taken for each pair, so
//!    that a busy machine disturbs both alike.
//! 3. A [`Measurement`] is the median of at least [`RUNS`] runs, with the lowest and the highest.
//! 4. [`Report::to_json`] and [`Report::to_table`] show it beside its bound, which is read from
//!    `SPECIFICATION.md`.
//!
//! Functions that are compared do their work on packets that differ: 131,072 or more, so that a branch
//! predictor cannot learn their order. What they decided is checked, outside of the time that is measured.
//!
//! Limits: one thread; figures of a shared machine vary, medians and ratios less than the rest.

mod applications;
mod balancer;
mod between_hosts;
mod bond;
mod call;
mod chain;
mod compare_sides;
mod daemon;
mod death;
mod devices;
mod dpi_load;
mod dpi_rules;
mod dpi_worst;
mod feed;
mod first_touch;
mod forward;
mod frames;
mod functions;
mod groups;
mod guests;
mod hypernf;
mod ids;
mod instantiate;
mod instructions;
mod machine;
mod nat;
mod native;
mod native_guest;
mod peers;
mod policies;
mod product;
mod promises;
mod protection;
mod report;
mod router;
mod routes;
mod rss;
mod saving;
mod shape;
mod statistics;
mod stop;
mod tap;
mod tcp;
#[cfg(test)]
mod tests;
mod vm;

pub use plots::{Experiment, write_data};
pub use report::{Bound, Measurement, Report};

use plots::Page;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs behind every figure.
pub const RUNS: usize = 7;

/// Why a bench did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is no such bench.
    #[error("there is no bench `{found}`; allowed: {}", NAMES.join(", "))]
    Unknown {
        /// What was asked for.
        found: String,
    },
    /// It could not be set up.
    #[error("{0}")]
    Setup(String),
    /// The function measured did not do its work, so its time means nothing.
    #[error("not a measurement: {0}")]
    Invalid(String),
}

impl BenchError {
    pub(crate) fn setup(error: impl std::fmt::Display) -> BenchError {
        BenchError::Setup(error.to_string())
    }
}

/// The benches by name.
pub const NAMES: &[&str] = &[
    "call",
    "account",
    "functions",
    "nat",
    "balancer",
    "groups",
    "memif",
    "native",
    "ids",
    "vhost",
    "death",
    "vm",
    "chain",
    "instructions",
    "instantiate",
    "stop",
    "first-touch",
    "rss",
    "protection",
    "tap",
    "containers",
    "l7",
    "tcp",
    "applications",
    "peers",
    "compare",
    "snapshot",
    "create",
    "delete",
    "churn",
    "page",
    "density",
    "pause",
    "upgrade",
    "changes",
    "router",
    "devices",
    "policies",
    "bond",
    "hostile",
    "shares",
    "shares-cost",
    "models",
    "consolidation",
    "dynamic",
    "chain-length",
    "chain-latency",
    "scale",
    "idle",
    "load",
];

/// What a bench works on in place of what it brings along.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// A folder of captures, for `compare`.
    pub captures: Option<PathBuf>,
    /// A folder of rules, for `compare`.
    pub rules: Option<PathBuf>,
    /// A folder with a tiny kernel, for `vm`.
    pub kernel: Option<PathBuf>,
}

/// One bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// Empty calls into a guest and out of it.
    Call,
    /// Whether the account agrees with the kernel's.
    Account,
    /// Functions, sandboxed against native.
    Functions,
    /// Address translation with a million sessions.
    Nat,
    /// Load balancing.
    Balancer,
    /// Security groups with 65,536 connections.
    Groups,
    /// Between two memif ports, beside Open vSwitch.
    Memif,
    /// Native functions, beside memif and beside a wake-up for every batch.
    Native,
    /// Suricata behind memif ports, beside itself alone, AF_PACKET and NFQUEUE.
    Ids,
    /// Between two vhost-user ports, beside testpmd.
    Vhost,
    /// Native functions that are killed, and what follows them.
    Death,
    /// Images of virtual machines.
    Vm,
    /// Chains of fifty, and what the engine costs for each hop.
    Chain,
    /// Instructions of a hop.
    Instructions,
    /// From an image to the first packet answered.
    Instantiate,
    /// How soon a function that loops is stopped.
    Stop,
    /// Whether the pages that a function touches first get it stopped.
    FirstTouch,
    /// Memory of a process with a chain of fifty.
    Rss,
    /// Keeping functions from packets that they do not have.
    Protection,
    /// TCP between two TAP devices, beside the kernel's bridge.
    Tap,
    /// The same beside a bridge that filters, and beside Open vSwitch.
    Tcp,
    /// How soon a container answers.
    Containers,
    /// What a balancer of HTTP in a container takes of memory.
    LayerSeven,
    /// Applications through a firewall, beside the kernel's bridge.
    Applications,
    /// Beside DPDK, Open vSwitch and Suricata.
    Peers,
    /// What the functions find and decide, beside Suricata, tshark and nft.
    Compare,
    /// Saving, restoring, cloning and freezing.
    Snapshot,
    /// How soon the daemon's functions run.
    Create,
    /// How soon they are gone.
    Delete,
    /// Functions that come and go beside a chain.
    Churn,
    /// The page in a browser, and what it costs.
    Page,
    /// Functions that a host holds.
    Density,
    /// How soon a function stands still.
    Pause,
    /// Another image at full load.
    Upgrade,
    /// Other rules at full load.
    Changes,
    /// Another file of routes for a router at full load.
    Router,
    /// Observers, hops and changes of virtual devices.
    Devices,
    /// What devices want of ports, and what is taken off packets and put on.
    Policies,
    /// One stream over the two links of a striped bond.
    Bond,
    /// A chain beside a tenant that does what it can to be noticed.
    Hostile,
    /// How exactly processor shares are kept.
    Shares,
    /// Shares beside dear packets, and caps.
    SharesCost,
    /// HyperNF's four models side by side.
    Models,
    /// Many functions on few processors.
    Consolidation,
    /// Loads and functions that change.
    Dynamic,
    /// Throughput of chains by length.
    ChainLength,
    /// Delay of chains.
    ChainLatency,
    /// Two workers, and moves between them.
    Scale,
    /// A thousand functions that have nothing to do.
    Idle,
    /// Processor time at partial load.
    Load,
}

impl Bench {
    /// Finds a bench.
    ///
    /// # Errors
    /// [`BenchError::Unknown`].
    pub fn from_name(name: &str) -> Result<Bench, BenchError> {
        Ok(match name {
            "call" => Bench::Call,
            "account" => Bench::Account,
            "functions" => Bench::Functions,
            "nat" => Bench::Nat,
            "balancer" => Bench::Balancer,
            "groups" => Bench::Groups,
            "memif" => Bench::Memif,
            "native" => Bench::Native,
            "ids" => Bench::Ids,
            "vhost" => Bench::Vhost,
            "death" => Bench::Death,
            "vm" => Bench::Vm,
            "chain" => Bench::Chain,
            "instructions" => Bench::Instructions,
            "instantiate" => Bench::Instantiate,
            "stop" => Bench::Stop,
            "first-touch" => Bench::FirstTouch,
            "rss" => Bench::Rss,
            "protection" => Bench::Protection,
            "tap" => Bench::Tap,
            "containers" => Bench::Containers,
            "l7" => Bench::LayerSeven,
            "tcp" => Bench::Tcp,
            "applications" => Bench::Applications,
            "peers" => Bench::Peers,
            "compare" => Bench::Compare,
            "snapshot" => Bench::Snapshot,
            "create" => Bench::Create,
            "delete" => Bench::Delete,
            "churn" => Bench::Churn,
            "page" => Bench::Page,
            "density" => Bench::Density,
            "pause" => Bench::Pause,
            "upgrade" => Bench::Upgrade,
            "changes" => Bench::Changes,
            "router" => Bench::Router,
            "devices" => Bench::Devices,
            "policies" => Bench::Policies,
            "bond" => Bench::Bond,
            "hostile" => Bench::Hostile,
            "shares" => Bench::Shares,
            "shares-cost" => Bench::SharesCost,
            "models" => Bench::Models,
            "consolidation" => Bench::Consolidation,
            "dynamic" => Bench::Dynamic,
            "chain-length" => Bench::ChainLength,
            "chain-latency" => Bench::ChainLatency,
            "scale" => Bench::Scale,
            "idle" => Bench::Idle,
            "load" => Bench::Load,
            _ => return Err(BenchError::Unknown { found: name.to_owned() }),
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Bench::Call => "call",
            Bench::Account => "account",
            Bench::Functions => "functions",
            Bench::Nat => "nat",
            Bench::Balancer => "balancer",
            Bench::Groups => "groups",
            Bench::Memif => "memif",
            Bench::Native => "native",
            Bench::Ids => "ids",
            Bench::Vhost => "vhost",
            Bench::Death => "death",
            Bench::Vm => "vm",
            Bench::Chain => "chain",
            Bench::Instructions => "instructions",
            Bench::Instantiate => "instantiate",
            Bench::Stop => "stop",
            Bench::FirstTouch => "first-touch",
            Bench::Rss => "rss",
            Bench::Protection => "protection",
            Bench::Tap => "tap",
            Bench::Containers => "containers",
            Bench::LayerSeven => "l7",
            Bench::Tcp => "tcp",
            Bench::Applications => "applications",
            Bench::Peers => "peers",
            Bench::Compare => "compare",
            Bench::Snapshot => "snapshot",
            Bench::Create => "create",
            Bench::Delete => "delete",
            Bench::Churn => "churn",
            Bench::Page => "page",
            Bench::Density => "density",
            Bench::Pause => "pause",
            Bench::Upgrade => "upgrade",
            Bench::Changes => "changes",
            Bench::Router => "router",
            Bench::Devices => "devices",
            Bench::Policies => "policies",
            Bench::Bond => "bond",
            Bench::Hostile => "hostile",
            Bench::Shares => "shares",
            Bench::SharesCost => "shares-cost",
            Bench::Models => "models",
            Bench::Consolidation => "consolidation",
            Bench::Dynamic => "dynamic",
            Bench::ChainLength => "chain-length",
            Bench::ChainLatency => "chain-latency",
            Bench::Scale => "scale",
            Bench::Idle => "idle",
            Bench::Load => "load",
        }
    }

    /// Runs one of HyperNF's experiments, or of those that go with them.
    pub(crate) fn find(self, progress: &mut dyn FnMut(f64, &str)) -> Result<hypernf::Found, BenchError> {
        use hypernf::{chains, consolidation, dynamic, load, models, scale, shares, shares_cost};
        match self {
            Bench::Shares => shares::run(progress),
            Bench::SharesCost => shares_cost::run(progress),
            Bench::Models => models::run(progress),
            Bench::Consolidation => consolidation::run(progress),
            Bench::Dynamic => dynamic::run(progress),
            Bench::ChainLength => chains::length(progress),
            Bench::ChainLatency => chains::latency(progress),
            Bench::Scale => scale::run(progress),
            Bench::Idle => load::idle(progress),
            Bench::Load => load::load(progress),
            _ => Err(BenchError::Unknown { found: self.name().to_owned() }),
        }
    }

    /// Runs it. `progress` is told the fraction done and what is being measured. Those with plots give
    /// experiments too.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn run(
        self,
        inputs: &Inputs,
        progress: &mut dyn FnMut(f64, &str),
    ) -> Result<(Report, Vec<Experiment>), BenchError> {
        let (mut notes, mut experiments) = (Vec::new(), Vec::new());
        let told = |(results, words): (Vec<Measurement>, Vec<String>)| {
            notes = words;
            results
        };
        let results = match self {
            Bench::Call => call::run(progress),
            Bench::Account => hypernf::account::run(progress),
            Bench::Functions => functions::run(progress),
            Bench::Nat => nat::run(progress),
            Bench::Balancer => balancer::run(progress),
            Bench::Groups => groups::run(progress).map(told),
            Bench::Memif => peers::memif::run(progress).map(told),
            Bench::Native => native::run(progress).map(told),
            Bench::Ids => ids::run(progress).map(told),
            Bench::Vhost => peers::vhost::run(progress).map(told),
            Bench::Death => death::run(progress),
            Bench::Vm => vm::run(inputs, progress).map(told),
            Bench::Chain => chain::run(progress),
            Bench::Instantiate => instantiate::run(progress),
            Bench::Stop => stop::run(progress),
            Bench::FirstTouch => first_touch::run(progress),
            Bench::Rss => rss::run(progress),
            Bench::Protection => protection::run(progress).map(told),
            Bench::Snapshot => saving::run(progress),
            Bench::Create => daemon::create::run(progress),
            Bench::Delete => daemon::create::delete(progress),
            Bench::Churn => daemon::churn::run(progress),
            Bench::Page => daemon::page::run(progress).map(told),
            Bench::Density => daemon::density::run(progress),
            Bench::Pause => daemon::pause::run(progress),
            Bench::Upgrade => daemon::upgrade::run(progress),
            Bench::Changes => daemon::changes::run(progress),
            Bench::Router => router::run(progress).map(told),
            Bench::Policies => policies::run(progress),
            Bench::Devices => devices::run(progress).map(told),
            Bench::Bond => bond::run(progress),
            Bench::Tap => tap::run(progress),
            Bench::Containers => daemon::containers::run(progress),
            Bench::LayerSeven => daemon::layer_seven::run(progress),
            Bench::Tcp => tcp::run(progress).map(told),
            Bench::Applications => applications::run(progress).map(told),
            Bench::Hostile => daemon::hostile::run(progress).map(told),
            Bench::Instructions => instructions::run(progress).map(told),
            Bench::Peers => peers::run(progress).map(told),
            Bench::Compare => compare_sides::run(inputs, progress).map(told),
            other => other.find(progress).map(|found| {
                experiments = found.experiments;
                found.results
            }),
        }?;
        progress(1.0, "done");
        Ok((Report::new(self.name(), machine::describe(), results, notes), experiments))
    }
}

/// What `superfluid bench hypernf` runs: HyperNF's experiments and those that go with them, in the paper's
/// order.
pub const HYPERNF: &[Bench] = &[
    Bench::Models,
    Bench::Consolidation,
    Bench::Shares,
    Bench::SharesCost,
    Bench::Dynamic,
    Bench::ChainLength,
    Bench::ChainLatency,
    Bench::Scale,
    Bench::Idle,
    Bench::Load,
];

/// The page that shows experiments, for a folder: `index.html`, and each experiment's data under `data/`.
///
/// # Errors
/// What could not be written.
pub fn write_page(
    directory: &Path,
    title: &str,
    command: String,
    took: Duration,
    experiments: Vec<Experiment>,
) -> Result<(), BenchError> {
    let machine = machine::facts();
    let page = Page { title: title.to_owned(), machine, command, took, experiments };
    page.write_to(directory).map(drop).map_err(BenchError::setup)
}

/// Argument by which the program is told to be the process that a bench measures.
pub(crate) const CHILD: &str = "--measured";

/// What a process does that a bench measures. Of `rss`: sets the chain up, sends packets through it, and
/// gives its own memory in KiB. Of `instructions`: sends `arguments[2]` batches of `arguments[1]`
/// packets through `arguments[0]` functions, and gives how many packets have passed. Of `death`: is a
/// native function with `arguments[0]` MiB of memory. Of `native`: is one on processor `arguments[0]`.
///
/// # Errors
/// [`BenchError`].
pub fn child(bench: &str, arguments: &[usize]) -> Result<u64, BenchError> {
    match bench {
        "rss" => rss::child(),
        "instructions" => instructions::child(arguments),
        "death" => death::child(arguments),
        "native" => native::child(arguments),
        _ => Err(BenchError::Setup(format!("`{bench}` measures no process of its own"))),
    }
}
