//! What an entity or a tenant may ask of a worker: a weight and a cap.

/// A claim relative to the claims of the others on the same level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u16);

impl Weight {
    /// The weight of an entity or tenant that is given none.
    pub const DEFAULT: Weight = Weight(100);
    /// The least that one can have.
    pub const MIN: Weight = Weight(1);
    /// The most that one can have.
    pub const MAX: Weight = Weight(10_000);

    /// `None` unless it is in 1 to 10,000.
    pub const fn new(weight: u32) -> Option<Weight> {
        if weight >= Weight::MIN.get() && weight <= Weight::MAX.get() {
            Some(Weight(weight as u16))
        } else {
            None
        }
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::DEFAULT
    }
}

/// The most of one core that an entity or tenant may use, even when the core is otherwise idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cap(u32);

impl Cap {
    /// A whole core in millionths: the largest cap.
    pub const WHOLE: u32 = 1_000_000;

    /// From millionths of a core; `None` unless it is in 1 to 1,000,000.
    pub const fn from_millionths(millionths: u32) -> Option<Cap> {
        if millionths >= 1 && millionths <= Cap::WHOLE { Some(Cap(millionths)) } else { None }
    }

    /// In millionths of a core.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// As a part of one core.
    pub fn as_share(self) -> f64 {
        f64::from(self.0) / f64::from(Cap::WHOLE)
    }
}

/// What an entity claims of its tenant, or a tenant of the worker. By default the default weight and no cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its part in relation to the others.
    pub weight: Weight,
    /// The most that it may use, of the core and not of its tenant's part. `None`: as much as there is.
    pub cap: Option<Cap>,
}
