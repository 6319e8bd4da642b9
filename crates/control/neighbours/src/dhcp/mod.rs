//! The client of DHCP for IPv4 (RFC 2131 section 4.4).
//!
//! 1. After up to a second a server is looked for (discover): at 4, 8, 16, 32 and 64 s, a second more or
//!    less, and on like that.
//! 2. The first offer that has all that is needed is requested, four times at most. Of a server that did not
//!    answer these an offer is taken the next time only when no other one came by the next try.
//! 3. What is acknowledged is an address of the device, tentative at first. If another station has it, it is
//!    declined, and all begins anew after ten seconds.
//! 4. At half of the lease (T1) its server is asked to renew it, at seven eighths (T2) any server, each time
//!    after half of what is left, but a minute at least. After the lease, or a refusal, the address is gone
//!    and all begins anew.
//! 5. Routers and the MTU hold as long as the lease.
//! 6. At the end the address is released.
//!
//! Limits: the address is not remembered over a restart (no INIT-REBOOT). A renewal goes to the station from
//! which the acknowledgement came. Options in the place of names (option 52) are not looked at.

mod message;

use crate::addresses::Origin;
use crate::counters::{Fault, Input};
use crate::device::Device;
use crate::frame::{self, BROADCAST, Way};
use crate::settings::{MTU, Mac};
use dhcproto::v4::MessageType;
use message::{Answer, Request, Terms};
use packet::checksum::Endpoints;
use packet::{ipv4, protocol, udp};
use std::net::{IpAddr, Ipv4Addr};
use telemetry::clock::Nanos;

const SECOND: u64 = 1_000_000_000;
const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;
/// Between the first two tries, and at most, before a second more or less (RFC 2131 section 4.1).
const RETRY: u64 = 4;
const RETRY_MAX: u64 = 64;
/// Requests for what was offered.
const REQUESTS: u32 = 4;
/// Between renewals at least (RFC 2131 section 4.4.5).
const RENEW_GAP: Nanos = Nanos(60 * SECOND);
/// Nothing is asked for so long after a refusal or a conflict (RFC 2131 section 3.1).
const PAUSE: Nanos = Nanos(10 * SECOND);

/// How far the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DhcpState {
    /// It waits before it begins, or begins anew.
    Waiting,
    /// It looks for a server.
    Selecting,
    /// It requests what was offered.
    Requesting,
    /// It has a lease.
    Bound,
    /// It asks its server to renew the lease.
    Renewing,
    /// It asks all servers to.
    Rebinding,
}

impl DhcpState {
    /// The name that is shown.
    pub const fn name(self) -> &'static str {
        match self {
            DhcpState::Waiting => "waiting",
            DhcpState::Selecting => "selecting",
            DhcpState::Requesting => "requesting",
            DhcpState::Bound => "bound",
            DhcpState::Renewing => "renewing",
            DhcpState::Rebinding => "rebinding",
        }
    }
}

/// What the client of a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhcpLease {
    /// How far it is.
    pub state: DhcpState,
    /// The server and the address, while there is a lease.
    pub lease: Option<(Ipv4Addr, Ipv4Addr)>,
    /// When the lease ends.
    pub until: Option<Nanos>,
}

#[derive(Debug)]
struct Lease {
    terms: Terms,
    /// The station from which it came.
    station: Mac,
    rebind: Nanos,
    end: Nanos,
}

/// The client.
#[derive(Debug)]
pub(crate) struct Client {
    state: DhcpState,
    xid: u32,
    /// When this exchange began.
    begun: Nanos,
    /// When the lease was first requested in it.
    asked: Nanos,
    /// When something is to be done.
    due: Nanos,
    tries: u32,
    offer: Option<Terms>,
    /// A server that did not answer what its offer was requested by, and its further offer.
    silent: Option<Ipv4Addr>,
    second_choice: Option<Terms>,
    lease: Option<Lease>,
}

impl Client {
    /// One that begins within a second.
    pub(crate) fn new(now: Nanos, rng: &mut fastrand::Rng) -> Client {
        Client {
            state: DhcpState::Waiting,
            xid: 0,
            begun: now,
            asked: now,
            due: now.saturating_add(Nanos(rng.u64(0..=SECOND))),
            tries: 0,
            offer: None,
            silent: None,
            second_choice: None,
            lease: None,
        }
    }

