//! The pcapng format (draft-ietf-opsawg-pcapng): sections of blocks, of which those with packets and
//! interfaces matter.

use super::capture::{ByteOrder, Found, MAX_PACKET, Record, Step, require};
use super::error::Cause;
use super::input::{CAPACITY, Input};
use std::io::{Read, Seek};

/// Kinds of blocks, section 11.1.
pub(super) mod block {
    pub const SECTION: u32 = 0x0a0d_0d0a;
    pub const INTERFACE: u32 = 1;
    /// Obsolete, but still found.
    pub const PACKET: u32 = 2;
    pub const SIMPLE_PACKET: u32 = 3;
    pub const ENHANCED_PACKET: u32 = 6;
}

/// Options of an interface, section 4.2.
mod option {
    pub const END: u16 = 0;
    pub const RESOLUTION: u16 = 9;
    pub const OFFSET: u16 = 14;
}

/// What a section's byte order mark is in its byte order.
const BYTE_ORDER_MARK: u32 = 0x1a2b_3c4d;

/// Kind and length in front, length at the end.
const FRAME: usize = 12;

/// Interfaces in one section; a bound on memory.
const MAX_INTERFACES: usize = 1 << 16;

/// An interface of the current section.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    /// Most bytes captured of a packet; 0 for no limit.
    snap_length: u32,
    /// `if_tsresol`: the negative power of ten, or of two with the upper bit, of a second.
    resolution: u8,
    /// Seconds to be added.
    offset: i64,
}

/// The section being read.
#[derive(Debug)]
pub(super) struct Section {
    order: ByteOrder,
    interfaces: Vec<Interface>,
}

impl Section {
    /// The first bytes of a section, the same in both byte orders.
    pub const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

    /// Reads the file's first section header.
    pub fn begin<R: Read + Seek>(input: &mut Input<R>) -> Result<Section, Cause> {
        let mut section = Section { order: ByteOrder::Little, interfaces: Vec::new() };
        section.header(input)?;
        Ok(section)
    }

    #[inline]
    pub fn step<R: Read + Seek>(&mut self, input: &mut Input<R>) -> Result<Step, Cause> {
        if input.fill(FRAME)? == 0 {
            return Ok(Step::End);
        }
        require(input, FRAME)?;
        // A section's kind reads the same in both byte orders.
        match self.order.u32(input.bytes(), 0) {
            block::ENHANCED_PACKET => self.packet(input, |order, bytes| order.u32(bytes, 8)),
            block::PACKET => self.packet(input, |order, bytes| order.u16(bytes, 8).into()),
            block::SIMPLE_PACKET => self.simple_packet(input),
            block::SECTION => self.header(input).map(|()| Step::Passed),
            block::INTERFACE => self.interface(input).map(|()| Step::Passed),
            _ => self.pass(input),
        }
    }

    /// A block with all of its bytes in the window, checked to have at least `least`; returns how many it
    /// has.
    #[inline]
    fn whole<R: Read + Seek>(
        &self,
        input: &mut Input<R>,
        what: &'static str,
        least: usize,
    ) -> Result<usize, Cause> {
        let before = self.order.u32(input.bytes(), 4);
        let total = before as usize;
        if total < least || total > CAPACITY || !total.is_multiple_of(4) {
            return Err(Cause::Length { what, found: before.into() });
        }
        require(input, total)?;
        self.trailer(input.bytes(), total, before)?;
        Ok(total)
    }

    #[inline]
    fn trailer(&self, bytes: &[u8], total: usize, before: u32) -> Result<(), Cause> {
        let behind = self.order.u32(bytes, total - 4);
        if behind == before { Ok(()) } else { Err(Cause::Trailer { before, behind }) }
    }

    fn header<R: Read + Seek>(&mut self, input: &mut Input<R>) -> Result<(), Cause> {
        require(input, 28)?;
        let mark = input.bytes()[8..12].first_chunk().copied().unwrap_or_default();
        self.order = if u32::from_le_bytes(mark) == BYTE_ORDER_MARK {
            ByteOrder::Little
        } else if u32::from_be_bytes(mark) == BYTE_ORDER_MARK {
            ByteOrder::Big
        } else {
            return Err(Cause::ByteOrder(mark));
        };
        let total = self.whole(input, "a section header", 28)?;
        let major = self.order.u16(input.bytes(), 12);
        if major != 1 {
            return Err(Cause::Version(major));
        }
        self.interfaces.clear();
        input.consume(total);
        Ok(())
    }

