//! The device's own addresses: whether another station has them, and for how long they may be used.
//!
//! 1. An address that is added is tentative: three probes for IPv4 (RFC 5227 section 2.1.1), one for IPv6
//!    (RFC 4862 section 5.4), after a random pause. It answers nothing and is the source of nothing.
//! 2. Without a conflict it is valid, and announced: twice for IPv4 (RFC 5227 section 2.3), once for IPv6
//!    (RFC 9131).
//! 3. With one it is a duplicate, and tried again after a minute: what one station has said once takes no
//!    address away for longer. One that DHCP gave is declined, one that an opener formed is gone then.
//! 4. Another station that claims a valid IPv4 address is answered by an announcement, once in ten seconds at
//!    most (RFC 5227 section 2.4, (c)); an address that DHCP gave is given up at the second claim (ibid.,
//!    (b)).
//! 5. An address with a lifetime is not chosen as a source any more after its preferred one, and gone after
//!    its valid one.
//! 6. An address that an opener formed is the device's as the others are, but for that it is no source of
//!    what the device sends to others. It is gone when nothing was seen of it for [`UNSEEN`]; of more than
//!    [`MAX_FROM_OPENERS`] the one that was not seen for the longest time gives way, if that is
//!    [`STAYS_UNSEEN`] or more.

use crate::discovery::router::UNSAID;
use crate::settings::{MAX_ADDRESSES, Prefix};
use std::net::IpAddr;
use telemetry::clock::Nanos;

/// Probes for an IPv4 address.
const PROBES_V4: u8 = 3;
/// Probes for an IPv6 address.
const PROBES_V6: u8 = 1;
/// Announcements of an IPv4 address.
const ANNOUNCEMENTS_V4: u8 = 2;
/// Announcements of an IPv6 address.
const ANNOUNCEMENTS_V6: u8 = 1;
/// The first probe comes after up to this (RFC 5227 PROBE_WAIT, RFC 4861 MAX_RTR_SOLICITATION_DELAY).
const WAIT: Nanos = Nanos::from_millis(1_000);
/// Between probes at least; up to twice as much for IPv4, just this for IPv6.
const PROBE_GAP: Nanos = Nanos::from_millis(1_000);
/// From the last probe to the first announcement of an IPv4 address, and between announcements.
const ANNOUNCE_GAP: Nanos = Nanos::from_millis(2_000);
/// Conflicts are answered once in this time.
const DEFEND: Nanos = Nanos::from_millis(10_000);
/// An address that another station has is tried again after this.
const RETRY: Nanos = Nanos::from_millis(60_000);
/// Addresses that routers gave at most.
const MAX_FROM_ROUTERS: usize = 16;
/// Addresses that openers formed at most: RFC 8981 has hosts keep seven temporary ones of a network, and form
/// another one each day.
pub(crate) const MAX_FROM_OPENERS: usize = 16;
/// How long such an address is kept of which nothing is seen.
pub(crate) const UNSEEN: Nanos = Nanos::from_millis(7_200_000);
/// How long it keeps its place at least.
pub(crate) const STAYS_UNSEEN: Nanos = Nanos::from_millis(1_200_000);

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration.
    Static,
    /// The link-layer address (RFC 4862 section 5.3).
    LinkLocal,
    /// A router's advertisement (RFC 4862 section 5.5).
    Router,
    /// A DHCP server.
    Dhcp,
    /// What opens the device formed it (RFC 4862 section 5.5, RFC 8981).
    Opener,
}

impl Origin {
    /// The name that is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Static => "static",
            Origin::LinkLocal => "link-local",
            Origin::Router => "router",
            Origin::Dhcp => "dhcp",
            Origin::Opener => "opener",
        }
    }
}

/// Whether an address may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// Not yet known to be the device's alone.
    Tentative,
    /// Used.
    Valid,
    /// Past its preferred lifetime: answers, but is not chosen as a source where there is another.
    Deprecated,
    /// Another station has it.
    Duplicate,
}

impl AddressState {
    /// The name that is shown.
    pub const fn name(self) -> &'static str {
        match self {
            AddressState::Tentative => "tentative",
            AddressState::Valid => "preferred",
            AddressState::Deprecated => "deprecated",
            AddressState::Duplicate => "duplicate",
        }
    }
}

