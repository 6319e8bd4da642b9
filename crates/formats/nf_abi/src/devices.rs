//! What a function reads about the devices behind its interfaces, and by which it asks for an address:
//! entries of [`stream::DEVICES`](crate::stream::DEVICES).
//!
//! Limits: an entry is [`DEVICE_ENTRY`] bytes; a stream has at most [`MAX_DEVICE_ENTRIES`] of them, ordered
//! by interface, kind and address; members come last, by list and address. Kinds that are not known here are
//! passed over by readers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an entry.
pub const DEVICE_ENTRY: usize = 32;

/// Most entries of the stream: 1 MiB.
pub const MAX_DEVICE_ENTRIES: usize = 1 << 15;

/// Most addresses that an instance may ask for between two collections by the host.
pub const MAX_ASKS: usize = 256;

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NeighbourState {
    /// It answered: its MAC address is known.
    Reachable,
    /// It is being asked.
    Asked,
    /// It did not answer; it is asked again when a function asks again.
    Unreachable,
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceEntry {
    /// An interface of the instance: there is one for each.
    Interface {
        /// Its number.
        interface: u16,
        /// Whether its device's link is up.
        is_up: bool,
        /// Its MAC address; zero where it is attached to no device with addresses.
        mac: [u8; 6],
        /// Longest packet behind the Ethernet header, in bytes; 0 where it is not known.
        mtu: u32,
    },
    /// An address of the interface's own.
    Address {
        /// The interface.
        interface: u16,
        /// The address.
        address: IpAddr,
        /// Bits of its network's prefix.
        prefix: u8,
    },
    /// A neighbour: an address on the interface's link.
    Neighbour {
        /// The interface.
        interface: u16,
        /// Its address.
        address: IpAddr,
        /// What is known of it.
        state: NeighbourState,
        /// Its MAC address; zero where it is not known.
        mac: [u8; 6],
    },
    /// A default router, from DHCP or a router advertisement.
    Gateway {
        /// The interface.
        interface: u16,
        /// Its address.
        address: IpAddr,
    },
    /// An address that a device learned which is a member of a security group. Guards alone are told.
    Member {
        /// The list of members, by the number that the guard's configuration has for it.
        list: u32,
        /// The address.
        address: IpAddr,
    },
}

impl DeviceEntry {
    /// The wire form.
    pub const fn encode(self) -> [u8; DEVICE_ENTRY] {
        let mut out = [0; DEVICE_ENTRY];
        let (kind, interface) = match self {
            DeviceEntry::Interface { interface, is_up, mac, mtu } => {
                out[5] = is_up as u8;
                put(&mut out, 6, &mac);
                put(&mut out, 12, &mtu.to_le_bytes());
                (1, interface)
            }
            DeviceEntry::Address { interface, address, prefix } => {
                out[4] = prefix;
                put_address(&mut out, address);
                (2, interface)
            }
            DeviceEntry::Neighbour { interface, address, state, mac } => {
                out[5] = match state {
                    NeighbourState::Reachable => 1,
                    NeighbourState::Asked => 2,
                    NeighbourState::Unreachable => 3,
                };
                put(&mut out, 6, &mac);
                put_address(&mut out, address);
                (3, interface)
            }
            DeviceEntry::Gateway { interface, address } => {
                put_address(&mut out, address);
                (4, interface)
            }
            DeviceEntry::Member { list, address } => {
                put(&mut out, 12, &list.to_le_bytes());
                put_address(&mut out, address);
                (5, 0)
            }
        };
        out[0] = kind;
        put(&mut out, 2, &interface.to_le_bytes());
        out
    }

    /// Reads the wire form; `None` for a kind, family, state or prefix that is none.
    pub const fn decode(wire: &[u8; DEVICE_ENTRY]) -> Option<DeviceEntry> {
        let interface = u16::from_le_bytes([wire[2], wire[3]]);
        let mac = [wire[6], wire[7], wire[8], wire[9], wire[10], wire[11]];
        if wire[0] == 1 {
            let mtu = u32::from_le_bytes([wire[12], wire[13], wire[14], wire[15]]);
            return Some(DeviceEntry::Interface { interface, is_up: wire[5] != 0, mac, mtu });
        }
        let mut bytes = [0; 16];
        let mut n = 0;
        while n < 16 {
            bytes[n] = wire[16 + n];
            n += 1;
        }
        let (address, longest) = match wire[1] {
            4 => (IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])), 32),
            6 => (IpAddr::V6(Ipv6Addr::from_bits(u128::from_be_bytes(bytes))), 128),
            _ => return None,
        };
        match (wire[0], wire[5]) {
            (2, _) if wire[4] <= longest => {
                Some(DeviceEntry::Address { interface, address, prefix: wire[4] })
            }
            (3, state @ 1..=3) => {
                let state = match state {
                    1 => NeighbourState::Reachable,
                    2 => NeighbourState::Asked,
                    _ => NeighbourState::Unreachable,
                };
                Some(DeviceEntry::Neighbour { interface, address, state, mac })
            }
            (4, _) => Some(DeviceEntry::Gateway { interface, address }),
            (5, _) => {
                let list = u32::from_le_bytes([wire[12], wire[13], wire[14], wire[15]]);
                Some(DeviceEntry::Member { list, address })
            }
            _ => None,
        }
    }

    /// What a function writes to ask for an address.
    pub const fn ask(interface: u16, address: IpAddr) -> DeviceEntry {
        DeviceEntry::Neighbour { interface, address, state: NeighbourState::Asked, mac: [0; 6] }
    }
}

