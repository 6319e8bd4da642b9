//! Servers from a file, one a line:
//!
//! ```text
//! # service   server                  share of new connections, Ethernet address
//! web         10.0.0.1:8080           weight 2
//! web         [2001:db8::1]:8080      weight 2 mac 02:00:00:00:00:01
//! dns         10.0.0.2
//! dns         10.0.0.3                drain
//! ```
//!
//! `drain` is `weight 0`. What is no such line ends the reading, and the message names it.

use crate::settings::{Server, Service, add};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Most characters of a line that a message shows.
const SHOWN: usize = 80;
/// Largest weight.
const HEAVIEST: u16 = 256;

/// Adds the servers of a file to their services.
///
/// # Errors
/// What is wrong, with the number of the line, from 1 on.
pub fn read(text: &[u8], services: &mut [Service]) -> Result<(), String> {
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        if line.is_empty() {
            continue;
        }
        let shown = || String::from_utf8_lossy(line.get(..SHOWN).unwrap_or(line)).into_owned();
        read_line(line, services).map_err(|what| format!("line {}: {what}: `{}`", number + 1, shown()))?;
    }
    Ok(())
}

fn read_line(line: &[u8], services: &mut [Service]) -> Result<(), String> {
    let line = core::str::from_utf8(line).map_err(|_| String::from("it is not text in UTF-8"))?;
    let mut words = line.split_ascii_whitespace();
    let (Some(name), Some(end)) = (words.next(), words.next()) else {
        return Err(String::from("allowed is a service and a server, such as `web 10.0.0.1:8080`"));
    };
    let Some(service) = services.iter_mut().find(|service| service.name == name) else {
        let names: Vec<&str> = services.iter().take(8).map(|service| service.name.as_str()).collect();
        return Err(format!("no service is named so; there are {}", names.join(", ")));
    };
    let (address, port) = end_of(end)
        .ok_or("the server is no address, nor an address and port such as 10.0.0.1:80 or [2001:db8::1]:80")?;
    let mut server = Server { address, port, weight: 1, mac: None };
    while let Some(word) = words.next() {
        match word {
            "drain" => server.weight = 0,
            "weight" => {
                let weight = words.next().and_then(|weight| weight.parse().ok());
                let weight = weight.filter(|weight| *weight <= HEAVIEST);
                server.weight = weight.ok_or("`weight` needs a number from 0 to 256")?;
            }
            "mac" => {
                let mac = words.next().and_then(mac_of);
                server.mac = Some(mac.ok_or("`mac` needs an address such as 02:00:00:00:00:01")?);
            }
            _ => {
                return Err(String::from(
                    "allowed behind the server: `weight NUMBER`, `drain`, `mac ADDRESS`",
                ));
            }
        }
    }
    add(service, server)
}

fn end_of(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, None));
    }
    let end: SocketAddr = text.parse().ok().filter(|end: &SocketAddr| end.port() != 0)?;
    Some((end.ip(), Some(end.port())))
}

fn mac_of(text: &str) -> Option<[u8; 6]> {
    let mut bytes = text.split(':').map(|byte| match byte.len() {
        2 => u8::from_str_radix(byte, 16).ok(),
        _ => None,
    });
    let mut mac = [0; 6];
    for place in &mut mac {
        *place = bytes.next()??;
    }
    bytes.next().is_none().then_some(mac)
}
