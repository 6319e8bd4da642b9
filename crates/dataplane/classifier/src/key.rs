//! What the classifier reads of a packet: the fields that conditions are about, at fixed places of a few
//! words.

use packet::ethernet::{ethertype, is_tag};
use packet::tunnel::{GENEVE_PORT, Level, Tunnel, Tunnels, VXLAN_PORT};
use packet::{Fragment, Transport, dissect, protocol};
use std::net::IpAddr;

/// Words of the fields of one packet, and of a frame's packet and the one in its tunnel.
pub(crate) const WORDS: usize = 8;
pub(crate) const LEVELS: usize = 2;

/// The fields: those of the frame's packet, then those of the packet in its tunnel.
///
/// | word | bits, from the highest |
/// |---|---|
/// | 0 | [`flag`]s 8, protocol 8, EtherType 16, first tag 16, second tag 16; of a tag bit 12 says that it is there |
/// | 1 | source port 16, destination port 16, what identifies the tunnel in the packet 32 |
/// | 2, 3 and 4, 5 | source and destination address; one of IPv4 is in the highest 32 bits |
/// | 6 | [`GRE_KEY`], [`HAS_ETHERNET`], Ethernet destination 48 |
/// | 7 | Ethernet source 48 |
pub(crate) type Key = [u64; WORDS * LEVELS];

/// What is there, in word 0.
pub(crate) mod flag {
    /// The headers could be read.
    pub const READ: u64 = 1 << 63;
    /// It is IP.
    pub const IP: u64 = 1 << 62;
    /// The addresses are of IPv4, or of ARP.
    pub const V4: u64 = 1 << 61;
    /// The addresses are of IPv6.
    pub const V6: u64 = 1 << 60;
    /// It has ports.
    pub const PORTS: u64 = 1 << 59;
    /// It carries VXLAN or Geneve.
    pub const VNI: u64 = 1 << 58;
    /// It carries MPLS.
    pub const MPLS: u64 = 1 << 57;
    /// It carries GRE.
    pub const GRE: u64 = 1 << 56;
}
pub(crate) const PROTOCOL: u32 = 48;
pub(crate) const ETHERTYPE: u32 = 32;
/// Of a tag's 16 bits: it is there.
pub(crate) const TAGGED: u64 = 1 << 12;
/// In word 6: the tunnel is GRE with a key; Ethernet addresses are there.
pub(crate) const GRE_KEY: u64 = 1 << 63;
pub(crate) const HAS_ETHERNET: u64 = 1 << 62;

/// What of a packet has to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// What identifies the tunnel in it.
    pub tunnel: bool,
    /// The packet in the tunnel.
    pub inside: bool,
    /// Ethernet addresses of plain packets.
    pub ethernet: bool,
}

impl Needs {
    pub fn and(self, other: Needs) -> Needs {
        Needs {
            tunnel: self.tunnel || other.tunnel,
            inside: self.inside || other.inside,
            ethernet: self.ethernet || other.ethernet,
        }
    }
}

/// Reads a frame's beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    tunnels: Tunnels,
    needs: Needs,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new(Needs::default())
    }
}

impl Reader {
    pub fn new(needs: Needs) -> Reader {
        Reader { tunnels: Tunnels::new([Tunnel::Vxlan, Tunnel::Geneve, Tunnel::Mpls, Tunnel::Gre]), needs }
    }

    /// Reads a frame's beginning into a key of zeros: in place, because what is copied right after it was
    /// written in other pieces has to reach memory first.
    #[inline]
    pub fn read(&self, frame: &[u8], key: &mut Key) {
        let (outer, inner) = key.split_at_mut(WORDS);
        let (Some(outer), Some(inner)) = (outer.first_chunk_mut(), inner.first_chunk_mut()) else { return };
        let is_read = match plain(frame, outer, self.needs.ethernet) {
            None => false,
            Some(found) if !self.needs.tunnel || !found.may_carry() => true,
            Some(found) => match found.vxlan(frame, outer) {
                None => false,
                Some(_) if !self.needs.inside => true,
                Some(inside) => {
                    plain(inside, inner, self.needs.ethernet).is_some_and(|found| !found.may_carry())
                }
            },
        };
        if !is_read {
            self.slowly(frame, outer, inner);
        }
    }

    /// Any packet.
    #[cold]
    fn slowly(&self, frame: &[u8], outer: &mut [u64; WORDS], inner: &mut [u64; WORDS]) {
        *outer = [0; WORDS];
        *inner = [0; WORDS];
        ethernet(frame, outer);
        let Ok(found) = dissect(frame) else { return };
        let level = Level::outermost(found, frame.len());
        self.fill(frame, &level, outer);
        if !self.needs.inside {
            return;
        }
        if let Ok(Some(level)) = self.tunnels.inside(frame, &level) {
            if let Some(at) = level.ethernet() {
                ethernet(frame.get(at..).unwrap_or_default(), inner);
            }
            self.fill(frame, &level, inner);
        }
    }

