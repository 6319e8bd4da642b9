//! IPv6 and its extension headers (RFC 8200; authentication header RFC 4302).

use crate::error::{EmitError, Layer, ParseError, ensure, ensure_room};
use crate::field_access::{array_at, clipped, put, put_u8, put_u16, put_u32, u8_at, u16_at, u32_at};
use crate::protocol;
use core::net::Ipv6Addr;

/// Where the fields are.
pub mod field {
    use crate::field_access::Field;
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    pub const VERSION_CLASS_LABEL: Field = 0..4;
    /// Bytes behind this header.
    pub const PAYLOAD_LENGTH: Field = 4..6;
    /// What follows.
    pub const NEXT_HEADER: usize = 6;
    /// Hop limit.
    pub const HOP_LIMIT: usize = 7;
    /// Source address.
    pub const SOURCE: Field = 8..24;
    /// Destination address.
    pub const DESTINATION: Field = 24..40;
}

/// Bytes of the header.
pub const HEADER_LENGTH: usize = 40;
/// Bytes of the fragment header.
pub const FRAGMENT_HEADER_LENGTH: usize = 8;
/// Extension headers that are looked behind in one packet: more than an Ethernet frame of 1,514 bytes has.
/// Hosts walk over any number, and what is not looked behind could be anything.
pub const MAX_EXTENSIONS: usize = 184;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks length and version. The payload may be cut: see [`View::is_cut`].
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::Version`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<View<'a>, ParseError> {
        ensure(Layer::Ipv6, bytes, HEADER_LENGTH)?;
        let version = u8_at(bytes, 0) >> 4;
        if version != 6 {
            return Err(ParseError::Version { layer: Layer::Ipv6, found: version });
        }
        Ok(View { bytes })
    }

    /// Differentiated services and ECN.
    pub fn traffic_class(&self) -> u8 {
        (u32_at(self.bytes, field::VERSION_CLASS_LABEL) >> 20) as u8
    }

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        u32_at(self.bytes, field::VERSION_CLASS_LABEL) & 0xf_ffff
    }

    /// Bytes behind this header, as it says.
    #[inline]
    pub fn payload_length(&self) -> u16 {
        u16_at(self.bytes, field::PAYLOAD_LENGTH)
    }

    /// Whether there are fewer bytes than the header says.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < HEADER_LENGTH + usize::from(self.payload_length())
    }

    /// What follows: a transport protocol or an extension header, see [`crate::protocol`].
    #[inline]
    pub fn next_header(&self) -> u8 {
        u8_at(self.bytes, field::NEXT_HEADER)
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        u8_at(self.bytes, field::HOP_LIMIT)
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        array_at(self.bytes, field::SOURCE).into()
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        array_at(self.bytes, field::DESTINATION).into()
    }

    /// Extension headers and what follows them, without the padding of a short frame, as far as it is there.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        clipped(self.bytes, HEADER_LENGTH, HEADER_LENGTH + usize::from(self.payload_length()))
    }

    /// Walks over the extension headers.
    ///
    /// # Errors
    /// See [`walk`].
    pub fn upper(&self) -> Result<Upper, ParseError> {
        walk(self.next_header(), self.payload())
    }
}

/// A fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentHeader {
    /// What the fragments of a packet have in common.
    pub identification: u32,
    /// Where the bytes belong in the fragmentable part, in bytes.
    pub offset: u16,
    /// Whether further fragments follow.
    pub more: bool,
}

/// What lies behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Transport protocol. In a later fragment: the next header that the fragment header names, which
    /// describes the first fragment's bytes and may be an extension header itself (RFC 8200 section 4.5).
    pub protocol: u8,
    /// Where its header begins, in bytes behind the IPv6 header. In a later fragment: where the fragment's
    /// bytes begin.
    pub offset: usize,
    /// The fragment header, if there was one. Offset 0 without more fragments is a packet in one piece (RFC
    /// 6946).
    pub fragment: Option<FragmentHeader>,
}

/// Walks over at most [`MAX_EXTENSIONS`] extension headers: hop-by-hop options, routing, fragment,
/// destination options and authentication. Anything else, encrypted payload included, is what lies behind.
///
/// `next` is the next header field of the IPv6 header, `payload` the bytes behind it.
///
/// # Errors
/// [`ParseError::Truncated`], [`ParseError::TooManyExtensions`], [`ParseError::MisplacedHopByHop`].
pub fn walk(mut next: u8, payload: &[u8]) -> Result<Upper, ParseError> {
    let mut offset = 0;
    let mut fragment = None;
    for seen in 0..=MAX_EXTENSIONS {
        let rest = clipped(payload, offset, payload.len());
        let length = match next {
            protocol::HOP_BY_HOP if seen > 0 => return Err(ParseError::MisplacedHopByHop),
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                ensure(Layer::Ipv6Extension, rest, 8)?;
                8 + usize::from(u8_at(rest, 1)) * 8
            }
            protocol::AUTHENTICATION => {
                ensure(Layer::Ipv6Extension, rest, 8)?;
                8 + usize::from(u8_at(rest, 1)) * 4
            }
            protocol::FRAGMENT => FRAGMENT_HEADER_LENGTH,
            protocol => return Ok(Upper { protocol, offset, fragment }),
        };
        ensure(Layer::Ipv6Extension, rest, length)?;
        let this = next;
        next = u8_at(rest, 0);
        offset += length;
        if this == protocol::FRAGMENT {
            let bits = u16_at(rest, 2..4);
            let header = FragmentHeader {
                identification: u32_at(rest, 4..8),
                offset: bits & 0xfff8,
                more: bits & 1 != 0,
            };
            fragment = Some(header);
            if header.offset > 0 {
                return Ok(Upper { protocol: next, offset, fragment });
            }
        }
    }
    Err(ParseError::TooManyExtensions)
}

/// All fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// Flow label; the lower 20 bits are written.
    pub flow_label: u32,
    /// Bytes behind this header.
    pub payload_length: u16,
    /// What follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_length: view.payload_length(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            source: view.source(),
            destination: view.destination(),
        }
    }

    /// Bytes that [`Repr::emit`] writes.
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH
    }

    /// Writes the header at the beginning of `packet`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, packet: &mut [u8]) -> Result<(), EmitError> {
        ensure_room(Layer::Ipv6, packet, HEADER_LENGTH)?;
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        put_u32(packet, field::VERSION_CLASS_LABEL, first);
        put_u16(packet, field::PAYLOAD_LENGTH, self.payload_length);
        put_u8(packet, field::NEXT_HEADER, self.next_header);
        put_u8(packet, field::HOP_LIMIT, self.hop_limit);
        put(packet, field::SOURCE, &self.source.octets());
        put(packet, field::DESTINATION, &self.destination.octets());
        Ok(())
    }
}

/// Writes a fragment header of [`FRAGMENT_HEADER_LENGTH`] bytes at the beginning of `bytes`.
///
/// # Errors
/// [`EmitError::NoRoom`].
pub fn emit_fragment_header(header: FragmentHeader, next: u8, bytes: &mut [u8]) -> Result<(), EmitError> {
    ensure_room(Layer::Ipv6Extension, bytes, FRAGMENT_HEADER_LENGTH)?;
    put(bytes, 0..2, &[next, 0]);
    put_u16(bytes, 2..4, header.offset & 0xfff8 | u16::from(header.more));
    put_u32(bytes, 4..8, header.identification);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hop-by-hop, routing of 24 bytes, destination options, fragment, authentication of 24 bytes.
    const CHAIN: [u8; 72] = {
        let mut bytes = [0; 72];
        bytes[0] = protocol::ROUTING;
        bytes[8] = protocol::DESTINATION_OPTIONS;
        bytes[9] = 2;
        bytes[32] = protocol::FRAGMENT;
        bytes[40] = protocol::AUTHENTICATION;
        bytes[43] = 1;
        bytes[47] = 9;
        bytes[48] = protocol::TCP;
        bytes[49] = 4;
        bytes
    };

    #[test]
    fn walks_over_every_kind() {
        let upper = walk(protocol::HOP_BY_HOP, &CHAIN).unwrap();
        let fragment = Some(FragmentHeader { identification: 9, offset: 0, more: true });
        assert_eq!(upper, Upper { protocol: protocol::TCP, offset: 72, fragment });
        for cut in 0..72 {
            let error = walk(protocol::HOP_BY_HOP, &CHAIN[..cut]).unwrap_err();
            assert!(
                matches!(error, ParseError::Truncated { layer: Layer::Ipv6Extension, .. }),
                "{cut}: {error}"
            );
        }
    }

    #[test]
    fn a_later_fragment_ends_the_walk() {
        let mut chain = CHAIN;
        chain[43] = 8;
        let upper = walk(protocol::HOP_BY_HOP, &chain[..48]).unwrap();
        let fragment = Some(FragmentHeader { identification: 9, offset: 8, more: false });
        assert_eq!(upper, Upper { protocol: protocol::AUTHENTICATION, offset: 48, fragment });
    }

    #[test]
    fn the_walk_is_bounded_and_keeps_order() {
        let endless = [protocol::DESTINATION_OPTIONS, 0, 0, 0, 0, 0, 0, 0].repeat(1000);
        assert_eq!(walk(protocol::DESTINATION_OPTIONS, &endless), Err(ParseError::TooManyExtensions));
        let last = MAX_EXTENSIONS * 8;
        let mut allowed = endless;
        allowed[last - 8] = protocol::UDP;
        assert_eq!(walk(protocol::DESTINATION_OPTIONS, &allowed).unwrap().offset, last);
        allowed[0] = protocol::HOP_BY_HOP;
        assert_eq!(walk(protocol::DESTINATION_OPTIONS, &allowed), Err(ParseError::MisplacedHopByHop));
    }

    proptest! {
        #[test]
        fn round_trip(
            traffic_class: u8, flow_label in 0u32..1 << 20, payload_length: u16, next_header: u8, hop_limit: u8,
            addresses: [[u8; 16]; 2],
        ) {
            let repr = Repr {
                traffic_class, flow_label, payload_length, next_header, hop_limit,
                source: addresses[0].into(), destination: addresses[1].into(),
            };
            let mut bytes = [0xff; HEADER_LENGTH];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&View::new(&bytes).unwrap()), repr);
        }

        #[test]
        fn fragment_header_round_trip(identification: u32, offset: u16, more: bool, next in 100u8..120) {
            let header = FragmentHeader { identification, offset: offset & 0xfff8, more };
            let mut bytes = [0xff; FRAGMENT_HEADER_LENGTH];
            emit_fragment_header(header, next, &mut bytes).unwrap();
            let upper = walk(protocol::FRAGMENT, &bytes).unwrap();
            prop_assert_eq!(upper, Upper { protocol: next, offset: 8, fragment: Some(header) });
        }
    }
}
