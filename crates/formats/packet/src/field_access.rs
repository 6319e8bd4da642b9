//! Reading and writing fields in network byte order. Every caller has checked the length before; a field
//! outside of the bytes reads as zero and is not written, so that a forgotten check can never panic.

use core::ops::Range;

/// Where a field is, in bytes from the header's first.
pub(crate) type Field = Range<usize>;

#[inline]
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], field: Field) -> [u8; N] {
    bytes.get(field).and_then(|b| b.try_into().ok()).unwrap_or([0; N])
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], field: Field) -> u16 {
    u16::from_be_bytes(array_at(bytes, field))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], field: Field) -> u32 {
    u32::from_be_bytes(array_at(bytes, field))
}

/// The bytes from `start` up to `end`, as far as they are there.
#[inline]
pub(crate) fn clipped(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    bytes.get(start..end.min(bytes.len())).unwrap_or(&[])
}

#[inline]
pub(crate) fn put(bytes: &mut [u8], field: Field, value: &[u8]) {
    if let Some(target) = bytes.get_mut(field)
        && target.len() == value.len()
    {
        target.copy_from_slice(value);
    }
}

#[inline]
pub(crate) fn put_u8(bytes: &mut [u8], at: usize, value: u8) {
    put(bytes, at..at + 1, &[value]);
}

#[inline]
pub(crate) fn put_u16(bytes: &mut [u8], field: Field, value: u16) {
    put(bytes, field, &value.to_be_bytes());
}

#[inline]
pub(crate) fn put_u32(bytes: &mut [u8], field: Field, value: u32) {
    put(bytes, field, &value.to_be_bytes());
}

/// Writes options into `room`, the rest of which is filled with zeros (end of options, in IPv4 and TCP
/// alike).
pub(crate) fn put_options(room: &mut [u8], options: &[u8]) {
    for (n, byte) in room.iter_mut().enumerate() {
        *byte = options.get(n).copied().unwrap_or(0);
    }
}