    fn fill(&self, frame: &[u8], level: &Level, words: &mut [u64; WORDS]) {
        let found = &level.dissection;
        let mut first = flag::READ | u64::from(found.ethertype) << ETHERTYPE;
        for (tag, shift) in found.tags.as_slice().iter().zip([16, 0]) {
            first |= (TAGGED | u64::from(tag.id())) << shift;
        }
        let mut ports = 0;
        let mut addresses = None;
        if let Some(network) = &found.network {
            first |= flag::IP | u64::from(network.protocol) << PROTOCOL;
            addresses = Some((network.source, network.destination));
            if let Transport::Ports { source, destination } = network.transport {
                first |= flag::PORTS;
                ports = u64::from(source) << 48 | u64::from(destination) << 32;
            }
        } else if found.ethertype == ethertype::ARP {
            addresses = arp(frame, found.l3_offset, level.limit());
        }
        match addresses {
            Some((IpAddr::V4(source), IpAddr::V4(destination))) => {
                first |= flag::V4;
                words[2] = u64::from(source.to_bits()) << 32;
                words[4] = u64::from(destination.to_bits()) << 32;
            }
            Some((IpAddr::V6(source), IpAddr::V6(destination))) => {
                first |= flag::V6;
                (words[2], words[3]) = halves(source.to_bits());
                (words[4], words[5]) = halves(destination.to_bits());
            }
            _ => {}
        }
        let (tunnel, id) = self.tunnel(frame, level, &mut words[6]);
        words[0] = first | tunnel;
        words[1] = ports | u64::from(id);
    }

    /// The tunnel that a packet carries: its flag, and what identifies it.
    fn tunnel(&self, frame: &[u8], level: &Level, more: &mut u64) -> (u64, u32) {
        if let Some(label) = label(frame, level) {
            return (flag::MPLS, label);
        }
        match self.tunnels.header(frame, level) {
            Ok(Some((Tunnel::Vxlan | Tunnel::Geneve, id))) => (flag::VNI, id),
            Ok(Some((Tunnel::Gre, id))) => {
                let at = level.dissection.network.map(|network| network.l4_offset);
                let flags = at.and_then(|at| frame.get(at)).copied().unwrap_or(0);
                // RFC 2890: flag K.
                if flags & 0x20 != 0 {
                    *more |= GRE_KEY;
                }
                (flag::GRE, id)
            }
            _ => (0, 0),
        }
    }
}

/// The first label of a packet that carries MPLS.
fn label(frame: &[u8], level: &Level) -> Option<u32> {
    let (at, end) = match level.dissection.network {
        Some(network) if network.protocol == protocol::MPLS && network.fragment == Fragment::Whole => {
            (network.l4_offset, network.end.min(level.limit()))
        }
        None if matches!(level.dissection.ethertype, ethertype::MPLS | ethertype::MPLS_UPSTREAM) => {
            (level.dissection.l3_offset, level.limit())
        }
        _ => return None,
    };
    frame.get(at..end)?.first_chunk().map(|entry| u32::from_be_bytes(*entry) >> 12)
}

/// Sender's and target's address of ARP for IPv4 (RFC 826).
fn arp(frame: &[u8], at: usize, limit: usize) -> Option<(IpAddr, IpAddr)> {
    let body: &[u8; 28] = frame.get(..limit)?.get(at..)?.first_chunk()?;
    let [0, 1, 8, 0, 6, 4, _, _, _, _, _, _, _, _, s0, s1, s2, s3, _, _, _, _, _, _, d0, d1, d2, d3] = *body
    else {
        return None;
    };
    Some(([s0, s1, s2, s3].into(), [d0, d1, d2, d3].into()))
}

fn halves(bits: u128) -> (u64, u64) {
    ((bits >> 64) as u64, bits as u64)
}

#[inline(always)]
fn ethernet(frame: &[u8], words: &mut [u64; WORDS]) {
    if let Some(&[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5]) = frame.first_chunk() {
        words[6] = HAS_ETHERNET | u64::from_be_bytes([0, 0, d0, d1, d2, d3, d4, d5]);
        words[7] = u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]);
    }
}

/// What was read of a plain packet.
struct Plain {
    protocol: u8,
    port: u16,
    /// Where the bytes behind its IP header begin, and where the packet ends.
    inner: usize,
    end: usize,
}

