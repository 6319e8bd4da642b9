//! What the operator chose.

use crate::ipfix::LEAST_MESSAGE;
use alloc::string::String;
use core::net::IpAddr;
use nf_sdk::{Config, Error, Map, Nanos};
use packet::tunnel::{Tunnel, Tunnels};
use packet::{ipv4, ipv6, udp};

/// Most flows that a table has room for: entries are numbered in 20 bits.
pub(crate) const MOST_FLOWS: usize = 1_000_000;

/// The checked configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Flows in the table.
    pub(crate) flows: usize,
    /// Flows in each list of the report.
    pub(crate) top: usize,
    /// Whether both directions are one flow.
    pub(crate) bidirectional: bool,
    /// Tunnels that are looked into.
    pub(crate) tunnels: Tunnels,
    /// How often totals are logged.
    pub(crate) interval: Option<Nanos>,
    /// Where flows are exported to.
    pub(crate) ipfix: Option<Ipfix>,
}

/// A collector, and how flows are exported to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipfix {
    /// Addresses of one family.
    pub(crate) collector: IpAddr,
    pub(crate) collector_port: u16,
    pub(crate) source: IpAddr,
    pub(crate) source_port: u16,
    /// The address that frames are sent to: the collector, or the router towards it.
    pub(crate) collector_mac: [u8; 6],
    pub(crate) source_mac: [u8; 6],
    /// Observation domain.
    pub(crate) domain: u32,
    /// After so long a flow is exported though it goes on.
    pub(crate) active_timeout: Nanos,
    /// After so long without a packet a flow is exported.
    pub(crate) idle_timeout: Nanos,
    /// How often templates are sent again.
    pub(crate) template_refresh: Nanos,
    /// Bytes of an IP packet.
    pub(crate) mtu: usize,
}

impl Ipfix {
    /// Bytes of a message.
    pub(crate) fn message_limit(&self) -> usize {
        let network = if self.source.is_ipv4() { ipv4::HEADER_LENGTH } else { ipv6::HEADER_LENGTH };
        self.mtu.saturating_sub(network + udp::HEADER_LENGTH).max(LEAST_MESSAGE)
    }

    fn read(map: &Map<'_>) -> Result<Ipfix, Error> {
        let within = |key: &str, least: u64, most: u64| {
            map.bounded(key, least, most).map_err(|error| Error::refused(&["ipfix: ", &error.message()]))
        };
        let span = |key: &str, max: Nanos| within(key, Nanos::from_secs(1).0, max.0).map(Nanos);
        let ipfix = Ipfix {
            collector: map.address("collector")?,
            collector_port: within("collector_port", 1, 65_535)? as u16,
            source: map.address("source")?,
            source_port: within("source_port", 1, 65_535)? as u16,
            collector_mac: map.mac("collector_mac")?,
            source_mac: map.mac("source_mac")?,
            domain: within("domain", 0, u64::from(u32::MAX))? as u32,
            // A packet's time is known for 17 minutes, and looked up in each round; see `flow_id`.
            active_timeout: span("active_timeout", Nanos::from_secs(1800))?,
            idle_timeout: span("idle_timeout", Nanos::from_secs(600))?,
            template_refresh: span("template_refresh", Nanos::from_secs(86_400))?,
            mtu: within("mtu", 576, 9000)? as usize,
        };
        if ipfix.collector.is_ipv4() != ipfix.source.is_ipv4() {
            let (collector, source) = (family(ipfix.collector), family(ipfix.source));
            return Err(Error::refused(&[
                "ipfix: collector is ",
                collector,
                " and source ",
                source,
                "; allowed: both of one family",
            ]));
        }
        Ok(ipfix)
    }
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

impl Settings {
    pub(crate) fn read(config: &Config) -> Result<Settings, Error> {
        let interval = match config.optional("interval")? {
            // Nanoseconds.
            Some(value) => {
                Some(Nanos(value.bounded("interval", Nanos::from_millis(1).0, i64::MAX as u64)?))
            }
            None => None,
        };
        let bidirectional = config.boolean("bidirectional")?;
        let ipfix = match config.optional("ipfix")? {
            Some(value) => {
                let map = value.map().ok_or_else(|| Error::WrongType(String::from("ipfix")))?;
                Some(Ipfix::read(&map)?)
            }
            None => None,
        };
        if ipfix.is_some() && bidirectional {
            return Err(Error::Refused(String::from(
                "ipfix: each direction is exported as a flow of its own; allowed: with `bidirectional: false`",
            )));
        }
        Ok(Settings {
            flows: config.bounded("flows", 1, MOST_FLOWS as u64)? as usize,
            top: config.bounded("top", 1, 1000)? as usize,
            bidirectional,
            tunnels: config.tunnels(Tunnels::new(Tunnel::ALL))?,
            interval,
            ipfix,
        })
    }
}
