//! What is inside of a packet: the headers by which one packet carries another.
//!
//! 1. [`dissect`](crate::dissect) reads a frame up to its packet: the outermost [`Level`].
//! 2. [`Tunnels::inside`] looks into a level: it says what packet is inside, or that there is none.
//! 3. So on until there is none, or [`MAX_LEVELS`] are passed. A level's [`Path`] tells flows apart that have
//!    the same addresses and ports in different tunnels.
//!
//! Which header follows is decided by EtherType, by protocol number, or by the destination port of UDP (VXLAN
//! and Geneve), and for MPLS, which does not say, by the first four bits behind the labels. A fragment is not
//! looked into; [`Tunnels::may_begin_in`] tells one in which a tunnel may begin. What is inside of a cut
//! packet is cut as well.

use crate::dissection::{Dissection, Fragment, Network, Transport, dissect_at, network};
use crate::error::{Layer, ParseError, ensure};
use crate::ethernet::{Tags, ethertype};
use crate::field_access::{clipped, u8_at, u16_at, u32_at};
use crate::protocol;

/// Tunnels inside of one another that are looked into.
pub const MAX_LEVELS: usize = 4;
/// MPLS labels that are looked behind.
pub const MAX_LABELS: usize = 16;
/// UDP ports of a kind.
pub const MAX_PORTS: usize = 4;
/// The port of VXLAN, RFC 7348.
pub const VXLAN_PORT: u16 = 4789;
/// The port of Geneve, RFC 8926.
pub const GENEVE_PORT: u16 = 6081;

/// A kind of tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tunnel {
    /// PPPoE, RFC 2516; identified by its session.
    Pppoe = 1,
    /// MPLS, RFC 3032, by EtherType or in IP (RFC 4023), with Ethernet behind a control word (RFC 4448) too;
    /// identified by the bottom label.
    Mpls = 2,
    /// GRE, RFC 2784, RFC 2890, and version 1 of RFC 2637; identified by its key or call.
    Gre = 3,
    /// IPv4 or IPv6 directly in IP.
    IpInIp = 4,
    /// VXLAN, RFC 7348, with the next protocol of VXLAN-GPE; identified by its network.
    Vxlan = 5,
    /// Geneve, RFC 8926; identified by its network.
    Geneve = 6,
    /// Network service header, RFC 8300; identified by service path and index.
    Nsh = 7,
    /// ERSPAN of types I, II and III, with the GRE that carries it; identified by its session.
    Erspan = 8,
}

impl Tunnel {
    /// Every kind.
    pub const ALL: [Tunnel; 8] = [
        Tunnel::Pppoe,
        Tunnel::Mpls,
        Tunnel::Gre,
        Tunnel::IpInIp,
        Tunnel::Vxlan,
        Tunnel::Geneve,
        Tunnel::Nsh,
        Tunnel::Erspan,
    ];

    /// The name in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Tunnel::Pppoe => "pppoe",
            Tunnel::Mpls => "mpls",
            Tunnel::Gre => "gre",
            Tunnel::IpInIp => "ip-in-ip",
            Tunnel::Vxlan => "vxlan",
            Tunnel::Geneve => "geneve",
            Tunnel::Nsh => "nsh",
            Tunnel::Erspan => "erspan",
        }
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Tunnel> {
        Tunnel::ALL.into_iter().find(|tunnel| tunnel.name() == name)
    }
}

/// The way to a packet: the kinds of the tunnels that it is in, and what identifies the innermost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path {
    /// Four bits each, the innermost lowest.
    kinds: u16,
    id: u32,
}

impl Path {
    /// Of a packet in no tunnel.
    pub const OUTSIDE: Path = Path { kinds: 0, id: 0 };

    /// Tunnels around the packet.
    pub const fn depth(self) -> usize {
        (u16::BITS - self.kinds.leading_zeros()).div_ceil(4) as usize
    }

    /// The innermost tunnel.
    pub fn tunnel(self) -> Option<Tunnel> {
        Tunnel::ALL.into_iter().find(|tunnel| *tunnel as u16 == self.kinds & 15)
    }

