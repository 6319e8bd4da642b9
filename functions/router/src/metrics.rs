//! What is counted, and the report.

use crate::{Router, Routing};
use alloc::string::String;
use nf_sdk::{Host, Json, Verdict};

/// Why a packet is dropped; the numbers are places in the manifest's `drop_reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// Ethernet or IP headers that are cut short or impossible.
    Malformed = 0,
    /// Neither IPv4 nor IPv6, or tagged.
    NotIp = 1,
    /// The frame is to another Ethernet address, or came by an interface without one.
    NotForRouter = 2,
    /// The checksum of the IPv4 header is wrong.
    BadChecksum = 3,
    /// The source address is none that a packet may come from.
    MartianSource = 4,
    /// The destination address is none that is routed.
    MartianDestination = 5,
    /// To a group.
    Multicast = 6,
    /// To all hosts of a network.
    Broadcast = 7,
    /// With a source route.
    SourceRouted = 8,
    /// The time to live or hop limit came to its end.
    HopsExceeded = 9,
    /// There is no route.
    NoRoute = 10,
    /// The route says so, silently.
    Blackhole = 11,
    /// The route says so.
    Rejected = 12,
    /// Larger than the next link takes, and not to be fragmented.
    TooBig = 13,
    /// The next hop's Ethernet address is not known.
    NoNeighbour = 14,
    /// For the router itself, and nothing that it answers.
    ForRouter = 15,
    /// There was no room for fragments.
    NoRoom = 16,
}

impl Reason {
    /// The verdict that drops a packet for this reason.
    #[inline(always)]
    pub const fn verdict(self) -> u32 {
        Verdict::Drop(self as u16).encode()
    }

    /// Its place in [`NAMES`].
    #[inline(always)]
    pub const fn counter(self) -> usize {
        DROPPED + self as usize
    }
}

/// Names in the report and of the manifest's counters: what became of packets, then what the router made.
pub const NAMES: [&str; 25] = [
    "forwarded",
    "answered",
    "fragmented",
    "held",
    "malformed",
    "not-ip",
    "not-for-router",
    "bad-checksum",
    "martian-source",
    "martian-destination",
    "multicast",
    "broadcast",
    "source-routed",
    "hops-exceeded",
    "no-route",
    "blackhole",
    "rejected",
    "too-big",
    "no-neighbour",
    "for-router",
    "no-room",
    "icmp-sent",
    "icmp-limited",
    "icmp-unsent",
    "fragments-made",
];
/// Place of packets that were forwarded.
pub const FORWARDED: usize = 0;
/// Place of requests that were answered.
pub const ANSWERED: usize = 1;
/// Place of packets that were forwarded in fragments.
pub const FRAGMENTED: usize = 2;
/// Place of packets that waited for their next hop's Ethernet address.
pub const HELD: usize = 3;
/// Place of the first [`Reason`].
pub const DROPPED: usize = 4;
/// Place of ICMP errors that were sent.
pub const ICMP_SENT: usize = 21;
/// Place of those that were too many.
pub const ICMP_LIMITED: usize = 22;
/// Place of those that could not be sent: no address of the router's own, no way back, no buffer.
pub const ICMP_UNSENT: usize = 23;
/// Place of fragments.
pub const FRAGMENTS: usize = 24;

/// Counts by [`NAMES`].
#[derive(Debug, Default)]
pub struct Tally {
    /// Since the start.
    pub totals: [u64; NAMES.len()],
    told: [u64; NAMES.len()],
}

impl Tally {
    /// Counts one.
    #[inline(always)]
    pub fn count(&mut self, place: usize) {
        if let Some(total) = self.totals.get_mut(place) {
            *total += 1;
        }
    }

    /// Counts a packet that is dropped; its verdict.
    #[inline(always)]
    pub fn drop(&mut self, reason: Reason) -> u32 {
        self.count(reason.counter());
        reason.verdict()
    }

    /// Tells the host what was added since the last time: a host call for each counter that changed.
    #[inline(always)]
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
pub(crate) fn report(router: &Router, out: &mut String) {
    let mut json = Json::new(out);
    json.object().key("packets").object();
    for (name, total) in NAMES.iter().zip(router.tally.totals) {
        json.member(name, total);
    }
    let Routing { table, hops } = &router.main;
    json.end_object().key("routes").object();
    json.member("ipv4", table.routes[0] as u64).member("ipv6", table.routes[1] as u64);
    json.member("next_hops", hops.next_hops() as u64).member("sets", hops.sets() as u64);
    json.member("bytes", (table.bytes() + router.known.bytes()) as u64).end_object();
    json.member("neighbours", router.links.neighbours.len() as u64).end_object();
}
