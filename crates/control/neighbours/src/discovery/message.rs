//! Messages of neighbour discovery, read with all that makes one invalid (RFC 4861 sections 4, 6.1 and 7.1).

use super::{HOP_LIMIT, OVERRIDE, SOLICITED, SOURCE_OPTION, TARGET_OPTION, solicited_node};
use crate::counters::Fault;
use crate::settings::Mac;
use packet::checksum::Endpoints;
use packet::icmpv6::{self, kind};
use packet::ipv6;
use std::net::Ipv6Addr;

/// Options: a prefix, the MTU.
const PREFIX_OPTION: u8 = 3;
const MTU_OPTION: u8 = 5;
/// Prefixes of one advertisement that are looked at.
const MAX_PREFIXES: usize = 16;
/// Advertisement: its sender is a router.
const ROUTER: u8 = 0x80;

/// A prefix that a router advertises (RFC 4861 section 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrefixInformation {
    pub(crate) prefix: Ipv6Addr,
    pub(crate) length: u8,
    /// Its addresses are on the link.
    pub(crate) on_link: bool,
    /// Addresses may be made of it.
    pub(crate) autonomous: bool,
    /// Seconds; all ones without end.
    pub(crate) valid: u32,
    pub(crate) preferred: u32,
}

/// What a router advertises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouterAdvertisement {
    /// Seconds for which it is a default router; 0 when it is none.
    pub(crate) lifetime: u16,
    /// Milliseconds; 0 when it says nothing of it.
    pub(crate) reachable: u32,
    pub(crate) mtu: Option<u32>,
    pub(crate) prefixes: Vec<PrefixInformation>,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Solicitation { target: Ipv6Addr },
    Advertisement { target: Ipv6Addr, router: bool, solicited: bool, replaces: bool },
    Router(RouterAdvertisement),
}

/// A valid message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) from: Ipv6Addr,
    /// The sender's link-layer address in a solicitation and from a router, the target's in an advertisement.
    pub(crate) link: Option<Mac>,
    pub(crate) body: Body,
}

impl Message {
    /// Reads one; none for kinds that are ignored. `bytes` is what is behind the extension headers.
    pub(crate) fn read(packet: &ipv6::View<'_>, bytes: &[u8]) -> Result<Option<Message>, Fault> {
        let view = icmpv6::View::new(bytes).map_err(|_| Fault::Malformed)?;
        if packet.is_cut() {
            return Err(Fault::Malformed);
        }
        if packet.hop_limit() != HOP_LIMIT {
            return Err(Fault::HopLimit);
        }
        let (from, to) = (packet.source(), packet.destination());
        if !view.verify_checksum(&Endpoints::V6 { source: from, destination: to }) {
            return Err(Fault::Checksum);
        }
        if view.code() != 0 {
            return Err(Fault::Malformed);
        }
        let data = view.payload();
        let [flags, ..] = view.rest();
        match view.kind() {
            kind::NEIGHBOUR_SOLICITATION => {
                let (target, options) = target(data)?;
                let link = Options::of(options, SOURCE_OPTION)?.link;
                if from.is_unspecified() && (to != solicited_node(target) || link.is_some()) {
                    return Err(Fault::Address);
                }
                Ok(Some(Message { from, link, body: Body::Solicitation { target } }))
            }
            kind::NEIGHBOUR_ADVERTISEMENT => {
                let (target, options) = target(data)?;
                let link = Options::of(options, TARGET_OPTION)?.link;
                let solicited = flags & SOLICITED != 0;
                if to.is_multicast() && solicited {
                    return Err(Fault::Address);
                }
                let (router, replaces) = (flags & ROUTER != 0, flags & OVERRIDE != 0);
                Ok(Some(Message {
                    from,
                    link,
                    body: Body::Advertisement { target, router, solicited, replaces },
                }))
            }
            kind::ROUTER_ADVERTISEMENT => {
                if !from.is_unicast_link_local() {
                    return Err(Fault::Address);
                }
                let [_, _, high, low] = view.rest();
                let (reachable, rest) = data.split_first_chunk::<4>().ok_or(Fault::Malformed)?;
                let options = rest.get(4..).ok_or(Fault::Malformed)?;
                let options = Options::of(options, SOURCE_OPTION)?;
                let body = Body::Router(RouterAdvertisement {
                    lifetime: u16::from_be_bytes([high, low]),
                    reachable: u32::from_be_bytes(*reachable),
                    mtu: options.mtu,
                    prefixes: options.prefixes,
                });
                Ok(Some(Message { from, link: options.link, body }))
            }
            _ => Ok(None),
        }
    }

    /// The target of an advertisement, unchecked: whether it may be an answer that is waited for.
    pub(crate) fn advertised(bytes: &[u8]) -> Option<Ipv6Addr> {
        let view = icmpv6::View::new(bytes).ok()?;
        let target = view.payload().first_chunk::<16>()?;
        (view.kind() == kind::NEIGHBOUR_ADVERTISEMENT).then(|| Ipv6Addr::from(*target))
    }
}

/// A target that is one host's, and what follows it.
fn target(data: &[u8]) -> Result<(Ipv6Addr, &[u8]), Fault> {
    let (target, rest) = data.split_first_chunk::<16>().ok_or(Fault::Malformed)?;
    let target = Ipv6Addr::from(*target);
    let host = crate::settings::is_unicast(target.into());
    if host { Ok((target, rest)) } else { Err(Fault::Address) }
}

/// Options that are of interest.
#[derive(Debug, Default)]
struct Options {
    link: Option<Mac>,
    mtu: Option<u32>,
    prefixes: Vec<PrefixInformation>,
}

impl Options {
    /// Reads them all; `link` is the kind of link-layer address that is wanted. One without a length, or that
    /// reaches out of the message, makes all of it invalid; of one that is there twice the first counts.
    fn of(mut bytes: &[u8], link: u8) -> Result<Options, Fault> {
        let mut options = Options::default();
        while let [kind, units, ..] = *bytes {
            let length = usize::from(units) * 8;
            if length == 0 {
                return Err(Fault::Malformed);
            }
            let (option, rest) = bytes.split_at_checked(length).ok_or(Fault::Malformed)?;
            bytes = rest;
            match (kind, option) {
                (kind, &[_, 1, a, b, c, d, e, f]) if kind == link => {
                    let mac = [a, b, c, d, e, f];
                    if a & 1 != 0 || mac == [0; 6] {
                        return Err(Fault::Address);
                    }
                    options.link = options.link.or(Some(mac));
                }
                (MTU_OPTION, &[_, 1, _, _, a, b, c, d]) => {
                    options.mtu = options.mtu.or(Some(u32::from_be_bytes([a, b, c, d])));
                }
                (
                    PREFIX_OPTION,
                    &[_, 4, length, flags, a, b, c, d, e, f, g, h, _, _, _, _, ref prefix @ ..],
                ) if length <= 128 && options.prefixes.len() < MAX_PREFIXES => {
                    let prefix = prefix.first_chunk::<16>().ok_or(Fault::Malformed)?;
                    options.prefixes.push(PrefixInformation {
                        prefix: Ipv6Addr::from(*prefix),
                        length,
                        on_link: flags & 0x80 != 0,
                        autonomous: flags & 0x40 != 0,
                        valid: u32::from_be_bytes([a, b, c, d]),
                        preferred: u32::from_be_bytes([e, f, g, h]),
                    });
                }
                _ => {}
            }
        }
        if bytes.is_empty() { Ok(options) } else { Err(Fault::Malformed) }
    }
}
