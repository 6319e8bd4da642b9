//! What the firewall reads from a packet, and the reading of it: fast for the common packet, complete for
//! every other.
//!
//! A flow's key has no direction: it names the inside end before the outside end, which one is the source is
//! known from the interface. Both directions thus have one key, and a packet that claims an address of the
//! other side has another.

use crate::rule::{ICMP, ICMPV6, TCP, UDP, View, kind};
use nf_sdk::headers::ethernet::{self, Tags, ethertype};
use nf_sdk::headers::tunnel::{Level, Path, Tunnels};
use nf_sdk::headers::{Dissection, ParseError, dissect};
use nf_sdk::usual::{self, LENGTH};

/// Words of an IPv4 flow's key: inside address, outside address, ports, protocol with VLANs.
pub const KEY4: usize = 4;
/// Words of an IPv6 flow's key, and of any flow's in a tunnel: the same with addresses of four words, and the
/// tunnels around the packet in two.
pub const KEY6: usize = 12;

/// TCP FIN, RFC 9293 section 3.1.
pub const FIN: u8 = 0x01;
/// TCP SYN.
pub const SYN: u8 = 0x02;
/// TCP RST.
pub const RST: u8 = 0x04;
/// TCP ACK.
pub const ACK: u8 = 0x10;

/// What kind of packet it is, as far as its treatment differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Neither IPv4 nor IPv6.
    #[default]
    NonIp,
    /// A header contradicts itself.
    Malformed,
    /// IP that ends before its headers say, or has more headers or tunnels than are looked behind; or the
    /// first fragment of a tunnel that is looked into, which has a key as a flow's.
    Unreadable,
    /// A first fragment that is too short for its transport header (RFC 1858, RFC 7112).
    ShortFragment,
    /// IPv4 that belongs to a flow or opens one.
    Flow4,
    /// The same for IPv6.
    Flow6,
    /// ICMP over IPv4 that is no flow: rules alone decide.
    Single4,
    /// ICMPv6 that is no flow.
    Single6,
    /// An ICMP error, about the packet whose headers it carries.
    Error4,
    /// An ICMPv6 error.
    Error6,
    /// Neighbor or router discovery or MLD, as it may be sent on a link.
    Discovery,
    /// A fragment behind the first one, which alone has ports.
    LaterFragment,
}

/// What a fragment says of itself, RFC 791 section 3.1 and RFC 8200 section 4.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// The packet is a fragment: the first one, unless its class is [`Class::LaterFragment`].
    pub is_fragment: bool,
    /// Of IPv4.
    pub is_ipv4: bool,
    /// Identification of the datagram, 16 bits of IPv4 and 32 of IPv6.
    pub id: u32,
    /// Where in the datagram it begins, in bytes.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
}

/// What was read. Fields that the class has no use for hold what an earlier packet left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Header {
    /// The flow's key; IPv4 uses the first [`KEY4`] words.
    pub key: [u32; KEY6],
    /// The tunnels around the packet, as [`Path::to_bits`] has them.
    pub path: u64,
    /// Ports as in a [`View`], or ICMP type and code.
    pub ports: u32,
    /// See [`View`].
    pub kind: u32,
    /// TCP sequence number.
    pub seq: u32,
    /// TCP sequence number behind the segment; for other protocols 0.
    pub end: u32,
    /// TCP acknowledgement number; for other protocols 0.
    pub ack: u32,
    /// TCP flags; for other protocols [`ACK`], which is the flag that changes nothing.
    pub flags: u8,
    /// Window scale of a SYN that has the option (RFC 7323 section 2.2).
    pub scale: Option<u8>,
    /// What kind of packet it is.
    pub class: Class,
    /// Where the ICMP message begins, from the packet's first byte.
    pub message: u16,
    /// Of fragments.
    pub fragment: Fragment,
    /// A capture left out bytes behind the headers that were read.
    pub is_snapped: bool,
    /// It is IPv4 with a length of 0, as captures of hosts have it whose network card cuts segments.
    pub is_unsegmented: bool,
    /// Filled in by the look-up, for IPv6: hash of the key, and the slot that probably has it.
    pub hash6: u64,
    /// See `hash6`.
    pub slot6: u32,
}

