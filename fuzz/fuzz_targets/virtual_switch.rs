//! `harnesses::virtual_switch`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("virtual_switch", data));
