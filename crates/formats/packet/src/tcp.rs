//! TCP (RFC 9293).

use crate::checksum::Endpoints;
use crate::error::{EmitError, Layer, ParseError, ensure, ensure_room};
use crate::field_access::{clipped, put_options, put_u16, put_u32, u8_at, u16_at, u32_at};
use crate::protocol;

/// Where the fields are.
pub mod field {
    use crate::field_access::Field;
    /// Source port.
    pub const SOURCE_PORT: Field = 0..2;
    /// Destination port.
    pub const DESTINATION_PORT: Field = 2..4;
    /// Sequence number.
    pub const SEQUENCE: Field = 4..8;
    /// Acknowledgment number.
    pub const ACKNOWLEDGMENT: Field = 8..12;
    /// Header length in words (4 bits), reserved (3 bits), flags (9 bits).
    pub const LENGTH_FLAGS: Field = 12..14;
    /// Window.
    pub const WINDOW: Field = 14..16;
    /// Checksum.
    pub const CHECKSUM: Field = 16..18;
    /// Urgent pointer.
    pub const URGENT: Field = 18..20;
}

/// Bytes of a header without options.
pub const HEADER_LENGTH: usize = 20;
/// Bytes of the longest header.
pub const MAX_HEADER_LENGTH: usize = 60;

/// The nine flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(1);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(2);
    /// Reset the connection.
    pub const RST: Flags = Flags(4);
    /// Push.
    pub const PSH: Flags = Flags(8);
    /// The acknowledgment number is meant.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is meant.
    pub const URG: Flags = Flags(0x20);
    /// Congestion was echoed, RFC 3168.
    pub const ECE: Flags = Flags(0x40);
    /// The congestion window was reduced, RFC 3168.
    pub const CWR: Flags = Flags(0x80);
    /// Accurate ECN, RFC 9768.
    pub const AE: Flags = Flags(0x100);

    /// All of these together.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A segment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks that the header with its options is there.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::Length`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<View<'a>, ParseError> {
        ensure(Layer::Tcp, bytes, HEADER_LENGTH)?;
        let view = View { bytes };
        let header = view.header_length();
        if header < HEADER_LENGTH {
            return Err(ParseError::Length { layer: Layer::Tcp, needed: HEADER_LENGTH, found: header });
        }
        ensure(Layer::Tcp, bytes, header)?;
        Ok(view)
    }

    /// Source port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        u16_at(self.bytes, field::SOURCE_PORT)
    }

    /// Destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        u16_at(self.bytes, field::DESTINATION_PORT)
    }

    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        u32_at(self.bytes, field::SEQUENCE)
    }

    /// Acknowledgment number.
    pub fn acknowledgment(&self) -> u32 {
        u32_at(self.bytes, field::ACKNOWLEDGMENT)
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn header_length(&self) -> usize {
        usize::from(u8_at(self.bytes, field::LENGTH_FLAGS.start) >> 4) * 4
    }

    /// The flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(u16_at(self.bytes, field::LENGTH_FLAGS) & 0x1ff)
    }

    /// Window, not scaled.
    pub fn window(&self) -> u16 {
        u16_at(self.bytes, field::WINDOW)
    }

    /// Checksum, as found.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes, field::CHECKSUM)
    }

    /// Whether the checksum is right, when the view is of the whole segment.
    pub fn verify_checksum(&self, endpoints: &Endpoints) -> bool {
        endpoints.verify(protocol::TCP, self.bytes)
    }

    /// Urgent pointer.
    pub fn urgent(&self) -> u16 {
        u16_at(self.bytes, field::URGENT)
    }

    /// The options, with their padding.
    pub fn options_bytes(&self) -> &'a [u8] {
        clipped(self.bytes, HEADER_LENGTH, self.header_length())
    }

    /// The options.
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.options_bytes() }
    }

    /// The data.
    pub fn payload(&self) -> &'a [u8] {
        clipped(self.bytes, self.header_length(), self.bytes.len())
    }
}

/// An option other than padding (IANA, "TCP Option Kind Numbers").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOption<'a> {
    /// Maximum segment size, in bytes.
    MaximumSegmentSize(u16),
    /// Shift of the window, RFC 7323.
    WindowScale(u8),
    /// Selective acknowledgments are understood, RFC 2018.
    SackPermitted,
    /// Time and echoed time, RFC 7323.
    Timestamps(u32, u32),
    /// Another one: its kind and its bytes without kind and length.
    Other(u8, &'a [u8]),
}

/// Runs through options, ends after the first one that is malformed.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<SegmentOption<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.rest {
                [] | [0, ..] => return None,
                [1, ref rest @ ..] => self.rest = rest,
                [kind, ref rest @ ..] => {
                    let length = usize::from(u8_at(rest, 0));
                    let Some(data) = self.rest.get(2..length) else {
                        self.rest = &[];
                        return Some(Err(ParseError::Option { layer: Layer::Tcp, kind }));
                    };
                    self.rest = clipped(self.rest, length, self.rest.len());
                    return Some(Ok(match (kind, data) {
                        (2, [_, _]) => SegmentOption::MaximumSegmentSize(u16_at(data, 0..2)),
                        (3, [shift]) => SegmentOption::WindowScale(*shift),
                        (4, []) => SegmentOption::SackPermitted,
                        (8, [_, _, _, _, _, _, _, _]) => {
                            SegmentOption::Timestamps(u32_at(data, 0..4), u32_at(data, 4..8))
                        }
                        _ => SegmentOption::Other(kind, data),
                    }));
                }
            }
        }
    }
}