    fn interface<R: Read + Seek>(&mut self, input: &mut Input<R>) -> Result<(), Cause> {
        let total = self.whole(input, "an interface description", 20)?;
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Cause::Interface { found: MAX_INTERFACES as u32, known: MAX_INTERFACES });
        }
        let bytes = input.bytes();
        let mut interface = Interface {
            link_type: self.order.u16(bytes, 8),
            snap_length: self.order.u32(bytes, 12),
            resolution: 6,
            offset: 0,
        };
        let mut options = bytes.get(16..total - 4).unwrap_or(&[]);
        while options.len() >= 4 {
            let (code, length) = (self.order.u16(options, 0), usize::from(self.order.u16(options, 2)));
            let Some(value) = options.get(4..4 + length) else {
                return Err(Cause::Length { what: "an option of an interface", found: length as u64 });
            };
            match (code, value) {
                (option::END, _) => break,
                (option::RESOLUTION, [resolution, ..]) => interface.resolution = *resolution,
                (option::OFFSET, [_, _, _, _, _, _, _, _, ..]) => {
                    interface.offset = self.order.u64(value, 0).cast_signed();
                }
                _ => {}
            }
            options = options.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        self.interfaces.push(interface);
        input.consume(total);
        Ok(())
    }

    /// An enhanced packet block, or an obsolete packet block, which differ in how they name the interface.
    #[inline]
    fn packet<R: Read + Seek>(
        &self,
        input: &mut Input<R>,
        interface: impl Fn(ByteOrder, &[u8]) -> u32,
    ) -> Result<Step, Cause> {
        const HEADER: usize = 28;
        let total = self.whole(input, "a packet block", HEADER + 4)?;
        let bytes = input.bytes();
        let interface = self.described(interface(self.order, bytes))?;
        let units = u64::from(self.order.u32(bytes, 12)) << 32 | u64::from(self.order.u32(bytes, 16));
        let (length, original_length) = (self.order.u32(bytes, 20), self.order.u32(bytes, 24));
        if length > MAX_PACKET || length as usize > total - HEADER - 4 {
            return Err(Cause::Length { what: "a packet", found: length.into() });
        }
        let timestamp = Some(nanoseconds(units, interface.resolution, interface.offset));
        let record = Record { timestamp, length, original_length, link_type: interface.link_type };
        Ok(Step::Packet(Found { record, header: HEADER, total }))
    }

    fn simple_packet<R: Read + Seek>(&self, input: &mut Input<R>) -> Result<Step, Cause> {
        const HEADER: usize = 12;
        let total = self.whole(input, "a packet block", HEADER + 4)?;
        let interface = self.described(0)?;
        let original_length = self.order.u32(input.bytes(), 8);
        let limit = if interface.snap_length == 0 { MAX_PACKET } else { interface.snap_length };
        let length = original_length.min(limit);
        if length > MAX_PACKET || length as usize > total - HEADER - 4 {
            return Err(Cause::Length { what: "a packet", found: length.into() });
        }
        let record = Record { timestamp: None, length, original_length, link_type: interface.link_type };
        Ok(Step::Packet(Found { record, header: HEADER, total }))
    }

    #[inline]
    fn described(&self, number: u32) -> Result<Interface, Cause> {
        let known = self.interfaces.len();
        self.interfaces.get(number as usize).copied().ok_or(Cause::Interface { found: number, known })
    }

    /// Goes past a block of another kind, however long it is.
    fn pass<R: Read + Seek>(&self, input: &mut Input<R>) -> Result<Step, Cause> {
        let before = self.order.u32(input.bytes(), 4);
        if (before as usize) < FRAME || !before.is_multiple_of(4) {
            return Err(Cause::Length { what: "a block", found: before.into() });
        }
        let needed = u64::from(before) - 4;
        let found = input.skip(needed)?;
        let found = found + if found == needed { input.fill(4)? as u64 } else { 0 };
        if found < needed + 4 {
            return Err(Cause::Ends { needed: needed + 4, found });
        }
        self.trailer(input.bytes(), 4, before)?;
        input.consume(4);
        Ok(Step::Passed)
    }
}

/// Units of an interface's clock in nanoseconds since the Unix epoch, as far as there is room.
#[inline]
fn nanoseconds(units: u64, resolution: u8, offset: i64) -> u64 {
    const SECOND: u128 = 1_000_000_000;
    let exponent = u32::from(resolution & 0x7f);
    let nanoseconds = if resolution & 0x80 != 0 {
        (u128::from(units) * SECOND) >> exponent
    } else if exponent <= 9 {
        u128::from(units) * 10u128.pow(9 - exponent)
    } else {
        10u128.checked_pow(exponent - 9).map_or(0, |divisor| u128::from(units) / divisor)
    };
    // 64 bits of units and 30 of a second fit well into 127.
    let sum = nanoseconds.cast_signed().saturating_add(i128::from(offset) * SECOND.cast_signed());
    u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn clocks_of_every_resolution() {
        assert_eq!(nanoseconds(1_500_000, 6, 0), 1_500_000_000);
        assert_eq!(nanoseconds(7, 9, 2), 2_000_000_007);
        assert_eq!(nanoseconds(3, 0, 0), 3_000_000_000);
        assert_eq!(nanoseconds(12_345, 12, 0), 12);
        assert_eq!(nanoseconds(3, 0x81, 0), 1_500_000_000);
        assert_eq!(nanoseconds(1 << 32, 0xa0, -1), 0);
        for resolution in 0..=255 {
            for offset in [i64::MIN, -1, 0, i64::MAX] {
                nanoseconds(u64::MAX, resolution, offset);
            }
        }
    }
}
