//! How many lines of the audit log cost a client nothing: what is refused, tried or leaves all as it was
//! fills no disk, and no client's lines keep those of another out.
//!
//! Each tenant has rooms of its own, one for each kind of such lines, and so have readers of the host, and
//! clients without a token together. [`BURST`] lines are written at once, then one in [`EVERY`]; what has no
//! room is counted, and the next line says how many there were.

use crate::identity::Identity;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Lines of one kind and client that are written at once.
const BURST: u32 = 20;
/// How often there is room for one more: the log holds those of a tenant for days.
const EVERY: Duration = Duration::from_millis(500);
/// As many rooms are kept; when there are more, those in which nothing is counted make way.
const KEPT: usize = 256;

/// Lines that change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Free {
    /// Of a request that was refused.
    Refusal,
    /// Of a request with `dry_run`.
    DryRun,
    /// Of a change after which all is as before.
    Unchanged,
}

/// Whose lines are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    /// Clients that have shown no token.
    Unknown,
    /// Readers of the whole host.
    Host,
    /// Clients of a tenant.
    Tenant(String),
}

impl Group {
    /// Of a client.
    pub fn of(who: &Identity) -> Group {
        match who {
            Identity::Process { .. } | Identity::Certificate { .. } => Group::Unknown,
            Identity::Token { tenant: Some(tenant), .. } => Group::Tenant(tenant.clone()),
            Identity::Token { tenant: None, .. } => Group::Host,
            Identity::Browser { session, .. } => {
                session.as_ref().map_or(Group::Unknown, |(_, by)| Group::of(by))
            }
        }
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Rate(HashMap<(Group, Free), Room>);

#[derive(Debug)]
struct Room {
    left: u32,
    /// From when on what comes is counted anew.
    since: Instant,
    left_out: u64,
}

impl Room {
    fn is_full(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= EVERY * (BURST - self.left)
    }
}

impl Rate {
    /// How many lines were left out before this one, if it may be written; else it is one more of them.
    pub fn admit(&mut self, group: Group, kind: Free, now: Instant) -> Option<u64> {
        if self.0.len() >= KEPT {
            self.0.retain(|_, room| room.left_out > 0 || !room.is_full(now));
        }
        let room =
            self.0.entry((group, kind)).or_insert_with(|| Room { left: BURST, since: now, left_out: 0 });
        let passed = now.saturating_duration_since(room.since);
        let more = u32::try_from(passed.as_nanos() / EVERY.as_nanos()).unwrap_or(BURST);
        room.since = if more < BURST - room.left { room.since + EVERY * more } else { now };
        room.left = room.left.saturating_add(more).min(BURST);
        if room.left == 0 {
            room.left_out += 1;
            return None;
        }
        room.left -= 1;
        Some(std::mem::take(&mut room.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Group {
        Group::Tenant(name.to_owned())
    }

    #[test]
    fn what_one_client_has_left_out_keeps_none_of_anothers() {
        let (mut rate, began) = (Rate::default(), Instant::now());
        let mut admit =
            |group: Group, kind, ms: u64| rate.admit(group, kind, began + Duration::from_millis(ms));
        for n in 0..1000 {
            let admitted = admit(tenant("red"), Free::Refusal, 0);
            assert_eq!(admitted, (n < BURST).then_some(0));
        }
        for group in [tenant("blue"), Group::Host, Group::Unknown] {
            assert_eq!(admit(group, Free::Refusal, 1), Some(0));
        }
        assert_eq!(admit(tenant("red"), Free::DryRun, 1), Some(0), "each kind has its own");
        assert_eq!(admit(tenant("red"), Free::Refusal, 499), None);
        assert_eq!(admit(tenant("red"), Free::Refusal, 999), Some(981));
        assert_eq!(admit(tenant("red"), Free::Refusal, 999), None);
        assert_eq!(admit(tenant("red"), Free::Refusal, 1000), Some(1), "what had passed counts");
        // However long it is, no more come at once.
        let later = (0..100).filter_map(|_| admit(tenant("red"), Free::Refusal, 1 << 40)).count();
        assert_eq!(later, BURST as usize);
    }

    #[test]
    fn rooms_in_which_nothing_is_counted_are_not_kept() {
        let (mut rate, began) = (Rate::default(), Instant::now());
        for n in 0..10_000_u32 {
            let now = began + EVERY * n * BURST;
            assert_eq!(rate.admit(tenant(&n.to_string()), Free::Refusal, now), Some(0));
            assert!(rate.0.len() <= KEPT);
        }
    }
}