    /// What identifies the innermost tunnel, 0 where nothing does.
    pub const fn id(self) -> u32 {
        self.id
    }

    /// The path as one number, which is 0 in no tunnel alone.
    pub const fn to_bits(self) -> u64 {
        (self.kinds as u64) << 32 | self.id as u64
    }

    /// The path of a number; `None` when it is no path's.
    pub fn from_bits(bits: u64) -> Option<Path> {
        let (kinds, id) = (u16::try_from(bits >> 32).ok()?, bits as u32);
        let path = Path { kinds, id };
        let known = (0..path.depth()).all(|level| (1..=8).contains(&(kinds >> (4 * level) & 15)));
        (known && (kinds != 0 || id == 0)).then_some(path)
    }

    const fn into(self, tunnel: Tunnel, id: u32) -> Path {
        Path { kinds: self.kinds << 4 | tunnel as u16, id }
    }
}

/// A packet, and where in a frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The way to it.
    pub path: Path,
    /// What was read of it. Offsets are from the frame's first byte.
    pub dissection: Dissection,
    /// Where the bytes end that it may reach to: the end of the packet around it.
    end: usize,
    /// Where its Ethernet header begins, if it has one.
    ethernet: Option<usize>,
}

impl Level {
    /// What [`dissect`](crate::dissect) has found in a frame of so many bytes.
    #[inline]
    pub const fn outermost(dissection: Dissection, length: usize) -> Level {
        Level { path: Path::OUTSIDE, dissection, end: length, ethernet: Some(0) }
    }

    /// Where its Ethernet header begins; `None` when a tunnel carries the packet without one.
    pub const fn ethernet(&self) -> Option<usize> {
        self.ethernet
    }

    /// Where the packet ends at the latest, whatever its own header says: with the packet around it.
    pub const fn limit(&self) -> usize {
        self.end
    }
}

/// What a tunnel says of that which it carries.
#[derive(Clone, Copy)]
enum Content {
    /// A frame.
    Ethernet,
    /// What this EtherType says.
    Type(u16),
    /// IP, of the version that its first four bits say.
    Ip,
}

/// A tunnel's header.
struct Header {
    tunnel: Tunnel,
    id: u32,
    length: usize,
    content: Content,
}

/// A header where it was found: `bytes` begin there, `at` bytes behind the frame's first, and end with the
/// packet.
struct Found<'a> {
    at: usize,
    bytes: &'a [u8],
    header: Header,
}

/// Which tunnels are looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnels {
    kinds: u16,
    vxlan: [u16; MAX_PORTS],
    geneve: [u16; MAX_PORTS],
    /// A bit for each port by its last six: most ports are told to be no tunnel's by it.
    near: u64,
}

impl Tunnels {
    /// None of them.
    pub const NONE: Tunnels = Tunnels { kinds: 0, vxlan: [0; MAX_PORTS], geneve: [0; MAX_PORTS], near: 0 };

    /// These kinds, VXLAN and Geneve by the destination ports that were assigned to them.
    pub fn new(kinds: impl IntoIterator<Item = Tunnel>) -> Tunnels {
        let kinds = kinds.into_iter().fold(0, |kinds, tunnel| kinds | 1 << tunnel as u16);
        Tunnels { kinds, ..Tunnels::NONE }.with_ports(&[VXLAN_PORT], &[GENEVE_PORT])
    }

