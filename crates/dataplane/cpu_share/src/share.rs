//! What both levels have in common: a virtual runtime that grows by what is used, slower for the heavier, and
//! a cap beside it.

use crate::bucket::Bucket;
use crate::claim::{Claim, Weight};
use telemetry::clock::Cycles;

/// Virtual runtimes count 2^-32 of a cycle at the default weight.
pub(crate) const PARTS: u32 = 32;

/// By how much a cycle raises the virtual runtime at a weight. Rounded once here, by at most 2 in 10^8;
/// from here on all is exact.
pub(crate) const fn vruntime_per_cycle(weight: Weight) -> u64 {
    let weight = weight.get() as u64;
    (((Weight::DEFAULT.get() as u64) << PARTS) + weight / 2) / weight
}

/// One entity's or tenant's part in things.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// What was charged and is not in `vruntime` yet: cycles are summed, and weighed when it is asked for.
    recent: Cycles,
    /// It may run until so much was charged; see [`Share::grant`].
    allowance: Cycles,
    /// What was used, divided by weight.
    vruntime: i128,
    /// By how much a cycle raises its virtual runtime.
    per_cycle: u64,
    /// All that was ever charged, but for `recent`.
    used: Cycles,
    pub(crate) claim: Claim,
    pub(crate) bucket: Option<Bucket>,
}

impl Share {
    /// One of a given virtual runtime that used so much before, and overdrew its cap by so many parts of a
    /// cycle.
    pub(crate) fn new(claim: Claim, vruntime: i128, used: Cycles, overdrawn: i128, now: Cycles) -> Share {
        let bucket = claim.cap.map(|cap| Bucket::new(cap, overdrawn, used, now));
        let per_cycle = vruntime_per_cycle(claim.weight);
        Share { recent: Cycles(0), allowance: Cycles(0), vruntime, per_cycle, used, claim, bucket }
    }

    /// By how much cycles raise its virtual runtime.
    #[inline]
    pub(crate) fn vruntime_of(&self, cycles: Cycles) -> i128 {
        // Of unsigned halves: one multiplication of 64 by 64 bits. Both are too small to reach the sign.
        (u128::from(cycles.0) * u128::from(self.per_cycle)) as i128
    }

    #[inline]
    pub(crate) fn charge(&mut self, cycles: Cycles) {
        self.recent += cycles;
    }

    /// What was used, divided by weight. An allowance ends with this.
    #[inline]
    pub(crate) fn vruntime(&mut self) -> i128 {
        let recent = std::mem::take(&mut self.recent);
        self.allowance = Cycles(0);
        self.used += recent;
        self.vruntime += self.vruntime_of(recent);
        self.vruntime
    }

    /// All that was ever charged.
    #[inline]
    pub(crate) fn used(&self) -> Cycles {
        self.used + self.recent
    }

    /// One that comes back from sleep has at least the minimum virtual runtime.
    #[inline]
    pub(crate) fn join(&mut self, min_vruntime: i128) {
        self.vruntime = self.vruntime().max(min_vruntime);
    }

    /// Lets it run without another look until it has used half of `lead`, if it is ahead of the minimum
    /// virtual runtime by no more than the other half, and no cap is to be kept: none that waits is behind
    /// that minimum, so it does not get ahead of any by more than `lead`.
    #[inline]
    pub(crate) fn grant(&mut self, min_vruntime: i128, lead: Cycles) {
        let half = Cycles(lead.0 / 2);
        if self.bucket.is_none() && self.vruntime() <= min_vruntime + self.vruntime_of(half) {
            self.allowance = half;
        }
    }

    /// What it was granted is not used up.
    #[inline]
    pub(crate) fn is_granted(&self) -> bool {
        self.recent < self.allowance
    }

    /// Whether its cap lets it run.
    #[inline]
    pub(crate) fn may_run(&mut self, now: Cycles, period: Cycles) -> bool {
        let used = self.used();
        self.bucket.as_mut().is_none_or(|bucket| bucket.allows(used, now, period))
    }

    /// When its cap lets it run.
    pub(crate) fn release(&self) -> Cycles {
        self.bucket.as_ref().map_or(Cycles(0), |bucket| bucket.release(self.used()))
    }

    /// By how many parts of a cycle its cap is overdrawn.
    pub(crate) fn overdrawn(&self, now: Cycles) -> i128 {
        self.bucket.as_ref().map_or(0, |bucket| bucket.overdrawn(self.used(), now))
    }

    /// Gives it another claim. It goes on owing as many cycles as it owes now.
    pub(crate) fn set_claim(&mut self, claim: Claim, min_vruntime: i128, now: Cycles) {
        let debt = in_weight(self.vruntime() - min_vruntime, self.claim.weight, claim.weight);
        *self = Share::new(claim, min_vruntime + debt, self.used, self.overdrawn(now), now);
    }
}

/// The same number of cycles as a virtual runtime at another weight.
pub(crate) fn in_weight(vruntime: i128, from: Weight, to: Weight) -> i128 {
    if from == to {
        return vruntime;
    }
    let (from, to) = (i128::from(from.get()), i128::from(to.get()));
    vruntime / to * from + vruntime % to * from / to
}
