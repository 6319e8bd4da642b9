//! What is put on, and its headers made once for all packets.

use crate::emit::{Ending, Fresh, Headers, Spot};
use crate::fields::{ADDRESSES, ETHERNET, array_at, put};
use crate::{Front, LayerKind, MAX_BYTES, MAX_LAYERS, Mismatch};
use packet::ethernet::ethertype;
use packet::tunnel::{GENEVE_PORT, VXLAN_PORT};
use packet::{checksum, protocol};
use std::net::IpAddr;

/// The outer headers of a tunnel over IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// This end.
    pub local: IpAddr,
    /// The other end, of the same family.
    pub remote: IpAddr,
    /// Time to live, or hop limit; not 0.
    pub ttl: u8,
    /// Differentiated services, 0 to 63; `None`: those of the packet.
    pub services: Option<u8>,
    /// Routers may not fragment the outer IPv4 packet.
    pub dont_fragment: bool,
    /// UDP in it has a checksum: of VXLAN and Geneve, the others have no UDP.
    pub checksum: bool,
    /// Ethernet addresses in front: of the next hop, and of this host. Not used where the tunnel carries no
    /// frame and nothing inside of it does: the packet's own are in front then.
    pub link: ([u8; 6], [u8; 6]),
}

/// A layer that is put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerSettings {
    /// A tag.
    Vlan {
        /// VLAN, 0 to 4094.
        id: u16,
        /// Priority, 0 to 7.
        priority: u8,
        /// IEEE 802.1ad, a service tag.
        service: bool,
    },
    /// A label, in front of IP.
    Mpls {
        /// 0 to 1,048,575.
        label: u32,
        /// Traffic class, 0 to 7.
        class: u8,
        /// Time to live; not 0.
        ttl: u8,
    },
    /// GRE.
    Gre {
        /// RFC 2890.
        key: Option<u32>,
        /// It carries frames, not the packets in them.
        frames: bool,
        /// What it is in.
        outer: Outer,
    },
    /// NVGRE.
    Nvgre {
        /// Virtual subnet, 24 bits.
        subnet: u32,
        /// What it is in.
        outer: Outer,
    },
    /// VXLAN.
    Vxlan {
        /// Network, 24 bits.
        vni: u32,
        /// What it is in.
        outer: Outer,
    },
    /// Geneve, of frames and without options.
    Geneve {
        /// Network, 24 bits.
        vni: u32,
        /// What it is in.
        outer: Outer,
    },
    /// IP in IP.
    IpIp {
        /// What it is in.
        outer: Outer,
    },
}

impl LayerSettings {
    /// Which layer it is.
    pub const fn kind(&self) -> LayerKind {
        match self {
            LayerSettings::Vlan { .. } => LayerKind::Vlan,
            LayerSettings::Mpls { .. } => LayerKind::Mpls,
            LayerSettings::Gre { .. } => LayerKind::Gre,
            LayerSettings::Nvgre { .. } => LayerKind::Nvgre,
            LayerSettings::Vxlan { .. } => LayerKind::Vxlan,
            LayerSettings::Geneve { .. } => LayerKind::Geneve,
            LayerSettings::IpIp { .. } => LayerKind::IpIp,
        }
    }

    /// The outer headers, if it is a tunnel over IP.
    pub const fn outer(&self) -> Option<&Outer> {
        match self {
            LayerSettings::Vlan { .. } | LayerSettings::Mpls { .. } => None,
            LayerSettings::Gre { outer, .. }
            | LayerSettings::Nvgre { outer, .. }
            | LayerSettings::Vxlan { outer, .. }
            | LayerSettings::Geneve { outer, .. }
            | LayerSettings::IpIp { outer } => Some(outer),
        }
    }

    /// What identifies it: network, subnet, key, label; 0 where nothing does, and for a tag.
    pub const fn key(&self) -> u32 {
        match self {
            LayerSettings::Gre { key: Some(key), .. } => *key,
            LayerSettings::Mpls { label, .. } => *label,
            LayerSettings::Nvgre { subnet, .. } => *subnet,
            LayerSettings::Vxlan { vni, .. } | LayerSettings::Geneve { vni, .. } => *vni,
            LayerSettings::Gre { key: None, .. }
            | LayerSettings::Vlan { .. }
            | LayerSettings::IpIp { .. } => 0,
        }
    }

    /// Whether it carries frames with an Ethernet header.
    pub const fn carries_frames(&self) -> bool {
        match self {
            LayerSettings::Gre { frames, .. } => *frames,
            LayerSettings::Nvgre { .. } | LayerSettings::Vxlan { .. } | LayerSettings::Geneve { .. } => true,
            LayerSettings::Vlan { .. } | LayerSettings::Mpls { .. } | LayerSettings::IpIp { .. } => false,
        }
    }
}

