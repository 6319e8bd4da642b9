//! How often a step is made: rarely enough that the history takes little of a processor, however many objects
//! there are.

use std::time::Duration;

/// A step takes at most one part in so many of the time until the next.
const PARTS: u32 = 100;

/// The step to be made after one that began at `began`, counted from step 0, and took `cost` of a processor:
/// the next full second, or as many later as it takes for the cost to be at most a hundredth of the time
/// between the two.
#[must_use]
pub fn next_step(began: Duration, cost: Duration) -> u64 {
    let earliest = began.saturating_add(cost.saturating_mul(PARTS));
    let whole = earliest.as_secs().saturating_add(u64::from(earliest.subsec_nanos() > 0));
    whole.max(began.as_secs().saturating_add(1))
}
