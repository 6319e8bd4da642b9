//! What rules and flows look at in a packet's headers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use packet::tunnel::{Level, Path, Tunnel, Tunnels};
use packet::{Fragment, ParseError, Transport, dissect, protocol};

/// TCP flags, RFC 9293 section 3.1.
pub mod flag {
    /// No more data follows.
    pub const FIN: u8 = 0x01;
    /// Sequence numbers begin.
    pub const SYN: u8 = 0x02;
    /// The connection is over.
    pub const RST: u8 = 0x04;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
}

/// What a TCP header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags.
    pub flags: u8,
    /// Window, as it is there.
    pub window: u16,
    /// The urgent pointer, as it is there.
    pub urgent: u16,
    /// By how many bits windows are shifted (RFC 7323 section 2), where the option is.
    pub scale: Option<u8>,
    /// The sender's timestamp (RFC 7323 section 3), where the option is.
    pub stamp: Option<u32>,
    /// It is signed (RFC 2385, RFC 5925).
    pub has_digest: bool,
}

impl Tcp {
    /// Reads the options that say what a receiver accepts; a list that is not well-formed ends early.
    fn read_options(&mut self, mut options: &[u8]) {
        // As nearly all segments have them: timestamps behind two bytes of padding.
        if let [1, 1, 8, 10, a, b, c, d, _, _, _, _] = *options {
            self.stamp = Some(u32::from_be_bytes([a, b, c, d]));
            return;
        }
        loop {
            options = match *options {
                [1, ref rest @ ..] => rest,
                [3, 3, scale, ref rest @ ..] => {
                    // More than 14 counts as 14 (RFC 7323 section 2.3).
                    self.scale = Some(scale.min(14));
                    rest
                }
                [8, 10, a, b, c, d, _, _, _, _, ref rest @ ..] => {
                    self.stamp = Some(u32::from_be_bytes([a, b, c, d]));
                    rest
                }
                [kind, length, ..] if kind != 0 && length >= 2 => match options.get(usize::from(length)..) {
                    Some(rest) => {
                        self.has_digest |= matches!(kind, 19 | 29);
                        rest
                    }
                    None => return,
                },
                _ => return,
            };
        }
    }
}

/// An address in words: as an [`IpAddr`] of seventeen bytes it would be copied piecemeal with every packet,
/// each piece waiting for two others to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The more significant first; IPv4 as RFC 4291 section 2.5.5.2 maps it.
    pub words: [u32; 4],
    /// IPv4.
    pub is_ipv4: bool,
}

impl Address {
    /// As the rest of the world has it.
    pub fn ip(self) -> IpAddr {
        let [a, b, c, d] = self.words.map(u128::from);
        if self.is_ipv4 {
            IpAddr::V4(Ipv4Addr::from_bits(self.words[3]))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(a << 96 | b << 64 | c << 32 | d))
        }
    }
}

impl From<IpAddr> for Address {
    #[inline(always)]
    fn from(address: IpAddr) -> Address {
        let words = match address {
            IpAddr::V4(address) => [0, 0, 0xffff, address.to_bits()],
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                [(bits >> 96) as u32, (bits >> 64) as u32, (bits >> 32) as u32, bits as u32]
            }
        };
        Address { words, is_ipv4: address.is_ipv4() }
    }
}

