//! The pcap format (draft-ietf-opsawg-pcap).

use super::capture::{ByteOrder, Found, MAX_PACKET, Record, Step, require};
use super::error::Cause;
use super::input::Input;
use std::io::{Read, Seek};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// A pcap file's own properties.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classic {
    order: ByteOrder,
    /// Nanoseconds in a unit of the fraction of a second.
    unit: u64,
    pub link_type: u16,
}

impl Classic {
    /// The format that a file's first four bytes announce.
    pub fn of_magic(magic: [u8; 4]) -> Option<Classic> {
        let (order, unit) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (ByteOrder::Little, 1000),
            [0xa1, 0xb2, 0xc3, 0xd4] => (ByteOrder::Big, 1000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (ByteOrder::Little, 1),
            [0xa1, 0xb2, 0x3c, 0x4d] => (ByteOrder::Big, 1),
            _ => return None,
        };
        Some(Classic { order, unit, link_type: 0 })
    }

    /// Reads the file's header.
    pub fn begin<R: Read + Seek>(mut self, input: &mut Input<R>) -> Result<Classic, Cause> {
        require(input, FILE_HEADER)?;
        let header = input.bytes();
        let major = self.order.u16(header, 4);
        if major != 2 {
            return Err(Cause::Version(major));
        }
        // The upper half says whether frames have their check sequence.
        self.link_type = self.order.u32(header, 20) as u16;
        input.consume(FILE_HEADER);
        Ok(self)
    }

    #[inline]
    pub fn step<R: Read + Seek>(&self, input: &mut Input<R>) -> Result<Step, Cause> {
        if input.fill(RECORD_HEADER)? == 0 {
            return Ok(Step::End);
        }
        require(input, RECORD_HEADER)?;
        let header = input.bytes();
        let (seconds, fraction) = (self.order.u32(header, 0), self.order.u32(header, 4));
        let (length, original_length) = (self.order.u32(header, 8), self.order.u32(header, 12));
        if length > MAX_PACKET {
            return Err(Cause::Length { what: "a packet", found: length.into() });
        }
        let total = RECORD_HEADER + length as usize;
        require(input, total)?;
        let timestamp = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit;
        let record =
            Record { timestamp: Some(timestamp), length, original_length, link_type: self.link_type };
        Ok(Step::Packet(Found { record, header: RECORD_HEADER, total }))
    }
}
