//! Packets made in advance, in which only addresses, ports and checksums change.

use super::config::{Config, Protocol};
use super::flows::Flow;
use packet::checksum::{Endpoints, Sum, udp_wire};
use packet::{ethernet, ipv4, ipv6, protocol, tcp, udp};
use packet_memory::{Packet, Pool};
use std::net::{IpAddr, Ipv6Addr};

/// Bytes that may change lie before this; what is behind is written as it is.
const HEAD: usize = 128;

/// Begins the number of a packet within its flow, in the first bytes of its payload: these four, then flow
/// and number, in network byte order.
const MARK: [u8; 4] = *b"SFgo";

/// Bytes of mark, flow and number.
pub(super) const NUMBER_LENGTH: usize = 12;

/// Where the headers of a family and a protocol are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    v6: bool,
    protocol: Protocol,
    numbered: bool,
}

impl Shape {
    pub fn of(config: &Config) -> Shape {
        Shape { v6: config.source.0.is_ipv6(), protocol: config.protocol, numbered: config.check_order }
    }

    fn l4_offset(self) -> usize {
        ethernet::HEADER_LENGTH + if self.v6 { ipv6::HEADER_LENGTH } else { ipv4::HEADER_LENGTH }
    }

    /// Where the payload begins.
    pub fn payload_offset(self) -> usize {
        self.l4_offset()
            + match self.protocol {
                Protocol::Udp => udp::HEADER_LENGTH,
                Protocol::TcpAck | Protocol::TcpSyn => tcp::HEADER_LENGTH,
            }
    }

    /// Bytes of the shortest packet.
    pub fn least_size(self) -> u32 {
        (self.payload_offset() + if self.numbered { NUMBER_LENGTH } else { 0 }) as u32
    }
}

/// A packet of one length.
#[derive(Clone, Debug)]
pub(super) struct Template {
    head: [u8; HEAD],
    /// All bytes; the head's are overwritten.
    bytes: Vec<u8>,
    shape: Shape,
    /// Sums over what the checksums cover, without what changes.
    ip_sum: Sum,
    l4_sum: Sum,
}

