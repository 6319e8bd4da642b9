//! The configuration, checked beyond what the schema can say.

use crate::connection::Timeouts;
use crate::servers_file;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::ticks::span;
use nf_sdk::wire::{TCP, UDP};
use nf_sdk::{Config, Error, Map, Nanos};

/// Most servers of all services together: each has a port of its own that checks are sent from (RFC 6335
/// section 6: 49152 to 65535).
pub const MAX_SERVERS: usize = 16_384;

/// How a new connection gets its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By a hash that changes little when servers change.
    Maglev,
    /// The one with the fewest connections by weight.
    LeastLoaded,
}

/// What a check sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A SYN.
    Tcp,
    /// An echo request.
    Icmp,
    /// A datagram.
    Udp,
}

/// How servers are found to be up or down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is sent.
    pub by: Probe,
    /// The port, where it is not the server's own.
    pub port: Option<u16>,
    /// What the datagram carries.
    pub payload: Vec<u8>,
    /// From check to check.
    pub interval: Nanos,
    /// How long an answer is waited for.
    pub timeout: Nanos,
    /// Answers in a row that a server is up again after.
    pub rise: u8,
    /// Checks without an answer in a row that a server is down after.
    pub fall: u8,
}

/// A server of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: IpAddr,
    /// Its port, where it is not the one that the client sent to.
    pub port: Option<u16>,
    /// Its share of new connections.
    pub weight: u16,
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The virtual address.
    pub address: IpAddr,
    /// [`TCP`] or [`UDP`].
    pub protocol: u8,
    /// First and last port.
    pub ports: (u16, u16),
    /// How a new connection gets its server.
    pub choose: Choice,
    /// Answers go to the client without passing here.
    pub is_direct: bool,
    /// How long a client keeps its server, in ticks.
    pub affinity: Option<u32>,
    /// Connections of a server that is down go to another one.
    pub moves: bool,
    /// How servers are found to be up or down.
    pub check: Option<Check>,
    /// Those that connections are shared out among.
    pub servers: Vec<Server>,
}

/// The configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By number.
    pub services: Vec<Service>,
    /// What is for no service passes.
    pub passes: bool,
    /// How long connections may be idle.
    pub timeouts: Timeouts,
    /// How long later fragments may follow the first one, in ticks.
    pub fragment_timeout: u32,
    /// Most connections.
    pub max_connections: usize,
    /// Most of them that only one side has agreed to.
    pub max_half_open: usize,
    /// Most clients that are remembered.
    pub max_clients: usize,
}

fn wrong(key: &str) -> Error {
    Error::WrongType(String::from(key))
}

fn port(map: &Map<'_>) -> Result<Option<u16>, Error> {
    let Some(value) = map.optional("port")? else { return Ok(None) };
    value.bounded("port", 1, 65_535).map(|port| Some(port as u16))
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What cannot be used; the message names the service, and of a file the line.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let mut services: Vec<Service> = Vec::new();
        for (place, entry) in config.list("services")?.enumerate() {
            let map = entry.map().ok_or_else(|| wrong("services"))?;
            let service = service(&map).map_err(|error| {
                Error::Refused(format!("services: entry {}: {}", place + 1, error.message()))
            })?;
            if services.iter().any(|other| other.name == service.name) {
                return Err(Error::Refused(format!("services: `{}` is there twice", service.name)));
            }
            services.push(service);
        }
        if services.is_empty() || services.len() > 1024 {
            return Err(Error::Refused(format!("services: {}; allowed: 1 to 1024", services.len())));
        }
        if let Some(file) = config.optional("servers_file")? {
            let file = file.file().ok_or_else(|| wrong("servers_file"))?;
            servers_file::read(file.contents, &mut services)
                .map_err(|what| Error::Refused(format!("servers_file: {}: {what}", file.path)))?;
        }
        let all: usize = services.iter().map(|service| service.servers.len()).sum();
        if all > MAX_SERVERS {
            return Err(Error::Refused(format!(
                "{all} servers; allowed are {MAX_SERVERS} of all services together"
            )));
        }
        let bound = |key: &str, most: u64| config.bounded(key, 1, most).map(|number| number as usize);
        let ticks = |key: &str| config.duration(key).map(span);
        Ok(Settings {
            services,
            passes: config.text("unmatched")? == "pass",
            timeouts: Timeouts {
                tcp: ticks("tcp_timeout")?,
                closing: ticks("tcp_closing_timeout")?,
                udp: ticks("udp_timeout")?,
                opening: ticks("opening_timeout")?,
            },
            fragment_timeout: ticks("fragment_timeout")?,
            max_connections: bound("max_connections", 4_000_000)?,
            max_half_open: bound("max_half_open", 4_000_000)?,
            max_clients: bound("max_clients", 1_000_000)?,
        })
    }
}