impl Header {
    /// The interface that the packet came in by.
    #[inline(always)]
    pub fn ingress(&self) -> u32 {
        self.kind >> 8
    }

    /// The protocol number.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.kind as u8
    }

    /// The key of an IPv4 flow.
    #[inline(always)]
    pub fn key4(&self) -> [u32; KEY4] {
        [self.key[0], self.key[1], self.key[2], self.key[3]]
    }

    /// The key of an IPv4 flow in a tunnel: that of IPv6 with mapped addresses (RFC 4291 section 2.5.5.2),
    /// which no IPv6 packet in the same tunnels can have but one that claims them.
    pub fn mapped_key(&self) -> [u32; KEY6] {
        let [inside, outside, ports, protocol, ..] = self.key;
        let path = [self.path as u32, (self.path >> 32) as u32];
        [0, 0, MAPPED, inside, 0, 0, MAPPED, outside, ports, protocol, path[0], path[1] | IPV4_INSIDE]
    }

    /// What rules look at, source before destination.
    #[inline(always)]
    pub fn view4(&self) -> View<2> {
        let (a, b) = (self.key[0], self.key[1]);
        let addresses = if self.ingress() == 0 { [a, b] } else { [b, a] };
        View { addresses, ports: self.ports, kind: self.kind }
    }

    /// The same for IPv6.
    pub fn view6(&self) -> View<8> {
        let mut addresses = [0; 8];
        addresses.copy_from_slice(&self.key[..8]);
        if self.ingress() != 0 {
            addresses.rotate_left(4);
        }
        View { addresses, ports: self.ports, kind: self.kind }
    }
}

/// The third word of a mapped address.
const MAPPED: u32 = 0xffff_0000;
/// In the last word of a key, whose upper half no path uses: the addresses are of IPv4.
const IPV4_INSIDE: u32 = 1 << 31;

/// The addresses of an IPv4 flow in a tunnel; `None` when the key is another flow's.
pub fn unmapped(key: &[u32; KEY6]) -> Option<[u32; 2]> {
    (key[KEY6 - 1] & IPV4_INSIDE != 0).then_some([key[3], key[7]])
}

/// Whether the words can be a key's.
pub fn is_key6(key: &[u32; KEY6]) -> bool {
    let [a, b, mapped, _, c, d, also_mapped, _, _, _, low, high] = *key;
    let path = u64::from(low) | u64::from(high & !IPV4_INSIDE) << 32;
    let is_mapped = [a, b, mapped, c, d, also_mapped] == [0, 0, MAPPED, 0, 0, MAPPED];
    Path::from_bits(path).is_some() && (high & IPV4_INSIDE == 0 || is_mapped && path != 0)
}

/// The packet that opened a flow, as rules look at it, made of the flow's key of `W` words of addresses,
/// ports, and protocol with VLANs. `ingress` is the interface that it came in by.
pub fn opening<const W: usize>(addresses: [u32; W], ports: u32, protocol: u32, ingress: u32) -> View<W> {
    let mut view = View { addresses, ports: 0, kind: kind(protocol as u8, ingress) };
    if ingress != 0 {
        view.addresses.rotate_left(W / 2);
    }
    view.ports = match protocol as u8 {
        // Requests alone open; their key has the identifier for ports.
        ICMP => 8 << 16,
        ICMPV6 => 128 << 16,
        _ if ingress == 0 => ports.swap_bytes(),
        _ => ports.rotate_left(16).swap_bytes(),
    };
    view
}

#[inline(always)]
fn le32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    le32(bytes, at).swap_bytes()
}

/// Bytes of IPv4 and the shortest transport header, by protocol; 0 for protocols of which no packet is
/// common. A choice by comparisons would become a table of jumps in the sandbox.
pub struct Least([u8; 256]);

