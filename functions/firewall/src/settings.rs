//! The configuration, checked beyond what the schema can say.

use crate::rule::{Action, ICMP, ICMPV6, Rule, TCP, UDP};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use nf_sdk::headers::tunnel::Tunnels;
use nf_sdk::{Config, Error, Map, Nanos};

/// Most rules.
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

/// The configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When no rule matches.
    pub default_action: Action,
    /// For frames that are not IP.
    pub non_ip: Action,
    /// For IP that cannot be read.
    pub unreadable: Action,
    /// Tunnels whose innermost packet is judged.
    pub tunnels: Tunnels,
    /// IPv6 discovery passes without a rule.
    pub discovery: bool,
    /// Connections are tracked.
    pub stateful: bool,
    /// TCP may be picked up in the middle.
    pub pick_up: bool,
    /// Flows that come from another instance have to be accepted by the rules.
    pub recheck: bool,
    /// Most IPv4 flows.
    pub max_flows: usize,
    /// Most IPv6 flows.
    pub max_flows_ipv6: usize,
    /// How long flows may be idle.
    pub timeouts: Timeouts,
    /// In order.
    pub rules: Vec<Rule>,
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What the host's check should have refused, and rules that contradict themselves, by number.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let bound = |key: &str, most: i64| {
            let count = config.integer(key)?;
            if (1..=most).contains(&count) {
                Ok(count as usize)
            } else {
                Err(refused(&[key, ": out of range"]))
            }
        };
        let mut rules = vec![];
        if let Some(list) = config.optional("rules")? {
            let list = list.list().ok_or_else(|| Error::WrongType(String::from("rules")))?;
            if list.len() > MAX_RULES {
                return Err(refused(&["rules: more than 4096"]));
            }
            for (number, item) in list.enumerate() {
                let map = item.map().ok_or_else(|| Error::WrongType(String::from("rules")))?;
                rules.push(rule(&map).map_err(|error| in_rule(number, &error))?);
            }
        }
        let default_action = action(&config.root(), "default_action")?;
        Ok(Settings {
            default_action,
            unreadable: match config.optional("unreadable")? {
                None => default_action,
                Some(_) => action(&config.root(), "unreadable")?,
            },
            tunnels: config.tunnels(Tunnels::NONE)?,
            non_ip: action(&config.root(), "non_ip")?,
            discovery: config.text("neighbor_discovery")? == "accept",
            stateful: config.boolean("stateful")?,
            pick_up: config.boolean("pick_up")?,
            recheck: config.text("established")? == "recheck",
            max_flows: bound("max_flows", 4_000_000)?,
            max_flows_ipv6: bound("max_flows_ipv6", 1_000_000)?,
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
            rules,
        })
    }
}

fn refused(parts: &[&str]) -> Error {
    Error::Refused(parts.concat())
}

fn in_rule(number: usize, error: &Error) -> Error {
    let mut digits = String::new();
    nf_sdk::Json::new(&mut digits).number(number as u64);
    refused(&["rules[", &digits, "]: ", &error.message()])
}

fn action(map: &Map<'_>, key: &str) -> Result<Action, Error> {
    match map.text(key)? {
        "accept" => Ok(Action::Accept),
        "drop" => Ok(Action::Drop),
        other => Err(refused(&[key, ": `", other, "` is neither accept nor drop"])),
    }
}

fn protocol(text: &str) -> Result<Option<u8>, Error> {
    Ok(Some(match text {
        "any" => return Ok(None),
        "tcp" => TCP,
        "udp" => UDP,
        "icmp" => ICMP,
        "icmpv6" => ICMPV6,
        number => number.parse().map_err(|_| {
            refused(&["protocol: `", number, "` is none of tcp, udp, icmp, icmpv6, any, 0 to 255"])
        })?,
    }))
}

fn rule(map: &Map<'_>) -> Result<Rule, Error> {
    let wrong = |key: &str| Error::WrongType(String::from(key));
    let prefix = |key: &str| match map.optional(key)? {
        None => Ok(None),
        Some(value) => value.prefix().map(Some).ok_or_else(|| wrong(key)),
    };
    let ports = |key: &str| match map.optional(key)? {
        None => Ok(None),
        Some(value) => value.port_range().map(Some).ok_or_else(|| wrong(key)),
    };
    let byte = |key: &str| match map.optional(key)? {
        None => Ok(None),
        Some(value) => {
            let byte = value.integer().and_then(|n| u8::try_from(n).ok()).ok_or_else(|| wrong(key))?;
            Ok(Some((u16::from(byte), u16::from(byte))))
        }
    };
    let name = match map.optional("name")? {
        None => String::new(),
        Some(value) => String::from(value.text().ok_or_else(|| wrong("name"))?),
    };
    let (source, destination) = (prefix("source")?, prefix("destination")?);
    let (source_ports, destination_ports) = (ports("source_ports")?, ports("destination_ports")?);
    let (icmp_type, icmp_code) = (byte("icmp_type")?, byte("icmp_code")?);
    let protocol = protocol(map.text("protocol")?)?;
    let has_ports = source_ports.is_some() || destination_ports.is_some();
    let has_type = icmp_type.is_some() || icmp_code.is_some();
    if has_ports && !matches!(protocol, Some(TCP | UDP)) {
        return Err(refused(&["ports need protocol tcp or udp"]));
    }
    if has_type && !matches!(protocol, Some(ICMP | ICMPV6)) {
        return Err(refused(&["icmp_type and icmp_code need protocol icmp or icmpv6"]));
    }
    if let (Some(source), Some(destination)) = (source, destination)
        && source.address.is_ipv4() != destination.address.is_ipv4()
    {
        return Err(refused(&["source and destination are of different families"]));
    }
    let any = (0, u16::MAX);
    Ok(Rule {
        name,
        action: action(map, "action")?,
        from: match map.text("from")? {
            "inside" => Some(0),
            "outside" => Some(1),
            "any" => None,
            other => return Err(refused(&["from: `", other, "` is none of inside, outside, any"])),
        },
        protocol,
        source,
        destination,
        first: source_ports.or(icmp_type).unwrap_or(any),
        second: destination_ports.or(icmp_code).unwrap_or(any),
    })
}
