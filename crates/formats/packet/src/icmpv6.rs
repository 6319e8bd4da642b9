//! ICMPv6 (RFC 4443; neighbour discovery RFC 4861).

use crate::checksum::Endpoints;
use crate::error::{EmitError, Layer, ParseError, ensure, ensure_room};
use crate::field_access::{array_at, clipped, put, put_u8, put_u16, u8_at, u16_at};
use crate::protocol;

/// Where the fields are.
pub mod field {
    use crate::field_access::Field;
    /// Type of message.
    pub const KIND: usize = 0;
    /// Code within the type.
    pub const CODE: usize = 1;
    /// Checksum of pseudo header and message.
    pub const CHECKSUM: Field = 2..4;
    /// What the type makes of it.
    pub const REST: Field = 4..8;
    /// Identifier, in an echo request or reply.
    pub const IDENTIFIER: Field = 4..6;
    /// Sequence number, in an echo request or reply.
    pub const SEQUENCE: Field = 6..8;
}

/// Types of messages (IANA, "ICMPv6 type Numbers").
pub mod kind {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Multicast listener query (RFC 2710, RFC 3810).
    pub const LISTENER_QUERY: u8 = 130;
    /// Multicast listener report of version 1 (RFC 2710).
    pub const LISTENER_REPORT: u8 = 131;
    /// Multicast listener done (RFC 2710).
    pub const LISTENER_DONE: u8 = 132;
    /// Router solicitation.
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement.
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour solicitation.
    pub const NEIGHBOUR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement.
    pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
    /// Redirect.
    pub const REDIRECT: u8 = 137;
    /// Multicast listener report of version 2 (RFC 3810).
    pub const LISTENER_REPORT_V2: u8 = 143;
}

/// Bytes of the header.
pub const HEADER_LENGTH: usize = 8;

/// Whether messages of this type quote the packet that they are about: the types below 128 (RFC 4443 section
/// 2.1).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    kind < 128
}

/// Whether messages of this type have an identifier and a sequence number.
#[inline]
pub const fn is_echo(kind: u8) -> bool {
    matches!(kind, kind::ECHO_REQUEST | kind::ECHO_REPLY)
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<View<'a>, ParseError> {
        ensure(Layer::Icmpv6, bytes, HEADER_LENGTH)?;
        Ok(View { bytes })
    }

    /// Type of message, see [`kind`].
    pub fn kind(&self) -> u8 {
        u8_at(self.bytes, field::KIND)
    }

    /// Code within the type.
    pub fn code(&self) -> u8 {
        u8_at(self.bytes, field::CODE)
    }

    /// Checksum, as found.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes, field::CHECKSUM)
    }

    /// Whether the checksum is right, when the view is of the whole message.
    pub fn verify_checksum(&self, endpoints: &Endpoints) -> bool {
        endpoints.verify(protocol::ICMPV6, self.bytes)
    }

    /// The four bytes that each type uses in its own way.
    pub fn rest(&self) -> [u8; 4] {
        array_at(self.bytes, field::REST)
    }

    /// Identifier, meaningful when [`is_echo`].
    pub fn identifier(&self) -> u16 {
        u16_at(self.bytes, field::IDENTIFIER)
    }

    /// Sequence number, meaningful when [`is_echo`].
    pub fn sequence(&self) -> u16 {
        u16_at(self.bytes, field::SEQUENCE)
    }

    /// The data; the beginning of the packet in question when [`is_error`].
    pub fn payload(&self) -> &'a [u8] {
        clipped(self.bytes, HEADER_LENGTH, self.bytes.len())
    }
}

/// All fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Type of message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// The four bytes that each type uses in its own way.
    pub rest: [u8; 4],
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr { kind: view.kind(), code: view.code(), rest: view.rest() }
    }

    /// Bytes that [`Repr::emit`] writes.
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH
    }

    /// Writes the header at the beginning of `message`, which is exactly as long as the message and holds its
    /// data already, for the checksum.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, message: &mut [u8], endpoints: &Endpoints) -> Result<(), EmitError> {
        ensure_room(Layer::Icmpv6, message, HEADER_LENGTH)?;
        put_u8(message, field::KIND, self.kind);
        put_u8(message, field::CODE, self.code);
        put_u16(message, field::CHECKSUM, 0);
        put(message, field::REST, &self.rest);
        let checksum = endpoints.sum(protocol::ICMPV6, message).checksum();
        put_u16(message, field::CHECKSUM, checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;
    use proptest::prelude::*;

    const ENDPOINTS: Endpoints =
        Endpoints::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };

    #[test]
    fn an_echo_request_between_local_hosts() {
        // 0x8000 + 0 + identifier 1 + sequence 1 + addresses 1 + 1 + length 8 + protocol 58.
        let bytes = [128, 0, 0x7f, 0xb9, 0, 1, 0, 1];
        let view = View::new(&bytes).unwrap();
        assert!(view.verify_checksum(&ENDPOINTS) && is_echo(view.kind()) && !is_error(view.kind()));
        assert!(is_error(kind::PACKET_TOO_BIG));
        assert!(matches!(View::new(&bytes[..7]), Err(ParseError::Truncated { needed: 8, found: 7, .. })));
    }

    proptest! {
        #[test]
        fn round_trip(kind: u8, code: u8, rest: [u8; 4], data in proptest::collection::vec(any::<u8>(), 0..100)) {
            let repr = Repr { kind, code, rest };
            let mut bytes = std::vec![0; HEADER_LENGTH];
            bytes.extend(&data);
            repr.emit(&mut bytes, &ENDPOINTS).unwrap();
            let view = View::new(&bytes).unwrap();
            prop_assert!(view.verify_checksum(&ENDPOINTS));
            prop_assert_eq!(view.payload(), &data[..]);
            prop_assert_eq!(Repr::parse(&view), repr);
        }
    }
}
