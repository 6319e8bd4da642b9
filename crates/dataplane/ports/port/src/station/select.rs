//! Which packets a station gets, by their first bytes.

use super::tunnel::Tunnel;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, RwLock};

/// Bytes that are looked at.
pub(super) const HEAD: usize = 72;
/// The same of a frame that is the station's: the target of a neighbour advertisement is among them.
pub(super) const LONG_HEAD: usize = 96;

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;

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

/// What a station has asked for. Answers to it have a budget of their own, so that a storm of other frames,
/// answers that were not asked for among them, keeps nothing from being resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// Addresses that ARP or neighbour discovery was asked for.
    pub addresses: BTreeSet<IpAddr>,
    /// The exchange of DHCP that goes on, by its number (`xid`).
    pub exchange: Option<u32>,
}

/// The tag of an 802.1Q network, as it stands in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// 0x8100 or 0x88a8.
    pub ethertype: u16,
    /// Priority and number of the network.
    pub control: u16,
}

impl Tag {
    /// Bits of [`Tag::control`] that are the number.
    pub(super) const NUMBER: u16 = 0x0fff;

    /// A frame with the tag in it.
    pub(super) fn put_on(self, mut frame: Vec<u8>) -> Vec<u8> {
        let bytes = [self.ethertype.to_be_bytes(), self.control.to_be_bytes()].concat();
        if frame.len() >= 12 {
            frame.splice(12..12, bytes);
        }
        frame
    }

    /// A frame without the tag that is in it.
    pub(super) fn take_off(mut frame: Vec<u8>) -> Vec<u8> {
        if frame.len() >= 16 {
            frame.drain(12..16);
        }
        frame
    }
}

/// What a station is known by.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Whether answers of a DHCP server are for it.
    pub dhcp: bool,
    /// Whether what is behind it has its MAC address too, and asks neighbours itself: their answers go on.
    pub is_shared: bool,
    /// Its addresses: it answers echo requests to them. They may change at any time.
    pub addresses: Arc<RwLock<Vec<IpAddr>>>,
    /// What it waits for. It may change at any time.
    pub awaited: Arc<RwLock<Awaited>>,
    /// What its frames have around them.
    pub around: Around,
}

/// What frames of a station have around them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Around {
    /// Nothing: it is where frames have no tags.
    #[default]
    Nothing,
    /// The tag of the network that it is in.
    Tag(Tag),
    /// The tunnel that it is inside of.
    Tunnel(Arc<Tunnel>),
}

impl Identity {
    /// The tunnel that it is inside of.
    pub(super) fn tunnel(&self) -> Option<&Arc<Tunnel>> {
        match &self.around {
            Around::Tunnel(tunnel) => Some(tunnel),
            Around::Nothing | Around::Tag(_) => None,
        }
    }

    /// What gets a packet with these first bytes, of what is inside of its tunnel if it has one: ARP,
    /// neighbour discovery, IGMP and MLD, echo requests to one of its addresses, answers of a DHCP server.
    pub(super) fn select(&self, head: &[u8]) -> Take {
        let Some((ethernet, packet)) = head.split_first_chunk::<14>() else { return Take::Pass };
        let is_group = ethernet[0] & 1 != 0;
        let take = match (is_group, ethernet[..6] == self.mac) {
            (true, _) => Take::Copy,
            (_, true) => Take::All,
            _ => return Take::Pass,
        };
        let Some((ethertype, packet)) = self.payload(ethernet, packet) else { return Take::Pass };
        let is_ours = match ethertype {
            ARP => true,
            IPV4 => self.wants_v4(packet),
            IPV6 => self.wants_v6(packet),
            _ => false,
        };
        match is_ours {
            true if self.is_shared && is_answer(ethertype, packet) => Take::Copy,
            true => take,
            false => Take::Pass,
        }
    }

    /// What a frame of the station's network carries.
    fn payload<'a>(&self, ethernet: &[u8; 14], rest: &'a [u8]) -> Option<(u16, &'a [u8])> {
        let ethertype = u16::from_be_bytes([ethernet[12], ethernet[13]]);
        let Around::Tag(tag) = self.around else { return Some((ethertype, rest)) };
        let (&[a, b, c, d], packet) = rest.split_first_chunk::<4>()?;
        let is_of =
            ethertype == tag.ethertype && (u16::from_be_bytes([a, b]) ^ tag.control) & Tag::NUMBER == 0;
        is_of.then_some((u16::from_be_bytes([c, d]), packet))
    }

    /// Whether a frame that the station gets, of which these are the first bytes, answers what it asked.
    /// While that is changed nothing does.
    pub(super) fn awaits(&self, head: &[u8]) -> bool {
        let Ok(awaited) = self.awaited.try_read() else { return false };
        let found = || {
            let (ethernet, packet) = head.split_first_chunk::<14>()?;
            let (ethertype, packet) = self.payload(ethernet, packet)?;
            let address = match ethertype {
                ARP if packet.get(6..8)? == [0, 2] => {
                    Ipv4Addr::from(*packet.get(14..)?.first_chunk::<4>()?).into()
                }
                IPV6 if packet.get(6) == Some(&58) && packet.get(40) == Some(&136) => {
                    Ipv6Addr::from(*packet.get(48..)?.first_chunk::<16>()?).into()
                }
                IPV4 if packet.get(9) == Some(&17) => {
                    let data = packet.get(usize::from(packet[0] & 15) * 4 + 8..)?;
                    let exchange = u32::from_be_bytes(*data.get(4..)?.first_chunk::<4>()?);
                    return Some(awaited.exchange == Some(exchange));
                }
                _ => return None,
            };
            Some(awaited.addresses.contains(&address))
        };
        found().unwrap_or(false)
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

/// Whether a packet of a neighbour protocol answers a question of ARP or neighbour discovery.
fn is_answer(ethertype: u16, packet: &[u8]) -> bool {
    match ethertype {
        ARP => packet.get(6..8) == Some(&[0, 2]),
        IPV6 => packet.get(6) == Some(&58) && matches!(packet.get(40), Some(134 | 136)),
        _ => false,
    }
}
