//! The configuration, checked beyond what the schema can say.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use nf_sdk::headers::tunnel::Tunnels;
use nf_sdk::{Config, Error, Map, Prefix};
use packet_filter::judge::Handling;
use packet_filter::rule::{Action, Rule};
use packet_filter::settings::{MAX_RULES, Tracking, icmp, name, ports, protocol, suits};

/// The configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When no rule matches.
    pub default_action: Action,
    /// Packets that no rule is about.
    pub handling: Handling,
    /// How connections are tracked, if they are.
    pub tracking: Option<Tracking>,
    /// Flows that come from another instance have to be accepted by the rules.
    pub recheck: bool,
    /// In order.
    pub rules: Vec<Rule>,
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What the host's check should have refused, and rules that contradict themselves, by number.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let mut rules = vec![];
        if let Some(list) = config.optional("rules")? {
            let list = list.list().ok_or_else(|| Error::WrongType(String::from("rules")))?;
            if list.len() > MAX_RULES {
                return Err(Error::too_many("rules", list.len(), MAX_RULES));
            }
            for (number, item) in list.enumerate() {
                let map = item.map().ok_or_else(|| Error::WrongType(String::from("rules")))?;
                rules.push(rule(&map).map_err(|error| error.in_entry("rules", number))?);
            }
        }
        let default_action = action(&config.root(), "default_action")?;
        let tracking = Tracking { pick_up: config.boolean("pick_up")?, ..Tracking::read(config)? };
        Ok(Settings {
            default_action,
            handling: Handling {
                non_ip: action(&config.root(), "non_ip")?,
                unreadable: match config.optional("unreadable")? {
                    None => default_action,
                    Some(_) => action(&config.root(), "unreadable")?,
                },
                discovery: config.text("neighbor_discovery")? == "accept",
                tunnels: config.tunnels(Tunnels::NONE)?,
                fragments: tracking.timeouts.fragment,
            },
            tracking: config.boolean("stateful")?.then_some(tracking),
            recheck: config.text("established")? == "recheck",
            rules,
        })
    }
}

fn action(map: &Map<'_>, key: &str) -> Result<Action, Error> {
    match map.text(key)? {
        "accept" => Ok(Action::Accept),
        "drop" => Ok(Action::Drop),
        other => Err(Error::refused(&[key, ": `", other, "` is neither accept nor drop"])),
    }
}

fn family(prefix: &Prefix) -> &'static str {
    if prefix.address.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn rule(map: &Map<'_>) -> Result<Rule, Error> {
    let prefix = |key: &str| match map.optional(key)? {
        None => Ok(None),
        Some(value) => value.prefix().map(Some).ok_or_else(|| Error::WrongType(String::from(key))),
    };
    let (source, destination) = (prefix("source")?, prefix("destination")?);
    let (source_ports, destination_ports) = (ports(map, "source_ports")?, ports(map, "destination_ports")?);
    let [icmp_type, icmp_code] = icmp(map)?;
    let protocol = protocol(map)?;
    let has_ports = source_ports.is_some() || destination_ports.is_some();
    suits(map, has_ports, icmp_type.is_some() || icmp_code.is_some())?;
    if let (Some(source), Some(destination)) = (source, destination)
        && source.address.is_ipv4() != destination.address.is_ipv4()
    {
        return Err(Error::refused(&[
            "source is ",
            family(&source),
            " and destination ",
            family(&destination),
            "; allowed: both of one family",
        ]));
    }
    let any = (0, u16::MAX);
    Ok(Rule {
        name: name(map)?,
        action: action(map, "action")?,
        from: match map.text("from")? {
            "inside" => Some(0),
            "outside" => Some(1),
            "any" => None,
            other => return Err(Error::refused(&["from: `", other, "` is none of inside, outside, any"])),
        },
        protocol,
        source,
        destination,
        first: source_ports.or(icmp_type).unwrap_or(any),
        second: destination_ports.or(icmp_code).unwrap_or(any),
    })
}
