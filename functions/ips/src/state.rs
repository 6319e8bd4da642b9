//! What an instance hands over to the next: connections that were found suspicious.
//!
//! An entry's key is the protocol (1 byte), the VLAN (2 bytes), and both ends, each with a port (2 bytes) and
//! an address (16 bytes, IPv4 mapped); its value since when (8 bytes, nanoseconds since the Unix epoch) and
//! how often it was told (1 byte). Numbers are little-endian.

use crate::connections::Connections;
use crate::segment::Key;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use nf_sdk::{Nanos, StateReader, StateWriter};
use packet::protocol;

/// Bytes of an end.
const END: usize = 18;

/// Writes it.
pub(crate) fn export(connections: &Connections, out: &mut StateWriter<'_>) -> bool {
    connections.all().all(|(key, connection)| {
        let mut bytes = Vec::from([key.protocol]);
        bytes.extend(key.vlan.to_le_bytes());
        for (address, port) in key.ends {
            bytes.extend(port.to_le_bytes());
            bytes.extend(match address {
                IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
                IpAddr::V6(six) => six.octets(),
            });
        }
        let mut value = connection.since.0.to_le_bytes().to_vec();
        value.push(connection.told);
        out.entry(&bytes, &value)
    })
}

fn end(bytes: &[u8]) -> Option<(IpAddr, u16)> {
    let (port, address) = bytes.split_first_chunk::<2>()?;
    let address = Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?);
    let address = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
    Some((address, u16::from_le_bytes(*port)))
}

fn read(key: &[u8], value: &[u8]) -> Option<(Key, Nanos, u8)> {
    let (&[protocol @ (protocol::TCP | protocol::UDP), a, b], ends) = key.split_first_chunk::<3>()? else {
        return None;
    };
    let (first, second) = ends.split_at_checked(END)?;
    let mut ends = [end(first)?, end(second)?];
    ends.sort();
    let (since, &[told]) = value.split_first_chunk::<8>()? else { return None };
    let key = Key { protocol, vlan: u16::from_le_bytes([a, b]), ends };
    Some((key, Nanos(u64::from_le_bytes(*since)), told))
}

/// Takes it over; false for anything that [`export`] does not write.
pub(crate) fn import(connections: &mut Connections, entries: &mut StateReader<'_>) -> bool {
    while let Some((key, value)) = entries.next() {
        let Some((key, since, told)) = read(key, value) else { return false };
        connections.restore(key, since, told);
    }
    !entries.is_broken()
}
