//! The configuration, checked beyond what the schema can say.

use crate::nat64;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use nf_sdk::ticks::span;
use nf_sdk::wire::{Address, ICMP, TCP, UDP, host_v4, wire_v4};
use nf_sdk::{Config, Error, Map, Prefix, Value};

/// Most addresses of the pool.
pub const MAX_POOL: usize = 1024;
/// Most ports that are forwarded.
pub const MAX_FORWARDED: usize = 65_536;
/// Which packets from outside a mapping lets in (RFC 4787 section 5, RFC 5382 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtering {
    /// Those of any sender.
    EndpointIndependent,
    /// Those of addresses that the inside end has sent to.
    AddressDependent,
    /// Those of addresses and ports that the inside end has sent to.
    AddressAndPortDependent,
}

/// A port of the pool that leads to an inside host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// [`TCP`] or [`UDP`].
    pub protocol: u8,
    /// Address and port of the pool.
    pub outside: (Address, u16),
    /// Address and port of the inside host.
    pub inside: (Address, u16),
}

/// Protocol, address and port.
type End = (u8, Address, u16);

impl Forward {
    fn outside_end(&self) -> End {
        (self.protocol, self.outside.0, self.outside.1)
    }

    fn inside_end(&self) -> End {
        (self.protocol, self.inside.0, self.inside.1)
    }
}

/// How long sessions may be idle, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// UDP.
    pub udp: u32,
    /// TCP, both sides have agreed.
    pub established: u32,
    /// TCP, opening or ending.
    pub transitory: u32,
    /// ICMP queries.
    pub icmp: u32,
    /// First fragments that later ones may follow.
    pub fragment: u32,
}

/// The configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The outside addresses.
    pub pool: Vec<Address>,
    /// Inside sources that are translated; all IPv4 without any.
    pub inside: Vec<(Address, Address)>,
    /// Which packets from outside a mapping lets in.
    pub filtering: Filtering,
    /// All mappings of a host have one outside address.
    pub paired: bool,
    /// Ports that are given out, in host order.
    pub ports: (u16, u16),
    /// A mapping gets the port that the inside host uses, if it is free.
    pub preserve: bool,
    /// Ports that lead to inside hosts.
    pub forwards: Vec<Forward>,
    /// Most sessions.
    pub max_sessions: usize,
    /// Most inside hosts.
    pub max_hosts: usize,
    /// Most sessions of one inside host.
    pub host_sessions: u32,
    /// Most outside ports of one inside host.
    pub host_ports: u32,
    /// Packets from outside give a UDP session more time too.
    pub inbound_refresh: bool,
    /// A SYN that nothing asked for is answered after six seconds.
    pub answer: bool,
    /// The IPv6 prefix that stands for the IPv4 internet.
    pub nat64: Option<nat64::Prefix>,
    /// Longest IPv6 packet that is not cut of IPv4 packets that may be.
    pub nat64_mtu: usize,
    /// How long sessions may be idle.
    pub timeouts: Timeouts,
}

fn refused(what: impl Into<String>) -> Error {
    Error::Refused(what.into())
}

fn numbered(key: &str, number: usize, what: impl core::fmt::Display) -> Error {
    refused(format!("{key}[{number}]: {what}"))
}

fn dotted(address: Address) -> Ipv4Addr {
    Ipv4Addr::from_bits(host_v4(address))
}

/// An end as messages name it.
fn named((protocol, address, port): End) -> String {
    format!("{} {} port {port}", if protocol == TCP { "tcp" } else { "udp" }, dotted(address))
}

/// The first of a sorted list that is there twice.
fn twice<T: PartialEq + Copy>(sorted: &[T]) -> Option<T> {
    sorted.windows(2).find(|two| two[0] == two[1]).map(|two| two[0])
}