/// An address of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address and its network.
    pub prefix: Prefix,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether it may be used.
    pub state: AddressState,
}

#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) shown: Address,
    /// Probes or announcements that were sent.
    count: u8,
    /// When the next one is, or the next try.
    due: Nanos,
    preferred: Nanos,
    valid: Nanos,
    /// When something was last seen of it, if an opener formed it, or it was given.
    seen: Nanos,
    /// When it was last defended.
    defended: Option<Nanos>,
}

/// What is to be done for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Ask whether another station has it.
    Probe(IpAddr),
    /// Tell that the device has it.
    Announce(IpAddr),
    /// Nothing is sent.
    Step(IpAddr),
}

impl Due {
    pub(crate) fn address(self) -> IpAddr {
        match self {
            Due::Probe(address) | Due::Announce(address) | Due::Step(address) => address,
        }
    }
}

/// What a conflict comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// It was dealt with lately.
    Ignored,
    /// The address is to be announced.
    Defend,
    /// The address is another station's.
    Lost(Origin),
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    list: Vec<Own>,
    changed: bool,
    /// How often an address came, went, or became another station's.
    generation: u64,
    /// Conflicts that were seen.
    pub(crate) conflicts: u64,
}

impl Addresses {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Address> {
        self.list.iter().map(|own| &own.shown)
    }

