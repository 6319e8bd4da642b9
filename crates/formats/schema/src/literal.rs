//! Scalars as people write them: numbers with units, addresses, prefixes, ranges of ports.
//!
//! A function that reads one answers `Err` with what was probably meant, if that can be told.

use crate::{Family, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use yaml_document::spelling;

/// Why a text is not the value asked for: the right spelling, when there is one.
pub(crate) type Meant = Option<String>;

/// A unit's name and its size in the smallest one.
pub(crate) type Unit = (&'static str, u64);

pub(crate) const DURATION: &[Unit] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

pub(crate) const SIZE: &[Unit] = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

pub(crate) const PACKET_RATE: &[Unit] =
    &[("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000), ("Gpps", 1_000_000_000)];

pub(crate) const BIT_RATE: &[Unit] =
    &[("bps", 1), ("kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000)];

pub(crate) const FRACTION: &[Unit] = &[("ppb", 1), ("ppm", 1_000), ("%", 10_000_000)];

/// Spellings of units that are common, and what they stand for here.
const ALIASES: &[(&str, &str)] = &[
    ("µs", "us"),
    ("sec", "s"),
    ("seconds", "s"),
    ("min", "m"),
    ("hours", "h"),
    ("days", "d"),
    ("K", "KiB"),
    ("k", "KiB"),
    ("KB", "KiB"),
    ("kB", "KiB"),
    ("M", "MiB"),
    ("MB", "MiB"),
    ("G", "GiB"),
    ("GB", "GiB"),
    ("bytes", "B"),
];

/// Reads a decimal number with one of `units`, `1.5s`; the result must be a whole number of the smallest
/// unit.
pub(crate) fn number_with_unit(text: &str, units: &[Unit]) -> Result<u64, Meant> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, name) = text.split_at(split);
    let unit = name.trim_start();
    let Some((_, size)) = units.iter().find(|(known, _)| *known == unit) else {
        let alias = ALIASES.iter().find(|(other, _)| *other == unit).map(|(_, known)| *known);
        let known = alias.filter(|known| units.iter().any(|(name, _)| name == known));
        let known = known.or_else(|| spelling::nearest(unit, units.iter().map(|(name, _)| *name)));
        return Err(known
            .filter(|_| !number.is_empty() && split <= 20)
            .map(|known| format!("{number}{known}")));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || whole.len() > 20 || fraction.len() > 9 || number.ends_with('.') {
        return Err(None);
    }
    if fraction.contains('.') {
        return Err(None);
    }
    let size = u128::from(*size);
    let whole: u128 = whole.parse().map_err(|_| None)?;
    let scale = 10u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| None)? };
    let parts = fraction * size;
    if !parts.is_multiple_of(scale) {
        return Err(None);
    }
    u64::try_from(whole * size + parts / scale).map_err(|_| None)
}

/// A number with the largest unit that leaves it whole.
pub(crate) fn with_unit(number: u64, units: &[Unit]) -> String {
    let fits = |&&(_, size): &&Unit| size == 1 || (number >= size && number.is_multiple_of(size));
    match units.iter().rev().find(fits) {
        Some((name, size)) => format!("{}{name}", number / size),
        None => number.to_string(),
    }
}

/// Digits behind the point, and in front of it, that a number has at most where it is said in a unit of the
/// user's.
const DIGITS: u32 = 4;

/// A number in the unit in which a text is written, where it has few digits there: `0.1%` beside `150%`, and
/// `1000ppm` beside `20ppm`. Else as [`with_unit`] has it.
pub(crate) fn in_unit_of(found: &str, number: u64, units: &[Unit]) -> String {
    let written = found.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    let scale = 10u128.pow(DIGITS);
    let said = units.iter().find(|(name, _)| *name == written).and_then(|(name, size)| {
        let (parts, size) = (u128::from(number) * scale, u128::from(*size));
        let few = parts.is_multiple_of(size) && parts / size < scale * scale;
        few.then(|| {
            let (whole, behind) = (parts / size / scale, parts / size % scale);
            let behind = format!("{behind:0width$}", width = DIGITS as usize);
            let behind = behind.trim_end_matches('0');
            if behind.is_empty() { format!("{whole}{name}") } else { format!("{whole}.{behind}{name}") }
        })
    });
    said.unwrap_or_else(|| with_unit(number, units))
}

/// Reads an integer, decimal or with `0x`.
pub(crate) fn integer(text: &str) -> Result<i64, Meant> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (radix, digits) = match digits.strip_prefix("0x") {
        Some(digits) => (16, digits),
        None => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        let bare: String = text.chars().filter(|c| !matches!(c, ',' | '_' | ' ' | '\'')).collect();
        let number = bare.len() < text.len() && bare.parse::<i64>().is_ok();
        return Err(number.then_some(bare));
    }
    // 010 is eight in some languages and ten in others.
    if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        let bare = digits.trim_start_matches('0');
        return Err(
            Some(format!("{sign}{}", if bare.is_empty() { "0" } else { bare })).filter(|b| b.len() < 20)
        );
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|_| None)
}

/// Reads a boolean.
pub(crate) fn boolean(text: &str) -> Result<bool, Meant> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some("true".to_owned()),
            "false" | "no" | "off" | "0" => Some("false".to_owned()),
            _ => None,
        }),
    }
}

