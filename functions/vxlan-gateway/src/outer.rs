//! The headers in front of a frame in VXLAN: Ethernet, IP, UDP and VXLAN (RFC 7348 section 5).

use core::net::IpAddr;
use packet::checksum::{Sum, udp_wire};
use packet::{ethernet, ipv4, ipv6, protocol, udp};

/// Bytes of the VXLAN header.
pub const VXLAN: usize = 8;
/// The flag by which the header's network is valid.
pub const VALID_VNI: u8 = 0x08;
/// Source ports: RFC 7348 section 5 asks for those of RFC 6335's dynamic range.
pub const FIRST_PORT: u16 = 49152;

/// A checksum in the frame that is still to be completed: where its sum begins and where it is stored, in
/// bytes from the frame's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Where the sum begins.
    pub start: usize,
    /// Where it is stored, from `start`.
    pub offset: usize,
}

/// What the headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// From this endpoint.
    pub local: IpAddr,
    /// To that one, of the same family.
    pub remote: IpAddr,
    /// The network, 24 bits.
    pub vni: u32,
    /// UDP's destination port.
    pub port: u16,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// A hash of the flow in the frame: it becomes the source port and the flow label (RFC 6438).
    pub hash: u32,
    /// Over IPv6, whether UDP goes without a checksum; over IPv4 it always does.
    pub is_unsummed: bool,
}

/// Bytes in front of a frame to an endpoint of this family.
pub const fn length(remote: IpAddr) -> usize {
    ethernet::HEADER_LENGTH + ip_length(remote) + udp::HEADER_LENGTH + VXLAN
}

const fn ip_length(remote: IpAddr) -> usize {
    if remote.is_ipv4() { ipv4::HEADER_LENGTH } else { ipv6::HEADER_LENGTH }
}

impl Outer {
    /// Writes the headers at the beginning of `packet`, which has the frame behind [`length`] bytes of room.
    /// The Ethernet addresses are left to write. `None`, and nothing of use is written, when the packet is
    /// longer than IP can say.
    pub fn write(&self, packet: &mut [u8], partial: Option<Partial>) -> Option<()> {
        let at = ethernet::HEADER_LENGTH + ip_length(self.remote);
        let length = u16::try_from(packet.len().checked_sub(at)?).ok()?;
        let kind = match (self.local, self.remote) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = ipv4::Repr {
                    traffic_class: self.traffic_class,
                    identification: 0,
                    // RFC 7348 section 4.3: what is in VXLAN is not to be fragmented.
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: self.ttl,
                    protocol: protocol::UDP,
                    source,
                    destination,
                    options: &[],
                    payload_length: length.into(),
                };
                header.emit(packet.get_mut(ethernet::HEADER_LENGTH..)?).ok()?;
                ethernet::ethertype::IPV4
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = ipv6::Repr {
                    traffic_class: self.traffic_class,
                    flow_label: self.hash,
                    payload_length: length,
                    next_header: protocol::UDP,
                    hop_limit: self.ttl,
                    source,
                    destination,
                };
                header.emit(packet.get_mut(ethernet::HEADER_LENGTH..)?).ok()?;
                ethernet::ethertype::IPV6
            }
            _ => return None,
        };
        packet.get_mut(ethernet::field::ETHERTYPE)?.copy_from_slice(&kind.to_be_bytes());
        let datagram = packet.get_mut(at..)?;
        let source = FIRST_PORT | (self.hash >> 16 ^ self.hash) as u16 >> 2;
        let headers = datagram.first_chunk_mut::<16>()?;
        headers[..2].copy_from_slice(&source.to_be_bytes());
        headers[2..4].copy_from_slice(&self.port.to_be_bytes());
        headers[4..6].copy_from_slice(&length.to_be_bytes());
        headers[6..12].copy_from_slice(&[0, 0, VALID_VNI, 0, 0, 0]);
        headers[12..].copy_from_slice(&(self.vni << 8).to_be_bytes());
        if let (IpAddr::V6(source), IpAddr::V6(destination), false) =
            (self.local, self.remote, self.is_unsummed)
        {
            let pseudo = Sum::ZERO.add_pseudo_v6(source, destination, protocol::UDP, length.into());
            let sum = udp_wire(body(pseudo, datagram, partial)?.checksum());
            datagram.get_mut(udp::field::CHECKSUM)?.copy_from_slice(&sum.to_be_bytes());
        }
        Some(())
    }
}

/// Adds a datagram as it will be when the checksum in it is complete: the bytes that this covers then add up
/// to the complement of what stands in its place now, so they are not read.
fn body(sum: Sum, datagram: &[u8], partial: Option<Partial>) -> Option<Sum> {
    let Some(Partial { start, offset }) = partial else { return Some(sum.add_bytes(datagram)) };
    let start = start + udp::HEADER_LENGTH + VXLAN;
    let (before, covered) = datagram.split_at_checked(start)?;
    let word = !u16::from_be_bytes(*covered.get(offset..)?.first_chunk()?);
    // Its bytes change places where it begins at an odd distance.
    let word = if start.is_multiple_of(2) { word } else { word.swap_bytes() };
    Some(sum.add_bytes(before).add_u16(word))
}
