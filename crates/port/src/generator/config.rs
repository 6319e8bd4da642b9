//! Settings of the port.

use super::flows::FlowSpace;
use super::template::Shape;
use crate::taking::Taking;
use schema::Value;
use std::net::{IpAddr, Ipv4Addr};

/// The settings in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// Most flows.
pub const MAX_FLOWS: u32 = 1 << 22;

/// Lengths of the simple Internet mix, without frame check sequence, and how often each occurs in twelve packets.
pub const IMIX: [Size; 3] =
    [Size { bytes: 60, weight: 7 }, Size { bytes: 590, weight: 4 }, Size { bytes: 1514, weight: 1 }];

/// Transport protocol of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP segments with the acknowledgment flag.
    TcpAck,
    /// TCP segments that would open a connection.
    TcpSyn,
}

/// The order in which flows have packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after another.
    RoundRobin,
    /// Each packet's flow is drawn anew.
    Random,
}

/// A length of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// In bytes, without frame check sequence.
    pub bytes: u32,
    /// How often it is chosen, in relation to the others.
    pub weight: u32,
}

/// What a port is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Distinct 5-tuples, 1 to [`MAX_FLOWS`].
    pub flows: u32,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Prefix of source addresses.
    pub source: (IpAddr, u8),
    /// Prefix of destination addresses, of the same family.
    pub destination: (IpAddr, u8),
    /// First and last source port.
    pub source_ports: (u16, u16),
    /// First and last destination port.
    pub destination_ports: (u16, u16),
    /// Lengths; at least one.
    pub sizes: Vec<Size>,
    /// Packets per second; `None`: as fast as they are taken.
    pub rate: Option<u64>,
    /// Packets in all; `None`: without end.
    pub count: Option<u64>,
    /// The order of flows.
    pub order: Order,
    /// What the random choices come from.
    pub seed: u64,
    /// Source address of the frames.
    pub source_mac: [u8; 6],
    /// Destination address of the frames.
    pub destination_mac: [u8; 6],
    /// Whether packets are numbered within their flow, and checked when they come back.
    pub check_order: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            flows: 1,
            protocol: Protocol::Udp,
            source: (Ipv4Addr::new(198, 18, 0, 0).into(), 16),
            destination: (Ipv4Addr::new(198, 19, 0, 0).into(), 16),
            source_ports: (49_152, 65_535),
            destination_ports: (9, 9),
            sizes: vec![Size { bytes: 64, weight: 1 }],
            rate: None,
            count: None,
            order: Order::RoundRobin,
            seed: 1,
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            check_order: false,
        }
    }
}

impl Config {
    /// Takes settings that were checked against [`SCHEMA`], and checks what a schema cannot say.
    ///
    /// # Errors
    /// The setting that is wrong, what was found and what is allowed.
    pub fn from_value(value: &Value) -> Result<Config, String> {
        let taking = Taking(value);
        let u32_of = |value: &Value| value.as_integer().and_then(|n| u32::try_from(n).ok());
        let tcp = match taking.required("tcp_flags", Value::as_text)? {
            "syn" => Protocol::TcpSyn,
            _ => Protocol::TcpAck,
        };
        let config = Config {
            flows: taking.required("flows", u32_of)?,
            protocol: match taking.required("protocol", Value::as_text)? {
                "tcp" => tcp,
                _ => Protocol::Udp,
            },
            source: taking.required("source", Value::as_prefix)?,
            destination: taking.required("destination", Value::as_prefix)?,
            source_ports: taking.required("source_ports", Value::as_port_range)?,
            destination_ports: taking.required("destination_ports", Value::as_port_range)?,
            sizes: sizes(taking)?,
            rate: taking.count("rate")?,
            count: taking.count("count")?,
            order: match taking.required("order", Value::as_text)? {
                "random" => Order::Random,
                _ => Order::RoundRobin,
            },
            seed: taking.count("seed")?.unwrap_or(1),
            source_mac: taking.required("source_mac", Value::as_mac)?,
            destination_mac: taking.required("destination_mac", Value::as_mac)?,
            check_order: taking.required("check_order", Value::as_bool)?,
        };
        config.check()?;
        Ok(config)
    }

    /// Checks what the fields' types cannot say.
    ///
    /// # Errors
    /// As [`Config::from_value`].
    pub fn check(&self) -> Result<(), String> {
        if self.source.0.is_ipv4() != self.destination.0.is_ipv4() {
            return Err(
                "destination: not of the family of source; allowed: both IPv4 or both IPv6".to_owned()
            );
        }
        if self.flows == 0 || self.flows > MAX_FLOWS {
            return Err(format!("flows: found {}; allowed: 1 to {MAX_FLOWS}", self.flows));
        }
        let capacity = FlowSpace::new(self).capacity();
        if u64::from(self.flows) > capacity {
            return Err(format!(
                "flows: found {}, but addresses and ports offer {capacity}; allowed: fewer flows, shorter prefixes or \
                 more ports",
                self.flows
            ));
        }
        let least = Shape::of(self).least_size();
        if self.sizes.is_empty() || self.sizes.iter().any(|size| size.weight == 0 || size.weight > 1000) {
            return Err("sizes: allowed: at least one, with weights from 1 to 1000".to_owned());
        }
        if let Some(size) = self.sizes.iter().find(|size| size.bytes < least || size.bytes > 65_535) {
            let why = if self.check_order { " and numbers" } else { "" };
            return Err(format!(
                "size: found {}; allowed: {least} to 65535 bytes, for headers of this kind{why}",
                size.bytes
            ));
        }
        if self.rate == Some(0) || self.count == Some(0) {
            return Err("rate, count: found 0; allowed: at least 1, or absent".to_owned());
        }
        Ok(())
    }
}

fn sizes(taking: Taking<'_>) -> Result<Vec<Size>, String> {
    let u32_of = |value: &Value| value.as_integer().and_then(|n| u32::try_from(n).ok());
    let size = taking.optional("size", u32_of)?;
    let list = taking.optional("sizes", Value::as_list)?;
    let imix = taking.required("imix", Value::as_bool)?;
    match (size, list, imix) {
        (None, None, false) => Ok(vec![Size { bytes: 64, weight: 1 }]),
        (Some(bytes), None, false) => Ok(vec![Size { bytes, weight: 1 }]),
        (None, None, true) => Ok(IMIX.to_vec()),
        (None, Some(list), false) => list
            .iter()
            .map(|item| {
                let item = Taking(item);
                Ok(Size { bytes: item.required("size", u32_of)?, weight: item.required("weight", u32_of)? })
            })
            .collect(),
        _ => Err("size, sizes, imix: found more than one; allowed: one of them".to_owned()),
    }
}
