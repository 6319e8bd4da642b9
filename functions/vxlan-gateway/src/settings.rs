//! The configuration, checked beyond what the schema can say.

use crate::endpoints::{Endpoints, Mac};
use crate::is_source;
use crate::networks::{Network, Networks, Twice};
use crate::underlay::{Underlay, UnderlaySettings};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::{Config, Error, Limiter, Map, Value};

/// Most addresses of all networks together.
pub const MAX_ENDPOINTS: usize = 1 << 20;
/// ICMP errors that are sent at once.
const BURST: u64 = 10;

/// The whole configuration.
#[derive(Debug)]
pub struct Settings {
    /// Which VLAN is joined with which network.
    pub networks: Networks,
    /// Empty tables.
    pub endpoints: Endpoints,
    /// The network of the tunnels.
    pub underlay: Underlay,
    /// Tags inside of a network stay.
    pub keeps_tags: bool,
    /// Of ICMP errors.
    pub limiter: Limiter,
}

fn refused(text: String) -> Error {
    Error::Refused(text)
}

fn wrong(key: &str) -> Error {
    Error::WrongType(String::from(key))
}

/// Whether a host may have this address.
fn is_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback() || is_broadcast)
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// The address of another host, of the family of `local`.
fn other(key: &str, address: IpAddr, local: IpAddr) -> Result<IpAddr, Error> {
    if address.is_ipv4() != local.is_ipv4() {
        return Err(refused(format!("{key}: {address}; allowed is {} as `local` has", family(local))));
    }
    if !is_host(address) || address == local {
        return Err(refused(format!("{key}: {address}; allowed is the address of another host")));
    }
    Ok(address)
}

fn mac_of(key: &str, value: Value<'_>) -> Result<Mac, Error> {
    let mac = value.mac().ok_or_else(|| wrong(key))?;
    if is_source(mac) {
        return Ok(mac);
    }
    let found = mac.map(|byte| format!("{byte:02x}")).join(":");
    Err(refused(format!("{key}: {found}; allowed is the address of one host")))
}

impl Settings {
    /// Reads it.
    ///
    /// # Errors
    /// What cannot be used; the message names the key.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let local = config.address("local")?;
        if !is_host(local) {
            return Err(refused(format!("local: {local}; allowed is the address of a host")));
        }
        let networks = networks(config, local)?;
        let most = config.integer("endpoints")? as usize;
        let all = networks.len() * most;
        if all > MAX_ENDPOINTS {
            let allowed = MAX_ENDPOINTS / networks.len();
            return Err(refused(format!(
                "endpoints: {most} for each of {} networks are {all}; allowed are {allowed}, together {MAX_ENDPOINTS}",
                networks.len()
            )));
        }
        let endpoints = Endpoints::new(networks.len(), most, config.duration("ageing")?);
        let limiter = Limiter::new(config.size("icmp_rate")?, BURST);
        let keeps_tags = config.text("tagged")? == "keep";
        Ok(Settings { networks, endpoints, underlay: underlay(config, local)?, keeps_tags, limiter })
    }
}

fn underlay(config: &Config, local: IpAddr) -> Result<Underlay, Error> {
    let mac = config.optional("mac")?.map(|value| mac_of("mac", value)).transpose()?;
    let mut neighbours = BTreeMap::new();
    for entry in config.list("neighbours")? {
        let map = entry.map().ok_or_else(|| wrong("neighbours"))?;
        let address = other("neighbours: address", map.address("address")?, local)?;
        if neighbours.insert(address, mac_of("neighbours: mac", map.value("mac")?)?).is_some() {
            return Err(refused(format!("neighbours: {address} is there twice")));
        }
    }
    let gateway = match config.optional("gateway")? {
        None => None,
        Some(value) => Some(other("gateway", value.address().ok_or_else(|| wrong("gateway"))?, local)?),
    };
    let mtu = match config.optional("mtu")? {
        None => None,
        Some(value) => Some(value.integer().ok_or_else(|| wrong("mtu"))? as u32),
    };
    Ok(Underlay::new(UnderlaySettings {
        local,
        mac,
        neighbours,
        gateway,
        port: config.integer("port")? as u16,
        ttl: config.integer("ttl")? as u8,
        dscp: config.integer("dscp")? as u8,
        mtu,
        zero_checksum: config.boolean("udp6_zero_checksum")?,
    }))
}

fn networks(config: &Config, local: IpAddr) -> Result<Networks, Error> {
    let mut networks = Networks::default();
    for entry in config.list("networks")? {
        let map = entry.map().ok_or_else(|| wrong("networks"))?;
        networks.add(network(&map, local)?).map_err(|twice| {
            refused(match twice {
                Twice::Vlan(0) => String::from("networks: frames without a tag are joined twice"),
                Twice::Vlan(vlan) => format!("networks: vlan {vlan} is there twice"),
                Twice::Vni(vni) => format!("networks: vni {vni} is there twice"),
            })
        })?;
    }
    Ok(networks)
}

fn network(map: &Map<'_>, local: IpAddr) -> Result<Network, Error> {
    let vni = map.integer("vni")? as u32;
    let key = |key: &str| format!("networks: vni {vni}: {key}");
    let vlan = match map.optional("vlan")? {
        None => 0,
        Some(value) => value.integer().ok_or_else(|| wrong("vlan"))? as u16,
    };
    let mut flood: Vec<IpAddr> = Vec::new();
    for value in map.list("remotes")? {
        let remote = other(&key("remotes"), value.address().ok_or_else(|| wrong("remotes"))?, local)?;
        if flood.contains(&remote) {
            return Err(refused(format!("{}: {remote} is there twice", key("remotes"))));
        }
        flood.push(remote);
    }
    let group = match map.optional("group")? {
        None => None,
        Some(value) => Some(value.address().ok_or_else(|| wrong("group"))?),
    };
    if let Some(group) = group {
        if !group.is_multicast() || group.is_ipv4() != local.is_ipv4() {
            let allowed = family(local);
            return Err(refused(format!("{}: {group}; allowed is a group of {allowed}", key("group"))));
        }
        flood.push(group);
    }
    if flood.is_empty() {
        return Err(refused(format!(
            "{} is empty; allowed are addresses there, or a `group`",
            key("remotes")
        )));
    }
    let is_closed = match map.optional("accept")? {
        None => group.is_none(),
        Some(value) => value.text().ok_or_else(|| wrong("accept"))? == "listed",
    };
    Ok(Network { vni, vlan, flood, is_closed, group })
}