    /// The kinds of these names, or the name that is of none.
    ///
    /// # Errors
    /// The name.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Tunnels, &'a str> {
        let kinds = names.into_iter().try_fold(0, |kinds, name| {
            Tunnel::of_name(name).map(|tunnel| kinds | 1 << tunnel as u16).ok_or(name)
        })?;
        Ok(Tunnels { kinds, ..Tunnels::NONE }.with_ports(&[VXLAN_PORT], &[GENEVE_PORT]))
    }

    /// With other destination ports of VXLAN and Geneve, the first [`MAX_PORTS`] of each.
    #[must_use]
    pub fn with_ports(mut self, vxlan: &[u16], geneve: &[u16]) -> Tunnels {
        for (list, ports) in [(&mut self.vxlan, vxlan), (&mut self.geneve, geneve)] {
            *list = [0; MAX_PORTS];
            for (place, port) in list.iter_mut().zip(ports) {
                *place = *port;
            }
        }
        let ports =
            |has: bool, list: [u16; MAX_PORTS]| list.into_iter().filter(move |port| has && *port != 0);
        let all =
            ports(self.has(Tunnel::Vxlan), self.vxlan).chain(ports(self.has(Tunnel::Geneve), self.geneve));
        self.near = all.fold(0, |near, port| near | 1 << (port & 63));
        self
    }

    /// Whether UDP to this port may be a tunnel: false for most ports that are none, at the cost of a shift.
    #[inline(always)]
    pub const fn is_near_port(&self, port: u16) -> bool {
        self.near >> (port & 63) & 1 != 0
    }

    /// Whether none is looked into.
    pub const fn is_none(&self) -> bool {
        self.kinds == 0
    }

    const fn has(&self, tunnel: Tunnel) -> bool {
        self.kinds >> tunnel as u16 & 1 != 0
    }

    /// Whether UDP to any port is a tunnel.
    pub const fn have_ports(&self) -> bool {
        self.near != 0
    }

    /// Whether UDP to this port is a tunnel.
    #[inline]
    pub fn is_port(&self, port: u16) -> bool {
        port != 0
            && self.is_near_port(port)
            && (self.has(Tunnel::Vxlan) && self.vxlan.contains(&port)
                || self.has(Tunnel::Geneve) && self.geneve.contains(&port))
    }

    /// Whether a packet of this protocol, to this port where it has ports, may be a tunnel.
    #[inline]
    pub fn may_carry(&self, protocol: u8, port: u16) -> bool {
        match protocol {
            protocol::UDP => self.is_port(port),
            protocol::IPV4 | protocol::IPV6 => self.has(Tunnel::IpInIp),
            protocol::GRE => self.has(Tunnel::Gre) || self.has(Tunnel::Erspan),
            protocol::MPLS => self.has(Tunnel::Mpls),
            _ => false,
        }
    }

    /// The packet inside of one; `None` when it is in none of these tunnels, or carries what cannot be looked
    /// into, as a tunnel's own messages. `frame` is the one whose first byte offsets count from.
    ///
    /// # Errors
    /// [`ParseError`] when a header is cut or impossible; [`ParseError::TooDeep`] when there is yet another
    /// tunnel in the last one that is looked into.
    #[inline]
    pub fn inside(&self, frame: &[u8], level: &Level) -> Result<Option<Level>, ParseError> {
        if self.may_be_in(level) { self.look(frame, level) } else { Ok(None) }
    }

    /// The kind of the tunnel that a packet carries, and what identifies it, whether or not what is inside
    /// can be read; `None` when it is in none of these tunnels, or has one's own messages.
    ///
    /// # Errors
    /// [`ParseError`] when the tunnel's header is cut or impossible.
    pub fn header(&self, frame: &[u8], level: &Level) -> Result<Option<(Tunnel, u32)>, ParseError> {
        if !self.may_be_in(level) {
            return Ok(None);
        }
        Ok(self.find(frame, level)?.map(|found| (found.header.tunnel, found.header.id)))
    }

    #[inline]
    fn may_be_in(&self, level: &Level) -> bool {
        match &level.dissection.network {
            Some(network) => network.fragment == Fragment::Whole && self.may_be_behind(network),
            None => match level.dissection.ethertype {
                ethertype::PPPOE_SESSION => self.has(Tunnel::Pppoe),
                ethertype::MPLS | ethertype::MPLS_UPSTREAM => self.has(Tunnel::Mpls),
                ethertype::NSH => self.has(Tunnel::Nsh),
                _ => false,
            },
        }
    }

    #[inline]
    fn may_be_behind(&self, network: &Network) -> bool {
        let port = match network.transport {
            Transport::Ports { destination, .. } => destination,
            Transport::Icmp { .. } | Transport::Opaque => 0,
        };
        self.may_carry(network.protocol, port)
    }

    /// Whether a packet is the first fragment of one that may be in one of these tunnels. What is inside goes
    /// on in others, which lack the port that tells.
    pub fn may_begin_in(&self, level: &Level) -> bool {
        let network = level.dissection.network.as_ref();
        network.is_some_and(|network| {
            matches!(network.fragment, Fragment::First { .. }) && self.may_be_behind(network)
        })
    }

    /// The header that comes next, where it begins, and the bytes from there to the packet's end.
    #[inline]
    fn find<'a>(&self, frame: &'a [u8], level: &Level) -> Result<Option<Found<'a>>, ParseError> {
        let Level { dissection, end, .. } = *level;
        let (at, end) = match dissection.network {
            Some(network) if network.protocol == protocol::UDP => {
                (network.l4_offset + 8, network.end.min(end))
            }
            Some(network) => (network.l4_offset, network.end.min(end)),
            None => (dissection.l3_offset, end),
        };
        let bytes = clipped(frame, at, end);
        let found = match dissection.network {
            Some(network) => self.in_packet(bytes, network.protocol, network.transport)?,
            None => of_ethertype(bytes, dissection.ethertype)?,
        };
        Ok(found.filter(|header| self.has(header.tunnel)).map(|header| Found { at, bytes, header }))
    }

    #[cold]
    fn look(&self, frame: &[u8], level: &Level) -> Result<Option<Level>, ParseError> {
        let path = level.path;
        let Some(Found { at, bytes, header }) = self.find(frame, level)? else { return Ok(None) };
        if path.depth() == MAX_LEVELS {
            return Err(ParseError::TooDeep);
        }
        ensure(Layer::Tunnel(header.tunnel), bytes, header.length)?;
        let at = at + header.length;
        let rest = clipped(bytes, header.length, bytes.len());
        let of_type = |ethertype| {
            let network = network(ethertype, rest, at)?;
            Ok((Dissection { ethertype, tags: Tags::NONE, l3_offset: at, network }, None))
        };
        let (dissection, ethernet) = match header.content {
            Content::Ethernet | Content::Type(ethertype::TRANSPARENT_ETHERNET) => {
                (dissect_at(rest, at)?, Some(at))
            }
            Content::Type(ethertype) => of_type(ethertype)?,
            Content::Ip => of_type(match rest.first().map(|first| first >> 4) {
                Some(6) => ethertype::IPV6,
                _ => ethertype::IPV4,
            })?,
        };
        let path = path.into(header.tunnel, header.id);
        Ok(Some(Level { path, dissection, end: at + rest.len(), ethernet }))
    }

    /// In IP, by protocol or port.
    fn in_packet(
        &self,
        bytes: &[u8],
        protocol: u8,
        transport: Transport,
    ) -> Result<Option<Header>, ParseError> {
        let plain = |ethertype| {
            Some(Header { tunnel: Tunnel::IpInIp, id: 0, length: 0, content: Content::Type(ethertype) })
        };
        Ok(match (protocol, transport) {
            (protocol::UDP, Transport::Ports { destination, .. }) => {
                if self.has(Tunnel::Vxlan) && self.vxlan.contains(&destination) {
                    vxlan(bytes)?
                } else {
                    geneve(bytes)?
                }
            }
            (protocol::IPV4, _) => plain(ethertype::IPV4),
            (protocol::IPV6, _) => plain(ethertype::IPV6),
            (protocol::GRE, _) => self.gre(bytes)?,
            (protocol::MPLS, _) => mpls(bytes)?,
            _ => None,
        })
    }

    /// RFC 2784, RFC 2890; version 1 RFC 2637. With source routes (RFC 1701) it is not understood.
    fn gre(&self, bytes: &[u8]) -> Result<Option<Header>, ParseError> {
        const CHECKSUM: u16 = 0x8000;
        const ROUTING: u16 = 0x4000;
        const KEY: u16 = 0x2000;
        const SEQUENCE: u16 = 0x1000;
        const ACKNOWLEDGEMENT: u16 = 0x0080;
        let layer = Layer::Tunnel(Tunnel::Gre);
        ensure(layer, bytes, 4)?;
        let (flags, kind) = (u16_at(bytes, 0..2), u16_at(bytes, 2..4));
        let field = |flag: u16| if flags & flag != 0 { 4 } else { 0 };
        let found = match flags & 7 {
            0 if flags & ROUTING == 0 => {
                let key_at = 4 + field(CHECKSUM);
                let length = key_at + field(KEY) + field(SEQUENCE);
                ensure(layer, bytes, length)?;
                if matches!(kind, ERSPAN | ERSPAN_III) && self.has(Tunnel::Erspan) {
                    return erspan(bytes, length, kind, flags & SEQUENCE != 0);
                }
                let id = if flags & KEY != 0 { u32_at(bytes, key_at..key_at + 4) } else { 0 };
                Some(Header { tunnel: Tunnel::Gre, id, length, content: Content::Type(kind) })
            }
            1 if kind == PPP_IN_GRE && flags & KEY != 0 => {
                let length = 8 + field(SEQUENCE) + field(ACKNOWLEDGEMENT);
                ensure(layer, bytes, length)?;
                let call = u32::from(u16_at(bytes, 6..8));
                // Without a payload it acknowledges alone.
                if flags & SEQUENCE == 0 { None } else { ppp(bytes, length, Tunnel::Gre, call)? }
            }
            _ => None,
        };
        Ok(found)
    }
}

