//! The network function `router`: forwards IPv4 and IPv6 between its interfaces by longest prefix match.
//!
//! A packet's way:
//! 1. [`header`] reads it: the common packet by a few fixed loads, every other one [`closely`].
//! 2. The whole batch is read first, then all destinations are looked up in [`table`]: memory answers for the
//!    whole batch at once that way.
//! 3. What is found is a set of next hops ([`hops`]); the flow's hash chooses one, its Ethernet addresses are
//!    written, a hop is taken off, the checksum follows (RFC 1624).
//! 4. What is not to be forwarded is dropped for a reason, and its sender told ([`icmp`]) as often as the
//!    limit allows.
//!
//! A changed configuration is another instance, whose table is made beside the workers while packets go by
//! this one; the change on the packets' way is the hand-over of what [`state`] knows, whatever the table's
//! size.
//!
//! Limits: 8 interfaces; memory for the routes, see [`table`]; IPv4 packets with options are not fragmented;
//! no redirects are sent.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod closely;
pub mod flat;
pub mod header;
pub mod hops;
pub mod icmp;
pub mod metrics;
pub mod routes_file;
pub mod settings;
mod state;
pub mod table;
pub mod trie;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::net::IpAddr;
use header::{ETHERNET, common4, common6, flow4, flow6, forward4, forward6, mac_word};
use hops::{Hops, Way};
use icmp::Limiter;
use metrics::{FORWARDED, Tally};
use nf_sdk::{
    Batch, Config, Error, MAX_BATCH, Nanos, NetworkFunction, StateReader, StateWriter, Verdict,
    superfluid_function,
};
use settings::{Interface, MAX_INTERFACES, Settings};
use table::{Four, Table};

/// What kind of packet it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// To be looked at closely.
    #[default]
    Other,
    Four,
    Six,
}

/// What is known of a packet before its route.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    /// Destination, of IPv4.
    address: u32,
    /// Bytes of the IP packet.
    length: u32,
    /// What the flat table's entry says.
    first: u16,
    kind: Kind,
}

/// The function.
pub struct Router {
    interfaces: [Interface; MAX_INTERFACES],
    /// Their Ethernet addresses by number; an address of none where there is none.
    macs: [u64; MAX_INTERFACES],
    neighbours: BTreeMap<(u16, IpAddr), [u8; 6]>,
    table: Table,
    hops: Hops,
    limiter: Limiter,
    echo: bool,
    tally: Tally,
    ahead: Box<[Ahead; MAX_BATCH]>,
}

/// Stands for the Ethernet address of an interface that is not there: more than six bytes.
const NO_MAC: u64 = u64::MAX;

impl NetworkFunction for Router {
    fn new(config: &Config) -> Result<Router, Error> {
        let Settings { interfaces, neighbours, table, mut hops, limiter, echo } = Settings::read(config)?;
        let macs = core::array::from_fn(|n| {
            interfaces.get(n).filter(|one| one.is_there).map_or(NO_MAC, |one| mac_word(one.mac))
        });
        hops.open(|interface, address| way(&interfaces, &neighbours, interface, address));
        let ahead = Box::new([Ahead::default(); MAX_BATCH]);
        let tally = Tally::default();
        Ok(Router { interfaces, macs, neighbours, table, hops, limiter, echo, tally, ahead })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        self.read(batch);
        self.send(batch, now);
        self.tally.flush(batch.host());
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        metrics::report(self, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        state::export(self, out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        state::import(self, entries)
    }
}

/// How an address on an interface's link is reached.
fn way(
    interfaces: &[Interface; MAX_INTERFACES],
    neighbours: &BTreeMap<(u16, IpAddr), [u8; 6]>,
    interface: u16,
    address: IpAddr,
) -> Option<Way> {
    let to = neighbours.get(&(interface, address))?;
    let from = interfaces.get(usize::from(interface))?;
    let mut addresses = [0; 12];
    addresses[..6].copy_from_slice(to);
    addresses[6..].copy_from_slice(&from.mac);
    Some(Way { addresses, verdict: Verdict::Interface(interface).encode(), mtu: from.mtu })
}

impl Router {
    /// Reads all packets, then has the entries of their destinations fetched.
    #[inline(always)]
    fn read(&mut self, batch: &mut Batch<'_>) {
        let count = batch.len();
        for (packet, ahead) in batch.packets().zip(self.ahead.iter_mut()) {
            let mac = self.macs.get(usize::from(packet.ingress())).copied().unwrap_or(NO_MAC);
            *ahead = match common4(packet.bytes(), mac) {
                Some((address, length)) => Ahead { address, length, first: 0, kind: Kind::Four },
                None => match common6(packet.bytes(), mac) {
                    Some(length) => Ahead { address: 0, length, first: 0, kind: Kind::Six },
                    None => Ahead::default(),
                },
            };
        }
        if let Four::Flat(flat) = &self.table.four {
            // A loop of its own, and short: the processor then has all of the batch's reads on their way at a
            // time.
            for ahead in self.ahead.iter_mut().take(count) {
                ahead.first = flat.first(ahead.address);
            }
        }
    }

    /// Each packet goes its way.
    #[inline(always)]
    fn send(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        let mut forwarded = 0;
        let (packets, host) = batch.split();
        for (n, mut packet) in packets.enumerate() {
            let ahead = self.ahead[n % MAX_BATCH];
            let way = match ahead.kind {
                Kind::Four => {
                    let set = match &self.table.four {
                        Four::Flat(flat) => flat.finish(ahead.address, ahead.first),
                        Four::Trie(trie) => trie.lookup(&ahead.address.to_be_bytes()) as u16,
                    };
                    self.hops.way(self.hops.choose(set, || flow4(packet.bytes())))
                }
                Kind::Six => {
                    let address = packet.bytes().get(ETHERNET + 24..).and_then(|rest| rest.first_chunk());
                    let set = address.map_or(0, |address: &[u8; 16]| self.table.six.lookup(address) as u16);
                    self.hops.way(self.hops.choose(set, || flow6(packet.bytes())))
                }
                Kind::Other => self.hops.way(u32::MAX),
            };
            if ahead.length == 0 || ahead.length > way.mtu {
                let verdict = self.closely(&mut packet, host, now);
                packet.verdict_encoded(verdict);
                continue;
            }
            if ahead.kind == Kind::Four {
                forward4(packet.bytes_mut(), way);
            } else {
                forward6(packet.bytes_mut(), way);
            }
            packet.verdict_encoded(way.verdict);
            forwarded += 1;
        }
        self.tally.totals[FORWARDED] += forwarded;
    }
}

superfluid_function!(Router);
