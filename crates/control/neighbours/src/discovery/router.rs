//! Routers of an IPv6 link: what their advertisements bring, and asking for them (RFC 4861 section 6.3, RFC
//! 4862 section 5.5).
//!
//! 1. When the link-local address is valid, routers are asked for, at 4 s and then twice as long each time up
//!    to an hour (RFC 7559), until one answers that it is a default router.
//! 2. An advertisement sets the router's lifetime, the prefixes that are on the link, the MTU (between 1,280
//!    bytes and the configured one) and how long neighbours are reachable (between a second and an hour).
//! 3. Of a prefix of 64 bits with the autonomous flag an address is made, with the modified EUI-64 of the
//!    link-layer address. Its valid lifetime is shortened to two hours at least (RFC 4862 section 5.5.3 e).
//! 4. All of it ends with its lifetime, and is bounded: 8 routers, 16 prefixes, 16 addresses. Where that many
//!    are, the one of which nothing was said for longest gives way, if that is [`UNSAID`] or more: what a
//!    flood has filled is not lost for the lifetimes that it said, and what is said again stays during one.

use super::message::{PrefixInformation, RouterAdvertisement};
use crate::Prefix;
use crate::addresses::{AddressState, Origin};
use crate::device::Device;
use crate::settings::{MIN_MTU_V6, with_interface};
use std::net::{IpAddr, Ipv6Addr};
use telemetry::clock::Nanos;

const MAX_ROUTERS: usize = 8;
const MAX_PREFIXES: usize = 16;
const SECOND: u64 = 1_000_000_000;
/// Between the first two solicitations, and at most (RFC 7559 section 2.1).
const SOLICIT: Nanos = Nanos(4 * SECOND);
const SOLICIT_MAX: Nanos = Nanos(3_600 * SECOND);
/// Routers say what they say at least once in this time (RFC 4861 section 6.2.1, MaxRtrAdvInterval).
pub(crate) const UNSAID: Nanos = Nanos(1_800 * SECOND);
/// A lifetime is not shortened below this.
const TWO_HOURS: Nanos = Nanos(7_200 * SECOND);

/// When something that holds for this many seconds ends; all ones never do.
fn end(seconds: u32, now: Nanos) -> Nanos {
    if seconds == u32::MAX { Nanos::MAX } else { now.saturating_add(Nanos(u64::from(seconds) * SECOND)) }
}

/// Something that a router said.
#[derive(Debug)]
struct Said<T> {
    what: T,
    /// When it is over.
    until: Nanos,
    /// When it was last said.
    at: Nanos,
}

/// Puts something in, into the place of what was not said for longest if there are `most`; false when there
/// is no room.
fn put<T>(list: &mut Vec<Said<T>>, most: usize, said: Said<T>) -> bool {
    if list.len() < most {
        list.push(said);
        return true;
    }
    let oldest = list.iter_mut().min_by_key(|other| other.at);
    let Some(oldest) = oldest.filter(|other| said.at.since(other.at) > UNSAID) else { return false };
    *oldest = said;
    true
}

/// What routers said.
#[derive(Debug, Default)]
pub(crate) struct Routers {
    /// Default routers.
    routers: Vec<Said<Ipv6Addr>>,
    /// Prefixes on the link.
    prefixes: Vec<Said<Prefix>>,
    /// The MTU of the link.
    mtu: Option<u16>,
    /// When routers are asked for next, and how long after that.
    solicit: Option<(Nanos, Nanos)>,
    /// Whether asking has begun.
    begun: bool,
}

impl Routers {
    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.routers.iter().map(|router| IpAddr::V6(router.what))
    }

    /// Whether an address is in a prefix that is on the link.
    pub(crate) fn on_link(&self, address: IpAddr) -> bool {
        self.prefixes.iter().any(|prefix| prefix.what.contains(address))
    }

    /// The MTU of the link, if a router said one.
    pub(crate) fn mtu(&self) -> Option<u16> {
        self.mtu
    }

    /// A router is none any more. Whether it was one.
    pub(crate) fn remove(&mut self, address: IpAddr) -> bool {
        let before = self.routers.len();
        self.routers.retain(|router| IpAddr::V6(router.what) != address);
        self.routers.len() < before
    }

    /// When something is to be done.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        let ends = self.routers.iter().map(|router| router.until);
        let ends = ends.chain(self.prefixes.iter().map(|prefix| prefix.until));
        ends.chain(self.solicit.map(|(at, _)| at)).min().filter(|at| *at < Nanos::MAX)
    }

    fn set_router(&mut self, address: Ipv6Addr, lifetime: u16, now: Nanos) -> bool {
        if lifetime == 0 {
            return self.remove(address.into());
        }
        let until = end(lifetime.into(), now);
        match self.routers.iter_mut().find(|router| router.what == address) {
            Some(known) => {
                (known.until, known.at) = (until, now);
                false
            }
            None => put(&mut self.routers, MAX_ROUTERS, Said { what: address, until, at: now }),
        }
    }

    /// Whether it took another one's place.
    fn set_prefix(&mut self, prefix: Prefix, until: Nanos, now: Nanos) -> bool {
        let same = |other: &Prefix| other.length == prefix.length && other.contains(prefix.address);
        let is_full = self.prefixes.len() >= MAX_PREFIXES;
        match self.prefixes.iter_mut().find(|other| same(&other.what)) {
            Some(known) => {
                (known.until, known.at) = (until, now);
                false
            }
            None if until <= now => false,
            None => put(&mut self.prefixes, MAX_PREFIXES, Said { what: prefix, until, at: now }) && is_full,
        }
    }
}