/// The IPv4 prefixes of a list.
fn prefixes(value: Value<'_>, key: &str) -> Result<Vec<Prefix>, Error> {
    let wrong = || Error::WrongType(String::from(key));
    let prefixes: Option<Vec<Prefix>> = value.list().ok_or_else(wrong)?.map(|item| item.prefix()).collect();
    let prefixes = prefixes.ok_or_else(wrong)?;
    match prefixes.iter().enumerate().find(|(_, prefix)| !prefix.address.is_ipv4()) {
        Some((number, Prefix { address, length })) => {
            Err(numbered(key, number, format_args!("{address}/{length}; allowed are prefixes of IPv4")))
        }
        None => Ok(prefixes),
    }
}

/// First address and number of addresses of an IPv4 prefix, in host order.
fn range(prefix: &Prefix) -> (u32, u64) {
    let bits = match prefix.address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(_) => 0,
    };
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.length.min(32))).unwrap_or(0);
    (bits & mask, 1 << (32 - u32::from(prefix.length.min(32))))
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What the host's check should have refused, and what contradicts itself.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let bound = |key: &str, most: u64| config.bounded(key, 1, most).map(|number| number as usize);
        let pool = pool(config)?;
        let mut inside = vec![];
        if let Some(list) = config.optional("inside")? {
            for prefix in prefixes(list, "inside")? {
                let (first, count) = range(&prefix);
                inside.push((first, !((count - 1) as u32)));
            }
        }
        let forwards = forwards(config, &pool)?;
        let ports = config.port_range("ports")?;
        if ports.0 == 0 {
            return Err(refused("ports: 0 is no port; allowed are ranges within 1-65535"));
        }
        let ticks = |key: &str| config.duration(key).map(span);
        Ok(Settings {
            pool,
            inside,
            filtering: match config.text("filtering")? {
                "endpoint-independent" => Filtering::EndpointIndependent,
                "address-dependent" => Filtering::AddressDependent,
                "address-and-port-dependent" => Filtering::AddressAndPortDependent,
                other => {
                    return Err(refused(format!(
                        "filtering: `{other}`; allowed: endpoint-independent, address-dependent, \
                         address-and-port-dependent"
                    )));
                }
            },
            paired: config.text("pooling")? == "paired",
            ports,
            preserve: config.boolean("preserve_ports")?,
            forwards,
            max_sessions: bound("max_sessions", 4_000_000)?,
            max_hosts: bound("max_hosts", 1_000_000)?,
            host_sessions: bound("host_sessions", 4_000_000)? as u32,
            host_ports: bound("host_ports", 65_536)? as u32,
            inbound_refresh: config.boolean("udp_inbound_refresh")?,
            answer: config.text("unsolicited")? == "answer",
            nat64: prefix64(config)?,
            nat64_mtu: config.bounded("nat64_mtu", 1280, 65_535)? as usize,
            timeouts: Timeouts {
                udp: ticks("udp_timeout")?,
                established: ticks("tcp_established_timeout")?,
                transitory: ticks("tcp_transitory_timeout")?,
                icmp: ticks("icmp_timeout")?,
                fragment: ticks("fragment_timeout")?,
            },
        })
    }
}

fn prefix64(config: &Config) -> Result<Option<nat64::Prefix>, Error> {
    let Some(value) = config.optional("nat64_prefix")? else { return Ok(None) };
    let prefix = value.prefix().ok_or_else(|| Error::WrongType(String::from("nat64_prefix")))?;
    let Prefix { address, length } = prefix;
    nat64::Prefix::new(address, length).map(Some).ok_or_else(|| {
        refused(format!(
            "nat64_prefix: {address}/{length}; allowed are IPv6 prefixes of 32, 40, 48, 56, 64 and 96 bits"
        ))
    })
}

