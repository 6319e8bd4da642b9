//! Which VLAN is joined with which VXLAN network, and what passed in each.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

/// A VLAN and a VXLAN network that are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The VXLAN network, 24 bits.
    pub vni: u32,
    /// The VLAN; 0: frames without a tag.
    pub vlan: u16,
    /// Where a copy of what is for all goes: endpoints, or the group. At least one.
    pub flood: Vec<IpAddr>,
    /// Frames are taken from endpoints in `flood` alone.
    pub is_closed: bool,
    /// The group whose packets are the network's.
    pub group: Option<IpAddr>,
}

/// What passed, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// To one endpoint.
    pub encapsulated: u64,
    /// To all.
    pub flooded: u64,
    /// To the VLAN.
    pub decapsulated: u64,
    /// Lost, once the network was known.
    pub dropped: u64,
    /// Addresses that were heard elsewhere than before.
    pub moved: u64,
}

/// All networks.
#[derive(Debug, Default)]
pub struct Networks {
    all: Vec<(Network, Traffic)>,
    by_vlan: BTreeMap<u16, u16>,
    by_vni: BTreeMap<u32, u16>,
}

/// A VLAN or a VXLAN network is there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twice {
    /// The VLAN.
    Vlan(u16),
    /// The VXLAN network.
    Vni(u32),
}

impl Networks {
    /// Adds one.
    ///
    /// # Errors
    /// [`Twice`].
    pub fn add(&mut self, network: Network) -> Result<(), Twice> {
        let number = self.all.len() as u16;
        if self.by_vlan.contains_key(&network.vlan) {
            return Err(Twice::Vlan(network.vlan));
        }
        if self.by_vni.contains_key(&network.vni) {
            return Err(Twice::Vni(network.vni));
        }
        self.by_vlan.insert(network.vlan, number);
        self.by_vni.insert(network.vni, number);
        self.all.push((network, Traffic::default()));
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of the network of a VLAN.
    pub fn of_vlan(&self, vlan: u16) -> Option<u16> {
        self.by_vlan.get(&vlan).copied()
    }

    /// The number of a VXLAN network.
    pub fn of_vni(&self, vni: u32) -> Option<u16> {
        self.by_vni.get(&vni).copied()
    }

    /// A network.
    pub fn get(&self, number: u16) -> Option<&Network> {
        self.all.get(usize::from(number)).map(|(network, _)| network)
    }

    /// What passed in a network.
    ///
    /// # Panics
    /// With a number that is none's.
    pub fn count(&mut self, number: u16) -> &mut Traffic {
        &mut self.all[usize::from(number)].1
    }

    /// All of them, by number.
    pub fn all(&self) -> &[(Network, Traffic)] {
        &self.all
    }
}
