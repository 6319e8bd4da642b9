//! Services: numbers by which the functions of a tenant send packets to an end without a wire.

use std::fmt;

/// A service as the functions of one tenant name it. Two tenants may use one number for two ends; an end that
/// a tenant grants to another is a service of both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    /// The tenant whose functions may send there.
    pub tenant: String,
    /// The service ID in their verdict.
    pub number: u16,
}

/// As in the operator's file: `red:10`.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.tenant, self.number)
    }
}
