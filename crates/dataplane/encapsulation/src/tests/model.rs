//! The plain way: headers are written one around the other, from the packet outwards, each as a list of
//! bytes.

use crate::{LayerSettings, Outer};
use packet::checksum;
use proptest::prelude::*;
use std::net::IpAddr;

/// What there is to put the next header around: a frame, or what an EtherType says.
enum Inside {
    Frame(Vec<u8>),
    Bare(u16, Vec<u8>),
}

/// The frame, or `None` where the layers cannot carry the packet.
pub fn put_on(settings: &[LayerSettings], packet: &[u8], hash: u32, identification: u16) -> Option<Vec<u8>> {
    let kind = u16::from_be_bytes([packet[12], packet[13]]);
    let class = class(packet);
    // A frame inside of a tunnel keeps its header; else the header is taken apart, and comes outermost again.
    let mut inside = Inside::Frame(packet.to_vec());
    let mut link = packet[..12].to_vec();
    for layer in settings.iter().rev() {
        let carries = match layer {
            LayerSettings::Gre { frames, .. } => *frames,
            LayerSettings::Vlan { .. } | LayerSettings::Mpls { .. } | LayerSettings::IpIp { .. } => false,
            _ => true,
        };
        let bytes = match inside {
            Inside::Frame(bytes) if carries => Inside::Frame(bytes),
            Inside::Frame(bytes) => Inside::Bare(kind_of(&bytes), bytes[14..].to_vec()),
            Inside::Bare(kind, bytes) if carries => {
                Inside::Frame([&link[..], &kind.to_be_bytes(), &bytes].concat())
            }
            bare => bare,
        };
        inside = match (*layer, bytes) {
            (LayerSettings::Vlan { id, priority, service }, Inside::Bare(kind, bytes)) => {
                let tag = (u16::from(priority) << 13 | id).to_be_bytes();
                Inside::Bare(
                    if service { 0x88a8 } else { 0x8100 },
                    [&tag[..], &kind.to_be_bytes(), &bytes].concat(),
                )
            }
            (LayerSettings::Mpls { label, class, ttl }, Inside::Bare(kind, bytes)) => {
                let bottom = match kind {
                    0x0800 | 0x86dd => 1,
                    0x8847 => 0,
                    _ => return None,
                };
                let entry = label << 12 | u32::from(class) << 9 | bottom << 8 | u32::from(ttl);
                Inside::Bare(0x8847, [&entry.to_be_bytes()[..], &bytes].concat())
            }
            (LayerSettings::IpIp { outer }, Inside::Bare(kind, bytes)) => {
                let protocol = match kind {
                    0x0800 => 4,
                    0x86dd => 41,
                    _ => return None,
                };
                ip(&outer, protocol, &bytes, class, hash, identification)?
            }
            (LayerSettings::Gre { key, outer, .. }, inside) => {
                let (kind, bytes) = match inside {
                    Inside::Frame(bytes) => (0x6558, bytes),
                    Inside::Bare(kind, _) if matches!(kind, 0x8100 | 0x88a8) || kind < 0x600 => return None,
                    Inside::Bare(kind, bytes) => (kind, bytes),
                };
                let mut header = vec![if key.is_some() { 0x20 } else { 0 }, 0];
                header.extend(kind.to_be_bytes());
                header.extend(key.map(u32::to_be_bytes).into_iter().flatten());
                header.extend(bytes);
                ip(&outer, 47, &header, class, hash, identification)?
            }
            (LayerSettings::Nvgre { subnet, outer }, Inside::Frame(bytes)) => {
                let flow = (hash ^ hash >> 16) & 0xff;
                let header =
                    [&[0x20, 0, 0x65, 0x58][..], &(subnet << 8 | flow).to_be_bytes(), &bytes].concat();
                ip(&outer, 47, &header, class, hash, identification)?
            }
            (LayerSettings::Vxlan { vni, outer }, Inside::Frame(bytes)) => {
                let header = [&[8, 0, 0, 0][..], &(vni << 8).to_be_bytes(), &bytes].concat();
                ip(&outer, 17, &udp(4789, hash, &outer, &header)?, class, hash, identification)?
            }
            (LayerSettings::Geneve { vni, outer }, Inside::Frame(bytes)) => {
                let header = [&[0, 0, 0x65, 0x58][..], &(vni << 8).to_be_bytes(), &bytes].concat();
                ip(&outer, 17, &udp(6081, hash, &outer, &header)?, class, hash, identification)?
            }
            _ => unreachable!("layers that carry frames got one"),
        };
        if carries {
            // The Ethernet header around it belongs to the outermost tunnel before the next one that carries
            // a frame.
            link = vec![0; 12];
        }
        if let Some(outer) = outer(layer)
            && link != packet[..12]
        {
            link = [outer.link.0, outer.link.1].concat();
        }
    }
    let _ = kind;
    Some(match inside {
        Inside::Frame(bytes) => bytes,
        Inside::Bare(kind, bytes) => [&link[..], &kind.to_be_bytes(), &bytes].concat(),
    })
}

fn outer(layer: &LayerSettings) -> Option<&Outer> {
    match layer {
        LayerSettings::Vlan { .. } | LayerSettings::Mpls { .. } => None,
        LayerSettings::Gre { outer, .. }
        | LayerSettings::Nvgre { outer, .. }
        | LayerSettings::Vxlan { outer, .. }
        | LayerSettings::Geneve { outer, .. }
        | LayerSettings::IpIp { outer } => Some(outer),
    }
}