impl Template {
    /// `size` is at least the shape's least.
    pub fn new(config: &Config, size: u32) -> Result<Template, packet::EmitError> {
        let shape = Shape::of(config);
        let mut bytes = vec![0; size as usize];
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte = n as u8;
        }
        let l4_offset = shape.l4_offset();
        let l4_length = bytes.len() - l4_offset;
        let ethertype = if shape.v6 { ethernet::ethertype::IPV6 } else { ethernet::ethertype::IPV4 };
        ethernet::Repr {
            destination: config.destination_mac,
            source: config.source_mac,
            tags: ethernet::Tags::NONE,
            ethertype,
        }
        .emit(&mut bytes)?;
        let l4_protocol = match shape.protocol {
            Protocol::Udp => protocol::UDP,
            Protocol::TcpAck | Protocol::TcpSyn => protocol::TCP,
        };
        let (source, destination) = (base(config.source.0), base(config.destination.0));
        let (_, packet) = bytes.split_at_mut(ethernet::HEADER_LENGTH);
        match (source, destination) {
            (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6::Repr {
                traffic_class: 0,
                flow_label: 0,
                payload_length: l4_length as u16,
                next_header: l4_protocol,
                hop_limit: 64,
                source,
                destination,
            }
            .emit(packet)?,
            (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Repr {
                traffic_class: 0,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: l4_protocol,
                source,
                destination,
                options: &[],
                payload_length: l4_length,
            }
            .emit(packet)?,
            // `Config::check` has refused it.
            _ => {}
        }
        if shape.numbered {
            let at = shape.payload_offset();
            bytes[at..at + 4].copy_from_slice(&MARK);
            bytes[at + 4..at + NUMBER_LENGTH].fill(0);
        }
        let endpoints = Endpoints::new(source, destination)
            .unwrap_or(Endpoints::V6 { source: Ipv6Addr::UNSPECIFIED, destination: Ipv6Addr::UNSPECIFIED });
        let segment = &mut bytes[l4_offset..];
        match shape.protocol {
            Protocol::Udp => {
                let payload_length = l4_length - udp::HEADER_LENGTH;
                udp::Repr { source_port: 0, destination_port: 0, payload_length }
                    .emit(segment, &endpoints)?;
            }
            Protocol::TcpAck | Protocol::TcpSyn => {
                let flags =
                    if shape.protocol == Protocol::TcpSyn { tcp::Flags::SYN } else { tcp::Flags::ACK };
                let acknowledgment = u32::from(shape.protocol == Protocol::TcpAck);
                tcp::Repr {
                    source_port: 0,
                    destination_port: 0,
                    sequence: 1,
                    acknowledgment,
                    flags,
                    window: u16::MAX,
                    urgent: 0,
                    options: &[],
                }
                .emit(segment, &endpoints)?;
            }
        }
        Template::with_sums(bytes, shape, l4_protocol, &endpoints)
    }

    fn with_sums(
        mut bytes: Vec<u8>,
        shape: Shape,
        l4_protocol: u8,
        endpoints: &Endpoints,
    ) -> Result<Template, packet::EmitError> {
        let l4_offset = shape.l4_offset();
        let checksum = l4_offset
            + if l4_protocol == protocol::UDP {
                udp::field::CHECKSUM.start
            } else {
                tcp::field::CHECKSUM.start
            };
        bytes[checksum..checksum + 2].fill(0);
        let l4_sum = endpoints.sum(l4_protocol, &bytes[l4_offset..]);
        let mut ip_sum = Sum::ZERO;
        if !shape.v6 {
            let header = &mut bytes[ethernet::HEADER_LENGTH..l4_offset];
            header[ipv4::field::CHECKSUM].fill(0);
            ip_sum = ip_sum.add_bytes(header);
        }
        let mut head = [0; HEAD];
        let known = bytes.len().min(HEAD);
        head[..known].copy_from_slice(&bytes[..known]);
        Ok(Template { head, bytes, shape, ip_sum, l4_sum })
    }

    /// Bytes of the packet.
    pub fn size(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Writes the packet of a flow, which fits into the pool's buffers.
    #[inline]
    pub fn write(&self, pool: &Pool, packet: &mut Packet, flow: Flow, number: Option<[u32; 2]>) {
        match (self.shape.v6, self.shape.protocol) {
            (false, Protocol::Udp) => self.write_as::<false, false>(pool, packet, flow, number),
            (false, _) => self.write_as::<false, true>(pool, packet, flow, number),
            (true, Protocol::Udp) => self.write_as::<true, false>(pool, packet, flow, number),
            (true, _) => self.write_as::<true, true>(pool, packet, flow, number),
        }
    }

    #[inline(always)]
    fn write_as<const V6: bool, const TCP: bool>(
        &self,
        pool: &Pool,
        packet: &mut Packet,
        flow: Flow,
        number: Option<[u32; 2]>,
    ) {
        const L3: usize = ethernet::HEADER_LENGTH;
        let mut head = self.head;
        let mut put = |at: usize, bytes: [u8; 4]| head[at..at + 4].copy_from_slice(&bytes);
        let (source, destination, l4) =
            if V6 { (L3 + 20, L3 + 36, L3 + 40) } else { (L3 + 12, L3 + 16, L3 + 20) };
        put(source, flow.source.to_be_bytes());
        put(destination, flow.destination.to_be_bytes());
        let ports = u32::from(flow.source_port) << 16 | u32::from(flow.destination_port);
        put(l4, ports.to_be_bytes());
        // The templates' addresses end in zeros, so that a flow's last words are all there is to add.
        let mut l4_sum = self.l4_sum.add_u32(flow.source).add_u32(flow.destination).add_u32(ports);
        if let Some([flow, number]) = number {
            let at = l4 + if TCP { 24 } else { 12 };
            put(at, flow.to_be_bytes());
            put(at + 4, number.to_be_bytes());
            l4_sum = l4_sum.add_u32(flow).add_u32(number);
        }
        if !V6 {
            let checksum = self.ip_sum.add_u32(flow.source).add_u32(flow.destination).checksum();
            head[L3 + 10..L3 + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        let checksum = if TCP { l4_sum.checksum() } else { udp_wire(l4_sum.checksum()) };
        let at = l4 + if TCP { 16 } else { 6 };
        head[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        // Neither can fail: the length was compared with the pool's, and the head is no longer than the
        // packet.
        if self.bytes.len() <= HEAD {
            let _ = pool.write(packet, &head[..self.bytes.len()]);
        } else {
            let _ = pool.write(packet, &self.bytes);
            let _ = pool.patch(packet, 0, &head);
        }
    }

    /// Flow and number that `write` gave the packet.
    pub fn number_of(shape: Shape, pool: &Pool, packet: &Packet) -> Option<[u32; 2]> {
        let mut bytes = [0; NUMBER_LENGTH];
        let found = pool.read(packet, shape.payload_offset(), &mut bytes);
        let [mark, flow, number] = *bytes.as_chunks::<4>().0 else { return None };
        (found == NUMBER_LENGTH && mark == MARK)
            .then(|| [u32::from_be_bytes(flow), u32::from_be_bytes(number)])
    }
}

/// An address with its last 32 bits cleared: these are the flow's.
fn base(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !0xffff_ffff).into(),
    }
}
