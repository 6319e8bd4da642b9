//! The devices behind a function's interfaces: link, addresses, gateways and neighbours, as the platform
//! tells them.
//!
//! 1. [`Devices::read`] reads the table; a function does so when [`NetworkFunction::devices`] says that it
//!    has changed, or leaves it to [`NextHops`].
//! 2. [`Devices::link`] finds what a packet for an address on the link needs: its MAC address, the one that a
//!    multicast or broadcast address has, or the knowledge that it is not known.
//! 3. [`NextHops::send`] writes the addresses into a packet and gives its verdict; where the next hop is not
//!    known yet it asks for it and holds the packet until the answer comes.
//!
//! An ask holds for five minutes: after that the platform forgets the neighbour. [`NextHops`] asks again once
//! a minute for those that packets are sent to; a function that keeps a MAC address itself asks for it again.
//!
//! Limits: the platform does ARP and neighbour discovery; an interface that is attached to no device with
//! addresses has no MAC address, and nothing behind it is ever found.
//!
//! [`NetworkFunction::devices`]: crate::NetworkFunction::devices

mod next_hops;
#[cfg(test)]
mod tests;

pub use next_hops::{MAX_HELD, MAX_HELD_FOR_ADDRESS, NextHops, Sent};
pub use nf_abi::{DeviceEntry, NeighbourState};

use crate::host::HostRefusal;
use crate::{Host, Prefix};
use alloc::vec::Vec;
use core::cell::Cell;
use core::net::IpAddr;
use nf_abi::{DEVICE_ENTRY, stream};

/// A MAC address.
pub type Mac = [u8; 6];

/// A neighbour on an interface's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// What is known of it.
    pub state: NeighbourState,
    /// Its MAC address; zero where it is not known.
    pub mac: Mac,
}

/// What is behind an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Whether its device's link is up.
    pub is_up: bool,
    /// Its MAC address; `None` where it is attached to no device with addresses.
    pub mac: Option<Mac>,
    /// Longest packet behind the Ethernet header, in bytes; 0 where it is not known.
    pub mtu: u32,
    /// Its own addresses, each with the bits of its network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Default routers.
    pub gateways: Vec<IpAddr>,
    /// By address, each with whether [`Devices::link`] found it since it was last asked for.
    neighbours: Vec<(Neighbour, Cell<bool>)>,
}

impl Interface {
    /// Its neighbours, by address.
    pub fn neighbours(&self) -> impl Iterator<Item = &Neighbour> {
        self.neighbours.iter().map(|(neighbour, _)| neighbour)
    }

    /// Whether an address is one of its own.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Whether an address is in the network of one of its own.
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        let is_in =
            |(own, length): &(IpAddr, u8)| Prefix { address: *own, length: *length }.contains(address);
        self.addresses.iter().any(is_in)
    }

    /// Where packets to an address go first: to itself where it is on the link, or there is no gateway of its
    /// family; else to the first of these.
    pub fn next_hop(&self, address: IpAddr) -> IpAddr {
        if self.is_on_link(address) {
            return address;
        }
        let mut gateways = self.gateways.iter().filter(|gateway| gateway.is_ipv4() == address.is_ipv4());
        gateways.next().copied().unwrap_or(address)
    }

    /// Whether an address is the broadcast address of one of its networks (RFC 919).
    fn is_broadcast(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        address.is_broadcast()
            || self.addresses.iter().any(|(own, prefix)| {
                let IpAddr::V4(own) = own else { return false };
                let hosts = u32::MAX.checked_shr(u32::from(*prefix)).unwrap_or(0);
                // Networks of one and two addresses have none (RFC 3021).
                hosts > 1 && address.to_bits() == own.to_bits() | hosts
            })
    }
}

/// What a packet for an address on a link needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The MAC address of the interface, and the one that the packet goes to.
    Known {
        /// The packet's source.
        source: Mac,
        /// Its destination.
        destination: Mac,
    },
    /// The address is not known yet.
    Unknown,
    /// It did not answer, or there is no link.
    Unreachable,
}

/// All devices behind a function's interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    interfaces: Vec<Interface>,
    members: Vec<(u32, IpAddr)>,
    was_read: bool,
}

impl Devices {
    /// Of which nothing is known yet.
    pub const fn new() -> Devices {
        Devices { interfaces: Vec::new(), members: Vec::new(), was_read: false }
    }

    /// Reads the table anew.
    ///
    /// # Errors
    /// The host's, and the table is as it was.
    pub fn read(&mut self, host: &mut Host) -> Result<(), HostRefusal> {
        let bytes = host.read_all(stream::DEVICES)?;
        let (entries, _) = bytes.as_chunks::<DEVICE_ENTRY>();
        self.set(entries.iter().filter_map(DeviceEntry::decode));
        Ok(())
    }

