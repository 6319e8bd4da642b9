//! Ethernet II with VLAN tags (IEEE 802.3, 802.1Q, 802.1ad), and LLC with SNAP (RFC 1042). Without the frame
//! check sequence.

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
    /// VLAN tag (service), as devices wrote it before IEEE 802.1ad.
    pub const OLD_SERVICE_VLAN: u16 = 0x9100;
    /// MPLS, RFC 3032.
    pub const MPLS: u16 = 0x8847;
    /// MPLS with a label that the upstream router assigned, RFC 5332.
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    /// PPPoE session, RFC 2516.
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// Network service header, RFC 8300.
    pub const NSH: u16 = 0x894f;
    /// An Ethernet frame, inside of a tunnel.
    pub const TRANSPARENT_ETHERNET: u16 = 0x6558;
    /// The first EtherType; what is less is a length (IEEE 802.3).
    pub const FIRST: u16 = 0x0600;
}

/// Bytes of an untagged header.
pub const HEADER_LENGTH: usize = 14;
/// Bytes of a tag.
pub const TAG_LENGTH: usize = 4;
/// Tags that are looked behind.
pub const MAX_TAGS: usize = 16;
/// Tags whose values are kept, the outermost.
pub const KEPT_TAGS: usize = 2;
/// LLC of a SNAP header, and the two organisations whose SNAP headers have an EtherType: RFC 1042, and IEEE
/// 802.1H for bridges.
const SNAP: [[u8; 6]; 2] = [[0xaa, 0xaa, 3, 0, 0, 0], [0xaa, 0xaa, 3, 0, 0, 0xf8]];
/// Bytes of LLC and SNAP, with the EtherType.
const SNAP_LENGTH: usize = 8;

/// Whether a value in the EtherType's place announces a tag.
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN)
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Tag protocol identifier: one that [`is_tag`] knows.
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

/// The tags of a frame, outermost first, as far as they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tags {
    list: [Tag; KEPT_TAGS],
    count: u8,
}

impl Tags {
    /// Untagged.
    pub const NONE: Tags = Tags { list: [Tag { tpid: 0, tci: 0 }; KEPT_TAGS], count: 0 };

    /// One tag.
    pub const fn one(tag: Tag) -> Tags {
        Tags { list: [tag, Tag { tpid: 0, tci: 0 }], count: 1 }
    }

    /// Two tags.
    pub const fn two(outer: Tag, inner: Tag) -> Tags {
        Tags { list: [outer, inner], count: 2 }
    }

    /// The tags that are kept, outermost first.
    pub fn as_slice(&self) -> &[Tag] {
        self.list.get(..usize::from(self.count)).unwrap_or(&self.list)
    }

    /// Tags of the frame.
    pub const fn count(&self) -> usize {
        self.count as usize
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
    ethertype: u16,
    /// Bytes of header, tags, LLC and SNAP.
    length: usize,
}

impl<'a> View<'a> {
    /// Checks that the header with its tags is there.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::TooManyTags`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<View<'a>, ParseError> {
        ensure(Layer::Ethernet, bytes, HEADER_LENGTH)?;
        let ethertype = u16_at(bytes, field::ETHERTYPE);
        let view = View { bytes, tags: Tags::NONE, ethertype, length: HEADER_LENGTH };
        if ethertype >= ethertype::FIRST && !is_tag(ethertype) { Ok(view) } else { view.look_behind() }
    }