    pub(crate) fn shown(&self) -> DhcpLease {
        let lease = self.lease.as_ref();
        DhcpLease {
            state: self.state,
            lease: lease.and_then(|lease| Some((lease.terms.server, v4(&lease.terms)?))),
            until: lease.map(|lease| lease.end),
        }
    }

    pub(crate) fn routers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.lease.iter().flat_map(|lease| lease.terms.routers.iter().map(|router| IpAddr::V4(*router)))
    }

    pub(crate) fn mtu(&self) -> Option<u16> {
        self.lease.as_ref().and_then(|lease| lease.terms.mtu).filter(|mtu| MTU.contains(mtu))
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.due
    }

    /// Whether a message may answer what is asked.
    pub(crate) fn is_awaited(&self, payload: &[u8]) -> bool {
        let data = ipv4::View::new(payload).ok().and_then(|packet| udp::View::new(packet.payload()).ok());
        let exchange = data.and_then(|data| message::exchange(data.payload()));
        exchange.is_some() && exchange == self.exchange()
    }

    /// The number of the exchange whose answers are waited for.
    pub(crate) fn exchange(&self) -> Option<u32> {
        (!matches!(self.state, DhcpState::Waiting | DhcpState::Bound)).then_some(self.xid)
    }

    /// Begins anew after a while, without a lease.
    fn pause(&mut self, now: Nanos, rng: &mut fastrand::Rng) {
        let pause = now.saturating_add(PAUSE);
        *self = Client { due: pause.saturating_add(Nanos(rng.u64(0..=SECOND))), ..Client::new(now, rng) };
    }

    /// When to try again: after 4, 8, 16, 32 and then 64 seconds, one more or less.
    fn back_off(&mut self, now: Nanos, rng: &mut fastrand::Rng) {
        let span = RETRY.checked_shl(self.tries).unwrap_or(RETRY_MAX).clamp(RETRY, RETRY_MAX);
        self.tries = (self.tries + 1).min(16);
        let drawn = span * SECOND - SECOND + rng.u64(0..=2 * SECOND);
        self.due = now.saturating_add(Nanos(drawn));
    }

    /// Requests what was offered. The request belongs to the same exchange (RFC 2131 section 4.4.1).
    fn request(&mut self, terms: Terms, now: Nanos) {
        (self.state, self.offer) = (DhcpState::Requesting, Some(terms));
        (self.tries, self.due, self.asked) = (0, now, now);
    }

    /// Another exchange, in this state from now on.
    fn begin(&mut self, state: DhcpState, now: Nanos, rng: &mut fastrand::Rng) {
        (self.state, self.xid, self.begun, self.asked, self.tries) = (state, rng.u32(..), now, now, 0);
        self.second_choice = None;
    }
}