fn kind_of(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[12], frame[13]])
}

fn class(packet: &[u8]) -> u8 {
    let read = packet::dissect(packet).expect("a frame");
    let header = &packet[read.l3_offset..];
    match read.ethertype {
        0x0800 => header[1],
        0x86dd => header[0] << 4 | header[1] >> 4,
        _ => 0,
    }
}

fn udp(port: u16, hash: u32, outer: &Outer, body: &[u8]) -> Option<Vec<u8>> {
    let source = 0xc000 | (hash ^ hash >> 16) as u16;
    let length = u16::try_from(8 + body.len()).ok()?;
    let words = [source, port, length, 0];
    let mut datagram = [&words.map(u16::to_be_bytes).concat()[..], body].concat();
    if outer.checksum {
        let ends = checksum::Endpoints::new(outer.local, outer.remote).expect("one family");
        let sum = ends.sum(17, &datagram).checksum();
        datagram[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    }
    Some(datagram)
}

fn ip(outer: &Outer, protocol: u8, body: &[u8], class: u8, hash: u32, identification: u16) -> Option<Inside> {
    let class = outer.services.map_or(class & !3, |services| services << 2) | class & 3;
    Some(match (outer.local, outer.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            let length = u16::try_from(20 + body.len()).ok()?.to_be_bytes();
            let id = if outer.dont_fragment { 0 } else { identification }.to_be_bytes();
            let fragment = if outer.dont_fragment { 0x40 } else { 0 };
            let mut header =
                vec![0x45, class, length[0], length[1], id[0], id[1], fragment, 0, outer.ttl, protocol, 0, 0];
            header.extend(local.octets());
            header.extend(remote.octets());
            let sum = checksum::of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            Inside::Bare(0x0800, [&header, body].concat())
        }
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            let mut header = (6 << 28 | u32::from(class) << 20 | hash & 0xf_ffff).to_be_bytes().to_vec();
            header.extend(u16::try_from(body.len()).ok()?.to_be_bytes());
            header.extend([protocol, outer.ttl]);
            header.extend(local.octets());
            header.extend(remote.octets());
            Inside::Bare(0x86dd, [&header, body].concat())
        }
        _ => return None,
    })
}

/// Frames of IPv4, IPv6, ARP, with tags or without.
pub fn packets() -> impl Strategy<Value = Vec<u8>> {
    let body = prop::collection::vec(any::<u8>(), 0..40);
    (0u8..3, any::<u8>(), prop::collection::vec(0u16..4096, 0..3), body).prop_map(
        |(kind, class, tags, body)| {
            let mut bytes = vec![4, 4, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6];
            for tag in tags {
                bytes.extend([0x81, 0]);
                bytes.extend(tag.to_be_bytes());
            }
            let length = body.len() as u8;
            match kind {
                0 => {
                    bytes.extend([8, 0]);
                    let mut header =
                        vec![0x45, class, 0, 28 + length, 0, 1, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 2];
                    let sum = checksum::of(&header);
                    header[10..12].copy_from_slice(&sum.to_be_bytes());
                    bytes.extend(header);
                    bytes.extend([0x10, 0, 0, 53, 0, 8 + length, 0, 0]);
                }
                1 => {
                    bytes.extend([0x86, 0xdd, 0x60 | class >> 4, class << 4, 0, 0, 0, 8 + length, 17, 64]);
                    bytes.extend([3; 32]);
                    bytes.extend([0x10, 0, 0, 53, 0, 8 + length, 0, 0]);
                }
                _ => bytes.extend([8, 6, 0, 1, 8, 0, 6, 4]),
            }
            bytes.extend(body);
            bytes
        },
    )
}

/// Layers, most of which are allowed.
pub fn layers() -> impl Strategy<Value = Vec<LayerSettings>> {
    let addresses = prop_oneof![
        (any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        (any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ];
    let flags = any::<(bool, bool)>();
    let outer = (addresses, 1u8..=255, prop::option::of(0u8..64), flags, any::<([u8; 6], [u8; 6])>());
    let outer = outer.prop_map(|((local, remote), ttl, services, (dont_fragment, checksum), link)| Outer {
        local,
        remote,
        ttl,
        services,
        dont_fragment,
        checksum,
        link,
    });
    let layer = (0..8, outer, 0u32..1 << 24, any::<bool>()).prop_map(|(kind, outer, id, flag)| match kind {
        0 => LayerSettings::Vlan { id: (id % 4095) as u16, priority: (id % 8) as u8, service: flag },
        1 | 2 => {
            LayerSettings::Mpls { label: id % (1 << 20), class: (id % 8) as u8, ttl: 1 + (id % 255) as u8 }
        }
        3 => LayerSettings::Gre { key: flag.then_some(id), frames: id % 2 == 0, outer },
        4 => LayerSettings::Nvgre { subnet: id, outer },
        5 => LayerSettings::Vxlan { vni: id, outer },
        6 => LayerSettings::Geneve { vni: id, outer },
        _ => LayerSettings::IpIp { outer },
    });
    // VXLAN alone has a way of its own.
    let alone = layer.clone().prop_filter("VXLAN", |layer| matches!(layer, LayerSettings::Vxlan { .. }));
    prop_oneof![3 => prop::collection::vec(layer, 0..4), 1 => alone.prop_map(|layer| vec![layer])]
}
