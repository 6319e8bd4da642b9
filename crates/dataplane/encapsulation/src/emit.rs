//! Headers as bytes, and what of them depends on the packet: lengths, checksums, ECN, what is carried.

use crate::fields::{ADDRESSES, ETHERNET, array_at, ip_of, put, traffic_class};
use crate::{Front, LayerKind, MAX_BYTES, MAX_LAYERS, Mismatch, Reason};
use packet::checksum::Sum;
use packet::ethernet::{ethertype, is_tag};
use packet::protocol;

/// Headers of some layers, made in place as [`Front`] is: those that were taken off a packet, or those of an
/// [`crate::Encapsulation`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    pub(crate) bytes: [u8; MAX_BYTES],
    pub(crate) length: u8,
    pub(crate) layers: [Spot; MAX_LAYERS],
    pub(crate) count: u8,
    /// Where the last Ethernet header begins: that of the packet, unless a whole frame follows.
    pub(crate) ethernet: u8,
    pub(crate) ending: Ending,
}

/// A layer, and where its first header begins: the tag, the label, the outer IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub kind: LayerKind,
    pub at: u8,
}

/// How the headers say what follows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A frame with an Ethernet header of its own.
    Frame,
    /// An EtherType at this place says it.
    Type(u8),
    /// The protocol in the IP header that begins at this place.
    Protocol(u8),
    /// Nothing: IP follows an MPLS label.
    Label,
}

impl Headers {
    /// Of no layer.
    pub const NONE: Headers = Headers {
        bytes: [0; MAX_BYTES],
        length: 0,
        layers: [Spot { kind: LayerKind::Vlan, at: 0 }; MAX_LAYERS],
        count: 0,
        ethernet: 0,
        ending: Ending::Frame,
    };

    /// The bytes, as they were or as the settings make them, without what depends on the packet.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or(&self.bytes)
    }

    /// The layers, outermost first.
    pub fn layers(&self) -> impl Iterator<Item = LayerKind> {
        self.spots().iter().map(|spot| spot.kind)
    }

    #[inline]
    pub(crate) fn spots(&self) -> &[Spot] {
        self.layers.get(..self.count.into()).unwrap_or(&self.layers)
    }

    #[inline]
    fn last(&self) -> LayerKind {
        self.spots().last().map_or(LayerKind::Vlan, |spot| spot.kind)
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layers: Vec<_> = self.layers().collect();
        write!(f, "Headers {{ layers: {layers:?}, bytes: {:02x?} }}", self.bytes())
    }
}

/// What headers get from a packet that they were not taken from: [`crate::Encapsulation::for_flow`].
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// Of its flow, from which it gets a source port, a flow label, a flow ID.
    pub(crate) hash: u32,
    /// Of the IPv4 packet, where it may be fragmented.
    pub(crate) identification: u16,
    /// The Ethernet address that the frame goes to, where that is found out while packets pass.
    pub(crate) next_hop: Option<[u8; 6]>,
    /// A bit for each layer that has the packet's differentiated services.
    pub(crate) services: u8,
}

/// Puts headers back on a packet, of so many bytes, from whose frame they were taken off: with its Ethernet
/// addresses, what it is, its ECN field and its length now. `head` is its beginning: 64 bytes suffice.
///
/// # Errors
/// [`Mismatch`] when the packet is too long, or is no packet that these headers can carry.
pub fn put_back(kept: &Headers, head: &[u8], length: u32, front: &mut Front) -> Result<(), Mismatch> {
    kept.put_on(head, length, None, front)
}

impl Headers {
    /// Makes these headers for a packet of so many bytes, in `front`: those of an [`crate::Encapsulation`]
    /// with what is `fresh`, or as they were. `head` is its beginning: 64 bytes suffice.
    ///
    /// # Errors
    /// [`Mismatch`] when the packet is too long, or is no packet that these headers can carry.
    pub fn put_on(
        &self,
        head: &[u8],
        length: u32,
        fresh: Option<Fresh>,
        front: &mut Front,
    ) -> Result<(), Mismatch> {
        let Front { removes, length: new, bytes, sums } = front;
        *sums = [0; MAX_LAYERS];
        copy(&self.bytes, bytes, self.length.into());
        let refused = |reason| Err(Mismatch { layer: self.last(), reason });
        let Some(own) = array_at::<ETHERNET>(head, 0) else { return refused(Reason::Truncated) };
        let [addresses @ .., k0, k1] = own;
        let kind = u16::from_be_bytes([k0, k1]);
        let is_frame = self.ending == Ending::Frame;
        if !is_frame {
            put::<ADDRESSES>(bytes, self.ethernet.into(), addresses);
        }
        match self.ending {
            Ending::Frame => {}
            Ending::Type(at) => {
                let is_type =
                    kind >= ethertype::FIRST && !is_tag(kind) && kind != ethertype::TRANSPARENT_ETHERNET;
                if self.last() != LayerKind::Vlan && !is_type {
                    return refused(Reason::NotIp);
                }
                put(bytes, at.into(), kind.to_be_bytes());
            }
            Ending::Protocol(at) => {
                let Some(protocol) = ip_in_ip(kind) else { return refused(Reason::NotIp) };
                let at = usize::from(at);
                let v4 = bytes.get(at).is_some_and(|first| first >> 4 == 4);
                put(bytes, at + if v4 { 9 } else { 6 }, [protocol]);
            }
            Ending::Label if ip_in_ip(kind).is_none() => return refused(Reason::NotIp),
            Ending::Label => {}
        }
        fresh.and_then(|fresh| fresh.next_hop).into_iter().for_each(|to| put(bytes, 0, to));
        let gone = if is_frame { 0 } else { ETHERNET };
        (*removes, *new) = (gone as u16, self.length.into());
        let end = usize::from(self.length) + (length as usize).saturating_sub(gone);
        let class = ip_of(kind, ETHERNET, head).and_then(|(at, v4)| traffic_class(head, at, v4)).unwrap_or(0);
        for (place, spot) in self.spots().iter().enumerate() {
            if matches!(spot.kind, LayerKind::Vlan | LayerKind::Mpls) {
                continue;
            }
            let services = match fresh {
                Some(fresh) if fresh.services >> place & 1 != 0 => Some(class),
                _ => None,
            };
            let Some(sum) = outer(&self.bytes, bytes, spot, end, class, services, fresh) else {
                return Err(Mismatch { layer: spot.kind, reason: Reason::TooLong });
            };
            if let Some(place) = sums.get_mut(place).filter(|_| sum) {
                *place = spot.at;
            }
        }
        Ok(())
    }
}

