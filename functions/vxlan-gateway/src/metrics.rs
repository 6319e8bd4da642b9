//! What is counted, and the report.

use crate::Gateway;
use alloc::string::String;
use nf_sdk::{Host, Json, Verdict};

/// What became of a packet that is not dropped; the numbers are places in [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It went to one endpoint.
    Encapsulated = 0,
    /// It went to all endpoints of its network.
    Flooded = 1,
    /// It went in fragments.
    Fragmented = 2,
    /// It waits for the next hop's Ethernet address.
    Held = 3,
    /// It went to a VLAN.
    Decapsulated = 4,
}

/// Why a packet is dropped; the numbers are places in the manifest's `drop_reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// A header that is cut short or impossible, or a source address that is no host's.
    Malformed = 0,
    /// A VLAN that is joined with no network.
    UnknownVlan = 1,
    /// A VXLAN network that is joined with no VLAN.
    UnknownVni = 2,
    /// From the side of the tunnels, and not VXLAN to this endpoint.
    NotVxlan = 3,
    /// VXLAN without a valid network: its flag I is not set.
    NoVni = 4,
    /// The checksum of the outer IPv4 header or of UDP is wrong, or one over IPv6 is missing.
    BadChecksum = 5,
    /// A fragment of an outer packet.
    Fragment = 6,
    /// From an endpoint that is not in the list of its network, or to another network's group.
    UnknownPeer = 7,
    /// A frame with a VLAN tag inside of its network.
    Tagged = 8,
    /// To an address that stays on its link.
    Reserved = 9,
    /// Its destination is on the side that it came from.
    Filtered = 10,
    /// It met congestion on its way and cannot say so.
    Congestion = 11,
    /// Several packets of a tunnel in one, yet to be segmented.
    Unsegmented = 12,
    /// Too long with its outer headers.
    TooLong = 13,
    /// The next hop's Ethernet address is not known.
    NoNeighbour = 14,
    /// There was no room in front of the packet, or no buffer.
    NoRoom = 15,
}

/// What is counted beside packets that came in; the numbers are places behind those of [`Reason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Packets of the function's own to endpoints: copies and fragments.
    Copies = 0,
    /// Copies for which there was no buffer or no way.
    CopiesLost = 1,
    /// ICMP errors that were sent.
    IcmpSent = 2,
    /// Those that were too many.
    IcmpLimited = 3,
    /// Addresses that were learned.
    Learned = 4,
    /// Addresses that were heard elsewhere than before.
    Moved = 5,
    /// Addresses that were forgotten because they were not heard again.
    Aged = 6,
    /// Addresses that were given up for another one.
    Displaced = 7,
    /// Addresses for which there was no room.
    NotLearned = 8,
}

/// Names in the report and of the manifest's counters: what became of packets, then the rest.
pub const NAMES: [&str; 30] = [
    "encapsulated",
    "flooded",
    "fragmented",
    "held",
    "decapsulated",
    "malformed",
    "unknown-vlan",
    "unknown-vni",
    "not-vxlan",
    "no-vni",
    "bad-checksum",
    "fragment",
    "unknown-peer",
    "tagged",
    "reserved",
    "filtered",
    "congestion",
    "unsegmented",
    "too-long",
    "no-neighbour",
    "no-room",
    "copies",
    "copies-lost",
    "icmp-sent",
    "icmp-limited",
    "learned",
    "moved",
    "aged",
    "displaced",
    "not-learned",
];
/// Place of the first [`Reason`].
pub const DROPPED: usize = 5;
/// Place of the first [`Extra`]; those before it count each packet that came once.
pub const EXTRA: usize = 21;

/// Counts by [`NAMES`].
#[derive(Debug, Default)]
pub struct Tally {
    totals: [u64; NAMES.len()],
    told: [u64; NAMES.len()],
}

impl Tally {
    fn count(&mut self, place: usize, amount: u64) {
        if let Some(total) = self.totals.get_mut(place) {
            *total += amount;
        }
    }

    /// Counts a packet that is not dropped.
    pub fn passed(&mut self, outcome: Outcome) {
        self.count(outcome as usize, 1);
    }

    /// Counts a packet that is dropped; its verdict.
    pub fn drop(&mut self, reason: Reason) -> u32 {
        self.count(DROPPED + reason as usize, 1);
        Verdict::Drop(reason as u16).encode()
    }

    /// Counts something else.
    pub fn add(&mut self, extra: Extra, amount: u64) {
        self.count(EXTRA + extra as usize, amount);
    }

    /// Tells the host what was added since the last time.
    pub fn flush(&mut self, host: &mut Host) {
        for (place, (now, told)) in self.totals.iter().zip(&mut self.told).enumerate() {
            if *now != *told {
                host.counter_add(place as u32, *now - *told);
                *told = *now;
            }
        }
    }
}

/// Writes the report; the README has its shape.
pub(crate) fn report(gateway: &Gateway, out: &mut String) {
    let mut json = Json::new(out);
    json.object().key("packets").object();
    for (name, total) in NAMES.iter().zip(gateway.tally.totals) {
        json.member(name, total);
    }
    let endpoints = &gateway.endpoints;
    json.end_object().key("endpoints").object();
    json.member("now", endpoints.len() as u64).member("most_of_a_network", endpoints.most() as u64);
    json.end_object().member("held", gateway.underlay.held() as u64).key("networks").array();
    for (number, (network, traffic)) in (0u16..).zip(gateway.networks.all()) {
        let count = endpoints.count(number);
        json.object().member("vni", network.vni.into()).member("vlan", network.vlan.into());
        json.member("endpoints", count.known as u64).member("answered", count.answered as u64);
        json.member("encapsulated", traffic.encapsulated).member("flooded", traffic.flooded);
        json.member("decapsulated", traffic.decapsulated).member("dropped", traffic.dropped);
        json.member("moved", traffic.moved).end_object();
    }
    json.end_array().end_object();
}
