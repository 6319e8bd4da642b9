//! Work that takes long, done beside the packet workers on behalf of tenants: starts of functions,
//! compilation, exports of state, dry runs. A packet worker that did it itself would keep every other
//! function of its core waiting.
//!
//! The life of a job:
//! 1. [`Offload::submit`] puts it into the queue of its tenant, or says why not ([`Refused`]): the jobs that
//!    wait are bounded by tenant. [`Offload::run`] does so too and blocks the caller until the job has a
//!    result; [`Offload::slot`] waits for a thread and keeps it, for work in several steps.
//! 2. A thread of the pool takes it when it is the tenant's turn (see below). A job that has to wait for
//!    something, another job's result say, gives up its place meanwhile ([`waiting`]): a further thread
//!    serves, and there are as many as before once it goes on and a thread has nothing to do.
//! 3. The processor time that the thread used for it is charged to the tenant. What a job used elsewhere, in
//!    a child process say, is added by [`Offload::charge`].
//! 4. [`Offload::usage`] tells what a tenant used, what waits, what was refused.
//!
//! Which job is next is decided by [`queue::FairQueue`], a state machine without a clock of its own:
//! - Tenants with fewer running jobs go first; among them the one that used the least processor time. A
//!   tenant that had no work joins at the present, so that idle time earns nothing.
//! - One tenant never occupies all threads: at most one fewer than there are. So the first job of a tenant
//!   waits for one job of another tenant at most, if no third tenant has work.
//! - A token bucket holds each tenant to its [`Share`] of a core. A tenant that has overdrawn it waits until
//!   the share allows for what was used; other tenants are not affected. The time of a job is charged at its
//!   end, so one burst can overdraw by the length of the jobs that run at once.
//!
//! The threads run at a raised nice value ([`Settings::nice`]). With the default of 15 a thread has 36 where
//! a packet worker has 1,024, so a worker that has work preempts it when it wakes, and loses at most 3.4% of
//! a core to each thread that wants the same core at the same time. The idle class is not used: a worker that
//! polls without a pause would starve it for ever, along with the locks that it may hold.
//!
//! Limits: a job is not interrupted; what it calls must have a limit of its own (`sf_init` has one of 5 s),
//! or is done [`Apart`].
//! Dropping the [`Offload`] drops the jobs that wait; those that run go on to their end on their own. A panic
//! in a job is caught where panics unwind, and the thread goes on.

mod apart;
mod pool;
mod queue;
mod share;

#[cfg(test)]
mod tests;

pub use apart::{Apart, NoResult};
pub use pool::{Offload, Refused, Settings, Slot, charge_job, processor_time, waiting};
pub use queue::Usage;
pub use share::Share;
