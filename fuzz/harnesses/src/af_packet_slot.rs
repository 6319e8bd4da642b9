//! Any bytes as a slot of a receive ring: no frame leaves the slot.

use port_af_packet::slot::parse;

pub fn run(slot: &[u8]) {
    for vnet in [true, false] {
        if let Ok(frame) = parse(slot, vnet) {
            let (outer, inner) = (slot.as_ptr_range(), frame.bytes.as_ptr_range());
            assert!(outer.start <= inner.start && inner.end <= outer.end);
            assert_eq!(frame.vnet.is_some(), vnet);
        }
    }
}
