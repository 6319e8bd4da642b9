//! Taking headers off.

use crate::emit::{Ending, Headers, Spot, copy};
use crate::fields::{ADDRESSES, ETHERNET, array_at, ip_of, put, traffic_class, u16_at};
use crate::{Front, LayerKind, MAX_BYTES, MAX_LAYERS, Mismatch, Reason};
use packet::ethernet::{ethertype, is_tag};
use packet::tunnel::{GENEVE_PORT, VXLAN_PORT};
use packet::{checksum, ecn, protocol};

/// What became of a packet whose headers were taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenOff {
    /// The packet's length then, in bytes. Bytes of the frame beyond it are padding.
    pub length: u32,
    /// Its EtherType: that of a tag, if it has one.
    pub kind: u16,
    /// The innermost tunnel; a tag is none.
    pub tunnel: Option<LayerKind>,
    /// What identifies it: network, key, label; 0 where nothing does.
    pub key: u32,
    /// Control information of the outermost tag that was taken off, 0 without one.
    pub vlan: u16,
    /// Where in the frame the outer IP headers begin of UDP that has a checksum, for [`crate::datagram`];
    /// outermost first, 0 for none. The caller verifies them.
    pub sums: [u8; MAX_LAYERS],
}

/// Takes these layers off a packet of so many bytes, outermost first. `head` is its beginning: [`MAX_BYTES`]
/// and 64 more suffice. `front` is which bytes go, and which come: an Ethernet header where none was inside,
/// an ECN field that changed. `kept` is what was there, for [`crate::put_back`].
///
/// # Errors
/// [`Mismatch`] when they are not there, or not as they have to be.
///
/// ```
/// use encapsulation::{Front, Headers, LayerKind, take_off};
/// let frame = [&[2; 12][..], &[0x81, 0, 0x20, 7, 8, 0, 0x45, 0]].concat();
/// let (mut front, mut kept) = (Front::NONE, Headers::NONE);
/// let taken = take_off(&frame, 20, &[LayerKind::Vlan], &mut front, &mut kept)?;
/// assert_eq!((taken.length, taken.vlan), (16, 0x2007));
/// assert_eq!((front.removes(), front.bytes()), (18, &[&[2; 12][..], &[8, 0]].concat()[..]));
/// # Ok::<(), encapsulation::Mismatch>(())
/// ```
pub fn take_off(
    head: &[u8],
    length: u32,
    layers: &[LayerKind],
    front: &mut Front,
    kept: &mut Headers,
) -> Result<TakenOff, Mismatch> {
    let mut walk = Walk::new(head, length as usize);
    for layer in layers {
        walk.pass(*layer).map_err(|reason| Mismatch { layer: *layer, reason })?;
    }
    let layer = layers.last().copied().unwrap_or(LayerKind::Vlan);
    walk.finish(front, kept).map_err(|reason| Mismatch { layer, reason })
}

/// Where in the packet one is: at an EtherType, or what stands for one.
struct Walk<'a> {
    head: &'a [u8],
    /// Where the packet ends, as the headers so far say.
    end: usize,
    /// Where the last Ethernet header begins.
    ethernet: usize,
    /// What comes next, as an EtherType, and where it begins.
    kind: u16,
    body: usize,
    ending: Ending,
    layers: [Spot; MAX_LAYERS],
    count: u8,
    /// What the outer headers say of congestion.
    congestion: Option<u8>,
    tunnel: Option<LayerKind>,
    key: u32,
    vlan: u16,
    sums: [u8; MAX_LAYERS],
}

