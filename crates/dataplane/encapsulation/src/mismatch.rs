//! Why headers are not as they have to be.

use crate::{LayerKind, MAX_BYTES};

/// A packet does not have the layers that are to be taken off, or cannot have those that are to be put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer}: {reason}")]
pub struct Mismatch {
    /// The layer that it is about.
    pub layer: LayerKind,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Another header is there.
    #[error("another header is there")]
    Other,
    /// The packet ends inside of the header, or only so many of its bytes were given.
    #[error("the packet ends inside of it, or too few of its bytes were given")]
    Truncated,
    /// A fragment.
    #[error("the outer packet is a fragment")]
    Fragment,
    /// IPv4 options, IPv6 extension headers, or an option of Geneve that may not be ignored.
    #[error("the outer packet has options")]
    Options,
    /// Lengths contradict each other.
    #[error("a length in the outer headers is wrong")]
    Length,
    /// The outer IPv4 header's checksum is wrong.
    #[error("the outer header's checksum is wrong")]
    Checksum,
    /// A flag or version of the tunnel's header is not allowed, or is one that is not understood.
    #[error("the tunnel's header has a flag or version that is not understood")]
    Flags,
    /// The path was congested, and the packet inside cannot say so (RFC 6040, section 4.2).
    #[error("congestion was signalled to a packet that does not support it")]
    Congestion,
    /// The headers are too long.
    #[error("the headers are longer than {MAX_BYTES} bytes")]
    TooMany,
    /// The packet would be longer than IP allows.
    #[error("the packet would be longer than IP allows")]
    TooLong,
    /// The layer carries IP alone, and the packet is something else.
    #[error("the packet is not IP")]
    NotIp,
}
