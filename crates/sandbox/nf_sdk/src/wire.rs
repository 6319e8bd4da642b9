//! Words as packets have them: addresses and ports are read as little-endian numbers from the packet's bytes
//! and written back the same way, so that the usual packet needs no byte to be swapped. Sums of the Internet
//! checksum may be made in either order of bytes (RFC 1071 section 2(B)).

/// ICMP over IPv4.
pub const ICMP: u8 = 1;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// ICMP over IPv6.
pub const ICMPV6: u8 = 58;

/// An IPv4 address as a packet has it.
pub type Address = u32;
/// A port, or the identifier of an ICMP query, as a packet has it.
pub type Port = u16;

/// An address from host order.
pub const fn wire_v4(bits: u32) -> Address {
    bits.swap_bytes()
}

/// An address in host order.
pub const fn host_v4(address: Address) -> u32 {
    address.swap_bytes()
}

/// A little-endian word of a packet.
#[inline(always)]
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A little-endian half word of a packet.
#[inline(always)]
pub fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes a word where there is room for it.
#[inline(always)]
pub fn put_word(bytes: &mut [u8], at: usize, word: u32) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = word.to_le_bytes();
    }
}

/// Writes a half word where there is room for it.
#[inline(always)]
pub fn put_half(bytes: &mut [u8], at: usize, half: u16) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = half.to_le_bytes();
    }
}

/// A sum of half words in 16 bits.
#[inline(always)]
pub const fn folded(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// What a checksum's sum gains when a word of the packet changes from `old` to `new` (RFC 1624, equation 3).
#[inline(always)]
pub const fn gain(old: u32, new: u32) -> u16 {
    let old = !old;
    folded((old & 0xffff) + (old >> 16) + (new & 0xffff) + (new >> 16))
}

/// The same for a half word.
#[inline(always)]
pub const fn gain_half(old: u16, new: u16) -> u16 {
    folded((!old) as u32 + new as u32)
}

/// A checksum after the sum that it is the complement of gained `gain`.
#[inline(always)]
pub const fn updated(checksum: u16, gain: u16) -> u16 {
    !folded((!checksum) as u32 + gain as u32)
}

/// Where in a transport header the checksum is.
pub fn transport_checksum(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP => Some(6),
        ICMP => Some(2),
        _ => None,
    }
}

/// Corrects a transport checksum after what the sums of addresses and of ports gained.
#[inline(always)]
pub fn correct(frame: &mut [u8], at: usize, protocol: u8, addresses: u16, ports: u16, partial: bool) {
    let Some(checksum) = half(frame, at) else { return };
    let both = folded(u32::from(addresses) + u32::from(ports));
    let new = match protocol {
        ICMP => updated(checksum, ports),
        // The field holds the sum of the pseudo header, which is not its complement.
        _ if partial => folded(u32::from(checksum) + u32::from(addresses)),
        // No checksum (RFC 768).
        UDP if checksum == 0 => return,
        UDP => ::packet::checksum::udp_wire(updated(checksum, both)),
        _ => updated(checksum, both),
    };
    put_half(frame, at, new);
}