/// The address of terms.
fn v4(terms: &Terms) -> Option<Ipv4Addr> {
    match terms.prefix.address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// So many seconds from now; all ones never come.
fn after(seconds: u32, now: Nanos) -> Nanos {
    if seconds == u32::MAX { Nanos::MAX } else { now.saturating_add(Nanos(u64::from(seconds) * SECOND)) }
}

impl Device {
    /// A packet to a client's port came from the station `source`.
    pub(crate) fn dhcp_input(&mut self, source: Mac, payload: &[u8], now: Nanos) -> Input {
        let Ok(packet) = ipv4::View::new(payload) else { return Input::Dropped(Fault::Malformed) };
        let Ok(datagram) = udp::View::new(packet.payload()) else {
            return Input::Dropped(Fault::Malformed);
        };
        let Some(client) = &mut self.dhcp else { return Input::Ignored };
        if packet.is_cut() || datagram.is_cut() {
            return Input::Dropped(Fault::Malformed);
        }
        let endpoints = Endpoints::V4 { source: packet.source(), destination: packet.destination() };
        if !packet.verify_checksum() || !datagram.verify_checksum(&endpoints) {
            return Input::Dropped(Fault::Checksum);
        }
        if message::exchange(datagram.payload()) != Some(client.xid) || client.state == DhcpState::Waiting {
            return Input::Ignored;
        }
        let Some(answer) = message::read(datagram.payload(), self.settings.mac, client.xid) else {
            return Input::Dropped(Fault::Malformed);
        };
        let own = client.lease.as_ref().map(|lease| lease.terms.server);
        let offered = client.offer.as_ref().map(|offer| offer.server);
        match (client.state, answer) {
            (DhcpState::Selecting, Answer::Offer(terms)) if client.silent == Some(terms.server) => {
                client.second_choice = Some(terms);
            }
            (DhcpState::Selecting, Answer::Offer(terms)) => client.request(terms, now),
            (DhcpState::Requesting, Answer::Ack(terms)) if offered == Some(terms.server) => {
                self.dhcp_lease(terms, source, now);
            }
            (DhcpState::Renewing, Answer::Ack(terms)) if own == Some(terms.server) => {
                self.dhcp_lease(terms, source, now);
            }
            (DhcpState::Rebinding, Answer::Ack(terms)) => self.dhcp_lease(terms, source, now),
            (DhcpState::Requesting, Answer::Nak(server)) if server == offered => self.dhcp_lost(now),
            (DhcpState::Renewing, Answer::Nak(server)) if server == own => self.dhcp_lost(now),
            (DhcpState::Rebinding, Answer::Nak(_)) => self.dhcp_lost(now),
            _ => return Input::Ignored,
        }
        Input::Taken
    }

    /// A lease is there, or goes on.
    fn dhcp_lease(&mut self, terms: Terms, station: Mac, now: Nanos) {
        let Some(client) = &mut self.dhcp else { return };
        let before = client.lease.take();
        // It counts from when it was asked for (RFC 2131 section 4.4.1).
        let asked = client.asked;
        let (renew, rebind, end) =
            (after(terms.renew, asked), after(terms.rebind, asked), after(terms.lease, asked));
        let (prefix, mtu) = (terms.prefix, terms.mtu);
        let routers = before.as_ref().map(|lease| &lease.terms.routers) != Some(&terms.routers);
        self.changes.mtu |= before.as_ref().and_then(|lease| lease.terms.mtu) != mtu;
        self.changes.routers |= routers;
        client.state = DhcpState::Bound;
        client.offer = None;
        client.due = if end == Nanos::MAX { Nanos::MAX } else { renew };
        client.lease = Some(Lease { terms, station, rebind, end });
        self.addresses.remove(|own| own.origin == Origin::Dhcp && own.prefix != prefix);
        self.addresses.add(prefix, Origin::Dhcp, (end, end), now, &mut self.rng);
        self.forget_off_link();
    }

    /// The address is not the device's any more; all begins anew.
    fn dhcp_lost(&mut self, now: Nanos) {
        let Some(client) = &mut self.dhcp else { return };
        let had = client.lease.is_some();
        self.changes.routers |= client.routers().next().is_some();
        self.changes.mtu |= client.mtu().is_some();
        client.pause(now, &mut self.rng);
        if had {
            self.addresses.remove(|own| own.origin == Origin::Dhcp);
            self.forget_off_link();
        }
    }

    /// Another station has the address: its server is told (RFC 2131 section 4.4.4).
    pub(crate) fn dhcp_conflict(&mut self, now: Nanos) {
        let Some(client) = &mut self.dhcp else { return };
        let xid = self.rng.u32(..);
        let told = client.lease.as_ref().map(|lease| (v4(&lease.terms), lease.terms.server));
        if let Some((wants, server)) = told
            && self.outbox.may_send(now)
        {
            let unspecified = Ipv4Addr::UNSPECIFIED;
            let request =
                Request { wants, server: Some(server), ..self.dhcp_request(MessageType::Decline, xid) };
            self.dhcp_send(&request, (unspecified, Ipv4Addr::BROADCAST), BROADCAST);
        }
        self.dhcp_lost(now);
    }

    /// Gives the address back, as far as that may be sent.
    pub(crate) fn dhcp_release(&mut self, now: Nanos) {
        let Some(client) = self.dhcp.take() else { return };
        self.changes.routers |= client.routers().next().is_some();
        self.changes.mtu |= client.mtu().is_some();
        if let Some(lease) = &client.lease
            && let Some(address) = v4(&lease.terms)
            && self.addresses.has(address.into())
            && self.outbox.may_send(now)
        {
            let xid = self.rng.u32(..);
            let server = lease.terms.server;
            let request = Request {
                has: address,
                server: Some(server),
                ..self.dhcp_request(MessageType::Release, xid)
            };
            self.dhcp_send(&request, (address, server), lease.station);
        }
        self.addresses.remove(|own| own.origin == Origin::Dhcp);
        self.forget_off_link();
    }

    /// Does what is due. Whether all of it was done.
    pub(crate) fn poll_dhcp(&mut self, now: Nanos) -> bool {
        let Some(client) = &mut self.dhcp else { return true };
        if client.due > now {
            return true;
        }
        let (rebind, end) =
            client.lease.as_ref().map_or((Nanos::MAX, Nanos::MAX), |lease| (lease.rebind, lease.end));
        if end <= now {
            self.dhcp_lost(now);
            return true;
        }
        if !self.outbox.may_send(now) {
            return false;
        }
        let requested = client.state == DhcpState::Requesting && client.tries >= REQUESTS;
        match client.state {
            DhcpState::Waiting => client.begin(DhcpState::Selecting, now, &mut self.rng),
            DhcpState::Selecting => {
                if let Some(terms) = client.second_choice.take() {
                    client.request(terms, now);
                }
            }
            DhcpState::Requesting if requested => {
                client.silent = client.offer.take().map(|offer| offer.server);
                client.begin(DhcpState::Selecting, now, &mut self.rng);
            }
            DhcpState::Bound if rebind > now => client.begin(DhcpState::Renewing, now, &mut self.rng),
            DhcpState::Bound | DhcpState::Renewing if rebind <= now => {
                client.begin(DhcpState::Rebinding, now, &mut self.rng);
            }
            _ => {}
        }
        let half = |until: Nanos| now.saturating_add(Nanos(until.since(now).0 / 2).max(RENEW_GAP));
        match client.state {
            DhcpState::Renewing => client.due = half(rebind).min(rebind),
            DhcpState::Rebinding => client.due = half(end).min(end),
            _ => client.back_off(now, &mut self.rng),
        }
        self.dhcp_ask(now);
        true
    }

    /// Sends what the state asks for.
    fn dhcp_ask(&mut self, now: Nanos) {
        let Some(client) = &self.dhcp else { return };
        let seconds = u16::try_from(now.since(client.begun).0 / SECOND).unwrap_or(u16::MAX);
        let kind =
            if client.state == DhcpState::Selecting { MessageType::Discover } else { MessageType::Request };
        let base = Request { seconds, ..self.dhcp_request(kind, client.xid) };
        let all = Ipv4Addr::BROADCAST;
        let (request, ends, station) = match (&client.offer, &client.lease) {
            (_, Some(lease)) => {
                let Some(has) = v4(&lease.terms) else { return };
                let (to, station) = if client.state == DhcpState::Renewing {
                    (lease.terms.server, lease.station)
                } else {
                    (all, BROADCAST)
                };
                (Request { has, ..base }, (has, to), station)
            }
            (Some(offer), None) => {
                let request = Request { wants: v4(offer), server: Some(offer.server), ..base };
                (request, (Ipv4Addr::UNSPECIFIED, all), BROADCAST)
            }
            (None, None) => (base, (Ipv4Addr::UNSPECIFIED, all), BROADCAST),
        };
        self.dhcp_send(&request, ends, station);
    }

    fn dhcp_request(&self, kind: MessageType, xid: u32) -> Request {
        Request {
            kind,
            xid,
            mac: self.settings.mac,
            seconds: 0,
            has: Ipv4Addr::UNSPECIFIED,
            wants: None,
            server: None,
            mtu: self.settings.mtu,
        }
    }

    /// Sends a message. Allowed by the outbox.
    fn dhcp_send(&mut self, request: &Request, (from, to): (Ipv4Addr, Ipv4Addr), to_mac: Mac) {
        let way = Way { from_mac: self.settings.mac, to_mac, from, to };
        let frame = request.bytes().and_then(|data| {
            let length = udp::HEADER_LENGTH + data.len();
            frame::ipv4(way, (protocol::UDP, 64, &[]), length, |bytes, endpoints| {
                bytes.get_mut(udp::HEADER_LENGTH..)?.copy_from_slice(&data);
                let header = udp::Repr {
                    source_port: CLIENT_PORT,
                    destination_port: SERVER_PORT,
                    payload_length: data.len(),
                };
                header.emit(bytes, endpoints).ok()
            })
        });
        self.outbox.put(frame);
    }
}
