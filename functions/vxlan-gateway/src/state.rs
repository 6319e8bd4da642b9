//! What an instance hands over to the next: where addresses were heard. Those of networks that the next one
//! does not have are left out.
//!
//! An entry's key is the VXLAN network (4 bytes) and the address; its value when it was heard (seconds since
//! the Unix epoch, 4 bytes), whether it was answered (1 byte), and the endpoint's address: none on the VLAN
//! side, else 4 or 16 bytes. Numbers are little-endian.

use crate::Gateway;
use crate::endpoints::Place;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::{StateReader, StateWriter};

/// Writes it.
pub(crate) fn export(gateway: &Gateway, out: &mut StateWriter<'_>) -> bool {
    gateway.endpoints.all().all(|(number, address, endpoint)| {
        let Some(network) = gateway.networks.get(number) else { return true };
        let mut key = network.vni.to_le_bytes().to_vec();
        key.extend(address);
        let mut value: Vec<u8> = endpoint.heard.to_le_bytes().to_vec();
        value.push(endpoint.is_answered.into());
        match endpoint.place {
            Place::Local => {}
            Place::Remote(IpAddr::V4(remote)) => value.extend(remote.octets()),
            Place::Remote(IpAddr::V6(remote)) => value.extend(remote.octets()),
        }
        out.entry(&key, &value)
    })
}

/// Takes it over; false for anything that [`export`] does not write.
pub(crate) fn import(gateway: &mut Gateway, entries: &mut StateReader<'_>) -> bool {
    while let Some((key, value)) = entries.next() {
        let Some((vni, address)) = key.split_first_chunk::<4>() else { return false };
        let Ok(address) = <[u8; 6]>::try_from(address) else { return false };
        let Some((&[a, b, c, d, answered @ (0 | 1)], place)) = value.split_first_chunk::<5>() else {
            return false;
        };
        let place = match place {
            [] => Place::Local,
            place => match (<[u8; 4]>::try_from(place), <[u8; 16]>::try_from(place)) {
                (Ok(four), _) => Place::Remote(IpAddr::from(four)),
                (_, Ok(sixteen)) => Place::Remote(IpAddr::from(sixteen)),
                _ => return false,
            },
        };
        let is_usable = match place {
            Place::Local => true,
            Place::Remote(remote) => remote.is_ipv4() == gateway.underlay.settings().local.is_ipv4(),
        };
        if let Some(number) = gateway.networks.of_vni(u32::from_le_bytes(*vni))
            && is_usable
        {
            let heard = u32::from_le_bytes([a, b, c, d]);
            gateway.endpoints.restore(number, address, place, heard, answered == 1);
        }
    }
    !entries.is_broken()
}
