//! Which entity runs next on a worker, and for how long: exact shares of one core's cycles in two levels, as
//! a state machine without a clock of its own. Tenants share the worker, entities (instances, as the
//! scheduler sees them) share their tenant, each by its [`Weight`], none beyond its [`Cap`]. Worker, tenants
//! and entities are nodes of one tree, of which each waits among its parent's others.
//!
//! The life of an entity:
//! 1. [`Scheduler::add`] gives it a number in its tenant and a [`Claim`]; [`Scheduler::add_with`] does so for
//!    one that comes from another worker, with the [`Standing`] that it had there.
//! 2. [`Scheduler::activate`] says that it has work. It joins at its tenant's minimum virtual runtime, or
//!    later when it is in debt.
//! 3. [`Scheduler::pick`] takes out the entity with the smallest virtual runtime of the tenant with the
//!    smallest; [`Scheduler::hand_off`] tells whether one that packets were just handed to may run before
//!    those that wait, or whether the running one may go on.
//! 4. [`Scheduler::charge`] adds what was used on its behalf, at any time.
//! 5. When a cap is overdrawn it is throttled until the cap allows for all that it used. Meanwhile its share
//!    goes to the others. [`Scheduler::next_release`] says until when a worker without other work may sleep.
//! 6. [`Scheduler::remove`] takes it off, with its standing.
//!
//! An entity's *virtual runtime* (`vruntime`) is what it used, divided by its weight; the same holds for
//! tenants. The *minimum virtual runtime* (`min_vruntime`) is that of the one that ran last: an entity that
//! has slept joins there, so that sleep earns nothing, while a virtual runtime beyond it is a debt that no
//! sleep forgives. Virtual runtimes count 2^-32 of a cycle at default weight in 128 bits: they never
//! overflow, a charge is one multiplication, and two charges add exactly as much as their sum does.
//!
//! What is promised, and held by the tests:
//! - Of two entities that always have work neither gets ahead of the other by more than the quantum and a
//!   turn of its own and a turn of the other, in virtual runtime; so each gets its turn. This holds for the
//!   entities of a tenant and for the tenants of a worker.
//! - An entity that gets work and owes nothing, or whose tenant had none and owes nothing, waits for no other
//!   to get further ahead of it than [`SchedulerSettings::wakeup`] and a turn.
//! - An entity that has work and is not throttled runs before the worker sleeps.
//! - In any span a capped one uses at most its cap of the span and of [`SchedulerSettings::period`] and one
//!   turn. One that always has work, and whose weight entitles it to as much, uses no less in the long run.
//!
//! Virtual runtimes are computed when they are compared, not with each charge. An entity that may run is
//! granted half of [`SchedulerSettings::wakeup`], and its tenant too: until one of them has used that,
//! [`Scheduler::hand_off`] compares two numbers of cycles and nothing else. A grant is measured against the
//! minimum virtual runtime, which nothing that waits is behind and which never falls, so no bound above
//! depends on it; where a cap is to be kept there is none. Meanwhile the minimum lags by what was granted,
//! and the release of a cap is noticed that much later.
//!
//! Limits: one worker's entities. Charging and asking for a hand-off take constant time as long as waiting
//! entities are not charged; picking takes the logarithm of how many have work. Shares are exact to 1 in
//! 10^7, the rounding of a weight's reciprocal. An [`EntityId`] or [`TenantId`] that this scheduler never
//! gave out is a defect of the caller and panics; one that was removed stands for no entity until it is given
//! out again, and what is done to it has no effect.

mod bucket;
mod claim;
mod membership;
pub mod meter;
mod queue;
mod report;
mod scheduler;
mod share;
mod throttling;

#[cfg(test)]
mod tests;

pub use claim::{Cap, Claim, Weight};
pub use membership::Standing;
pub use meter::Meter;
pub use scheduler::{EntityId, FEW, Scheduler, SchedulerSettings, TenantId};
