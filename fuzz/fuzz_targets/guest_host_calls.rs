//! `harnesses::guest_host_calls`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("guest_host_calls", data));
