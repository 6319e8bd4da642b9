//! Ethernet II with up to two VLAN tags (IEEE 802.3, 802.1Q, 802.1ad). Without the frame check sequence.

use crate::error::{EmitError, Layer, ParseError, ensure, ensure_room};
use crate::field_access::{array_at, clipped, put, put_u16, u16_at};

/// Where the fields are. The EtherType's place moves by [`TAG_LENGTH`] with each tag.
pub mod field {
    use crate::field_access::Field;
    /// Destination address.
    pub const DESTINATION: Field = 0..6;
    /// Source address.
    pub const SOURCE: Field = 6..12;
    /// EtherType of an untagged frame, or the first tag's protocol identifier.
    pub const ETHERTYPE: Field = 12..14;
}

/// EtherTypes (IANA, "IEEE 802 Numbers").
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// Address resolution.
    pub const ARP: u16 = 0x0806;
    /// VLAN tag (customer), IEEE 802.1Q.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// VLAN tag (service), IEEE 802.1ad.
    pub const SERVICE_VLAN: u16 = 0x88a8;
}

/// Bytes of an untagged header.
pub const HEADER_LENGTH: usize = 14;
/// Bytes of a tag.
pub const TAG_LENGTH: usize = 4;
/// Tags that are looked behind; a third one is the payload, with its identifier as EtherType.
pub const MAX_TAGS: usize = 2;

/// Whether a value in the EtherType's place announces a tag.
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN)
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Tag protocol identifier: [`ethertype::VLAN`] or [`ethertype::SERVICE_VLAN`].
    pub tpid: u16,
    /// Tag control information: priority (3 bits), drop eligible (1), VLAN identifier (12).
    pub tci: u16,
}

impl Tag {
    /// The VLAN identifier.
    pub const fn id(self) -> u16 {
        self.tci & 0xfff
    }
}

/// The tags of a frame, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tags {
    list: [Tag; MAX_TAGS],
    count: u8,
}

impl Tags {
    /// Untagged.
    pub const NONE: Tags = Tags { list: [Tag { tpid: 0, tci: 0 }; MAX_TAGS], count: 0 };

    /// One tag.
    pub const fn one(tag: Tag) -> Tags {
        Tags { list: [tag, Tag { tpid: 0, tci: 0 }], count: 1 }
    }

    /// Two tags.
    pub const fn two(outer: Tag, inner: Tag) -> Tags {
        Tags { list: [outer, inner], count: 2 }
    }

    /// The tags, outermost first.
    pub fn as_slice(&self) -> &[Tag] {
        self.list.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Control information of the outermost tag, 0 when there is none.
    pub const fn outer_tci(&self) -> u16 {
        self.list[0].tci
    }
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    tags: Tags,
}

impl<'a> View<'a> {
    /// Checks that the header with its tags is there.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<View<'a>, ParseError> {
        ensure(Layer::Ethernet, bytes, HEADER_LENGTH)?;
        let mut tags = Tags::NONE;
        for (n, tag) in tags.list.iter_mut().enumerate() {
            let at = field::ETHERTYPE.start + n * TAG_LENGTH;
            let tpid = u16_at(bytes, at..at + 2);
            if !is_tag(tpid) {
                break;
            }
            ensure(Layer::Ethernet, bytes, HEADER_LENGTH + (n + 1) * TAG_LENGTH)?;
            *tag = Tag { tpid, tci: u16_at(bytes, at + 2..at + 4) };
            tags.count = n as u8 + 1;
        }
        Ok(View { bytes, tags })
    }

    /// Destination address.
    pub fn destination(&self) -> [u8; 6] {
        array_at(self.bytes, field::DESTINATION)
    }

    /// Source address.
    pub fn source(&self) -> [u8; 6] {
        array_at(self.bytes, field::SOURCE)
    }

    /// The tags.
    #[inline]
    pub fn tags(&self) -> Tags {
        self.tags
    }

    /// The EtherType behind the tags; below 0x0600 it is a length (IEEE 802.3).
    #[inline]
    pub fn ethertype(&self) -> u16 {
        let end = self.header_length();
        u16_at(self.bytes, end - 2..end)
    }

    /// Bytes of header and tags.
    #[inline]
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH + usize::from(self.tags.count) * TAG_LENGTH
    }

    /// What follows, padding included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        clipped(self.bytes, self.header_length(), self.bytes.len())
    }
}

/// All fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub destination: [u8; 6],
    /// Source address.
    pub source: [u8; 6],
    /// VLAN tags.
    pub tags: Tags,
    /// EtherType of the payload.
    pub ethertype: u16,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            destination: view.destination(),
            source: view.source(),
            tags: view.tags(),
            ethertype: view.ethertype(),
        }
    }

    /// Bytes that [`Repr::emit`] writes.
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH + self.tags.as_slice().len() * TAG_LENGTH
    }

    /// Writes the header at the beginning of `frame`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, frame: &mut [u8]) -> Result<(), EmitError> {
        ensure_room(Layer::Ethernet, frame, self.header_length())?;
        put(frame, field::DESTINATION, &self.destination);
        put(frame, field::SOURCE, &self.source);
        let mut at = field::ETHERTYPE.start;
        for tag in self.tags.as_slice() {
            put_u16(frame, at..at + 2, tag.tpid);
            put_u16(frame, at + 2..at + 4, tag.tci);
            at += TAG_LENGTH;
        }
        put_u16(frame, at..at + 2, self.ethertype);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QINQ: [u8; 24] = [
        0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x20, 0x0a, 0x08, 0x00,
        0xaa, 0xbb,
    ];

    #[test]
    fn reads_two_tags() {
        let view = View::new(&QINQ).unwrap();
        assert_eq!(view.tags().as_slice().iter().map(|t| t.id()).collect::<std::vec::Vec<_>>(), [100, 10]);
        assert_eq!((view.tags().outer_tci(), view.ethertype()), (100, ethertype::IPV4));
        assert_eq!((view.header_length(), view.payload()), (22, &[0xaa, 0xbb][..]));
    }

    #[test]
    fn a_cut_tag_is_truncated_and_a_third_is_payload() {
        let cut = View::new(&QINQ[..19]).unwrap_err();
        assert_eq!(cut, ParseError::Truncated { layer: Layer::Ethernet, needed: 22, found: 19 });
        let mut three = QINQ;
        three[20] = 0x81;
        three[21] = 0x00;
        let view = View::new(&three).unwrap();
        assert_eq!((view.tags().as_slice().len(), view.ethertype()), (2, ethertype::VLAN));
    }

    proptest! {
        #[test]
        fn round_trip(
            destination: [u8; 6], source: [u8; 6], tci: [u16; 2], count in 0usize..3,
            ethertype in any::<u16>().prop_filter("no tag", |e| !is_tag(*e)),
        ) {
            let inner = Tag { tpid: ethertype::VLAN, tci: tci[1] };
            let outer = Tag { tpid: ethertype::SERVICE_VLAN, tci: tci[0] };
            let tags = [Tags::NONE, Tags::one(inner), Tags::two(outer, inner)][count];
            let repr = Repr { destination, source, tags, ethertype };
            let mut frame = [0; 22];
            repr.emit(&mut frame[..repr.header_length()]).unwrap();
            prop_assert_eq!(Repr::parse(&View::new(&frame[..repr.header_length()]).unwrap()), repr);
        }
    }
}
