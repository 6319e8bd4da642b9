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
//! A changed file of routes is taken part by part between batches ([`change`]). Any other changed
//! configuration is another instance, whose table is made beside the workers while packets go by this one;
//! the change on the packets' way is the hand-over of what [`state`] knows, whatever the table's size.
//!
//! Limits: 8 interfaces; memory for the routes, see [`table`]; IPv4 packets with options are not fragmented;
//! no redirects are sent.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod change;
mod closely;
pub mod flat;
pub mod header;
pub mod hops;
pub mod icmp;
pub mod links;
pub mod metrics;
pub mod routes_file;
pub mod settings;
mod state;
pub mod table;
pub mod trie;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use change::Taking;
use header::{ETHERNET, common4, common6, flow4, flow6, forward4, forward6};
use hops::{Hop, Hops, Way};
use links::Links;
use metrics::{FORWARDED, Reason, Tally};
use nf_sdk::devices::NextHops;
use nf_sdk::{
    Batch, Change, Config, Error, Host, Limiter, MAX_BATCH, Nanos, NetworkFunction, Severity, StateReader,
    StateWriter, superfluid_function,
};
use settings::{Resolver, Settings};
use table::{Four, Known, Table};

/// How often the next hops of routes are asked for again, so that the platform keeps them; and how soon those
/// for which there was no room.
const KEEP: Nanos = Nanos::from_secs(60);
const SOON: Nanos = Nanos::from_millis(100);

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

/// A table and where its routes lead.
#[derive(Debug)]
pub(crate) struct Routing {
    pub(crate) table: Table,
    pub(crate) hops: Hops,
}

/// The function.
pub struct Router {
    links: Links,
    /// The routes of the configuration.
    main: Routing,
    /// What their table is made of.
    known: Known,
    /// A changed file of routes, as far as it is taken.
    taking: Option<Box<Taking>>,
    /// Addresses and networks that devices have; they come first.
    own: Option<Box<Routing>>,
    next: NextHops,
    was_updated: bool,
    /// How many of the next hops have been asked for again in this round.
    kept: usize,
    limiter: Limiter,
    echo: bool,
    tally: Tally,
    ahead: Box<[Ahead; MAX_BATCH]>,
}

impl NetworkFunction for Router {
    fn new(config: &Config) -> Result<Router, Error> {
        let Settings { interfaces, neighbours, table, hops, known, limiter, echo } = Settings::read(config)?;
        let mut router = Router {
            links: Links::new(interfaces, neighbours),
            main: Routing { table, hops },
            known,
            taking: None,
            own: None,
            next: NextHops::new(Reason::NoNeighbour as u16),
            was_updated: false,
            kept: 0,
            limiter,
            echo,
            tally: Tally::default(),
            ahead: Box::new([Ahead::default(); MAX_BATCH]),
        };
        router.open();
        Ok(router)
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        if !self.was_updated {
            self.update(batch.host(), now);
        }
        self.read(batch);
        self.send(batch, now);
        self.tally.flush(batch.host());
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.keep(host, now);
    }

    fn devices(&mut self, host: &mut Host, now: Nanos) {
        self.update(host, now);
    }

    fn change(&mut self, host: &mut Host, now: Nanos) -> Change {
        let taking = self.taking.take().or_else(|| Taking::begin(host).map(Box::new));
        let Some(mut taking) = taking else { return Change::Refused };
        let resolver = Resolver::new(self.links.configured());
        let change = taking.go_on(host, &resolver, &mut self.main, &mut self.known);
        match change {
            Change::More => self.taking = Some(taking),
            Change::Taken => {
                self.open();
                self.keep(host, now);
            }
            Change::Refused => {}
        }
        change
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

impl Router {
    /// Takes over what the platform tells of the devices.
    #[cold]
    fn update(&mut self, host: &mut Host, now: Nanos) {
        self.was_updated = true;
        self.next.update(host, now);
        if self.links.update(self.next.devices()) {
            let routes = self.links.routes().and_then(|routes| routes.map(table::Routes::finish).transpose());
            match routes {
                Ok(made) => self.own = made.map(|(table, hops, _)| Box::new(Routing { table, hops })),
                Err(_) => {
                    host.log(Severity::Error, "not enough memory for the routes to the devices' addresses")
                }
            }
        }
        self.open();
        self.keep(host, now);
    }

    /// Opens the ways to next hops that are known, closes the others.
    fn open(&mut self) {
        let Router { links, main, next, .. } = self;
        main.hops.open(|interface, address| links.way(next.devices(), interface, address));
    }

    /// Asks again for next hops that packets go to without asking.
    fn keep(&mut self, host: &mut Host, now: Nanos) {
        let Router { links, main, kept, .. } = self;
        let mut any = false;
        for (number, hop) in main.hops.all().iter().enumerate() {
            let Hop::Via(interface, address) = *hop else { continue };
            let is_asked_for = main.hops.way(number as u32).mtu != 0
                && !links.neighbours.contains_key(&(interface, address));
            any |= is_asked_for;
            if is_asked_for && number >= *kept && host.ask(interface, address).is_err() {
                *kept = number;
                host.timer_set(now.saturating_add(SOON));
                return;
            }
        }
        *kept = 0;
        if any {
            host.timer_set(now.saturating_add(KEEP));
        }
    }

    /// Reads all packets, then has the entries of their destinations fetched.
    #[inline(always)]
    fn read(&mut self, batch: &mut Batch<'_>) {
        let count = batch.len();
        for (packet, ahead) in batch.packets().zip(self.ahead.iter_mut()) {
            let mac = self.links.macs.get(usize::from(packet.ingress())).copied().unwrap_or(links::NO_MAC);
            *ahead = match common4(packet.bytes(), mac) {
                Some((address, length)) => Ahead { address, length, first: 0, kind: Kind::Four },
                None => match common6(packet.bytes(), mac) {
                    Some(length) => Ahead { address: 0, length, first: 0, kind: Kind::Six },
                    None => Ahead::default(),
                },
            };
        }
        if let Four::Flat(flat) = &self.main.table.four {
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
                Kind::Four => self.way4(packet.bytes(), &ahead),
                Kind::Six => self.way6(packet.bytes()),
                Kind::Other => self.main.hops.way(u32::MAX),
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

    /// The way of a common packet of IPv4.
    #[inline(always)]
    fn way4(&self, packet: &[u8], ahead: &Ahead) -> &Way {
        let address = ahead.address.to_be_bytes();
        let hash = || flow4(packet);
        if let Some(own) = &self.own
            && let set = own.table.four(address)
            && set != 0
        {
            return own.hops.way(own.hops.choose(set, hash));
        }
        let set = match &self.main.table.four {
            Four::Flat(flat) => flat.finish(ahead.address, ahead.first),
            Four::Trie(trie) => trie.lookup(&address) as u16,
        };
        self.main.hops.way(self.main.hops.choose(set, hash))
    }

    /// The way of a common packet of IPv6.
    #[inline(always)]
    fn way6(&self, packet: &[u8]) -> &Way {
        let address = packet.get(ETHERNET + 24..).and_then(|rest| rest.first_chunk::<16>());
        let address = address.copied().unwrap_or_default();
        let hash = || flow6(packet);
        if let Some(own) = &self.own
            && let set = own.table.six.lookup(&address) as u16
            && set != 0
        {
            return own.hops.way(own.hops.choose(set, hash));
        }
        let set = self.main.table.six.lookup(&address) as u16;
        self.main.hops.way(self.main.hops.choose(set, hash))
    }
}

superfluid_function!(Router);
