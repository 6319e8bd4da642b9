//! What the switch reads of a frame.

use packet::ethernet;

/// Bytes of a frame's beginning that the switch reads: both addresses, and the EtherType or a whole VLAN tag.
pub const HEAD: usize = 16;

/// A frame's beginning as [`crate::Switch::decide_batch`] takes it.
///
/// Bytes that the frame lacks are zero. A frame that is too short for an Ethernet header is all zeros, whose
/// source is no address: it is filtered.
#[inline]
pub fn head(frame: &[u8]) -> [u8; HEAD] {
    if let Some(head) = frame.first_chunk() {
        return *head;
    }
    let mut head = [0; HEAD];
    if frame.len() >= ethernet::HEADER_LENGTH {
        head.iter_mut().zip(frame).for_each(|(to, from)| *to = *from);
    }
    head
}

/// A VLAN and an address in it, never zero: bit 60 is always set, the VLAN is in bits 48 to 59.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub u64);

const SET: u64 = 1 << 60;
/// Lowest bit of an address's first byte (IEEE 802, 8.2.2).
const GROUP: u64 = 1 << 40;
const ADDRESS: u64 = (1 << 48) - 1;
/// 01-80-C2-00-00-00 to 0F, which no bridge forwards (IEEE 802.1Q-2018, table 8-1).
const RESERVED: u64 = 0x0180_c200_0000;

impl Key {
    #[inline]
    fn new(address: u64, vlan: u64) -> Key {
        Key(SET | vlan << 48 | address)
    }

    #[inline]
    fn bits(self) -> u64 {
        self.0 & ADDRESS
    }

    /// The address of one station: neither a group's nor zero.
    #[inline]
    pub fn is_station(self) -> bool {
        self.0 & GROUP == 0 && self.bits() != 0
    }

    #[inline]
    pub fn is_group(self) -> bool {
        self.0 & GROUP != 0
    }

    #[inline]
    pub fn is_reserved(self) -> bool {
        self.bits() & !0xf == RESERVED
    }

    pub fn address(self) -> [u8; 6] {
        let [_, _, address @ ..] = self.0.to_be_bytes();
        address
    }

    pub fn vlan(self) -> u16 {
        (self.0 >> 48) as u16 & 0xfff
    }
}

/// Source and destination within their VLAN, which is that of the outermost tag; frames without one, and
/// those with a mere priority, are of VLAN 0.
#[inline]
pub(crate) fn keys(head: &[u8; HEAD]) -> (Key, Key) {
    // From whole words: single loads.
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, tag @ ..] = *head;
    let vlan = u64::from(packet::outer_vlan(tag) & 0xfff);
    let destination = u64::from_be_bytes([d0, d1, d2, d3, d4, d5, s0, s1]) >> 16;
    let source = u64::from_be_bytes([d4, d5, s0, s1, s2, s3, s4, s5]) & ADDRESS;
    (Key::new(source, vlan), Key::new(destination, vlan))
}
