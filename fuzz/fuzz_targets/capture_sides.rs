//! `harnesses::capture_sides`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("capture_sides", data));
