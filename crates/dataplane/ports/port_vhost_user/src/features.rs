//! What a network device can do, by the bits of Virtio 1.2 (sections 5.1.3 and 6) and of vhost-user.

/// Checksums may be left to this side.
pub const CSUM: u64 = 1 << 0;
/// Checksums may be left to the guest.
pub const GUEST_CSUM: u64 = 1 << 1;
/// Segments of TCP over IPv4 may be left to the guest; over IPv6; with ECN.
pub const GUEST_TSO4: u64 = 1 << 7;
/// See [`GUEST_TSO4`].
pub const GUEST_TSO6: u64 = 1 << 8;
/// See [`GUEST_TSO4`].
pub const GUEST_ECN: u64 = 1 << 9;
/// Segments of TCP over IPv4 may be left to this side; over IPv6; with ECN.
pub const HOST_TSO4: u64 = 1 << 11;
/// See [`HOST_TSO4`].
pub const HOST_TSO6: u64 = 1 << 12;
/// See [`HOST_TSO4`].
pub const HOST_ECN: u64 = 1 << 13;
/// A packet for the guest may lie in several of its buffers.
pub const MRG_RXBUF: u64 = 1 << 15;
/// There is a ring for commands, which the front end serves.
pub const CTRL_VQ: u64 = 1 << 17;
/// There may be several pairs of rings.
pub const MQ: u64 = 1 << 22;
/// Writes are noted in a log.
pub const LOG_ALL: u64 = 1 << 26;
/// Headers and bytes may lie in buffers as they come.
pub const ANY_LAYOUT: u64 = 1 << 27;
/// A descriptor may name a table of descriptors.
pub const INDIRECT_DESC: u64 = 1 << 28;
/// Each side says from which count on it wants to be woken.
pub const EVENT_IDX: u64 = 1 << 29;
/// There are features of the protocol.
pub const PROTOCOL_FEATURES: u64 = 1 << 30;
/// Virtio 1.0 or later.
pub const VERSION_1: u64 = 1 << 32;
/// Buffers are used in the order in which they came.
pub const IN_ORDER: u64 = 1 << 35;

/// Of the protocol: several pairs of rings.
pub const PROTOCOL_MQ: u64 = 1 << 0;
/// Of the protocol: the log comes as a file.
pub const PROTOCOL_LOG_SHMFD: u64 = 1 << 1;
/// Of the protocol: the peer may wait to be told how it went.
pub const PROTOCOL_REPLY_ACK: u64 = 1 << 3;

/// What of the protocol is offered.
pub const PROTOCOL: u64 = PROTOCOL_MQ | PROTOCOL_LOG_SHMFD | PROTOCOL_REPLY_ACK;

/// What a port offers.
pub fn offered(offload: bool, queues: u32) -> u64 {
    let always = MRG_RXBUF
        | LOG_ALL
        | ANY_LAYOUT
        | INDIRECT_DESC
        | EVENT_IDX
        | PROTOCOL_FEATURES
        | VERSION_1
        | IN_ORDER;
    let state = CSUM | GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | GUEST_ECN | HOST_TSO4 | HOST_TSO6 | HOST_ECN;
    always | if offload { state } else { 0 } | if queues > 1 { CTRL_VQ | MQ } else { 0 }
}

/// Whether the header in front of a guest's frame may say anything: without any of these it is zero.
pub fn has_state(features: u64) -> bool {
    features & (CSUM | HOST_TSO4 | HOST_TSO6 | HOST_ECN) != 0
}

/// Bytes of the header in front of each frame.
#[inline]
pub fn header_length(features: u64) -> u32 {
    if features & (VERSION_1 | MRG_RXBUF) != 0 { 12 } else { 10 }
}
