//! Keys that all filters' configurations have.

use crate::rule::{ICMP, ICMPV6, TCP, UDP};
use alloc::string::String;
use nf_sdk::{Config, Error, Map, Nanos};

/// Most rules of a set.
pub const MAX_RULES: usize = 4096;

/// How long flows may be idle.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// TCP, handshake incomplete.
    pub tcp_opening: Nanos,
    /// TCP, established.
    pub tcp_established: Nanos,
    /// TCP, FIN seen.
    pub tcp_closing: Nanos,
    /// TCP, reset.
    pub tcp_reset: Nanos,
    /// UDP without an answer.
    pub udp: Nanos,
    /// UDP with one.
    pub udp_answered: Nanos,
    /// ICMP echo.
    pub icmp: Nanos,
    /// Any other protocol.
    pub other: Nanos,
    /// Between the first fragment and the last.
    pub fragment: Nanos,
}

/// How connections are tracked.
#[derive(Clone, Debug)]
pub struct Tracking {
    /// TCP may be picked up in the middle.
    pub pick_up: bool,
    /// Most IPv4 flows.
    pub max_flows: usize,
    /// Most IPv6 flows.
    pub max_flows_ipv6: usize,
    /// How long flows may be idle.
    pub timeouts: Timeouts,
}

impl Tracking {
    /// Reads `max_flows`, `max_flows_ipv6` and the times, as the manifests of filters have them. TCP is not
    /// picked up.
    ///
    /// # Errors
    /// What the host's check should have refused.
    pub fn read(config: &Config) -> Result<Tracking, Error> {
        Ok(Tracking {
            pick_up: false,
            max_flows: config.bounded("max_flows", 1, 4_000_000)? as usize,
            max_flows_ipv6: config.bounded("max_flows_ipv6", 1, 1_000_000)? as usize,
            timeouts: Timeouts {
                tcp_opening: config.duration("tcp_opening_timeout")?,
                tcp_established: config.duration("tcp_established_timeout")?,
                tcp_closing: config.duration("tcp_closing_timeout")?,
                tcp_reset: config.duration("tcp_reset_timeout")?,
                udp: config.duration("udp_timeout")?,
                udp_answered: config.duration("udp_answered_timeout")?,
                icmp: config.duration("icmp_timeout")?,
                other: config.duration("other_timeout")?,
                fragment: config.duration("fragment_timeout")?,
            },
        })
    }
}

/// The number of a rule's `protocol`; `None`: any.
///
/// # Errors
/// A text that is neither a name nor a number.
pub fn protocol(rule: &Map<'_>) -> Result<Option<u8>, Error> {
    Ok(Some(match rule.text("protocol")? {
        "any" => return Ok(None),
        "tcp" => TCP,
        "udp" => UDP,
        "icmp" => ICMP,
        "icmpv6" => ICMPV6,
        number => number.parse().map_err(|_| {
            Error::refused(&["protocol: `", number, "` is none of tcp, udp, icmp, icmpv6, any, 0 to 255"])
        })?,
    }))
}

/// A rule's name; empty without one.
///
/// # Errors
/// It is no text.
pub fn name(rule: &Map<'_>) -> Result<String, Error> {
    match rule.optional("name")? {
        None => Ok(String::new()),
        Some(value) => Ok(String::from(value.text().ok_or_else(|| wrong("name"))?)),
    }
}

/// A port or range.
///
/// # Errors
/// It is neither.
pub fn ports(rule: &Map<'_>, key: &str) -> Result<Option<(u16, u16)>, Error> {
    match rule.optional(key)? {
        None => Ok(None),
        Some(value) => value.port_range().map(Some).ok_or_else(|| wrong(key)),
    }
}

/// `icmp_type` and `icmp_code`, as ranges of one value.
///
/// # Errors
/// One is no byte.
pub fn icmp(rule: &Map<'_>) -> Result<[Option<(u16, u16)>; 2], Error> {
    let byte = |key: &str| match rule.optional(key)? {
        None => Ok(None),
        Some(value) => {
            let byte = value.integer().and_then(|n| u8::try_from(n).ok()).ok_or_else(|| wrong(key))?;
            Ok(Some((u16::from(byte), u16::from(byte))))
        }
    };
    Ok([byte("icmp_type")?, byte("icmp_code")?])
}

/// Refuses ports and types where a rule's protocol has none.
///
/// # Errors
/// That.
pub fn suits(rule: &Map<'_>, has_ports: bool, has_type: bool) -> Result<(), Error> {
    let protocol = protocol(rule)?;
    let refused = |what: &str, allowed: &str| {
        let found = rule.text("protocol")?;
        Err(Error::refused(&["protocol: `", found, "` with ", what, "; allowed: ", allowed]))
    };
    if has_ports && !matches!(protocol, Some(TCP | UDP)) {
        return refused("ports", "tcp or udp");
    }
    if has_type && !matches!(protocol, Some(ICMP | ICMPV6)) {
        return refused("icmp_type or icmp_code", "icmp or icmpv6");
    }
    Ok(())
}

fn wrong(key: &str) -> Error {
    Error::WrongType(String::from(key))
}