/// Copies so many bytes at least: in pieces of a fixed size.
#[inline]
pub(crate) fn copy(from: &[u8; MAX_BYTES], to: &mut [u8; MAX_BYTES], length: usize) {
    if let (Some(from), Some(to)) = (from.first_chunk::<64>(), to.first_chunk_mut::<64>()) {
        *to = *from;
    }
    if length > 64
        && let (Some(from), Some(to)) = (from.last_chunk::<64>(), to.last_chunk_mut::<64>())
    {
        *to = *from;
    }
}

/// The protocol that carries this in IP.
#[inline]
fn ip_in_ip(kind: u16) -> Option<u8> {
    match kind {
        ethertype::IPV4 => Some(protocol::IPV4),
        ethertype::IPV6 => Some(protocol::IPV6),
        _ => None,
    }
}

/// An outer IP header and what is between it and the next layer; whether its checksum of UDP is still to be
/// computed. `None` when the packet is too long for it.
#[inline]
fn outer(
    made: &[u8; MAX_BYTES],
    bytes: &mut [u8; MAX_BYTES],
    spot: &Spot,
    end: usize,
    class: u8,
    services: Option<u8>,
    fresh: Option<Fresh>,
) -> Option<bool> {
    const ECN: u8 = 3;
    let at = usize::from(spot.at);
    let class = |old: u8| services.unwrap_or(old) & !ECN | class & ECN;
    let inner = if let Some(old) = array_at::<20>(made, at).filter(|ip| ip[0] >> 4 == 4) {
        let total = u16::try_from(end - at).ok()?;
        let [first, services, l0, l1, i0, i1, f0, f1, ttl, protocol, s0, s1, ..] = old;
        let class = class(services);
        // An identification matters to fragments alone (RFC 6864).
        let id = match fresh {
            Some(fresh) if [f0, f1] == [0, 0] => fresh.identification,
            _ => u16::from_be_bytes([i0, i1]),
        };
        // What follows may have become another protocol.
        let new_protocol = bytes.get(at + 9).copied().unwrap_or(protocol);
        // RFC 1624, equation 3: from the checksum that the header has with what was changed.
        let sum = Sum::ZERO
            .add_u16(!u16::from_be_bytes([s0, s1]))
            .add_u16(!u16::from_be_bytes([first, services]))
            .add_u16(!u16::from_be_bytes([l0, l1]))
            .add_u16(!u16::from_be_bytes([i0, i1]))
            .add_u16(!u16::from_be_bytes([ttl, protocol]))
            .add_u16(u16::from_be_bytes([first, class]))
            .add_u16(total)
            .add_u16(id)
            .add_u16(u16::from_be_bytes([ttl, new_protocol]));
        let [c0, c1] = sum.checksum().to_be_bytes();
        let [l0, l1] = total.to_be_bytes();
        let [i0, i1] = id.to_be_bytes();
        put(bytes, at, [first, class, l0, l1, i0, i1, f0, f1, ttl, new_protocol, c0, c1]);
        at + 20
    } else {
        let payload = u16::try_from((end - at).saturating_sub(40)).ok()?;
        let first = u32::from_be_bytes(array_at(made, at).unwrap_or_default());
        let class = u32::from(class((first >> 20) as u8));
        // RFC 6438: the flow in the label.
        let label = fresh.map_or(first, |fresh| fresh.hash) & 0xf_ffff;
        put(bytes, at, (6 << 28 | class << 20 | label).to_be_bytes());
        put(bytes, at + 4, payload.to_be_bytes());
        at + 40
    };
    match spot.kind {
        LayerKind::Vxlan | LayerKind::Geneve => {
            if let Some(fresh) = fresh {
                // RFC 7348, section 5: dynamic ports, chosen by the flow.
                let port = 0xc000 | (fresh.hash ^ fresh.hash >> 16) as u16;
                put(bytes, inner, port.to_be_bytes());
            }
            let length = u16::try_from(end - inner).unwrap_or(0);
            put(bytes, inner + 4, length.to_be_bytes());
            put(bytes, inner + 6, [0, 0]);
            return Some(array_at::<2>(made, inner + 6) != Some([0, 0]));
        }
        LayerKind::Nvgre => {
            if let Some(fresh) = fresh {
                put(bytes, inner + 7, [(fresh.hash ^ fresh.hash >> 16) as u8]);
            }
        }
        LayerKind::Vlan | LayerKind::Gre | LayerKind::Mpls | LayerKind::IpIp => {}
    }
    Some(false)
}
