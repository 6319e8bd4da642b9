//! The configuration, checked beyond what the schema can say.

use crate::header::kind;
use crate::length::Counting;
use crate::meter::{BIT, Limits, MAX_BURST, MAX_PACKET_BURST, MAX_PACKET_RATE, MAX_RATE, Meter};
use crate::metrics::Reason;
use crate::policer::{Action, KeyParts, Policer, prefix_mask};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use nf_sdk::{Config, Error, Map, Prefix, decimal};
use packet::protocol;

/// Most policers.
pub const MAX_POLICERS: usize = 64;
/// Most buckets.
pub const MAX_BUCKETS: usize = 2_000_000;

/// What happens to frames that are not IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonIp {
    /// They pass.
    Pass,
    /// They are looked at by policers that ask for nothing of IP.
    Police,
    /// They are dropped.
    Drop,
}

/// The configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most buckets.
    pub max_buckets: usize,
    /// What packets count for.
    pub counting: Counting,
    /// For frames that are not IP.
    pub non_ip: NonIp,
    /// Buckets in the report.
    pub top: usize,
    /// In order.
    pub policers: Vec<Policer>,
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What the host's check should have refused, and policers that contradict themselves, by number.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let root = config.root();
        let mut policers = vec![];
        let list = root.list("policers")?;
        if list.len() > MAX_POLICERS {
            return Err(Error::too_many("policers", list.len(), MAX_POLICERS));
        }
        for (number, item) in list.enumerate() {
            let map = item.map().ok_or_else(|| Error::WrongType(String::from("policers")))?;
            policers.push(policer(&map, number).map_err(|error| error.in_entry("policers", number))?);
        }
        if policers.is_empty() {
            return Err(Error::refused(&["policers: none; allowed: 1 to 64"]));
        }
        Ok(Settings {
            max_buckets: root.bounded("max_buckets", 1, MAX_BUCKETS as u64)? as usize,
            counting: Counting {
                ip: word(&root, "count", &["frame", "ip"])? == 1,
                overhead: root.bounded("overhead", 0, 256)? as u32,
            },
            non_ip: match word(&root, "non_ip", &["pass", "police", "drop"])? {
                0 => NonIp::Pass,
                1 => NonIp::Police,
                _ => NonIp::Drop,
            },
            top: root.bounded("top", 1, 1000)? as usize,
            policers,
        })
    }
}

fn family(prefix: &Prefix) -> &'static str {
    if prefix.address.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn wrong(key: &str) -> Error {
    Error::WrongType(String::from(key))
}

/// The place of a word in a list of those that are allowed.
fn word(map: &Map<'_>, key: &str, allowed: &[&str]) -> Result<usize, Error> {
    let found = map.text(key)?;
    let place = allowed.iter().position(|word| *word == found);
    place.ok_or_else(|| Error::refused(&[key, ": `", found, "` is none of ", &allowed.join(", ")]))
}

/// A number that may be left out.
fn optional(map: &Map<'_>, key: &str, min: u64, max: u64) -> Result<Option<u64>, Error> {
    match map.optional(key)? {
        None => Ok(None),
        Some(value) => value.bounded(key, min, max).map(Some),
    }
}

fn protocol_number(text: &str) -> Result<Option<u8>, Error> {
    Ok(Some(match text {
        "any" => return Ok(None),
        "tcp" => protocol::TCP,
        "udp" => protocol::UDP,
        "icmp" => protocol::ICMPV4,
        "icmpv6" => protocol::ICMPV6,
        number => number.parse().map_err(|_| {
            Error::refused(&["protocol: `", number, "` is none of tcp, udp, icmp, icmpv6, any, 0 to 255"])
        })?,
    }))
}

fn policer(map: &Map<'_>, number: usize) -> Result<Policer, Error> {
    let name = match map.optional("name")? {
        None => String::new(),
        Some(value) => String::from(value.text().ok_or_else(|| wrong("name"))?),
    };
    let limits = limits(map)?;
    let mut policer = Policer {
        name,
        mask: [0; 5],
        value: [0; 5],
        source_ports: None,
        destination_ports: None,
        mark: optional(map, "mark", 0, i64::MAX as u64)?,
        matches_all: false,
        keyed: false,
        keys: [KeyParts::default(); 2],
        tag: kind::KEY | (number as u64) << kind::POLICER_AT,
        actions: actions(map, &limits)?,
        limits,
        fingerprint: 0,
    };
    matching(map, &mut policer)?;
    keys(map, &mut policer)?;
    policer.fingerprint = fingerprint(&policer);
    Ok(policer)
}