fn service(map: &Map<'_>) -> Result<Service, Error> {
    let mut service = Service {
        name: String::from(map.text("name")?),
        address: map.address("address")?,
        protocol: if map.text("protocol")? == "tcp" { TCP } else { UDP },
        ports: map.port_range("ports")?,
        choose: if map.text("choose")? == "maglev" { Choice::Maglev } else { Choice::LeastLoaded },
        is_direct: map.text("forward")? == "direct",
        affinity: match map.optional("affinity")? {
            None => None,
            Some(value) => Some(span(value.duration().ok_or_else(|| wrong("affinity"))?)),
        },
        moves: map.text("on_down")? == "move",
        check: match map.optional("check")? {
            None => None,
            Some(value) => Some(check(&value.map().ok_or_else(|| wrong("check"))?)?),
        },
        servers: Vec::new(),
    };
    let in_service = |what: String| Error::Refused(format!("{}: {what}", service.name));
    if service.ports.0 == 0 {
        return Err(in_service(String::from("ports: 0 is no port; allowed are ranges within 1-65535")));
    }
    if !is_host(service.address) {
        return Err(in_service(format!("address: {} is not the address of a host", service.address)));
    }
    if let Some(check) = &service.check
        && check.timeout > check.interval
    {
        let [timeout, interval] = [check.timeout, check.interval].map(|time| time.0 / 1_000_000);
        return Err(in_service(format!(
            "check: timeout: {timeout} ms; allowed: at most `interval`, {interval} ms"
        )));
    }
    let needs_port = service.ports.0 != service.ports.1
        && service.check.as_ref().is_some_and(|check| check.by != Probe::Icmp && check.port.is_none());
    if needs_port {
        return Err(in_service(String::from("check: with several `ports` a `port` is needed")));
    }
    for entry in map.list("servers")? {
        let entry = entry.map().ok_or_else(|| wrong("servers"))?;
        let mac = match entry.optional("mac")? {
            None => None,
            Some(value) => Some(value.mac().ok_or_else(|| wrong("mac"))?),
        };
        let server = Server {
            address: entry.address("address")?,
            port: port(&entry)?,
            weight: entry.bounded("weight", 0, 256)? as u16,
            mac,
        };
        let name = service.name.clone();
        add(&mut service, server).map_err(|what| Error::Refused(format!("{name}: servers: {what}")))?;
    }
    Ok(service)
}

fn check(map: &Map<'_>) -> Result<Check, Error> {
    let count = |key: &str| map.bounded(key, 1, 255).map(|count| count as u8);
    Ok(Check {
        by: match map.text("by")? {
            "tcp" => Probe::Tcp,
            "icmp" => Probe::Icmp,
            _ => Probe::Udp,
        },
        port: port(map)?,
        payload: map.text("payload")?.as_bytes().to_vec(),
        interval: map.duration("interval")?.max(Nanos::from_millis(100)),
        timeout: map.duration("timeout")?,
        rise: count("rise")?,
        fall: count("fall")?,
    })
}

/// Whether it is one host's address.
fn is_host(address: IpAddr) -> bool {
    let is_all = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_all)
}

/// Adds a server to a service.
///
/// # Errors
/// Why it cannot be one.
pub fn add(service: &mut Service, server: Server) -> Result<(), String> {
    let address = server.address;
    if address.is_ipv4() != service.address.is_ipv4() {
        return Err(format!("{address} is not of the version of IP that {} has", service.address));
    }
    if !is_host(address) {
        return Err(format!("{address} is not the address of a host"));
    }
    let is_own = server.port.is_none_or(|port| (port, port) == service.ports);
    if !is_own && service.is_direct {
        return Err(format!(
            "{address} has a port; allowed with `forward: direct` is the one that clients send to"
        ));
    }
    if server.port.is_some() && service.ports.0 != service.ports.1 {
        return Err(format!("{address} has a port; with several `ports` each server has them all"));
    }
    let ports = |server: &Server| server.port.unwrap_or(service.ports.0);
    if service.servers.iter().any(|other| other.address == address && ports(other) == ports(&server)) {
        return Err(format!("{address} port {} is there twice", ports(&server)));
    }
    if server.mac.is_some_and(|mac| mac[0] & 1 != 0 || mac == [0; 6]) {
        return Err(format!("{address}: mac: allowed is the address of one host"));
    }
    service.servers.push(server);
    Ok(())
}