    /// Passes over tags, LLC and SNAP.
    fn look_behind(mut self) -> Result<View<'a>, ParseError> {
        while is_tag(self.ethertype) {
            let at = self.length;
            ensure(Layer::Ethernet, self.bytes, at + TAG_LENGTH)?;
            let tag = Tag { tpid: self.ethertype, tci: u16_at(self.bytes, at..at + 2) };
            let count = self.tags.count();
            if count == MAX_TAGS {
                return Err(ParseError::TooManyTags);
            }
            if let Some(place) = self.tags.list.get_mut(count) {
                *place = tag;
            }
            self.tags.count += 1;
            self.ethertype = u16_at(self.bytes, at + 2..at + 4);
            self.length += TAG_LENGTH;
        }
        let at = self.length;
        if self.ethertype < ethertype::FIRST
            && let Some(Ok(header)) = self.bytes.get(at..at + SNAP_LENGTH).map(<[u8; SNAP_LENGTH]>::try_from)
            && let [llc @ .., high, low] = header
            && SNAP.contains(&llc)
        {
            self.ethertype = u16::from_be_bytes([high, low]);
            self.length += SNAP_LENGTH;
        }
        Ok(self)
    }

    /// Destination address.
    pub fn destination(&self) -> [u8; 6] {
        array_at(self.bytes, field::DESTINATION)
    }

    /// Source address.
    pub fn source(&self) -> [u8; 6] {
        array_at(self.bytes, field::SOURCE)
    }

    /// The tags that are kept.
    #[inline]
    pub fn tags(&self) -> Tags {
        self.tags
    }

    /// The EtherType behind the tags, or in a SNAP header; below [`ethertype::FIRST`] it is a length (IEEE
    /// 802.3).
    #[inline]
    pub fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// Bytes of header, tags, LLC and SNAP.
    #[inline]
    pub fn header_length(&self) -> usize {
        self.length
    }

    /// What follows, padding included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        clipped(self.bytes, self.header_length(), self.bytes.len())
    }
}

/// All fields of a header without LLC and SNAP, of at most [`KEPT_TAGS`] tags.
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
    fn a_cut_tag_is_truncated() {
        let cut = View::new(&QINQ[..19]).unwrap_err();
        assert_eq!(cut, ParseError::Truncated { layer: Layer::Ethernet, needed: 22, found: 19 });
    }

    #[test]
    fn any_number_of_tags_is_looked_behind() {
        for count in 0..=MAX_TAGS + 1 {
            let mut frame = std::vec![2; 12];
            for n in 0..count {
                let tpid = [0x8100u16, 0x88a8, 0x9100][n % 3];
                frame.extend(tpid.to_be_bytes());
                frame.extend((n as u16 + 1).to_be_bytes());
            }
            frame.extend([0x86, 0xdd, 1, 2]);
            if count > MAX_TAGS {
                assert_eq!(View::new(&frame).unwrap_err(), ParseError::TooManyTags);
                continue;
            }
            let view = View::new(&frame).unwrap();
            assert_eq!((view.ethertype(), view.payload()), (ethertype::IPV6, &[1, 2][..]), "{count}");
            assert_eq!((view.tags().count(), view.tags().as_slice().len()), (count, count.min(2)));
            assert_eq!(view.tags().outer_tci(), u16::from(count > 0));
        }
    }

    #[test]
    fn snap_has_an_ethertype() {
        for (tag, bridged) in [(&[][..], false), (&[0x81, 0, 0, 7][..], true)] {
            let mut frame = std::vec![2; 12];
            frame.extend(tag);
            frame.extend([0, 30, 0xaa, 0xaa, 3, 0, 0, if bridged { 0xf8 } else { 0 }, 8, 0, 0x45]);
            let view = View::new(&frame).unwrap();
            assert_eq!((view.ethertype(), view.payload()), (ethertype::IPV4, &[0x45][..]));
            // Another organisation's, another protocol's, or cut: a length.
            let end = frame.len();
            assert_eq!(View::new(&frame[..end - 2]).unwrap().ethertype(), 30);
            frame[end - 4] = 0x0c;
            assert_eq!(View::new(&frame).unwrap().ethertype(), 30);
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            destination: [u8; 6], source: [u8; 6], tci: [u16; 2], count in 0usize..3,
            ethertype in any::<u16>().prop_filter("no tag", |e| !is_tag(*e) && *e >= ethertype::FIRST),
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