impl Least {
    /// Without UDP where it may be a tunnel that is looked into: [`parse`] does that.
    pub fn new(tunnels: &Tunnels) -> Least {
        let mut least = [0; 256];
        least[TCP as usize] = 40;
        least[UDP as usize] = if tunnels.have_ports() { 0 } else { 28 };
        Least(least)
    }
}

/// The common packet: untagged, IPv4 without options, whole, TCP or UDP, and well-formed.
pub struct Common<'a> {
    bytes: &'a [u8; LENGTH],
    protocol: u32,
    is_tcp: bool,
    /// Bytes behind the transport header.
    payload: u32,
}

impl<'a> Common<'a> {
    /// Reads the packet; `None` when it is not common, and [`parse`] has to look at it.
    #[inline(always)]
    pub fn new(packet: &'a [u8], least: &Least) -> Option<Common<'a>> {
        let (bytes, total, protocol) = usual::start(packet)?;
        let least = u32::from(least.0[protocol as usize & 0xff]);
        if least == 0 || total < least || total as usize > packet.len() - 14 {
            return None;
        }
        let is_tcp = protocol == TCP as u32;
        let mut payload = total - least;
        if is_tcp {
            // The options, as far as the data offset (of at least five words) tells of any.
            let options = (u32::from(bytes[46]) >> 4).wrapping_sub(5).wrapping_mul(4);
            if options > payload {
                return None;
            }
            payload -= options;
        }
        Some(Common { bytes, protocol, is_tcp, payload })
    }

    /// What rules look at.
    #[inline(always)]
    pub fn view(&self, ingress: u32) -> View<2> {
        View {
            addresses: [le32(self.bytes, 26), le32(self.bytes, 30)],
            ports: be32(self.bytes, 34),
            kind: self.protocol | ingress << 8,
        }
    }

    /// The flow's key.
    #[inline(always)]
    pub fn key(&self, ingress: u32) -> [u32; KEY4] {
        // Packets from outside have their ends the other way round, and so do halves that are rotated.
        let ends = u64::from(le32(self.bytes, 26)) | u64::from(le32(self.bytes, 30)) << 32;
        let ends = ends.rotate_left(32 * (ingress & 1));
        let ports = le32(self.bytes, 34).rotate_left(16 * (ingress & 1));
        [ends as u32, (ends >> 32) as u32, ports, self.protocol]
    }

    /// TCP flags, the sequence number behind the data, and the acknowledgement number; for UDP what
    /// [`Header`] says. SYN and FIN are not counted: with them, a packet is read by [`parse`].
    #[inline(always)]
    pub fn progress(&self) -> (u8, u32, u32) {
        if self.is_tcp {
            let end = be32(self.bytes, 38).wrapping_add(self.payload);
            (self.bytes[47], end, be32(self.bytes, 42))
        } else {
            (ACK, 0, 0)
        }
    }
}

/// The sequence number behind a segment: SYN and FIN take one each (RFC 9293 section 3.4).
#[inline(always)]
fn segment_end(seq: u32, flags: u8, payload: u32) -> u32 {
    seq.wrapping_add(payload).wrapping_add(u32::from(flags >> 1 & 1)).wrapping_add(u32::from(flags & 1))
}

use ethertype::{IPV4, IPV6};
/// Most IPv6 extension headers that are walked.
const MAX_EXTENSIONS: usize = 8;

/// An IP packet up to its transport header.
struct Network<'a> {
    source: &'a [u8],
    destination: &'a [u8],
    protocol: u8,
    hop_limit: u8,
    /// From the transport header to the end that the network header tells, as far as the packet has it.
    payload: &'a [u8],
    /// Bytes of it that a capture left out.
    left_out: usize,
    /// Whether the packet has, or had where it was captured, all that the network header tells.
    complete: bool,
    fragment: Fragment,
    more_fragments: bool,
    /// The header tells no length.
    is_unsegmented: bool,
    /// There are further extension headers.
    is_too_long: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..)?.first_chunk::<2>().copied()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..)?.first_chunk::<4>().copied()?))
}

