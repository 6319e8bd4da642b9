//! The configuration.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::{Config, Error, Nanos, Prefix};

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How often the ends of a connection are told.
    pub resets: u8,
    /// Connections whose ends are told in a second.
    pub rate: u64,
    /// The same at once.
    pub burst: u64,
    /// How long a connection is remembered.
    pub block: Nanos,
    /// Most connections that are remembered.
    pub max_connections: usize,
    /// Senders of UDP are told by ICMP.
    pub answers_udp: bool,
    /// What is of no such connection is dropped.
    pub drops_others: bool,
    /// All ends are told by `inside`.
    pub is_beside: bool,
    never: Vec<Prefix>,
}

impl Settings {
    /// Reads it.
    ///
    /// # Errors
    /// What the host's check should have refused.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let never: Option<Vec<Prefix>> = config.list("never")?.map(|value| value.prefix()).collect();
        Ok(Settings {
            resets: config.integer("resets")? as u8,
            rate: config.size("rate")?,
            burst: config.size("burst")?,
            block: config.duration("block")?,
            max_connections: config.integer("max_connections")? as usize,
            answers_udp: config.text("udp")? == "unreachable",
            drops_others: config.text("others")? == "drop",
            is_beside: config.text("sides")? == "inside",
            never: never.ok_or_else(|| Error::WrongType(String::from("never")))?,
        })
    }

    /// Whether connections of an address are never ended.
    pub fn is_never(&self, address: IpAddr) -> bool {
        self.never.iter().any(|prefix| prefix.contains(address))
    }
}
