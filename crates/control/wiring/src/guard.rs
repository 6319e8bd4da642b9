//! Guards: functions of the platform that stand between a device with security groups and its openers.
//!
//! Each opener of a device has a guard, of a name that no function of a file can have,
//! `groups@DEVICE~FUNCTION:INTERFACE`: it says nothing of other openers, so that their coming and going
//! leaves the guard what it is, with its connections. What opens the device is wired to its interface
//! [`INSIDE`], and by [`OUTSIDE`] it opens the device itself. Whether the device is open to something is
//! asked of what is wired to the guard ([`Wiring::behind_guard`]).

use crate::{Edge, Endpoint, Opening, Wiring};

/// A guard's interface for the opener of its device.
pub const INSIDE: u16 = 0;
/// A guard's interface for its device.
pub const OUTSIDE: u16 = 1;

const PREFIX: &str = "groups@";

/// What stands between the device and the opener in the name of a guard.
const OF: char = '~';

/// The name of the guard of one of a device's openers.
pub fn guard_of(device: &str, opener: &Endpoint) -> String {
    format!("{PREFIX}{device}{OF}{opener}")
}

/// The device that a function of this name guards.
pub fn guarded_by(function: &str) -> Option<&str> {
    Some(function.strip_prefix(PREFIX)?.split_once(OF)?.0)
}

impl Edge {
    /// An interface of a function, and the device that is behind it: it opens the device, or is wired to the
    /// device's guard.
    pub fn device_behind(&self) -> Option<(&Endpoint, &str)> {
        if let Some((end, opening)) = self.opening() {
            return Some((end, &opening.device));
        }
        let [a, b] = self.ends();
        let guarded = |end| match end {
            &Endpoint::Interface(ref guard, INSIDE) => guarded_by(guard),
            _ => None,
        };
        guarded(a).map(|device| (b, device)).or_else(|| guarded(b).map(|device| (a, device)))
    }
}

impl Wiring {
    /// What opens devices, and how: of what is wired to a guard as the guard does.
    pub fn openers(&self) -> impl Iterator<Item = (&Endpoint, &Opening)> {
        let openings = self.edges.iter().filter_map(Edge::opening);
        openings.filter_map(|(end, opening)| Some((self.behind_guard(end)?, opening)))
    }

    /// The tenant that a function is shown to as its own: a guard is the platform's, has packets of the
    /// device's tenant, and is shown to that.
    pub fn shown_to(&self, function: &str) -> Option<&str> {
        match guarded_by(function) {
            Some(device) => self.devices.get(device).map(|device| device.tenant.as_str()),
            None => self.instances.get(function).map(|instance| instance.tenant.as_str()),
        }
    }

    /// What is wired to the guard of a device, if an end is the one by which a guard opens it; any other end
    /// itself. `None`: nothing is wired to the guard.
    pub fn behind_guard<'a>(&'a self, end: &'a Endpoint) -> Option<&'a Endpoint> {
        match end {
            Endpoint::Interface(guard, OUTSIDE) if guarded_by(guard).is_some() => {
                self.peer(&Endpoint::Interface(guard.clone(), INSIDE))
            }
            _ => Some(end),
        }
    }
}
