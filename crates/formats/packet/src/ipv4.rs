//! IPv4 (RFC 791), with options and fragments.

use crate::checksum;
use crate::error::{EmitError, Layer, ParseError, ensure, ensure_room};
use crate::field_access::{array_at, clipped, put, put_options, put_u8, put_u16, u8_at, u16_at};
use core::net::Ipv4Addr;

/// Where the fields are.
pub mod field {
    use crate::field_access::Field;
    /// Version (4 bits) and header length in words (4 bits).
    pub const VERSION_LENGTH: usize = 0;
    /// Differentiated services (6 bits) and ECN (2 bits).
    pub const TRAFFIC_CLASS: usize = 1;
    /// Bytes of header and payload.
    pub const TOTAL_LENGTH: Field = 2..4;
    /// What the fragments of a packet have in common.
    pub const IDENTIFICATION: Field = 4..6;
    /// Reserved, don't fragment, more fragments (1 bit each), offset in units of eight bytes (13 bits).
    pub const FRAGMENT: Field = 6..8;
    /// Time to live.
    pub const TTL: usize = 8;
    /// Protocol of the payload.
    pub const PROTOCOL: usize = 9;
    /// Checksum of the header.
    pub const CHECKSUM: Field = 10..12;
    /// Source address.
    pub const SOURCE: Field = 12..16;
    /// Destination address.
    pub const DESTINATION: Field = 16..20;
}

