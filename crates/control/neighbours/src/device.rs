//! One device: what comes goes to its protocol, what is due is done.

use crate::Prefix;
use crate::addresses::{self, Address, Addresses, Conflict, Origin};
use crate::classify::{Protocol, classify};
use crate::counters::{Counters, Fault, Input};
use crate::dhcp::{Client, DhcpLease};
use crate::discovery::{Message, router::Routers};
use crate::frame::{self, group_mac};
use crate::groups::Groups;
use crate::outbox::Outbox;
use crate::parts::Asker;
use crate::rate::Bucket;
use crate::settings::{Mac, Settings, SettingsError, is_unicast, link_local};
use crate::table::{self, Neighbour, NeighbourState, Table};
use packet::ethernet::{self, ethertype};
use packet::ipv6;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use telemetry::clock::Nanos;

/// What is known about an address that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Packets to it go to this station.
    Known(Mac),
    /// It is asked for. [`Changes::neighbours`] says when to look again.
    Asked,
    /// It did not answer. It is not asked for again until some time has passed.
    Unreachable,
    /// It cannot be asked for.
    Refused(Refusal),
}

/// Why an address is not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no address of one host, nor of a group.
    Address,
    /// It is in no network of the device: a router is to be asked for.
    OffLink,
    /// The table is full, and all entries in the part of the asker are of neighbours that answered.
    Full,
}

impl Refusal {
    /// The name that is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::Address => "address",
            Refusal::OffLink => "off-link",
            Refusal::Full => "full",
        }
    }
}

/// Why an address is not one that an opener may form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unformed {
    /// It is in no network in which the settings let it, or the router's anycast address there.
    Network,
    /// No router advertises the network for that.
    NotAdvertised,
    /// There are as many as there may be, of each of which something was seen lately.
    Full,
    /// Another station has it.
    Taken,
}

/// What functions may see that is not as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A neighbour has another station, or none, or came, or went.
    pub neighbours: bool,
    /// An address came, went, or is usable or not.
    pub addresses: bool,
    /// A router came or went.
    pub routers: bool,
    /// The MTU is another.
    pub mtu: bool,
}

impl Changes {
    /// Whether anything changed.
    pub fn any(self) -> bool {
        self.neighbours || self.addresses || self.routers || self.mtu
    }
}

/// The neighbours of one virtual device. See the crate's documentation.
#[derive(Debug)]
pub struct Device {
    pub(crate) settings: Settings,
    pub(crate) rng: fastrand::Rng,
    pub(crate) table: Table,
    pub(crate) addresses: Addresses,
    pub(crate) outbox: Outbox,
    pub(crate) routers: Routers,
    pub(crate) dhcp: Option<Client>,
    pub(crate) groups: Groups,
    processed: Bucket,
    pub(crate) changes: Changes,
    counters: Counters,
    stopped: bool,
}

impl Device {
    /// A device that begins to make sure of its addresses. `seed` is what its pauses and identifiers are
    /// drawn from: another one for each device, and at each start.
    ///
    /// # Errors
    /// As [`Settings::check`].
    pub fn new(settings: Settings, seed: u64, now: Nanos) -> Result<Device, SettingsError> {
        settings.check()?;
        let mut device = Device {
            rng: fastrand::Rng::with_seed(seed),
            table: Table::new(settings.capacity),
            addresses: Addresses::default(),
            outbox: Outbox::new(&settings.limits),
            processed: Bucket::new(settings.limits.processed),
            routers: Routers::default(),
            dhcp: None,
            groups: Groups::new(),
            changes: Changes::default(),
            counters: Counters::default(),
            stopped: false,
            settings,
        };
        device.add_configured(now);
        Ok(device)
    }

