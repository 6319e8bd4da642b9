//! Protocol numbers of IPv4 and next-header values of IPv6 (IANA, "Assigned Internet Protocol Numbers").

/// IPv6 hop-by-hop options, RFC 8200.
pub const HOP_BY_HOP: u8 = 0;
/// ICMP, RFC 792.
pub const ICMPV4: u8 = 1;
/// IGMP, RFC 3376.
pub const IGMP: u8 = 2;
/// IPv4 in IP, RFC 2003.
pub const IPV4: u8 = 4;
/// TCP, RFC 9293.
pub const TCP: u8 = 6;
/// UDP, RFC 768.
pub const UDP: u8 = 17;
/// DCCP, RFC 4340.
pub const DCCP: u8 = 33;
/// IPv6 in IP, RFC 2473 and RFC 4213.
pub const IPV6: u8 = 41;
/// IPv6 routing header, RFC 8200.
pub const ROUTING: u8 = 43;
/// IPv6 fragment header, RFC 8200.
pub const FRAGMENT: u8 = 44;
/// GRE, RFC 2784.
pub const GRE: u8 = 47;
/// Encapsulating security payload, RFC 4303.
pub const ESP: u8 = 50;
/// Authentication header, RFC 4302.
pub const AUTHENTICATION: u8 = 51;
/// ICMPv6, RFC 4443.
pub const ICMPV6: u8 = 58;
/// Nothing follows, RFC 8200.
pub const NO_NEXT_HEADER: u8 = 59;
/// IPv6 destination options, RFC 8200.
pub const DESTINATION_OPTIONS: u8 = 60;
/// SCTP, RFC 9260.
pub const SCTP: u8 = 132;
/// UDP-Lite, RFC 3828.
pub const UDP_LITE: u8 = 136;

/// MPLS in IP, RFC 4023.
pub const MPLS: u8 = 137;

/// Whether the protocol's header begins with a source port and a destination port of 16 bits each.
#[inline]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}
