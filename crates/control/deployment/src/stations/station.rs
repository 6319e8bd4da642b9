//! One device on its link.

use super::StationName;
use super::off_link::OffLink;
use crate::devices::NextHops;
use neighbours::{AddressState, Asker, Device, Mac, Refusal, Resolution, Settings, SettingsError};
use port::station::{self as at_port, Around, Awaited, Identity, Link, Tag, Tunnel};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use telemetry::clock::Nanos;
use virtual_device::{Mode, NextHop};
use wiring::PortPolicy;

/// The next hops of tunnels are asked for again after this: well within [`neighbours::LEASE`].
const ASKED_AGAIN: Nanos = Nanos::from_millis(60_000);
/// Most frames that are looked at before others have their turn.
const AT_ONCE: usize = 256;

/// A way to a link.
pub(super) struct PortLink {
    pub(super) port: String,
    at: Arc<at_port::Stations>,
    around: Around,
    link: Link,
}

/// A device on its link. `device` is what its protocols know, `links` lead to its ports.
pub(super) struct Station {
    pub(super) device: Device,
    settings: Settings,
    /// Its addresses, for the ports.
    addresses: Arc<RwLock<Vec<IpAddr>>>,
    /// What it has asked for, for the ports.
    awaited: Arc<RwLock<Awaited>>,
    pub(super) links: Vec<PortLink>,
    /// Where its tunnels lead to.
    tunnels: Vec<(IpAddr, Arc<NextHop>)>,
    /// Routers that did not answer when they were last asked.
    silent: BTreeSet<IpAddr>,
    /// One of its ports is up.
    pub(super) is_up: bool,
    /// The exchange of DHCP that the ports were told of.
    exchange: Option<u32>,
    /// Its ports are one link: what it sends goes out by the first.
    bonds: bool,
    /// The zone in which its addresses are members of groups.
    pub(super) zone: Option<u16>,
    /// Addresses that were asked for and are on none of its networks.
    pub(super) off_link: OffLink,
    /// Frames that it did not get at ports where it is no longer.
    missed_before: u64,
    /// Frames that a port had no room for.
    pub(super) unsent: u64,
    /// What all functions see has changed this often.
    changes: u64,
    /// Its addresses have changed this often.
    address_changes: u64,
    /// Neighbours that an asker asked for have changed this often.
    changes_for: BTreeMap<Asker, u64>,
}

impl Station {
    pub(super) fn new(name: &StationName, settings: &Settings, now: Nanos) -> Result<Station, SettingsError> {
        // Another one at each start.
        let seed = RandomState::new().hash_one((&name.device, &name.interface));
        Ok(Station {
            device: Device::new(settings.clone(), seed, now)?,
            settings: settings.clone(),
            addresses: Arc::default(),
            awaited: Arc::default(),
            links: Vec::new(),
            tunnels: Vec::new(),
            silent: BTreeSet::new(),
            is_up: false,
            exchange: None,
            bonds: false,
            zone: None,
            off_link: OffLink::default(),
            missed_before: 0,
            unsent: 0,
            changes: 1,
            address_changes: 0,
            changes_for: BTreeMap::new(),
        })
    }

    /// Other settings.
    pub(super) fn change(&mut self, settings: &Settings, now: Nanos) -> Result<(), SettingsError> {
        if self.settings == *settings {
            return Ok(());
        }
        self.device.change(settings.clone(), now)?;
        let known_by = |of: &Settings| (of.mac, of.dhcp, is_shared(of));
        if known_by(&self.settings) != known_by(settings) {
            // Ports know it by these.
            self.missed_before = self.missed();
            self.links.clear();
        }
        self.settings = settings.clone();
        Ok(())
    }

