//! Messages of IGMP (RFC 2236, RFC 3376 section 4) and MLD (RFC 2710, RFC 3810 section 5).

use crate::counters::Fault;
use packet::checksum::{self, Endpoints};
use packet::icmpv6::{self, kind};
use packet::{ipv4, ipv6, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use telemetry::clock::Nanos;

const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;
/// A query of version 3, and of MLDv2, at least.
const QUERY_V3_LENGTH: usize = 12;
const QUERY_MLD2_LENGTH: usize = 28;
/// A query of MLD of version 1.
const QUERY_MLD1_LENGTH: usize = 24;

/// How many addresses the records of one report name: what fits into 1,280 bytes.
const RECORDS: usize = 50;

/// Where reports of versions with records go.
pub(crate) const ROUTERS_V3: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
pub(crate) const ROUTERS_MLD2: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// Where it is told that a group is left, before that.
pub(crate) const ROUTERS_V2: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);

/// What a querier, or a report, speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// IGMPv1: nothing is left.
    Oldest,
    /// IGMPv2, MLDv1.
    Older,
    /// IGMPv3, MLDv2.
    Records,
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A question after members: of one group, or of all.
    Query { group: Option<IpAddr>, within: Nanos, version: Version, robustness: Option<u8> },
    /// Another station told that it is a member, in a version in which one member's report is enough.
    Report(IpAddr),
}

/// What a record of a report says of a group, for all its sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Record {
    /// It is joined.
    Is = 2,
    /// It is left from now on.
    Leaves = 3,
    /// It is joined from now on.
    Joins = 4,
}

/// The value of a code with an exponent of three bits and a mantissa of `bits` (RFC 3376 section 4.1.1, RFC
/// 3810 section 5.1.3).
fn decoded(code: u16, bits: u32) -> u64 {
    let code = u64::from(code);
    let marker = 1 << (bits + 3);
    if code < marker {
        return code;
    }
    let (exponent, mantissa) = ((code >> bits) & 7, code & ((1 << bits) - 1));
    (mantissa | 1 << bits) << (exponent + 3)
}

fn robustness(byte: u8) -> Option<u8> {
    Some(byte & 7).filter(|robustness| *robustness > 0)
}

/// Reads a message of IGMP; none for kinds that are of no interest.
pub(crate) fn read_v4(packet: &ipv4::View<'_>) -> Result<Option<Heard>, Fault> {
    let bytes = packet.payload();
    if packet.is_cut() {
        return Err(Fault::Malformed);
    }
    let &[kind, code, _, _, a, b, c, d, ref rest @ ..] = bytes else { return Err(Fault::Malformed) };
    if !packet.verify_checksum() || !checksum::verify(bytes) {
        return Err(Fault::Checksum);
    }
    if packet.ttl() != 1 {
        return Err(Fault::HopLimit);
    }
    let group = Ipv4Addr::from([a, b, c, d]);
    let named = (!group.is_unspecified()).then_some(IpAddr::V4(group));
    if named.is_some() && !group.is_multicast() {
        return Err(Fault::Address);
    }
    let tenths = |count: u64| Nanos::from_millis(count * 100);
    match (kind, named) {
        (QUERY, group) => {
            let (within, version, robustness) = match (rest, code) {
                (&[flags, ..], _) if bytes.len() >= QUERY_V3_LENGTH => {
                    (tenths(decoded(code.into(), 4)), Version::Records, robustness(flags))
                }
                ([], 0) => (tenths(100), Version::Oldest, None),
                ([], code) => (tenths(code.into()), Version::Older, None),
                _ => return Err(Fault::Malformed),
            };
            Ok(Some(Heard::Query { group, within, version, robustness }))
        }
        (REPORT_V1 | REPORT_V2, Some(group)) => Ok(Some(Heard::Report(group))),
        _ => Ok(None),
    }
}