/// Reads an Ethernet address, six bytes in hexadecimal with colons.
pub(crate) fn mac(text: &str) -> Result<[u8; 6], Meant> {
    match mac_with(text, ':') {
        Some(mac) => Ok(mac),
        None => Err(mac_with(text, '-').map(|mac| Value::Mac(mac).to_string())),
    }
}

fn mac_with(text: &str, separator: char) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(separator);
    for byte in &mut mac {
        let part = parts.next()?;
        if part.len() != 2 || !part.chars().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// Reads an IP address.
pub(crate) fn address(text: &str, family: Family) -> Result<IpAddr, Meant> {
    let address: IpAddr = text.parse().map_err(|_| {
        let (address, _) = text.split_once('/')?;
        address.parse::<IpAddr>().ok().filter(|address| is_of(address, family)).map(|a| a.to_string())
    })?;
    if is_of(&address, family) { Ok(address) } else { Err(None) }
}

fn is_of(address: &IpAddr, family: Family) -> bool {
    match family {
        Family::Any => true,
        Family::Ipv4 => address.is_ipv4(),
        Family::Ipv6 => address.is_ipv6(),
    }
}

/// Reads a prefix. No bit may be set beyond its length.
pub(crate) fn prefix(text: &str, family: Family) -> Result<(IpAddr, u8), Meant> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| None)?;
    let most: u8 = if address.is_ipv4() { 32 } else { 128 };
    if !is_of(&address, family) {
        return Err(None);
    }
    let Some(length) = length else {
        return Err(Some(format!("{address}/{most}")));
    };
    let digits = length.len() <= 3 && length.chars().all(|c| c.is_ascii_digit());
    let length: u8 = match length.parse() {
        Ok(length) if digits && length <= most => length,
        _ => return Err(None),
    };
    let first = masked(address, length);
    if first == address { Ok((address, length)) } else { Err(Some(format!("{first}/{length}"))) }
}

/// An address with the bits beyond `length` cleared.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

/// Reads a port or a range of ports.
pub(crate) fn port_range(text: &str) -> Result<(u16, u16), Meant> {
    let port = |text: &str| -> Option<u16> {
        let text = text.trim();
        text.chars().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (port(first), port(last)),
        None => (port(text), port(text)),
    };
    match (first, last) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        (Some(first), Some(last)) => Err(Some(format!("{last}-{first}"))),
        _ => {
            let (first, last) = text.split_once(':').ok_or(None)?;
            Err(port(first).zip(port(last)).map(|(first, last)| format!("{first}-{last}")))
        }
    }
}
