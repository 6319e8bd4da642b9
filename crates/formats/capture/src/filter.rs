//! Which packets: expressions in the language of pcap-filter(7), as far as headers up to the ports go.
//!
//! ```text
//! ip | ip6 | arp | tcp | udp | icmp | icmp6 | vlan [ID] | ether proto N | [ip] proto N | less N | greater N
//! [ip | ip6 | tcp | udp | ether] [src | dst | src or dst | src and dst] [host A | net P | port N | portrange N-M]
//! dropped | passed                    what became of the packet where it was seen; not part of pcap-filter(7)
//! not E, ! E | E and E, E && E | E or E, E || E | ( E )
//! ```
//! As there, `and` and `or` bind equally and to the left, and a bare address or prefix is a `host` or a
//! `net`. Unlike there, primitives look behind VLAN tags.

mod parse;

use packet::{Dissection, Fragment, Transport, dissect};
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
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expression {
    Not(Box<Expression>),
    /// Both, or one of them: a list, so that a long expression is no deep one.
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Is(Test),
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
    Vlan(Option<u16>),
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
        Ok(Filter { text: text.to_owned(), expression: parse::expression(text)? })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it asks what became of a packet (`dropped`, `passed`), which is not known before it is processed.
    pub fn uses_outcome(&self) -> bool {
        self.expression.uses_outcome()
    }

    /// Whether it is about this packet: `bytes` are its first ones, `length` is its whole length.
    pub fn matches(&self, bytes: &[u8], length: u32, outcome: Outcome) -> bool {
        let seen = Seen { bytes, length, outcome, headers: dissect(bytes).ok() };
        self.expression.matches(&seen)
    }
}

struct Seen<'a> {
    bytes: &'a [u8],
    length: u32,
    outcome: Outcome,
    /// `None` when a header is cut or impossible.
    headers: Option<Dissection>,
}

impl Expression {
    fn uses_outcome(&self) -> bool {
        match self {
            Expression::Not(inner) => inner.uses_outcome(),
            Expression::All(parts) | Expression::Any(parts) => parts.iter().any(Expression::uses_outcome),
            Expression::Is(test) => matches!(test, Test::Became(_)),
        }
    }

    fn matches(&self, seen: &Seen<'_>) -> bool {
        match self {
            Expression::Not(inner) => !inner.matches(seen),
            Expression::All(parts) => parts.iter().all(|part| part.matches(seen)),
            Expression::Any(parts) => parts.iter().any(|part| part.matches(seen)),
            Expression::Is(test) => test.is(seen),
        }
    }
}

impl Test {
    fn is(&self, seen: &Seen<'_>) -> bool {
        match *self {
            Test::AtMost(length) => return seen.length <= length,
            Test::AtLeast(length) => return seen.length >= length,
            Test::Became(outcome) => return seen.outcome == outcome,
            Test::Ethernet(end, address) => {
                let (Some(destination), Some(source)) = (seen.bytes.get(..6), seen.bytes.get(6..12)) else {
                    return false;
                };
                return end.of(source, destination, |found| found == address);
            }
            _ => {}
        }
        let Some(headers) = &seen.headers else { return false };
        match *self {
            Test::Ethertype(ethertype) => return headers.ethertype == ethertype,
            Test::Vlan(None) => return headers.vlan() != 0 || tagged(seen.bytes),
            Test::Vlan(Some(id)) => return tagged(seen.bytes) && headers.vlan() & 0xfff == id,
            Test::Network(end, address, length) if headers.ethertype == ARP => {
                return arp_ends(seen.bytes, headers.l3_offset).is_some_and(|(source, target)| {
                    end.of(source, target, |ip| inside(ip, address, length))
                });
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

fn tagged(bytes: &[u8]) -> bool {
    matches!(bytes.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]))
}

/// Sender's and target's IPv4 address of an ARP packet (RFC 826).
fn arp_ends(bytes: &[u8], at: usize) -> Option<(IpAddr, IpAddr)> {
    let body: &[u8; 28] = bytes.get(at..at + 28)?.try_into().ok()?;
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
