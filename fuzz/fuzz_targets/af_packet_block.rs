//! Any bytes as a block of a receive ring: the walk ends, and no frame leaves the block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use port_af_packet::block::Reader;

fuzz_target!(|block: &[u8]| {
    for vnet in [true, false] {
        let mut reader = Reader::new(block);
        let mut walked = 0;
        while let Ok(Some(frame)) = reader.next(block, vnet) {
            walked += 1;
            assert!(walked <= block.len());
            let (outer, inner) = (block.as_ptr_range(), frame.bytes.as_ptr_range());
            assert!(outer.start <= inner.start && inner.end <= outer.end);
        }
    }
});