    /// Other settings from now on: addresses and groups that stay are not disturbed, and neighbours in
    /// networks that stay remain known. Another `mac` gives back what the device holds of others, and begins
    /// everything anew.
    ///
    /// # Errors
    /// As [`Settings::check`]; nothing has changed then.
    pub fn change(&mut self, settings: Settings, now: Nanos) -> Result<(), SettingsError> {
        settings.check()?;
        if settings.mac != self.settings.mac {
            self.leave_groups(now);
            self.dhcp_release(now);
            let seed = self.rng.u64(..);
            let (counters, put) =
                (self.counters(), std::mem::replace(&mut self.outbox, Outbox::new(&settings.limits)));
            *self = Device::new(settings, seed, now)?;
            // What was to be sent is still sent, and what was counted stays counted.
            self.outbox.inherit(put);
            self.counters = Counters { sent: 0, unanswered: 0, lost: 0, ..counters };
            self.changes = Changes { neighbours: true, addresses: true, routers: true, mtu: true };
            return Ok(());
        }
        if !settings.dhcp {
            self.dhcp_release(now);
        }
        let (ipv6, wanted) = (settings.ipv6, settings.addresses.clone());
        self.addresses.remove(|own| match own.origin {
            Origin::Static => !wanted.contains(&own.prefix),
            Origin::LinkLocal => !ipv6,
            Origin::Opener => !settings.may_be_formed(own.prefix.address),
            Origin::Router | Origin::Dhcp => false,
        });
        if settings.limits != self.settings.limits {
            self.outbox.limit(&settings.limits);
            self.processed = Bucket::new(settings.limits.processed);
        }
        let mtu = self.mtu();
        self.changes.routers |= settings.gateways != self.settings.gateways;
        self.table.set_capacity(settings.capacity);
        if !settings.ipv6 || !settings.router_advertisements {
            self.addresses.remove(|own| matches!(own.origin, Origin::Router | Origin::Opener));
            self.changes.routers |= self.routers.iter().next().is_some();
            self.routers = Routers::default();
        }
        self.groups.renew();
        self.settings = settings;
        self.changes.mtu |= self.mtu() != mtu;
        self.add_configured(now);
        self.forget_off_link();
        Ok(())
    }

    fn add_configured(&mut self, now: Nanos) {
        if self.settings.dhcp && self.dhcp.is_none() {
            self.dhcp = Some(Client::new(now, &mut self.rng));
        }
        let forever = (Nanos::MAX, Nanos::MAX);
        for prefix in self.settings.addresses.clone() {
            self.addresses.add(prefix, Origin::Static, forever, now, &mut self.rng);
        }
        if self.settings.ipv6 {
            let prefix = Prefix { address: link_local(self.settings.mac).into(), length: 64 };
            self.addresses.add(prefix, Origin::LinkLocal, forever, now, &mut self.rng);
        }
    }

    /// Neighbours in networks that the device has no more are forgotten.
    pub(crate) fn forget_off_link(&mut self) {
        let keep: BTreeSet<IpAddr> = self
            .table
            .iter(None)
            .map(|entry| entry.address)
            .filter(|address| self.on_link(*address))
            .collect();
        self.table.retain(|address| keep.contains(&address));
    }

    /// Whether an address is on the device's link.
    fn on_link(&self, address: IpAddr) -> bool {
        self.addresses.on_link(address)
            || self.routers.on_link(address)
            || self.routers().any(|router| router == address)
    }

    /// A frame that came, without its frame check sequence.
    pub fn input(&mut self, frame: &[u8], now: Nanos) -> Input {
        self.input_by(0, frame, now)
    }

    /// The same, for a device that has several ways to its link: by which one the frame came, which the
    /// neighbours show that it tells of.
    pub fn input_by(&mut self, way: u16, frame: &[u8], now: Nanos) -> Input {
        self.table.way = way;
        let outcome = self.look_at(frame, now);
        match outcome {
            Input::Taken => self.counters.taken += 1,
            Input::Ignored => self.counters.ignored += 1,
            Input::Dropped(fault) => {
                let at = Fault::ALL.iter().position(|other| *other == fault);
                if let Some(count) = at.and_then(|at| self.counters.dropped.get_mut(at)) {
                    *count += 1;
                }
            }
        }
        outcome
    }

