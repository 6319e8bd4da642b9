//! What a case says of the devices behind the function's interfaces.

use crate::read::Reader;
use nf_abi::{DeviceEntry, NeighbourState};
use schema::Value;
use yaml_document::{Fault, Location};

impl Reader<'_> {
    /// The entries that the function reads, in their order.
    pub(crate) fn devices(
        &self,
        place: &Location<'_>,
        values: &Value,
        faults: &mut Vec<Fault>,
    ) -> Vec<DeviceEntry> {
        let list = values.get("devices").and_then(Value::as_list).unwrap_or_default();
        let mut entries = Vec::new();
        for (n, device) in list.iter().enumerate() {
            let name = device.get("interface").and_then(Value::as_text).unwrap_or_default();
            if let Some(interface) =
                self.interface(&place.item(n, place.position()), "interface", name, faults)
            {
                entries.extend(device_entries(interface, device));
            }
        }
        // As the platform has them: by interface, kind and address.
        entries.sort_by_key(|entry| {
            let wire = entry.encode();
            (u16::from_le_bytes([wire[2], wire[3]]), wire[0], wire[1], wire[16..].to_vec())
        });
        entries
    }
}

fn device_entries(interface: u16, device: &Value) -> Vec<DeviceEntry> {
    let list = |key| device.get(key).and_then(Value::as_list).unwrap_or_default();
    let number = |value: &Value, key| value.get(key).and_then(Value::as_integer).unwrap_or_default();
    let mac = |value: &Value| value.get("mac").and_then(Value::as_mac).unwrap_or_default();
    let address = |value: &Value| value.get("address").and_then(Value::as_address);
    let mut entries = vec![DeviceEntry::Interface {
        interface,
        is_up: device.get("up").and_then(Value::as_bool).unwrap_or(true),
        mac: mac(device),
        mtu: u32::try_from(number(device, "mtu")).unwrap_or_default(),
    }];
    entries.extend(list("addresses").iter().filter_map(|own| {
        let prefix = u8::try_from(number(own, "prefix")).unwrap_or_default();
        address(own).map(|address| DeviceEntry::Address { interface, address, prefix })
    }));
    entries.extend(list("neighbours").iter().filter_map(|neighbour| {
        let state = match neighbour.get("state").and_then(Value::as_text) {
            Some("asked") => NeighbourState::Asked,
            Some("unreachable") => NeighbourState::Unreachable,
            _ => NeighbourState::Reachable,
        };
        address(neighbour).map(|address| DeviceEntry::Neighbour {
            interface,
            address,
            state,
            mac: mac(neighbour),
        })
    }));
    let gateways = list("gateways").iter().filter_map(Value::as_address);
    entries.extend(gateways.map(|address| DeviceEntry::Gateway { interface, address }));
    entries
}
