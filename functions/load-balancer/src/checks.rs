//! Health checks: which servers are up.
//!
//! 1. Each server of a service with a `check` is asked once in its interval, from an address of the device
//!    behind `servers` and a port (or echo identifier) of its own. The first checks are spread over an
//!    interval.
//! 2. What comes back is compared with what was asked: address, port, and the acknowledgment or number that
//!    only the server could know. A TCP handshake that was answered is reset.
//! 3. `fall` checks without an answer in a row make a server go down, `rise` answers make it come up again.
//!    Both are logged and counted.
//!
//! Limits: without a device with addresses behind `servers` nothing is checked, and servers are up; so is a
//! server that no address of the device can check. A check that the host takes no packet for is put off; one
//! that is put off for an interval counts as one without an answer.

use crate::balancer::{Segment, flag};
use crate::ends::{self, words};
use crate::links::{Links, SERVERS, is_own, write};
use crate::probe;
use crate::services::{Services, Way};
use crate::settings::{Check, Probe};
use crate::view::View;
use alloc::format;
use alloc::vec::Vec;
use nf_sdk::headers::{icmpv4, icmpv6};
use nf_sdk::wire::{ICMP, ICMPV6, TCP, UDP, half};
use nf_sdk::{Host, Nanos, Secret, Severity, Verdict};

/// The port of the first server's checks (RFC 6335 section 6).
const FIRST_PORT: u16 = 49_152;
/// Time between two looks at what is due, at least.
const PAUSE: Nanos = Nanos::from_millis(10);

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Checks that were made.
    pub checks: u64,
    /// Servers that went down.
    pub down: u64,
    /// Servers that came up.
    pub up: u64,
}

/// What is known of a server's checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Answers in a row, while it is down.
    pub good: u8,
    /// Checks without an answer in a row.
    pub bad: u8,
    /// When it is checked next.
    next: Nanos,
    /// Until when the check that was made is waited for; 0: none is.
    until: Nanos,
    /// Since when the check that is due was put off, or since when that was last counted; 0: it was not.
    put_off: Nanos,
    /// What tells the check's answer from others.
    token: u32,
}

/// All checks.
pub struct Checks {
    /// By server; of servers without a check, nothing is ever due.
    pub health: Vec<Health>,
    /// What was counted.
    pub turns: Turns,
    has_begun: bool,
    /// Nothing is checked because there is no address to check from: that was said.
    was_told: bool,
    /// The same of a server.
    was_told_of_server: bool,
    secret: Secret,
}

/// What became of a check that is due.
enum Made {
    /// It is on its way.
    Sent,
    /// The host takes no more packets in this call.
    PutOff,
    /// The device behind `servers` has no address that it could come from.
    NoSource,
}

fn check_of(services: &Services, server: u16) -> Option<&Check> {
    let service = services.rewrite(server)?.service;
    services.get(service)?.settings.check.as_ref()
}

/// The port that is checked.
fn port_of(services: &Services, server: u16, check: &Check) -> u16 {
    let service = services.rewrite(server).and_then(|server| services.get(server.service));
    let first = service.map_or(0, |service| service.settings.ports.0);
    check.port.unwrap_or_else(|| services.port(server, first))
}

impl Checks {
    /// For so many servers.
    pub fn new(servers: usize, secret: Secret) -> Checks {
        Checks {
            health: alloc::vec![Health::default(); servers],
            turns: Turns::default(),
            has_begun: false,
            was_told: false,
            was_told_of_server: false,
            secret,
        }
    }

