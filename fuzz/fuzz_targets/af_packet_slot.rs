//! `harnesses::af_packet_slot`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("af_packet_slot", data));
