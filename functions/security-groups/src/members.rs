//! Addresses that members of groups learned, on their way to another instance: it judges the connections that
//! it takes over before it is told of the devices.
//!
//! An entry's key: 5 in one byte, then the number of the list, little-endian; its value: the address, 4 or 16
//! bytes. These entries come before those of connections.

use crate::layers::Member;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::{StateReader, StateWriter};

const KIND: u8 = 5;
/// Most of them: as many as the table of devices has entries.
const MOST: usize = 1 << 15;

/// Writes them; false when the host takes no more.
pub fn export(members: &[Member], out: &mut StateWriter<'_>) -> bool {
    members.iter().all(|(address, list)| {
        let [a, b, c, d] = list.to_le_bytes();
        let key = [KIND, a, b, c, d];
        match address {
            IpAddr::V4(address) => out.entry(&key, &address.octets()),
            IpAddr::V6(address) => out.entry(&key, &address.octets()),
        }
    })
}

/// Reads them, and nothing behind them; `None`: one is not what [`export`] writes, or they are too many.
pub fn import(entries: &mut StateReader<'_>) -> Option<Vec<Member>> {
    let mut members = Vec::new();
    while let Some((key, value)) = entries.next() {
        let [KIND, list @ ..] = key else {
            entries.put_back();
            break;
        };
        let list = u32::from_le_bytes(list.try_into().ok()?);
        let address = match value.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(value).ok()?),
            16 => IpAddr::from(<[u8; 16]>::try_from(value).ok()?),
            _ => return None,
        };
        if members.len() == MOST {
            return None;
        }
        members.push((address, list));
    }
    Some(members)
}
