//! The network that carries the tunnels: this endpoint's own addresses, and the way to the others.
//!
//! The next hop of an endpoint is the endpoint itself where it is on the link, else the gateway. Its Ethernet
//! address is the configuration's, or the platform finds it out by the device behind the interface, and
//! packets wait for that ([`NextHops`]).

use crate::VXLAN;
use crate::endpoints::Mac;
use crate::metrics::Reason;
use crate::outer::Outer;
use alloc::collections::BTreeMap;
use alloc::format;
use core::net::IpAddr;
use nf_sdk::devices::{self, NextHops, Sent};
use nf_sdk::{Host, Nanos, Packet, Severity, Slot, Verdict};

/// Longest outer packet where neither the configuration nor the device says how long one may be.
const MTU: u32 = 1500;

/// What the configuration says.
#[derive(Clone, Debug)]
pub struct UnderlaySettings {
    /// Its own address.
    pub local: IpAddr,
    /// Its own Ethernet address.
    pub mac: Option<Mac>,
    /// Ethernet addresses that the platform is not asked for.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    /// The router to endpoints that are not on the link.
    pub gateway: Option<IpAddr>,
    /// The UDP port of VXLAN.
    pub port: u16,
    /// Time to live.
    pub ttl: u8,
    /// Differentiated services, 0 to 63.
    pub dscp: u8,
    /// Longest outer IP packet.
    pub mtu: Option<u32>,
    /// Whether UDP over IPv6 may have no checksum.
    pub zero_checksum: bool,
}

/// The network that carries the tunnels.
#[derive(Debug)]
pub struct Underlay {
    settings: UnderlaySettings,
    next: NextHops,
}

impl Underlay {
    /// Without anything known of its device.
    pub fn new(settings: UnderlaySettings) -> Underlay {
        Underlay { settings, next: NextHops::new(Reason::NoNeighbour as u16) }
    }

    /// What the configuration says.
    pub fn settings(&self) -> &UnderlaySettings {
        &self.settings
    }

    /// The table of the device has changed.
    pub fn update(&mut self, host: &mut Host, now: Nanos) {
        self.next.update(host, now);
        let local = self.settings.local;
        // An address that is not known yet to be the device's alone is not told; a link-local one often is
        // before.
        let is_like_local = |address: &IpAddr| match address {
            IpAddr::V4(_) => local.is_ipv4(),
            IpAddr::V6(six) => local.is_ipv6() && !six.is_unicast_link_local(),
        };
        if let Some(device) = self.next.devices().interface(VXLAN)
            && device.addresses.iter().any(|(address, _)| is_like_local(address))
            && !device.has(local)
        {
            let line = format!("local: {local} is no address of the device at `vxlan`");
            host.log(Severity::Warning, &line);
        }
    }

    /// Its own Ethernet address; `None` where neither the configuration nor the device has one.
    pub fn mac(&self) -> Option<Mac> {
        self.settings.mac.or_else(|| self.next.devices().interface(VXLAN)?.mac)
    }

    /// Longest outer IP packet, in bytes.
    pub fn mtu(&self) -> usize {
        let device = || self.next.devices().interface(VXLAN).map(|device| device.mtu).filter(|mtu| *mtu != 0);
        self.settings.mtu.or_else(device).unwrap_or(MTU) as usize
    }

    /// Packets that wait for a neighbour.
    pub fn held(&self) -> usize {
        self.next.held()
    }

    /// What the headers of a packet to an endpoint say.
    pub fn outer(&self, remote: IpAddr, vni: u32, hash: u32, ecn: u8) -> Outer {
        let UnderlaySettings { local, port, ttl, dscp, zero_checksum, .. } = self.settings;
        let traffic_class = dscp << 2 | ecn & 3;
        Outer { local, remote, vni, port, ttl, traffic_class, hash, is_unsummed: zero_checksum }
    }

    /// Sends a packet of its own accord or one that came in: where the Ethernet address is known without
    /// asking, this writes both.
    fn write_known(&self, packet: &mut [u8], next: IpAddr) -> bool {
        let known = || self.settings.neighbours.get(&next).copied().or_else(|| devices::group_mac(next));
        let (Some(source), Some(destination)) = (self.mac(), known()) else { return false };
        let Some(addresses) = packet.first_chunk_mut::<12>() else { return false };
        addresses[..6].copy_from_slice(&destination);
        addresses[6..].copy_from_slice(&source);
        true
    }

    /// Sends a packet with its headers to an endpoint, and gives its verdict.
    pub fn send(&mut self, host: &mut Host, packet: &mut Packet<'_>, remote: IpAddr, now: Nanos) -> Sent {
        let next = self.next_hop(remote);
        if self.write_known(packet.bytes_mut(), next) {
            packet.verdict(Verdict::Interface(VXLAN));
            return Sent::Sent;
        }
        self.next.send(host, packet, VXLAN, next, now)
    }

    /// The same of a packet that the function made.
    pub fn send_own(&mut self, host: &mut Host, slot: Slot, remote: IpAddr, now: Nanos) -> Sent {
        let next = self.next_hop(remote);
        if host.held(&slot).is_some_and(|packet| self.write_known(packet, next)) {
            let sent = host.emit(slot, Verdict::Interface(VXLAN), 0);
            return sent.map_or(Sent::Dropped, |()| Sent::Sent);
        }
        self.next.send_own(host, slot, VXLAN, next, now)
    }

    /// The address on the link that packets to an endpoint go to.
    fn next_hop(&self, remote: IpAddr) -> IpAddr {
        if remote.is_multicast() || self.settings.neighbours.contains_key(&remote) {
            return remote;
        }
        let Some(device) = self.next.devices().interface(VXLAN) else {
            return self.settings.gateway.unwrap_or(remote);
        };
        match self.settings.gateway {
            Some(gateway) if !device.is_on_link(remote) => gateway,
            _ => device.next_hop(remote),
        }
    }
}
