//! The network function `ips`: ends the connections of packets that another function found suspicious, by
//! resets to both ends (MVMP, section 3).
//!
//! 1. A suspicious packet comes by the interface `suspicious`, from `dpi` by way of a rootless device, say.
//!    It is a copy: nothing becomes of it.
//! 2. [`segment`] reads it, [`reset`] makes the resets that either end accepts (RFC 9293, RFC 5961), and they
//!    leave by the interfaces behind which the ends are.
//! 3. [`connections`] remembers it. Standing inline, between `inside` and `outside`, the function drops what
//!    comes of the connection all the same, and tells its ends again, a few times.
//!
//! Limits: connections of TCP, and of UDP to be told of by ICMP, in the outermost IP packet and in one piece
//! (of what comes in fragments, the first one is dropped, and no end is told); at most 262,144 connections
//! are remembered; how many are ended in a second is limited.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod connections;
pub mod metrics;
pub mod reset;
pub mod segment;
pub mod settings;
mod state;

#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use connections::{Connections, Noted};
use metrics::{Count, Tally};
use nf_sdk::{
    Batch, Config, Error, Host, Limiter, Nanos, NetworkFunction, Packet, Severity, StateReader, StateWriter,
    Verdict, superfluid_function,
};
use segment::{Segment, Unreadable};
use settings::Settings;

/// The interfaces.
pub const INSIDE: u16 = 0;
/// The other side.
pub const OUTSIDE: u16 = 1;
/// By which suspicious packets come.
pub const SUSPICIOUS: u16 = 2;

/// Lines logged in a second.
const LINES: u64 = 10;

/// The function.
pub struct Ips {
    settings: Settings,
    connections: Connections,
    limiter: Limiter,
    lines: Limiter,
    tally: Tally,
}

impl NetworkFunction for Ips {
    fn new(config: &Config) -> Result<Ips, Error> {
        let settings = Settings::read(config)?;
        Ok(Ips {
            connections: Connections::new(settings.max_connections, settings.block),
            limiter: Limiter::new(settings.rate, settings.burst),
            lines: Limiter::new(LINES, LINES),
            tally: Tally::default(),
            settings,
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        let (packets, host) = batch.split();
        for mut packet in packets {
            let verdict = match packet.ingress() {
                SUSPICIOUS => {
                    self.suspicious(&packet, host, now);
                    Verdict::Consume
                }
                side @ (INSIDE | OUTSIDE) => self.passing(&packet, side, host, now),
                _ => self.drop_other(),
            };
            packet.verdict(verdict);
        }
        let turnover = self.connections.turnover;
        self.tally.flush(turnover, batch.host());
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        metrics::report(self, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        state::export(&self.connections, out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        state::import(&mut self.connections, entries)
    }
}

impl Ips {
    /// Connections that were found suspicious.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// A copy of a packet that was found suspicious.
    fn suspicious(&mut self, packet: &Packet<'_>, host: &mut Host, now: Nanos) {
        let segment = match segment::read(packet.bytes()) {
            Ok(segment) => segment,
            Err(Unreadable::Reset) => return self.tally.add(Count::ResetSeen, 1),
            Err(Unreadable::NotTcp) => return self.tally.add(Count::NotTcp, 1),
            Err(Unreadable::Malformed | Unreadable::First(_)) => {
                return self.tally.add(Count::Unreadable, 1);
            }
        };
        if self.settings.is_never(segment.source()) || self.settings.is_never(segment.destination()) {
            return self.tally.add(Count::Never, 1);
        }
        let Some(side) = self.side(packet.mark()) else { return self.tally.add(Count::Unsided, 1) };
        if !segment.is_tcp() && !self.settings.answers_udp {
            return self.tally.add(Count::NotTcp, 1);
        }
        let noted = self.connections.note(segment.key(), now);
        if noted == Noted::New && self.lines.take(now) {
            let [from, to] = [segment.source(), segment.destination()];
            let (from_port, to_port) = segment.ports();
            let name = if segment.is_tcp() { "TCP" } else { "UDP" };
            let line = format!("ends {name} from {from} port {from_port} to {to} port {to_port}");
            host.log(Severity::Info, &line);
        }
        self.tell(&segment, packet.bytes(), side, host, now);
    }

    /// A packet between the two sides.
    fn passing(&mut self, packet: &Packet<'_>, side: u16, host: &mut Host, now: Nanos) -> Verdict {
        if !self.connections.is_empty() {
            let read = segment::read(packet.bytes());
            let key = match &read {
                Ok(segment) => Some(segment.key()),
                // Without the first fragment no receiver puts the rest together.
                Err(Unreadable::First(key)) => Some(*key),
                Err(_) => None,
            };
            if key.is_some_and(|key| self.connections.is_blocked(key, now)) {
                let side = if self.settings.is_beside { INSIDE } else { side };
                if let Ok(segment) = read
                    && (segment.is_tcp() || self.settings.answers_udp)
                {
                    self.tell(&segment, packet.bytes(), side, host, now);
                }
                self.tally.add(Count::Blocked, 1);
                return Verdict::Drop(metrics::BLOCKED);
            }
        }
        if self.settings.drops_others {
            return self.drop_other();
        }
        self.tally.add(Count::Passed, 1);
        Verdict::Interface(OUTSIDE - side)
    }

    fn drop_other(&mut self) -> Verdict {
        self.tally.add(Count::Other, 1);
        Verdict::Drop(metrics::OTHER)
    }

    /// Behind which interface the sender of a packet with this mark is.
    fn side(&self, mark: u64) -> Option<u16> {
        match mark {
            _ if self.settings.is_beside => Some(INSIDE),
            1 => Some(INSIDE),
            2 => Some(OUTSIDE),
            _ => None,
        }
    }

    /// Tells both ends of a connection that it ends, if they were not told often enough. The packet's sender
    /// is behind `side`.
    fn tell(&mut self, segment: &Segment, packet: &[u8], side: u16, host: &mut Host, now: Nanos) {
        let Some(told) = self.connections.told(segment.key()) else {
            return self.tally.add(Count::NoTable, 1);
        };
        if *told >= self.settings.resets {
            return self.tally.add(Count::Enough, 1);
        }
        if !self.limiter.take(now) {
            return self.tally.add(Count::Limited, 1);
        }
        *told += 1;
        let other = if self.settings.is_beside { side } else { OUTSIDE - side };
        if !segment.is_tcp() {
            let Some(answer) = reset::unreachable(segment, packet) else {
                return self.tally.add(Count::NotTcp, 1);
            };
            self.tally.add(Count::Unreachable, 1);
            return self.send(&[(answer, side)], Count::UnreachablesSent, host);
        }
        let to_receiver = reset::to_receiver(segment, packet).into_iter().map(|frame| (frame, other));
        let to_sender = reset::to_sender(segment, packet).into_iter().map(|frame| (frame, side));
        let frames: Vec<_> = to_receiver.chain(to_sender).collect();
        self.tally.add(Count::Reset, 1);
        self.send(&frames, Count::ResetsSent, host);
    }

    fn send(&mut self, frames: &[(Vec<u8>, u16)], count: Count, host: &mut Host) {
        for (frame, interface) in frames {
            let sent =
                host.packet_new(frame).and_then(|slot| host.emit(slot, Verdict::Interface(*interface), 0));
            self.tally.add(if sent.is_ok() { count } else { Count::Unsent }, 1);
        }
    }
}

superfluid_function!(Ips);
