//! The router's links: what the configuration says of an interface, and what the platform tells of the device
//! behind it.
//!
//! 1. [`Links::new`] has what the configuration says.
//! 2. [`Links::update`] adds what the devices have: Ethernet address and MTU where the configuration has
//!    none, and their addresses. What they bring to the routing table is in [`Links::routes`].
//! 3. [`Links::way`] says how an address on a link is reached.

use crate::header::mac_word;
use crate::hops::Way;
use crate::settings::{Interface, MAX_INTERFACES, connect};
use crate::table::{Routes, TableError};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::Verdict;
use nf_sdk::devices::{Devices, Link};

/// Longest packet where neither the configuration nor the device says how long one may be.
const MTU: u32 = 1500;

/// Stands for the Ethernet address of an interface that has none: more than six bytes.
pub const NO_MAC: u64 = u64::MAX;

/// Ethernet addresses by interface and address.
pub type Neighbours = BTreeMap<(u16, IpAddr), [u8; 6]>;

/// All links.
#[derive(Debug)]
pub struct Links {
    configured: [Interface; MAX_INTERFACES],
    /// As they are.
    pub interfaces: [Interface; MAX_INTERFACES],
    /// Their Ethernet addresses by number, each in a word; one that no packet has where there is none.
    pub macs: [u64; MAX_INTERFACES],
    /// What the configuration says of neighbours.
    pub neighbours: Neighbours,
}

impl Links {
    /// What the configuration says.
    pub fn new(configured: [Interface; MAX_INTERFACES], neighbours: Neighbours) -> Links {
        let interfaces = configured.clone();
        let mut links = Links { configured, interfaces, macs: [NO_MAC; MAX_INTERFACES], neighbours };
        links.update(&Devices::new());
        links
    }

    /// What the configuration says of interfaces.
    pub fn configured(&self) -> &[Interface; MAX_INTERFACES] {
        &self.configured
    }

    /// Adds what the devices have; whether the interfaces' addresses are others than before.
    pub fn update(&mut self, devices: &Devices) -> bool {
        let mut other_addresses = false;
        for (number, configured) in self.configured.iter().enumerate() {
            let (Some(interface), Some(mac)) = (self.interfaces.get_mut(number), self.macs.get_mut(number))
            else {
                continue;
            };
            let mut now = configured.clone();
            if let Some(device) = devices.interface(number as u16).filter(|_| configured.is_there) {
                now.mac = configured.mac.or(device.mac);
                now.mtu = configured.mtu.or((device.mtu != 0).then_some(device.mtu));
                let others = device.addresses.iter().filter(|(address, length)| {
                    *length > 0 && !configured.addresses.iter().any(|(own, _)| own == address)
                });
                now.addresses.extend(others);
            }
            other_addresses |= now.addresses != interface.addresses;
            *mac = now.mac.map_or(NO_MAC, mac_word);
            *interface = now;
        }
        other_addresses
    }

    /// Routes to the devices' own addresses and networks; `None` where there are none.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn routes(&self) -> Result<Option<Routes>, TableError> {
        let (mut routes, mut any) = (Routes::default(), false);
        for (number, (interface, configured)) in self.interfaces.iter().zip(&self.configured).enumerate() {
            // The devices' come after the configuration's.
            for (address, length) in interface.addresses.iter().skip(configured.addresses.len()) {
                connect(&mut routes, number as u16, *address, *length)?;
                any = true;
            }
        }
        Ok(any.then_some(routes))
    }

    /// How an address on an interface's link is reached; `None` where that is not known.
    pub fn way(&self, devices: &Devices, interface: u16, address: IpAddr) -> Option<Way> {
        let from = self.interfaces.get(usize::from(interface)).filter(|from| from.is_there)?;
        let (source, destination) = match self.neighbours.get(&(interface, address)) {
            Some(destination) => (from.mac?, *destination),
            None => match devices.link(interface, address) {
                Link::Known { source, destination } => (from.mac.unwrap_or(source), destination),
                Link::Unknown | Link::Unreachable => return None,
            },
        };
        let mut addresses = [0; 12];
        addresses[..6].copy_from_slice(&destination);
        addresses[6..].copy_from_slice(&source);
        let mtu = from.mtu.unwrap_or(MTU);
        Some(Way { addresses, verdict: Verdict::Interface(interface).encode(), mtu })
    }

    /// Whether an address is one of an interface's own.
    pub fn has(&self, interface: u16, address: IpAddr) -> bool {
        let interface = self.interfaces.get(usize::from(interface));
        interface.is_some_and(|interface| interface.addresses.iter().any(|(own, _)| *own == address))
    }

    /// Longest packet of an interface's link behind the Ethernet header.
    pub fn mtu(&self, interface: u16) -> u32 {
        self.interfaces.get(usize::from(interface)).and_then(|interface| interface.mtu).unwrap_or(MTU)
    }

    /// All addresses, those of `first` before others.
    pub fn addresses(&self, first: u16) -> impl Iterator<Item = IpAddr> {
        let before: Vec<&Interface> = self.interfaces.get(usize::from(first)).into_iter().collect();
        let all = before.into_iter().chain(&self.interfaces);
        all.flat_map(|interface| &interface.addresses).map(|(address, _)| *address)
    }
}