/// Why layers cannot be put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A number does not fit into its field.
    #[error("{layer}: {what} is {found}; allowed: {least} to {most}")]
    Range {
        /// The layer.
        layer: LayerKind,
        /// The field.
        what: &'static str,
        /// What was found.
        found: u32,
        /// The least that is allowed.
        least: u32,
        /// The most that is allowed.
        most: u32,
    },
    /// The two ends of a tunnel are of different families.
    #[error("{layer}: {local} and {remote} are of different families; allowed: both IPv4 or both IPv6")]
    Families {
        /// The layer.
        layer: LayerKind,
        /// This end.
        local: IpAddr,
        /// The other end.
        remote: IpAddr,
    },
    /// A layer cannot be inside of the one before it.
    #[error("{layer} inside of {around}; allowed there: {allowed}")]
    Inside {
        /// The layer.
        layer: LayerKind,
        /// The one before it.
        around: LayerKind,
        /// What may be inside of that one.
        allowed: &'static str,
    },
    /// There are too many.
    #[error("{found} layers; allowed: at most {MAX_LAYERS}")]
    Layers {
        /// How many there are.
        found: usize,
    },
    /// Their headers are too long.
    #[error("the layers take {found} bytes; allowed: at most {MAX_BYTES}")]
    Bytes {
        /// How long they are.
        found: usize,
    },
}

/// Layers that are put on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    headers: Headers,
    services: u8,
}

impl Encapsulation {
    /// Of these layers, outermost first.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(layers: &[LayerSettings]) -> Result<Encapsulation, SettingsError> {
        if layers.len() > MAX_LAYERS {
            return Err(SettingsError::Layers { found: layers.len() });
        }
        let mut builder = Builder::default();
        for (place, layer) in layers.iter().enumerate() {
            check(layer)?;
            builder.add(layer, layers.get(place..).unwrap_or_default())?;
            let copies = layer.outer().is_some_and(|outer| outer.services.is_none());
            builder.services |= u8::from(copies) << place;
        }
        builder.finish()
    }

    /// How many bytes longer a packet becomes.
    pub fn overhead(&self) -> usize {
        let own = if self.headers.ending == Ending::Frame { 0 } else { ETHERNET };
        usize::from(self.headers.length) - own
    }

    /// The layers, outermost first.
    pub fn layers(&self) -> impl Iterator<Item = LayerKind> {
        self.headers.layers()
    }

    /// The headers for a packet of so many bytes. `head` is its beginning: 64 bytes suffice. The flow's hash
    /// becomes the source port (RFC 7348), the flow label (RFC 6438), the flow ID (RFC 7637);
    /// `identification` is that of the outer IPv4 packet where it may be fragmented, and should be another
    /// one for each.
    ///
    /// # Errors
    /// [`Mismatch`] when the packet is too long, or the layers carry IP and it is something else.
    pub fn put_on(
        &self,
        head: &[u8],
        length: u32,
        flow_hash: u32,
        identification: u16,
        front: &mut Front,
    ) -> Result<(), Mismatch> {
        let (headers, fresh) = self.for_flow(flow_hash, identification, None);
        headers.put_on(head, length, Some(fresh), front)
    }

    /// The headers, and what they get from a packet of this flow, for [`Headers::put_on`] and
    /// [`Headers::plain`]: parameters as of [`Encapsulation::put_on`]. The frame goes to the Ethernet address
    /// of the next hop, if one is said.
    #[inline]
    pub fn for_flow(&self, hash: u32, identification: u16, next_hop: Option<[u8; 6]>) -> (&Headers, Fresh) {
        (&self.headers, Fresh { hash, identification, next_hop, services: self.services })
    }
}