    fn look_at(&mut self, frame: &[u8], now: Nanos) -> Input {
        let Ok(view) = ethernet::View::new(frame) else { return Input::Dropped(Fault::Malformed) };
        let (source, payload) = (view.source(), view.payload());
        if self.stopped || view.tags().count() > 0 || !self.is_addressed(view.destination()) {
            return Input::Ignored;
        }
        // What the device sent itself comes back through a loop; a group sends nothing.
        if source == self.settings.mac || source[0] & 1 != 0 || source == [0; 6] {
            return Input::Dropped(Fault::Address);
        }
        let protocol = classify(frame);
        let awaited = match protocol {
            None => return Input::Ignored,
            Some(Protocol::Arp) => self.arp_is_awaited(payload),
            Some(Protocol::Discovery) => icmpv6(payload)
                .and_then(|(_, body)| Message::advertised(body))
                .is_some_and(|target| self.table.waits_for(target.into())),
            Some(Protocol::Dhcp) => self.dhcp.as_ref().is_some_and(|client| client.is_awaited(payload)),
            Some(_) => false,
        };
        if !awaited && !self.processed.take(now) {
            return Input::Dropped(Fault::Limited);
        }
        match protocol {
            Some(Protocol::Arp) => self.arp_input(source, payload, now),
            Some(Protocol::Echo(IpAddr::V4(_))) => self.echo_v4((source, view.destination()), payload, now),
            Some(Protocol::Echo(IpAddr::V6(_))) => {
                let stations = (source, view.destination());
                match icmpv6(payload) {
                    Some((packet, body)) => self.echo_v6(stations, &packet, body, now),
                    None => Input::Dropped(Fault::Malformed),
                }
            }
            Some(Protocol::Dhcp) => self.dhcp_input(source, payload, now),
            Some(Protocol::Groups) if view.ethertype() == ethertype::IPV4 => self.igmp_input(payload, now),
            Some(Protocol::Groups) if self.settings.ipv6 => match icmpv6(payload) {
                Some((packet, body)) => self.mld_input(&packet, body, now),
                None => Input::Dropped(Fault::Malformed),
            },
            Some(Protocol::Discovery) if self.settings.ipv6 => {
                let message = icmpv6(payload).ok_or(Fault::Malformed);
                match message.and_then(|(packet, body)| Message::read(&packet, body)) {
                    Ok(Some(message)) => self.discovery_input(source, &message, now),
                    Ok(None) => Input::Ignored,
                    Err(fault) => Input::Dropped(fault),
                }
            }
            _ => Input::Ignored,
        }
    }

    /// Whether a frame to this link-layer address is for the device.
    fn is_addressed(&self, destination: Mac) -> bool {
        destination == self.settings.mac || destination[0] & 1 != 0
    }

    /// Another station claims an address of the device.
    pub(crate) fn conflict(&mut self, address: IpAddr, now: Nanos) {
        match self.addresses.conflict(address, now) {
            Conflict::Ignored => {}
            Conflict::Defend => {
                if self.outbox.may_send(now) {
                    self.announce(address, true);
                }
            }
            Conflict::Lost(Origin::Dhcp) => self.dhcp_conflict(now),
            Conflict::Lost(_) => {}
        }
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Nanos) {
        if self.stopped {
            return;
        }
        while let Some(due) = self.addresses.due(now) {
            match due {
                addresses::Due::Step(_) => {}
                _ if !self.outbox.may_send(now) => return,
                addresses::Due::Probe(address) => self.probe(address),
                addresses::Due::Announce(address) => self.announce(address, false),
            }
            self.addresses.advance(due.address(), now, &mut self.rng);
        }
        if !self.poll_groups(now) || !self.poll_dhcp(now) || !self.poll_routers(now) {
            return;
        }
        while let Some(table::Due { asker, address, send }) = self.table.due(now) {
            if let table::Send::Ask(of) = send {
                let Some(source) = self.addresses.source_for(address) else {
                    self.table.postpone(address, now);
                    continue;
                };
                let may_send = match asker {
                    Asker::OWN => self.outbox.may_send(now),
                    _ => self.outbox.may_ask(now),
                };
                if !may_send {
                    return;
                }
                self.ask(source, address, of);
                self.table.sent_for(asker);
            }
            self.table.advance(address, now);
        }
    }

