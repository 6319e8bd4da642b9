//! One packet in a ring: 32 bytes, as four words.

/// Words of a descriptor in a ring.
pub const WORDS: usize = 4;

/// [`Descriptor::flags`].
pub mod flags {
    /// The checksum at `csum_start` + `csum_offset` is partial, as in virtio-net (Virtio 1.2, section 5.1.6).
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// Checksums were verified.
    pub const CHECKSUM_VALID: u8 = 2;
    /// No packet but an empty buffer, which the process asked for. From the engine alone.
    pub const EMPTY: u8 = 0x80;
}

/// One packet: where it lies in the pool, and what is known about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Number of the buffer in the pool.
    pub buffer: u32,
    /// The packet's first byte, from the buffer's first byte; of an empty buffer, where a packet best begins.
    pub offset: u32,
    /// Bytes in the packet; of an empty buffer, how many it has room for.
    pub length: u32,
    /// Equal for both directions of a flow; 0: not computed. Ignored from the process.
    pub flow_hash: u32,
    /// The tenant's own mark.
    pub mark: u64,
    /// See [`flags`].
    pub flags: u8,
    /// `SF_GSO_`, as in virtio-net.
    pub gso_type: u8,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Where checksumming starts, from the packet's first byte.
    pub csum_start: u16,
    /// Where the checksum is stored, from `csum_start`.
    pub csum_offset: u16,
}

impl Descriptor {
    /// As it stands in a ring.
    #[inline]
    pub fn to_words(self) -> [u64; WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let rest = u64::from(self.flags)
            | u64::from(self.gso_type) << 8
            | u64::from(self.gso_size) << 16
            | u64::from(self.csum_start) << 32
            | u64::from(self.csum_offset) << 48;
        [pair(self.buffer, self.offset), pair(self.length, self.flow_hash), self.mark, rest]
    }

    /// Any words are a descriptor; what it names is for the reader to check.
    #[inline]
    pub fn from_words(words: [u64; WORDS]) -> Descriptor {
        let [place, extent, mark, rest] = words;
        Descriptor {
            buffer: place as u32,
            offset: (place >> 32) as u32,
            length: extent as u32,
            flow_hash: (extent >> 32) as u32,
            mark,
            flags: rest as u8,
            gso_type: (rest >> 8) as u8,
            gso_size: (rest >> 16) as u16,
            csum_start: (rest >> 32) as u16,
            csum_offset: (rest >> 48) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_words_are_a_descriptor_and_back(words: [u64; WORDS]) {
            prop_assert_eq!(Descriptor::from_words(words).to_words(), words);
        }
    }

    /// The layout of `struct sfn_packet`.
    #[test]
    fn fields_lie_where_the_header_says() {
        let descriptor = Descriptor {
            buffer: 0x0403_0201,
            offset: 0x0807_0605,
            length: 0x0c0b_0a09,
            flow_hash: 0x100f_0e0d,
            mark: 0x1817_1615_1413_1211,
            flags: 0x19,
            gso_type: 0x1a,
            gso_size: 0x1c1b,
            csum_start: 0x1e1d,
            csum_offset: 0x201f,
        };
        let bytes: Vec<u8> = descriptor.to_words().into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(bytes, (1..=32).collect::<Vec<u8>>());
    }
}