/// Reads which packets it is for.
fn matching(map: &Map<'_>, policer: &mut Policer) -> Result<(), Error> {
    let mut look_at = |mask: u64, value: u64| {
        policer.mask[0] |= mask;
        policer.value[0] |= value;
    };
    match word(map, "from", &["inside", "outside", "any"])? {
        0 => look_at(kind::INGRESS, 0),
        1 => look_at(kind::INGRESS, kind::INGRESS),
        _ => {}
    }
    let protocol_text = map.text("protocol")?;
    let protocol = protocol_number(protocol_text)?;
    if let Some(protocol) = protocol {
        look_at(kind::PROTOCOL | kind::IP, u64::from(protocol) | kind::IP);
    }
    if let Some(vlan) = optional(map, "vlan", 0, 4094)? {
        look_at(kind::VLAN, vlan << kind::VLAN_AT);
    }
    let prefix = |key: &str| match map.optional(key)? {
        None => Ok(None),
        Some(value) => value.prefix().map(Some).ok_or_else(|| wrong(key)),
    };
    let (source, destination) = (prefix("source")?, prefix("destination")?);
    if let (Some(source), Some(destination)) = (source, destination)
        && source.address.is_ipv4() != destination.address.is_ipv4()
    {
        let (source, destination) = (family(&source), family(&destination));
        return Err(Error::refused(&[
            "source is ",
            source,
            " and destination ",
            destination,
            "; allowed: both of one family",
        ]));
    }
    for (side, prefix) in [source, destination].iter().enumerate() {
        if let Some(prefix) = prefix {
            policer.restrict(prefix, side);
        }
    }
    let ports = |key: &str| match map.optional(key)? {
        None => Ok(None),
        Some(value) => value.port_range().map(Some).ok_or_else(|| wrong(key)),
    };
    (policer.source_ports, policer.destination_ports) = (ports("source_ports")?, ports("destination_ports")?);
    if policer.source_ports.is_some() || policer.destination_ports.is_some() {
        if !protocol.is_some_and(protocol::has_ports) {
            return Err(Error::refused(&[
                "protocol: `",
                protocol_text,
                "` with ports; allowed: tcp, udp, 33, 132 or 136",
            ]));
        }
        policer.mask[0] |= kind::HAS_PORTS;
        policer.value[0] |= kind::HAS_PORTS;
    }
    policer.matches_all = policer.mask[0] == 0 && policer.mark.is_none();
    Ok(())
}

/// The names of what a key is made of.
const PARTS: [&str; 8] =
    ["source", "destination", "protocol", "source_port", "destination_port", "vlan", "ingress", "mark"];

/// Reads which packets share a bucket.
fn keys(map: &Map<'_>, policer: &mut Policer) -> Result<(), Error> {
    let mut chosen = [false; PARTS.len()];
    if let Some(list) = map.optional("key")? {
        for item in list.list().ok_or_else(|| wrong("key"))? {
            let text = item.text().ok_or_else(|| wrong("key"))?;
            let place = PARTS.iter().position(|part| *part == text);
            let place =
                place.ok_or_else(|| Error::refused(&["key: `", text, "` is none of ", &PARTS.join(", ")]))?;
            if core::mem::replace(&mut chosen[place], true) {
                return Err(Error::refused(&["key: `", text, "` is named twice"]));
            }
        }
    }
    let [source, destination, protocol, source_port, destination_port, vlan, ingress, mark] = chosen;
    let mut first = 0;
    for (chosen, bits) in [
        (source || destination, kind::IPV4 | kind::IPV6),
        (protocol, kind::PROTOCOL),
        (source_port, kind::SOURCE_PORT),
        (destination_port, kind::DESTINATION_PORT),
        (vlan, kind::VLAN),
        (ingress, kind::INGRESS),
    ] {
        first |= if chosen { bits } else { 0 };
    }
    let [four, six] = &mut policer.keys;
    (four.mask[0], six.mask[0]) = (first, first);
    for (side, (chosen, four_key, six_key)) in [
        (source, "source_prefix_ipv4", "source_prefix_ipv6"),
        (destination, "destination_prefix_ipv4", "destination_prefix_ipv6"),
    ]
    .into_iter()
    .enumerate()
    {
        let lengths = (map.bounded(four_key, 1, 32)? as u8, map.bounded(six_key, 1, 128)? as u8);
        if chosen {
            let mask = (prefix_mask(lengths.0, 0) >> 32) as u32;
            four.mask[1] |= u64::from(mask.swap_bytes()) << (32 * side);
            six.mask[1 + 2 * side] = prefix_mask(lengths.1, 0).swap_bytes();
            six.mask[2 + 2 * side] = prefix_mask(lengths.1, 64).swap_bytes();
        }
    }
    if mark {
        // Keys without addresses are the same whatever the family.
        let room = (1..5).rev().find(|n| six.mask[*n] == 0);
        let Some(room) = room else {
            return Err(Error::refused(&[
                "key: no room for the mark beside two whole IPv6 addresses; allowed: a prefix of at most 64 bits for one",
            ]));
        };
        six.mark_at = Some(room as u8);
        four.mark_at = Some(if first & kind::IPV4 == 0 { room as u8 } else { 2 });
    }
    policer.keyed = chosen.contains(&true);
    Ok(())
}

