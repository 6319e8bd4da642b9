//! What is configured for one virtual device, checked before anything is sent.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Addresses, and groups, of one device at most.
pub const MAX_ADDRESSES: usize = 64;
/// Networks in which addresses of openers count, at most, and bits of their prefixes (RFC 4862 section
/// 5.5.3).
pub const MAX_SLAAC: usize = 16;
const SLAAC_LENGTH: u8 = 64;
/// Entries of a table: at least, at most.
pub const CAPACITY: std::ops::RangeInclusive<usize> = 16..=65_536;
/// Bytes of an IP packet: at least (RFC 791), at most.
pub const MTU: std::ops::RangeInclusive<u16> = 576..=65_535;
/// Bytes of an IP packet, at least, where there is IPv6 (RFC 8200 section 5).
pub const MIN_MTU_V6: u16 = 1280;

/// A link-layer address.
pub type Mac = [u8; 6];

/// An address with the length of its network's prefix: `192.0.2.9/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// Bits of the prefix: up to 32, or 128.
    pub length: u8,
}

impl Prefix {
    /// Whether an address is in the same network.
    pub fn contains(&self, other: IpAddr) -> bool {
        let (Some(a), Some(b)) = (bits(self.address, self.length), bits(other, self.length)) else {
            return false;
        };
        self.address.is_ipv4() == other.is_ipv4() && a == b
    }

    /// The broadcast address of an IPv4 network of at most 30 bits.
    pub fn broadcast(&self) -> Option<IpAddr> {
        match self.address {
            IpAddr::V4(address) if self.length <= 30 => {
                let host = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
                Some(IpAddr::V4((u32::from(address) | host).into()))
            }
            _ => None,
        }
    }
}

/// The first `length` bits of an address; none when it has fewer.
fn bits(address: IpAddr, length: u8) -> Option<u128> {
    let (bits, width) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let rest = u32::from(u8::checked_sub(width, length)?);
    Some(bits.checked_shr(rest).unwrap_or(0))
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A rate of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Frames in a second, at least 1.
    pub per_second: u32,
    /// Frames at once after a pause, at least 1.
    pub burst: u32,
}

/// What a device may send and process at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Frames that the device sends of its own accord: asks, probes, announcements, DHCP, reports.
    pub sent: Rate,
    /// Frames that answer what others sent: ARP replies, advertisements, echo replies.
    pub answers: Rate,
    /// Frames that are looked at beyond those that answer an outstanding ask.
    pub processed: Rate,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sent: Rate { per_second: 200, burst: 100 },
            answers: Rate { per_second: 500, burst: 100 },
            processed: Rate { per_second: 5_000, burst: 1_000 },
        }
    }
}

/// What is configured for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its link-layer address.
    pub mac: Mac,
    /// Bytes of the largest IP packet.
    pub mtu: u16,
    /// Addresses that it has, with their networks.
    pub addresses: Vec<Prefix>,
    /// Routers that are configured, used before those that are learned.
    pub gateways: Vec<IpAddr>,
    /// Whether it gets an IPv4 address by DHCP.
    pub dhcp: bool,
    /// Groups that it joins.
    pub multicast: Vec<IpAddr>,
    /// Whether there is IPv6: a link-local address, neighbour discovery, MLD.
    pub ipv6: bool,
    /// Whether addresses, routers and the MTU are taken from router advertisements.
    pub router_advertisements: bool,
    /// Neighbours that it knows or asks for at most.
    pub capacity: usize,
    /// Networks of 64 bits in which what opens the device may form addresses of its own, as long as a router
    /// advertises them for that: see [`Device::claim`](crate::Device::claim).
    pub slaac: Vec<Prefix>,
    /// What it may send and process.
    pub limits: Limits,
}

impl Settings {
    /// Whether an address is in one of the networks of `slaac`.
    pub fn may_be_formed(&self, address: IpAddr) -> bool {
        self.slaac.iter().any(|prefix| prefix.contains(address))
    }