impl Network<'_> {
    /// Bytes from the transport header to the end.
    fn length(&self) -> usize {
        self.payload.len() + self.left_out
    }
}

/// RFC 791 section 3.1. `left_out`: bytes that a capture left out behind the packet's last.
fn ipv4(packet: &[u8], left_out: usize) -> Option<Network<'_>> {
    let first = *packet.first()?;
    let header = usize::from(first & 15) * 4;
    // Captures of hosts whose network card cuts segments have no length.
    let told = usize::from(u16_at(packet, 2)?);
    let is_unsegmented = told == 0;
    let total = if is_unsegmented { packet.len() + left_out } else { told };
    if first >> 4 != 4 || header < 20 || total < header || packet.len() < header {
        return None;
    }
    let fragment = u16_at(packet, 6)?;
    let (offset, more_fragments) = (u32::from(fragment & 0x1fff) * 8, fragment & 0x2000 != 0);
    let payload = packet.get(header..total.min(packet.len()))?;
    let (complete, left_out) = (packet.len() + left_out >= total, total.saturating_sub(packet.len()));
    Some(Network {
        source: packet.get(12..16)?,
        destination: packet.get(16..20)?,
        protocol: *packet.get(9)?,
        hop_limit: *packet.get(8)?,
        payload,
        left_out,
        complete,
        fragment: Fragment {
            is_fragment: offset != 0 || more_fragments,
            is_ipv4: true,
            id: u32::from(u16_at(packet, 4)?),
            offset,
            length: (payload.len() + left_out) as u32,
        },
        more_fragments,
        is_unsegmented,
        is_too_long: false,
    })
}

/// RFC 8200 sections 3 and 4. `left_out`: as in [`ipv4`].
fn ipv6(packet: &[u8], left_out: usize) -> Option<Network<'_>> {
    if packet.first()? >> 4 != 6 {
        return None;
    }
    let total = 40 + usize::from(u16_at(packet, 4)?);
    let (source, destination) = (packet.get(8..24)?, packet.get(24..40)?);
    let (complete, left_out) = (packet.len() + left_out >= total, total.saturating_sub(packet.len()));
    let mut rest = packet.get(40..total.min(packet.len()))?;
    let mut protocol = *packet.get(6)?;
    let mut fragment = Fragment::default();
    let mut more_fragments = false;
    for _ in 0..MAX_EXTENSIONS {
        let length = match protocol {
            // Hop-by-hop options, routing, destination options, mobility, HIP, Shim6.
            0 | 43 | 60 | 135 | 139 | 140 => (usize::from(*rest.get(1)?) + 1) * 8,
            // Authentication header, RFC 4302.
            51 => (usize::from(*rest.get(1)?) + 2) * 4,
            44 => {
                let field = u16_at(rest, 2)?;
                more_fragments = field & 1 != 0;
                fragment.offset = u32::from(field & 0xfff8);
                fragment.id = u32_at(rest, 4)?;
                // An atomic fragment is none (RFC 6946).
                fragment.is_fragment = fragment.offset != 0 || more_fragments;
                fragment.length = (rest.len() + left_out).saturating_sub(8) as u32;
                8
            }
            _ => break,
        };
        let was_fragment = protocol == 44;
        protocol = *rest.first()?;
        rest = rest.get(length..)?;
        // Behind the fragment header of a later fragment is data, whatever its first bytes look like.
        if was_fragment && fragment.offset != 0 {
            break;
        }
    }
    let is_extension = matches!(protocol, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140);
    let hop_limit = *packet.get(7)?;
    Some(Network {
        source,
        destination,
        protocol,
        hop_limit,
        payload: rest,
        left_out,
        complete,
        fragment,
        more_fragments,
        is_unsegmented: false,
        is_too_long: fragment.offset == 0 && is_extension,
    })
}

