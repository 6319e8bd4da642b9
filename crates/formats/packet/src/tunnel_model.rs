//! A plain model of what is inside of frames, for tests and for fuzzing: it goes down by slices, one header
//! after the other, and keeps lists, where [`crate::tunnel`] keeps offsets.

extern crate std;

use super::tunnel::{MAX_LABELS, MAX_LEVELS, Tunnel};
use super::{FlowKey, Fragment, Transport, dissect};
use std::vec::Vec;

/// A packet: tunnels around it with what identifies them, and the 5-tuple if it is IP.
pub type Found = (Vec<(Tunnel, u32)>, Option<FlowKey>);

/// What a slice is said to be.
enum Said {
    Frame,
    Type(u16),
    Ip,
}

/// All packets of a frame, outermost first, and whether it could be read to the end.
pub fn model(frame: &[u8], has: &[Tunnel], vxlan: &[u16], geneve: &[u16]) -> (Vec<Found>, bool) {
    let mut found = Vec::new();
    let whole = Model { has, vxlan, geneve }.down(frame, &Said::Frame, Vec::new(), &mut found).is_some();
    (found, whole)
}

struct Model<'a> {
    has: &'a [Tunnel],
    vxlan: &'a [u16],
    geneve: &'a [u16],
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

impl Model<'_> {
    fn down(
        &self,
        bytes: &[u8],
        said: &Said,
        around: Vec<(Tunnel, u32)>,
        found: &mut Vec<Found>,
    ) -> Option<()> {
        // Anything becomes a frame, which `dissect` reads without looking inside.
        let mut frame = Vec::from([0; 12]);
        match said {
            Said::Frame => frame = bytes.into(),
            Said::Type(kind) if *kind < 0x600 || matches!(*kind, 0x8100 | 0x88a8 | 0x9100) => {
                found.push((around, None));
                return Some(());
            }
            Said::Type(0x6558) => return self.down(bytes, &Said::Frame, around, found),
            Said::Type(kind) => frame.extend(kind.to_be_bytes()),
            Said::Ip if bytes.first().is_some_and(|first| first >> 4 == 6) => frame.extend([0x86, 0xdd]),
            Said::Ip => frame.extend([8, 0]),
        }
        if !matches!(said, Said::Frame) {
            frame.extend(bytes);
        }
        let read = dissect(&frame).ok()?;
        found.push((around.clone(), read.flow_key()));
        let (next, protocol, port) = match read.network {
            Some(network) if network.fragment == Fragment::Whole => {
                let port = match network.transport {
                    Transport::Ports { destination, .. } => destination,
                    _ => 0,
                };
                let end = network.end.min(frame.len());
                (frame.get(network.l4_offset..end).unwrap_or_default(), u16::from(network.protocol), port)
            }
            Some(_) => return Some(()),
            None => (frame.get(read.l3_offset..).unwrap_or_default(), read.ethertype, 0),
        };
        let is_ip = read.network.is_some();
        let Some((tunnel, id, length, said)) = self.header(next, is_ip, protocol, port)? else {
            return Some(());
        };
        if around.len() == MAX_LEVELS {
            return None;
        }
        let around = around.into_iter().chain([(tunnel, id)]).collect();
        self.down(next.get(length..)?, &said, around, found)
    }

    /// The tunnel's header at the beginning of these bytes. The outer `None`: it cannot be read.
    fn header(
        &self,
        bytes: &[u8],
        is_ip: bool,
        kind: u16,
        port: u16,
    ) -> Option<Option<(Tunnel, u32, usize, Said)>> {
        let has = |tunnel| self.has.contains(&tunnel);
        Some(match (is_ip, kind) {
            (true, 4) if has(Tunnel::IpInIp) => Some((Tunnel::IpInIp, 0, 0, Said::Type(0x0800))),
            (true, 41) if has(Tunnel::IpInIp) => Some((Tunnel::IpInIp, 0, 0, Said::Type(0x86dd))),
            (true, 47) if has(Tunnel::Gre) || has(Tunnel::Erspan) => self.gre(bytes)?,
            (true, 17) if port != 0 && has(Tunnel::Vxlan) && self.vxlan.contains(&port) => {
                let (first, id) = (word(bytes, 8)?, word(bytes, 12)? >> 8);
                let said = match (first >> 24 & 4, first & 0xff) {
                    (0, _) | (_, 3) => Some(Said::Frame),
                    (_, 1) => Some(Said::Type(0x0800)),
                    (_, 2) => Some(Said::Type(0x86dd)),
                    (_, 4) => Some(Said::Type(0x894f)),
                    _ => None,
                };
                said.filter(|_| first >> 24 & 8 != 0).map(|said| (Tunnel::Vxlan, id, 16, said))
            }
            (true, 17) if port != 0 && has(Tunnel::Geneve) && self.geneve.contains(&port) => {
                let (first, id) = (word(bytes, 8)?, word(bytes, 12)? >> 8);
                let length = 16 + (first >> 24 & 63) as usize * 4;
                (first >> 30 == 0).then_some((Tunnel::Geneve, id, length, Said::Type(first as u16)))
            }
            (true, 137) | (false, 0x8847 | 0x8848) if has(Tunnel::Mpls) => {
                let labels: Vec<u32> = (0..MAX_LABELS).map_while(|n| word(bytes, 4 * n)).collect();
                let last = labels.iter().position(|label| label & 0x100 != 0)?;
                let behind = 4 * (last + 1);
                let said = match bytes.get(behind)? >> 4 {
                    4 => Some((0, Said::Type(0x0800))),
                    6 => Some((0, Said::Type(0x86dd))),
                    0 => Some((4, Said::Frame)),
                    _ => None,
                };
                said.map(|(more, said)| (Tunnel::Mpls, labels[last] >> 12, behind + more, said))
            }
            (false, 0x8864) if has(Tunnel::Pppoe) => {
                let first = word(bytes, 0)?;
                half(bytes, 4)?;
                if first >> 16 == 0x1100 { ppp(bytes, 6, Tunnel::Pppoe, first & 0xffff)? } else { None }
            }
            (false, 0x894f) if has(Tunnel::Nsh) => {
                let (first, id) = (word(bytes, 0)?, word(bytes, 4)?);
                let length = (first >> 16 & 63) as usize * 4;
                if first >> 30 != 0 {
                    return Some(None);
                }
                if length < 8 {
                    return None;
                }
                let said = match first & 0xff {
                    1 => Some(Said::Type(0x0800)),
                    2 => Some(Said::Type(0x86dd)),
                    3 => Some(Said::Frame),
                    4 => Some(Said::Type(0x894f)),
                    5 => Some(Said::Type(0x8847)),
                    _ => None,
                };
                said.map(|said| (Tunnel::Nsh, id, length, said))
            }
            _ => None,
        })
    }

    fn gre(&self, bytes: &[u8]) -> Option<Option<(Tunnel, u32, usize, Said)>> {
        let (flags, kind) = (half(bytes, 0)?, half(bytes, 2)?);
        let four = |flag: u16| if flags & flag == 0 { 0 } else { 4 };
        if flags & 7 == 1 && kind == 0x880b && flags & 0x2000 != 0 {
            let length = 8 + four(0x1000) + four(0x80);
            bytes.get(..length)?;
            let call = half(bytes, 6)?;
            if flags & 0x1000 == 0 || !self.has.contains(&Tunnel::Gre) {
                // What it is need not be found out, but it has to be there.
                return if flags & 0x1000 == 0 {
                    Some(None)
                } else {
                    ppp(bytes, length, Tunnel::Gre, 0).map(|_| None)
                };
            }
            return ppp(bytes, length, Tunnel::Gre, u32::from(call));
        }
        if flags & 0x4007 != 0 {
            return Some(None);
        }
        let key_at = 4 + four(0x8000);
        let length = key_at + four(0x2000) + four(0x1000);
        bytes.get(..length)?;
        if matches!(kind, 0x88be | 0x22eb) && self.has.contains(&Tunnel::Erspan) {
            if kind == 0x88be && four(0x1000) == 0 {
                return Some(Some((Tunnel::Erspan, 0, length, Said::Frame)));
            }
            let first = word(bytes, length)?;
            let session = first & 0x3ff;
            return Some(match (first >> 28, kind) {
                (1, 0x88be) => Some((Tunnel::Erspan, session, length + 8, Said::Frame)),
                (2, 0x22eb) => {
                    let last = word(bytes, length + 8)?;
                    let length = length + if last & 1 == 0 { 12 } else { 20 };
                    match last >> 10 & 31 {
                        0 => Some((Tunnel::Erspan, session, length, Said::Frame)),
                        2 => Some((Tunnel::Erspan, session, length, Said::Ip)),
                        _ => None,
                    }
                }
                _ => None,
            });
        }
        let id = if four(0x2000) == 0 { 0 } else { word(bytes, key_at)? };
        Some(self.has.contains(&Tunnel::Gre).then_some((Tunnel::Gre, id, length, Said::Type(kind))))
    }
}

fn ppp(bytes: &[u8], at: usize, tunnel: Tunnel, id: u32) -> Option<Option<(Tunnel, u32, usize, Said)>> {
    let at = if bytes.get(at..at + 2) == Some(&[0xff, 3]) { at + 2 } else { at };
    let first = *bytes.get(at)?;
    let (kind, behind) = if first % 2 == 1 { (u16::from(first), at + 1) } else { (half(bytes, at)?, at + 2) };
    let kinds = [(0x21, 0x0800), (0x57, 0x86dd), (0x281, 0x8847), (0x283, 0x8848)];
    let known = kinds.into_iter().find(|(ppp, _)| *ppp == kind);
    Some(known.map(|(_, kind)| (tunnel, id, behind, Said::Type(kind))))
}
