//! Which packets: expressions in the language of pcap-filter(7), as far as headers up to the ports go.
//!
//! ```text
//! ip | ip6 | arp | tcp | udp | icmp | icmp6 | ether proto N | [ip] proto N | less N | greater N
//! [ip | ip6 | tcp | udp | ether] [src | dst | src or dst | src and dst] [host A | net P | port N | portrange N-M]
//! vlan [ID]                           an 802.1Q or 802.1ad tag
//! vni [N] | mpls [LABEL] | gre [key N]    a tunnel: VXLAN or Geneve, MPLS, GRE
//! dropped | passed                    what became of the packet where it was seen; not part of pcap-filter(7)
//! not E, ! E | E and E, E && E | E or E, E || E | ( E )
//! ```
//! As there, `and` and `or` bind equally and to the left, and a bare address or prefix is a `host` or a
//! `net`. Unlike there, primitives look behind VLAN tags.
//!
//! As there, a tunnel moves on what comes after it: joined to it by `and`, primitives before it mean the
//! outer headers, those after it the packet that it carries, and a further `vlan` or `mpls` means the next
//! tag or label. Unlike there, what follows `or` begins where its left side began; what follows alternatives
//! means the place where all of them ended, or if they ended at different ones, the place before them; `not`
//! moves nothing. `udp and (vni 7 or vni 8) and tcp` is TCP in one of two networks, over UDP.
//!
//! A keyword is about the next header: `vni 7` finds no VXLAN within MPLS, `mpls and vni 7` does. A fragment
//! is not looked into. `less` and `greater` are always about the whole frame.

mod alternatives;
mod level;
mod parse;
#[cfg(test)]
mod tests;

pub use alternatives::{Alternative, Condition, Side};
use level::{Levels, tunnels};
use packet::tunnel::{Level, Tunnels};
use packet::{Fragment, Transport};
use std::net::IpAddr;

/// What became of a packet where it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It went on.
    Passed,
    /// It ended there.
    Dropped,
}

/// Why an expression is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct FilterError {
    /// Where, from 1, in characters.
    pub column: usize,
    /// What was found and what is allowed.
    pub message: String,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    text: String,
    expression: Expression,
    /// Tunnels that have to be looked into to answer, and into how many of them.
    tunnels: Tunnels,
    deepest: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expression {
    Not(Box<Expression>),
    /// Both, or one of them: a list, so that a long expression is no deep one.
    All(Vec<Expression>),
    Any(Vec<Expression>),
    /// About the packet inside of so many tunnels.
    Is(u8, Test),
}

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Source,
    Destination,
    Either,
    Both,
}

impl End {
    fn of<T>(self, source: T, destination: T, is: impl Fn(T) -> bool) -> bool {
        match self {
            End::Source => is(source),
            End::Destination => is(destination),
            End::Either => is(source) || is(destination),
            End::Both => is(source) && is(destination),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Ethertype(u16),
    /// An IP protocol, in one family or in both.
    Protocol(Option<u16>, u8),
    /// The tag at this place, from 0.
    Vlan(u8, Option<u16>),
    /// The packet carries VXLAN or Geneve.
    Vni(Option<u32>),
    /// The label at this place, from 0.
    Mpls(u8, Option<u32>),
    Gre(Option<u32>),
    Ethernet(End, [u8; 6]),
    Network(End, IpAddr, u8),
    /// Of TCP, UDP, SCTP and the like, or of one of them.
    Ports(Option<u8>, End, u16, u16),
    AtMost(u32),
    AtLeast(u32),
    Became(Outcome),
}

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`FilterError`]: where it is none, what was found and what is allowed.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        let expression = parse::expression(text)?;
        let deepest = expression.deepest();
        let tunnels = if deepest.is_some() { tunnels() } else { Tunnels::NONE };
        Ok(Filter { text: text.to_owned(), expression, tunnels, deepest: deepest.unwrap_or(0) })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it asks what became of a packet (`dropped`, `passed`), which is not known before it is
    /// processed.
    pub fn uses_outcome(&self) -> bool {
        self.expression.uses_outcome()
    }

    /// Whether it is about this packet: `bytes` are its first ones, `length` is its whole length.
    pub fn matches(&self, bytes: &[u8], length: u32, outcome: Outcome) -> bool {
        let levels = Levels::read(bytes, &self.tunnels, usize::from(self.deepest));
        let seen = Seen { bytes, length, outcome, levels, tunnels: &self.tunnels };
        self.expression.matches(&seen)
    }
}

struct Seen<'a> {
    bytes: &'a [u8],
    length: u32,
    outcome: Outcome,
    levels: Levels,
    tunnels: &'a Tunnels,
}

impl Expression {
    fn uses_outcome(&self) -> bool {
        match self {
            Expression::Not(inner) => inner.uses_outcome(),
            Expression::All(parts) | Expression::Any(parts) => parts.iter().any(Expression::uses_outcome),
            Expression::Is(_, test) => matches!(test, Test::Became(_)),
        }
    }

