//! Captures of other links than Ethernet: what stands before the packet is replaced by an Ethernet header.
//!
//! Link types are those of tcpdump.org, "Link-layer header types". Addresses that the link's header does not
//! have are made up, locally administered.

use super::capture::LINK_TYPE_ETHERNET;

/// Bytes of an Ethernet header.
pub const HEADER: usize = 14;
/// Source and destination where the capture has none.
const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 2];
const BROADCAST: [u8; 6] = [0xff; 6];

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// What Linux writes instead of an EtherType for a frame that has a length and LLC.
const LLC: u16 = 4;
/// How Linux marks packets to everyone in a cooked header.
const TO_ALL: u16 = 1;

/// What stands before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header.
    Ethernet,
    /// Nothing: IPv4 or IPv6.
    Raw,
    /// The address family in four bytes, of the byte order of the capturing host.
    Loopback,
    /// The header that Linux writes for the interface `any`.
    Cooked,
    /// Its second version.
    Cooked2,
}

/// The Ethernet header in place of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The header.
    pub header: [u8; HEADER],
    /// Bytes at the packet's beginning that it replaces.
    pub skip: usize,
}

impl Link {
    /// The link of a type; `None` when its packets can be given no Ethernet header.
    pub const fn of(link_type: u16) -> Option<Link> {
        Some(match link_type {
            LINK_TYPE_ETHERNET => Link::Ethernet,
            12 | 14 | 101 | 228 | 229 => Link::Raw,
            0 | 108 => Link::Loopback,
            113 => Link::Cooked,
            276 => Link::Cooked2,
            _ => return None,
        })
    }

    /// The header that a packet gets; `None` when it is cut before its end, or carries what has no EtherType.
    pub fn replace(self, bytes: &[u8]) -> Option<Replaced> {
        let half = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let (ethertype, skip, source, to_all) = match self {
            Link::Ethernet => return None,
            Link::Raw => (version(*bytes.first()?)?, 0, SOURCE, false),
            Link::Loopback => (family(bytes.first_chunk()?)?, 4, SOURCE, false),
            Link::Cooked => (half(14)?, 16, address(half(4)?, bytes.get(6..)?), half(0)? == TO_ALL),
            Link::Cooked2 => {
                let length = u16::from(*bytes.get(11)?);
                (half(0)?, 20, address(length, bytes.get(12..)?), u16::from(*bytes.get(10)?) == TO_ALL)
            }
        };
        let rest = bytes.len().checked_sub(skip)?;
        let kind = match ethertype {
            LLC => u16::try_from(rest).ok().filter(|length| *length < 0x600)?,
            kind if kind >= 0x600 => kind,
            _ => return None,
        };
        let mut header = [0; HEADER];
        header[..6].copy_from_slice(if to_all { &BROADCAST } else { &DESTINATION });
        header[6..12].copy_from_slice(&source);
        header[12..].copy_from_slice(&kind.to_be_bytes());
        Some(Replaced { header, skip })
    }
}

/// IP by its version.
const fn version(first: u8) -> Option<u16> {
    match first >> 4 {
        4 => Some(IPV4),
        6 => Some(IPV6),
        _ => None,
    }
}

/// IP by the address family: 2 everywhere for IPv4; for IPv6 10 on Linux, 24, 28 and 30 on the BSDs and
/// macOS.
fn family(bytes: &[u8; 4]) -> Option<u16> {
    match u32::from_be_bytes(*bytes).min(u32::from_le_bytes(*bytes)) {
        2 => Some(IPV4),
        10 | 24 | 28 | 30 => Some(IPV6),
        _ => None,
    }
}

/// An Ethernet address, where that is what the header has.
fn address(length: u16, bytes: &[u8]) -> [u8; 6] {
    bytes.first_chunk().copied().filter(|_| length == 6).unwrap_or(SOURCE)
}