/// Bytes of a header without options.
pub const HEADER_LENGTH: usize = 20;
/// Bytes of the longest header.
pub const MAX_HEADER_LENGTH: usize = 60;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks version, header length and total length. The payload may be cut: see [`View::is_cut`].
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::Version`], [`ParseError::Length`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<View<'a>, ParseError> {
        ensure(Layer::Ipv4, bytes, HEADER_LENGTH)?;
        let view = View { bytes };
        let version = u8_at(bytes, field::VERSION_LENGTH) >> 4;
        if version != 4 {
            return Err(ParseError::Version { layer: Layer::Ipv4, found: version });
        }
        let header = view.header_length();
        if header < HEADER_LENGTH {
            return Err(ParseError::Length { layer: Layer::Ipv4, needed: HEADER_LENGTH, found: header });
        }
        ensure(Layer::Ipv4, bytes, header)?;
        let total = usize::from(view.total_length());
        if total < header {
            return Err(ParseError::Length { layer: Layer::Ipv4, needed: header, found: total });
        }
        Ok(view)
    }

    /// The same for a packet as a host captures its own: where the network card cuts segments, the total
    /// length may be 0, which stands for all bytes that there are.
    ///
    /// # Errors
    /// As [`View::new`].
    #[inline]
    pub fn captured(bytes: &'a [u8]) -> Result<View<'a>, ParseError> {
        match View::new(bytes) {
            Err(ParseError::Length { found: 0, needed, .. })
                if u8_at(bytes, field::VERSION_LENGTH) & 0xf >= 5 && bytes.len() >= needed =>
            {
                Ok(View { bytes })
            }
            view => view,
        }
    }

    /// Bytes of the packet: the total length, or for one of 0, which [`View::captured`] takes, all that there
    /// are.
    #[inline]
    pub fn length(&self) -> usize {
        match usize::from(self.total_length()) {
            0 => self.bytes.len(),
            length => length,
        }
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn header_length(&self) -> usize {
        usize::from(u8_at(self.bytes, field::VERSION_LENGTH) & 0xf) * 4
    }

    /// Differentiated services and ECN.
    pub fn traffic_class(&self) -> u8 {
        u8_at(self.bytes, field::TRAFFIC_CLASS)
    }

    /// Bytes of header and payload, as the header says.
    #[inline]
    pub fn total_length(&self) -> u16 {
        u16_at(self.bytes, field::TOTAL_LENGTH)
    }

    /// Whether there are fewer bytes than the header says.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < usize::from(self.total_length())
    }

    /// What the fragments of a packet have in common.
    pub fn identification(&self) -> u16 {
        u16_at(self.bytes, field::IDENTIFICATION)
    }

    /// Whether routers may not fragment it.
    pub fn dont_fragment(&self) -> bool {
        u16_at(self.bytes, field::FRAGMENT) & DONT_FRAGMENT != 0
    }

    /// Whether further fragments follow.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        u16_at(self.bytes, field::FRAGMENT) & MORE_FRAGMENTS != 0
    }

    /// Where the payload belongs in the unfragmented packet's payload, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        (u16_at(self.bytes, field::FRAGMENT) & OFFSET) << 3
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        u8_at(self.bytes, field::TTL)
    }

    /// Protocol of the payload, see [`crate::protocol`].
    #[inline]
    pub fn protocol(&self) -> u8 {
        u8_at(self.bytes, field::PROTOCOL)
    }

    /// Checksum of the header, as found.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes, field::CHECKSUM)
    }

    /// Whether the checksum is right.
    pub fn verify_checksum(&self) -> bool {
        checksum::verify(clipped(self.bytes, 0, self.header_length()))
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        array_at(self.bytes, field::SOURCE).into()
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        array_at(self.bytes, field::DESTINATION).into()
    }

    /// The options, with their padding.
    pub fn options_bytes(&self) -> &'a [u8] {
        clipped(self.bytes, HEADER_LENGTH, self.header_length())
    }

    /// The options.
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.options_bytes() }
    }

    /// The payload without the padding of a short frame, as far as it is there.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        clipped(self.bytes, self.header_length(), self.length())
    }
}

/// An option other than padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOption<'a> {
    /// Copied flag, class and number.
    pub kind: u8,
    /// Its bytes without kind and length.
    pub data: &'a [u8],
}

/// Runs through options, ends after the first one that is malformed.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<PacketOption<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.rest {
                [] | [0, ..] => return None,
                [1, ref rest @ ..] => self.rest = rest,
                [kind, ref rest @ ..] => {
                    let length = usize::from(u8_at(rest, 0));
                    let Some(data) = self.rest.get(2..length) else {
                        self.rest = &[];
                        return Some(Err(ParseError::Option { layer: Layer::Ipv4, kind }));
                    };
                    self.rest = clipped(self.rest, length, self.rest.len());
                    return Some(Ok(PacketOption { kind, data }));
                }
            }
        }
    }
}

/// All fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// What the fragments of a packet have in common.
    pub identification: u16,
    /// Whether routers may not fragment it.
    pub dont_fragment: bool,
    /// Whether further fragments follow.
    pub more_fragments: bool,
    /// Where the payload belongs in the unfragmented packet's payload, in bytes; a multiple of eight.
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Options as on the wire, at most 40 bytes; padded to whole words when written.
    pub options: &'a [u8],
    /// Bytes behind the header.
    pub payload_length: usize,
}

impl<'a> Repr<'a> {
    /// Takes the fields out of a view.
    pub fn parse(view: &View<'a>) -> Repr<'a> {
        Repr {
            traffic_class: view.traffic_class(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            source: view.source(),
            destination: view.destination(),
            options: view.options_bytes(),
            payload_length: view.length().saturating_sub(view.header_length()),
        }
    }

    /// Bytes that [`Repr::emit`] writes.
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH + self.options.len().next_multiple_of(4)
    }

    /// Writes the header, checksum included, at the beginning of `packet`.
    ///
    /// # Errors
    /// [`EmitError`]: no room, or lengths that the header cannot say.
    pub fn emit(&self, packet: &mut [u8]) -> Result<(), EmitError> {
        let header = self.header_length();
        if header > MAX_HEADER_LENGTH {
            let limit = MAX_HEADER_LENGTH;
            return Err(EmitError::TooLong { layer: Layer::Ipv4, length: header, limit });
        }
        let length = header.saturating_add(self.payload_length);
        let total = u16::try_from(length).map_err(|_| EmitError::TooLong {
            layer: Layer::Ipv4,
            length,
            limit: u16::MAX.into(),
        })?;
        ensure_room(Layer::Ipv4, packet, header)?;
        let fragment = (self.fragment_offset >> 3)
            | if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        put_u8(packet, field::VERSION_LENGTH, 0x40 | (header / 4) as u8);
        put_u8(packet, field::TRAFFIC_CLASS, self.traffic_class);
        put_u16(packet, field::TOTAL_LENGTH, total);
        put_u16(packet, field::IDENTIFICATION, self.identification);
        put_u16(packet, field::FRAGMENT, fragment);
        put_u8(packet, field::TTL, self.ttl);
        put_u8(packet, field::PROTOCOL, self.protocol);
        put_u16(packet, field::CHECKSUM, 0);
        put(packet, field::SOURCE, &self.source.octets());
        put(packet, field::DESTINATION, &self.destination.octets());
        if let Some(room) = packet.get_mut(HEADER_LENGTH..header) {
            put_options(room, self.options);
        }
        let checksum = checksum::of(clipped(packet, 0, header));
        put_u16(packet, field::CHECKSUM, checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const HEADER: [u8; 20] = [
        0x45, 0x00, 0x00, 0x18, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0xbc, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7,
    ];

    #[test]
    fn refuses_what_lies_about_itself() {
        let with = |at: usize, value: u8| {
            let mut bytes = HEADER;
            bytes[at] = value;
            View::new(&bytes).unwrap_err()
        };
        let layer = Layer::Ipv4;
        assert_eq!(with(0, 0x65), ParseError::Version { layer, found: 6 });
        assert_eq!(with(0, 0x44), ParseError::Length { layer, needed: 20, found: 16 });
        assert_eq!(with(0, 0x46), ParseError::Truncated { layer, needed: 24, found: 20 });
        assert_eq!(with(3, 0x13), ParseError::Length { layer, needed: 20, found: 19 });
        assert_eq!(
            View::new(&HEADER[..19]).unwrap_err(),
            ParseError::Truncated { layer, needed: 20, found: 19 }
        );
    }

    #[test]
    fn padding_is_no_payload_and_a_cut_payload_is_told() {
        let mut frame = [0u8; 46];
        frame[..20].copy_from_slice(&HEADER);
        let view = View::new(&frame).unwrap();
        assert_eq!((view.payload().len(), view.is_cut()), (4, false));
        let cut = View::new(&frame[..22]).unwrap();
        assert_eq!((cut.payload().len(), cut.is_cut()), (2, true));
        assert!(View::new(&HEADER).unwrap().verify_checksum());
    }

    #[test]
    fn options_end_at_a_malformed_one() {
        let options = |rest| Options { rest }.collect::<Vec<_>>();
        let router_alert = PacketOption { kind: 148, data: &[0, 0] };
        assert_eq!(options(&[1, 148, 4, 0, 0, 0, 7]), [Ok(router_alert)]);
        for bad in [&[7u8][..], &[7, 0], &[7, 1], &[7, 3], &[7, 255, 0, 0]] {
            assert_eq!(options(bad), [Err(ParseError::Option { layer: Layer::Ipv4, kind: 7 })]);
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            traffic_class: u8, identification: u16, dont_fragment: bool, more_fragments: bool, ttl: u8, protocol: u8,
            offset in 0u16..0x2000, addresses: [[u8; 4]; 2], payload_length in 0usize..=65_475,
            options in proptest::collection::vec(any::<u8>(), 0..=40),
        ) {
            let options = &options[..options.len() & !3];
            let repr = Repr {
                traffic_class, identification, dont_fragment, more_fragments, ttl, protocol, options, payload_length,
                fragment_offset: offset << 3, source: addresses[0].into(), destination: addresses[1].into(),
            };
            let mut bytes = [0xff; 60];
            repr.emit(&mut bytes).unwrap();
            let view = View::new(&bytes).unwrap();
            prop_assert!(view.verify_checksum());
            prop_assert_eq!(Repr::parse(&view), repr);
        }
    }
}