fn check(layer: &LayerSettings) -> Result<(), SettingsError> {
    let range = |what, found: u32, least, most| {
        if (least..=most).contains(&found) {
            return Ok(());
        }
        Err(SettingsError::Range { layer: layer.kind(), what, found, least, most })
    };
    match *layer {
        LayerSettings::Vlan { id, priority, .. } => {
            range("id", id.into(), 0, 4094)?;
            range("priority", priority.into(), 0, 7)?;
        }
        LayerSettings::Mpls { label, class, ttl } => {
            range("label", label, 0, 0xf_ffff)?;
            range("class", class.into(), 0, 7)?;
            range("ttl", ttl.into(), 1, 255)?;
        }
        LayerSettings::Nvgre { subnet, .. } => range("subnet", subnet, 0, 0xff_ffff)?,
        LayerSettings::Vxlan { vni, .. } | LayerSettings::Geneve { vni, .. } => {
            range("vni", vni, 0, 0xff_ffff)?;
        }
        LayerSettings::Gre { .. } | LayerSettings::IpIp { .. } => {}
    }
    let Some(&Outer { local, remote, ttl, services, .. }) = layer.outer() else { return Ok(()) };
    range("ttl", ttl.into(), 1, 255)?;
    range("services", services.unwrap_or(0).into(), 0, 63)?;
    if local.is_ipv4() != remote.is_ipv4() {
        return Err(SettingsError::Families { layer: layer.kind(), local, remote });
    }
    Ok(())
}

/// Headers as they grow.
#[derive(Default)]
struct Builder {
    bytes: Vec<u8>,
    layers: Vec<Spot>,
    ethernet: usize,
    /// How the last header says what follows: `None`, an Ethernet header has yet to begin.
    ending: Option<Ending>,
    services: u8,
}

impl Builder {
    /// Adds a layer, the first of `rest`.
    fn add(&mut self, layer: &LayerSettings, rest: &[LayerSettings]) -> Result<(), SettingsError> {
        if self.ending.is_none() {
            self.begin_frame(rest);
        }
        match *layer {
            LayerSettings::Vlan { id, priority, service } => {
                let at = self.bytes.len() - 2;
                if !self.in_frame() {
                    return Err(self.refused(layer, "mpls, and what is in IP"));
                }
                let tpid = if service { ethertype::SERVICE_VLAN } else { ethertype::VLAN };
                self.say(tpid, 0);
                self.bytes.extend((u16::from(priority) << 13 | id).to_be_bytes());
                self.bytes.extend([0, 0]);
                self.begin(layer, at, Ending::Type((self.bytes.len() - 2) as u8));
            }
            LayerSettings::Mpls { label, class, ttl } => {
                if matches!(self.ending, Some(Ending::Protocol(_))) {
                    return Err(self.refused(layer, "what is in IP"));
                }
                let at = self.bytes.len();
                if matches!(self.ending, Some(Ending::Label)) {
                    // No longer the bottom of the stack.
                    if let Some(bottom) = self.bytes.get_mut(at - 2) {
                        *bottom &= !1;
                    }
                }
                self.say(ethertype::MPLS, 0);
                self.bytes
                    .extend((label << 12 | u32::from(class) << 9 | 0x100 | u32::from(ttl)).to_be_bytes());
                self.begin(layer, at, Ending::Label);
            }
            LayerSettings::Gre { key, frames, outer } => {
                let at = self.outer(&outer, protocol::GRE);
                self.bytes.extend([if key.is_some() { 0x20 } else { 0 }, 0]);
                let kind = self.bytes.len();
                self.bytes.extend(if frames { ethertype::TRANSPARENT_ETHERNET } else { 0 }.to_be_bytes());
                self.bytes.extend(key.iter().flat_map(|key| key.to_be_bytes()));
                self.begin(layer, at, if frames { Ending::Frame } else { Ending::Type(kind as u8) });
            }
            LayerSettings::Nvgre { subnet, outer } => {
                let at = self.outer(&outer, protocol::GRE);
                self.bytes.extend([0x20, 0, 0x65, 0x58]);
                self.bytes.extend((subnet << 8).to_be_bytes());
                self.begin(layer, at, Ending::Frame);
            }
            LayerSettings::Vxlan { vni, outer } => {
                let at = self.outer(&outer, protocol::UDP);
                self.udp(VXLAN_PORT, outer.checksum);
                self.bytes.extend([8, 0, 0, 0]);
                self.bytes.extend((vni << 8).to_be_bytes());
                self.begin(layer, at, Ending::Frame);
            }
            LayerSettings::Geneve { vni, outer } => {
                let at = self.outer(&outer, protocol::UDP);
                self.udp(GENEVE_PORT, outer.checksum);
                self.bytes.extend([0, 0, 0x65, 0x58]);
                self.bytes.extend((vni << 8).to_be_bytes());
                self.begin(layer, at, Ending::Frame);
            }
            LayerSettings::IpIp { outer } => {
                let at = self.outer(&outer, 0);
                self.begin(layer, at, Ending::Protocol(at as u8));
            }
        }
        Ok(())
    }