    /// Whether something visible changed since this was last called.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Another number when an address came, went, or became another station's.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    fn get(&self, address: IpAddr) -> Option<&Own> {
        self.list.iter().find(|own| own.shown.prefix.address == address)
    }

    fn get_mut(&mut self, address: IpAddr) -> Option<&mut Own> {
        self.list.iter_mut().find(|own| own.shown.prefix.address == address)
    }

    /// An address that is there.
    pub(crate) fn find(&self, address: IpAddr) -> Option<&Address> {
        self.get(address).map(|own| &own.shown)
    }

    /// Until when an address is valid.
    pub(crate) fn until(&self, address: IpAddr) -> Option<Nanos> {
        self.get(address).map(|own| own.valid)
    }

    /// Until when an address of this origin is valid.
    pub(crate) fn valid_until(&self, address: IpAddr, origin: Origin) -> Option<Nanos> {
        self.get(address).filter(|own| own.shown.origin == origin).map(|own| own.valid)
    }

    /// Whether an address is the device's and in use.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.find(address)
            .is_some_and(|own| matches!(own.state, AddressState::Valid | AddressState::Deprecated))
    }

    /// Whether an address is in a network of one that is in use.
    pub(crate) fn on_link(&self, address: IpAddr) -> bool {
        self.list.iter().any(|own| {
            // A router's prefix is on-link by a flag of its own.
            !matches!(own.shown.origin, Origin::Router | Origin::Opener) && own.shown.prefix.contains(address)
        })
    }

    /// Whether an address is the broadcast address of a network of the device.
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        self.list.iter().any(|own| own.shown.prefix.broadcast() == Some(address))
    }

    /// The address from which another one is spoken to (of RFC 6724: scope, preference, prefix).
    pub(crate) fn source_for(&self, other: IpAddr) -> Option<IpAddr> {
        let usable = |own: &&Own| {
            matches!(own.shown.state, AddressState::Valid | AddressState::Deprecated)
                && own.shown.prefix.address.is_ipv4() == other.is_ipv4()
                && own.shown.origin != Origin::Opener
        };
        let rank = |own: &&Own| {
            (
                own.shown.prefix.contains(other),
                own.shown.state == AddressState::Valid,
                own.shown.origin != Origin::LinkLocal,
            )
        };
        self.list.iter().filter(usable).max_by_key(rank).map(|own| own.shown.prefix.address)
    }

    /// Adds an address; one that is there gets the lifetimes. Whether it was added.
    pub(crate) fn add(
        &mut self,
        prefix: Prefix,
        origin: Origin,
        (preferred, valid): (Nanos, Nanos),
        now: Nanos,
        rng: &mut fastrand::Rng,
    ) -> bool {
        if let Some(own) = self.get_mut(prefix.address) {
            if own.shown.origin == origin {
                (own.preferred, own.valid, own.shown.prefix.length) = (preferred, valid, prefix.length);
                own.seen = now;
                if own.shown.state == AddressState::Deprecated && preferred > now {
                    own.shown.state = AddressState::Valid;
                    self.changed = true;
                }
            }
            return false;
        }
        if origin == Origin::Router {
            self.make_room_for_router(now);
        }
        let of = |origin| self.list.iter().filter(|own| own.shown.origin == origin).count();
        let full = match origin {
            Origin::Router => of(Origin::Router) >= MAX_FROM_ROUTERS,
            Origin::Opener => of(Origin::Opener) >= MAX_FROM_OPENERS,
            _ => self.list.len() - of(Origin::Opener) >= MAX_ADDRESSES + MAX_FROM_ROUTERS + 2,
        };
        if full {
            return false;
        }
        // What an opener formed it has waited for itself.
        let wait = if origin == Origin::Opener { 0 } else { rng.u64(0..=WAIT.0) };
        let due = now.saturating_add(Nanos(wait));
        let shown = Address { prefix, origin, state: AddressState::Tentative };
        self.list.push(Own { shown, count: 0, due, preferred, valid, seen: now, defended: None });
        self.changed = true;
        self.generation += 1;
        true
    }

    /// Where routers have given as many addresses as they may, the one whose prefix was not advertised for
    /// longest goes, if that is long enough.
    fn make_room_for_router(&mut self, now: Nanos) {
        let given = self.list.iter().filter(|own| own.shown.origin == Origin::Router);
        if given.clone().count() < MAX_FROM_ROUTERS {
            return;
        }
        let oldest = given.min_by_key(|own| own.seen).filter(|own| now.since(own.seen) > UNSAID);
        if let Some(address) = oldest.map(|own| own.shown.prefix.address) {
            self.remove(|own| own.prefix.address == address);
        }
    }

    /// Something was seen of an address that an opener formed, which holds until `valid` now. A duplicate is
    /// none of its addresses.
    pub(crate) fn see(&mut self, address: IpAddr, valid: Nanos, now: Nanos) {
        let of_opener =
            |own: &&mut Own| own.shown.origin == Origin::Opener && own.shown.state != AddressState::Duplicate;
        if let Some(own) = self.get_mut(address).filter(of_opener) {
            (own.seen, own.valid) = (now, valid);
        }
    }

    /// Whether there is room for one more address that an opener formed; the one that gives way for it.
    pub(crate) fn room_for_opener(&self, now: Nanos) -> (bool, Option<IpAddr>) {
        let formed = self.list.iter().filter(|own| own.shown.origin == Origin::Opener);
        if formed.clone().count() < MAX_FROM_OPENERS {
            return (true, None);
        }
        let oldest = formed.min_by_key(|own| own.seen).filter(|own| now.since(own.seen) >= STAYS_UNSEEN);
        (oldest.is_some(), oldest.map(|own| own.shown.prefix.address))
    }

    /// Takes addresses away; which ones.
    pub(crate) fn remove(&mut self, gone: impl Fn(&Address) -> bool) -> Vec<IpAddr> {
        let removed: Vec<IpAddr> =
            self.iter().filter(|own| gone(own)).map(|own| own.prefix.address).collect();
        self.list.retain(|own| !gone(&own.shown));
        self.changed |= !removed.is_empty();
        self.generation += u64::from(!removed.is_empty());
        removed
    }

    /// When something is to be done.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.list.iter().map(Own::deadline).min().filter(|due| *due < Nanos::MAX)
    }

    /// The first thing that is to be done by now.
    pub(crate) fn due(&self, now: Nanos) -> Option<Due> {
        let own = self.list.iter().filter(|own| own.deadline() <= now).min_by_key(|own| own.deadline())?;
        let address = own.shown.prefix.address;
        let four = address.is_ipv4();
        let (probes, announcements) =
            if four { (PROBES_V4, ANNOUNCEMENTS_V4) } else { (PROBES_V6, ANNOUNCEMENTS_V6) };
        Some(match own.shown.state {
            _ if own.due > now => Due::Step(address),
            AddressState::Tentative if own.count < probes => Due::Probe(address),
            AddressState::Valid | AddressState::Deprecated if own.count < announcements => {
                Due::Announce(address)
            }
            _ => Due::Step(address),
        })
    }

    /// What was due has been done. Whether the address came into use or went: then what depends on it is to
    /// be looked at.
    pub(crate) fn advance(&mut self, address: IpAddr, now: Nanos, rng: &mut fastrand::Rng) {
        let four = address.is_ipv4();
        let Some(own) = self.get_mut(address) else { return };
        let (mut changed, mut again) = (false, false);
        if own.due <= now {
            let state = own.shown.state;
            own.count = own.count.saturating_add(1);
            match state {
                AddressState::Tentative => {
                    let probes = if four { PROBES_V4 } else { PROBES_V6 };
                    let gap = match (four, own.count.cmp(&probes)) {
                        (true, std::cmp::Ordering::Less) => Nanos(rng.u64(PROBE_GAP.0..=2 * PROBE_GAP.0)),
                        (true, _) => ANNOUNCE_GAP,
                        (false, _) => PROBE_GAP,
                    };
                    own.due = now.saturating_add(gap);
                    if own.count > probes {
                        own.shown.state = AddressState::Valid;
                        (own.count, own.due, changed) = (0, now, true);
                    }
                }
                AddressState::Valid | AddressState::Deprecated => {
                    let announcements = if four { ANNOUNCEMENTS_V4 } else { ANNOUNCEMENTS_V6 };
                    own.due =
                        if own.count < announcements { now.saturating_add(ANNOUNCE_GAP) } else { Nanos::MAX };
                }
                AddressState::Duplicate => {
                    own.shown.state = AddressState::Tentative;
                    own.count = 0;
                    own.due = now.saturating_add(Nanos(rng.u64(0..=WAIT.0)));
                    (changed, again) = (true, true);
                }
            }
        }
        if own.preferred <= now && own.shown.state == AddressState::Valid {
            own.shown.state = AddressState::Deprecated;
            changed = true;
        }
        let over = own.valid <= now;
        self.changed |= changed;
        self.generation += u64::from(again);
        if over {
            self.remove(|own| own.prefix.address == address);
        }
    }

    /// Another station has, or wants, this address of the device.
    pub(crate) fn conflict(&mut self, address: IpAddr, now: Nanos) -> Conflict {
        let Some(own) = self.get_mut(address) else { return Conflict::Ignored };
        let origin = own.shown.origin;
        let outcome = match own.shown.state {
            AddressState::Duplicate => Conflict::Ignored,
            AddressState::Tentative => Conflict::Lost(origin),
            AddressState::Valid | AddressState::Deprecated => match own.defended {
                Some(last) if now.since(last) < DEFEND && origin == Origin::Dhcp => Conflict::Lost(origin),
                Some(last) if now.since(last) < DEFEND => Conflict::Ignored,
                _ => Conflict::Defend,
            },
        };
        match outcome {
            Conflict::Defend => own.defended = Some(now),
            Conflict::Lost(_) => {
                own.shown.state = AddressState::Duplicate;
                own.count = 0;
                own.due = match origin {
                    Origin::Static | Origin::LinkLocal | Origin::Router => now.saturating_add(RETRY),
                    Origin::Dhcp | Origin::Opener => Nanos::MAX,
                };
                if origin == Origin::Opener {
                    // It may be claimed again after that.
                    own.valid = own.valid.min(now.saturating_add(RETRY));
                }
            }
            Conflict::Ignored => {}
        }
        self.conflicts +=
            u64::from(own.shown.state != AddressState::Duplicate || outcome != Conflict::Ignored);
        self.changed |= matches!(outcome, Conflict::Lost(_));
        self.generation += u64::from(matches!(outcome, Conflict::Lost(_)));
        outcome
    }
}

impl Own {
    /// When something is to be done for it.
    fn deadline(&self) -> Nanos {
        let preferred = if self.shown.state == AddressState::Valid { self.preferred } else { Nanos::MAX };
        self.due.min(self.valid).min(preferred)
    }
}
