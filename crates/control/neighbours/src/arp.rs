//! ARP (RFC 826) with the detection of conflicts (RFC 5227).
//!
//! | message | what it does |
//! |---|---|
//! | question for an address of the device | an answer to the asking station; from 0.0.0.0, a probe, as well |
//! | its sender is an address of the device | a conflict |
//! | probe for an address that the device probes, too | a conflict |
//! | answer, or question, of a neighbour that is asked for | known from now on |
//! | announcement ("gratuitous ARP") of a neighbour at another station | a claim: the known one is asked |
//! | any other | nothing: no entry comes from the link |

use crate::counters::{Fault, Input};
use crate::device::Device;
use crate::frame;
use crate::settings::{Mac, is_unicast};
use packet::arp::{REPLY, REQUEST, Repr, View};
use std::net::{IpAddr, Ipv4Addr};
use telemetry::clock::Nanos;

impl Device {
    /// Whether a message answers something that was asked.
    pub(crate) fn arp_is_awaited(&self, payload: &[u8]) -> bool {
        View::new(payload).is_ok_and(|message| {
            message.operation() == REPLY && self.table.waits_for(message.sender().into())
        })
    }

    /// A message came from the station `source`.
    pub(crate) fn arp_input(&mut self, source: Mac, payload: &[u8], now: Nanos) -> Input {
        let Ok(view) = View::new(payload) else { return Input::Dropped(Fault::Malformed) };
        let message = Repr::parse(&view);
        // What is said of another station is not believed, nor is what a group says.
        if message.sender_mac != source || !matches!(message.operation, REQUEST | REPLY) {
            return Input::Dropped(Fault::Address);
        }
        let (sender, target) = (IpAddr::V4(message.sender), IpAddr::V4(message.target));
        if message.sender.is_unspecified() {
            if message.operation != REQUEST {
                return Input::Dropped(Fault::Address);
            }
            if self.addresses.has(target) {
                self.arp_answer(&message, now);
            } else if self.addresses.find(target).is_some() {
                self.conflict(target, now);
            }
            return Input::Taken;
        }
        if !is_unicast(sender) {
            return Input::Dropped(Fault::Address);
        }
        if self.addresses.find(sender).is_some() {
            self.conflict(sender, now);
            return Input::Taken;
        }
        let for_this = message.operation == REPLY && message.target_mac == self.settings.mac;
        if for_this {
            self.table.answered(sender, source, now, &mut self.rng);
        } else {
            self.table.claimed(sender, source, now);
        }
        if message.operation == REQUEST && self.addresses.has(target) {
            self.arp_answer(&message, now);
        }
        Input::Taken
    }

    fn arp_answer(&mut self, question: &Repr, now: Nanos) {
        if self.outbox.may_answer(now) {
            let answer = Repr {
                operation: REPLY,
                sender_mac: self.settings.mac,
                sender: question.target,
                target_mac: question.sender_mac,
                target: question.sender,
            };
            self.outbox.put(frame::arp(question.sender_mac, answer));
        }
    }

    /// Asks for an address, in the name of `sender`: of all stations, or of one. Allowed by the outbox.
    pub(crate) fn arp_ask(&mut self, sender: Ipv4Addr, target: Ipv4Addr, of: Option<Mac>) {
        let question =
            Repr { operation: REQUEST, sender_mac: self.settings.mac, sender, target_mac: [0; 6], target };
        self.outbox.put(frame::arp(of.unwrap_or(frame::BROADCAST), question));
    }
}
