//! `harnesses::load_balancer`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("load_balancer", data));