    fn probe(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.arp_ask(Ipv4Addr::UNSPECIFIED, address, None),
            IpAddr::V6(address) => self.solicit(Ipv6Addr::UNSPECIFIED, address, None),
        }
    }

    fn announce(&mut self, address: IpAddr, defend: bool) {
        match address {
            IpAddr::V4(address) => self.arp_ask(address, address, None),
            IpAddr::V6(address) => self.announce_v6(address, defend),
        }
    }

    fn ask(&mut self, source: IpAddr, address: IpAddr, of: Option<Mac>) {
        match (source, address) {
            (IpAddr::V4(source), IpAddr::V4(address)) => self.arp_ask(source, address, of),
            (IpAddr::V6(source), IpAddr::V6(address)) => self.solicit(source, address, of),
            _ => {}
        }
    }

    /// When [`Device::poll`] is to be called next; none as long as nothing comes.
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.stopped {
            return None;
        }
        let dhcp = self.dhcp.as_ref().map(Client::deadline).filter(|due| *due < Nanos::MAX);
        let groups = self.groups.deadline(self.addresses.generation());
        let (own, asked) = self.table.deadlines();
        let others = [self.addresses.deadline(), self.routers.deadline(), own, dhcp, groups];
        let own = others.into_iter().flatten().min().map(|due| due.max(self.outbox.ready()));
        let asked = asked.map(|due| due.max(self.outbox.ready_to_ask()));
        own.into_iter().chain(asked).min()
    }

    /// The next frame that is to be sent.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        self.outbox.take()
    }

    /// What is known about an address. One that is in a network of the device is asked for, and kept fresh
    /// for [`LEASE`](crate::LEASE) from now. It is an ask of the device itself.
    pub fn resolve(&mut self, address: IpAddr, now: Nanos) -> Resolution {
        self.resolve_for(Asker::OWN, address, now)
    }

    /// The same on behalf of an asker.
    pub fn resolve_for(&mut self, asker: Asker, address: IpAddr, now: Nanos) -> Resolution {
        if address.is_multicast() {
            return Resolution::Known(group_mac(address));
        }
        if address == IpAddr::V4(Ipv4Addr::BROADCAST) || self.addresses.is_broadcast(address) {
            return Resolution::Known(frame::BROADCAST);
        }
        if !is_unicast(address) {
            return Resolution::Refused(Refusal::Address);
        }
        if self.addresses.has(address) {
            return Resolution::Known(self.settings.mac);
        }
        if !self.on_link(address) {
            return Resolution::Refused(Refusal::OffLink);
        }
        match self.table.ask(asker, address, now) {
            Err(table::Full) => Resolution::Refused(Refusal::Full),
            Ok((_, Some(mac))) => Resolution::Known(mac),
            Ok((NeighbourState::Unreachable, None)) => Resolution::Unreachable,
            Ok((_, None)) => Resolution::Asked,
        }
    }

    /// What changed since this was last called.
    pub fn take_changes(&mut self) -> Changes {
        let mut changes = std::mem::take(&mut self.changes);
        changes.neighbours |= self.table.take_changed();
        changes.addresses |= self.addresses.take_changed();
        changes
    }

    /// Addresses whose answers are waited for, if others are than when this was last called.
    pub fn take_awaited(&mut self) -> Option<&BTreeSet<IpAddr>> {
        self.table.take_awaited()
    }

    /// The number (`xid`) of the exchange of DHCP whose answers are waited for.
    pub fn awaited_exchange(&self) -> Option<u32> {
        self.dhcp.as_ref().and_then(Client::exchange)
    }

    /// The neighbours, by their addresses.
    pub fn neighbours(&self) -> impl Iterator<Item = Neighbour> + '_ {
        self.table.iter(None)
    }

    /// The neighbours that one asker asked for, by their addresses.
    pub fn neighbours_of(&self, asker: Asker) -> impl Iterator<Item = Neighbour> + '_ {
        self.table.of(asker)
    }

    /// The askers for whose neighbours [`Changes::neighbours`] was so since this was last called.
    pub fn take_changed_askers(&mut self) -> BTreeSet<Asker> {
        self.table.take_changed_for()
    }

    /// The neighbours whose addresses are behind this one.
    pub fn neighbours_after(&self, address: IpAddr) -> impl Iterator<Item = Neighbour> + '_ {
        self.table.iter(Some(address))
    }

    /// How many neighbours are known or asked for.
    pub fn neighbours_count(&self) -> usize {
        self.table.len()
    }

    /// The addresses of the device.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.addresses.iter()
    }

    /// What opens the device has formed an address, or has it still: it probes for it, announces it, or sends
    /// from it. One that it may have, and no other station of the link has, is one of the device's addresses
    /// after some seconds, as long as it is claimed again within two hours.
    ///
    /// An address that the device has in any other way is nothing to an opener: nothing changes then.
    ///
    /// # Errors
    /// [`Unformed`], and nothing has changed. `is_taken` is asked last, about an address that is new.
    pub fn claim(
        &mut self,
        address: Ipv6Addr,
        is_taken: impl FnOnce() -> bool,
        now: Nanos,
    ) -> Result<(), Unformed> {
        if !self.settings.may_be_formed(address.into()) || !is_interface(address) {
            return Err(Unformed::Network);
        }
        let address = IpAddr::V6(address);
        // The device forms an address itself of each prefix that is advertised for that, which ends with it.
        let is_of = |own: &&Address| own.origin == Origin::Router && own.prefix.contains(address);
        let advertised = self.addresses.iter().find(is_of);
        let prefix = advertised.map(|own| own.prefix.address);
        let known = self.addresses.find(address).map(|own| own.origin);
        if known.is_some_and(|origin| origin != Origin::Opener) {
            return Ok(());
        }
        let until = prefix.and_then(|own| self.addresses.until(own)).filter(|until| *until > now);
        let valid = until.ok_or(Unformed::NotAdvertised)?.min(now.saturating_add(addresses::UNSEEN));
        if known.is_some() {
            self.addresses.see(address, valid, now);
            return Ok(());
        }
        let (has_room, oldest) = self.addresses.room_for_opener(now);
        if !has_room {
            return Err(Unformed::Full);
        }
        if is_taken() {
            return Err(Unformed::Taken);
        }
        self.addresses.remove(|own| Some(own.prefix.address) == oldest);
        let prefix = Prefix { address, length: 64 };
        self.addresses.add(prefix, Origin::Opener, (Nanos::MAX, valid), now, &mut self.rng);
        Ok(())
    }

    /// Another station of this host has an address that an opener formed, with a better right to it.
    pub fn disown(&mut self, address: IpAddr) {
        self.addresses.remove(|own| own.origin == Origin::Opener && own.prefix.address == address);
    }

    /// Until when one of its addresses is valid; none: it has no lifetime, or is not the device's.
    pub fn valid_until(&self, address: IpAddr) -> Option<Nanos> {
        self.addresses.until(address).filter(|until| *until < Nanos::MAX)
    }

    /// The routers of the device, the best first: those that are configured, then those that are learned.
    pub fn routers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let leased = self.dhcp.iter().flat_map(Client::routers);
        self.settings.gateways.iter().copied().chain(leased).chain(self.routers.iter())
    }

    /// The groups that the device is in and tells of.
    pub fn groups(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.groups.iter()
    }

    /// Its link-layer address.
    pub fn mac(&self) -> Mac {
        self.settings.mac
    }

    /// Bytes of the largest IP packet: the least of what is configured and what routers and a DHCP server
    /// say.
    pub fn mtu(&self) -> u16 {
        let said = [self.routers.mtu(), self.dhcp.as_ref().and_then(Client::mtu)];
        said.into_iter().flatten().fold(self.settings.mtu, u16::min)
    }

    /// What DHCP brought; none when the device does not use it.
    pub fn dhcp(&self) -> Option<DhcpLease> {
        self.dhcp.as_ref().map(Client::shown)
    }

    /// Counts since the device was made.
    pub fn counters(&self) -> Counters {
        Counters {
            sent: self.counters.sent + self.outbox.put,
            unanswered: self.counters.unanswered + self.outbox.limited,
            lost: self.counters.lost + self.outbox.lost,
            evicted: self.counters.evicted + self.table.evicted,
            full: self.counters.full + self.table.full,
            claims: self.counters.claims + self.table.claims,
            conflicts: self.counters.conflicts + self.addresses.conflicts,
            ..self.counters
        }
    }

    /// Ends it: what it holds of others (a DHCP lease, memberships) is given back by the frames that are left
    /// to send. After that it does nothing.
    pub fn stop(&mut self, now: Nanos) {
        self.leave_groups(now);
        self.dhcp_release(now);
        self.stopped = true;
    }
}

/// Whether an address is one of an interface: not that of all routers of its network, and not reserved for
/// anycast (RFC 5453).
fn is_interface(address: Ipv6Addr) -> bool {
    let [.., a, b, c, d] = address.segments();
    let is_anycast = [a, b, c] == [0xfdff, 0xffff, 0xffff] && d >= 0xff80;
    [a, b, c, d] != [0; 4] && !is_anycast
}

/// An IPv6 packet, and what is behind its extension headers.
fn icmpv6(payload: &[u8]) -> Option<(ipv6::View<'_>, &[u8])> {
    let packet = ipv6::View::new(payload).ok()?;
    let body = packet.payload().get(packet.upper().ok()?.offset..)?;
    Some((packet, body))
}