/// Whether a packet ends before the end that its own header tells, or inside of that header.
fn is_cut(packet: &[u8]) -> bool {
    let length = match packet.first().map(|first| first >> 4) {
        None => return true,
        Some(4) => u16_at(packet, 2).map(usize::from).filter(|_| packet.len() >= 20),
        Some(6) => u16_at(packet, 4).map(|length| 40 + usize::from(length)).filter(|_| packet.len() >= 40),
        Some(_) => Some(0),
    };
    length.is_none_or(|length| length > packet.len())
}

/// Any packet; the innermost where it is in tunnels that are looked into. The class tells which fields of
/// `header` are set. `snapped`: bytes that a capture left out behind the packet's last, as the packet's
/// record has them.
#[inline(never)]
pub fn parse(packet: &[u8], snapped: u16, ingress: u32, tunnels: &Tunnels, header: &mut Header) {
    header.fragment = Fragment::default();
    (header.is_snapped, header.is_unsegmented) = (false, false);
    header.path = 0;
    // The interface is known of whatever came.
    header.kind = kind(0, ingress);
    header.class = match link(packet, snapped.into(), tunnels) {
        Ok(link) => {
            header.path = link.path;
            read(packet, &link, ingress, header)
        }
        Err(class) => class,
    };
}

/// What a packet lies in.
struct Link {
    ethertype: u16,
    /// Where the packet begins and where it ends at the latest.
    at: usize,
    end: usize,
    /// Bytes that a capture left out behind that end.
    left_out: usize,
    /// Identifiers of the outermost two tags, as a key has them.
    vlans: u32,
    path: u64,
    /// The packet is a first fragment of a tunnel: what would be judged goes on in the later ones.
    is_split: bool,
}

fn vlans(tags: &Tags) -> u32 {
    tags.as_slice().iter().zip([8, 20]).fold(0, |vlans, (tag, place)| vlans | u32::from(tag.id()) << place)
}

/// Reads what lies around a packet.
fn link(packet: &[u8], left_out: usize, tunnels: &Tunnels) -> Result<Link, Class> {
    let view = ethernet::View::new(packet).map_err(|error| match error {
        ParseError::TooManyTags => Class::Unreadable,
        // What it would have been is not known.
        _ => Class::Malformed,
    })?;
    let (ethertype, at, vlans) = (view.ethertype(), view.header_length(), vlans(&view.tags()));
    let link = Link { ethertype, at, end: packet.len(), left_out, vlans, path: 0, is_split: false };
    if !tunnels.is_none()
        && let Ok(outermost) = dissect(packet)
    {
        return innermost(packet, tunnels, outermost, link);
    }
    Ok(link)
}

/// What lies around the innermost packet.
#[cold]
fn innermost(packet: &[u8], tunnels: &Tunnels, outermost: Dissection, mut link: Link) -> Result<Link, Class> {
    let mut level = Level::outermost(outermost, packet.len());
    // Where what is inside ended at the latest before it was captured.
    let mut ended = packet.len() + link.left_out;
    loop {
        ended = level.dissection.network.map_or(ended, |network| ended.min(network.end));
        level = match tunnels.inside(packet, &level) {
            Ok(Some(inside)) => inside,
            Ok(None) => return Ok(Link { is_split: tunnels.may_begin_in(&level), ..link }),
            Err(error) if error.is_unreadable() => return Err(Class::Unreadable),
            Err(_) => return Err(Class::Malformed),
        };
        let Dissection { ethertype, tags, l3_offset, .. } = level.dissection;
        let (end, path) = (level.limit(), level.path.to_bits());
        let left_out = ended.saturating_sub(end);
        link = Link { ethertype, at: l3_offset, end, left_out, vlans: vlans(&tags), path, is_split: false };
    }
}