impl Device {
    /// An advertisement of the router `from`.
    pub(crate) fn router_input(&mut self, from: Ipv6Addr, said: &RouterAdvertisement, now: Nanos) {
        if said.lifetime > 0 {
            self.routers.solicit = None;
        }
        self.changes.routers |= self.routers.set_router(from, said.lifetime, now);
        if said.reachable > 0 {
            self.table.reachable = Nanos::from_millis(u64::from(said.reachable).clamp(1_000, 3_600_000));
        }
        let allowed = |mtu: &u16| (MIN_MTU_V6..=self.settings.mtu).contains(mtu);
        if let Some(mtu) = said.mtu.and_then(|mtu| u16::try_from(mtu).ok()).filter(allowed) {
            self.changes.mtu |= self.routers.mtu.replace(mtu) != Some(mtu);
        }
        for prefix in &said.prefixes {
            self.prefix(prefix, now);
        }
    }

    fn prefix(&mut self, said: &PrefixInformation, now: Nanos) {
        let network = said.prefix;
        if network.is_unicast_link_local() || network.is_multicast() || said.length == 0 {
            return;
        }
        if said.on_link {
            let prefix = Prefix { address: network.into(), length: said.length };
            if self.routers.set_prefix(prefix, end(said.valid, now), now) {
                self.forget_off_link();
            }
        }
        if !said.autonomous || said.preferred > said.valid || said.length != 64 {
            return;
        }
        let Some(bits) = network.octets().first_chunk::<8>().copied() else { return };
        let address = IpAddr::V6(with_interface(bits, self.settings.mac));
        let wanted = end(said.valid, now);
        let remaining = self.addresses.valid_until(address, Origin::Router);
        let valid = match remaining {
            None if said.valid == 0 => return,
            None => wanted,
            Some(remaining) if wanted > remaining || wanted.since(now) > TWO_HOURS => wanted,
            Some(remaining) => remaining.min(now.saturating_add(TWO_HOURS)),
        };
        let lifetimes = (end(said.preferred, now), valid);
        let prefix = Prefix { address, length: 64 };
        self.addresses.add(prefix, Origin::Router, lifetimes, now, &mut self.rng);
    }

    /// Ends what is over, and asks for routers when it is time. Whether all that is due was done.
    pub(crate) fn poll_routers(&mut self, now: Nanos) -> bool {
        let before = (self.routers.routers.len(), self.routers.prefixes.len());
        self.routers.routers.retain(|router| router.until > now);
        self.routers.prefixes.retain(|prefix| prefix.until > now);
        self.changes.routers |= self.routers.routers.len() < before.0;
        if self.routers.prefixes.len() < before.1 {
            self.forget_off_link();
        }
        let link_local = self.addresses.iter().find(|own| own.origin == Origin::LinkLocal);
        let from = link_local.filter(|own| own.state == AddressState::Valid).map(|own| own.prefix.address);
        let Some(IpAddr::V6(from)) = from else { return true };
        if !self.routers.begun && self.settings.router_advertisements {
            self.routers.begun = true;
            self.routers.solicit = Some((now.saturating_add(Nanos(self.rng.u64(0..=SECOND))), SOLICIT));
        }
        let Some((at, gap)) = self.routers.solicit.filter(|(at, _)| *at <= now) else { return true };
        if !self.outbox.may_send(now) {
            return false;
        }
        self.solicit_routers(from);
        // A tenth more or less, so that devices that began together do not go on together.
        let drawn = Nanos(gap.0 - gap.0 / 10 + self.rng.u64(0..=gap.0 / 5));
        self.routers.solicit = Some((at.max(now).saturating_add(drawn), Nanos(gap.0 * 2).min(SOLICIT_MAX)));
        true
    }
}
