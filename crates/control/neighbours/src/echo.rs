//! ICMP and ICMPv6 echo (RFC 792, RFC 4443 section 4.2): answered for the device's own addresses, to one
//! station each, and only what was sent to this one alone (RFC 1122 section 3.2.2.6).

use crate::counters::{Fault, Input};
use crate::device::Device;
use crate::frame::{self, Way};
use crate::settings::{Mac, is_unicast};
use packet::checksum::Endpoints;
use packet::{icmpv4, icmpv6, ipv4, ipv6};
use telemetry::clock::Nanos;

impl Device {
    /// An IPv4 packet with an echo request came from the station `source`.
    pub(crate) fn echo_v4(&mut self, (source, to): (Mac, Mac), payload: &[u8], now: Nanos) -> Input {
        let Ok(packet) = ipv4::View::new(payload) else { return Input::Dropped(Fault::Malformed) };
        if to != self.settings.mac || !self.addresses.has(packet.destination().into()) {
            return Input::Ignored;
        }
        let Ok(message) = icmpv4::View::new(packet.payload()) else {
            return Input::Dropped(Fault::Malformed);
        };
        if packet.is_cut() {
            return Input::Dropped(Fault::Malformed);
        }
        if !packet.verify_checksum() || !message.verify_checksum() {
            return Input::Dropped(Fault::Checksum);
        }
        let from = packet.source().into();
        if !is_unicast(from) || self.addresses.find(from).is_some() || self.addresses.is_broadcast(from) {
            return Input::Dropped(Fault::Address);
        }
        if self.outbox.may_answer(now) {
            let way = Way {
                from_mac: self.settings.mac,
                to_mac: source,
                from: packet.destination(),
                to: packet.source(),
            };
            let answer = icmpv4::Repr { kind: icmpv4::kind::ECHO_REPLY, code: 0, rest: message.rest() };
            self.outbox.put(frame::icmpv4(way, answer, message.payload()));
        }
        Input::Taken
    }

    /// An IPv6 packet came with an echo request `offset` bytes behind its header.
    pub(crate) fn echo_v6(
        &mut self,
        (source, to): (Mac, Mac),
        packet: &ipv6::View<'_>,
        body: &[u8],
        now: Nanos,
    ) -> Input {
        if to != self.settings.mac || !self.addresses.has(packet.destination().into()) {
            return Input::Ignored;
        }
        let Ok(message) = icmpv6::View::new(body) else { return Input::Dropped(Fault::Malformed) };
        if packet.is_cut() {
            return Input::Dropped(Fault::Malformed);
        }
        let endpoints = Endpoints::V6 { source: packet.source(), destination: packet.destination() };
        if !message.verify_checksum(&endpoints) {
            return Input::Dropped(Fault::Checksum);
        }
        let from = packet.source().into();
        if !is_unicast(from) || self.addresses.find(from).is_some() {
            return Input::Dropped(Fault::Address);
        }
        if self.outbox.may_answer(now) {
            let way = Way {
                from_mac: self.settings.mac,
                to_mac: source,
                from: packet.destination(),
                to: packet.source(),
            };
            let answer = icmpv6::Repr { kind: icmpv6::kind::ECHO_REPLY, code: 0, rest: message.rest() };
            self.outbox.put(frame::icmpv6(way, (64, false), answer, message.payload()));
        }
        Input::Taken
    }
}