fn read(packet: &[u8], link: &Link, ingress: u32, header: &mut Header) -> Class {
    let rest = packet.get(link.at..link.end).unwrap_or_default();
    let network = match link.ethertype {
        IPV4 => ipv4(rest, link.left_out),
        IPV6 => ipv6(rest, link.left_out),
        _ => return Class::NonIp,
    };
    match network {
        Some(network) if network.is_too_long => Class::Unreadable,
        Some(network) if network.complete => {
            (header.is_snapped, header.is_unsegmented) = (network.left_out > 0, network.is_unsegmented);
            match classify(packet, &network, link, ingress, header) {
                None | Some(Class::ShortFragment) if network.left_out > 0 => {
                    // What is missing of the headers is not known, nor has it a key.
                    (header.is_snapped, header.fragment) = (false, Fragment::default());
                    Class::Unreadable
                }
                class => class.unwrap_or(Class::Malformed),
            }
        }
        _ if is_cut(rest) => Class::Unreadable,
        _ => Class::Malformed,
    }
}

fn classify(
    packet: &[u8],
    network: &Network<'_>,
    link: &Link,
    ingress: u32,
    header: &mut Header,
) -> Option<Class> {
    let vlans = link.vlans;
    header.kind = kind(network.protocol, ingress);
    header.fragment = network.fragment;
    header.message = u16::try_from(network.payload.as_ptr() as usize - packet.as_ptr() as usize).ok()?;
    if network.fragment.offset != 0 {
        write_key(network, 0, vlans, ingress, header);
        return Some(Class::LaterFragment);
    }
    match transport(network, vlans, ingress, header) {
        // The first fragment has to bring the whole header.
        None if network.more_fragments => Some(Class::ShortFragment),
        Some(_) if link.is_split => Some(Class::Unreadable),
        class => class,
    }
}

/// Writes the key; `ports` as the packet has them, source before destination.
fn write_key(network: &Network<'_>, ports: u32, vlans: u32, ingress: u32, header: &mut Header) {
    let words = network.source.len() / 4;
    let (inside, outside, ports) = if ingress == 0 {
        (network.source, network.destination, ports.to_be())
    } else {
        (network.destination, network.source, ports.to_be().rotate_left(16))
    };
    let bytes = inside.chunks_exact(4).chain(outside.chunks_exact(4));
    for (word, four) in header.key.iter_mut().zip(bytes) {
        *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    }
    header.key[2 * words] = ports;
    header.key[2 * words + 1] = u32::from(network.protocol) | vlans;
    if words == 4 {
        (header.key[10], header.key[11]) = (header.path as u32, (header.path >> 32) as u32);
    }
}

/// Reads the transport header.
fn transport(network: &Network<'_>, vlans: u32, ingress: u32, header: &mut Header) -> Option<Class> {
    let payload = network.payload;
    let is_ipv4 = network.source.len() == 4;
    let flow = if is_ipv4 { Class::Flow4 } else { Class::Flow6 };
    header.flags = ACK;
    (header.end, header.ack) = (0, 0);
    header.ports = 0;
    match network.protocol {
        TCP => {
            let data_offset = usize::from(payload.get(12)? >> 4) * 4;
            if data_offset < 20 || payload.len() < data_offset {
                return None;
            }
            header.flags = *payload.get(13)?;
            header.seq = u32_at(payload, 4)?;
            header.ack = u32_at(payload, 8)?;
            header.end = segment_end(header.seq, header.flags, (network.length() - data_offset) as u32);
            header.ports = u32_at(payload, 0)?;
            header.scale = None;
            if header.flags & SYN != 0 {
                header.scale = window_scale(payload.get(20..data_offset)?);
            }
        }
        UDP => {
            if payload.len() < 8 {
                return None;
            }
            header.ports = u32_at(payload, 0)?;
        }
        ICMP if is_ipv4 => return icmp(network, vlans, ingress, header, [8, 0]),
        ICMPV6 if !is_ipv4 => return icmp(network, vlans, ingress, header, [128, 129]),
        _ => {}
    }
    write_key(network, header.ports, vlans, ingress, header);
    Some(flow)
}

/// The window scale among a SYN's options, as far as they can be read.
fn window_scale(mut options: &[u8]) -> Option<u8> {
    loop {
        match *options {
            [1, ref rest @ ..] => options = rest,
            [3, 3, scale, ..] => return Some(scale),
            // The end of the list, or what has a length.
            [0, ..] | [_] | [] => return None,
            [_, length, ..] => options = options.get(usize::from(length.max(2))..)?,
        }
    }
}

