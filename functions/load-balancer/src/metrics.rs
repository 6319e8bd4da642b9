//! What is counted, and the report.

use crate::LoadBalancer;
use crate::balancer::Turnover;
use crate::checks::Turns;
use alloc::string::String;
use nf_sdk::{Host, Json, Verdict};

/// Why a packet is dropped; the numbers are places in the manifest's `drop_reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// A header contradicts itself or is cut short, or a checksum that has to be right is wrong.
    Malformed = 0,
    /// For a virtual address, and no service.
    NoService = 1,
    /// No server of the service is up.
    NoServer = 2,
    /// The connection's server is down.
    ServerDown = 3,
    /// The next hop's Ethernet address is not known.
    NoNeighbour = 4,
    /// An ICMP error about no connection.
    NoConnection = 5,
    /// A later fragment whose first one did not come or overlaps it, or that there is no room for.
    Fragment = 6,
    /// Neither for a virtual address nor from a server's port.
    Other = 7,
}

impl Reason {
    /// The verdict that drops a packet for this reason.
    pub const fn verdict(self) -> Verdict {
        Verdict::Drop(self as u16)
    }
}

/// What became of a packet that is not dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// To a server.
    Forwarded = 0,
    /// From a server to a client.
    Returned = 1,
    /// As it is.
    AsIs = 2,
    /// It waits for its next hop's Ethernet address.
    Held = 3,
    /// It answered a check.
    Check = 4,
}

/// Names in the report and of the manifest's counters: what became of packets, the reasons included.
pub const NAMES: [&str; 13] = [
    "forwarded",
    "returned",
    "passed",
    "held",
    "check-answers",
    "malformed",
    "no-service",
    "no-server",
    "server-down",
    "no-neighbour",
    "no-connection",
    "fragment",
    "other",
];
/// The place of the first reason.
pub const REASONS: usize = 5;

/// Names of what else is counted, in the order of the manifest's counters behind [`NAMES`].
pub const EVENTS: [&str; 9] = [
    "connections-opened",
    "connections-expired",
    "connections-evicted",
    "stateless",
    "resets",
    "moved",
    "checks",
    "servers-down",
    "servers-up",
];

/// Most servers of a service that the report names as down.
const DOWN: usize = 16;

/// Counts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Packets since the start, by [`NAMES`].
    pub totals: [u64; NAMES.len()],
    batch: [u32; NAMES.len()],
    /// Resets that were sent.
    pub resets: u64,
    told: [u64; EVENTS.len()],
}

impl Tally {
    /// Counts usual packets of a batch, of both directions.
    #[inline(always)]
    pub fn add(&mut self, forwarded: u32, returned: u32) {
        self.batch[0] += forwarded;
        self.batch[1] += returned;
    }

    /// Counts a packet.
    pub fn passed(&mut self, passed: Passed) {
        self.batch[passed as usize] += 1;
    }

    /// Counts a packet that is dropped.
    pub fn dropped(&mut self, reason: Reason) {
        self.batch[REASONS + reason as usize] += 1;
    }

    fn events(&self, turnover: &Turnover, turns: &Turns) -> [u64; EVENTS.len()] {
        let Turnover { opened, expired, evicted, stateless, moved } = *turnover;
        [opened, expired, evicted, stateless, self.resets, moved, turns.checks, turns.down, turns.up]
    }

    /// Tells the host what is new: a host call for each counter that changed.
    #[inline(always)]
    pub fn flush(&mut self, turnover: &Turnover, turns: &Turns, host: &mut Host) {
        for (place, count) in self.batch.iter_mut().enumerate() {
            if *count != 0 {
                self.totals[place] += u64::from(*count);
                host.counter_add(place as u32, u64::from(*count));
                *count = 0;
            }
        }
        let events = self.events(turnover, turns);
        for (place, (now, told)) in events.into_iter().zip(&mut self.told).enumerate() {
            host.counter_add((NAMES.len() + place) as u32, now - *told);
            *told = now;
        }
    }
}

/// Writes the report; the README has its shape.
pub(crate) fn report(function: &LoadBalancer, out: &mut String) {
    let LoadBalancer { balancer, checks, tally, .. } = function;
    let mut json = Json::new(out);
    json.object().key("packets").object();
    for (name, total) in NAMES.iter().zip(tally.totals) {
        json.member(name, total);
    }
    json.end_object().key("connections").object();
    json.member("now", balancer.connections.len() as u64);
    json.member("max", balancer.connections.limit() as u64);
    json.member("half_open", balancer.connections.half_open() as u64).end_object();
    json.key("events").object();
    for (name, total) in EVENTS.iter().zip(tally.events(&balancer.turnover, &checks.turns)) {
        json.member(name, total);
    }
    json.end_object().key("services").object();
    for service in &balancer.services.all {
        json.key(&service.settings.name).object();
        let servers = || service.servers.clone();
        json.member("servers", servers().len() as u64);
        json.member("up", servers().filter(|number| balancer.services.is_up(*number)).count() as u64);
        let of = |number: u16| balancer.services.connections.get(usize::from(number)).copied().unwrap_or(0);
        json.member("connections", servers().map(|number| u64::from(of(number))).sum::<u64>());
        json.member("most", u64::from(servers().map(of).max().unwrap_or(0)));
        json.key("down").array();
        for number in servers().filter(|number| !balancer.services.is_up(*number)).take(DOWN) {
            json.text(&balancer.services.name(number));
        }
        json.end_array().end_object();
    }
    json.end_object().end_object();
}