/// Reads a message of MLD; none for kinds that are of no interest. `bytes` is what is behind the extension
/// headers.
pub(crate) fn read_v6(packet: &ipv6::View<'_>, bytes: &[u8]) -> Result<Option<Heard>, Fault> {
    let view = icmpv6::View::new(bytes).map_err(|_| Fault::Malformed)?;
    if packet.is_cut() {
        return Err(Fault::Malformed);
    }
    let (from, to) = (packet.source(), packet.destination());
    if !view.verify_checksum(&Endpoints::V6 { source: from, destination: to }) {
        return Err(Fault::Checksum);
    }
    if packet.hop_limit() != 1 || !has_router_alert(packet) {
        return Err(Fault::HopLimit);
    }
    let (group, rest) = view.payload().split_first_chunk::<16>().ok_or(Fault::Malformed)?;
    let group = Ipv6Addr::from(*group);
    let named = (!group.is_unspecified()).then_some(IpAddr::V6(group));
    let [high, low, ..] = view.rest();
    let code = u16::from_be_bytes([high, low]);
    match (view.kind(), named) {
        (kind::LISTENER_QUERY, named) => {
            if !from.is_unicast_link_local() || (named.is_some() && !group.is_multicast()) {
                return Err(Fault::Address);
            }
            let (within, version, robustness) = match rest {
                &[flags, ..] if bytes.len() >= QUERY_MLD2_LENGTH => {
                    (decoded(code, 12), Version::Records, robustness(flags))
                }
                [] if bytes.len() == QUERY_MLD1_LENGTH => (code.into(), Version::Older, None),
                _ => return Err(Fault::Malformed),
            };
            let within = Nanos::from_millis(within);
            Ok(Some(Heard::Query { group: named, within, version, robustness }))
        }
        (kind::LISTENER_REPORT, Some(group)) if group.is_multicast() => Ok(Some(Heard::Report(group))),
        (kind::LISTENER_REPORT, _) => Err(Fault::Address),
        _ => Ok(None),
    }
}

/// Whether hop-by-hop options have the router alert (RFC 2711), as all of MLD has to.
fn has_router_alert(packet: &ipv6::View<'_>) -> bool {
    let payload = packet.payload();
    if packet.next_header() != protocol::HOP_BY_HOP {
        return false;
    }
    let end = payload.get(1).map_or(0, |units| 8 + usize::from(*units) * 8);
    let mut options = payload.get(2..end).unwrap_or(&[]);
    loop {
        match *options {
            [0, ref rest @ ..] => options = rest,
            [5, 2, 0, 0, ..] => return true,
            [_, length, ref rest @ ..] => options = rest.get(usize::from(length)..).unwrap_or(&[]),
            _ => return false,
        }
    }
}

/// Reports with these records: as many messages as it takes, each without a header in front.
pub(crate) fn report_v4(records: &[(Ipv4Addr, Record)]) -> Vec<Vec<u8>> {
    let message = |records: &[(Ipv4Addr, Record)]| {
        let mut bytes = vec![REPORT_V3, 0, 0, 0, 0, 0, 0, records.len() as u8];
        for (group, record) in records {
            bytes.extend([*record as u8, 0, 0, 0]);
            bytes.extend(group.octets());
        }
        summed(bytes)
    };
    records.chunks(RECORDS).map(message).collect()
}

/// The same for MLD: what is behind the header of ICMPv6, whose last two bytes are the number of records.
pub(crate) fn report_v6(records: &[(Ipv6Addr, Record)]) -> Vec<(icmpv6::Repr, Vec<u8>)> {
    let message = |records: &[(Ipv6Addr, Record)]| {
        let mut data = Vec::new();
        for (group, record) in records {
            data.extend([*record as u8, 0, 0, 0]);
            data.extend(group.octets());
        }
        let rest = [0, 0, 0, records.len() as u8];
        (icmpv6::Repr { kind: kind::LISTENER_REPORT_V2, code: 0, rest }, data)
    };
    records.chunks(RECORDS).map(message).collect()
}

/// A message of IGMPv1 or IGMPv2 about one group, and where it goes; none where there is none.
pub(crate) fn older_v4(group: Ipv4Addr, leaves: bool, version: Version) -> Option<(Ipv4Addr, Vec<u8>)> {
    let (kind, to) = match (version, leaves) {
        (Version::Oldest, true) => return None,
        (Version::Oldest, false) => (REPORT_V1, group),
        (_, false) => (REPORT_V2, group),
        (_, true) => (LEAVE, ROUTERS_V2),
    };
    let [a, b, c, d] = group.octets();
    Some((to, summed(vec![kind, 0, 0, 0, a, b, c, d])))
}

/// The message with its checksum.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum::of(&bytes).to_be_bytes();
    if let Some(field) = bytes.get_mut(2..4) {
        field.copy_from_slice(&sum);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_exponents() {
        assert_eq!(
            [1, 127, 128, 143, 144, 255].map(|code| decoded(code, 4)),
            [1, 127, 128, 248, 256, 31_744]
        );
        assert_eq!([0x7fff, 0x8000, 0xffff].map(|code| decoded(code, 12)), [32_767, 32_768, 8_387_584]);
    }

    #[test]
    fn no_report_is_longer_than_the_smallest_mtu() {
        let records = vec![(Ipv6Addr::LOCALHOST, Record::Is); 151];
        let sizes: Vec<usize> = report_v6(&records).iter().map(|(_, data)| data.len()).collect();
        assert_eq!(sizes, [1000, 1000, 1000, 20]);
        assert_eq!(report_v4(&[(Ipv4Addr::LOCALHOST, Record::Is); 51]).len(), 2);
    }
}
