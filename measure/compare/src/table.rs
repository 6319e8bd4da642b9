//! What either side says about a capture, in one form for all programs.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A flow in one direction: protocol and ends. Ports are 0 where the protocol has none, and of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// IP protocol, of IPv6 the one behind the extension headers.
    pub protocol: u8,
    /// Where its packets come from.
    pub source: (IpAddr, u16),
    /// Where they go.
    pub destination: (IpAddr, u16),
}

impl Flow {
    /// The same for both directions.
    #[must_use]
    pub fn undirected(self) -> Flow {
        if self.source <= self.destination {
            return self;
        }
        Flow { source: self.destination, destination: self.source, ..self }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |(address, port)| SocketAddr::new(address, port);
        write!(f, "protocol {} {} > {}", self.protocol, end(self.source), end(self.destination))
    }
}

/// What passed of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets, headers included.
    pub bytes: u64,
    /// Frame of the first packet, from 1; `None` where the program does not tell.
    pub frame: Option<u64>,
}

impl Count {
    /// Adds a packet, or several.
    pub fn add(&mut self, packets: u64, bytes: u64, frame: Option<u64>) {
        self.packets += packets;
        self.bytes += bytes;
        self.frame = self.frame.or(frame);
    }
}

/// The flows of a capture.
pub type Flows = BTreeMap<Flow, Count>;

/// How often a rule alerted for a flow, and with which frame first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alerted {
    /// Alerts.
    pub count: u64,
    /// Frame of the first, from 1; `None` where it is not known.
    pub frame: Option<u64>,
}

/// The alerts of a capture, by rule (`sid`) and undirected flow.
pub type Alerts = BTreeMap<(u64, Flow), Alerted>;

/// Whether a frame passed, by its number from 1.
pub type Verdicts = BTreeMap<u64, bool>;
