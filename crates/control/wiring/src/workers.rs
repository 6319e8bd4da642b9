//! The workers of a host and their settings.

use telemetry::clock::Nanos;

/// Most workers of a wiring.
pub const MAX_WORKERS: usize = 256;

/// The threads that call functions, and how they go about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// One or more; they are named by their place here, from 0 on.
    pub list: Vec<WorkerPlan>,
    /// Longest time that one call should take: a function whose calls take longer gets fewer packets at once.
    pub slice: Nanos,
    /// Minimum granularity: the lead in virtual runtime over a waiting instance after which the running one,
    /// or one that is handed packets, gives way.
    pub slack: Nanos,
    /// The quantum: the same, if it is longer, as long as few wait and all of them always have work.
    pub quantum: Nanos,
    /// Longest time to look for work before sleeping.
    pub spin: Nanos,
    /// Time spent looking for work, as part of the time spent working, in percent.
    pub spin_percent: u32,
    /// Longest time to sleep through what comes in, when sleeping and waking cost more than the work that
    /// wakes.
    pub moderation: Nanos,
    /// Whether functions that need not stay on a worker are moved to keep all of them busy.
    pub balance: bool,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPlan {
    /// The processors that it may run on, one or more; `None`: those that the program may run on.
    pub processors: Option<Vec<usize>>,
}

/// One worker that runs wherever the program may.
impl Default for Workers {
    fn default() -> Workers {
        Workers {
            list: vec![WorkerPlan::default()],
            slice: Nanos(100_000),
            slack: Nanos(200_000),
            quantum: Nanos(500_000),
            spin: Nanos(50_000),
            spin_percent: 12,
            moderation: Nanos(2_000_000),
            balance: true,
        }
    }
}