/// All fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// Flags.
    pub flags: Flags,
    /// Window, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options as on the wire, at most 40 bytes; padded to whole words when written.
    pub options: &'a [u8],
}

impl<'a> Repr<'a> {
    /// Takes the fields out of a view.
    pub fn parse(view: &View<'a>) -> Repr<'a> {
        Repr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            sequence: view.sequence(),
            acknowledgment: view.acknowledgment(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: view.options_bytes(),
        }
    }

    /// Bytes that [`Repr::emit`] writes.
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH + self.options.len().next_multiple_of(4)
    }

    /// Writes the header at the beginning of `segment`, which is exactly as long as the segment and holds its
    /// data already, for the checksum.
    ///
    /// # Errors
    /// [`EmitError`]: no room, or options that are too long.
    pub fn emit(&self, segment: &mut [u8], endpoints: &Endpoints) -> Result<(), EmitError> {
        let header = self.header_length();
        if header > MAX_HEADER_LENGTH {
            return Err(EmitError::TooLong { layer: Layer::Tcp, length: header, limit: MAX_HEADER_LENGTH });
        }
        ensure_room(Layer::Tcp, segment, header)?;
        put_u16(segment, field::SOURCE_PORT, self.source_port);
        put_u16(segment, field::DESTINATION_PORT, self.destination_port);
        put_u32(segment, field::SEQUENCE, self.sequence);
        put_u32(segment, field::ACKNOWLEDGMENT, self.acknowledgment);
        put_u16(segment, field::LENGTH_FLAGS, (header as u16 / 4) << 12 | self.flags.0 & 0x1ff);
        put_u16(segment, field::WINDOW, self.window);
        put_u16(segment, field::CHECKSUM, 0);
        put_u16(segment, field::URGENT, self.urgent);
        if let Some(room) = segment.get_mut(HEADER_LENGTH..header) {
            put_options(room, self.options);
        }
        let checksum = endpoints.sum(protocol::TCP, segment).checksum();
        put_u16(segment, field::CHECKSUM, checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;
    use std::vec::Vec;

    const ENDPOINTS: Endpoints =
        Endpoints::V4 { source: Ipv4Addr::new(192, 0, 2, 1), destination: Ipv4Addr::new(192, 0, 2, 2) };

    #[test]
    fn reads_the_options_of_a_syn() {
        let options = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 7, 34, 2, 0, 0];
        let flags = Flags::SYN.with(Flags::ECE);
        let repr = Repr {
            source_port: 40_000,
            destination_port: 80,
            sequence: 1,
            acknowledgment: 0,
            flags,
            window: 64_240,
            urgent: 0,
            options: &options,
        };
        let mut bytes = [0; 44];
        repr.emit(&mut bytes, &ENDPOINTS).unwrap();
        let view = View::new(&bytes).unwrap();
        assert!(
            view.verify_checksum(&ENDPOINTS) && view.flags().has(Flags::SYN) && !view.flags().has(Flags::ACK)
        );
        let found: Vec<_> = view.options().map(Result::unwrap).collect();
        assert_eq!(
            found,
            [
                SegmentOption::MaximumSegmentSize(1460),
                SegmentOption::SackPermitted,
                SegmentOption::Timestamps(7, 0),
                SegmentOption::WindowScale(7),
                SegmentOption::Other(34, &[]),
            ]
        );
        bytes[40] = 1;
        assert!(!View::new(&bytes).unwrap().verify_checksum(&ENDPOINTS));
    }

    #[test]
    fn refuses_what_lies_about_itself() {
        let mut bytes = [0u8; 20];
        let layer = Layer::Tcp;
        assert_eq!(View::new(&bytes).unwrap_err(), ParseError::Length { layer, needed: 20, found: 0 });
        bytes[12] = 0x60;
        assert_eq!(View::new(&bytes).unwrap_err(), ParseError::Truncated { layer, needed: 24, found: 20 });
        for bad in [&[2u8][..], &[2, 0], &[2, 1], &[2, 4, 0]] {
            let found: Vec<_> = Options { rest: bad }.collect();
            assert_eq!(found, [Err(ParseError::Option { layer, kind: 2 })]);
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            ports: [u16; 2], numbers: [u32; 2], flags in 0u16..0x200, window: u16, urgent: u16,
            options in proptest::collection::vec(any::<u8>(), 0..=40),
            data in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let repr = Repr {
                source_port: ports[0], destination_port: ports[1], sequence: numbers[0], acknowledgment: numbers[1],
                flags: Flags(flags), window, urgent, options: &options[..options.len() & !3],
            };
            let mut bytes = std::vec![0; repr.header_length()];
            bytes.extend(&data);
            repr.emit(&mut bytes, &ENDPOINTS).unwrap();
            let view = View::new(&bytes).unwrap();
            prop_assert!(view.verify_checksum(&ENDPOINTS));
            prop_assert_eq!(view.payload(), &data[..]);
            prop_assert_eq!(Repr::parse(&view), repr);
        }
    }
}
