//! Which packets a station gets, by their first bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, RwLock};

/// Bytes that are looked at.
pub(super) const HEAD: usize = 64;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// It goes on: it is not of a neighbour protocol, or for others.
    Pass,
    /// It goes on, and the station gets a copy: it is for all on the link.
    Copy,
    /// The station gets it, and nothing else does.
    All,
}

/// What a station is known by.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Whether answers of a DHCP server are for it.
    pub dhcp: bool,
    /// Its addresses: it answers echo requests to them. They may change at any time.
    pub addresses: Arc<RwLock<Vec<IpAddr>>>,
}

impl Identity {
    /// Who gets a packet with these first bytes: ARP, neighbour discovery, IGMP and MLD, echo requests to one of
    /// its addresses, answers of a DHCP server.
    pub(super) fn select(&self, head: &[u8]) -> Take {
        let Some((ethernet, packet)) = head.split_first_chunk::<14>() else { return Take::Pass };
        let is_group = ethernet[0] & 1 != 0;
        let take = match (is_group, ethernet[..6] == self.mac) {
            (true, _) => Take::Copy,
            (_, true) => Take::All,
            _ => return Take::Pass,
        };
        let is_ours = match (ethernet[12], ethernet[13]) {
            (0x08, 0x06) => true,
            (0x08, 0x00) => self.wants_v4(packet),
            (0x86, 0xdd) => self.wants_v6(packet),
            _ => false,
        };
        if is_ours { take } else { Take::Pass }
    }

    fn wants_v4(&self, packet: &[u8]) -> bool {
        let Some(header) = packet.first_chunk::<20>() else { return false };
        let rest = packet.get(usize::from(header[0] & 15) * 4..).unwrap_or_default();
        // Fragments are functions' business.
        if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
            return false;
        }
        match header[9] {
            1 => {
                let [.., a, b, c, d] = *header;
                rest.first() == Some(&8) && self.has(Ipv4Addr::new(a, b, c, d).into())
            }
            2 => true,
            17 => self.dhcp && rest.starts_with(&[0, 67, 0, 68]),
            _ => false,
        }
    }

    fn wants_v6(&self, packet: &[u8]) -> bool {
        let Some((header, mut rest)) = packet.split_first_chunk::<40>() else { return false };
        let mut next = header[6];
        // MLD has one with a router alert in front (RFC 3810, section 5).
        if next == 0 && rest.get(1) == Some(&0) {
            next = rest[0];
            rest = rest.get(8..).unwrap_or_default();
        }
        match rest.first() {
            _ if next != 58 => false,
            Some(128) => {
                let [.., a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *header;
                self.has(Ipv6Addr::from([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]).into())
            }
            Some(130..=137 | 143) => true,
            _ => false,
        }
    }

    /// Whether an address is the station's. A worker waits for no lock: while they are changed it has none.
    fn has(&self, address: IpAddr) -> bool {
        self.addresses.try_read().is_ok_and(|addresses| addresses.contains(&address))
    }
}
