//! The configuration, checked beyond what the schema can say, and the table made of it.

use crate::hops::{Hop, Silent};
use crate::links::Neighbours;
use crate::routes_file::{self, address_of, masked, small_number};
use crate::table::{Known, Routes, Table, TableError};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use nf_sdk::{Config, Error, Limiter, Map};

/// Most interfaces, and their names: each is one character.
pub const MAX_INTERFACES: usize = 8;
const NAMES: [&str; MAX_INTERFACES] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Its addresses and the lengths of their networks.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Longest packet behind the Ethernet header.
    pub mtu: Option<u32>,
    /// Whether the configuration has it.
    pub is_there: bool,
}

/// Prefixes that packets are never routed to.
fn special() -> [(IpAddr, u8, Silent); 8] {
    let four = |a: u8, length, why| (IpAddr::V4(Ipv4Addr::new(a, 0, 0, 0)), length, why);
    let six = |bits: u128, length, why| (IpAddr::V6(Ipv6Addr::from_bits(bits)), length, why);
    [
        four(0, 8, Silent::Martian),
        four(127, 8, Silent::Martian),
        four(224, 4, Silent::Multicast),
        four(240, 4, Silent::Martian),
        six(0, 128, Silent::Martian),
        six(1, 128, Silent::Martian),
        six(0xfe80 << 112, 10, Silent::Martian),
        six(0xff00 << 112, 8, Silent::Multicast),
    ]
}

/// Finds out by which interface an address is reached.
#[derive(Debug)]
pub struct Resolver<'a> {
    interfaces: &'a [Interface; MAX_INTERFACES],
    special: [(IpAddr, u8, Silent); 8],
}

