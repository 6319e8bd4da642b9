//! One device on its link.

use neighbours::{AddressState, Device, Resolution, Settings, SettingsError};
use port::station::{self as at_port, Identity, Link};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use telemetry::clock::Nanos;
use virtual_device::Mode;

/// How long an address is unreachable that is on no network of the device.
const OFF_LINK: Nanos = Nanos::from_millis(20_000);
/// Most of them.
const MOST_OFF_LINK: usize = 256;
/// Most frames that are looked at before others have their turn.
const AT_ONCE: usize = 256;

/// A device on its link. `device` is what its protocols know, `links` lead to its ports.
pub(super) struct Station {
    pub(super) device: Device,
    settings: Settings,
    /// Its addresses, for the ports.
    addresses: Arc<RwLock<Vec<IpAddr>>>,
    links: Vec<(String, Arc<at_port::Stations>, Link)>,
    /// Its ports are one link: what it sends goes out by the first.
    bonds: bool,
    /// Addresses that are on none of its networks, and until when that is told.
    pub(super) off_link: BTreeMap<IpAddr, Nanos>,
    /// What functions see has changed this often.
    pub(super) changes: u64,
}

impl Station {
    pub(super) fn new(name: &str, settings: &Settings, now: Nanos) -> Result<Station, SettingsError> {
        // Another one at each start.
        let seed = RandomState::new().hash_one(name);
        Ok(Station {
            device: Device::new(settings.clone(), seed, now)?,
            settings: settings.clone(),
            addresses: Arc::default(),
            links: Vec::new(),
            bonds: false,
            off_link: BTreeMap::new(),
            changes: 1,
        })
    }

    /// Other settings.
    pub(super) fn change(&mut self, settings: &Settings, now: Nanos) -> Result<(), SettingsError> {
        if self.settings == *settings {
            return Ok(());
        }
        self.device.change(settings.clone(), now)?;
        if (self.settings.mac, self.settings.dhcp) != (settings.mac, settings.dhcp) {
            // Ports know it by these.
            self.links.clear();
        }
        self.settings = settings.clone();
        Ok(())
    }

    /// Stands at the ports of its device.
    pub(super) fn stand_at(
        &mut self,
        device: &wiring::Device,
        ports: &HashMap<String, Arc<at_port::Stations>>,
        waker: &dyn Fn() -> Box<dyn Fn() + Send>,
    ) {
        let wanted: Vec<(&String, &Arc<at_port::Stations>)> =
            device.over.keys().filter_map(|name| ports.get_key_value(name)).collect();
        self.links.retain(|(name, at, _)| {
            wanted.iter().any(|(wanted, there)| *wanted == name && Arc::ptr_eq(there, at))
        });
        for (name, at) in wanted {
            if self.links.iter().any(|(known, ..)| known == name) {
                continue;
            }
            let addresses = self.addresses.clone();
            let identity = Identity { mac: self.settings.mac, dhcp: self.settings.dhcp, addresses };
            self.links.push((name.clone(), at.clone(), at.attach(identity, waker())));
        }
        self.links.sort_by_key(|(name, ..)| device.over.get_index_of(name));
        self.bonds = matches!(device.mode, Mode::Bond(_));
    }

    /// A function asks for an address.
    pub(super) fn resolve(&mut self, address: IpAddr, now: Nanos) {
        let changed = match self.device.resolve(address, now) {
            Resolution::Refused(_) if self.off_link.len() >= MOST_OFF_LINK => false,
            Resolution::Refused(_) => self.off_link.insert(address, now.saturating_add(OFF_LINK)).is_none(),
            // It is on the link by now.
            _ => self.off_link.remove(&address).is_some(),
        };
        self.changes += u64::from(changed);
    }

    /// Takes what came, does what is due, sends what there is to send; when something is due next.
    pub(super) fn work(&mut self, now: Nanos) -> Option<Nanos> {
        let mut more = false;
        for (_, _, link) in &mut self.links {
            let frames = std::iter::from_fn(|| link.next_frame()).take(AT_ONCE);
            let count = frames.map(|frame| self.device.input(&frame, now)).count();
            more |= count == AT_ONCE;
        }
        self.device.poll(now);
        self.send();
        if self.device.take_changes().any() {
            self.changes += 1;
            let used = self.device.addresses().filter(|own| is_used(own.state));
            let used: Vec<IpAddr> = used.map(|own| own.prefix.address).collect();
            *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = used;
        }
        let before = self.off_link.len();
        self.off_link.retain(|_, until| *until > now);
        self.changes += u64::from(self.off_link.len() != before);
        let off_link = self.off_link.values().min().copied();
        let due = [self.device.next_deadline(), off_link].into_iter().flatten().min();
        if more { Some(now) } else { due }
    }

    fn send(&mut self) {
        let several = if self.bonds { 1 } else { usize::MAX };
        while let Some(frame) = self.device.next_frame() {
            for (_, _, link) in self.links.iter_mut().take(several) {
                // Protocols send again what was lost.
                link.send(frame.clone());
            }
        }
    }

    /// Gives back what it holds of others.
    pub(super) fn stop(&mut self, now: Nanos) {
        self.device.stop(now);
        self.send();
    }
}

/// Whether an address is the device's, and functions and echo requests may use it.
pub(super) fn is_used(state: AddressState) -> bool {
    matches!(state, AddressState::Valid | AddressState::Deprecated)
}
