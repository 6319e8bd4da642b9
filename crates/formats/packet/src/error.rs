//! Why bytes are no header, and why a header was not written.

use crate::tunnel::Tunnel;
use core::fmt;

/// The part of a packet that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Ethernet and its VLAN tags.
    Ethernet,
    /// Address resolution.
    Arp,
    /// The IPv4 header and its options.
    Ipv4,
    /// The IPv6 header.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
    /// TCP and its options.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP for IPv4.
    Icmpv4,
    /// ICMP for IPv6.
    Icmpv6,
    /// Another transport protocol whose ports were looked for.
    Transport,
    /// A tunnel's header.
    Tunnel(Tunnel),
}

impl Layer {
    /// The name shown to people.
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Ethernet => "Ethernet",
            Layer::Arp => "ARP",
            Layer::Ipv4 => "IPv4",
            Layer::Ipv6 => "IPv6",
            Layer::Ipv6Extension => "IPv6 extension",
            Layer::Tcp => "TCP",
            Layer::Udp => "UDP",
            Layer::Icmpv4 => "ICMP",
            Layer::Icmpv6 => "ICMPv6",
            Layer::Transport => "transport",
            Layer::Tunnel(tunnel) => tunnel.name(),
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why bytes are not the header that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The bytes end inside the header. When only a prefix of the packet was given, more of it may help.
    Truncated {
        /// The header that is cut.
        layer: Layer,
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// The version field is another protocol's.
    Version {
        /// The header.
        layer: Layer,
        /// The version found.
        found: u8,
    },
    /// A length field says less than the header itself takes.
    Length {
        /// The header.
        layer: Layer,
        /// The smallest length that makes sense, in bytes.
        needed: usize,
        /// The length found, in bytes.
        found: usize,
    },
    /// An option's length is zero, one, or reaches out of the header.
    Option {
        /// The header.
        layer: Layer,
        /// The option's kind.
        kind: u8,
    },
    /// A kind of address that this module does not know (ARP for other than Ethernet and IPv4).
    Address {
        /// The header.
        layer: Layer,
    },
    /// More IPv6 extension headers than [`crate::ipv6::MAX_EXTENSIONS`].
    TooManyExtensions,
    /// More VLAN tags than [`crate::ethernet::MAX_TAGS`].
    TooManyTags,
    /// More MPLS labels than [`crate::tunnel::MAX_LABELS`].
    TooManyLabels,
    /// More tunnels inside of one another than [`crate::tunnel::MAX_LEVELS`].
    TooDeep,
    /// Hop-by-hop options anywhere but directly behind the IPv6 header (RFC 8200 section 4.1).
    MisplacedHopByHop,
}

impl ParseError {
    /// Whether the bytes end early, or there are more headers than are looked behind: nothing says that the
    /// packet is wrong, it only cannot be read.
    pub const fn is_unreadable(&self) -> bool {
        matches!(
            self,
            ParseError::Truncated { .. }
                | ParseError::TooManyExtensions
                | ParseError::TooManyTags
                | ParseError::TooManyLabels
                | ParseError::TooDeep
        )
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ParseError::Truncated { layer, needed, found } => {
                write!(f, "the {layer} header takes {needed} bytes, but there are {found}")
            }
            ParseError::Version { layer, found } => write!(f, "{layer} with version {found}"),
            ParseError::Length { layer, needed, found } => {
                write!(f, "the {layer} header says a length of {found}, but itself takes {needed}")
            }
            ParseError::Option { layer, kind } => {
                write!(f, "the {layer} option of kind {kind} reaches out of the header")
            }
            ParseError::Address { layer } => write!(f, "{layer} with unknown kinds of address"),
            ParseError::TooManyExtensions => f.write_str("too many IPv6 extension headers"),
            ParseError::TooManyTags => f.write_str("too many VLAN tags"),
            ParseError::TooManyLabels => f.write_str("too many MPLS labels"),
            ParseError::TooDeep => f.write_str("too many tunnels inside of one another"),
            ParseError::MisplacedHopByHop => {
                f.write_str("IPv6 hop-by-hop options behind another extension header")
            }
        }
    }
}

impl core::error::Error for ParseError {}

/// Why a header was not written; the bytes are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// The bytes have no room for it.
    NoRoom {
        /// The header.
        layer: Layer,
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// A length does not fit into the field for it.
    TooLong {
        /// The header.
        layer: Layer,
        /// The length, in bytes.
        length: usize,
        /// The largest possible, in bytes.
        limit: usize,
    },
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EmitError::NoRoom { layer, needed, found } => {
                write!(f, "the {layer} header takes {needed} bytes, but there is room for {found}")
            }
            EmitError::TooLong { layer, length, limit } => {
                write!(f, "{length} bytes do not fit into a length of the {layer} header, at most {limit}")
            }
        }
    }
}

impl core::error::Error for EmitError {}

/// Checks that a header of `needed` bytes is there.
pub(crate) fn ensure(layer: Layer, bytes: &[u8], needed: usize) -> Result<(), ParseError> {
    if bytes.len() < needed {
        return Err(ParseError::Truncated { layer, needed, found: bytes.len() });
    }
    Ok(())
}

/// Checks that there is room for a header of `needed` bytes.
pub(crate) fn ensure_room(layer: Layer, bytes: &[u8], needed: usize) -> Result<(), EmitError> {
    if bytes.len() < needed {
        return Err(EmitError::NoRoom { layer, needed, found: bytes.len() });
    }
    Ok(())
}