/// ERSPAN of types I and II, and III, as GRE names them.
const ERSPAN: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;
/// PPP as GRE names it, RFC 2637 section 4.1.
const PPP_IN_GRE: u16 = 0x880b;

fn of_ethertype(bytes: &[u8], ethertype: u16) -> Result<Option<Header>, ParseError> {
    match ethertype {
        ethertype::PPPOE_SESSION => pppoe(bytes),
        ethertype::MPLS | ethertype::MPLS_UPSTREAM => mpls(bytes),
        ethertype::NSH => nsh(bytes),
        _ => Ok(None),
    }
}

/// RFC 2516 section 4.
fn pppoe(bytes: &[u8]) -> Result<Option<Header>, ParseError> {
    ensure(Layer::Tunnel(Tunnel::Pppoe), bytes, 6)?;
    // Version and type 1; code 0 is the session's data.
    if u16_at(bytes, 0..2) != 0x1100 {
        return Ok(None);
    }
    ppp(bytes, 6, Tunnel::Pppoe, u32::from(u16_at(bytes, 2..4)))
}

/// RFC 1661 section 2, with address and control field (RFC 1662) or without. Control protocols are no
/// packets.
fn ppp(bytes: &[u8], mut at: usize, tunnel: Tunnel, id: u32) -> Result<Option<Header>, ParseError> {
    let layer = Layer::Tunnel(tunnel);
    if bytes.get(at..at + 2) == Some(&[0xff, 0x03]) {
        at += 2;
    }
    ensure(layer, bytes, at + 1)?;
    // An odd first byte is a compressed protocol field (RFC 1661 section 6.5).
    let (kind, length) = match u8_at(bytes, at) {
        odd if odd & 1 == 1 => (u16::from(odd), at + 1),
        _ => {
            ensure(layer, bytes, at + 2)?;
            (u16_at(bytes, at..at + 2), at + 2)
        }
    };
    let content = match kind {
        0x0021 => Content::Type(ethertype::IPV4),
        0x0057 => Content::Type(ethertype::IPV6),
        0x0281 => Content::Type(ethertype::MPLS),
        0x0283 => Content::Type(ethertype::MPLS_UPSTREAM),
        _ => return Ok(None),
    };
    Ok(Some(Header { tunnel, id, length, content }))
}