/// An IP packet.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Source port; 0 without ports.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Protocol, behind IPv6 extension headers.
    pub protocol: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// The outermost VLAN identifiers, as far as there are any.
    pub vlans: [Option<u16>; 2],
    /// The tunnels that it is in.
    pub path: Path,
    /// TCP alone.
    pub tcp: Tcp,
    /// ICMP alone: type and code.
    pub icmp: Option<(u8, u8)>,
    /// A fragment: it has no payload here, and later ones no ports.
    pub is_fragment: bool,
    /// The IPv4 header, whose checksum it covers; empty over IPv6.
    pub ip_header: &'a [u8],
    /// The transport header and what follows it, as far as the IP header says; empty in a fragment.
    pub segment: &'a [u8],
    /// The frame is shorter than its IP header says.
    pub is_cut: bool,
    /// Behind the transport header. ICMP's is eight bytes long, that of messages with times or masks (RFC
    /// 792, RFC 950) longer; ICMPv6's four, of errors and echoes eight.
    pub payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Reads the transport header, and what is behind it.
    #[inline]
    fn read_transport(&mut self, mut segment: &'a [u8]) -> Result<(), Cut> {
        let header = match self.protocol {
            protocol::TCP => {
                let fixed: &[u8; 20] = segment.first_chunk().ok_or(Cut)?;
                let word =
                    |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
                let window = u16::from_be_bytes([fixed[14], fixed[15]]);
                let urgent = u16::from_be_bytes([fixed[18], fixed[19]]);
                let (seq, ack, flags) = (word(4), word(8), fixed[13]);
                self.tcp = Tcp { seq, ack, flags, window, urgent, ..Tcp::default() };
                let length = usize::from(fixed[12] >> 4) * 4;
                if length < 20 {
                    return Err(Cut);
                }
                if length > 20 {
                    self.tcp.read_options(segment.get(20..length).ok_or(Cut)?);
                }
                length
            }
            protocol::UDP => {
                // What its own length leaves out, no receiver takes for data.
                let length = usize::from(u16::from_be_bytes(
                    segment.get(4..6).and_then(|some| some.try_into().ok()).ok_or(Cut)?,
                ));
                if (8..segment.len()).contains(&length) {
                    segment = &segment[..length];
                }
                8
            }
            // The message may be shorter than its kind's header.
            protocol::ICMPV4 if segment.len() >= 20 && matches!(self.icmp, Some((13 | 14, _))) => 20,
            protocol::ICMPV4 if segment.len() >= 12 && matches!(self.icmp, Some((17 | 18, _))) => 12,
            // Only errors and echoes have eight bytes before their payload; of others Suricata takes
            // everything behind the checksum for payload.
            protocol::ICMPV6 if !matches!(self.icmp, Some((1..=4 | 128 | 129, _))) => segment.len().min(4),
            _ if self.icmp.is_some() => segment.len().min(8),
            _ => 0,
        };
        self.payload = segment.get(header..).ok_or(Cut)?;
        Ok(())
    }

    /// It is longer than what carries it, which no receiver takes; where it is looked at by a mirror
    /// (ERSPAN), the mirror may have cut it.
    pub fn is_short(&self) -> bool {
        let kinds = self.path.to_bits() >> 32;
        let is_mirrored = || (0..u16::BITS).step_by(4).any(|at| kinds >> at & 15 == Tunnel::Erspan as u64);
        self.is_cut && !is_mirrored()
    }

    /// As if the other end had sent it, without a payload.
    pub fn reversed(&self) -> View<'a> {
        View {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            payload: &[],
            ..*self
        }
    }
}

/// What a frame is.
#[derive(Debug)]
pub enum Frame<'a> {
    /// IP.
    Ip(View<'a>),
    /// Something else.
    Other,
    /// A header is cut short or contradicts itself.
    Malformed,
}

/// Reads a frame as nearly all are: a whole TCP or UDP packet without VLAN tags, IP options or extension
/// headers, in which there is no tunnel. `None` for any other, and for what is cut or malformed:
/// [`outermost`] and [`read`] tell.
#[inline]
pub fn plain<'a>(frame: &'a [u8], tunnels: &Tunnels) -> Option<View<'a>> {
    let ethertype: &[u8; 2] = frame.get(12..14)?.first_chunk()?;
    let l3 = frame.get(14..)?;
    let (source, destination, protocol, ttl, header, end) = match *ethertype {
        [0x08, 0x00] => {
            let [0x45, _, t0, t1, _, _, f0, f1, ttl, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] =
                *l3.first_chunk::<20>()?
            else {
                return None;
            };
            if u16::from_be_bytes([f0, f1]) & 0x3fff != 0 {
                return None;
            }
            let address = |bytes| Address { words: [0, 0, 0xffff, u32::from_be_bytes(bytes)], is_ipv4: true };
            let end = usize::from(u16::from_be_bytes([t0, t1]));
            (address([s0, s1, s2, s3]), address([d0, d1, d2, d3]), protocol, ttl, 20, end)
        }
        [0x86, 0xdd] => {
            let fixed: &[u8; 40] = l3.first_chunk()?;
            if fixed[0] >> 4 != 6 {
                return None;
            }
            let word =
                |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
            let address = |at: usize| Address {
                words: [word(at), word(at + 4), word(at + 8), word(at + 12)],
                is_ipv4: false,
            };
            let end = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
            (address(8), address(24), fixed[6], fixed[7], 40, end)
        }
        _ => return None,
    };
    let segment = l3.get(header..end)?;
    let &[p0, p1, q0, q1] = segment.first_chunk()?;
    let destination_port = u16::from_be_bytes([q0, q1]);
    let is_plain =
        protocol == protocol::TCP || protocol == protocol::UDP && !tunnels.is_near_port(destination_port);
    if !is_plain {
        return None;
    }
    let mut view = View {
        source,
        destination,
        source_port: u16::from_be_bytes([p0, p1]),
        destination_port,
        protocol,
        ttl,
        vlans: [None; 2],
        path: Path::OUTSIDE,
        tcp: Tcp::default(),
        icmp: None,
        is_fragment: false,
        ip_header: if header == 20 { l3.get(..20)? } else { &[] },
        segment,
        is_cut: false,
        payload: &[],
    };
    view.read_transport(segment).ok()?;
    Some(view)
}

/// Reads the headers of a frame's outermost packet.
#[inline]
pub fn outermost(frame: &[u8]) -> Result<Level, ParseError> {
    Ok(Level::outermost(dissect(frame)?, frame.len()))
}