    /// Whether the table was read before.
    pub fn was_read(&self) -> bool {
        self.was_read
    }

    /// Makes it what the entries say.
    pub fn set(&mut self, entries: impl IntoIterator<Item = DeviceEntry>) {
        self.interfaces.clear();
        self.members.clear();
        self.was_read = true;
        for entry in entries {
            match entry {
                DeviceEntry::Interface { interface, is_up, mac, mtu } => {
                    let of = self.make(interface);
                    (of.is_up, of.mac, of.mtu) = (is_up, (mac != [0; 6]).then_some(mac), mtu);
                }
                DeviceEntry::Address { interface, address, prefix } => {
                    self.make(interface).addresses.push((address, prefix));
                }
                DeviceEntry::Gateway { interface, address } => self.make(interface).gateways.push(address),
                DeviceEntry::Neighbour { interface, address, state, mac } => {
                    self.make(interface)
                        .neighbours
                        .push((Neighbour { address, state, mac }, Cell::new(false)));
                }
                DeviceEntry::Member { list, address } => self.members.push((list, address)),
            }
        }
        for interface in &mut self.interfaces {
            interface.neighbours.sort_by_key(|(neighbour, _)| neighbour.address);
        }
    }

    fn make(&mut self, interface: u16) -> &mut Interface {
        let index = usize::from(interface);
        if index >= self.interfaces.len() {
            self.interfaces.resize_with(index + 1, Interface::default);
        }
        &mut self.interfaces[index]
    }

    /// The interfaces that are known, by number.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Addresses that members of security groups learned, each with the number of its list. Guards alone are
    /// told of any.
    pub fn members(&self) -> &[(u32, IpAddr)] {
        &self.members
    }

    /// What is behind an interface.
    pub fn interface(&self, number: u16) -> Option<&Interface> {
        self.interfaces.get(usize::from(number))
    }

    /// What is known of a neighbour.
    pub fn neighbour(&self, interface: u16, address: IpAddr) -> Option<&Neighbour> {
        self.entry(interface, address).map(|(neighbour, _)| neighbour)
    }

    fn entry(&self, interface: u16, address: IpAddr) -> Option<&(Neighbour, Cell<bool>)> {
        let all = &self.interface(interface)?.neighbours;
        all.binary_search_by_key(&address, |(neighbour, _)| neighbour.address).ok().map(|at| &all[at])
    }

    /// Neighbours that [`Devices::link`] found since this was last asked for them. `ask` says whether it
    /// could ask for one; those that it could not are there again the next time.
    fn each_used(&self, mut ask: impl FnMut(u16, IpAddr) -> bool) -> bool {
        let used = (0..).zip(&self.interfaces).flat_map(|(interface, behind)| {
            let used = behind.neighbours.iter().filter(|(_, is_used)| is_used.get());
            used.map(move |entry| (interface, entry))
        });
        for (interface, (neighbour, is_used)) in used {
            if !ask(interface, neighbour.address) {
                return false;
            }
            is_used.set(false);
        }
        true
    }

    /// What a packet needs that leaves by this interface for an address on its link: the destination itself,
    /// or the router on the way to it.
    pub fn link(&self, interface: u16, address: IpAddr) -> Link {
        let Some(behind) = self.interface(interface) else { return Link::Unreachable };
        let Some(source) = behind.mac else { return Link::Unreachable };
        if let Some((neighbour, is_used)) = self.entry(interface, address) {
            is_used.set(true);
            return match neighbour.state {
                NeighbourState::Reachable => Link::Known { source, destination: neighbour.mac },
                NeighbourState::Asked => Link::Unknown,
                NeighbourState::Unreachable => Link::Unreachable,
            };
        }
        match group_mac(address) {
            Some(destination) => Link::Known { source, destination },
            None if behind.is_broadcast(address) => Link::Known { source, destination: [0xff; 6] },
            None if !behind.is_up || address.is_unspecified() => Link::Unreachable,
            None => Link::Unknown,
        }
    }
}

/// The MAC address that packets to a multicast group have (RFC 1112 section 6.4, RFC 2464 section 7); `None`
/// for an address that is no group's.
pub fn group_mac(group: IpAddr) -> Option<Mac> {
    match group {
        IpAddr::V4(four) if four.is_multicast() => {
            let [_, b, c, d] = four.octets();
            Some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(six) if six.is_multicast() => {
            let [.., a, b, c, d] = six.octets();
            Some([0x33, 0x33, a, b, c, d])
        }
        _ => None,
    }
}
