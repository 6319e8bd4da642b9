//! The network function `vxlan-gateway`: joins VLANs of one side with VXLAN networks of the other (RFC 7348).
//!
//! 1. A frame from the VLAN side: its VLAN names the network ([`networks`]), its source address is learned
//!    ([`endpoints`]), the place of its destination is looked up. [`encapsulate`] puts the headers of
//!    [`outer`] in front of it, and [`underlay`] sends it to the endpoint; a frame for all, or for an address
//!    whose place is not known, goes to all endpoints of the network, a copy for each.
//! 2. A packet from the VXLAN side: [`decapsulate`] checks it, learns behind which endpoint its source is,
//!    takes its headers off and sends it to the VLAN, never back to another endpoint (split horizon).
//! 3. A frame that is too long with its headers is fragmented if it is IPv4 and may be; otherwise its sender
//!    is told, as often as the limit allows (`path_mtu`).
//!
//! Limits: one outer address; 4,095 networks with at most 64 endpoints in a list and 262,144 addresses each;
//! the priority of a VLAN tag is not carried; outer fragments are not put together; no ARP of its own.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod decapsulate;
mod encapsulate;
pub mod endpoints;
pub mod metrics;
pub mod networks;
pub mod outer;
pub mod settings;
mod state;
pub mod underlay;

#[cfg(test)]
mod tests;

use alloc::string::String;
use endpoints::{Endpoints, Learned, Mac, Place};
use metrics::{Extra, Reason, Tally};
use networks::Networks;
use nf_sdk::{
    Batch, Config, Error, Host, Limiter, Nanos, NetworkFunction, StateReader, StateWriter,
    superfluid_function,
};
use settings::Settings;
use underlay::Underlay;

/// The interfaces.
pub const VLAN: u16 = 0;
/// The side of the tunnels.
pub const VXLAN: u16 = 1;

/// How often addresses that were not heard again are looked for, how many of them are forgotten at a time,
/// and how soon the next ones are.
const LOOK: Nanos = Nanos::from_secs(10);
const AT_ONCE: usize = 1024;
const SOON: Nanos = Nanos::from_millis(10);

/// The function.
pub struct Gateway {
    networks: Networks,
    endpoints: Endpoints,
    underlay: Underlay,
    /// Tags inside of a network stay.
    keeps_tags: bool,
    limiter: Limiter,
    tally: Tally,
    /// When addresses are looked for that were not heard again.
    look_at: Nanos,
}

impl NetworkFunction for Gateway {
    fn new(config: &Config) -> Result<Gateway, Error> {
        let Settings { networks, endpoints, underlay, keeps_tags, limiter } = Settings::read(config)?;
        Ok(Gateway {
            networks,
            endpoints,
            underlay,
            keeps_tags,
            limiter,
            tally: Tally::default(),
            look_at: Nanos(0),
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        let (packets, host) = batch.split();
        if now >= self.look_at {
            self.forget(host, now);
        }
        for mut packet in packets {
            match packet.ingress() {
                VLAN => self.encapsulate(&mut packet, host, now),
                VXLAN => self.decapsulate(&mut packet, host, now),
                _ => self.drop(&mut packet, Reason::UnknownVlan),
            }
        }
        self.tally.flush(batch.host());
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.forget(host, now);
        self.tally.flush(host);
    }

    fn devices(&mut self, host: &mut Host, now: Nanos) {
        self.underlay.update(host, now);
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

impl Gateway {
    /// Forgets addresses that were not heard again.
    #[cold]
    fn forget(&mut self, host: &mut Host, now: Nanos) {
        let forgotten = self.endpoints.forget(now, AT_ONCE);
        self.tally.add(Extra::Aged, forgotten as u64);
        let next = now.saturating_add(if forgotten == AT_ONCE { SOON } else { LOOK });
        self.look_at = next;
        host.timer_set(next);
    }

    /// Notes where an address was heard.
    fn learn(&mut self, network: u16, address: Mac, place: Place, now: Nanos) {
        let extra = match self.endpoints.learn(network, address, place, now) {
            Learned::Known => return,
            Learned::New => Extra::Learned,
            Learned::Moved => {
                self.networks.count(network).moved += 1;
                Extra::Moved
            }
            Learned::Displaced => {
                self.tally.add(Extra::Displaced, 1);
                Extra::Learned
            }
            Learned::Refused => Extra::NotLearned,
        };
        self.tally.add(extra, 1);
    }

    /// Drops a packet of no network.
    fn drop(&mut self, packet: &mut nf_sdk::Packet<'_>, reason: Reason) {
        packet.verdict_encoded(self.tally.drop(reason));
    }

    /// Drops a packet of a network.
    fn drop_in(&mut self, network: u16, packet: &mut nf_sdk::Packet<'_>, reason: Reason) {
        self.networks.count(network).dropped += 1;
        self.drop(packet, reason);
    }
}

/// Whether a frame to this address stays on its link (IEEE 802.1D section 7.12.6: bridges forward none of
/// them).
pub(crate) fn is_reserved(destination: Mac) -> bool {
    matches!(destination, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

/// Whether a frame may come from this address: one host's, which is not zero.
pub(crate) fn is_source(source: Mac) -> bool {
    source[0] & 1 == 0 && source != [0; 6]
}

superfluid_function!(Gateway);
