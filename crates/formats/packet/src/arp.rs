//! Address resolution for IPv4 over Ethernet (RFC 826).

use crate::error::{EmitError, Layer, ParseError, ensure, ensure_room};
use crate::field_access::{array_at, put, put_u16, u8_at, u16_at};
use core::net::Ipv4Addr;

/// Where the fields are.
pub mod field {
    use crate::field_access::Field;
    /// Kind of link address, 1 for Ethernet.
    pub const HARDWARE: Field = 0..2;
    /// Kind of network address, an EtherType.
    pub const PROTOCOL: Field = 2..4;
    /// Bytes of a link address.
    pub const HARDWARE_LENGTH: usize = 4;
    /// Bytes of a network address.
    pub const PROTOCOL_LENGTH: usize = 5;
    /// What is asked or answered.
    pub const OPERATION: Field = 6..8;
    /// The sender's link address.
    pub const SENDER_MAC: Field = 8..14;
    /// The sender's network address.
    pub const SENDER: Field = 14..18;
    /// The target's link address.
    pub const TARGET_MAC: Field = 18..24;
    /// The target's network address.
    pub const TARGET: Field = 24..28;
}

/// Bytes of a message.
pub const HEADER_LENGTH: usize = 28;
/// Operation: who has this address?
pub const REQUEST: u16 = 1;
/// Operation: I have it.
pub const REPLY: u16 = 2;

const ETHERNET: u16 = 1;

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks length and kinds of address.
    ///
    /// # Errors
    /// [`ParseError::Truncated`]; [`ParseError::Address`] for other than Ethernet and IPv4.
    pub fn new(bytes: &'a [u8]) -> Result<View<'a>, ParseError> {
        ensure(Layer::Arp, bytes, HEADER_LENGTH)?;
        let known = u16_at(bytes, field::HARDWARE) == ETHERNET
            && u16_at(bytes, field::PROTOCOL) == crate::ethernet::ethertype::IPV4
            && u8_at(bytes, field::HARDWARE_LENGTH) == 6
            && u8_at(bytes, field::PROTOCOL_LENGTH) == 4;
        if known { Ok(View { bytes }) } else { Err(ParseError::Address { layer: Layer::Arp }) }
    }

    /// [`REQUEST`], [`REPLY`] or something else.
    pub fn operation(&self) -> u16 {
        u16_at(self.bytes, field::OPERATION)
    }

    /// The sender's link address.
    pub fn sender_mac(&self) -> [u8; 6] {
        array_at(self.bytes, field::SENDER_MAC)
    }

    /// The sender's network address.
    pub fn sender(&self) -> Ipv4Addr {
        array_at(self.bytes, field::SENDER).into()
    }

    /// The target's link address, zeros in a request.
    pub fn target_mac(&self) -> [u8; 6] {
        array_at(self.bytes, field::TARGET_MAC)
    }

    /// The target's network address.
    pub fn target(&self) -> Ipv4Addr {
        array_at(self.bytes, field::TARGET).into()
    }
}

/// All fields of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// [`REQUEST`], [`REPLY`] or something else.
    pub operation: u16,
    /// The sender's link address.
    pub sender_mac: [u8; 6],
    /// The sender's network address.
    pub sender: Ipv4Addr,
    /// The target's link address.
    pub target_mac: [u8; 6],
    /// The target's network address.
    pub target: Ipv4Addr,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            operation: view.operation(),
            sender_mac: view.sender_mac(),
            sender: view.sender(),
            target_mac: view.target_mac(),
            target: view.target(),
        }
    }

    /// Bytes that [`Repr::emit`] writes.
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH
    }

    /// Writes the message at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), EmitError> {
        ensure_room(Layer::Arp, bytes, HEADER_LENGTH)?;
        put_u16(bytes, field::HARDWARE, ETHERNET);
        put_u16(bytes, field::PROTOCOL, crate::ethernet::ethertype::IPV4);
        put(bytes, field::HARDWARE_LENGTH..field::PROTOCOL_LENGTH + 1, &[6, 4]);
        put_u16(bytes, field::OPERATION, self.operation);
        put(bytes, field::SENDER_MAC, &self.sender_mac);
        put(bytes, field::SENDER, &self.sender.octets());
        put(bytes, field::TARGET_MAC, &self.target_mac);
        put(bytes, field::TARGET, &self.target.octets());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_kinds_of_address_are_refused() {
        let repr = Repr {
            operation: REQUEST,
            sender_mac: [2, 0, 0, 0, 0, 1],
            sender: Ipv4Addr::new(192, 0, 2, 1),
            target_mac: [0; 6],
            target: Ipv4Addr::new(192, 0, 2, 2),
        };
        let mut bytes = [0; HEADER_LENGTH];
        repr.emit(&mut bytes).unwrap();
        assert_eq!(&bytes[..8], [0, 1, 8, 0, 6, 4, 0, 1]);
        for at in 0..6 {
            let mut other = bytes;
            other[at] ^= 0x40;
            assert_eq!(View::new(&other).unwrap_err(), ParseError::Address { layer: Layer::Arp });
        }
        assert!(matches!(View::new(&bytes[..27]), Err(ParseError::Truncated { needed: 28, .. })));
    }

    proptest! {
        #[test]
        fn round_trip(operation: u16, macs: [[u8; 6]; 2], addresses: [[u8; 4]; 2]) {
            let repr = Repr {
                operation,
                sender_mac: macs[0],
                sender: addresses[0].into(),
                target_mac: macs[1],
                target: addresses[1].into(),
            };
            let mut bytes = [0; HEADER_LENGTH];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&View::new(&bytes).unwrap()), repr);
        }
    }
}