    /// An Ethernet header, with the addresses of a tunnel's outer header if one in it carries a frame; else
    /// it is the packet's own.
    fn begin_frame(&mut self, rest: &[LayerSettings]) {
        self.ethernet = self.bytes.len();
        let has_frame = rest.iter().any(LayerSettings::carries_frames);
        let link = rest.iter().find_map(LayerSettings::outer).filter(|_| has_frame).map(|outer| outer.link);
        let (to, from) = link.unwrap_or_default();
        self.bytes.extend(to);
        self.bytes.extend(from);
        self.bytes.extend([0, 0]);
        self.ending = Some(Ending::Type((self.bytes.len() - 2) as u8));
    }

    /// Whether an Ethernet header or a tag is what comes before.
    fn in_frame(&self) -> bool {
        let Some(Ending::Type(at)) = self.ending else { return false };
        usize::from(at) == self.bytes.len() - 2
            && (usize::from(at) == self.ethernet + ADDRESSES
                || self.layers.last().is_some_and(|spot| spot.kind == LayerKind::Vlan))
    }

    fn refused(&self, layer: &LayerSettings, allowed: &'static str) -> SettingsError {
        let around = self.layers.last().map_or(LayerKind::Vlan, |spot| spot.kind);
        SettingsError::Inside { layer: layer.kind(), around, allowed }
    }

    /// What comes next, where the header before says so.
    fn say(&mut self, kind: u16, protocol: u8) {
        match self.ending {
            Some(Ending::Type(at)) => put(&mut self.bytes, at.into(), kind.to_be_bytes()),
            Some(Ending::Protocol(at)) => {
                let at = usize::from(at);
                let v4 = self.bytes.get(at).is_some_and(|first| first >> 4 == 4);
                put(&mut self.bytes, at + if v4 { 9 } else { 6 }, [protocol]);
            }
            Some(Ending::Label | Ending::Frame) | None => {}
        }
    }

    fn begin(&mut self, layer: &LayerSettings, at: usize, ending: Ending) {
        self.layers.push(Spot { kind: layer.kind(), at: u8::try_from(at).unwrap_or(u8::MAX) });
        self.ending = (ending != Ending::Frame).then_some(ending);
    }

    /// An outer IP header; where it begins.
    fn outer(&mut self, outer: &Outer, protocol: u8) -> usize {
        let at = self.bytes.len();
        let class = outer.services.unwrap_or(0) << 2;
        match (outer.local, outer.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                self.say(ethertype::IPV4, protocol::IPV4);
                let fragment = if outer.dont_fragment { 0x40 } else { 0 };
                self.bytes.extend([0x45, class, 0, 0, 0, 0, fragment, 0, outer.ttl, protocol, 0, 0]);
                self.bytes.extend(local.octets());
                self.bytes.extend(remote.octets());
            }
            (local, remote) => {
                self.say(ethertype::IPV6, protocol::IPV6);
                self.bytes.extend((6 << 28 | u32::from(class) << 20).to_be_bytes());
                self.bytes.extend([0, 0, protocol, outer.ttl]);
                for address in [local, remote] {
                    let IpAddr::V6(address) = address else { continue };
                    self.bytes.extend(address.octets());
                }
            }
        }
        at
    }

    /// A UDP header. A checksum that is not zero stands for one that is computed for each packet.
    fn udp(&mut self, port: u16, has_checksum: bool) {
        self.bytes.extend([0, 0]);
        self.bytes.extend(port.to_be_bytes());
        self.bytes.extend([0; 2]);
        self.bytes.extend([if has_checksum { 0xff } else { 0 }; 2]);
    }

    fn finish(mut self) -> Result<Encapsulation, SettingsError> {
        // Of the headers as they are so far: they are brought up to date for each packet.
        for spot in self.layers.iter().filter(|spot| !matches!(spot.kind, LayerKind::Vlan | LayerKind::Mpls))
        {
            let at = usize::from(spot.at);
            if let Some(header) = array_at::<20>(&self.bytes, at).filter(|header| header[0] >> 4 == 4) {
                put(&mut self.bytes, at + 10, checksum::of(&header).to_be_bytes());
            }
        }
        let length = self.bytes.len();
        let mut headers = Headers { length: length as u8, count: self.layers.len() as u8, ..Headers::NONE };
        headers
            .bytes
            .get_mut(..length)
            .ok_or(SettingsError::Bytes { found: length })?
            .copy_from_slice(&self.bytes);
        for (place, spot) in headers.layers.iter_mut().zip(self.layers) {
            *place = spot;
        }
        headers.ethernet = self.ethernet as u8;
        headers.ending = self.ending.unwrap_or(Ending::Frame);
        Ok(Encapsulation { headers, services: self.services })
    }
}
