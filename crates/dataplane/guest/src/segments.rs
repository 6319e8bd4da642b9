//! Packets that are still to be cut and have become packets of the other version of IP.

use nf_abi::PacketRecord;
use nf_abi::offload::{GSO_ECN, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4};

/// Bytes that an IPv6 header has more than one of IPv4.
const LONGER: u16 = 20;
/// Least payload of a segment that is made shorter for the longer header.
const LEAST: u16 = 2 * LONGER;

/// Makes the segments that a packet is still to be cut into those of the other version of IP. Segments of
/// TCP that get the longer header have less payload, and are as long as before; datagrams of UDP stay what
/// they are. False, and nothing is changed, when it is not to be cut so.
///
/// Whether its header is of that version is found out where it is cut.
pub fn to_other_version(record: &mut PacketRecord) -> bool {
    match record.gso_type & !GSO_ECN {
        GSO_TCPV4 if record.gso_size >= LEAST => record.gso_size -= LONGER,
        GSO_TCPV6 => {}
        kind => return kind == GSO_UDP_L4,
    }
    record.gso_type ^= GSO_TCPV4 ^ GSO_TCPV6;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_become_those_of_the_other_version() {
        for (gso_type, gso_size, expected) in [
            (GSO_TCPV4, 1448, Some((GSO_TCPV6, 1428))),
            (GSO_TCPV4 | GSO_ECN, 1448, Some((GSO_TCPV6 | GSO_ECN, 1428))),
            (GSO_TCPV6, 1428, Some((GSO_TCPV4, 1428))),
            (GSO_TCPV6 | GSO_ECN, 10, Some((GSO_TCPV4 | GSO_ECN, 10))),
            (GSO_UDP_L4, 1472, Some((GSO_UDP_L4, 1472))),
            (GSO_TCPV4, 39, None),
            (0, 1448, None),
            (GSO_ECN, 1448, None),
            (3, 1448, None),
            (0x7f, 1448, None),
        ] {
            let mut record = PacketRecord { gso_type, gso_size, ..PacketRecord::default() };
            assert_eq!(to_other_version(&mut record), expected.is_some(), "{gso_type}");
            assert_eq!((record.gso_type, record.gso_size), expected.unwrap_or((gso_type, gso_size)));
        }
    }
}
