//! The device's addresses, from the configuration and from the table of devices.

use crate::layers::Member;
use crate::link;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use nf_sdk::Host;
use nf_sdk::HostRefusal;
use nf_sdk::devices::{Devices, Mac};
use packet_filter::header::{Class, Header};

/// The interface that the device is at.
const OUTSIDE: u16 = 1;
/// Where a frame's source address is, and where those of IPv4 are behind an untagged header.
const SOURCE_MAC: core::ops::Range<usize> = 6..12;
const SOURCE: usize = 26;
const DESTINATION: usize = 30;
/// The same of the ports behind an IPv4 header without options.
const PORTS: usize = 34;

/// What is known of the device.
#[derive(Debug, Default)]
pub struct Identity {
    /// As configured.
    configured: Own,
    /// With what the device's table says.
    own: Own,
    devices: Devices,
}

/// Addresses, as words that are compared as they lie in packets.
#[derive(Clone, Debug, Default)]
struct Own {
    mac: Option<Mac>,
    v4: Vec<u32>,
    /// Broadcast addresses of its networks (RFC 919).
    broadcasts: Vec<u32>,
    v6: Vec<[u32; 4]>,
}

fn word4(address: Ipv4Addr) -> u32 {
    u32::from_le_bytes(address.octets())
}

fn words6(address: Ipv6Addr) -> [u32; 4] {
    let octets = address.octets();
    let mut words = [0; 4];
    for (word, four) in words.iter_mut().zip(octets.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*four);
    }
    words
}

impl Own {
    fn add(&mut self, address: IpAddr, prefix: u8) {
        match address {
            IpAddr::V4(four) if self.v4.contains(&word4(four)) => {}
            IpAddr::V6(six) if self.v6.contains(&words6(six)) => {}
            IpAddr::V4(four) => {
                self.v4.push(word4(four));
                let hosts = u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
                // Networks of one and two addresses have none (RFC 3021).
                if hosts > 1 {
                    self.broadcasts.push(word4(Ipv4Addr::from_bits(four.to_bits() | hosts)));
                }
            }
            IpAddr::V6(six) => self.v6.push(words6(six)),
        }
    }

    /// Adds the link-local address that follows from the MAC address (RFC 4291, appendix A).
    fn add_link_local(&mut self) {
        if let Some([a, b, c, d, e, f]) = self.mac {
            let octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
            self.v6.push(words6(Ipv6Addr::from_octets(octets)));
        }
    }
}

impl Identity {
    /// As configured; of addresses, each with the length of its network's prefix.
    pub fn new(mac: Option<Mac>, addresses: &[(IpAddr, u8)]) -> Identity {
        let mut configured = Own { mac, ..Own::default() };
        for (address, prefix) in addresses {
            configured.add(*address, *prefix);
        }
        let mut identity = Identity { configured, own: Own::default(), devices: Devices::new() };
        identity.update();
        identity
    }

    /// Reads the table of devices anew.
    ///
    /// # Errors
    /// The host's, and everything is as it was.
    pub fn read(&mut self, host: &mut Host) -> Result<(), HostRefusal> {
        self.devices.read(host)?;
        self.update();
        Ok(())
    }

    fn update(&mut self) {
        self.own = self.configured.clone();
        if let Some(device) = self.devices.interface(OUTSIDE) {
            self.own.mac = self.own.mac.or(device.mac);
            for (address, prefix) in &device.addresses {
                self.own.add(*address, *prefix);
            }
        }
        self.own.add_link_local();
    }

    /// What members of groups learned; `None`: the platform has told nothing yet.
    pub fn members(&self) -> Option<Vec<Member>> {
        self.devices.interface(OUTSIDE)?;
        let members = self.devices.members().iter().map(|(list, address)| (*address, *list));
        Some(members.collect())
    }

    /// Its MAC address.
    pub fn mac(&self) -> Option<Mac> {
        self.own.mac
    }

    /// How many addresses it has, link-local ones included.
    pub fn addresses(&self) -> usize {
        self.own.v4.len() + self.own.v6.len()
    }

    /// Whether a frame's source address is the device's, as far as that is known.
    #[inline(always)]
    pub fn is_sender(&self, packet: &[u8]) -> bool {
        let Some(mac) = self.own.mac else { return true };
        packet.get(SOURCE_MAC).is_none_or(|source| source == mac)
    }

    /// Whether a common packet (untagged IPv4) may go by its connection alone: it comes from the device, or
    /// goes to it. What is from a DHCP server to a client does not leave: a connection that was opened from
    /// outside would let it.
    #[inline(always)]
    pub fn may_be_usual(&self, packet: &[u8], ingress: u32) -> bool {
        let at = if ingress == 0 { SOURCE } else { DESTINATION };
        let address =
            packet.get(at..).and_then(|rest| rest.first_chunk()).map(|four| u32::from_le_bytes(*four));
        let is_own = address.is_some_and(|address| self.has4(address));
        let is_from_server = || packet.get(PORTS..).is_some_and(|rest| rest.starts_with(&link::FROM_SERVER));
        is_own && (ingress != 0 || self.is_sender(packet) && !is_from_server())
    }

    #[inline(always)]
    fn has4(&self, address: u32) -> bool {
        self.own.v4.contains(&address)
    }

    /// Whether an IPv4 address is one of its own.
    pub fn has_ipv4(&self, address: [u8; 4]) -> bool {
        self.has4(u32::from_le_bytes(address))
    }

    /// Whether an IPv6 address is one of its own.
    pub fn has_ipv6(&self, address: [u8; 16]) -> bool {
        self.own.v6.contains(&words6(Ipv6Addr::from_octets(address)))
    }

    /// Whether the inside end of a packet is one of its addresses.
    pub fn has(&self, header: &Header) -> bool {
        match inside(header) {
            IpAddr::V4(four) => self.has4(word4(four)),
            IpAddr::V6(six) => self.own.v6.contains(&words6(six)),
        }
    }

    /// Whether the inside end of a packet is a multicast or broadcast address.
    pub fn is_for_many(&self, header: &Header) -> bool {
        match inside(header) {
            IpAddr::V4(four) => {
                four.is_multicast() || four.is_broadcast() || self.own.broadcasts.contains(&word4(four))
            }
            IpAddr::V6(six) => six.is_multicast(),
        }
    }
}

/// The inside end's address.
pub fn inside(header: &Header) -> IpAddr {
    let [a, b, c, d, ..] = header.key;
    let is_ipv4 = match header.class {
        Class::LaterFragment => header.fragment.is_ipv4,
        Class::Flow4 | Class::Single4 | Class::Error4 => true,
        _ => false,
    };
    if is_ipv4 {
        return IpAddr::V4(Ipv4Addr::from(a.to_le_bytes()));
    }
    let mut octets = [0; 16];
    for (four, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip([a, b, c, d]) {
        *four = word.to_le_bytes();
    }
    IpAddr::V6(Ipv6Addr::from_octets(octets))
}