const fn put(out: &mut [u8; DEVICE_ENTRY], at: usize, bytes: &[u8]) {
    let mut n = 0;
    while n < bytes.len() {
        out[at + n] = bytes[n];
        n += 1;
    }
}

const fn put_address(out: &mut [u8; DEVICE_ENTRY], address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            out[1] = 4;
            put(out, 16, &address.octets());
        }
        IpAddr::V6(address) => {
            out[1] = 6;
            put(out, 16, &address.octets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_survives_the_wire_and_garbage_is_none() {
        let addresses =
            [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)), IpAddr::V6(Ipv6Addr::from_bits(0xfe80 << 112 | 7))];
        let mac = [2, 0, 0, 0, 0, 9];
        let link = DeviceEntry::Interface { interface: 258, is_up: true, mac, mtu: 1500 };
        assert_eq!(DeviceEntry::decode(&link.encode()), Some(link));
        assert_eq!(link.encode()[..16], [1, 0, 2, 1, 0, 1, 2, 0, 0, 0, 0, 9, 0xdc, 5, 0, 0]);
        for address in addresses {
            let states = [NeighbourState::Reachable, NeighbourState::Asked, NeighbourState::Unreachable];
            let entries = states.map(|state| DeviceEntry::Neighbour { interface: 1, address, state, mac });
            let others = [
                DeviceEntry::Address { interface: 1, address, prefix: 24 },
                DeviceEntry::Gateway { interface: 1, address },
                DeviceEntry::ask(1, address),
                DeviceEntry::Member { list: 0x0102_0304, address },
            ];
            for entry in entries.into_iter().chain(others) {
                let wire = entry.encode();
                assert_eq!(DeviceEntry::decode(&wire), Some(entry));
                for (at, value) in [(0, 0), (0, 6), (1, 0), (1, 5)] {
                    let mut wrong = wire;
                    wrong[at] = value;
                    assert_eq!(DeviceEntry::decode(&wrong), None, "{entry:?} with {value} at {at}");
                }
            }
            let mut long = DeviceEntry::Address { interface: 1, address, prefix: 24 }.encode();
            long[4] = 129;
            assert_eq!(DeviceEntry::decode(&long), None);
            let mut stateless = DeviceEntry::ask(1, address).encode();
            stateless[5] = 0;
            assert_eq!(DeviceEntry::decode(&stateless), None);
        }
    }
}