/// RFC 3032 section 2.1. What is behind the labels says by its first four bits what it is: IP's version, or 0
/// for the control word of Ethernet (RFC 4448, RFC 4928).
fn mpls(bytes: &[u8]) -> Result<Option<Header>, ParseError> {
    let mut length = 0;
    for _ in 0..MAX_LABELS {
        ensure(Layer::Tunnel(Tunnel::Mpls), bytes, length + 4)?;
        let entry = u32_at(bytes, length..length + 4);
        length += 4;
        if entry & 0x100 == 0 {
            continue;
        }
        ensure(Layer::Tunnel(Tunnel::Mpls), bytes, length + 1)?;
        let (length, content) = match u8_at(bytes, length) >> 4 {
            4 => (length, Content::Type(ethertype::IPV4)),
            6 => (length, Content::Type(ethertype::IPV6)),
            0 => (length + 4, Content::Ethernet),
            _ => return Ok(None),
        };
        return Ok(Some(Header { tunnel: Tunnel::Mpls, id: entry >> 12, length, content }));
    }
    Err(ParseError::TooManyLabels)
}

/// RFC 7348 section 5; with the flag P the last reserved byte of the first word names the next protocol.
fn vxlan(bytes: &[u8]) -> Result<Option<Header>, ParseError> {
    ensure(Layer::Tunnel(Tunnel::Vxlan), bytes, 8)?;
    let flags = u8_at(bytes, 0);
    if flags & 0x08 == 0 {
        return Ok(None);
    }
    let content = match (flags & 0x04, u8_at(bytes, 3)) {
        (0, _) | (_, 3) => Content::Ethernet,
        (_, 1) => Content::Type(ethertype::IPV4),
        (_, 2) => Content::Type(ethertype::IPV6),
        (_, 4) => Content::Type(ethertype::NSH),
        _ => return Ok(None),
    };
    Ok(Some(Header { tunnel: Tunnel::Vxlan, id: u32_at(bytes, 4..8) >> 8, length: 8, content }))
}

