//! ECN of packets in tunnels: the lower two bits of the traffic class (RFC 3168, RFC 6040).

/// Congestion is not told to the sender.
pub const NOT_CAPABLE: u8 = 0;
/// Capable, the codepoint ECT(1).
pub const CAPABLE_1: u8 = 1;
/// Capable, the codepoint ECT(0).
pub const CAPABLE_0: u8 = 2;
/// Congestion was met.
pub const CONGESTED: u8 = 3;

/// ECN of a packet from which an outer header with this one was taken off (RFC 6040, figure 4); `None` when
/// the packet is to be dropped: it met congestion and cannot say so.
#[inline]
pub const fn taken_off(outer: u8, inner: u8) -> Option<u8> {
    match (inner & 3, outer & 3) {
        (NOT_CAPABLE, CONGESTED) => None,
        (CAPABLE_1 | CAPABLE_0, CONGESTED) => Some(CONGESTED),
        (CAPABLE_0, CAPABLE_1) => Some(CAPABLE_1),
        (inner, _) => Some(inner),
    }
}
