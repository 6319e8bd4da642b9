//! The configuration, checked beyond what the schema can say.

use crate::claims::Claims;
use crate::identity::Identity;
use crate::layers::{List, Lists, OfMembers};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::headers::tunnel::Tunnels;
use nf_sdk::{Config, Error, Map, Prefix};
use packet_filter::judge::Handling;
use packet_filter::rule::{Action, Rule};
use packet_filter::settings::{MAX_RULES, Tracking, icmp, name, ports, protocol, suits};

/// The configuration.
pub struct Settings {
    /// Who the device is.
    pub identity: Identity,
    /// Where the opener may form addresses.
    pub claims: Claims,
    /// What is allowed.
    pub layers: Lists,
    /// Packets that no rule is about.
    pub handling: Handling,
    /// How connections are tracked.
    pub tracking: Tracking,
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What the host's check should have refused, rules that contradict themselves, by number, and no list of
    /// rules at all.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let wrong = |key: &str| Error::WrongType(String::from(key));
        let mut addresses = Vec::new();
        for text in config.root().list("addresses")? {
            let text = text.text().ok_or_else(|| wrong("addresses"))?;
            addresses.push(address(text).ok_or_else(|| {
                Error::refused(&[
                    "addresses: `",
                    text,
                    "` is no address with the length of its network, such as 192.0.2.9/24",
                ])
            })?);
        }
        let mac = match config.optional("mac")? {
            None => None,
            Some(mac) => Some(mac.mac().ok_or_else(|| wrong("mac"))?),
        };
        let layers =
            Lists { administrator: rules(config, "administrator")?, tenant: rules(config, "tenant")? };
        if layers.administrator.is_none() && layers.tenant.is_none() {
            return Err(Error::refused(&[
                "`administrator` and `tenant`: neither is there; allowed: one of them or both",
            ]));
        }
        let tracking = Tracking::read(config)?;
        Ok(Settings {
            identity: Identity::new(mac, &addresses),
            claims: Claims::new(networks(config)?),
            layers,
            handling: Handling {
                non_ip: Action::Drop,
                unreadable: Action::Drop,
                discovery: true,
                tunnels: Tunnels::NONE,
                fragments: tracking.timeouts.fragment,
            },
            tracking,
        })
    }
}

fn address(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    let bits = if address.is_ipv4() { 32 } else { 128 };
    (length <= bits).then_some((address, length))
}

/// The prefixes of the networks in which the opener may form addresses.
fn networks(config: &Config) -> Result<Vec<[u8; 8]>, Error> {
    let mut networks = Vec::new();
    let Some(list) = config.optional("slaac")? else { return Ok(networks) };
    let wrong = || Error::WrongType(String::from("slaac"));
    for value in list.list().ok_or_else(wrong)? {
        let Prefix { address: IpAddr::V6(address), length: 64 } = value.prefix().ok_or_else(wrong)? else {
            return Err(Error::refused(&[
                "slaac: not a network of 64 bits; allowed: such as 2001:db8:7::/64",
            ]));
        };
        networks.extend(address.octets().first_chunk::<8>().copied());
    }
    Ok(networks)
}

fn rules(config: &Config, key: &str) -> Result<Option<List>, Error> {
    let Some(list) = config.optional(key)? else { return Ok(None) };
    let wrong = || Error::WrongType(String::from(key));
    let list = list.list().ok_or_else(wrong)?;
    if list.len() > MAX_RULES {
        return Err(Error::too_many(key, list.len(), MAX_RULES));
    }
    let mut all = List { rules: Vec::with_capacity(list.len()), of_members: Vec::new() };
    for (number, item) in list.enumerate() {
        let map = item.map().ok_or_else(wrong)?;
        let rule = rule(&map).map_err(|error| error.in_entry(key, number))?;
        match members(&map).map_err(|error| error.in_entry(key, number))? {
            None => all.rules.push(rule),
            Some(list) => all.of_members.push(OfMembers::new(rule, list)),
        }
    }
    Ok(Some(all))
}

/// The number of the list of members that a rule is for.
fn members(map: &Map<'_>) -> Result<Option<u32>, Error> {
    let Some(value) = map.optional("members")? else { return Ok(None) };
    if map.optional("remote")?.is_some() {
        return Err(Error::refused(&[
            "`members` and `remote`: both name the other end; allowed: one of them",
        ]));
    }
    let number = value.integer().and_then(|number| u32::try_from(number).ok());
    number.map(Some).ok_or_else(|| Error::WrongType(String::from("members")))
}

fn rule(map: &Map<'_>) -> Result<Rule, Error> {
    let is_in = match map.text("direction")? {
        "in" => true,
        "out" => false,
        other => return Err(Error::refused(&["direction: `", other, "` is neither in nor out"])),
    };
    let remote = match map.optional("remote")? {
        None => None,
        Some(value) => Some(value.prefix().ok_or_else(|| Error::WrongType(String::from("remote")))?),
    };
    let (protocol, ports, [icmp_type, icmp_code]) = (protocol(map)?, ports(map, "ports")?, icmp(map)?);
    suits(map, ports.is_some(), icmp_type.is_some() || icmp_code.is_some())?;
    let any = (0, u16::MAX);
    Ok(Rule {
        name: name(map)?,
        action: Action::Accept,
        from: Some(u8::from(is_in)),
        protocol,
        source: remote.filter(|_| is_in),
        destination: remote.filter(|_| !is_in),
        first: icmp_type.unwrap_or(any),
        second: ports.or(icmp_code).unwrap_or(any),
    })
}