impl<'a> Walk<'a> {
    #[inline]
    fn new(head: &'a [u8], end: usize) -> Walk<'a> {
        let kind = u16_at(head, ADDRESSES).unwrap_or(0);
        let Headers { layers, ending, .. } = Headers::NONE;
        Walk {
            head,
            end,
            ethernet: 0,
            kind,
            body: ETHERNET,
            ending,
            layers,
            count: 0,
            congestion: None,
            tunnel: None,
            key: 0,
            vlan: 0,
            sums: [0; MAX_LAYERS],
        }
    }

    /// So many bytes at a place inside of the packet.
    #[inline]
    fn read<const N: usize>(&self, at: usize) -> Result<[u8; N], Reason> {
        if at + N > self.end {
            return Err(Reason::Truncated);
        }
        array_at(self.head, at).ok_or(Reason::Truncated)
    }

    #[inline]
    fn pass(&mut self, layer: LayerKind) -> Result<(), Reason> {
        let at = match layer {
            LayerKind::Vlan => self.body - 2,
            _ => self.body,
        };
        let spot = Spot { kind: layer, at: u8::try_from(at).map_err(|_| Reason::TooMany)? };
        *self.layers.get_mut(usize::from(self.count)).ok_or(Reason::TooMany)? = spot;
        self.count += 1;
        if layer != LayerKind::Vlan {
            self.tunnel = Some(layer);
        }
        match layer {
            LayerKind::Vlan => self.tag(),
            LayerKind::Mpls => self.label(),
            LayerKind::IpIp => self.ip_in_ip(spot.at),
            LayerKind::Gre => self.gre(),
            LayerKind::Nvgre => self.nvgre(),
            LayerKind::Vxlan => self.vxlan(),
            LayerKind::Geneve => self.geneve(),
        }
    }

    fn tag(&mut self) -> Result<(), Reason> {
        let before = self.layers.get(..usize::from(self.count) - 1).unwrap_or_default();
        let is_tag_too = |spot: &Spot| spot.kind == LayerKind::Vlan;
        // Behind a tunnel without Ethernet there are no tags.
        let in_frame = self.ending == Ending::Frame || before.last().is_some_and(is_tag_too);
        if !in_frame || !is_tag(self.kind) {
            return Err(Reason::Other);
        }
        let [t0, t1, k0, k1] = self.read(self.body)?;
        if !before.iter().any(is_tag_too) {
            self.vlan = u16::from_be_bytes([t0, t1]);
        }
        self.body += 4;
        self.ending = Ending::Type((self.body - 2) as u8);
        self.kind = u16::from_be_bytes([k0, k1]);
        Ok(())
    }

    fn label(&mut self) -> Result<(), Reason> {
        if !matches!(self.kind, ethertype::MPLS | ethertype::MPLS_UPSTREAM) {
            return Err(Reason::Other);
        }
        let entry = u32::from_be_bytes(self.read(self.body)?);
        self.key = entry >> 12;
        self.body += 4;
        self.ending = Ending::Label;
        if entry & 0x100 == 0 {
            // More labels: another layer has to take them off.
            return Ok(());
        }
        let [first] = self.read(self.body)?;
        match first >> 4 {
            4 => self.kind = ethertype::IPV4,
            6 => self.kind = ethertype::IPV6,
            0 => return self.frame(self.body + 4),
            _ => return Err(Reason::Other),
        }
        Ok(())
    }

    fn ip_in_ip(&mut self, at: u8) -> Result<(), Reason> {
        let (protocol, inner) = self.outer()?;
        self.kind = match protocol {
            protocol::IPV4 => ethertype::IPV4,
            protocol::IPV6 => ethertype::IPV6,
            _ => return Err(Reason::Other),
        };
        self.key = 0;
        self.body = inner;
        self.ending = Ending::Protocol(at);
        Ok(())
    }

    fn gre(&mut self) -> Result<(), Reason> {
        const KEY: u16 = 0x2000;
        const SEQUENCE: u16 = 0x1000;
        // RFC 2784, section 2.3: a packet with one of the others is to be dropped. With a checksum it could
        // not be put back without reading all of it.
        const REFUSED: u16 = 0x8000 | 0x4c00 | 7;
        let at = self.behind(protocol::GRE)?;
        let [f0, f1, k0, k1] = self.read(at)?;
        let (flags, kind) = (u16::from_be_bytes([f0, f1]), u16::from_be_bytes([k0, k1]));
        if flags & REFUSED != 0 {
            return Err(Reason::Flags);
        }
        let mut body = at + 4;
        self.key = 0;
        if flags & KEY != 0 {
            self.key = u32::from_be_bytes(self.read(body)?);
            body += 4;
        }
        if flags & SEQUENCE != 0 {
            self.read::<4>(body)?;
            body += 4;
        }
        self.typed(kind, at + 2, body)
    }

    fn nvgre(&mut self) -> Result<(), Reason> {
        let at = self.behind(protocol::GRE)?;
        let [f0, f1, k0, k1, s0, s1, s2, _] = self.read(at)?;
        if [k0, k1] != ethertype::TRANSPARENT_ETHERNET.to_be_bytes() {
            return Err(Reason::Other);
        }
        // RFC 7637, section 3.2: a key and nothing else.
        if [f0, f1] != [0x20, 0] {
            return Err(Reason::Flags);
        }
        self.key = u32::from_be_bytes([0, s0, s1, s2]);
        self.frame(at + 8)
    }

    #[inline]
    fn vxlan(&mut self) -> Result<(), Reason> {
        let at = self.udp(VXLAN_PORT)?;
        let [flags, _, _, _, v0, v1, v2, _] = self.read(at)?;
        // With the flag P (VXLAN-GPE) something else than a frame may follow.
        if flags & 0x0c != 0x08 {
            return Err(Reason::Flags);
        }
        self.key = u32::from_be_bytes([0, v0, v1, v2]);
        self.frame(at + 8)
    }

    fn geneve(&mut self) -> Result<(), Reason> {
        let at = self.udp(GENEVE_PORT)?;
        let [first, flags, k0, k1, v0, v1, v2, _] = self.read(at)?;
        // Version 0, no control packet.
        if first >> 6 != 0 || flags & 0x80 != 0 {
            return Err(Reason::Flags);
        }
        // RFC 8926, section 3.4: critical options that are not understood.
        if flags & 0x40 != 0 {
            return Err(Reason::Options);
        }
        let body = at + 8 + usize::from(first & 0x3f) * 4;
        if body > self.end {
            return Err(Reason::Length);
        }
        self.key = u32::from_be_bytes([0, v0, v1, v2]);
        self.typed(u16::from_be_bytes([k0, k1]), at + 2, body)
    }

    /// What an EtherType in a tunnel's header says: a frame, or something else without Ethernet.
    fn typed(&mut self, kind: u16, at: usize, body: usize) -> Result<(), Reason> {
        if kind == ethertype::TRANSPARENT_ETHERNET {
            return self.frame(body);
        }
        if kind < ethertype::FIRST || is_tag(kind) {
            return Err(Reason::Other);
        }
        self.kind = kind;
        self.body = body;
        self.ending = Ending::Type(u8::try_from(at).map_err(|_| Reason::TooMany)?);
        Ok(())
    }

    /// A frame inside.
    #[inline]
    fn frame(&mut self, at: usize) -> Result<(), Reason> {
        let kind: [u8; 2] = self.read(at + ADDRESSES)?;
        self.ethernet = at;
        self.kind = u16::from_be_bytes(kind);
        self.body = at + ETHERNET;
        self.ending = Ending::Frame;
        Ok(())
    }

    /// UDP to this port: where its data begin.
    #[inline]
    fn udp(&mut self, port: u16) -> Result<usize, Reason> {
        let at = self.behind(protocol::UDP)?;
        let [_, _, p0, p1, l0, l1, s0, s1]: [u8; 8] = self.read(at)?;
        if u16::from_be_bytes([p0, p1]) != port {
            return Err(Reason::Other);
        }
        let end = at + usize::from(u16::from_be_bytes([l0, l1]));
        if end < at + 8 || end > self.end {
            return Err(Reason::Length);
        }
        self.end = end;
        let place = usize::from(self.count).saturating_sub(1);
        if let (Some(sum), Some(spot), true) =
            (self.sums.get_mut(place), self.layers.get(place), [s0, s1] != [0, 0])
        {
            *sum = spot.at;
        }
        Ok(at + 8)
    }

    /// Passes an outer IP header with this protocol behind it, which begins where that says.
    #[inline]
    fn behind(&mut self, wanted: u8) -> Result<usize, Reason> {
        let (protocol, at) = self.outer()?;
        if protocol == wanted { Ok(at) } else { Err(Reason::Other) }
    }

    /// The outer IP header: the protocol in it and where that begins.
    #[inline]
    fn outer(&mut self) -> Result<(u8, usize), Reason> {
        let (protocol, class, inner, end) = match self.kind {
            ethertype::IPV4 => self.v4()?,
            ethertype::IPV6 => self.v6()?,
            _ => return Err(Reason::Other),
        };
        if end < inner || end > self.end {
            return Err(Reason::Length);
        }
        self.end = end;
        let found = class & 3;
        self.congestion = Some(match self.congestion {
            Some(outer) => combined(outer, found)?,
            None => found,
        });
        Ok((protocol, inner))
    }

    #[inline]
    fn v4(&self) -> Result<(u8, u8, usize, usize), Reason> {
        let header: [u8; 20] = self.read(self.body)?;
        let [first, class, l0, l1, _, _, f0, f1, _, protocol, ..] = header;
        match first {
            0x45 => {}
            0x46..=0x4f => return Err(Reason::Options),
            _ => return Err(Reason::Flags),
        }
        if u16::from_be_bytes([f0, f1]) & 0x3fff != 0 {
            return Err(Reason::Fragment);
        }
        if !checksum::verify(&header) {
            return Err(Reason::Checksum);
        }
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        Ok((protocol, class, self.body + 20, self.body + length))
    }

    fn v6(&self) -> Result<(u8, u8, usize, usize), Reason> {
        let [c0, c1, _, _, l0, l1, protocol, ..]: [u8; 40] = self.read(self.body)?;
        if c0 >> 4 != 6 {
            return Err(Reason::Flags);
        }
        match protocol {
            protocol::FRAGMENT => return Err(Reason::Fragment),
            // Hop-by-hop, routing, authentication, destination options.
            0 | 43 | 51 | 60 => return Err(Reason::Options),
            _ => {}
        }
        let inner = self.body + 40;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        Ok((protocol, (u16::from_be_bytes([c0, c1]) >> 4) as u8, inner, inner + length))
    }

    #[inline]
    fn finish(self, front: &mut Front, kept: &mut Headers) -> Result<TakenOff, Reason> {
        let is_mpls = matches!(self.kind, ethertype::MPLS | ethertype::MPLS_UPSTREAM);
        if self.ending == Ending::Label && is_mpls {
            return Err(Reason::Other);
        }
        let is_frame = self.ending == Ending::Frame;
        let (gone, new) = if is_frame { (self.ethernet, 0) } else { (self.body, ETHERNET) };
        match (self.head.first_chunk::<MAX_BYTES>(), self.head.get(..gone), kept.bytes.get_mut(..gone)) {
            // More than needed, but a fixed number.
            (Some(head), _, Some(_)) => copy(head, &mut kept.bytes, gone),
            (None, Some(from), Some(to)) => to.copy_from_slice(from),
            _ => return Err(Reason::TooMany),
        }
        kept.length = gone as u8;
        kept.layers = self.layers;
        kept.count = self.count;
        kept.ethernet = self.ethernet as u8;
        kept.ending = self.ending;
        front.removes = gone as u16;
        front.length = new as u16;
        if !is_frame {
            self.ethernet_header(front);
        }
        if let Some(outer @ (1 | 3)) = self.congestion {
            self.mark(outer, front)?;
        }
        let length = (self.end - gone.min(self.end) + new) as u32;
        let Walk { kind, tunnel, key, vlan, sums, .. } = self;
        Ok(TakenOff { length, kind, tunnel, key, vlan, sums })
    }

    /// The Ethernet header of what is inside, which may not have one of its own.
    #[inline]
    fn ethernet_header(&self, front: &mut Front) {
        put::<ADDRESSES>(&mut front.bytes, 0, array_at(self.head, self.ethernet).unwrap_or_default());
        put(&mut front.bytes, ADDRESSES, self.kind.to_be_bytes());
    }

    /// Makes the packet's beginning up to its IP header's ECN field and checksum anew, when what the outer
    /// headers say of congestion changes them (RFC 6040, section 4.2).
    #[cold]
    fn mark(&self, outer: u8, front: &mut Front) -> Result<(), Reason> {
        let Some((at, v4)) = ip_of(self.kind, self.body, self.head) else { return Ok(()) };
        let class = traffic_class(self.head, at, v4).ok_or(Reason::Truncated)?;
        let marked = class & !3 | combined(outer, class & 3)?;
        if marked == class {
            return Ok(());
        }
        self.ethernet_header(front);
        let until = at + if v4 { 12 } else { 2 };
        let from = self.head.get(self.body..until).ok_or(Reason::Truncated)?;
        let to = front.bytes.get_mut(ETHERNET..ETHERNET + from.len()).ok_or(Reason::TooMany)?;
        to.copy_from_slice(from);
        front.removes = until as u16;
        front.length = (ETHERNET + from.len()) as u16;
        let ip = ETHERNET + at - self.body;
        let first = u16_at(&front.bytes, ip).unwrap_or(0);
        if v4 {
            let sum = u16_at(&front.bytes, ip + 10).unwrap_or(0);
            let new = first & 0xff00 | u16::from(marked);
            put(&mut front.bytes, ip, new.to_be_bytes());
            put(&mut front.bytes, ip + 10, checksum::update_u16(sum, first, new).to_be_bytes());
        } else {
            put(&mut front.bytes, ip, (first & 0xf00f | u16::from(marked) << 4).to_be_bytes());
        }
        Ok(())
    }
}

/// ECN of a packet whose outer header had this one.
#[inline]
fn combined(outer: u8, inner: u8) -> Result<u8, Reason> {
    ecn::taken_off(outer, inner).ok_or(Reason::Congestion)
}