/// Reads the rest of a packet's headers.
#[inline]
pub fn read<'a>(frame: &'a [u8], level: &Level) -> Frame<'a> {
    match view(frame, level) {
        Ok(Some(view)) => Frame::Ip(view),
        Ok(None) => Frame::Other,
        Err(_) => Frame::Malformed,
    }
}

struct Cut;

#[inline]
fn view<'a>(frame: &'a [u8], level: &Level) -> Result<Option<View<'a>>, Cut> {
    let Level { path, dissection, .. } = level;
    let Some(network) = &dissection.network else { return Ok(None) };
    let ttl_at = dissection.l3_offset + if network.source.is_ipv4() { 8 } else { 7 };
    let mut tags = dissection.tags.as_slice().iter().map(|tag| tag.tci & 0xfff);
    let mut view = View {
        source: network.source.into(),
        destination: network.destination.into(),
        source_port: 0,
        destination_port: 0,
        protocol: network.protocol,
        ttl: frame.get(ttl_at).copied().ok_or(Cut)?,
        vlans: [tags.next(), tags.next()],
        path: *path,
        tcp: Tcp::default(),
        icmp: None,
        is_fragment: network.fragment != Fragment::Whole,
        ip_header: &[],
        segment: &[],
        is_cut: network.end > frame.len(),
        payload: &[],
    };
    if network.source.is_ipv4() {
        view.ip_header = frame.get(dissection.l3_offset..network.l4_offset).ok_or(Cut)?;
    }
    match network.transport {
        Transport::Ports { source, destination } => {
            (view.source_port, view.destination_port) = (source, destination);
        }
        Transport::Icmp { kind, code, .. } => view.icmp = Some((kind, code)),
        Transport::Opaque => {}
    }
    if view.is_fragment {
        return Ok(Some(view));
    }
    let end = network.end.min(frame.len());
    let segment = frame.get(network.l4_offset..end).ok_or(Cut)?;
    view.segment = segment;
    view.read_transport(segment)?;
    Ok(Some(view))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tests::frames::{flags, icmp, stamp, tagged, tcp, udp};
    use packet::tunnel::Tunnel;
    use proptest::prelude::*;
    use std::format;

    proptest! {
        /// What is read at fixed places is what is read one header after the other.
        #[test]
        fn the_plain_look_sees_what_the_close_one_does(
            kind in 0usize..6,
            data in prop::collection::vec(any::<u8>(), 0..60),
            spoil in prop::collection::vec((0usize..80, any::<u8>()), 0..3),
            cut in 0usize..110,
        ) {
            let (v4, v6) = ((("192.0.2.1", 5000), ("192.0.2.2", 80)), (("2001:db8::1", 5000), ("2001:db8::2", 80)));
            let mut frame = match kind {
                0 => tcp(v4.0, v4.1, flags::ACK, 1, 2, &data),
                1 => tcp(v6.0, v6.1, flags::SYN, 1, 2, &[&stamp(9), &data[..]].concat()),
                2 => udp(v4.0, v4.1, &data),
                3 => udp(v6.0, (v6.1.0, 4789), &data),
                4 => icmp("192.0.2.1", "192.0.2.2", 8, 0, &data),
                _ => tagged(&tcp(v4.0, v4.1, flags::ACK, 1, 2, &data), &[7]),
            };
            let all = Tunnels::new(Tunnel::ALL);
            prop_assert_eq!(plain(&frame, &all).is_some(), kind < 3);
            for (place, byte) in spoil {
                if let Some(some) = frame.get_mut(place) {
                    *some = byte;
                }
            }
            for frame in [&frame[..], &frame[..cut.min(frame.len())]] {
                let Some(plain) = plain(frame, &all) else { continue };
                let level = outermost(frame).expect("well-formed");
                let Frame::Ip(view) = read(frame, &level) else { panic!("IP") };
                prop_assert_eq!(format!("{plain:?}"), format!("{view:?}"));
                prop_assert!(matches!(all.inside(frame, &level), Ok(None)));
            }
        }
    }

    #[test]
    fn options() {
        let read = |options: &[u8]| {
            let mut tcp = Tcp::default();
            tcp.read_options(options);
            (tcp.scale, tcp.stamp)
        };
        assert_eq!(read(&[1, 1, 8, 10, 0, 0, 1, 2, 0, 0, 0, 0]), (None, Some(258)));
        assert_eq!(
            read(&[2, 4, 5, 180, 4, 2, 8, 10, 1, 0, 0, 0, 0, 0, 0, 0, 1, 3, 3, 7]),
            (Some(7), Some(1 << 24))
        );
        assert_eq!(read(&[3, 3, 200]), (Some(14), None));
        // Behind the list's end, and behind what is not well-formed, there is nothing.
        assert_eq!(read(&[0, 3, 3, 7]), (None, None));
        assert_eq!(read(&[5, 1, 3, 3, 7]), (None, None));
        assert_eq!(read(&[5, 40, 3, 3, 7]), (None, None));
        assert_eq!(read(&[8, 10, 1, 2]), (None, None));
    }
}