/// RFC 8926 section 3.4.
fn geneve(bytes: &[u8]) -> Result<Option<Header>, ParseError> {
    ensure(Layer::Tunnel(Tunnel::Geneve), bytes, 8)?;
    let first = u8_at(bytes, 0);
    if first >> 6 != 0 {
        return Ok(None);
    }
    let length = 8 + usize::from(first & 0x3f) * 4;
    let content = Content::Type(u16_at(bytes, 2..4));
    Ok(Some(Header { tunnel: Tunnel::Geneve, id: u32_at(bytes, 4..8) >> 8, length, content }))
}

/// RFC 8300 section 2.
fn nsh(bytes: &[u8]) -> Result<Option<Header>, ParseError> {
    let layer = Layer::Tunnel(Tunnel::Nsh);
    ensure(layer, bytes, 8)?;
    let base = u16_at(bytes, 0..2);
    let length = usize::from(base & 0x3f) * 4;
    if base >> 14 != 0 {
        return Ok(None);
    }
    if length < 8 {
        return Err(ParseError::Length { layer, needed: 8, found: length });
    }
    let content = match u8_at(bytes, 3) {
        1 => Content::Type(ethertype::IPV4),
        2 => Content::Type(ethertype::IPV6),
        3 => Content::Ethernet,
        4 => Content::Type(ethertype::NSH),
        5 => Content::Type(ethertype::MPLS),
        _ => return Ok(None),
    };
    Ok(Some(Header { tunnel: Tunnel::Nsh, id: u32_at(bytes, 4..8), length, content }))
}

/// draft-foschiano-erspan. Type I has no header of its own, which shows in that GRE has no sequence number.
fn erspan(bytes: &[u8], gre: usize, kind: u16, sequence: bool) -> Result<Option<Header>, ParseError> {
    let header = |id, length, content| Ok(Some(Header { tunnel: Tunnel::Erspan, id, length, content }));
    if kind == ERSPAN && !sequence {
        return header(0, gre, Content::Ethernet);
    }
    let layer = Layer::Tunnel(Tunnel::Erspan);
    ensure(layer, bytes, gre + 4)?;
    let id = u32::from(u16_at(bytes, gre + 2..gre + 4) & 0x3ff);
    match u8_at(bytes, gre) >> 4 {
        1 if kind == ERSPAN => header(id, gre + 8, Content::Ethernet),
        2 if kind == ERSPAN_III => {
            ensure(layer, bytes, gre + 12)?;
            let last = u16_at(bytes, gre + 10..gre + 12);
            let length = gre + 12 + if last & 1 == 1 { 8 } else { 0 };
            // The kind of frame: Ethernet, or IP without one.
            match last >> 10 & 0x1f {
                0 => header(id, length, Content::Ethernet),
                2 => header(id, length, Content::Ip),
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}