    /// How many tunnels are looked into; `None` when it does not ask for tunnels.
    fn deepest(&self) -> Option<u8> {
        match self {
            Expression::Not(inner) => inner.deepest(),
            Expression::All(parts) | Expression::Any(parts) => {
                parts.iter().filter_map(Expression::deepest).max()
            }
            Expression::Is(level, Test::Vni(_) | Test::Gre(_) | Test::Mpls(..)) => Some(*level),
            Expression::Is(level, _) => (*level > 0).then_some(*level),
        }
    }

    fn matches(&self, seen: &Seen<'_>) -> bool {
        match self {
            Expression::Not(inner) => !inner.matches(seen),
            Expression::All(parts) => parts.iter().all(|part| part.matches(seen)),
            Expression::Any(parts) => parts.iter().any(|part| part.matches(seen)),
            Expression::Is(level, test) => test.is(seen, *level),
        }
    }
}

impl Test {
    fn is(&self, seen: &Seen<'_>, level: u8) -> bool {
        match *self {
            Test::AtMost(length) => return seen.length <= length,
            Test::AtLeast(length) => return seen.length >= length,
            Test::Became(outcome) => return seen.outcome == outcome,
            // Its addresses are there even where a header behind them is cut.
            Test::Ethernet(end, address) if level == 0 => return ethernet_is(seen.bytes, 0, end, address),
            _ => {}
        }
        match seen.levels.get(level) {
            Some(found) => self.is_of(seen, found),
            None => false,
        }
    }

    fn is_of(&self, seen: &Seen<'_>, level: &Level) -> bool {
        let headers = &level.dissection;
        match *self {
            Test::Ethertype(ethertype) => return headers.ethertype == ethertype,
            Test::Ethernet(end, address) => {
                return level.ethernet().is_some_and(|at| ethernet_is(seen.bytes, at, end, address));
            }
            Test::Vlan(place, id) => {
                let tag = headers.tags.as_slice().get(usize::from(place));
                return tag.is_some_and(|tag| id.is_none_or(|id| tag.id() == id));
            }
            Test::Vni(id) => return level::vni(seen.bytes, level, seen.tunnels, id),
            Test::Gre(key) => return level::gre(seen.bytes, level, seen.tunnels, key),
            Test::Mpls(place, label) => return level::mpls(seen.bytes, level, place, label),
            Test::Network(end, address, length) if headers.ethertype == ARP => {
                return arp_ends(seen.bytes, headers.l3_offset, level.limit()).is_some_and(
                    |(source, target)| end.of(source, target, |ip| inside(ip, address, length)),
                );
            }
            _ => {}
        }
        let Some(network) = &headers.network else { return false };
        match *self {
            Test::Protocol(family, protocol) => {
                network.protocol == protocol && family.is_none_or(|family| family == headers.ethertype)
            }
            Test::Network(end, address, length) => {
                end.of(network.source, network.destination, |ip| inside(ip, address, length))
            }
            Test::Ports(protocol, end, first, last) => {
                let Transport::Ports { source, destination } = network.transport else { return false };
                !matches!(network.fragment, Fragment::Later { .. })
                    && protocol.is_none_or(|protocol| protocol == network.protocol)
                    && end.of(source, destination, |port| (first..=last).contains(&port))
            }
            _ => false,
        }
    }
}

const ARP: u16 = 0x0806;

fn ethernet_is(bytes: &[u8], at: usize, end: End, address: [u8; 6]) -> bool {
    let (Some(destination), Some(source)) = (bytes.get(at..at + 6), bytes.get(at + 6..at + 12)) else {
        return false;
    };
    end.of(source, destination, |found| found == address)
}

/// Sender's and target's IPv4 address of an ARP packet (RFC 826), which ends before `limit`.
fn arp_ends(bytes: &[u8], at: usize, limit: usize) -> Option<(IpAddr, IpAddr)> {
    let body: &[u8; 28] = bytes.get(..limit)?.get(at..at + 28)?.try_into().ok()?;
    let address = |from: usize| -> Option<IpAddr> {
        <[u8; 4]>::try_from(body.get(from..from + 4)?).ok().map(IpAddr::from)
    };
    // Ethernet and IPv4.
    (body[..6] == [0, 1, 8, 0, 6, 4]).then_some((address(14)?, address(24)?))
}

fn inside(ip: IpAddr, network: IpAddr, length: u8) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            let differ = ip.to_bits() ^ network.to_bits();
            differ.checked_shr(32 - u32::from(length)).unwrap_or(0) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            let differ = ip.to_bits() ^ network.to_bits();
            differ.checked_shr(128 - u32::from(length)).unwrap_or(0) == 0
        }
        _ => false,
    }
}