    /// Makes what checks are due, and gives up those that were not answered; when to look again.
    pub fn timer(
        &mut self,
        services: &mut Services,
        links: &Links,
        host: &mut Host,
        now: Nanos,
    ) -> Option<Nanos> {
        if !services.all.iter().any(|service| service.settings.check.is_some()) {
            return None;
        }
        if links.device(SERVERS).is_none_or(|device| device.addresses.is_empty()) {
            if !core::mem::replace(&mut self.was_told, true) {
                host.log(
                    Severity::Warning,
                    "no server is checked: the interface `servers` has no address of a device",
                );
            }
            // With the next address the checks begin anew.
            self.has_begun = false;
            for number in 0..self.health.len() as u16 {
                self.give_up(services, number);
            }
            return None;
        }
        self.was_told = false;
        let begins = !core::mem::replace(&mut self.has_begun, true);
        let all = self.health.len() as u64;
        let mut soonest = None;
        for number in 0..self.health.len() as u16 {
            let Some(check) = check_of(services, number) else { continue };
            let (interval, timeout) = (check.interval, check.timeout);
            let Some(health) = self.health.get_mut(usize::from(number)) else { continue };
            if begins {
                let share = interval.0 / all.max(1) * u64::from(number);
                (health.next, health.until) = (now.saturating_add(Nanos(share)), Nanos(0));
            }
            if health.until != Nanos(0) && now >= health.until {
                health.until = Nanos(0);
                self.failed(services, host, number);
            }
            let Some(health) = self.health.get_mut(usize::from(number)) else { continue };
            if now >= health.next {
                // What answers without having been asked cannot tell it.
                health.token = self.secret.number(&[now.0, u64::from(number)]) as u32;
                health.next = now.saturating_add(interval);
                health.until = now.saturating_add(timeout);
                match self.send(services, links, host, number) {
                    Made::Sent => {
                        self.turns.checks += 1;
                        if let Some(health) = self.health.get_mut(usize::from(number)) {
                            health.put_off = Nanos(0);
                        }
                    }
                    Made::PutOff => self.put_off(services, host, number, interval, now),
                    Made::NoSource => {
                        if self.give_up(services, number) {
                            tell(services, host, number, Severity::Info, "is up: it is not checked");
                        }
                        if !core::mem::replace(&mut self.was_told_of_server, true) {
                            let what = "is not checked: the device behind `servers` has no address to reach it from \
                                        (said of the first such server alone)";
                            tell(services, host, number, Severity::Warning, what);
                        }
                    }
                }
            }
            let Some(health) = self.health.get(usize::from(number)) else { continue };
            let due = if health.until == Nanos(0) { health.next } else { health.next.min(health.until) };
            soonest = Some(soonest.map_or(due, |soonest: Nanos| soonest.min(due)));
        }
        soonest.map(|soonest| soonest.max(now.saturating_add(PAUSE)))
    }

    /// The host took no packet for a check: it is made a moment later.
    fn put_off(
        &mut self,
        services: &mut Services,
        host: &mut Host,
        number: u16,
        interval: Nanos,
        now: Nanos,
    ) {
        let Some(health) = self.health.get_mut(usize::from(number)) else { return };
        (health.next, health.until) = (now.saturating_add(PAUSE), Nanos(0));
        if health.put_off == Nanos(0) {
            health.put_off = now;
        } else if now.since(health.put_off) >= interval {
            health.put_off = now;
            self.failed(services, host, number);
        }
    }

    /// A server that is not checked is up, whatever was found before; nothing of it is waited for. Whether it
    /// was down.
    fn give_up(&mut self, services: &mut Services, number: u16) -> bool {
        let Some(health) = self.health.get_mut(usize::from(number)) else { return false };
        *health = Health { next: health.next, ..Health::default() };
        let was_down = !services.is_up(number);
        if was_down {
            self.turns.up += 1;
            services.set_up(number, true);
        }
        was_down
    }

    /// Makes a check. One whose next hop is not known is one without an answer.
    fn send(&self, services: &Services, links: &Links, host: &mut Host, number: u16) -> Made {
        let (Some(check), Some(server)) =
            (check_of(services, number), services.servers.get(usize::from(number)))
        else {
            return Made::Sent;
        };
        let Some(source) = links.source_for(server.address) else { return Made::NoSource };
        let token = self.health.get(usize::from(number)).map_or(0, |health| health.token);
        let own = FIRST_PORT + number;
        let (from, to) = ((source, own), (server.address, port_of(services, number, check)));
        let frame = match check.by {
            Probe::Tcp => {
                probe::tcp(from, to, Segment { flags: flag::SYN, sequence: token, acknowledgment: 0 })
            }
            Probe::Icmp => probe::echo(source, server.address, own, token as u16),
            Probe::Udp => probe::udp(from, to, &check.payload),
        };
        match frame.is_none_or(|frame| emit(services, links, host, number, frame)) {
            true => Made::Sent,
            false => Made::PutOff,
        }
    }

