//! The network function `security-groups`: what may reach what opens a device and what may leave it. It
//! stands between the device, at its interface `outside`, and the function that would open the device, at
//! `inside`.
//!
//! A packet's way is that of [`packet_filter`], with these things before the rules:
//! 1. [`identity`]: what comes from inside has the device's addresses for sources, and what comes from
//!    outside goes to one of them, or to many.
//! 2. [`link`]: ARP, neighbour discovery and DHCP, without which no address is of any use, pass without a
//!    rule, where they claim nothing that is not the device's.
//! 3. [`claims`]: what the opener claims in discovery that is not the device's, the platform is told of where
//!    the opener may form addresses.
//! 4. [`layers`]: the administrator's rules and the tenant's. A connection opens if each of the two lists
//!    that are there has a rule for it. A rule may be for addresses that members of a group learned, which
//!    the table of devices has: one that goes ends the connections that it alone allowed.
//!
//! Rules change by another instance that takes the connections over: those that its rules do not allow end.
//! As every rule allows, a rule that comes ends none, and one that goes ends those that it alone allowed.
//!
//! Limits: those of `packet_filter`; 64 addresses of the configuration and those of the device; no packet is
//! written.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod claims;
pub mod identity;
pub mod layers;
pub mod link;
pub mod members;
pub mod metrics;
pub mod settings;

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use claims::Claims;
use core::net::IpAddr;
use identity::{Identity, inside};
use layers::Layers;
use metrics::{NAMES, Reason};
use nf_sdk::{
    Batch, Config, Error, Host, Nanos, NetworkFunction, StateReader, StateWriter, superfluid_function,
};
use packet_filter::filter::Filter;
use packet_filter::header::{Class, Header};
use packet_filter::judge::{Judge, judge_tracked};
use packet_filter::tally;
use packet_filter::tracker::Tracker;
use settings::Settings;

/// The function.
pub struct SecurityGroups {
    filter: Filter<Layers, { NAMES.len() }>,
    identity: Identity,
    claims: Claims,
    devices_were_read: bool,
}

impl NetworkFunction for SecurityGroups {
    fn new(config: &Config) -> Result<SecurityGroups, Error> {
        let Settings { identity, claims, layers, handling, tracking } = Settings::read(config)?;
        let secret = config.secret()?;
        let no_memory = || Error::Refused(String::from("not enough memory for rules and connections"));
        let tracker = Tracker::new(&tracking, &secret).ok_or_else(no_memory)?;
        let layers = Layers::new(layers).ok_or_else(no_memory)?;
        Ok(SecurityGroups {
            filter: Filter::new(Judge::new(layers, handling, &secret), Some(tracker)),
            identity,
            claims,
            devices_were_read: false,
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        if !self.devices_were_read {
            self.read_devices(batch.host());
        }
        let (identity, claims) = (&self.identity, &mut self.claims);
        self.filter.process(
            batch,
            now,
            |packet, ingress| identity.may_be_usual(packet, ingress),
            |judge, tracker, header, packet| judge_any((identity, claims), judge, tracker, header, packet),
        );
        if self.claims.is_any() {
            self.claims.tell(batch.host(), now);
        }
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.filter.timer(host, now);
    }

    fn finish(&mut self, host: &mut Host, _now: Nanos) -> bool {
        self.filter.finish(host);
        false
    }

    fn devices(&mut self, host: &mut Host, _now: Nanos) {
        self.read_devices(host);
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        metrics::report(&self.filter, &self.identity, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        // Before the connections, which are judged by them.
        members::export(self.filter.judge.rules.members(), out) && self.filter.export_state(out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        let Some(members) = members::import(entries) else { return false };
        self.filter.judge.rules.set_members(members);
        let is_taken = self.filter.import_state(true, entries);
        if !is_taken {
            self.filter.judge.rules.set_members(Vec::new());
        }
        is_taken
    }
}

impl SecurityGroups {
    /// Without an answer of the host, what was known stays.
    fn read_devices(&mut self, host: &mut Host) {
        self.devices_were_read = self.identity.read(host).is_ok();
        if let Some(members) = self.identity.members() {
            let gone = self.filter.judge.rules.set_members(members);
            if !gone.is_empty() {
                self.filter.end_denied(|outside| gone.binary_search(&outside).is_ok());
            }
        }
    }
}

/// Every packet that is not the usual one of a known connection.
#[inline(never)]
fn judge_any(
    (identity, claims): (&Identity, &mut Claims),
    judge: &mut Judge<Layers>,
    tracker: &mut Tracker,
    header: &Header,
    packet: &[u8],
) -> Result<(), Reason> {
    let is_from_inside = header.ingress() == 0;
    if is_from_inside && !identity.is_sender(packet) {
        return Err(Reason::Spoofed);
    }
    // The device's addresses are those of its own network, not of any VLAN beside it.
    if link::is_tagged(packet) {
        return Err(if is_from_inside { Reason::Spoofed } else { Reason::Misaddressed });
    }
    match header.class {
        Class::NonIp => return link::arp(identity, packet, is_from_inside),
        // The judge says why.
        Class::Malformed | Class::Unreadable | Class::ShortFragment => {}
        Class::Discovery if is_from_inside => {
            let judgement = link::discovery(identity, header, packet);
            if claims.is_any() {
                match judgement {
                    Ok(()) => note_used(claims, header),
                    Err(Reason::Spoofed) => {
                        link::claimed(identity, header, packet).into_iter().for_each(|it| claims.claimed(it));
                    }
                    Err(_) => {}
                }
            }
            return judgement;
        }
        Class::Discovery => return Ok(()),
        _ => {
            if let Some(judgement) = link::dhcp(identity, header, packet) {
                return judgement;
            }
            if !identity.has(header) {
                return match is_from_inside {
                    true => Err(Reason::Spoofed),
                    false if identity.is_for_many(header) => Ok(judge.by_rules_alone(header)?),
                    false => Err(Reason::Misaddressed),
                };
            }
            if is_from_inside && claims.is_any() {
                note_used(claims, header);
            }
        }
    }
    judge_tracked(judge, tracker, header, packet).map_err(|reason: tally::Reason| reason.into())
}

/// A packet from inside came from an address of the device.
fn note_used(claims: &mut Claims, header: &Header) {
    if let IpAddr::V6(address) = inside(header) {
        claims.used(address.octets());
    }
}

superfluid_function!(SecurityGroups);
