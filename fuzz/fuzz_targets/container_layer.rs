//! `harnesses::container_layer`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("container_layer", data));
