//! Frames cut into pieces: that each is what the kernel would have sent, and that nothing a header says does
//! harm.

use super::*;
use crate::Cut;
use encapsulation::{Encapsulation, Front, LayerSettings, Outer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A frame as a sender with segmentation leaves it, whose checksum is partial.
#[derive(Clone, Debug)]
struct Whole {
    v4: bool,
    tcp: bool,
    tags: usize,
    /// Words of IPv4 or TCP options.
    options: usize,
    payload: Vec<u8>,
    size: u16,
    flags: u8,
}

impl Whole {
    fn transport(&self) -> usize {
        14 + 4 * self.tags + if self.v4 { 20 + 4 * self.options } else { 40 }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        (0..self.tags).for_each(|_| bytes.extend([0x81, 0, 0, 7]));
        bytes.extend(if self.v4 { [8, 0] } else { [0x86, 0xdd] });
        let own = if self.tcp { 20 + 4 * self.options } else { 8 };
        let length = (own + self.payload.len()) as u16;
        let protocol = if self.tcp { 6 } else { 17 };
        let network = bytes.len();
        if self.v4 {
            let header = 20 + 4 * self.options;
            bytes.extend([0x40 | (header / 4) as u8, 0]);
            bytes.extend((header as u16 + length).to_be_bytes());
            bytes.extend([0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            bytes.resize(network + header, 1);
        } else {
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend(length.to_be_bytes());
            bytes.extend([protocol, 64]);
            bytes.extend((0..32).map(|n| n * 7));
        }
        let transport = bytes.len();
        bytes.extend([0x12, 0x34, 0, 80]);
        if self.tcp {
            bytes.extend([
                0xff,
                0xff,
                0xff,
                0x00,
                0,
                0,
                0,
                9,
                ((5 + self.options) << 4) as u8,
                self.flags,
                1,
                0,
            ]);
            bytes.extend([0, 0, 0, 0]);
            bytes.resize(transport + own, 1);
        } else {
            bytes.extend(length.to_be_bytes());
            bytes.extend([0, 0]);
        }
        let pseudo = pseudo(&bytes, network, self.v4) + u64::from(protocol) + u64::from(length);
        let at = transport + if self.tcp { 16 } else { 6 };
        bytes[at..at + 2].copy_from_slice(&reference(pseudo).to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    fn vnet(&self) -> VnetHeader {
        VnetHeader {
            flags: offload::NEEDS_CHECKSUM,
            gso_type: match (self.tcp, self.v4) {
                (true, true) => {
                    offload::GSO_TCPV4 | if self.flags & 0x80 != 0 { offload::GSO_ECN } else { 0 }
                }
                (true, false) => offload::GSO_TCPV6,
                (false, _) => offload::GSO_UDP_L4,
            },
            header_length: 0,
            gso_size: self.size,
            csum_start: self.transport() as u16,
            csum_offset: if self.tcp { 16 } else { 6 },
        }
    }
}

/// Words of the addresses.
fn pseudo(bytes: &[u8], network: usize, v4: bool) -> u64 {
    words(if v4 { &bytes[network + 12..network + 20] } else { &bytes[network + 8..network + 40] })
}

/// Another way to sum than the one under test.
fn words(bytes: &[u8]) -> u64 {
    bytes.iter().enumerate().map(|(n, byte)| u64::from(*byte) << if n % 2 == 0 { 8 } else { 0 }).sum()
}

fn reference(sum: u64) -> u16 {
    match sum % 0xffff {
        0 if sum > 0 => 0xffff,
        rest => rest as u16,
    }
}

/// All pieces, headers and payload together, with what is noted of them.
fn pieces(frame: &[u8], vnet: &VnetHeader, room: usize) -> Option<Vec<(Vec<u8>, VnetHeader)>> {
    let mut cut = Cut::new(frame, vnet, room)?;
    let mut out = Vec::new();
    let count = cut.left();
    while let Some(piece) = cut.next() {
        out.push(([piece.headers, &frame[piece.payload.clone()]].concat(), piece.vnet));
        assert_eq!(cut.left(), count - out.len());
    }
    assert_eq!(out.len(), count);
    Some(out)
}

/// A tunnel, or one in another, around frames.
fn tunnel(v4: [bool; 2], kinds: [u8; 2]) -> Encapsulation {
    let layer = |v4: bool, kind: u8| {
        let [local, remote]: [IpAddr; 2] = match v4 {
            true => [Ipv4Addr::new(10, 1, 2, 3).into(), Ipv4Addr::new(10, 3, 2, 1).into()],
            false => {
                [Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, 8).into(), Ipv6Addr::new(8, 7, 6, 5, 4, 3, 2, 1).into()]
            }
        };
        let (services, link) = (Some(9), ([2; 6], [4; 6]));
        let outer = Outer { local, remote, ttl: 9, services, dont_fragment: false, checksum: false, link };
        match kind {
            0 => LayerSettings::Vxlan { vni: 7, outer },
            1 => LayerSettings::Geneve { vni: 7, outer },
            2 => LayerSettings::Gre { key: Some(7), frames: true, outer },
            _ => LayerSettings::Nvgre { subnet: 7, outer },
        }
    };
    // Two of IPv6 are too long.
    let layers = [layer(v4[0], kinds[0]), layer(v4[1] || !v4[0], kinds[1] % 4)];
    Encapsulation::new(if kinds[1] < 4 { &layers } else { &layers[..1] }).expect("few layers")
}

/// Gives the UDP headers of tunnels a checksum, which is right once the inner checksum is complete.
fn with_checksums(frame: &mut [u8]) {
    let mut at = 14;
    loop {
        let v4 = frame[at] >> 4 == 4;
        let (protocol, behind) = if v4 { (frame[at + 9], at + 20) } else { (frame[at + 6], at + 40) };
        let inside = match (protocol, u16::from_be_bytes([frame[behind + 2], frame[behind + 3]])) {
            (17, 4789 | 6081) => {
                frame[behind + 6..behind + 8].copy_from_slice(&[1, 1]);
                behind + 16
            }
            (47, _) => behind + 8,
            _ => return,
        };
        at = inside + 14;
    }
}

fn whole() -> impl Strategy<Value = Whole> {
    let payload = prop::collection::vec(any::<u8>(), 1..9000);
    (any::<[bool; 2]>(), 0usize..3, 0usize..4, payload, 40u16..2000, any::<u8>()).prop_map(
        |([v4, tcp], tags, options, payload, size, flags)| Whole {
            v4,
            tcp,
            tags,
            options,
            payload,
            size,
            flags,
        },
    )
}

proptest! {
    #[test]
    fn pieces_are_what_was_to_be_sent(whole in whole(), room in 150usize..4000) {
        let (frame, transport) = (whole.bytes(), whole.transport());
        let own = if whole.tcp { 20 + 4 * whole.options } else { 8 };
        let Some(pieces) = pieces(&frame, &whole.vnet(), room) else {
            prop_assert!(transport + own + usize::from(whole.size) > room, "not even one segment fits");
            return Ok(());
        };
        let network = 14 + 4 * whole.tags;
        let (mut payload, count) = (Vec::<u8>::new(), pieces.len());
        for (n, (bytes, vnet)) in pieces.iter().enumerate() {
            prop_assert!(bytes.len() <= room);
            let length = bytes.len() - transport;
            // Lengths.
            let said = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            if whole.v4 {
                prop_assert_eq!(usize::from(said(network + 2)), bytes.len() - network);
                prop_assert_eq!(reference(words(&bytes[network..transport])), 0xffff, "the header's checksum");
                let segments = payload.len().div_ceil(usize::from(whole.size)) as u16;
                prop_assert_eq!(said(network + 4), 0xfffe_u16.wrapping_add(segments), "identification");
            } else {
                prop_assert_eq!(usize::from(said(network + 4)), length);
            }
            if whole.tcp {
                let number = u32::from_be_bytes(bytes[transport + 4..transport + 8].try_into().expect("four"));
                prop_assert_eq!(number, 0xffff_ff00_u32.wrapping_add(payload.len() as u32));
                let kept = whole.flags & !((if n + 1 == count { 0 } else { 0x09 }) | (if n == 0 { 0 } else { 0x80 }));
                prop_assert_eq!(bytes[transport + 13], kept);
            } else {
                prop_assert_eq!(usize::from(said(transport + 4)), length);
            }
            // The checksum, once it is completed: over pseudo-header and all of the piece it is all ones.
            let several = length - own > usize::from(whole.size);
            prop_assert_eq!(vnet.gso_type != offload::GSO_NONE, several);
            prop_assert_eq!(usize::from(vnet.csum_start), transport);
            let field = transport + usize::from(vnet.csum_offset);
            let mut done = bytes.clone();
            let completed = !reference(words(&bytes[transport..]));
            done[field..field + 2].copy_from_slice(&completed.to_be_bytes());
            let protocol = if whole.tcp { 6 } else { 17 };
            let all = pseudo(&done, network, whole.v4) + protocol + length as u64 + words(&done[transport..]);
            prop_assert_eq!(reference(all), 0xffff);
            payload.extend(&bytes[transport + own..]);
        }
        prop_assert_eq!(payload, whole.payload);
    }

    #[test]
    fn in_a_tunnel_each_piece_has_outer_headers_of_its_own(
        whole in whole(), v4 in any::<[bool; 2]>(), kinds in [0u8..4, 0u8..8], room in 150usize..4000, checksums: bool,
    ) {
        let whole = Whole { tags: 0, ..whole };
        let (inner, vnet) = (whole.bytes(), whole.vnet());
        let (tunnel, mut front) = (tunnel(v4, kinds), Front::NONE);
        tunnel.put_on(&inner, inner.len() as u32, 5, 6, &mut front).expect("short enough");
        let added = front.bytes().len();
        let mut frame = [front.bytes(), &inner].concat();
        if checksums {
            with_checksums(&mut frame);
        }
        let around = VnetHeader { csum_start: vnet.csum_start + added as u16, ..vnet };
        let (Some(plain), Some(pieces)) = (pieces(&inner, &vnet, room), pieces(&frame, &around, room + added)) else {
            prop_assert!(pieces(&inner, &vnet, room).is_none() && pieces(&frame, &around, room + added).is_none());
            return Ok(());
        };
        prop_assert_eq!(plain.len(), pieces.len());
        for ((inner, plain), (bytes, vnet)) in plain.iter().zip(&pieces) {
            prop_assert_eq!(&bytes[added..], &inner[..], "inside it is cut as without a tunnel");
            prop_assert_eq!(usize::from(vnet.csum_start), usize::from(plain.csum_start) + added);
            let mut done = bytes.clone();
            let (start, field) = (usize::from(vnet.csum_start), usize::from(vnet.csum_start + vnet.csum_offset));
            let completed = match !reference(words(&bytes[start..])) { 0 => 0xffff, other => other };
            done[field..field + 2].copy_from_slice(&completed.to_be_bytes());
            let mut at = 14;
            while at < added {
                let said = |at: usize| u16::from_be_bytes([done[at], done[at + 1]]);
                let v4 = done[at] >> 4 == 4;
                let (protocol, behind) = if v4 { (done[at + 9], at + 20) } else { (done[at + 6], at + 40) };
                prop_assert_eq!(usize::from(said(if v4 { at + 2 } else { at + 4 })), done.len() - if v4 { at } else { behind });
                if v4 {
                    prop_assert_eq!(reference(words(&done[at..behind])), 0xffff, "the header's checksum");
                }
                if protocol == 17 {
                    prop_assert_eq!(usize::from(said(behind + 4)), done.len() - behind);
                    prop_assert_eq!(said(behind + 6) != 0, checksums);
                    let all = pseudo(&done, at, v4) + 17 + (done.len() - behind) as u64 + words(&done[behind..]);
                    prop_assert!(!checksums || reference(all) == 0xffff, "the checksum of UDP");
                }
                at = behind + if protocol == 17 { 30 } else { 22 };
            }
        }
    }

    #[test]
    fn to_cut_what_was_cut_is_to_cut_it_at_once(whole in whole(), room in 2200usize..9000) {
        let (frame, least) = (whole.bytes(), whole.transport() + 20 + 4 * whole.options + usize::from(whole.size));
        let once = pieces(&frame, &whole.vnet(), least.max(room / 4)).expect("a segment fits");
        let mut twice = Vec::new();
        for (bytes, vnet) in pieces(&frame, &whole.vnet(), least.max(room)).expect("a segment fits") {
            match vnet.gso_type {
                offload::GSO_NONE => twice.push((bytes, vnet)),
                _ => twice.extend(pieces(&bytes, &vnet, least.max(room / 4)).expect("a segment fits")),
            }
        }
        let all = |of: &[(Vec<u8>, VnetHeader)]| -> Vec<Vec<u8>> {
            let single = usize::from(whole.size) + whole.transport() + if whole.tcp { 20 + 4 * whole.options } else { 8 };
            let cut = |(bytes, vnet): &(Vec<u8>, VnetHeader)| match vnet.gso_type {
                offload::GSO_NONE => vec![bytes.clone()],
                _ => pieces(bytes, vnet, single).expect("one fits").into_iter().map(|(bytes, _)| bytes).collect(),
            };
            of.iter().flat_map(cut).collect()
        };
        prop_assert_eq!(all(&once), all(&twice));
    }

    #[test]
    fn whatever_a_header_says_pieces_lie_within_the_frame(
        frame in prop::collection::vec(any::<u8>(), 0..400), header: [u8; 10], room in 0usize..400, ip in 0usize..3, kind in 0usize..6,
    ) {
        let mut frame = frame;
        if frame.len() > 40 && ip > 0 {
            frame[12..14].copy_from_slice(if ip == 1 { &[8, 0] } else { &[0x86, 0xdd] });
            let length = (frame.len() - 14) as u16;
            if ip == 1 {
                frame[14] = 0x45 | (frame[14] & 0x0f);
                frame[16..18].copy_from_slice(&length.to_be_bytes());
                frame[20..22].copy_from_slice(&[0, 0]);
            } else {
                frame[14] = 0x60;
                frame[18..20].copy_from_slice(&length.saturating_sub(40).to_be_bytes());
            }
        }
        let mut vnet = VnetHeader::from_bytes(&header);
        vnet.gso_type = kind as u8;
        if let Some(mut cut) = Cut::new(&frame, &vnet, room) {
            let mut end = None;
            while let Some(piece) = cut.next() {
                prop_assert!(piece.headers.len() + piece.payload.len() <= room && !piece.payload.is_empty());
                prop_assert!(end.is_none_or(|end| end == piece.payload.start));
                end = Some(piece.payload.end);
            }
            prop_assert_eq!(end, Some(frame.len()), "to the last byte");
        }
    }
}

#[test]
fn a_merged_frame_whose_checksum_was_verified_gets_partial_ones() {
    let whole =
        Whole { v4: true, tcp: true, tags: 0, options: 0, payload: vec![5; 3000], size: 1448, flags: 0x18 };
    let partial = pieces(&whole.bytes(), &whole.vnet(), 1600).expect("it fits");
    let (mut frame, mut vnet) = (whole.bytes(), whole.vnet());
    // As a network card that merges leaves it.
    frame[whole.transport() + 16..whole.transport() + 18].copy_from_slice(&[0xab, 0xcd]);
    (vnet.flags, vnet.csum_start, vnet.csum_offset) = (offload::CHECKSUM_VALID, 0, 0);
    assert_eq!(pieces(&frame, &vnet, 1600).expect("it fits"), partial);
    assert_eq!(partial.len(), 3);
}

#[test]
fn what_is_not_what_its_header_claims_is_not_cut() {
    let whole =
        Whole { v4: true, tcp: true, tags: 1, options: 2, payload: vec![5; 3000], size: 1000, flags: 0x10 };
    let (frame, vnet) = (whole.bytes(), whole.vnet());
    assert!(Cut::new(&frame, &vnet, 1500).is_some());
    let network = 18;
    let mut wrong = vec![];
    for (at, byte) in [
        (network, 0x44),
        (network + 3, 0),
        (network + 6, 0x20),
        (network + 9, 17),
        (whole.transport() + 12, 0x40),
        (12, 0x88),
    ] {
        let mut frame = frame.clone();
        frame[at] = byte;
        wrong.push((frame, vnet));
    }
    for change in [
        |vnet: &mut VnetHeader| vnet.gso_type = offload::GSO_TCPV6,
        |vnet: &mut VnetHeader| vnet.gso_type = offload::GSO_UDP,
        |vnet: &mut VnetHeader| vnet.gso_type = offload::GSO_UDP_L4,
        |vnet: &mut VnetHeader| vnet.gso_size = 0,
        |vnet: &mut VnetHeader| vnet.gso_size = 1500,
        |vnet: &mut VnetHeader| vnet.csum_start += 2,
    ] {
        let mut vnet = vnet;
        change(&mut vnet);
        wrong.push((frame.clone(), vnet));
    }
    for (n, (frame, vnet)) in wrong.iter().enumerate() {
        assert!(Cut::new(frame, vnet, 1500).is_none(), "{n}");
    }
}