/// RFC 792 and RFC 4443. `echo`: the types of request and reply.
fn icmp(
    network: &Network<'_>,
    vlans: u32,
    ingress: u32,
    header: &mut Header,
    echo: [u8; 2],
) -> Option<Class> {
    let payload = network.payload;
    let is_ipv4 = network.source.len() == 4;
    let (message, code) = (*payload.first()?, *payload.get(1)?);
    u16_at(payload, 2)?;
    header.ports = u32::from(message) << 16 | u32::from(code);
    let by_family = |four, six| Some(if is_ipv4 { four } else { six });
    if echo.contains(&message) {
        let identifier = u16_at(payload, 4)?;
        u16_at(payload, 6)?;
        header.flags = if message == echo[0] { SYN } else { ACK };
        let asked_by = if message == echo[0] { ingress } else { ingress ^ 1 };
        write_key(network, 0, vlans, ingress, header);
        header.key[if is_ipv4 { 2 } else { 8 }] = echo_ports(identifier, asked_by);
        return by_family(Class::Flow4, Class::Flow6);
    }
    write_key(network, 0, vlans, ingress, header);
    match (is_ipv4, message) {
        (true, 3 | 11 | 12) | (false, 1..=4) => {
            // RFC 792: at least eight bytes of the packet that it is about follow the header of eight.
            payload.get(8)?;
            by_family(Class::Error4, Class::Error6)
        }
        // RFC 4861 section 7.1: nothing that a router has forwarded. RFC 2710, RFC 3810: MLD is sent with a
        // limit of 1.
        (false, 133..=137) if network.hop_limit == 255 && code == 0 => Some(Class::Discovery),
        (false, 130..=132 | 143) if network.hop_limit == 1 => Some(Class::Discovery),
        _ => by_family(Class::Single4, Class::Single6),
    }
}

/// Stands in a key for the ports of an echo exchange: the asking side is part of it, so that an answer alone
/// opens nothing.
fn echo_ports(identifier: u16, asked_by: u32) -> u32 {
    u32::from(identifier) << 16 | asked_by
}

/// What an ICMP error is about: reads the headers that it carries, of a packet that went the other way. The
/// class is the packet's own; `None` when it belongs to no flow that could be known.
pub fn parse_embedded(packet: &[u8], outer: &Header, header: &mut Header) -> Option<Class> {
    let carried = packet.get(usize::from(outer.message) + 8..)?;
    let is_ipv4 = outer.class == Class::Error4;
    let network = if is_ipv4 { ipv4(carried, 0)? } else { ipv6(carried, 0)? };
    if network.fragment.offset != 0 || network.is_too_long {
        return None;
    }
    let vlans = outer.key[if is_ipv4 { KEY4 - 1 } else { 9 }] & !0xff;
    header.path = outer.path;
    let ingress = outer.ingress() ^ 1;
    header.kind = kind(network.protocol, ingress);
    header.fragment = Fragment::default();
    header.flags = ACK;
    header.ports = 0;
    // Of the transport header only the first eight bytes are sure to be there.
    match network.protocol {
        TCP | UDP => {
            header.ports = u32_at(network.payload, 0)?;
            header.seq = u32_at(network.payload, 4)?;
            write_key(&network, header.ports, vlans, ingress, header);
        }
        ICMP | ICMPV6 if (network.protocol == ICMP) == is_ipv4 => {
            let (request, reply) = if is_ipv4 { (8, 0) } else { (128, 129) };
            let message = *network.payload.first()?;
            let asked_by = match message {
                _ if message == request => ingress,
                _ if message == reply => ingress ^ 1,
                _ => return None,
            };
            write_key(&network, 0, vlans, ingress, header);
            header.key[if is_ipv4 { 2 } else { 8 }] = echo_ports(u16_at(network.payload, 4)?, asked_by);
        }
        _ => write_key(&network, 0, vlans, ingress, header),
    }
    Some(if is_ipv4 { Class::Flow4 } else { Class::Flow6 })
}