    /// Stands at the ports of its device, or at the one that its interface opens.
    pub(super) fn stand_at(
        &mut self,
        (name, device, only): (&StationName, &wiring::Device, Option<&String>),
        (ports, next_hops): (&HashMap<String, Arc<at_port::Stations>>, Option<&NextHops>),
        waker: &dyn Fn() -> Box<dyn Fn() + Send>,
    ) {
        let is_outside = name.interface.is_none() && !device.has_station_inside();
        let mut on_link = device.ports_on_link(&name.device);
        // Neither side of a striped bond is opened alone.
        on_link.retain(|port| only.is_none_or(|only| only == port));
        let place = |name: &String| {
            let (name, at) = ports.get_key_value(name)?;
            let around = match device.over.get(name) {
                Some(policy) => {
                    let next_hop = next_hops.and_then(|hops| hops.get(name)).map(|(_, hop)| hop);
                    around(policy, is_outside, next_hop)?
                }
                // The inside of a striped bond has no policy.
                None => Around::Nothing,
            };
            Some((name, at, around))
        };
        let wanted: Vec<(&String, &Arc<at_port::Stations>, Around)> =
            on_link.iter().filter_map(place).collect();
        let missed = &mut self.missed_before;
        self.links.retain(|known| {
            let stays = wanted.iter().any(|(name, at, around)| {
                *name == &known.port && Arc::ptr_eq(at, &known.at) && *around == known.around
            });
            *missed += if stays { 0 } else { known.link.missed() };
            stays
        });
        for (name, at, around) in wanted {
            if self.links.iter().any(|known| known.port == *name) {
                continue;
            }
            let identity = Identity {
                mac: self.settings.mac,
                dhcp: self.settings.dhcp,
                is_shared: is_shared(&self.settings),
                addresses: self.addresses.clone(),
                awaited: self.awaited.clone(),
                around: around.clone(),
            };
            let link = at.attach(identity, waker());
            self.links.push(PortLink { port: name.clone(), at: at.clone(), around, link });
        }
        self.links.sort_by_key(|known| on_link.iter().position(|name| *name == known.port));
        self.bonds = matches!(device.mode, Mode::Bond(_));
        self.zone = device.zone;
    }

    /// A function asks for an address.
    pub(super) fn resolve(&mut self, asker: Asker, address: IpAddr, now: Nanos) {
        let changed = match self.device.resolve_for(asker, address, now) {
            Resolution::Refused(_) => self.off_link.insert(asker, address, now),
            // It is on the link by now.
            _ if self.off_link.remove(asker, address) => vec![asker],
            _ => Vec::new(),
        };
        self.changed_for(changed);
    }

    fn changed_for(&mut self, askers: impl IntoIterator<Item = Asker>) {
        for asker in askers {
            *self.changes_for.entry(asker).or_default() += 1;
        }
    }

    /// Whether addresses may be formed in the network of this one.
    pub(super) fn may_be_formed(&self, address: IpAddr) -> bool {
        self.settings.may_be_formed(address)
    }

    /// The ports that it is at.
    pub(super) fn ports(&self) -> Vec<String> {
        self.links.iter().map(|known| known.port.clone()).collect()
    }

    /// Whether an address of another station, in this zone and at these ports, would be taken for its own.
    pub(super) fn is_beside(&self, zone: Option<u16>, ports: &[String]) -> bool {
        let is_same_zone = zone.is_some() && zone == self.zone;
        is_same_zone || self.links.iter().any(|known| ports.contains(&known.port))
    }

    /// How often what functions of an asker see has changed.
    pub(super) fn version(&self, asker: Asker) -> u64 {
        self.changes + self.changes_for.get(&asker).copied().unwrap_or(0)
    }

    /// How often its addresses may have changed.
    pub(super) fn addresses_version(&self) -> u64 {
        self.address_changes
    }

    /// No other than these asks any more.
    pub(super) fn keep_askers(&mut self, askers: &BTreeSet<Asker>) {
        self.changes_for.retain(|asker, _| askers.contains(asker));
    }

    /// Takes what came, does what is due, sends what there is to send; when something is due next.
    pub(super) fn work(&mut self, now: Nanos) -> Option<Nanos> {
        let mut more = false;
        for (PortLink { link, .. }, way) in self.links.iter_mut().zip(0..) {
            let frames = std::iter::from_fn(|| link.next_frame()).take(AT_ONCE);
            let count = frames.map(|frame| self.device.input_by(way, &frame, now)).count();
            more |= count == AT_ONCE;
        }
        self.find_next_hops(now);
        self.device.poll(now);
        self.await_answers();
        self.send();
        let tunnels = self.find_next_hops(now);
        let changes = self.device.take_changes();
        let (of_askers, over) = (self.device.take_changed_askers(), self.off_link.expire(now));
        self.changed_for(of_askers);
        self.changed_for(over);
        if changes.addresses || changes.routers || changes.mtu {
            self.changes += 1;
            self.address_changes += 1;
            let used = self.device.addresses().filter(|own| is_used(own.state));
            let used: Vec<IpAddr> = used.map(|own| own.prefix.address).collect();
            *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = used;
        }
        let is_up = self.links.iter().any(|known| known.link.is_up());
        self.changes += u64::from(is_up != self.is_up);
        self.is_up = is_up;
        let due = [self.device.next_deadline(), self.off_link.due(), tunnels].into_iter().flatten().min();
        if more { Some(now) } else { due }
    }

