//! What an instance is given.

use guest::SlotConfig;
use nf_abi::RANDOM;
use telemetry::clock::Nanos;

/// What an instance is given beside its program.
#[derive(Clone, Debug)]
pub struct InstanceSettings {
    /// The checked configuration in CBOR.
    pub config: Vec<u8>,
    /// Bounds on packets it keeps.
    pub slots: SlotConfig,
    /// Longest time of one call with packets; of a preemptible one over all of its stretches, without the
    /// time for which it was switched out.
    pub max_call: Nanos,
    /// Longest time of `sf_init` and of handing state over.
    pub max_control_call: Nanos,
    /// Most bytes of private memory, if that is less than the manifest allows.
    pub memory: Option<u64>,
    /// Bytes of private memory that are populated when it starts, at most `memory`; `None`: what it has when
    /// `sf_init` has come to its end, if that is 2 MiB or more.
    pub resident: Option<u64>,
    /// Switches calls with packets out when a stretch has lasted this long; `None` lets each run to its end.
    pub preemptible: Option<Slice>,
    /// Most log lines between two collections.
    pub log_lines: usize,
    /// What it reads as `nf_abi::stream::RANDOM`; `None`: bytes that are drawn for each start. Only what has
    /// to come out the same again, a test say, sets them: they are secrets of the tables that they key.
    pub random: Option<[u8; RANDOM]>,
}

/// [`InstanceSettings::log_lines`] of a function that runs.
pub const LOG_LINES: usize = 64;

/// How long a call runs before it is switched out. Shorter ones than 1 us are as long as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice(pub Nanos);

impl Default for InstanceSettings {
    fn default() -> InstanceSettings {
        InstanceSettings {
            config: vec![0xa0], // An empty map.
            slots: SlotConfig { quota: 64, longest_hold: Nanos::from_millis(1000) },
            max_call: Nanos::from_millis(10),
            max_control_call: Nanos::from_millis(5000),
            memory: None,
            resident: None,
            preemptible: None,
            log_lines: LOG_LINES,
            random: None,
        }
    }
}
