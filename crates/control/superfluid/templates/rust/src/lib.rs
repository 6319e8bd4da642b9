//! The network function `NAME`: drops every packet that is longer than a limit, passes the rest.
#![cfg_attr(target_arch = "wasm32", no_std)]

use nf_sdk::{Batch, Config, Error, Nanos, NetworkFunction, Verdict, superfluid_function};

/// Index in the manifest's `drop_reasons`.
const TOO_LONG: u16 = 0;
/// Index in the manifest's `counters`.
const PASSED: u32 = 0;

/// One instance.
pub struct Function {
    longest: usize,
}

impl NetworkFunction for Function {
    fn new(config: &Config) -> Result<Function, Error> {
        // The schema in function.yaml has been checked, so the key is there and in its bounds.
        Ok(Function { longest: config.integer("longest")? as usize })
    }

    fn process(&mut self, batch: &mut Batch<'_>, _now: Nanos) {
        let mut passed = 0;
        for mut packet in batch.packets() {
            // packet.bytes() is the frame from its Ethernet header on.
            if packet.len() > self.longest {
                packet.verdict(Verdict::Drop(TOO_LONG));
            } else {
                packet.verdict(Verdict::Interface(1 - packet.ingress()));
                passed += 1;
            }
        }
        batch.host().counter_add(PASSED, passed);
    }
}

superfluid_function!(Function);
