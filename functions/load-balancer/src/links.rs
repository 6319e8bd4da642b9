//! The two links: how frames get the Ethernet addresses of servers, and of clients or the router towards
//! them.
//!
//! 1. An interface that is attached to a device with addresses: next hops are the platform's neighbours.
//!    Those that are known are kept in [`Rewrite`](crate::services::Rewrite) and here, for others
//!    [`NextHops`] asks and holds packets.
//! 2. An interface that is not: a server has the Ethernet address of the configuration, or addresses stay as
//!    they are, as between two routers.

use crate::ends::Words;
use crate::services::{Services, Way};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::devices::{Devices, Interface, Link, NextHops, Sent};
use nf_sdk::{Host, Nanos, Packet, Prefix};

/// The interface of clients.
pub const CLIENTS: u16 = 0;
/// The interface of servers.
pub const SERVERS: u16 = 1;
/// How often next hops that are known are asked for again, so that the platform keeps them; and how soon
/// those for which there was no room.
const KEEP: Nanos = Nanos::from_secs(60);
const SOON: Nanos = Nanos::from_millis(100);

/// Both links.
pub struct Links {
    next: NextHops,
    /// Whether the devices' table was looked at.
    pub was_updated: bool,
    /// How clients beyond a router are reached, by IPv4 and IPv6; `Unknown` when that has to be asked for.
    back: [Way; 2],
    /// Networks of IPv4 that clients' device is on: first address and mask, as packets have them.
    on_link: Vec<(u32, u32)>,
    /// Next hops that packets go to without asking.
    kept: BTreeSet<(u16, IpAddr)>,
    keep_at: Nanos,
    /// The last one of `kept` that was asked for in this round.
    asked: Option<(u16, IpAddr)>,
}

fn way(devices: &Devices, interface: u16, hop: IpAddr) -> Way {
    match devices.link(interface, hop) {
        Link::Known { source, destination } => {
            let mut addresses = [0; 12];
            addresses[..6].copy_from_slice(&destination);
            addresses[6..].copy_from_slice(&source);
            Way::Known(addresses)
        }
        Link::Unknown | Link::Unreachable => Way::Unknown,
    }
}

impl Links {
    /// Of which nothing is known yet. `no_neighbour` is the place of that drop reason.
    pub fn new(no_neighbour: u16) -> Links {
        Links {
            next: NextHops::new(no_neighbour),
            was_updated: false,
            back: [Way::AsIs; 2],
            on_link: Vec::new(),
            kept: BTreeSet::new(),
            keep_at: Nanos(0),
            asked: None,
        }
    }

    /// The device behind an interface, if it has an Ethernet address.
    pub fn device(&self, interface: u16) -> Option<&Interface> {
        self.next.devices().interface(interface).filter(|behind| behind.mac.is_some())
    }

    /// The address of the servers' device that checks of a server come from.
    pub fn source_for(&self, server: IpAddr) -> Option<IpAddr> {
        let own = &self.device(SERVERS)?.addresses;
        let near = own
            .iter()
            .find(|(address, length)| Prefix { address: *address, length: *length }.contains(server));
        let any = || {
            own.iter().find(|(own, _)| {
                let is_link_local = matches!(own, IpAddr::V6(six) if six.is_unicast_link_local());
                own.is_ipv4() == server.is_ipv4() && !is_link_local
            })
        };
        near.or_else(any).map(|(own, _)| *own)
    }

