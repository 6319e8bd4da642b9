//! What one look at a frame tells.

use crate::flow_id::{End, FlowId};
use nf_sdk::Packet;
use packet::ethernet::{self, ethertype};
use packet::{Fragment, dissect, protocol};

/// A frame, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    /// Behind the VLAN tags; `None` when the frame ends before it.
    pub(crate) ethertype: Option<u16>,
    /// It has a VLAN tag.
    pub(crate) tagged: bool,
    /// A piece of an IP packet.
    pub(crate) fragment: bool,
    /// What flow it is of; `None` when it is no IP, or none that can be read.
    pub(crate) flow: Option<FlowId>,
    /// A header is cut, or impossible.
    pub(crate) malformed: bool,
}

/// Looks at a frame. `merged`: both directions are one flow.
#[inline(always)]
pub(crate) fn look(packet: &Packet<'_>, merged: bool) -> Sighting {
    look_at(packet.bytes(), merged)
}

/// Nearly all frames are IP without a tag, without options and in one piece: these are read at fixed places.
#[inline(always)]
pub(crate) fn look_at(frame: &[u8], merged: bool) -> Sighting {
    let flow = match frame.get(12..14) {
        Some([0x08, 0x00]) => {
            frame.get(14..).and_then(<[u8]>::first_chunk).and_then(|l3| plain_v4(l3, merged))
        }
        Some([0x86, 0xdd]) => {
            frame.get(14..).and_then(<[u8]>::first_chunk).and_then(|l3| plain_v6(l3, merged))
        }
        _ => None,
    };
    match flow {
        Some(flow) => Sighting {
            ethertype: Some(if flow.is_ipv6() { ethertype::IPV6 } else { ethertype::IPV4 }),
            tagged: false,
            fragment: false,
            flow: Some(flow),
            malformed: false,
        },
        None => look_closely(frame, merged),
    }
}

#[inline(always)]
fn plain_v4(l3: &[u8; 24], merged: bool) -> Option<FlowId> {
    let [0x45, _, t0, t1, _, _, f0, f1, _, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3, p0, p1, q0, q1] =
        *l3
    else {
        return None;
    };
    let plain = u16::from_be_bytes([f0, f1]) & 0x3fff == 0
        && u16::from_be_bytes([t0, t1]) >= 24
        && protocol::has_ports(protocol);
    let source = End::v4(u32::from_be_bytes([s0, s1, s2, s3]), u16::from_be_bytes([p0, p1]));
    let destination = End::v4(u32::from_be_bytes([d0, d1, d2, d3]), u16::from_be_bytes([q0, q1]));
    plain.then(|| FlowId::new(false, source, destination, protocol, merged))
}

#[inline(always)]
fn plain_v6(l3: &[u8; 44], merged: bool) -> Option<FlowId> {
    let ([first, s0, s1, d0, d1], [p0, p1, q0, q1]) = l3.as_chunks::<8>() else { return None };
    let [version, _, _, _, l0, l1, protocol, _] = *first;
    let plain = version >> 4 == 6 && u16::from_be_bytes([l0, l1]) >= 4 && protocol::has_ports(protocol);
    let word = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
    let source = End::v6(word(s0), word(s1), u16::from_be_bytes([*p0, *p1]));
    let destination = End::v6(word(d0), word(d1), u16::from_be_bytes([*q0, *q1]));
    plain.then(|| FlowId::new(true, source, destination, protocol, merged))
}

/// The same for everything that is less simple.
#[cold]
pub(crate) fn look_closely(frame: &[u8], merged: bool) -> Sighting {
    let nothing = Sighting { ethertype: None, tagged: false, fragment: false, flow: None, malformed: true };
    let Ok(link) = ethernet::View::new(frame) else { return nothing };
    let seen =
        Sighting { ethertype: Some(link.ethertype()), tagged: !link.tags().as_slice().is_empty(), ..nothing };
    let Ok(dissection) = dissect(frame) else { return seen };
    let Some(network) = dissection.network else { return Sighting { malformed: false, ..seen } };
    let mut key = network.flow_key();
    let fragment = network.fragment != Fragment::Whole;
    if fragment {
        // Later fragments have no ports; the first must not count elsewhere.
        (key.source_port, key.destination_port) = (0, 0);
    }
    let source = End::new(key.source, key.source_port);
    let destination = End::new(key.destination, key.destination_port);
    let flow = FlowId::new(key.source.is_ipv6(), source, destination, key.protocol, merged);
    Sighting { fragment, flow: Some(flow), malformed: false, ..seen }
}

/// Bytes of a frame with an IP packet that are neither the packet's nor a plain Ethernet header's: tags,
/// padding.
#[inline(always)]
pub(crate) fn extra(frame: &[u8]) -> u32 {
    let length = match frame.get(12..20) {
        Some([0x08, 0x00, _, _, t0, t1, ..]) => usize::from(u16::from_be_bytes([*t0, *t1])),
        Some([0x86, 0xdd, _, _, _, _, l0, l1]) => 40 + usize::from(u16::from_be_bytes([*l0, *l1])),
        _ => return extra_closely(frame),
    };
    // Of a frame that was cut the rest is the packet's.
    frame.len().saturating_sub(14 + length) as u32
}

#[cold]
fn extra_closely(frame: &[u8]) -> u32 {
    let Ok(dissection) = dissect(frame) else { return 0 };
    let Some(network) = dissection.network else { return 0 };
    let end = network.end.clamp(dissection.l3_offset, frame.len().max(dissection.l3_offset));
    (frame.len() + dissection.l3_offset).saturating_sub(14 + end) as u32
}
