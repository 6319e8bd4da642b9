//! What one look at a frame tells.

use crate::flow_id::{End, FlowId};
use nf_sdk::Packet;
use packet::ethernet::{self, ethertype};
use packet::tunnel::{Level, Tunnel, Tunnels};
use packet::{Dissection, Fragment, Network, dissect, protocol};

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
    /// Its IPv4 header has a length of 0, as captures have it where the network card cuts segments.
    pub(crate) unsegmented: bool,
    /// There may be a packet inside of this one.
    pub(crate) deeper: bool,
}

/// Looks at a frame. `merged`: both directions are one flow.
#[inline(always)]
pub(crate) fn look(packet: &Packet<'_>, merged: bool, tunnels: &Tunnels) -> Sighting {
    look_at(packet.bytes(), merged, tunnels)
}

/// Nearly all frames are IP without a tag, without options and in one piece: these are read at fixed places.
#[inline(always)]
pub(crate) fn look_at(frame: &[u8], merged: bool, tunnels: &Tunnels) -> Sighting {
    let flow = match frame.get(12..14) {
        Some([0x08, 0x00]) => {
            frame.get(14..).and_then(<[u8]>::first_chunk).and_then(|l3| plain_v4(l3, merged, tunnels))
        }
        Some([0x86, 0xdd]) => {
            frame.get(14..).and_then(<[u8]>::first_chunk).and_then(|l3| plain_v6(l3, merged, tunnels))
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
            unsegmented: false,
            deeper: false,
        },
        None => look_closely(frame, merged, tunnels),
    }
}

/// A protocol with ports, in which there is no tunnel.
#[inline(always)]
fn is_plain(protocol: u8, port: [u8; 2], tunnels: &Tunnels) -> bool {
    match protocol {
        protocol::TCP => true,
        protocol::UDP => !tunnels.is_near_port(u16::from_be_bytes(port)),
        other => protocol::has_ports(other),
    }
}

#[inline(always)]
fn plain_v4(l3: &[u8; 24], merged: bool, tunnels: &Tunnels) -> Option<FlowId> {
    let [0x45, _, t0, t1, _, _, f0, f1, _, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3, p0, p1, q0, q1] =
        *l3
    else {
        return None;
    };
    let plain = u16::from_be_bytes([f0, f1]) & 0x3fff == 0
        && u16::from_be_bytes([t0, t1]) >= 24
        && is_plain(protocol, [q0, q1], tunnels);
    let source = End::v4(u32::from_be_bytes([s0, s1, s2, s3]), u16::from_be_bytes([p0, p1]));
    let destination = End::v4(u32::from_be_bytes([d0, d1, d2, d3]), u16::from_be_bytes([q0, q1]));
    plain.then(|| FlowId::new(false, source, destination, protocol, merged))
}

#[inline(always)]
fn plain_v6(l3: &[u8; 44], merged: bool, tunnels: &Tunnels) -> Option<FlowId> {
    let ([first, s0, s1, d0, d1], [p0, p1, q0, q1]) = l3.as_chunks::<8>() else { return None };
    let [version, _, _, _, l0, l1, protocol, _] = *first;
    let plain =
        version >> 4 == 6 && u16::from_be_bytes([l0, l1]) >= 4 && is_plain(protocol, [*q0, *q1], tunnels);
    let word = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
    let source = End::v6(word(s0), word(s1), u16::from_be_bytes([*p0, *p1]));
    let destination = End::v6(word(d0), word(d1), u16::from_be_bytes([*q0, *q1]));
    plain.then(|| FlowId::new(true, source, destination, protocol, merged))
}

/// The same for everything that is less simple.
#[cold]
pub(crate) fn look_closely(frame: &[u8], merged: bool, tunnels: &Tunnels) -> Sighting {
    let nothing = Sighting {
        ethertype: None,
        tagged: false,
        fragment: false,
        flow: None,
        malformed: true,
        unsegmented: false,
        deeper: false,
    };
    let Ok(link) = ethernet::View::new(frame) else { return nothing };
    let seen =
        Sighting { ethertype: Some(link.ethertype()), tagged: !link.tags().as_slice().is_empty(), ..nothing };
    let Ok(dissection) = dissect(frame) else { return seen };
    let outermost = Level::outermost(dissection, frame.len());
    let deeper = !matches!(tunnels.inside(frame, &outermost), Ok(None));
    let Some(network) = dissection.network else { return Sighting { malformed: false, deeper, ..seen } };
    let fragment = network.fragment != Fragment::Whole;
    let l3 = frame.get(dissection.l3_offset..).unwrap_or_default();
    let unsegmented = network.source.is_ipv4() && l3.get(2..4) == Some(&[0, 0]);
    Sighting {
        fragment,
        flow: Some(flow_of(&network, merged)),
        malformed: false,
        unsegmented,
        deeper,
        ..seen
    }
}

/// The flow of an IP packet.
fn flow_of(network: &Network, merged: bool) -> FlowId {
    let mut key = network.flow_key();
    if network.fragment != Fragment::Whole {
        // Later fragments have no ports; the first must not count elsewhere.
        (key.source_port, key.destination_port) = (0, 0);
    }
    let source = End::new(key.source, key.source_port);
    let destination = End::new(key.destination, key.destination_port);
    FlowId::new(key.source.is_ipv6(), source, destination, key.protocol, merged)
}

/// A packet inside of another.
pub(crate) struct Inside {
    pub(crate) tunnel: Tunnel,
    pub(crate) path: u64,
    /// What flow it is of, if it is IP.
    pub(crate) flow: Option<FlowId>,
    /// As [`extra`] has it.
    pub(crate) extra: u32,
}

/// Shows the packets inside of a frame, outermost first; false when one cannot be read.
#[cold]
pub(crate) fn look_inside(
    frame: &[u8],
    merged: bool,
    tunnels: &Tunnels,
    mut show: impl FnMut(Inside),
) -> bool {
    let Ok(dissection) = dissect(frame) else { return true };
    let mut level = Level::outermost(dissection, frame.len());
    loop {
        level = match tunnels.inside(frame, &level) {
            Ok(Some(inside)) => inside,
            Ok(None) => return true,
            Err(_) => return false,
        };
        let Some(tunnel) = level.path.tunnel() else { return true };
        show(Inside {
            tunnel,
            path: level.path.to_bits(),
            flow: level.dissection.network.map(|network| flow_of(&network, merged).inside()),
            extra: extra_of(frame, &level.dissection),
        });
    }
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
    if length == 0 {
        return extra_closely(frame);
    }
    // Of a frame that was cut the rest is the packet's.
    frame.len().saturating_sub(14 + length) as u32
}

#[cold]
fn extra_closely(frame: &[u8]) -> u32 {
    dissect(frame).map_or(0, |dissection| extra_of(frame, &dissection))
}

fn extra_of(frame: &[u8], dissection: &Dissection) -> u32 {
    let Some(network) = dissection.network else { return 0 };
    let end = network.end.clamp(dissection.l3_offset, frame.len().max(dissection.l3_offset));
    (frame.len() + dissection.l3_offset).saturating_sub(14 + end) as u32
}