    /// Where its tunnels lead to.
    pub(super) fn lead(&mut self, next_hops: Option<&NextHops>) {
        self.tunnels = next_hops.into_iter().flat_map(|hops| hops.values().cloned()).collect();
    }

    /// Asks for the next hops of its tunnels, and keeps them fresh; when that is to be done again at the
    /// latest.
    fn find_next_hops(&mut self, now: Nanos) -> Option<Nanos> {
        for (remote, next_hop) in &self.tunnels {
            next_hop.set(match self.device.resolve(*remote, now) {
                Resolution::Known(mac) => Some(mac),
                Resolution::Refused(Refusal::OffLink) => {
                    find_router(&mut self.device, &mut self.silent, remote.is_ipv4(), now)
                }
                _ => None,
            });
        }
        (!self.tunnels.is_empty()).then(|| now.saturating_add(ASKED_AGAIN))
    }

    /// Tells the ports what answers to expect, before the questions are sent.
    fn await_answers(&mut self) {
        let exchange = self.device.awaited_exchange();
        let addresses = self.device.take_awaited().cloned();
        if addresses.is_none() && self.exchange == exchange {
            return;
        }
        self.exchange = exchange;
        let mut awaited = self.awaited.write().unwrap_or_else(PoisonError::into_inner);
        awaited.exchange = exchange;
        if let Some(addresses) = addresses {
            awaited.addresses = addresses;
        }
    }

    fn send(&mut self) {
        let several = if self.bonds { 1 } else { usize::MAX };
        while let Some(frame) = self.device.next_frame() {
            for PortLink { link, .. } in self.links.iter_mut().take(several) {
                // Protocols send again what was lost.
                self.unsent += u64::from(!link.send(frame.clone()));
            }
        }
    }

    /// Frames that it did not get, since it is there.
    pub(super) fn missed(&self) -> u64 {
        self.missed_before + self.links.iter().map(|known| known.link.missed()).sum::<u64>()
    }

    /// Gives back what it holds of others.
    pub(super) fn stop(&mut self, now: Nanos) {
        self.device.stop(now);
        self.send();
    }
}

/// Whether what opens a device forms addresses behind the device's own MAC address, and so has to be given
/// the answers of neighbours that it asked itself.
fn is_shared(settings: &Settings) -> bool {
    !settings.slaac.is_empty()
}

/// What the frames of a station have around them at a port: of the device's own outside of its tunnel if it
/// is for that. `None`: it is not there.
fn around(policy: &PortPolicy, is_outside: bool, next_hop: Option<&Arc<NextHop>>) -> Option<Around> {
    let station = policy.station?;
    let tag = station.tag;
    let (Some(ends), Some(encapsulation)) = (station.inside.filter(|_| !is_outside), policy.encapsulate)
    else {
        let tag = tag.map(|(ethertype, control)| Tag { ethertype, control });
        return Some(tag.map_or(Around::Nothing, Around::Tag));
    };
    let next_hop = next_hop.cloned();
    Some(Around::Tunnel(Arc::new(Tunnel {
        layers: policy.decapsulate.clone(),
        encapsulation,
        tag: tag.map(|(_, control)| control),
        key: ends.key,
        local: ends.local,
        remote: ends.remote,
        next_hop: next_hop.map(|hop| Arc::new(move || hop.get()) as at_port::NextHop),
    })))
}

/// The link-layer address of the first router of a family that answers. One that did not is passed over, and
/// asked again beside those behind it; for one that was not asked yet the answer is waited for (RFC 4861
/// section 6.3.6).
fn find_router(device: &mut Device, silent: &mut BTreeSet<IpAddr>, is_ipv4: bool, now: Nanos) -> Option<Mac> {
    let routers: Vec<IpAddr> = device.routers().collect();
    silent.retain(|router| routers.contains(router));
    for router in routers.into_iter().filter(|router| router.is_ipv4() == is_ipv4) {
        match device.resolve(router, now) {
            Resolution::Known(mac) => {
                silent.remove(&router);
                return Some(mac);
            }
            Resolution::Asked if !silent.contains(&router) => return None,
            Resolution::Unreachable => drop(silent.insert(router)),
            Resolution::Asked | Resolution::Refused(_) => {}
        }
    }
    None
}

/// Whether an address is the device's, and functions and echo requests may use it.
pub(super) fn is_used(state: AddressState) -> bool {
    matches!(state, AddressState::Valid | AddressState::Deprecated)
}
