//! UDP (RFC 768; over IPv6 RFC 8200 section 8.1).

use crate::checksum::{self, Endpoints};
use crate::error::{EmitError, Layer, ParseError, ensure, ensure_room};
use crate::field_access::{clipped, put_u16, u16_at};
use crate::protocol;

/// Where the fields are.
pub mod field {
    use crate::field_access::Field;
    /// Source port.
    pub const SOURCE_PORT: Field = 0..2;
    /// Destination port.
    pub const DESTINATION_PORT: Field = 2..4;
    /// Bytes of header and data.
    pub const LENGTH: Field = 4..6;
    /// Checksum, 0 for none.
    pub const CHECKSUM: Field = 6..8;
}

/// Bytes of the header.
pub const HEADER_LENGTH: usize = 8;

/// A datagram.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks the header. The data may be cut: see [`View::is_cut`].
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::Length`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<View<'a>, ParseError> {
        ensure(Layer::Udp, bytes, HEADER_LENGTH)?;
        let view = View { bytes };
        let found = usize::from(view.length());
        if found < HEADER_LENGTH {
            return Err(ParseError::Length { layer: Layer::Udp, needed: HEADER_LENGTH, found });
        }
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

    /// Bytes of header and data, as the header says.
    #[inline]
    pub fn length(&self) -> u16 {
        u16_at(self.bytes, field::LENGTH)
    }

    /// Whether there are fewer bytes than the header says.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < usize::from(self.length())
    }

    /// Checksum, as found; 0 for none.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes, field::CHECKSUM)
    }

    /// Whether the checksum is right, when the datagram is not cut. None is right over IPv4 only.
    pub fn verify_checksum(&self, endpoints: &Endpoints) -> bool {
        if self.checksum() == 0 {
            return matches!(endpoints, Endpoints::V4 { .. });
        }
        endpoints.verify(protocol::UDP, clipped(self.bytes, 0, usize::from(self.length())))
    }

    /// The data, as far as they are there.
    pub fn payload(&self) -> &'a [u8] {
        clipped(self.bytes, HEADER_LENGTH, usize::from(self.length()))
    }
}

/// All fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Bytes of data.
    pub payload_length: usize,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_length: usize::from(view.length()) - HEADER_LENGTH,
        }
    }

    /// Bytes that [`Repr::emit`] writes.
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH
    }

    /// Writes the header at the beginning of `datagram`, which holds its data already, for the checksum.
    ///
    /// # Errors
    /// [`EmitError`]: no room for header and data, or more data than the header can say.
    pub fn emit(&self, datagram: &mut [u8], endpoints: &Endpoints) -> Result<(), EmitError> {
        let length = HEADER_LENGTH.saturating_add(self.payload_length);
        let wire = u16::try_from(length).map_err(|_| EmitError::TooLong {
            layer: Layer::Udp,
            length,
            limit: u16::MAX.into(),
        })?;
        ensure_room(Layer::Udp, datagram, length)?;
        put_u16(datagram, field::SOURCE_PORT, self.source_port);
        put_u16(datagram, field::DESTINATION_PORT, self.destination_port);
        put_u16(datagram, field::LENGTH, wire);
        put_u16(datagram, field::CHECKSUM, 0);
        let sum = endpoints.sum(protocol::UDP, clipped(datagram, 0, length));
        put_u16(datagram, field::CHECKSUM, checksum::udp_wire(sum.checksum()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    const V4: Endpoints =
        Endpoints::V4 { source: Ipv4Addr::new(192, 0, 2, 1), destination: Ipv4Addr::new(192, 0, 2, 2) };
    const V6: Endpoints = Endpoints::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };

    #[test]
    fn no_checksum_is_right_over_ipv4_only() {
        let bytes = [0, 1, 0, 2, 0, 8, 0, 0];
        let view = View::new(&bytes).unwrap();
        assert!(view.verify_checksum(&V4) && !view.verify_checksum(&V6));
    }

    #[test]
    fn a_checksum_of_zero_goes_out_as_ones() {
        // Ports chosen so that the sum over everything is 0xffff.
        let mut bytes = [0u8; 8];
        let mut repr = Repr { source_port: 0, destination_port: 0, payload_length: 0 };
        repr.emit(&mut bytes, &V4).unwrap();
        repr.source_port = View::new(&bytes).unwrap().checksum();
        repr.emit(&mut bytes, &V4).unwrap();
        let view = View::new(&bytes).unwrap();
        assert_eq!(view.checksum(), 0xffff);
        assert!(view.verify_checksum(&V4));
    }

    #[test]
    fn lengths_are_checked() {
        let layer = Layer::Udp;
        let short = [0, 1, 0, 2, 0, 7, 0, 0];
        assert_eq!(View::new(&short).unwrap_err(), ParseError::Length { layer, needed: 8, found: 7 });
        let view_of_cut = [0, 1, 0, 2, 0, 12, 0, 0, 1, 2];
        let view = View::new(&view_of_cut).unwrap();
        assert!(view.is_cut());
        assert_eq!(view.payload(), [1, 2]);
        let repr = Repr { source_port: 0, destination_port: 0, payload_length: 65_528 };
        let error = EmitError::TooLong { layer, length: 65_536, limit: 65_535 };
        assert_eq!(repr.emit(&mut std::vec![0; 70_000], &V4), Err(error));
    }

    proptest! {
        #[test]
        fn round_trip(ports: [u16; 2], data in proptest::collection::vec(any::<u8>(), 0..200), six: bool) {
            let endpoints = if six { V6 } else { V4 };
            let repr = Repr { source_port: ports[0], destination_port: ports[1], payload_length: data.len() };
            let mut bytes = std::vec![0; HEADER_LENGTH];
            bytes.extend(&data);
            repr.emit(&mut bytes, &endpoints).unwrap();
            let view = View::new(&bytes).unwrap();
            prop_assert!(view.verify_checksum(&endpoints));
            prop_assert_eq!(view.payload(), &data[..]);
            prop_assert_eq!(Repr::parse(&view), repr);
        }
    }
}