    /// A device with this link-layer address, an MTU of 1,500 bytes, 1,024 neighbours, IPv6 by router
    /// advertisements, and nothing else.
    pub fn new(mac: Mac) -> Settings {
        Settings {
            mac,
            mtu: 1500,
            addresses: Vec::new(),
            gateways: Vec::new(),
            dhcp: false,
            multicast: Vec::new(),
            ipv6: true,
            router_advertisements: true,
            capacity: 1024,
            slaac: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Checks them.
    ///
    /// # Errors
    /// The first setting that is not allowed.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.mac[0] & 1 != 0 || self.mac == [0; 6] {
            return Err(SettingsError::Mac(self.mac));
        }
        if !MTU.contains(&self.mtu) {
            return Err(SettingsError::Mtu(self.mtu));
        }
        if self.ipv6 && self.mtu < MIN_MTU_V6 {
            return Err(SettingsError::MtuV6(self.mtu));
        }
        if !CAPACITY.contains(&self.capacity) {
            return Err(SettingsError::Capacity(self.capacity));
        }
        for (what, count) in [
            ("addresses", self.addresses.len()),
            ("gateways", self.gateways.len()),
            ("multicast", self.multicast.len()),
        ] {
            if count > MAX_ADDRESSES {
                return Err(SettingsError::TooMany { what, count });
            }
        }
        let mut seen = BTreeSet::new();
        for prefix in &self.addresses {
            let width = if prefix.address.is_ipv4() { 32 } else { 128 };
            if prefix.length == 0 || prefix.length > width {
                return Err(SettingsError::Length(*prefix));
            }
            let network = prefix.length < width - 1 && bits_below(prefix) == 0 && prefix.address.is_ipv4();
            if !is_unicast(prefix.address) || prefix.broadcast() == Some(prefix.address) || network {
                return Err(SettingsError::Address(prefix.address));
            }
            if prefix.address.is_ipv6() && !self.ipv6 {
                return Err(SettingsError::NoIpv6(prefix.address));
            }
            if !seen.insert(prefix.address) {
                return Err(SettingsError::Twice(prefix.address));
            }
        }
        for gateway in &self.gateways {
            if !is_unicast(*gateway) || seen.contains(gateway) {
                return Err(SettingsError::Address(*gateway));
            }
        }
        for group in &self.multicast {
            if !group.is_multicast() {
                return Err(SettingsError::Group(*group));
            }
            if group.is_ipv6() && !self.ipv6 {
                return Err(SettingsError::NoIpv6(*group));
            }
            if !seen.insert(*group) {
                return Err(SettingsError::Twice(*group));
            }
        }
        if self.slaac.len() > MAX_SLAAC {
            return Err(SettingsError::TooManyNetworks(self.slaac.len()));
        }
        for (n, prefix) in self.slaac.iter().enumerate() {
            let IpAddr::V6(network) = prefix.address else { return Err(SettingsError::Slaac(*prefix)) };
            let is_network = prefix.length == SLAAC_LENGTH && network.to_bits() << SLAAC_LENGTH == 0;
            if !is_network || !is_unicast(prefix.address) || network.is_unicast_link_local() {
                return Err(SettingsError::Slaac(*prefix));
            }
            if !self.ipv6 || !self.router_advertisements {
                return Err(SettingsError::NoIpv6(prefix.address));
            }
            if self.slaac[..n].contains(prefix) {
                return Err(SettingsError::Twice(prefix.address));
            }
        }
        let rates = [self.limits.sent, self.limits.answers, self.limits.processed];
        if rates.iter().any(|rate| rate.per_second == 0 || rate.burst == 0) {
            return Err(SettingsError::Rate);
        }
        Ok(())
    }
}

/// The bits of an IPv4 address behind its prefix.
fn bits_below(prefix: &Prefix) -> u32 {
    match prefix.address {
        IpAddr::V4(address) => u32::from(address) & u32::MAX.checked_shr(prefix.length.into()).unwrap_or(0),
        IpAddr::V6(_) => 0,
    }
}

/// Whether an address can be one host's.
pub fn is_unicast(address: IpAddr) -> bool {
    let special = match address {
        IpAddr::V4(address) => {
            address.is_broadcast() || address.octets()[0] == 0 || address.octets()[0] >= 240
        }
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some(),
    };
    !(special || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// The link-local address that is made of a link-layer address (RFC 4291 appendix A).
pub(crate) fn link_local(mac: Mac) -> Ipv6Addr {
    with_interface([0xfe, 0x80, 0, 0, 0, 0, 0, 0], mac)
}

/// An address of 64 bits of prefix and the modified EUI-64 of a link-layer address.
pub(crate) fn with_interface(prefix: [u8; 8], mac: Mac) -> Ipv6Addr {
    let [p0, p1, p2, p3, p4, p5, p6, p7] = prefix;
    let [a, b, c, d, e, f] = mac;
    Ipv6Addr::from([p0, p1, p2, p3, p4, p5, p6, p7, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// A link-layer address as people write it.
struct Shown(Mac);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Why settings are not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Of a group, or zero.
    #[error("`mac` {}; allowed: the address of one station, not zero", Shown(*.0))]
    Mac(Mac),
    /// Too small or too large.
    #[error("`mtu` {0}; allowed: {min} to {max}", min = MTU.start(), max = MTU.end())]
    Mtu(u16),
    /// Too small for IPv6.
    #[error("`mtu` {0}; allowed with IPv6: at least {MIN_MTU_V6}")]
    MtuV6(u16),
    /// Too few or too many entries.
    #[error("{0} neighbours; allowed: {min} to {max}", min = CAPACITY.start(), max = CAPACITY.end())]
    Capacity(usize),
    /// Too many of something.
    #[error("{count} {what}; allowed: {MAX_ADDRESSES}")]
    TooMany {
        /// The setting.
        what: &'static str,
        /// How many there are.
        count: usize,
    },
    /// A prefix of no bits, or of more than the address has.
    #[error("{0}: allowed are 1 to 32 bits for IPv4, 1 to 128 for IPv6")]
    Length(Prefix),
    /// Not the address of one host.
    #[error("{0}; allowed: the address of one host")]
    Address(IpAddr),
    /// Too many networks of `slaac`.
    #[error("{0} networks of `slaac`; allowed: {MAX_SLAAC}")]
    TooManyNetworks(usize),
    /// Not a network in which addresses can be formed.
    #[error(
        "`slaac` {0}; allowed: networks of IPv6 with prefixes of 64 bits, such as 2001:db8:7::/64, and not fe80::/10"
    )]
    Slaac(Prefix),
    /// Not the address of a group.
    #[error("`multicast` {0}; allowed: 224.0.0.0/4, ff00::/8")]
    Group(IpAddr),
    /// Of IPv6, which is switched off.
    #[error("{0}: the device has no IPv6")]
    NoIpv6(IpAddr),
    /// The same twice.
    #[error("{0} is there twice")]
    Twice(IpAddr),
    /// A rate of nothing.
    #[error("a rate of 0 frames; allowed: at least 1 frame in a second, and at once")]
    Rate,
}
