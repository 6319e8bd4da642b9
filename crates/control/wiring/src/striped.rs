//! Striped bonds: what is laid for one.
//!
//! ```text
//!                               keeps the order
//!  openers --- bond0 --- bond0/inside : bond0/outside --- bond0/links --- nic1
//!                                                                    `--- nic2
//! ```
//!
//! Openers have a device with one port, and the links a bond that is opened by one. Between the two stands a
//! pair of ports, of which each gives out what the other one is handed (`port::striped` of the data path).
//! Names of what is laid have a slash, which no name in an operator's file has.

use crate::Endpoint;
use crate::device::{Device, Opener, Opening, PortPolicy};
use indexmap::IndexMap;
use virtual_device::Mode;

/// The port towards what opens a striped bond.
pub fn inside(device: &str) -> String {
    format!("{device}/inside")
}

/// The port towards its links.
pub fn outside(device: &str) -> String {
    format!("{device}/outside")
}

/// The bond of its links.
pub fn links(device: &str) -> String {
    format!("{device}/links")
}

/// Devices, in the place of each striped bond the two that are laid for it.
pub fn laid(devices: IndexMap<String, Device>) -> IndexMap<String, Device> {
    if devices.values().all(|device| device.stripe.is_none()) {
        return devices;
    }
    let mut laid = IndexMap::with_capacity(devices.len());
    for (name, device) in devices {
        if device.stripe.is_some() {
            let over = [(inside(&name), PortPolicy::default())].into_iter().collect();
            let of_links = Device { open_to: Vec::new(), station: None, zone: None, ..device.clone() };
            laid.insert(links(&name), of_links);
            laid.insert(name, Device { mode: Mode::Direct, over, ..device });
        } else {
            laid.insert(name, device);
        }
    }
    laid
}

/// What opens the bonds of links among devices as they are laid: each bond's name, and its opener.
pub(crate) fn links_openers(
    laid: &IndexMap<String, Device>,
) -> impl Iterator<Item = (String, Opener, Opening)> {
    let openers = laid.iter().filter(|(_, device)| device.stripe.is_some() && device.mode == Mode::Direct);
    openers.map(|(name, _)| {
        let (outside, links) = (Endpoint::Port(outside(name)), links(name));
        let opening = Opening::of(&links, None);
        (links, Opener::Interface(outside), opening)
    })
}

impl Device {
    /// The ports by which a device of a name is on its link: of a striped bond, the one within which packets
    /// have no sequence headers.
    pub fn ports_on_link(&self, name: &str) -> Vec<String> {
        match self.stripe {
            Some(_) => vec![inside(name)],
            None => self.over.keys().cloned().collect(),
        }
    }
}