impl Plain {
    /// Whether it may carry a tunnel.
    #[inline(always)]
    fn may_carry(&self) -> bool {
        match self.protocol {
            protocol::UDP => matches!(self.port, VXLAN_PORT | GENEVE_PORT),
            _ => matches!(self.protocol, protocol::GRE | protocol::MPLS),
        }
    }

    /// The frame in VXLAN, if it is that without the flag of another content.
    #[inline(always)]
    fn vxlan<'a>(&self, frame: &'a [u8], words: &mut [u64; WORDS]) -> Option<&'a [u8]> {
        if self.protocol != protocol::UDP || self.port != VXLAN_PORT {
            return None;
        }
        let body = frame.get(self.inner + 8..self.end.min(frame.len()))?;
        let (&[flags, _, _, _, v0, v1, v2, _], inside) = body.split_first_chunk()?;
        if flags & 0x0c != 0x08 {
            return None;
        }
        words[0] |= flag::VNI;
        words[1] |= u64::from(u32::from_be_bytes([0, v0, v1, v2]));
        Some(inside)
    }
}

/// Reads a packet as most are: with at most two tags, IP in one piece without options or extension headers,
/// with ports unless it is a protocol without them. `None`: it is not such, and the words are to be thrown
/// away.
#[inline(always)]
fn plain(frame: &[u8], words: &mut [u64; WORDS], with_ethernet: bool) -> Option<Plain> {
    let head: &[u8; 14] = frame.first_chunk()?;
    let [.., k0, k1] = *head;
    if with_ethernet {
        ethernet(frame, words);
    }
    let mut kind = u16::from_be_bytes([k0, k1]);
    let mut l3 = 14;
    let mut first = flag::READ;
    let mut shift = 16;
    while is_tag(kind) {
        if shift < 0 {
            return None;
        }
        let [t0, t1, k0, k1] = *frame.get(l3..)?.first_chunk()?;
        first |= (TAGGED | u64::from(u16::from_be_bytes([t0, t1]) & 0xfff)) << shift;
        kind = u16::from_be_bytes([k0, k1]);
        l3 += 4;
        shift -= 16;
    }
    let packet = frame.get(l3..)?;
    let (found, ports) = match kind {
        ethertype::IPV4 => plain_v4(packet, l3, words)?,
        ethertype::IPV6 => plain_v6(packet, l3, words)?,
        _ => return None,
    };
    let family = if kind == ethertype::IPV4 { flag::V4 } else { flag::V6 };
    first |= flag::IP | family | u64::from(kind) << ETHERTYPE | u64::from(found.protocol) << PROTOCOL;
    if protocol::has_ports(found.protocol) {
        first |= flag::PORTS;
        words[1] = u64::from(ports) << 32;
    }
    words[0] = first;
    Some(found)
}

#[inline(always)]
fn plain_v4(packet: &[u8], l3: usize, words: &mut [u64; WORDS]) -> Option<(Plain, u32)> {
    let [0x45, _, l0, l1, _, _, f0, f1, _, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3, ports @ ..]: [u8;
        24] = *packet.first_chunk()?
    else {
        return None;
    };
    let length = u16::from_be_bytes([l0, l1]);
    // ICMP has a header that must be there.
    if u16::from_be_bytes([f0, f1]) & 0x3fff != 0 || length < 24 || protocol == protocol::ICMPV4 {
        return None;
    }
    words[2] = u64::from(u32::from_be_bytes([s0, s1, s2, s3])) << 32;
    words[4] = u64::from(u32::from_be_bytes([d0, d1, d2, d3])) << 32;
    let ports = u32::from_be_bytes(ports);
    let found = Plain { protocol, port: ports as u16, inner: l3 + 20, end: l3 + usize::from(length) };
    Some((found, ports))
}

#[inline(always)]
fn plain_v6(packet: &[u8], l3: usize, words: &mut [u64; WORDS]) -> Option<(Plain, u32)> {
    let all: &[u8; 44] = packet.first_chunk()?;
    let (parts, _) = all.as_chunks::<4>();
    let [first, second, s0, s1, s2, s3, d0, d1, d2, d3, ports] = *parts else { return None };
    let [l0, l1, protocol, _] = second;
    let length = u16::from_be_bytes([l0, l1]);
    if first[0] >> 4 != 6 || length < 4 || !protocol::has_ports(protocol) {
        return None;
    }
    let word = |high, low| u64::from(u32::from_be_bytes(high)) << 32 | u64::from(u32::from_be_bytes(low));
    (words[2], words[3]) = (word(s0, s1), word(s2, s3));
    (words[4], words[5]) = (word(d0, d1), word(d2, d3));
    let ports = u32::from_be_bytes(ports);
    let found = Plain { protocol, port: ports as u16, inner: l3 + 40, end: l3 + 40 + usize::from(length) };
    Some((found, ports))
}
