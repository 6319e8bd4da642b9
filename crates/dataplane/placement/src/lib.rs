//! On which worker each function and each port is, so that no core is short of time while another has some to
//! spare, and chains stay together as long as they can: a state machine that is told what each part used and
//! says which parts move.
//!
//! The life of a placement:
//! 1. The caller numbers its functions and ports and draws their [`Graph`]: which are wired to each other,
//!    which are pinned, which must stay together, and, when a wiring follows another, where each is already.
//! 2. [`Placement::new`] gives each a worker: pins first, then whatever is wired to them, then what stays
//!    where it was, then whole components, the largest first, each where there are fewest functions.
//! 3. [`Placement::observe`] is told every period (some milliseconds to a fifth of a second) how much of a
//!    core each part used. It smooths that and answers with one [`Move`] at most, which the caller carries
//!    out before the next period.
//! 4. A move that could not be carried out is taken back by [`Placement::refused`].
//! 5. When the wiring changes, a new placement takes over from [`Placement::worker_of`].
//!
//! What is moved as one is a *unit*: a function, the ports that it alone feeds or is fed by, and its
//! observers. Units that wires connect are a *component*; those of them that are on one worker, and connected
//! there, a *piece*. A component is *torn* when it has more than one piece.
//!
//! What moves, in this order:
//! - *Relief.* A worker is short of time from 80% on. Then the piece moves that leaves the busier of the two
//!   workers least busy, or several small ones if that is better by far; to the least busy worker, or to one
//!   where another piece of its component is when that is nearly as good.
//! - *A cut*, when no piece as a whole brings relief: one side of a wire moves, of the wire that divides
//!   best. A component is never cut into more pieces than there are workers; beyond that its borders shift.
//! - *A join.* A piece goes to another of its component where both fit without using more than 60% of the
//!   worker. The distance between 60% and 80% is the hysteresis: what a join brings together is not soon torn
//!   again.
//!
//! - *Help*, only for callers that ask for it with [`Placement::help`] after an observation, and is worth it
//!   when periods are a few milliseconds: a worker without any time left in the last period gives whole
//!   components to one that had some, so that the busier of both is least busy. They may be moved again by
//!   the next relief.
//!
//! What keeps moves rare, and is held by the tests:
//! - A relief makes the busier of two workers less busy by a tenth of a core at least, a cut by 15%, so
//!   neither just exchanges their roles. With loads that do not change moves come to an end, because what a
//!   join brings about is never reason for a relief.
//! - Loads are medians of three periods, smoothed: one odd period moves nothing.
//! - After a move both workers are left alone until their loads are measured anew, and the component for a
//!   cooldown, twice as long each time that it has to move again soon.
//! - Once moves have ended, the busiest of w workers has less than 80%, or at most 2w/(w+1) times what it
//!   would have in the best of all placements of whole components, and a tenth of a core; pins aside.
//!
//! Limits: no I/O, no clock, no threads; the caller's periods are its time. Workers are equal: one core each.
//! Pairs of pieces are not exchanged, and wires are cut one at a time, so that a function with many arms is
//! relieved of one arm only. An observation takes time in proportion to the parts and wires, while a worker
//! is short that times the pieces around it. A pinned port is taken for one that an I/O worker serves: it
//! attracts no part and counts only as load where it is.

#![forbid(unsafe_code)]

mod choice;
mod cooldown;
mod cut;
mod error;
mod graph;
mod initial;
mod load;
mod piece;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod unit;

pub use choice::Reason;
pub use error::GraphFault;
pub use graph::{Graph, Kind, Part, PartFacts};
pub use state::{Move, Placement};