/// Reads how much passes.
fn limits(map: &Map<'_>) -> Result<Limits, Error> {
    let rate = optional(map, "rate", 1, MAX_RATE)?;
    let burst = optional(map, "burst", 1, MAX_BURST)?;
    let packet_rate = optional(map, "packet_rate", 1, MAX_PACKET_RATE)?;
    let packet_burst = optional(map, "packet_burst", 1, MAX_PACKET_BURST)?;
    let peak_rate = optional(map, "peak_rate", 1, MAX_RATE)?;
    let peak_burst = optional(map, "peak_burst", 1, MAX_BURST)?;
    let excess = optional(map, "excess_burst", 1, MAX_BURST)?;
    for (thing, present, needs, there) in [
        ("burst", burst.is_some(), "rate", rate.is_some()),
        ("packet_burst", packet_burst.is_some(), "packet_rate", packet_rate.is_some()),
        ("peak_rate", peak_rate.is_some(), "rate", rate.is_some()),
        ("peak_burst", peak_burst.is_some(), "peak_rate", peak_rate.is_some()),
        ("excess_burst", excess.is_some(), "rate", rate.is_some()),
    ] {
        if present && !there {
            return Err(Error::refused(&[thing, " without ", needs, "; allowed: with it"]));
        }
    }
    for (one, other, both) in [
        ("peak_rate", "excess_burst", peak_rate.is_some() && excess.is_some()),
        ("peak_rate", "packet_rate", peak_rate.is_some() && packet_rate.is_some()),
        ("excess_burst", "packet_rate", excess.is_some() && packet_rate.is_some()),
    ] {
        if both {
            return Err(Error::refused(&[one, " and ", other, "; allowed: one of them"]));
        }
    }
    let bytes = |rate: u64, burst: Option<u64>| {
        Meter::bytes(rate, burst.unwrap_or((rate / 80).clamp(128 << 10, MAX_BURST)))
    };
    let packets = packet_rate
        .map(|rate| Meter::packets(rate, packet_burst.unwrap_or((rate / 10).clamp(64, MAX_PACKET_BURST))));
    let Some(rate) = rate else {
        if packets.is_none() {
            return Err(Error::refused(&["no limit; allowed: rate, packet_rate or both"]));
        }
        return Ok(Limits::single(None, packets));
    };
    let committed = bytes(rate, burst);
    Ok(match (peak_rate, excess) {
        (Some(peak), _) if peak < rate => {
            let (peak, rate) = (decimal(peak), decimal(rate));
            return Err(Error::refused(&[
                "peak_rate: ",
                &peak,
                " bit/s; allowed: rate, ",
                &rate,
                " bit/s, or more",
            ]));
        }
        (Some(peak), _) => Limits::two_rate(committed, bytes(peak, peak_burst)),
        (None, Some(excess)) => Limits::single_rate(committed, excess),
        (None, None) => Limits::single(Some(committed), packets),
    })
}

/// Reads what happens to packets by colour.
fn actions(map: &Map<'_>, limits: &Limits) -> Result<[Action; 3], Error> {
    let mask = map.bounded("mark_mask", 1, i64::MAX as u64)?;
    let colours = limits.has_three_colours();
    let action = |key: &str, value_key: &str, reason: Reason, default_marks: bool| {
        let marks = match map.optional(key)? {
            None => default_marks,
            Some(_) => word(map, key, &["drop", "mark"])? == 1,
        };
        let value = map.bounded(value_key, 0, i64::MAX as u64)?;
        if !marks {
            return Ok(Action::Drop(reason));
        }
        if value & !mask != 0 {
            return Err(Error::refused(&[
                value_key,
                ": ",
                &decimal(value),
                "; allowed: bits of mark_mask, ",
                &decimal(mask),
            ]));
        }
        Ok(Action::Mark { mask, value })
    };
    if !colours && map.optional("violate")?.is_some() {
        return Err(Error::refused(&[
            "violate without a third colour; allowed: with peak_rate or excess_burst",
        ]));
    }
    Ok([
        Action::Pass,
        action("exceed", "exceed_mark", Reason::Exceeded, colours)?,
        action("violate", "violate_mark", Reason::Violated, false)?,
    ])
}

/// Policers whose buckets may be handed over have the same: what they match, what their keys are made of,
/// their limits.
fn fingerprint(policer: &Policer) -> u64 {
    let ports = |ports: Option<(u16, u16)>| {
        ports.map_or(0, |(first, last)| 1 << 32 | u64::from(first) << 16 | u64::from(last))
    };
    let marks = policer.keys.map(|parts| parts.mark_at.map_or(0, |at| u64::from(at) + 1));
    let words = policer
        .mask
        .iter()
        .chain(&policer.value)
        .chain(&policer.keys[0].mask)
        .chain(&policer.keys[1].mask)
        .copied()
        .chain(marks)
        .chain([ports(policer.source_ports), ports(policer.destination_ports)])
        .chain([u64::from(policer.mark.is_some()), policer.mark.unwrap_or(0)])
        .chain(policer.limits.words());
    // FNV-1a over words.
    words.fold(BIT, |hash, word| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29))
}
