//! The figures of the policy. Loads are parts of one core, times are periods of observation.
//!
//! That moves come to an end with steady loads rests on `TOGETHER < SHORT`: let a worker's excess be what it
//! has beyond any figure between the two. Relief and cuts make the sum of the squares of all excesses smaller
//! by a fixed amount at least, joins never make it larger, and each join leaves a piece less.

/// A worker is short of time from here on.
pub(crate) const SHORT: f64 = 0.8;

/// A torn component is joined where that leaves the worker with no more than this. Less than [`SHORT`]:
/// hysteresis.
pub(crate) const TOGETHER: f64 = 0.6;

/// By how much a relief has to make the busier of two workers less busy.
pub(crate) const GAIN: f64 = 0.1;

/// The same for a cut. It is more, because packets then go from one core to another.
pub(crate) const CUT_GAIN: f64 = 0.15;

/// How much less of a gain is accepted for each piece that a component has less afterwards.
pub(crate) const PIECE: f64 = 0.05;

/// How much of a new load counts at once.
pub(crate) const FRESH: f64 = 1.0 / 3.0;

/// For how long after a move the loads of both workers say little: a median and the smoothing have to follow,
/// and a part that was short of time uses more now.
pub(crate) const UNMEASURED: u64 = 6;

/// The cooldown of a component: how long it stays where it was moved to, at least.
pub(crate) const COOLDOWN: u64 = 10;

/// The same for one that has moved again and again.
pub(crate) const LONGEST_COOLDOWN: u64 = 1_280;

/// After so many times its cooldown a component that moves again does so for a new reason.
pub(crate) const FORGIVE: u64 = 8;

/// A worker has too much to do when it was this busy in a single period.
pub(crate) const FULL: f64 = 0.95;

/// By how much help has to make the busier of two workers less busy.
pub(crate) const HELP_GAIN: f64 = 0.025;

/// How long after a move a worker's single periods say little.
pub(crate) const SOON: u64 = 2;