impl<'a> Resolver<'a> {
    /// By the interfaces of the configuration.
    pub fn new(interfaces: &'a [Interface; MAX_INTERFACES]) -> Resolver<'a> {
        Resolver { interfaces, special: special() }
    }

    /// The interface whose network the address is in.
    fn connected(&self, address: IpAddr) -> Option<u16> {
        let networks = self.interfaces.iter().enumerate().flat_map(|(number, interface)| {
            interface.addresses.iter().map(move |(own, length)| (number as u16, *own, *length))
        });
        networks
            .filter(|(_, own, length)| {
                own.is_ipv4() == address.is_ipv4() && masked(*own, *length) == masked(address, *length)
            })
            .max_by_key(|(_, _, length)| *length)
            .map(|(number, ..)| number)
    }

    /// Where destinations like `to` are led.
    ///
    /// # Errors
    /// What is wrong.
    pub fn hop(&self, to: IpAddr, via: Option<IpAddr>, interface: Option<&str>) -> Result<Hop, String> {
        let interface = interface.map(|name| number(name, self.interfaces)).transpose()?;
        match (via, interface) {
            (Some(via), _) if via.is_ipv4() != to.is_ipv4() => {
                Err(format!("next hop {via} is not of the family of {to}; allowed: both of one"))
            }
            (Some(via), Some(interface)) => Ok(Hop::Via(interface, via)),
            (Some(via), None) => match self.connected(via) {
                Some(interface) => Ok(Hop::Via(interface, via)),
                None => Err(format!(
                    "{via} is in the network of no interface; `dev` (in a file) or `interface` names one"
                )),
            },
            (None, Some(interface)) => Ok(Hop::Connected(interface)),
            (None, None) => Err(String::from("neither a next hop nor an interface")),
        }
    }

    /// Whether a prefix may be routed.
    ///
    /// # Errors
    /// What it is.
    #[inline]
    pub fn check(&self, address: IpAddr, length: u8) -> Result<(), String> {
        let inside = self.special.iter().find(|(special, bits, _)| {
            length >= *bits && special.is_ipv4() == address.is_ipv4() && masked(address, *bits) == *special
        });
        match inside {
            None => Ok(()),
            Some((special, bits, _)) => Err(format!("addresses of {special}/{bits} are never routed")),
        }
    }
}

/// The number of an interface.
fn number(name: &str, interfaces: &[Interface; MAX_INTERFACES]) -> Result<u16, String> {
    let number = NAMES.iter().position(|known| *known == name);
    match number.filter(|number| interfaces[*number].is_there) {
        Some(number) => Ok(number as u16),
        None => {
            let there: Vec<&str> = NAMES
                .iter()
                .zip(interfaces)
                .filter(|(_, interface)| interface.is_there)
                .map(|(name, _)| *name)
                .collect();
            Err(format!("`{name}` is no interface of this router; allowed: {}", there.join(", ")))
        }
    }
}

/// The whole configuration.
pub struct Settings {
    /// Interfaces by number.
    pub interfaces: [Interface; MAX_INTERFACES],
    /// Ethernet addresses by interface and address.
    pub neighbours: Neighbours,
    /// The table.
    pub table: Table,
    /// Where its routes lead.
    pub hops: crate::hops::Hops,
    /// What it is made of.
    pub known: Known,
    /// Of ICMP errors.
    pub limiter: Limiter,
    /// Whether what is asked of the router itself is answered.
    pub echo: bool,
}

fn refused(text: String) -> Error {
    Error::Refused(text)
}

fn wrong(key: &str) -> Error {
    Error::WrongType(String::from(key))
}

fn table_error(error: TableError) -> Error {
    refused(String::from(match error {
        TableError::NoMemory => "not enough memory for the routes; `memory` allows the function more",
        TableError::TooMany => {
            "too many next hops; allowed: 65,535, in 32,767 different sets, 64 for one prefix"
        }
    }))
}

impl Settings {
    /// Reads it.
    ///
    /// # Errors
    /// What cannot be used; the message names the key, and of a file the line.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let interfaces = interfaces(config)?;
        let resolver = Resolver::new(&interfaces);
        let mut routes = Routes::default();
        for (address, length, why) in resolver.special {
            routes.add(address, length, Hop::Drop(why)).map_err(table_error)?;
        }
        for (number, interface) in interfaces.iter().enumerate() {
            for (address, length) in &interface.addresses {
                connect(&mut routes, number as u16, *address, *length).map_err(table_error)?;
            }
        }
        let neighbours = neighbours(config, &resolver)?;
        for (place, route) in config.list("routes")?.enumerate() {
            let map = route.map().ok_or_else(|| wrong("routes"))?;
            let at = |what: String| refused(format!("routes: entry {}: {what}", place + 1));
            let to = map.prefix("to")?;
            resolver.check(to.address, to.length).map_err(at)?;
            let hop = hop(&map, to.address, &resolver)?.map_err(at)?;
            routes.add(to.address, to.length, hop).map_err(table_error)?;
        }
        if let Some(file) = config.optional("routes_file")? {
            let file = file.file().ok_or_else(|| wrong("routes_file"))?;
            routes_file::read(file.contents, &resolver, &mut routes)
                .map_err(|what| refused(format!("routes_file: {}: {what}", file.path)))?;
        }
        let (table, hops, known) = routes.finish().map_err(table_error)?;
        let limiter = Limiter::new(config.size("icmp_rate")?, config.size("icmp_burst")?);
        let echo = config.boolean("echo")?;
        Ok(Settings { neighbours, table, hops, known, limiter, echo, interfaces })
    }
}

fn interfaces(config: &Config) -> Result<[Interface; MAX_INTERFACES], Error> {
    let mut all: [Interface; MAX_INTERFACES] = core::array::from_fn(|_| Interface::default());
    for entry in config.list("interfaces")? {
        let map = entry.map().ok_or_else(|| wrong("interfaces"))?;
        let name = map.text("name")?;
        let number = NAMES.iter().position(|known| *known == name).ok_or_else(|| wrong("name"))?;
        if all[number].is_there {
            return Err(refused(format!("interfaces: `{name}` is there twice")));
        }
        let mac = match map.optional("mac")? {
            None => None,
            Some(value) => Some(value.mac().ok_or_else(|| wrong("mac"))?),
        };
        if mac.is_some_and(|mac| mac[0] & 1 != 0 || mac == [0; 6]) {
            return Err(refused(format!("interfaces: {name}: mac: allowed is the address of one host")));
        }
        let mtu = match map.optional("mtu")? {
            None => None,
            Some(value) => Some(value.size().ok_or_else(|| wrong("mtu"))? as u32),
        };
        let mut addresses = Vec::new();
        for text in map.list("addresses")? {
            let text = text.text().ok_or_else(|| wrong("addresses"))?;
            let own = interface_address(text)
                .map_err(|what| refused(format!("interfaces: {name}: addresses: `{text}`: {what}")))?;
            let earlier = all.iter().flat_map(|interface| &interface.addresses).chain(&addresses);
            if earlier.into_iter().any(|(address, _)| *address == own.0) {
                return Err(refused(format!("interfaces: {name}: addresses: `{text}` is there twice")));
            }
            addresses.push(own);
        }
        all[number] = Interface { mac, addresses, mtu, is_there: true };
    }
    Ok(all)
}

