//! ICMP for IPv4 (RFC 792, RFC 1122 section 3.2.2).

use crate::checksum;
use crate::error::{EmitError, Layer, ParseError, ensure, ensure_room};
use crate::field_access::{array_at, clipped, put, put_u8, put_u16, u8_at, u16_at};

/// Where the fields are.
pub mod field {
    use crate::field_access::Field;
    /// Type of message.
    pub const KIND: usize = 0;
    /// Code within the type.
    pub const CODE: usize = 1;
    /// Checksum of the whole message.
    pub const CHECKSUM: Field = 2..4;
    /// What the type makes of it.
    pub const REST: Field = 4..8;
    /// Identifier, in an echo request or reply.
    pub const IDENTIFIER: Field = 4..6;
    /// Sequence number, in an echo request or reply.
    pub const SEQUENCE: Field = 6..8;
}

/// Types of messages (IANA, "ICMP Type Numbers").
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench (deprecated).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Bytes of the header.
pub const HEADER_LENGTH: usize = 8;

/// Whether messages of this type quote the packet that they are about.
#[inline]
pub const fn is_error(kind: u8) -> bool {
    matches!(
        kind,
        kind::UNREACHABLE
            | kind::SOURCE_QUENCH
            | kind::REDIRECT
            | kind::TIME_EXCEEDED
            | kind::PARAMETER_PROBLEM
    )
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
        ensure(Layer::Icmpv4, bytes, HEADER_LENGTH)?;
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
    pub fn verify_checksum(&self) -> bool {
        checksum::verify(self.bytes)
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
    pub fn emit(&self, message: &mut [u8]) -> Result<(), EmitError> {
        ensure_room(Layer::Icmpv4, message, HEADER_LENGTH)?;
        put_u8(message, field::KIND, self.kind);
        put_u8(message, field::CODE, self.code);
        put_u16(message, field::CHECKSUM, 0);
        put(message, field::REST, &self.rest);
        let checksum = checksum::of(message);
        put_u16(message, field::CHECKSUM, checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_echo_request_from_the_wire() {
        let bytes = [8, 0, 0xf7, 0xfb, 0, 1, 0, 3];
        let view = View::new(&bytes).unwrap();
        assert!(view.verify_checksum() && is_echo(view.kind()) && !is_error(view.kind()));
        assert_eq!((view.identifier(), view.sequence(), view.checksum()), (1, 3, 0xf7fb));
        assert!(matches!(View::new(&bytes[..7]), Err(ParseError::Truncated { needed: 8, found: 7, .. })));
    }

    proptest! {
        #[test]
        fn round_trip(kind: u8, code: u8, rest: [u8; 4], data in proptest::collection::vec(any::<u8>(), 0..100)) {
            let repr = Repr { kind, code, rest };
            let mut bytes = std::vec![0; HEADER_LENGTH];
            bytes.extend(&data);
            repr.emit(&mut bytes).unwrap();
            let view = View::new(&bytes).unwrap();
            prop_assert!(view.verify_checksum());
            prop_assert_eq!(view.payload(), &data[..]);
            prop_assert_eq!(Repr::parse(&view), repr);
        }
    }
}