    /// Takes over what the platform tells of the devices.
    pub fn update(&mut self, services: &mut Services, host: &mut Host, now: Nanos) {
        self.was_updated = true;
        self.next.update(host, now);
        self.kept.clear();
        self.on_link.clear();
        let devices = self.next.devices();
        let with_mac = |interface: u16| devices.interface(interface).filter(|behind| behind.mac.is_some());
        let behind = with_mac(SERVERS);
        for (server, rewrite) in services.servers.iter().zip(&mut services.rewrites) {
            rewrite.way = match (server.mac, behind) {
                (Some(mac), None) => Way::Onward(mac),
                (Some(mac), Some(behind)) => {
                    let mut addresses = [0; 12];
                    addresses[..6].copy_from_slice(&mac);
                    addresses[6..].copy_from_slice(&behind.mac.unwrap_or_default());
                    Way::Known(addresses)
                }
                (None, None) if rewrite.is_direct => Way::Unknown,
                (None, None) => Way::AsIs,
                (None, Some(behind)) => {
                    let hop = behind.next_hop(server.address);
                    self.kept.insert((SERVERS, hop));
                    way(devices, SERVERS, hop)
                }
            };
        }
        self.back = [Way::AsIs; 2];
        if let Some(behind) = with_mac(CLIENTS) {
            for (place, is_v4) in self.back.iter_mut().zip([true, false]) {
                let router = behind.gateways.iter().find(|router| router.is_ipv4() == is_v4);
                *place = router.map_or(Way::Unknown, |router| way(devices, CLIENTS, *router));
                self.kept.extend(router.map(|router| (CLIENTS, *router)));
            }
            for (own, length) in &behind.addresses {
                if let IpAddr::V4(own) = own {
                    let mask = u32::MAX.checked_shl(32 - u32::from((*length).min(32))).unwrap_or(0);
                    self.on_link.push(((own.to_bits() & mask).swap_bytes(), mask.swap_bytes()));
                }
            }
        }
        // At the next occasion.
        self.keep_at = self.keep_at.min(now.saturating_add(KEEP));
    }

    /// How a client of IPv4 is reached; `Unknown` where [`Links::to_client`] has to find out.
    #[inline(always)]
    pub fn back4(&self, client: u32) -> &Way {
        if self.on_link.iter().any(|(network, mask)| client & mask == *network) {
            &Way::Unknown
        } else {
            &self.back[0]
        }
    }

    /// Asks again for next hops that packets go to without asking.
    pub fn keep(&mut self, host: &mut Host, now: Nanos) {
        if now < self.keep_at {
            return;
        }
        for hop in &self.kept {
            if self.asked.is_some_and(|asked| *hop <= asked) {
                continue;
            }
            if host.ask(hop.0, hop.1).is_err() {
                self.keep_at = now.saturating_add(SOON);
                return;
            }
            self.asked = Some(*hop);
        }
        self.asked = None;
        self.keep_at = now.saturating_add(KEEP);
    }

    /// When [`Links::keep`] has something to do.
    pub fn next_keep(&self) -> Option<Nanos> {
        (!self.kept.is_empty()).then_some(self.keep_at)
    }

    /// Sends a packet to a server or a client. Where the next hop is not known it waits.
    pub fn send(
        &mut self,
        host: &mut Host,
        packet: &mut Packet<'_>,
        interface: u16,
        address: IpAddr,
        now: Nanos,
    ) -> Sent {
        let hop = self.device(interface).map_or(address, |behind| behind.next_hop(address));
        self.next.send(host, packet, interface, hop, now)
    }

    /// The way to an address, if it is known.
    pub fn way(&self, interface: u16, address: IpAddr) -> Option<Way> {
        let Some(behind) = self.device(interface) else { return Some(Way::AsIs) };
        let way = way(self.next.devices(), interface, behind.next_hop(address));
        (way != Way::Unknown).then_some(way)
    }

    /// Asks for the next hop to an address.
    pub fn ask(&self, host: &mut Host, interface: u16, address: IpAddr) {
        let hop = self.device(interface).map_or(address, |behind| behind.next_hop(address));
        // What cannot be asked now is asked with the next check.
        let _ = host.ask(interface, hop);
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.next.held()
    }
}

/// Writes the Ethernet addresses of a way that is known; false when they are not.
#[inline(always)]
pub fn write(frame: &mut [u8], way: &Way) -> bool {
    let Some(header) = frame.first_chunk_mut::<12>() else { return false };
    match way {
        Way::AsIs => {}
        Way::Known(addresses) => *header = *addresses,
        Way::Onward(mac) => {
            header.copy_within(..6, 6);
            header[..6].copy_from_slice(mac);
        }
        Way::Unknown => return false,
    }
    true
}

/// Whether an address is one of a device's own.
pub fn is_own(behind: &Interface, address: &Words, is_v6: bool) -> bool {
    behind.has(crate::ends::address(*address, is_v6))
}
