//! Neighbour discovery (RFC 4861) with the detection of duplicates (RFC 4862 section 5.4).
//!
//! | message | what it does |
//! |---|---|
//! | solicitation for an address of the device | an advertisement to its sender; to all from `::`, a probe |
//! | probe for an address that the device probes, too | a conflict |
//! | advertisement of an address of the device | a conflict |
//! | advertisement, or solicitation, of a neighbour that is asked for | known from now on |
//! | advertisement with the override flag of a neighbour at another station | a claim: the known one is asked |
//! | router advertisement | see [`router`] |
//! | router solicitation, redirect | ignored: the device is no router, and another first hop on a station's word is not taken |
//!
//! What RFC 4861 sections 6.1 and 7.1 and RFC 6980 have messages refused for is refused; beyond that, a
//! link-layer address that an option says has to be the frame's.

mod message;
pub(crate) mod router;

pub(crate) use message::Message;

use crate::counters::{Fault, Input};
use crate::device::Device;
use crate::frame::{self, Way, group_mac};
use crate::settings::{Mac, is_unicast};
use message::Body;
use packet::icmpv6::{self, kind};
use std::net::{IpAddr, Ipv6Addr};
use telemetry::clock::Nanos;

/// All nodes of a link.
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of a link.
pub(crate) const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// What neighbour discovery's hop limit has to be: no router can have forwarded it.
pub(crate) const HOP_LIMIT: u8 = 255;
/// Advertisement: it answers a solicitation.
const SOLICITED: u8 = 0x40;
/// Advertisement: what was known of the address is not so any more.
const OVERRIDE: u8 = 0x20;
/// Options: the sender's link-layer address, the target's.
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;

/// The solicited-node group of an address (RFC 4291 section 2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

impl Device {
    /// A message of neighbour discovery came from the station `source`.
    pub(crate) fn discovery_input(&mut self, source: Mac, message: &Message, now: Nanos) -> Input {
        // A station speaks for itself.
        if message.link.is_some_and(|link| link != source) {
            return Input::Dropped(Fault::Address);
        }
        let own = |address: Ipv6Addr| self.addresses.find(address.into()).is_some();
        match &message.body {
            // A message in the device's name, unless it is the other station's in a conflict.
            Body::Solicitation { .. } | Body::Router(_) if own(message.from) => {
                Input::Dropped(Fault::Address)
            }
            Body::Advertisement { target, .. } if own(message.from) && !own(*target) => {
                Input::Dropped(Fault::Address)
            }
            Body::Solicitation { target } => self.solicited(source, message, *target, now),
            Body::Advertisement { target, router, solicited, replaces } => {
                let target = IpAddr::V6(*target);
                if self.addresses.find(target).is_some() {
                    self.conflict(target, now);
                    return Input::Taken;
                }
                if !router && self.routers.remove(target) {
                    // It said that it is none any more (RFC 4861 section 7.2.5).
                    self.changes.routers = true;
                }
                let known = self.table.mac(target);
                let same = known == Some(source);
                match (message.link.is_some() || same, solicited) {
                    (true, true) if known.is_none() || same || *replaces => {
                        self.table.answered(target, source, now, &mut self.rng);
                    }
                    (true, false) if known.is_none() || *replaces => self.table.claimed(target, source, now),
                    _ => {}
                }
                Input::Taken
            }
            Body::Router(advertisement) => {
                if !self.settings.router_advertisements {
                    return Input::Ignored;
                }
                if message.link.is_some() {
                    self.table.claimed(message.from.into(), source, now);
                }
                self.router_input(message.from, advertisement, now);
                Input::Taken
            }
        }
    }

    fn solicited(&mut self, source: Mac, message: &Message, target: Ipv6Addr, now: Nanos) -> Input {
        let probe = message.from.is_unspecified();
        if !probe && !is_unicast(message.from.into()) {
            return Input::Dropped(Fault::Address);
        }
        if !probe && message.link.is_some() {
            self.table.claimed(message.from.into(), source, now);
        }
        if self.addresses.has(target.into()) {
            if self.outbox.may_answer(now) {
                let (to, to_mac) =
                    if probe { (ALL_NODES, group_mac(ALL_NODES.into())) } else { (message.from, source) };
                let flags = if probe { OVERRIDE } else { SOLICITED | OVERRIDE };
                self.advertise(target, flags, to, to_mac);
            }
        } else if probe && self.addresses.find(target.into()).is_some() {
            self.conflict(target.into(), now);
        }
        Input::Taken
    }

    /// An advertisement of an own address. Allowed by the outbox.
    fn advertise(&mut self, target: Ipv6Addr, flags: u8, to: Ipv6Addr, to_mac: Mac) {
        let way = Way { from_mac: self.settings.mac, to_mac, from: target, to };
        let message = icmpv6::Repr { kind: kind::NEIGHBOUR_ADVERTISEMENT, code: 0, rest: [flags, 0, 0, 0] };
        let data = with_link(target, Some((TARGET_OPTION, self.settings.mac)));
        self.outbox.put(frame::icmpv6(way, (HOP_LIMIT, false), message, &data));
    }

    /// Tells the routers of an own address that is valid from now on (RFC 9131), or all stations that it is
    /// the device's. Allowed by the outbox.
    pub(crate) fn announce_v6(&mut self, address: Ipv6Addr, defend: bool) {
        let (to, flags) = if defend { (ALL_NODES, OVERRIDE) } else { (ALL_ROUTERS, 0) };
        self.advertise(address, flags, to, group_mac(to.into()));
    }

    /// Asks for an address, from `source`; from `::` to probe an own one. Allowed by the outbox.
    pub(crate) fn solicit(&mut self, source: Ipv6Addr, target: Ipv6Addr, of: Option<Mac>) {
        let group = solicited_node(target);
        let (to, to_mac) = of.map_or((group, group_mac(group.into())), |mac| (target, mac));
        let way = Way { from_mac: self.settings.mac, to_mac, from: source, to };
        let message = icmpv6::Repr { kind: kind::NEIGHBOUR_SOLICITATION, code: 0, rest: [0; 4] };
        let link = (!source.is_unspecified()).then_some((SOURCE_OPTION, self.settings.mac));
        self.outbox.put(frame::icmpv6(way, (HOP_LIMIT, false), message, &with_link(target, link)));
    }

    /// Asks for routers (RFC 4861 section 6.3.7). Allowed by the outbox.
    pub(crate) fn solicit_routers(&mut self, from: Ipv6Addr) {
        let to_mac = group_mac(ALL_ROUTERS.into());
        let way = Way { from_mac: self.settings.mac, to_mac, from, to: ALL_ROUTERS };
        let message = icmpv6::Repr { kind: kind::ROUTER_SOLICITATION, code: 0, rest: [0; 4] };
        let option = link_option(SOURCE_OPTION, self.settings.mac);
        self.outbox.put(frame::icmpv6(way, (HOP_LIMIT, false), message, &option));
    }
}

/// An option with a link-layer address.
fn link_option(kind: u8, [a, b, c, d, e, f]: Mac) -> [u8; 8] {
    [kind, 1, a, b, c, d, e, f]
}

/// A target, and an option with a link-layer address.
fn with_link(target: Ipv6Addr, link: Option<(u8, Mac)>) -> Vec<u8> {
    let mut data = target.octets().to_vec();
    if let Some((kind, mac)) = link {
        data.extend(link_option(kind, mac));
    }
    data
}
