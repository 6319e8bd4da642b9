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
//! What happens to one packet, file by file, is told in `docs/packet-walk.md`: the data path is the folder
//! `path`, what it works on `state`, how a worker's thread sleeps `parking`. What is done to a worker between
//! two turns is in `control`, and to all workers together in `fleet`.
//!
//! Limits: one worker owns its ports and instances; at most 65,536 of each.

mod control;
mod fleet;
mod forwarding;
mod ids;
mod parking;
mod path;
mod state;
mod worker;

#[cfg(test)]
mod tests;

pub use control::account::{
    Account, DeviceAccount, InstanceAccount, PortAccount, PortDevicesAccount, SwitchAccount,
};
pub use control::detach::Detached;
pub use control::events::{Event, Stopped};
pub use control::fault::{FailPolicy, RestartPolicy};
pub use control::starts::{Background, StartWork, Started};
pub use control::takeover::{GuestSetup, Offered, TakeoverError};
pub use control::tap::{Onward, Passage, Tap};
pub use fleet::{
    Balanced, Balancer, Beside, Change, End, Fleet, FleetError, FleetInstance, FleetObserver, FleetPort,
    Moved, Place, Removed, RemovedPort, ThreadPlan,
};
pub use forwarding::Forwarding;
pub use ids::{InstanceId, PoolId, PortId, ServiceId, SwitchId, Target, WireError};
pub use path::classify::classify;
pub use path::observers::View;
pub use placement::Reason;
pub use state::accounting::WorkerTime;
pub use state::instances::{GuestFactory, InstanceSetup, Policies};
pub use worker::{Worker, WorkerSettings};
