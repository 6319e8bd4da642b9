//! What a tenant or an instance may have of a processor core.

use cpu_share::{Cap, Claim, Weight};
use std::fmt;

/// What an instance may have of the core of its worker, or a tenant of each worker's core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Its part in relation to the others: of an instance to those of its tenant on its worker, of a tenant
    /// to those that have instances on the worker.
    pub weight: Weight,
    /// The most that it gets, even of a core that is otherwise idle: a share of one core. `None`: no bound.
    pub cap: Option<Cap>,
    /// What it is sure to get if it wants it, whatever the others want: a share of one core. It moves no
    /// share; weights and caps have to give it, see [`crate::Wiring::broken_promises`].
    pub reserve: Option<Cap>,
}

impl Cpu {
    /// What the scheduler is told.
    pub fn claim(&self) -> Claim {
        Claim { weight: self.weight, cap: self.cap }
    }
}

/// A share of a core in the words of a message: `35%`, `0.0001%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u64);

impl Percent {
    /// From millionths of a core. More than one core is possible: what several together want.
    pub fn from_millionths(millionths: u64) -> Percent {
        Percent(millionths)
    }

    /// Rounded down to millionths, but not because of how floating-point numbers are rounded.
    pub(crate) fn of(share: f64) -> Percent {
        Percent((share * f64::from(Cap::WHOLE) + 1e-3).max(0.0) as u64)
    }
}

impl From<Cap> for Percent {
    fn from(cap: Cap) -> Percent {
        Percent(u64::from(cap.get()))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.0 / 10_000, self.0 % 10_000);
        let parts = format!("{parts:04}");
        match parts.trim_end_matches('0') {
            "" => write!(f, "{whole}%"),
            parts => write!(f, "{whole}.{parts}%"),
        }
    }
}