fn pool(config: &Config) -> Result<Vec<Address>, Error> {
    let mut pool = vec![];
    let list = config.optional("pool")?.ok_or_else(|| Error::Missing(String::from("pool")))?;
    for (number, prefix) in prefixes(list, "pool")?.into_iter().enumerate() {
        let (first, count) = range(&prefix);
        let all = pool.len() as u64 + count;
        if all > MAX_POOL as u64 {
            let Prefix { address, length } = prefix;
            let what = format_args!("{all} addresses with {address}/{length}; allowed are {MAX_POOL}");
            return Err(numbered("pool", number, what));
        }
        pool.extend((0..count as u32).map(|n| wire_v4(first + n)));
    }
    pool.sort_unstable();
    if pool.is_empty() {
        return Err(refused("pool: no address; at least one is needed"));
    }
    match twice(&pool) {
        Some(address) => Err(refused(format!("pool: {} is there twice", dotted(address)))),
        None => Ok(pool),
    }
}

fn forwards(config: &Config, pool: &[Address]) -> Result<Vec<Forward>, Error> {
    let mut forwards: Vec<Forward> = vec![];
    let Some(list) = config.optional("forwards")? else { return Ok(forwards) };
    let list = list.list().ok_or_else(|| Error::WrongType(String::from("forwards")))?;
    for (number, item) in list.enumerate() {
        let wrong = |what: String| numbered("forwards", number, what);
        let map = item.map().ok_or_else(|| Error::WrongType(String::from("forwards")))?;
        let begin = forward(&map, &mut forwards).map_err(|error| wrong(error.message()))?;
        if forwards.len() > MAX_FORWARDED {
            let all = forwards.len();
            return Err(wrong(format!(
                "{all} ports with these; allowed are {MAX_FORWARDED} of all forwards"
            )));
        }
        let is_elsewhere = |forward: &&Forward| pool.binary_search(&forward.outside.0).is_err();
        if let Some(forward) = forwards.iter().skip(begin).find(is_elsewhere) {
            let outside = dotted(forward.outside.0);
            return Err(wrong(format!("outside: {outside}; allowed are the addresses of `pool`")));
        }
    }
    // A port leads to one host, and an inside end has one mapping.
    for (end, text) in [
        (Forward::outside_end as fn(&Forward) -> End, "leads to two inside ends; allowed is one"),
        (Forward::inside_end, "is the inside end of two ports; allowed is one"),
    ] {
        let mut ends: Vec<End> = forwards.iter().map(end).collect();
        ends.sort_unstable();
        if let Some(end) = twice(&ends) {
            return Err(refused(format!("forwards: {} {text}", named(end))));
        }
    }
    Ok(forwards)
}

/// Reads one item; where its ports begin in the list.
fn forward(map: &Map<'_>, forwards: &mut Vec<Forward>) -> Result<usize, Error> {
    let address = |key: &str| match map.address(key)? {
        IpAddr::V4(address) => Ok(wire_v4(address.to_bits())),
        IpAddr::V6(address) => Err(refused(format!("{key}: {address}; allowed are addresses of IPv4"))),
    };
    let protocol = match map.text("protocol")? {
        "tcp" => TCP,
        "udp" => UDP,
        other => return Err(refused(format!("protocol: `{other}`; allowed: tcp, udp"))),
    };
    let (outside, inside) = (address("outside")?, address("inside")?);
    let (first, last) = map.port_range("ports")?;
    let to = match map.optional("inside_port")? {
        None => first,
        Some(port) => {
            let port = port.integer().ok_or_else(|| Error::WrongType(String::from("inside_port")))?;
            let wrong = |_| refused(format!("inside_port: {port}; allowed: 1 to 65535"));
            u16::try_from(port).map_err(wrong)?
        }
    };
    let end = u32::from(to) + u32::from(last - first);
    if first == 0 || to == 0 || end > 65_535 {
        return Err(refused(format!(
            "ports {first}-{last} lead to inside ports {to}-{end}; allowed are ports from 1 to 65535"
        )));
    }
    let begin = forwards.len();
    forwards.extend((first..=last).map(|port| Forward {
        protocol,
        outside: (outside, port),
        inside: (inside, to + (port - first)),
    }));
    Ok(begin)
}

/// The number of a protocol in tables by protocol.
pub fn place(protocol: u8) -> usize {
    match protocol {
        TCP => 0,
        UDP => 1,
        ICMP => 2,
        _ => 3,
    }
}
