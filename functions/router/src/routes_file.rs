//! Routes from a file, one a line:
//!
//! ```text
//! # destination       where it leads
//! 10.0.0.0/8          via 192.0.2.1
//! 10.0.0.0/8          via 192.0.2.2 dev b
//! 2001:db8:7::/48     via 2001:db8::1
//! 198.51.100.0/24     dev b
//! 192.0.2.64/26       blackhole
//! 192.0.2.128/26      reject
//! ```
//!
//! Limits: none but memory. Whatever is no such line ends the reading, and the message names it.

use crate::hops::{Hop, Silent};
use crate::settings::Resolver;
use crate::table::Routes;
use alloc::format;
use alloc::string::{String, ToString};
use core::net::{IpAddr, Ipv4Addr};

/// Most characters of a line that a message shows.
const SHOWN: usize = 80;

/// Reads the routes.
///
/// # Errors
/// What is wrong, with the number of the line, from 1 on.
pub fn read(text: &[u8], resolver: &Resolver, routes: &mut Routes) -> Result<(), String> {
    // An entry of a full table is seldom shorter than this.
    routes.reserve(text.len() / 32, 0).map_err(|_| String::from("not enough memory for the routes"))?;
    // Lines beside each other mostly lead the same way.
    let mut last: (&[u8], bool, u16) = (&[], false, 0);
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = said(line);
        if line.is_empty() {
            continue;
        }
        let fault = |what: String| format!("line {}: {what}: `{}`", number + 1, shown(line));
        let middle = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
        let (prefix, way) = line.split_at(middle);
        let way = way.trim_ascii_start();
        let (address, length) = prefix_of(prefix).map_err(fault)?;
        let fault = |what: String| format!("line {}: {what}: `{}`", number + 1, shown(line));
        let hop = if way == last.0 && address.is_ipv4() == last.1 && length != 0 {
            last.2
        } else {
            let hop = way_of(way, address, resolver).map_err(fault)?;
            let hop =
                routes.hops.hop(hop).map_err(|_| String::from("more than 65,535 different next hops"))?;
            last = (way, address.is_ipv4(), hop);
            hop
        };
        resolver
            .check(address, length)
            .map_err(|what| format!("line {}: {what}: `{}`", number + 1, shown(line)))?;
        routes
            .add_known(address, length, hop)
            .map_err(|_| String::from("not enough memory for the routes"))?;
    }
    Ok(())
}

/// What a line says, without its comment.
fn said(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii()
}

/// The route of one line; `None` for a line that says nothing.
///
/// # Errors
/// What is wrong.
pub fn route(line: &[u8], resolver: &Resolver<'_>) -> Result<Option<(IpAddr, u8, Hop)>, String> {
    let line = said(line);
    if line.is_empty() {
        return Ok(None);
    }
    let middle = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let (prefix, way) = line.split_at(middle);
    let (address, length) = prefix_of(prefix)?;
    resolver.check(address, length)?;
    Ok(Some((address, length, way_of(way.trim_ascii_start(), address, resolver)?)))
}

fn shown(line: &[u8]) -> String {
    let cut = line.get(..SHOWN).unwrap_or(line);
    String::from_utf8_lossy(cut).into_owned()
}

/// A prefix, with no bit beyond its length.
fn prefix_of(text: &[u8]) -> Result<(IpAddr, u8), String> {
    let slash = text.iter().position(|byte| *byte == b'/');
    let wrong = || String::from("it does not begin with a prefix such as 10.0.0.0/8");
    let Some((address, [_, length @ ..])) = slash.and_then(|at| text.split_at_checked(at)) else {
        return Err(wrong());
    };
    let length = small_number(length).ok_or_else(wrong)?;
    if let Some(address) = four(address) {
        let mask = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
        if length > 32 {
            return Err(wrong());
        }
        if address & mask != 0 {
            return Err(format!(
                "bits beyond the length; meant is {}/{length}",
                Ipv4Addr::from_bits(address & !mask)
            ));
        }
        return Ok((IpAddr::V4(Ipv4Addr::from_bits(address)), length));
    }
    let address =
        address_of(address).filter(|address| address.is_ipv6() && length <= 128).ok_or_else(wrong)?;
    let masked = masked(address, length);
    if masked == address {
        Ok((address, length))
    } else {
        Err(format!("bits beyond the length; meant is {masked}/{length}"))
    }
}

/// The address without the bits beyond the length.
pub fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let beyond = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & !beyond))
        }
        IpAddr::V6(address) => {
            let beyond = u128::MAX.checked_shr(u32::from(length)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & !beyond).into())
        }
    }
}

/// Any address.
pub fn address_of(text: &[u8]) -> Option<IpAddr> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// A number below 1,000 without a leading zero.
pub fn small_number(text: &[u8]) -> Option<u8> {
    if text.is_empty() || text.len() > 3 || (text.len() > 1 && text[0] == b'0') {
        return None;
    }
    text.iter().try_fold(0u8, |number, digit| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(digit - b'0'),
        _ => None,
    })
}

/// An IPv4 address, without the general way to read one: a file has a million.
fn four(text: &[u8]) -> Option<u32> {
    let mut parts = text.split(|byte| *byte == b'.');
    let mut address = 0;
    for _ in 0..4 {
        address = address << 8 | u32::from(small_number(parts.next()?)?);
    }
    parts.next().is_none().then_some(address)
}

/// Where a line's destinations are led.
fn way_of(text: &[u8], to: IpAddr, resolver: &Resolver) -> Result<Hop, String> {
    let mut words = text.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let wrong = || {
        String::from(
            "allowed after the prefix: `via ADDRESS`, `via ADDRESS dev INTERFACE`, `dev INTERFACE`, `blackhole`, `reject`",
        )
    };
    let (mut via, mut interface) = (None, None);
    let mut first = true;
    while let Some(word) = words.next() {
        match word {
            b"blackhole" | b"reject" if first && words.next().is_none() => {
                return Ok(if word == b"reject" { Hop::Reject } else { Hop::Drop(Silent::Blackhole) });
            }
            b"via" if via.is_none() => via = Some(words.next().and_then(address_of).ok_or_else(wrong)?),
            b"dev" if interface.is_none() => {
                let name = words.next().and_then(|name| core::str::from_utf8(name).ok()).ok_or_else(wrong)?;
                interface = Some(name.to_string());
            }
            _ => return Err(wrong()),
        }
        first = false;
    }
    if first {
        return Err(wrong());
    }
    resolver.hop(to, via, interface.as_deref())
}
