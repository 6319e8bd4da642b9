//! The worker: takes packets from ports, runs the functions they are for, carries out what these decide.
//!
//! The life of a worker:
//! 1. A [`Worker`] is made, and given pools, ports and instances ([`Worker::add_port`],
//!    [`Worker::add_instance`]) and what connects them ([`Worker::link`], [`Worker::observe`],
//!    [`Worker::serve`]).
//! 2. [`Worker::turn`] goes once around: poll the ports, run the instances that have work, in the order of
//!    the scheduler.
//! 3. [`Worker::step`] does so, and sleeps in the kernel when there is nothing to do. The workers of a
//!    [`Fleet`] have a thread each, and everything that is asked of them is done between two turns of all.
//! 4. A [`Tap`] is shown the packets of a port or an instance on their way ([`Worker::tap_port`]): captures.
//! 5. [`Worker::stop`] drains, drops what is still held as `held-at-stop`, closes the ports and gives the
//!    account.
//!
//! What happens to one packet, file by file, is told in `docs/packet-walk.md`; the per-packet code is
//! `hop.rs`, `forward.rs`, `queue.rs` and `classify.rs`.
//!
//! Limits: one worker owns its ports and instances; at most 65,536 of each.

mod account;
mod berth;
mod board;
mod classify;
mod congestion;
mod control;
mod detach;
mod fault;
mod fleet;
mod forward;
mod hands;
mod hop;
mod idle;
mod ids;
mod instance;
mod moves;
mod poll;
mod queue;
mod rest;
mod sparse;
mod starts;
mod stop;
mod switching;
mod takeover;
mod tap;
mod time;
mod timers;
mod wires;
mod worker;

#[cfg(test)]
mod tests;

pub use account::{Account, InstanceAccount, PortAccount, SwitchAccount};
pub use classify::classify;
pub use control::{Event, Stopped};
pub use detach::Detached;
pub use fault::{FailPolicy, RestartPolicy};
pub use fleet::{
    Balanced, Balancer, Beside, Change, End, Fleet, FleetError, FleetInstance, FleetPort, Moved, Removed,
    ThreadPlan,
};
pub use ids::{InstanceId, PoolId, PortId, ServiceId, SwitchId, Target, WireError};
pub use instance::{GuestFactory, InstanceSetup, Policies};
pub use placement::Reason;
pub use starts::{Background, StartWork, Started};
pub use takeover::{GuestSetup, TakeoverError};
pub use tap::{Passage, Tap};
pub use time::WorkerTime;
pub use worker::{Worker, WorkerSettings};