/// An interface's address and the length of its network.
fn interface_address(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || String::from("allowed is an address with the length of its network, such as 192.0.2.1/24");
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address = address_of(address.as_bytes()).ok_or_else(wrong)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length =
        small_number(length.as_bytes()).filter(|length| *length <= most && *length > 0).ok_or_else(wrong)?;
    let host = match address {
        IpAddr::V4(four) => {
            let beyond = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
            let host = four.to_bits() & beyond;
            !(four.is_unspecified() || four.is_loopback() || four.is_multicast() || four.octets()[0] >= 240)
                && (length >= 31 || (host != 0 && host != beyond))
        }
        IpAddr::V6(six) => !(six.is_unspecified() || six.is_loopback() || six.is_multicast()),
    };
    if host { Ok((address, length)) } else { Err(String::from("it is not the address of a host")) }
}

/// Adds what an interface's address brings: the address itself, its network, and the addresses of that which
/// are no host's.
pub(crate) fn connect(
    routes: &mut Routes,
    interface: u16,
    address: IpAddr,
    length: u8,
) -> Result<(), TableError> {
    let whole = if address.is_ipv4() { 32 } else { 128 };
    routes.add(address, whole, Hop::Local(interface))?;
    let network = masked(address, length);
    if matches!(address, IpAddr::V6(six) if six.is_unicast_link_local()) {
        // The network is each link's own.
        return Ok(());
    }
    routes.add(network, length, Hop::Connected(interface))?;
    if let IpAddr::V4(network) = network
        && length < 31
    {
        let last = network.to_bits() | u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
        for edge in [network, Ipv4Addr::from_bits(last)] {
            routes.add(IpAddr::V4(edge), 32, Hop::Drop(Silent::Broadcast))?;
        }
    }
    Ok(())
}

fn neighbours(config: &Config, resolver: &Resolver<'_>) -> Result<Neighbours, Error> {
    let mut all = Neighbours::new();
    for entry in config.list("neighbours")? {
        let map = entry.map().ok_or_else(|| wrong("neighbours"))?;
        let (address, mac) = (map.address("address")?, map.mac("mac")?);
        let name = name_of(&map)?;
        let interface = match name {
            Some(name) => number(name, resolver.interfaces).map(Some),
            None => Ok(resolver.connected(address)),
        };
        let interface = interface
            .and_then(|found| {
                found.ok_or_else(|| {
                    String::from("it is in the network of no interface; `interface` names one")
                })
            })
            .map_err(|what| refused(format!("neighbours: {address}: {what}")))?;
        if mac[0] & 1 != 0 {
            return Err(refused(format!("neighbours: {address}: mac: allowed is the address of one host")));
        }
        if all.insert((interface, address), mac).is_some() {
            return Err(refused(format!("neighbours: {address} is there twice")));
        }
    }
    Ok(all)
}

fn name_of<'a>(map: &Map<'a>) -> Result<Option<&'a str>, Error> {
    match map.optional("interface")? {
        None => Ok(None),
        Some(value) => value.text().map(Some).ok_or_else(|| wrong("interface")),
    }
}

/// Where a route of the configuration leads.
fn hop(map: &Map<'_>, to: IpAddr, resolver: &Resolver<'_>) -> Result<Result<Hop, String>, Error> {
    let via = match map.optional("via")? {
        None => None,
        Some(value) => Some(value.address().ok_or_else(|| wrong("via"))?),
    };
    let name = name_of(map)?;
    let action = map.text("action")?;
    Ok(match action {
        "forward" => resolver.hop(to, via, name),
        _ if via.is_some() || name.is_some() => {
            Err(format!("`{action}` has neither `via` nor `interface`").to_string())
        }
        "reject" => Ok(Hop::Reject),
        _ => Ok(Hop::Drop(Silent::Blackhole)),
    })
}