    /// Whether a packet from the servers answers a check; what it says is taken.
    pub fn answer(
        &mut self,
        services: &mut Services,
        links: &Links,
        host: &mut Host,
        frame: &[u8],
        view: &View,
    ) -> bool {
        if !self.has_begun
            || !links.device(SERVERS).is_some_and(|own| is_own(own, &view.destination, view.is_v6))
        {
            return false;
        }
        let message = frame.get(view.l4..view.end).unwrap_or_default();
        let own = match view.protocol {
            TCP | UDP => view.destination_port(),
            _ => half(message, 4).unwrap_or(0),
        };
        let number = own.swap_bytes().wrapping_sub(FIRST_PORT);
        let Some(check) = check_of(services, number) else { return false };
        let (Some(health), Some(server)) =
            (self.health.get(usize::from(number)).copied(), services.servers.get(usize::from(number)))
        else {
            return false;
        };
        if words(server.address) != view.source || server.address.is_ipv6() != view.is_v6 {
            return false;
        }
        let port = port_of(services, number, check);
        let is_port = view.source_port() == port.swap_bytes();
        let (is_answer, is_good) = match (check.by, view.protocol) {
            (Probe::Tcp, TCP) => {
                let is_ours = view.segment.acknowledgment == health.token.wrapping_add(1);
                let agrees =
                    view.segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN | flag::ACK;
                (is_port, is_ours && agrees)
            }
            (Probe::Udp, UDP) => (is_port, true),
            (Probe::Icmp, ICMP | ICMPV6) => {
                let reply = if view.is_v6 { icmpv6::kind::ECHO_REPLY } else { icmpv4::kind::ECHO_REPLY };
                let is_ours = half(message, 6).map(u16::swap_bytes) == Some(health.token as u16);
                (message.first() == Some(&reply), is_ours)
            }
            _ => (false, false),
        };
        if !is_answer {
            return false;
        }
        if is_good && check.by == Probe::Tcp {
            // What the server has begun ends here, whether it is late or not.
            let sequence = view.segment.acknowledgment;
            let from = (ends::address(view.destination, view.is_v6), FIRST_PORT + number);
            let reset = Segment { flags: flag::RST, sequence, acknowledgment: 0 };
            if let Some(frame) = probe::tcp(from, (server.address, port), reset) {
                emit(services, links, host, number, frame);
            }
        }
        if is_good && health.until != Nanos(0) {
            self.passed(services, host, number);
        }
        true
    }

    fn passed(&mut self, services: &mut Services, host: &mut Host, number: u16) {
        let Some(rise) = check_of(services, number).map(|check| check.rise) else { return };
        let Some(health) = self.health.get_mut(usize::from(number)) else { return };
        (health.until, health.bad) = (Nanos(0), 0);
        health.good = health.good.saturating_add(1);
        if !services.is_up(number) && health.good >= rise {
            self.turns.up += 1;
            services.set_up(number, true);
            tell(services, host, number, Severity::Info, "is up again");
        }
    }

    fn failed(&mut self, services: &mut Services, host: &mut Host, number: u16) {
        let Some(fall) = check_of(services, number).map(|check| check.fall) else { return };
        let Some(health) = self.health.get_mut(usize::from(number)) else { return };
        health.good = 0;
        health.bad = health.bad.saturating_add(1);
        if services.is_up(number) && health.bad >= fall {
            self.turns.down += 1;
            services.set_up(number, false);
            tell(services, host, number, Severity::Warning, "is down: its checks are not answered");
        }
    }
}

fn tell(services: &Services, host: &mut Host, number: u16, severity: Severity, what: &str) {
    let service = services.rewrite(number).and_then(|server| services.get(server.service));
    let name = service.map_or("", |service| service.settings.name.as_str());
    host.log(severity, &format!("service {name}: server {} {what}", services.name(number)));
}

/// Sends a frame to a server; false when the host took it not.
fn emit(services: &Services, links: &Links, host: &mut Host, number: u16, mut frame: Vec<u8>) -> bool {
    let Some(server) = services.servers.get(usize::from(number)) else { return true };
    let known = services.rewrite(number).map(|server| server.way).filter(|way| matches!(way, Way::Known(_)));
    let Some(way) = known.or_else(|| links.way(SERVERS, server.address)) else {
        links.ask(host, SERVERS, server.address);
        return true;
    };
    write(&mut frame, &way);
    let slot = host.packet_new(&frame);
    slot.is_ok_and(|slot| host.emit(slot, Verdict::Interface(SERVERS), 0).is_ok())
}
