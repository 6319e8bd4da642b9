//! Settings of the port.

use super::flows::FlowSpace;
use super::schedule::{SECOND, Schedule};
use super::template::Shape;
use crate::taking::Taking;
use schema::Value;
use std::net::{IpAddr, Ipv4Addr};

/// The settings in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// Most flows.
pub const MAX_FLOWS: u32 = 1 << 22;

/// Most loads of a schedule.
pub const MAX_LOADS: usize = 4096;

/// Most loads of a schedule at one time.
pub const MAX_LOADS_AT_ONCE: usize = 64;

/// Latest second of a schedule.
pub const MAX_SCHEDULE: u32 = 1_000_000;

/// Most packets that become due together.
pub const MAX_BATCH: u32 = 1024;

const MAX_RATE: u64 = 1_000_000_000;

/// Lengths of the simple Internet mix, without frame check sequence, and how often each occurs in twelve
/// packets.
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

/// A part of a schedule: so many packets in each second of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// First second, counted from the start.
    pub from: u32,
    /// The second at which it is over, up to [`MAX_SCHEDULE`].
    pub to: u32,
    /// Packets per second, 0 among them.
    pub rate: u64,
    /// The first of the flows that share the rate, and how many. `None`: all.
    pub flows: Option<(u32, u32)>,
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
    /// Rates over time, instead of `rate`. Loads that overlap add up; empty: there is no schedule.
    pub schedule: Vec<Load>,
    /// Whether the schedule begins again at its end.
    pub repeat: bool,
    /// Packets that become due together, at the time of the first of them, 1 to [`MAX_BATCH`].
    pub batch: u32,
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
            schedule: Vec::new(),
            repeat: false,
            batch: 1,
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
            schedule: schedule(taking)?,
            repeat: taking.required("repeat", Value::as_bool)?,
            batch: taking.required("batch", u32_of)?,
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
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return Err(format!("batch: found {}; allowed: 1 to {MAX_BATCH} packets", self.batch));
        }
        if self.batch > 1 && self.rate.is_none() && self.schedule.is_empty() {
            return Err("batch: found neither rate nor schedule; allowed: with one of them".to_owned());
        }
        self.check_schedule()
    }

    fn check_schedule(&self) -> Result<(), String> {
        if self.schedule.is_empty() {
            return match self.repeat {
                true => Err("repeat: found no schedule; allowed: with one".to_owned()),
                false => Ok(()),
            };
        }
        if self.rate.is_some() {
            return Err("rate, schedule: found both; allowed: one of them".to_owned());
        }
        if self.schedule.len() > MAX_LOADS {
            let found = self.schedule.len();
            return Err(format!("schedule: found {found} loads; allowed: at most {MAX_LOADS}"));
        }
        for (n, load) in self.schedule.iter().enumerate() {
            let Load { from, to, rate, flows } = *load;
            if from >= to || to > MAX_SCHEDULE {
                return Err(format!(
                    "schedule[{n}]: found from {from}s to {to}s; allowed: from before to, to at most {MAX_SCHEDULE}s"
                ));
            }
            if rate > MAX_RATE {
                return Err(format!("schedule[{n}].rate: found {rate}pps; allowed: at most 1Gpps"));
            }
            let (first, count) = flows.unwrap_or((0, self.flows));
            if count == 0 || u64::from(first) + u64::from(count) > u64::from(self.flows) {
                return Err(format!(
                    "schedule[{n}]: found {count} flows from {first} on; allowed: at least one, of flows 0 to {}",
                    self.flows - 1
                ));
            }
        }
        let (loads, rate) = Schedule::new(&self.schedule, false, 1).peaks();
        if loads > MAX_LOADS_AT_ONCE || rate > MAX_RATE {
            return Err(format!(
                "schedule: found up to {loads} loads and {rate}pps at a time; allowed: {MAX_LOADS_AT_ONCE} loads, 1Gpps"
            ));
        }
        Ok(())
    }

    /// How many packets the schedule has in a second, the first of which is 0. Without a schedule, what
    /// `rate` says.
    pub fn scheduled(&self, second: u64) -> u64 {
        if self.schedule.is_empty() {
            return self.rate.unwrap_or(0);
        }
        let length = self.schedule.iter().map(|load| u64::from(load.to)).max().unwrap_or(1);
        let second = if self.repeat { second % length.max(1) } else { second };
        let active = |load: &&Load| (u64::from(load.from)..u64::from(load.to)).contains(&second);
        self.schedule.iter().filter(active).map(|load| load.rate).sum()
    }
}

fn schedule(taking: Taking<'_>) -> Result<Vec<Load>, String> {
    let u32_of = |value: &Value| value.as_integer().and_then(|n| u32::try_from(n).ok());
    let Some(list) = taking.optional("schedule", Value::as_list)? else { return Ok(Vec::new()) };
    let load = |(n, item): (usize, &Value)| {
        let item = Taking(item);
        let seconds = |key: &str| {
            let span = item.span(key)?.map_or(0, |span| span.0);
            let whole = u32::try_from(span / SECOND).ok().filter(|_| span % SECOND == 0);
            whole.ok_or_else(|| {
                format!("schedule[{n}].{key}: found {span}ns; allowed: whole seconds, such as `5s`")
            })
        };
        let (first, count) = (item.optional("flow", u32_of)?, item.optional("flows", u32_of)?);
        let flows = match (first, count) {
            (None, None) => None,
            (first, count) => Some((first.unwrap_or(0), count.unwrap_or(1))),
        };
        let rate = item.count("rate")?.ok_or_else(|| format!("schedule[{n}].rate: missing"))?;
        Ok(Load { from: seconds("from")?, to: seconds("to")?, rate, flows })
    };
    list.iter().enumerate().map(load).collect()
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
